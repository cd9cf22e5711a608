"""Export of rows to files: CSV, JSON lines and Parquet, for `zenspark journal export` and `zenspark lake export`.

Parquet has the columns as they are. In CSV and JSON lines bytes are texts where they are UTF-8, and base64 otherwise:
then the column is named `<column>_base64`. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

import base64
import csv
import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any, Protocol, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from zenspark.errors import UsageError

EXPORT_FORMATS = ("csv", "jsonl", "parquet")
STANDARD_OUTPUT = "-"
BASE64_SUFFIX = "_base64"


class RowWriter(Protocol):
    """Writes rows to a file."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""


def add_export_flags(parser: ArgumentParser) -> None:
    """Add target and format."""
    parser.add_argument("target", metavar="FILE", help="file to write; - is standard output (csv and jsonl)")
    parser.add_argument(
        "--format", choices=EXPORT_FORMATS, help="format (default: that of the file's name, .csv .jsonl .parquet)"
    )
    parser.add_argument("--force", action="store_true", help="replace a file that exists")


def pick_format(target: str, format_name: str | None, *, force: bool) -> str:
    """Return the format of an export; raises UsageError if it cannot be written there."""
    suffix = Path(target).suffix.removeprefix(".")
    name = format_name or {"json": "jsonl", "ndjson": "jsonl"}.get(suffix, suffix)
    if name not in EXPORT_FORMATS:
        raise UsageError(f"{target}: expected a name that ends in .csv, .jsonl or .parquet, or --format")
    if target == STANDARD_OUTPUT:
        if name == "parquet":
            raise UsageError("--format parquet: expected a file, found standard output")
    elif Path(target).exists() and not force:
        raise UsageError(f"{target}: there is a file already; --force replaces it")
    elif not Path(target).absolute().parent.is_dir():
        raise UsageError(f"{target}: there is no directory {Path(target).absolute().parent}")
    return name


def export_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, target: str, format: str) -> int:
    """Write rows; a file appears under its name when it is complete. Returns the number of rows."""
    rows = 0
    with open_writer(target, format, schema) as writer:
        for batch in batches:
            writer.write(batch)
            rows += batch.num_rows
    return rows


@contextmanager
def open_writer(target: str, format: str, schema: pa.Schema) -> Iterator[RowWriter]:
    """Open a writer of rows with a schema."""
    if target == STANDARD_OUTPUT:
        yield make_text_writer(sys.stdout, format, schema)
        return
    draft = Path(f"{target}.part")
    try:
        if format == "parquet":
            with pq.ParquetWriter(draft, schema, compression="zstd") as writer:
                yield writer
        else:
            with draft.open("w", encoding="utf-8", newline="") as file:
                yield make_text_writer(file, format, schema)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def make_text_writer(file: TextIO, format: str, schema: pa.Schema) -> RowWriter:
    """Make a writer of texts."""
    return CsvWriter(file, schema) if format == "csv" else JsonLinesWriter(file)


class CsvWriter:
    """Writes rows as CSV with a header; a column of bytes has a second one for values that are no text."""

    def __init__(self, file: TextIO, schema: pa.Schema) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._names = list(_column_names(schema))
        self._writer.writerow(self._names)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        for row in batch.to_pylist():
            plain = to_plain(row)
            self._writer.writerow(["" if plain.get(name) is None else plain[name] for name in self._names])


class JsonLinesWriter:
    """Writes a JSON object per row."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self._file.writelines(f"{json.dumps(to_plain(row), ensure_ascii=False)}\n" for row in batch.to_pylist())


def _column_names(schema: pa.Schema) -> Iterator[str]:
    for field in schema:
        yield field.name
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            yield f"{field.name}{BASE64_SUFFIX}"


def to_plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with values that JSON has; empty values are left out."""
    document: dict[str, Any] = {}
    for name, value in row.items():
        match value:
            case None:
                continue
            case bytes():
                text = as_text(value)
                document[name if text is not None else f"{name}{BASE64_SUFFIX}"] = (
                    base64.b64encode(value).decode() if text is None else text
                )
            case datetime() | date():
                document[name] = value.isoformat()
            case _:
                document[name] = value
    return document


def as_text(value: bytes) -> str | None:
    """Return bytes as text; None if they are none."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if "\0" not in text else None
