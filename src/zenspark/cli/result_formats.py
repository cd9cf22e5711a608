"""Results of queries for programs: CSV, JSON, JSON lines and Parquet.

Bytes are marked, so that they are never taken for text: `{"base64": "..."}` in JSON, `\\x` and hexadecimal digits in
CSV. Times are in ISO 8601 with microseconds and zone.
"""

from __future__ import annotations

import base64
import csv
import json
import math
import sys
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import IO, Any, TypeAlias

import pyarrow as pa

from zenspark.errors import UsageError

Rows: TypeAlias = pa.RecordBatchReader


def write_csv(rows: Rows, output: IO[str]) -> None:
    """Write rows as CSV with a header line."""
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(rows.schema.names)
    for row in _iterate(rows):
        writer.writerow([_csv_cell(value) for value in row])


def write_json(rows: Rows, output: IO[str]) -> None:
    """Write rows as one JSON array of objects."""
    separator = "[\n"
    for text in _json_objects(rows):
        output.write(separator + text)
        separator = ",\n"
    output.write("[]\n" if separator == "[\n" else "\n]\n")


def write_jsonl(rows: Rows, output: IO[str]) -> None:
    """Write rows as JSON objects, one per line."""
    for text in _json_objects(rows):
        output.write(text + "\n")


def write_parquet(rows: Rows, output: IO[str]) -> None:
    """Write rows as a Parquet file."""
    if output.isatty():
        raise UsageError("Parquet is not for a terminal: redirect it, as in --format parquet > result.parquet")
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()  # a pipe has no position, which the writer needs
    with pq.ParquetWriter(sink, rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
    output.flush()
    output.buffer.write(sink.getvalue())  # type: ignore[attr-defined]  # standard output is a wrapper of a byte stream
    output.flush()


WRITERS = {"csv": write_csv, "json": write_json, "jsonl": write_jsonl, "parquet": write_parquet}
"""Writers of the formats for programs, by name."""


def write_rows(rows: Rows, name: str) -> None:
    """Write rows to standard output in a format for programs."""
    WRITERS[name](rows, sys.stdout)


def _iterate(rows: Rows) -> Iterator[tuple[Any, ...]]:
    for batch in rows:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _json_objects(rows: Rows) -> Iterator[str]:
    names = rows.schema.names
    for row in _iterate(rows):
        yield json.dumps(dict(zip(names, map(to_json, row), strict=True)), ensure_ascii=False)


def _csv_cell(value: object) -> object:
    match value:
        case None:
            return ""
        case bytes():
            return f"\\x{value.hex()}"
        case bool():
            return "true" if value else "false"
        case list() | dict():
            return json.dumps(to_json(value), ensure_ascii=False)
        case datetime() | date() | time() | timedelta():
            return to_json(value)
    return value


def to_json(value: object) -> object:
    """Convert a value to a type of JSON."""
    match value:
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"base64": base64.b64encode(value).decode()}
        case datetime():
            zone = "" if value.tzinfo is None else "Z"
            return value.replace(tzinfo=None).isoformat(timespec="microseconds") + zone
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case list():
            return [to_json(item) for item in value]
        case dict():
            return {str(name): to_json(item) for name, item in value.items()}
    return str(value)
