"""Rows into files of a table, by whoever has them as Arrow: a task of Spark, or the driver.

Arrow writes columns as columns, at a fraction of what it costs Spark to write them row by row. Texts are written as
dictionaries, as most repeat; numbers and times as differences, which are small where rows are in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from zenspark.journal.packing import TEXT, WORDS, spelled
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.shapes import Shape

OPEN = 64
"""So many files are open at once at most: with more partitions, every group of rows has files of its own."""
KEPT_TEXT = 64
"""Characters of a text that the log keeps for a file: enough to tell files apart, and a long key makes no long log."""
UNSAFE = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""What Spark does not want in the name of a directory, and writes as `%` and two digits."""
ROWS, BYTES = 1 << 19, 64 << 20
"""How many rows are written together at least, if there are so many, or how many bytes."""
ROWS_AT_ONCE = 1 << 16
"""How many are read at once from a file."""


@dataclass(frozen=True)
class File:
    """A file of a table, with what the log says of it."""

    path: str
    size: int
    rows: int
    partition: Mapping[str, str | None]
    least: Mapping[str, object] = field(default_factory=dict)
    greatest: Mapping[str, object] = field(default_factory=dict)


class _Open(NamedTuple):
    path: str
    partition: Mapping[str, str]
    sink: pa.NativeFile
    writer: pq.ParquetWriter


class Files:
    """New files in a directory of a table, one for each partition."""

    def __init__(self, folder: Folder, shape: Shape, directory: str) -> None:
        self._folder = folder
        self._shape = shape
        self._directory = directory
        self._open: dict[str, _Open] = {}
        self._written: list[File] = []

    def write(self, rows: pa.Table, partition: Mapping[str, str]) -> None:
        """Adds rows to the file of a partition, as a row group."""
        path = "/".join([self._directory, *(f"{name}={escaped(value)}" for name, value in partition.items())])
        file = self._open.get(path) or self._begin(path, partition)
        file.writer.write_table(rows.cast(self._schema), row_group_size=rows.num_rows)

    def end_group(self) -> None:
        """Closes files if there are too many to stay open; what comes next goes into others."""
        if len(self._open) > OPEN:
            self._close()

    def close(self) -> list[File]:
        """Ends all files and describes them."""
        self._close()
        return self._written

    @cached_property
    def _schema(self) -> pa.Schema:
        return spelled(self._shape.columns, WORDS)

    def _begin(self, path: str, partition: Mapping[str, str]) -> _Open:
        name = f"{path}/{uuid4().hex}.parquet"
        sink = self._folder.sink(name)
        self._open[path] = _Open(name, partition, sink, pq.ParquetWriter(sink, self._schema, **self._settings))
        return self._open[path]

    @cached_property
    def _settings(self) -> dict[str, object]:
        columns = self._shape.columns
        texts = [column.name for column in columns if column.type == TEXT]
        differences = {each.name: "DELTA_BINARY_PACKED" for each in columns if _is_counted(each.type)}
        return {
            "compression": "zstd",
            "use_dictionary": texts or False,
            "column_encoding": differences or None,
            "write_statistics": [each.name for each in columns if not pa.types.is_binary(each.type)],
            "store_schema": False,  # a reader is to see texts, however they were written
        }

    def _close(self) -> None:
        for file in self._open.values():
            file.writer.close()
            size = file.sink.tell()
            file.sink.close()
            footer = file.writer.writer.metadata
            least, greatest = limits(footer, self._shape.described)
            self._written.append(File(file.path, size, footer.num_rows, file.partition, least, greatest))
        self._open = {}


def batches_of(
    folder: Folder, file: File, shape: Shape, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, texts as dictionaries."""
    names = columns or shape.columns.names
    texts = [name for name in names if shape.columns.field(name).type == TEXT]
    with folder.open(file.path) as source:
        yield from pq.ParquetFile(source, read_dictionary=texts).iter_batches(ROWS_AT_ONCE, columns=names)


def grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in tables of a size that is worth a row group."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS or size >= BYTES:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """One table, each column in one piece."""
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()


def _is_counted(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind))


def escaped(value: str) -> str:
    """A value as Spark has it in the name of a directory."""
    return UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", value)


def limits(footer: pq.FileMetaData, names: Iterable[str]) -> tuple[dict[str, object], dict[str, object]]:
    """The least and greatest values of columns in a Parquet file, as far as its footer tells."""
    columns = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    for name in names:
        groups = [footer.row_group(group).column(columns[name]) for group in range(footer.num_row_groups)]
        known = [group.statistics for group in groups if group.statistics and group.statistics.has_min_max]
        empty = [g for g in groups if g.statistics and g.statistics.null_count == g.num_values]
        if known and len(known) + len(empty) == len(groups):
            least[name] = _shortened(min(statistics.min for statistics in known), "")
            greatest[name] = _shortened(max(statistics.max for statistics in known), chr(0x10FFFF))
    return least, greatest


def _shortened(value: object, behind: str) -> object:
    if isinstance(value, str) and len(value) > KEPT_TEXT:
        return value[:KEPT_TEXT] + behind
    return value
