"""Rows into Parquet files of a table, by what has them as Arrow: a task of Spark, or the driver.

Arrow writes columns as columns, at a fraction of what it costs Spark to write them row by row. Texts are written as
dictionaries, as most repeat; numbers and times as differences, which are small where rows are in order.

A reader fetches whole column chunks of row groups. So that the history of a small key does not read the images beside
it, rows with large payloads are in row groups of their own, behind the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zenspark.journal.block_codec import DICTIONARY_TYPE, TEXT_TYPE, with_text_type
from zenspark.lake.parquet_footer import Numbers
from zenspark.lake.specs import TableSpec
from zenspark.lake.storage_path import StoragePath

MAX_OPEN_FILES = 64
"""Files that a task has open at once: with more partitions, every group of rows has files of its own."""
STATISTICS_CHARACTERS = 64
"""Characters of a text that the log keeps for a file: enough to tell files apart, and a long key makes no long log."""
UNSAFE_PATH_CHARACTERS = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""What Spark does not want in the name of a directory, and writes as `%` and two digits."""
BUFFER_ROWS, BUFFER_BYTES = 1 << 19, 64 << 20
"""How many rows are gathered before they are written, if there are so many, or how many bytes."""
READ_BATCH_ROWS = 1 << 16
"""How many rows are read at once from a file,"""
READ_BATCH_BYTES = 16 << 20
"""and bytes at most, about, where rows are large."""
MAX_ROW_GROUP_ROWS = 1 << 17
"""Rows in a row group at most: what a reader that wants one of them has to decode."""
MAX_ROW_GROUP_PAYLOAD_BYTES = 64 << 20
"""Bytes of payloads in a row group at most, of rows in the order of their arrival."""
TARGET_PAGE_BYTES = 1 << 20
"""Bytes in a page of a column, about: the least that a reader with a page index decodes."""
WRITE_BATCH_ROWS = 1024
"""Rows after which a page may end: with large payloads a page is as long as so many of them."""
LARGE_PAYLOAD_BYTES = 4 << 10
"""From so many bytes on a payload is in a row group with others of its kind."""


class RowGroupSizes(NamedTuple):
    """How much is in a row group at most: rows, and bytes of payloads, small ones and large ones; and in a page."""

    rows: int = MAX_ROW_GROUP_ROWS
    small_bytes: int = MAX_ROW_GROUP_PAYLOAD_BYTES
    large_bytes: int = MAX_ROW_GROUP_PAYLOAD_BYTES
    page_bytes: int = TARGET_PAGE_BYTES
    batch_rows: int = WRITE_BATCH_ROWS


ARRIVAL_ORDER_SIZES = RowGroupSizes()
"""Row groups of rows in the order of their arrival: every key is in every group, so they need not be small."""
KEY_ORDER_SIZES = RowGroupSizes(small_bytes=8 << 20, large_bytes=32 << 20, page_bytes=16 << 10, batch_rows=128)
"""Row groups of rows in the order of keys: their pages are small, so that one key's history reads little else; more
and smaller groups would make the footer, which every reader reads, larger than that history."""


class DataFile:
    """A file of a table, with what the log says of it. Statistics are decoded when they are asked for."""

    __slots__ = ("_decoded_stats", "partition", "path", "size", "stats", "tags", "types", "version")

    def __init__(
        self,
        path: str,
        size: int,
        rows: int,
        partition: Mapping[str, str | None],
        min_values: Mapping[str, object] | None = None,
        max_values: Mapping[str, object] | None = None,
        null_counts: Mapping[str, int] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """A file that was written here; `nulls` says how many rows of a column have no value."""
        self.path = path
        self.size = size
        self.partition = partition
        self.stats: str | None = encode_stats(rows, min_values or {}, max_values or {}, null_counts or {})
        self.types: Mapping[str, pa.DataType] = {}
        self.version = 0
        self.tags = tags or {}
        self._decoded_stats: _FileStats | None = _FileStats(rows, min_values or {}, max_values or {}, null_counts or {})

    @classmethod
    def from_log(
        cls,
        path: str,
        size: int,
        partition: Mapping[str, str | None],
        stats: str | None,
        types: Mapping[str, pa.DataType],
        version: int,
        tags: Mapping[str, str] | None = None,
    ) -> DataFile:
        """A file as a log has it, added at a version; `types` are those of the columns with statistics."""
        found = cls.__new__(cls)
        found.path, found.size, found.partition, found.stats = path, size, partition, stats
        found.types, found.version, found.tags = types, version, tags or {}
        found._decoded_stats = None
        return found

    @property
    def _file_stats(self) -> _FileStats:
        if self._decoded_stats is None:
            self._decoded_stats = _decode_stats(self.stats, self.types)
        return self._decoded_stats

    @property
    def rows(self) -> int:
        """How many rows it has; 0 where the writer did not say."""
        return self._file_stats.rows

    @property
    def min_values(self) -> Mapping[str, Any]:
        """The least value of each column that has statistics: other writers may give none."""
        return self._file_stats.min_values

    @property
    def max_values(self) -> Mapping[str, Any]:
        """The greatest value of each column that has statistics."""
        return self._file_stats.max_values

    @property
    def null_counts(self) -> Mapping[str, int]:
        """How many rows have no value, of each column that has statistics."""
        return self._file_stats.null_counts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataFile) and (self.path, self.size) == (other.path, other.size)

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"File({self.path!r}, {self.size}, {self.rows})"


class _FileStats(NamedTuple):
    rows: int
    min_values: Mapping[str, Any]
    max_values: Mapping[str, Any]
    null_counts: Mapping[str, int]


# --- statistics -------------------------------------------------------------------------------------------------------


def encode_stats(
    rows: int, min_values: Mapping[str, object], max_values: Mapping[str, object], null_counts: Mapping[str, int]
) -> str:
    """Statistics as they stand in the log."""
    said = {
        "numRecords": rows,
        "minValues": {name: _to_json_value(value) for name, value in min_values.items() if value is not None},
        "maxValues": {name: _to_json_value(value) for name, value in max_values.items() if value is not None},
        "nullCount": dict(null_counts),
    }
    # characters as they are: readers have been seen to take the two halves of an escaped one for another character
    return json.dumps(said, ensure_ascii=False)


def _to_json_value(value: object) -> object:
    match value:
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case date():
            return value.isoformat()
    return value


def _decode_stats(stats: str | None, types: Mapping[str, pa.DataType]) -> _FileStats:
    try:
        said = msgspec.json.decode(stats) if stats else {}
        return _FileStats(
            int(said.get("numRecords") or 0),
            {
                name: _from_json_value(value, types[name])
                for name, value in (said.get("minValues") or {}).items()
                if name in types
            },
            {
                name: _widen_max(_from_json_value(value, types[name]))
                for name, value in (said.get("maxValues") or {}).items()
                if name in types
            },
            {name: int(count) for name, count in (said.get("nullCount") or {}).items() if name in types},
        )
    except (msgspec.DecodeError, ValueError, TypeError, AttributeError):
        return _FileStats(0, {}, {}, {})  # statistics are a help: what cannot be read helps nothing


def _from_json_value(value: Any, kind: pa.DataType) -> object:  # noqa: ANN401 - whatever JSON has
    if pa.types.is_timestamp(kind):
        time = datetime.fromisoformat(value)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    return value


def _widen_max(value: object) -> object:
    """A greatest value: a time in whole milliseconds may have been cut down to these, as other writers do."""
    if isinstance(value, datetime) and value.microsecond % 1000 == 0:
        return value + timedelta(microseconds=999)
    return value


def read_min_max(footer: pq.FileMetaData, names: Iterable[str]) -> tuple[dict[str, object], dict[str, object]]:
    """The least and greatest values of columns in a Parquet file, as far as its footer tells."""
    columns = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    min_values: dict[str, object] = {}
    max_values: dict[str, object] = {}
    for name in names:
        groups = [footer.row_group(group).column(columns[name]) for group in range(footer.num_row_groups)]
        known = [group.statistics for group in groups if group.statistics and group.statistics.has_min_max]
        empty = [g for g in groups if g.statistics and g.statistics.null_count == g.num_values]
        if known and len(known) + len(empty) == len(groups):
            min_values[name] = _truncate_text(min(statistics.min for statistics in known), "")
            max_values[name] = _truncate_text(max(statistics.max for statistics in known), chr(0x10FFFF))
    return min_values, max_values


def read_null_counts(footer: pq.FileMetaData, names: Iterable[str]) -> dict[str, int]:
    """How many rows have no value in a column."""
    columns = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    found: dict[str, int] = {}
    for name in names:
        groups = [footer.row_group(group).column(columns[name]).statistics for group in range(footer.num_row_groups)]
        if all(each is not None and each.has_null_count for each in groups):
            found[name] = sum(each.null_count for each in groups)
    return found


def _truncate_text(value: object, behind: str) -> object:
    if isinstance(value, str) and len(value) > STATISTICS_CHARACTERS:
        return value[:STATISTICS_CHARACTERS] + behind
    return value


# --- to write ---------------------------------------------------------------------------------------------------------


class _OpenFile(NamedTuple):
    path: str
    partition: Mapping[str, str]
    sink: pa.NativeFile
    writer: pq.ParquetWriter


class DataFileWriter:
    """New files of a table, one for each partition: `<partition>/part-<label>-<random>.parquet`."""

    def __init__(
        self,
        location: StoragePath,
        spec: TableSpec,
        label: str,
        sizes: RowGroupSizes = ARRIVAL_ORDER_SIZES,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """`label` says in the names of the files what wrote them; `tags` are what the log keeps for each of them."""
        self._location = location
        self._columns = spec.columns
        self._stats_columns = spec.stats_columns
        self._tags = tags
        self._label = label
        self._sizes = sizes
        self._open: dict[str, _OpenFile] = {}
        self._written: list[DataFile] = []

    def write(self, rows: pa.Table, partition: Mapping[str, str], order: Numbers | None = None) -> None:
        """Add rows to the file of a partition, as row groups; in the order of these row numbers, if there are any."""
        path = "/".join(f"{name}={escape_path_value(value)}" for name, value in partition.items())
        file = self._open.get(path) or self._begin(path, partition)
        for group in split_into_row_groups(rows.cast(self._schema), self._sizes, order):
            file.writer.write_table(compact_dictionaries(group), row_group_size=group.num_rows)

    def roll_over(self) -> None:
        """Close files if there are too many to stay open; what comes next goes into others."""
        if len(self._open) > MAX_OPEN_FILES:
            self._close()

    def close(self) -> list[DataFile]:
        """End all files and describe them."""
        self._close()
        return self._written

    def discard(self) -> None:
        """Remove everything that was written: after an error nothing is left behind."""
        for file in self._open.values():
            with suppress(pa.ArrowException, OSError):
                file.writer.close()
            with suppress(OSError):
                file.sink.close()
        for path in [*(file.path for file in self._open.values()), *(file.path for file in self._written)]:
            self._location.remove(path)
        self._open, self._written = {}, []

    @cached_property
    def _schema(self) -> pa.Schema:
        return with_text_type(self._columns, DICTIONARY_TYPE)

    def _begin(self, path: str, partition: Mapping[str, str]) -> _OpenFile:
        name = f"{path}/" * bool(path) + f"part-{self._label}-{uuid4().hex}.parquet"
        sink = self._location.open_output(name)
        self._open[path] = _OpenFile(name, partition, sink, pq.ParquetWriter(sink, self._schema, **self._settings))
        return self._open[path]

    @cached_property
    def _settings(self) -> dict[str, object]:
        columns = self._columns
        texts = [column.name for column in columns if column.type == TEXT_TYPE]
        differences = {each.name: "DELTA_BINARY_PACKED" for each in columns if _is_delta_encoded(each.type)}
        return {
            "compression": "zstd",
            "use_dictionary": texts or False,
            "column_encoding": differences or None,
            "write_statistics": list(self._stats_columns) or True,
            "write_page_index": True,
            "data_page_size": self._sizes.page_bytes,
            "write_batch_size": self._sizes.batch_rows,
            "store_schema": False,  # a reader is to see texts, however they were written
        }

    def _close(self) -> None:
        for file in self._open.values():
            file.writer.close()
            size = file.sink.tell()
            file.sink.close()
            footer = file.writer.writer.metadata
            min_values, max_values = read_min_max(footer, self._stats_columns)
            null_counts = read_null_counts(footer, self._stats_columns)
            self._written.append(
                DataFile(
                    file.path, size, footer.num_rows, file.partition, min_values, max_values, null_counts, self._tags
                )
            )
        self._open = {}


def split_into_row_groups(rows: pa.Table, sizes: RowGroupSizes, order: Numbers | None = None) -> Iterator[pa.Table]:
    """Rows as they go into row groups: those with small payloads first, then those with large ones.

    `order` has the numbers of the rows in the order in which they are to be written. They are put into it group by
    group, so that no second copy of all rows is made. Columns must be in one piece.
    """
    if "payload" not in rows.schema.names:
        for start in range(0, rows.num_rows, sizes.rows):
            yield _take_rows(rows, order, start, start + sizes.rows)
        return
    lengths = pc.fill_null(pc.binary_length(rows["payload"]), 0).combine_chunks().to_numpy()
    is_large = lengths >= LARGE_PAYLOAD_BYTES
    for mask, most in ((~is_large, sizes.small_bytes), (is_large, sizes.large_bytes)):
        places = order if mask.all() else np.flatnonzero(mask) if order is None else order[mask[order]]
        for start, end in _row_group_bounds(lengths if places is None else lengths[places], sizes.rows, most):
            yield _take_rows(rows, places, start, end)


def _take_rows(rows: pa.Table, places: Numbers | None, start: int, end: int) -> pa.Table:
    """Some of the rows with these numbers, or of all."""
    return rows[start:end] if places is None else rows.take(pa.array(places[start:end]))


def _row_group_bounds(lengths: Numbers, most_rows: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """From which row up to before which other each group goes, by the lengths of payloads."""
    ends = np.cumsum(lengths, dtype=np.int64)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = max(int(np.searchsorted(ends, before + most_bytes, "right")), start + 1)
        end = min(end, start + most_rows)
        yield start, end
        start = end


def compact_dictionaries(rows: pa.Table) -> pa.Table:
    """Rows whose dictionaries have only the values that these rows use, so that a file tells nothing of others."""
    columns = [_compact_column(column) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _compact_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return column
    return pa.chunked_array([_compact_array(chunk) for chunk in column.chunks], column.type)


def _compact_array(array: pa.DictionaryArray) -> pa.DictionaryArray:
    words = len(array.dictionary)
    if words <= 1 and array.null_count < len(array):
        return array
    codes = pc.fill_null(array.indices, 0).to_numpy() if array.null_count else array.indices.to_numpy()
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    used = np.unique(codes if valid is None else codes[valid])
    if len(used) == words:
        return array
    place = np.searchsorted(used, codes)
    indices = pa.array(
        np.minimum(place, max(len(used) - 1, 0)), array.indices.type, mask=None if valid is None else ~valid
    )
    return pa.DictionaryArray.from_arrays(indices, array.dictionary.take(pa.array(used)))


def _is_delta_encoded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind))


def escape_path_value(value: str) -> str:
    """A value as Spark has it in the name of a directory."""
    return UNSAFE_PATH_CHARACTERS.sub(lambda found: f"%{ord(found[0]):02X}", value)


# --- to read ----------------------------------------------------------------------------------------------------------


def read_batches(
    location: StoragePath, file: DataFile, spec: TableSpec, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, texts as dictionaries; columns that the file does not have are null."""
    names = list(columns or spec.columns.names)
    with location.open(file.path) as source:
        yield from _iter_batches(source, names, spec.columns)


def _iter_batches(source: pa.NativeFile, names: list[str], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    footer = pq.read_metadata(source)
    there = set(footer.schema.to_arrow_schema().names)
    own = [name for name in names if name in there]
    texts = [name for name in own if wanted.field(name).type == TEXT_TYPE]
    file = pq.ParquetFile(source, metadata=footer, read_dictionary=texts)
    schema = with_text_type(pa.schema([wanted.field(name) for name in names]), DICTIONARY_TYPE)
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        rows = READ_BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1)
        for batch in file.iter_batches(min(max(rows, 1), READ_BATCH_ROWS), row_groups=[number], columns=own):
            yield conform_to_schema(batch, schema)


def conform_to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows with exactly the columns of a schema: another tool may have written other types, or left some out."""
    if batch.schema.equals(schema):
        return batch
    there = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns = [_conform_array(there.get(each.name), each.type, batch.num_rows) for each in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _conform_array(array: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    if array is None:
        return pa.nulls(rows, kind)
    if array.type == kind:
        return array
    if kind == DICTIONARY_TYPE and not pa.types.is_dictionary(array.type):
        return array.cast(TEXT_TYPE).dictionary_encode().cast(DICTIONARY_TYPE)
    return array.cast(kind)


def group_batches(
    batches: Iterable[pa.RecordBatch], most_rows: int = BUFFER_ROWS, most_bytes: int = BUFFER_BYTES
) -> Iterator[pa.Table]:
    """The same rows in tables of a size that is worth a row group, or larger; each column in one piece.

    Rows in memory are those of one table, and of one column twice while they are put together, as long as the caller
    lets go of a table before it takes the next one.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= most_rows or size >= most_bytes:
            yield concat_batches(waiting)
            rows = size = 0
    if waiting:
        yield concat_batches(waiting)


def concat_batches(batches: list[pa.RecordBatch]) -> pa.Table:
    """One table, each column in one piece.

    The batches are taken out of the list, so that of each column the pieces are freed when they have been put together.
    """
    schema = batches[0].schema
    pieces = [list(column) for column in zip(*(batch.columns for batch in batches), strict=True)]
    batches.clear()
    return pa.Table.from_arrays(
        [_concat_arrays(own, each.type) for own, each in zip(pieces, schema, strict=True)], schema=schema
    )


def _concat_arrays(pieces: list[pa.Array], kind: pa.DataType) -> pa.Array:
    column = pa.chunked_array(pieces, kind)
    pieces.clear()
    return column.unify_dictionaries().combine_chunks()
