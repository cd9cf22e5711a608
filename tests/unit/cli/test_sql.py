"""Output formats of `zenspark sql`; tests/spark/test_sql.py runs queries."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from zenspark.cli import main
from zenspark.cli.sql import FORMATS, MAX_TABLE_ROWS, format_cell

COLUMNS = ["key", "payload", "n"]
ROWS: list[tuple[object, ...]] = [("a/ü", b"text", 1), ("b,c", bytearray(b"\xff\x00"), None)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (b"hello", "hello"),
        (b"\x00\x01", "0001"),
        (b"\xff", "ff"),
        (datetime(2026, 11, 16, 1, 2, 3), "2026-11-16 01:02:03"),
        (1 / 3, "0.333333"),
        (12, "12"),
    ],
)
def test_values_are_shown_for_readers(value: object, text: str) -> None:
    assert format_cell(value) == text


def test_csv(capsys: pytest.CaptureFixture[str]) -> None:
    FORMATS["csv"](COLUMNS, ROWS)
    assert capsys.readouterr().out == 'key,payload,n\na/ü,text,1\n"b,c",ff00,\n'


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    FORMATS["json"](COLUMNS, ROWS)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"key": "a/ü", "payload": "text", "n": 1}, {"key": "b,c", "payload": "ff00", "n": None}]


def test_a_table_ends_with_the_number_of_rows(capsys: pytest.CaptureFixture[str]) -> None:
    FORMATS["table"](COLUMNS, ROWS)
    out = capsys.readouterr().out
    assert "a/ü" in out
    assert out.splitlines()[-1] == "2 rows"
    FORMATS["table"](["n"], ((number,) for number in range(MAX_TABLE_ROWS + 1)))
    assert capsys.readouterr().out.splitlines()[-1] == f"the first {MAX_TABLE_ROWS} rows; --format csv gives all"


def test_where_there_is_no_lake_nothing_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "select 1", "--lake", str(tmp_path)]) == 2
    assert "there is no lake here" in capsys.readouterr().err
