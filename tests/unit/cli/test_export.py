from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from zenspark.cli.export import export_rows, pick_format, to_plain
from zenspark.errors import UsageError

BATCH = pa.record_batch(
    {
        "key": ["a", "b", "c"],
        "payload": pa.array([b"text, \n", b"\xff\x00", None], pa.binary()),
        "received_at": pa.array([datetime(2026, 11, 16, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
    }
)


def test_bytes_are_text_or_base64_and_named_so() -> None:
    first, second, third = BATCH.to_pylist()
    assert to_plain(first) == {"key": "a", "payload": "text, \n", "received_at": "2026-11-16T00:00:00+00:00"}
    assert to_plain(second)["payload_base64"] == "/wA="
    assert set(to_plain(third)) == {"key", "received_at"}


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_other_tools_read_what_is_exported(format: str, tmp_path: Path) -> None:
    target = tmp_path / f"rows.{format}"
    assert export_rows([BATCH, BATCH], BATCH.schema, str(target), pick_format(str(target), None, force=False)) == 6
    with duckdb.connect() as connection:
        found = connection.execute(f"select key, count(*) from '{target}' group by key order by key").fetchall()
    assert found == [("a", 2), ("b", 2), ("c", 2)]
    assert [each.name for each in tmp_path.iterdir()] == [target.name]


def test_csv_has_a_column_for_what_is_no_text(tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    export_rows([BATCH], BATCH.schema, str(target), "csv")
    rows = list(csv.DictReader(io.StringIO(target.read_text())))
    assert [(row["payload"], row["payload_base64"]) for row in rows] == [("text, \n", ""), ("", "/wA="), ("", "")]


def test_rows_are_exported_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert export_rows([BATCH], BATCH.schema, "-", pick_format("-", "jsonl", force=False)) == 3
    assert [json.loads(line)["key"] for line in capsys.readouterr().out.splitlines()] == ["a", "b", "c"]


def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> object:
        yield BATCH
        raise UsageError("damaged")

    with pytest.raises(UsageError, match="damaged"):
        export_rows(broken(), BATCH.schema, str(tmp_path / "rows.csv"), "csv")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("target", "given", "problem"),
    [
        ("rows", None, "expected a name that ends in .csv"),
        ("-", "parquet", "expected a file"),
        ("-", None, "--format"),
        ("none/rows.csv", None, "there is no directory"),
        ("there.csv", None, "--force"),
    ],
)
def test_invalid_export_target_is_rejected(
    target: str, given: str | None, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").touch()
    with pytest.raises(UsageError, match=problem):
        pick_format(target, given, force=False)
    assert pick_format("there.csv", None, force=True) == "csv"
