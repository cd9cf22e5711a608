"""Results for programs."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from zenspark.cli.result_formats import to_json, write_csv, write_json, write_jsonl, write_parquet
from zenspark.errors import UsageError

MOMENT = datetime(2026, 11, 17, 15, 4, 5, 120000, UTC)
ROWS = pa.table(
    {
        "key": ["a/ü", 'b,"c"'],
        "payload": pa.array([b"6162", b"\xff\x00"], pa.binary()),
        "n": pa.array([1, None], pa.int64()),
        "t": pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
        "ok": [True, False],
        "list": [[1], []],
    }
)


def reader(rows: pa.Table = ROWS) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())


def test_csv_has_quoted_text_and_hexadecimal_bytes() -> None:
    out = io.StringIO()
    write_csv(reader(), out)
    assert out.getvalue() == (
        "key,payload,n,t,ok,list\n"
        "a/ü,\\x36313632,1,2026-11-17T15:04:05.120000Z,true,[1]\n"
        '"b,""c""",\\xff00,,,false,[]\n'
    )


def test_json_marks_bytes() -> None:
    out = io.StringIO()
    write_json(reader(), out)
    first, second = json.loads(out.getvalue())
    assert first["payload"] == {"base64": "NjE2Mg=="}
    assert (first["key"], first["n"], first["t"], first["ok"]) == ("a/ü", 1, "2026-11-17T15:04:05.120000Z", True)
    assert second["payload"] == {"base64": "/wA="}
    assert second["n"] is None


def test_jsonl_and_no_rows() -> None:
    out = io.StringIO()
    write_jsonl(reader(), out)
    assert [json.loads(line)["key"] for line in out.getvalue().splitlines()] == ["a/ü", 'b,"c"']
    out = io.StringIO()
    write_json(reader(ROWS[:0]), out)
    assert json.loads(out.getvalue()) == []


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("12"), 12),
        (Decimal("1.5"), 1.5),
        (date(2026, 1, 2), "2026-01-02"),
        ({"a": b"x"}, {"a": {"base64": "eA=="}}),
        (datetime(2026, 1, 2), "2026-01-02T00:00:00.000000"),
    ],
)
def test_special_values_are_converted_to_json(value: object, wanted: object) -> None:
    assert to_json(value) == wanted


def test_parquet_is_not_for_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with pytest.raises(UsageError, match="redirect it"):
        write_parquet(reader(), Terminal())
