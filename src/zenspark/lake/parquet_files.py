"""Parquet data files of a table: written from and read to Arrow, in Spark tasks and in the driver.

Arrow writes columns directly, at a fraction of the cost of Spark's row-by-row writer. Texts are dictionary-encoded,
because most repeat; numbers and times delta-encoded, because differences are small where rows are sorted.

A reader fetches whole column chunks of row groups. So that the history of a key with small payloads does not read the
images beside it, rows with large payloads are in separate row groups, after the others.
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
"""Files that a task has open at once: with more partitions, each buffer of rows goes to new files."""
STATISTICS_CHARACTERS = 64
"""Characters of a text in the statistics of the log: enough for pruning, while a long key makes no long log."""
UNSAFE_PATH_CHARACTERS = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""Characters that Spark escapes in directory names, as `%` and two hexadecimal digits."""
BUFFER_ROWS, BUFFER_BYTES = 1 << 19, 64 << 20
"""Rows, or bytes, that are buffered before they are written."""
READ_BATCH_ROWS = 1 << 16
"""Maximum rows of a batch that is read from a file."""
READ_BATCH_BYTES = 16 << 20
"""Approximate maximum of bytes of a batch that is read from a file, where rows are large."""
MAX_ROW_GROUP_ROWS = 1 << 17
"""Maximum rows of a row group: a reader that needs one of them may have to decode all."""
MAX_ROW_GROUP_PAYLOAD_BYTES = 64 << 20
"""Maximum bytes of payloads in a row group, for rows in order of arrival."""
TARGET_PAGE_BYTES = 1 << 20
"""Approximate bytes of a page: the unit that a reader with a page index decodes."""
WRITE_BATCH_ROWS = 1024
"""Rows after which a page may end: the minimum length of a page with large payloads."""
LARGE_PAYLOAD_BYTES = 4 << 10
"""Size from which a payload goes to the row groups of large payloads."""


class RowGroupSizes(NamedTuple):
    """Size limits of row groups: rows, bytes of small and of large payloads; and of pages."""

    rows: int = MAX_ROW_GROUP_ROWS
    small_bytes: int = MAX_ROW_GROUP_PAYLOAD_BYTES
    large_bytes: int = MAX_ROW_GROUP_PAYLOAD_BYTES
    page_bytes: int = TARGET_PAGE_BYTES
    batch_rows: int = WRITE_BATCH_ROWS


ARRIVAL_ORDER_SIZES = RowGroupSizes()
"""Sizes for rows in order of arrival: every row group has every key, so small ones would not help."""
KEY_ORDER_SIZES = RowGroupSizes(small_bytes=8 << 20, large_bytes=32 << 20, page_bytes=16 << 10, batch_rows=128)
"""Sizes for rows sorted by key: pages are small, so that the history of one key reads little else; more and smaller
row groups would make the footer, which every reader reads, larger than that history."""


class DataFile:
    """A data file of a table with its metadata in the log. Statistics are decoded on first use."""

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
        """Describe a file that this process has written; `null_counts` has the number of nulls by column."""
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
        """Describe a file that the log added at a version; `types` are those of the columns with statistics."""
        file = cls.__new__(cls)
        file.path, file.size, file.partition, file.stats = path, size, partition, stats
        file.types, file.version, file.tags = types, version, tags or {}
        file._decoded_stats = None
        return file

    @property
    def _file_stats(self) -> _FileStats:
        if self._decoded_stats is None:
            self._decoded_stats = _decode_stats(self.stats, self.types)
        return self._decoded_stats

    @property
    def rows(self) -> int:
        """Number of rows; 0 if the log does not have it."""
        return self._file_stats.rows

    @property
    def min_values(self) -> Mapping[str, Any]:
        """Minimum by column, for columns with statistics; other writers may omit them."""
        return self._file_stats.min_values

    @property
    def max_values(self) -> Mapping[str, Any]:
        """Maximum by column, for columns with statistics."""
        return self._file_stats.max_values

    @property
    def null_counts(self) -> Mapping[str, int]:
        """Number of nulls by column, for columns with statistics."""
        return self._file_stats.null_counts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataFile) and (self.path, self.size) == (other.path, other.size)

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"DataFile({self.path!r}, {self.size}, {self.rows})"


class _FileStats(NamedTuple):
    """Statistics of a data file for the log: rows, and bounds and nulls by column."""

    rows: int
    min_values: Mapping[str, Any]
    max_values: Mapping[str, Any]
    null_counts: Mapping[str, int]


# --- statistics -------------------------------------------------------------------------------------------------------


def encode_stats(
    rows: int, min_values: Mapping[str, object], max_values: Mapping[str, object], null_counts: Mapping[str, int]
) -> str:
    """Encode statistics as the JSON text of the log."""
    stats = {
        "numRecords": rows,
        "minValues": {name: _to_json_value(value) for name, value in min_values.items() if value is not None},
        "maxValues": {name: _to_json_value(value) for name, value in max_values.items() if value is not None},
        "nullCount": dict(null_counts),
    }
    # not ASCII-escaped: some readers decode the two halves of a surrogate pair as separate characters
    return json.dumps(stats, ensure_ascii=False)


def _to_json_value(value: object) -> object:
    match value:
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case date():
            return value.isoformat()
    return value


def _decode_stats(stats: str | None, types: Mapping[str, pa.DataType]) -> _FileStats:
    try:
        decoded = msgspec.json.decode(stats) if stats else {}
        return _FileStats(
            int(decoded.get("numRecords") or 0),
            {
                name: _from_json_value(value, types[name])
                for name, value in (decoded.get("minValues") or {}).items()
                if name in types
            },
            {
                name: _widen_max(_from_json_value(value, types[name]))
                for name, value in (decoded.get("maxValues") or {}).items()
                if name in types
            },
            {name: int(count) for name, count in (decoded.get("nullCount") or {}).items() if name in types},
        )
    except (msgspec.DecodeError, ValueError, TypeError, AttributeError):
        return _FileStats(0, {}, {}, {})  # invalid statistics prune nothing


def _from_json_value(value: Any, kind: pa.DataType) -> object:  # noqa: ANN401 - any JSON value
    if pa.types.is_timestamp(kind):
        time = datetime.fromisoformat(value)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    return value


def _widen_max(value: object) -> object:
    """Widen a maximum: other writers may have truncated a time to milliseconds."""
    if isinstance(value, datetime) and value.microsecond % 1000 == 0:
        return value + timedelta(microseconds=999)
    return value


def read_min_max(footer: pq.FileMetaData, names: Iterable[str]) -> tuple[dict[str, object], dict[str, object]]:
    """Minimum and maximum of columns of a Parquet file, for those with statistics in its footer."""
    columns = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    min_values: dict[str, object] = {}
    max_values: dict[str, object] = {}
    for name in names:
        groups = [footer.row_group(group).column(columns[name]) for group in range(footer.num_row_groups)]
        bounds = [group.statistics for group in groups if group.statistics and group.statistics.has_min_max]
        empty = [g for g in groups if g.statistics and g.statistics.null_count == g.num_values]
        if bounds and len(bounds) + len(empty) == len(groups):
            min_values[name] = _truncate_text(min(statistics.min for statistics in bounds), "")
            max_values[name] = _truncate_text(max(statistics.max for statistics in bounds), chr(0x10FFFF))
    return min_values, max_values


def read_null_counts(footer: pq.FileMetaData, names: Iterable[str]) -> dict[str, int]:
    """Number of nulls of columns of a Parquet file, for those with statistics in its footer."""
    columns = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    counts: dict[str, int] = {}
    for name in names:
        groups = [footer.row_group(group).column(columns[name]).statistics for group in range(footer.num_row_groups)]
        if all(statistics is not None and statistics.has_null_count for statistics in groups):
            counts[name] = sum(statistics.null_count for statistics in groups)
    return counts


def _truncate_text(value: object, suffix: str) -> object:
    if isinstance(value, str) and len(value) > STATISTICS_CHARACTERS:
        return value[:STATISTICS_CHARACTERS] + suffix
    return value


# --- write ------------------------------------------------------------------------------------------------------------


class _OpenFile(NamedTuple):
    """Data file of one partition that is being written."""

    path: str
    partition: Mapping[str, str]
    sink: pa.NativeFile
    writer: pq.ParquetWriter


class DataFileWriter:
    """Writes data files of a table, one per partition: `<partition>/part-<label>-<random>.parquet`."""

    def __init__(
        self,
        location: StoragePath,
        spec: TableSpec,
        label: str,
        sizes: RowGroupSizes = ARRIVAL_ORDER_SIZES,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Take a label for the file names, and the tags of each file in the log."""
        self._location = location
        self._columns = spec.columns
        self._stats_columns = spec.stats_columns
        self._tags = tags
        self._label = label
        self._sizes = sizes
        self._open: dict[str, _OpenFile] = {}
        self._written: list[DataFile] = []

    def write(self, rows: pa.Table, partition: Mapping[str, str], order: Numbers | None = None) -> None:
        """Append rows to the file of a partition as row groups; `order` has row numbers in the order to write them."""
        path = "/".join(f"{name}={escape_path_value(value)}" for name, value in partition.items())
        file = self._open.get(path) or self._open_file(path, partition)
        for group in split_into_row_groups(rows.cast(self._schema), self._sizes, order):
            file.writer.write_table(compact_dictionaries(group), row_group_size=group.num_rows)

    def roll_over(self) -> None:
        """Close all files if too many are open; further rows go to new files."""
        if len(self._open) > MAX_OPEN_FILES:
            self._close()

    def close(self) -> list[DataFile]:
        """Close all files and return their metadata."""
        self._close()
        return self._written

    def discard(self) -> None:
        """Delete all files that were written, after an error."""
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

    def _open_file(self, path: str, partition: Mapping[str, str]) -> _OpenFile:
        name = f"{path}/" * bool(path) + f"part-{self._label}-{uuid4().hex}.parquet"
        sink = self._location.open_output(name)
        self._open[path] = _OpenFile(name, partition, sink, pq.ParquetWriter(sink, self._schema, **self._settings))
        return self._open[path]

    @cached_property
    def _settings(self) -> dict[str, object]:
        columns = self._columns
        texts = [column.name for column in columns if column.type == TEXT_TYPE]
        encodings = {column.name: "DELTA_BINARY_PACKED" for column in columns if _is_delta_encoded(column.type)}
        return {
            "compression": "zstd",
            "use_dictionary": texts or False,
            "column_encoding": encodings or None,
            "write_statistics": list(self._stats_columns) or True,
            "write_page_index": True,
            "data_page_size": self._sizes.page_bytes,
            "write_batch_size": self._sizes.batch_rows,
            "store_schema": False,  # readers see plain strings, not dictionaries
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
    """Split rows into row groups: those with small payloads first, then those with large ones.

    `order` has row numbers in the order to write them. Rows are taken group by group, so that there is no second copy
    of all rows. Columns must have one chunk.
    """
    if "payload" not in rows.schema.names:
        for start in range(0, rows.num_rows, sizes.rows):
            yield _take_rows(rows, order, start, start + sizes.rows)
        return
    lengths = pc.fill_null(pc.binary_length(rows["payload"]), 0).combine_chunks().to_numpy()
    is_large = lengths >= LARGE_PAYLOAD_BYTES
    for mask, max_bytes in ((~is_large, sizes.small_bytes), (is_large, sizes.large_bytes)):
        indices = order if mask.all() else np.flatnonzero(mask) if order is None else order[mask[order]]
        for start, end in _row_group_bounds(lengths if indices is None else lengths[indices], sizes.rows, max_bytes):
            yield _take_rows(rows, indices, start, end)


def _take_rows(rows: pa.Table, indices: Numbers | None, start: int, end: int) -> pa.Table:
    """Take a slice of the rows with these numbers; None is all rows."""
    return rows[start:end] if indices is None else rows.take(pa.array(indices[start:end]))


def _row_group_bounds(lengths: Numbers, max_rows: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield start and end (exclusive) of each row group, by the lengths of payloads."""
    ends = np.cumsum(lengths, dtype=np.int64)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = max(int(np.searchsorted(ends, before + max_bytes, "right")), start + 1)
        end = min(end, start + max_rows)
        yield start, end
        start = end


def compact_dictionaries(rows: pa.Table) -> pa.Table:
    """Remove unused dictionary values, so that a file does not disclose values of other rows."""
    columns = [_compact_column(column) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _compact_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return column
    return pa.chunked_array([_compact_array(chunk) for chunk in column.chunks], column.type)


def _compact_array(array: pa.DictionaryArray) -> pa.DictionaryArray:
    size = len(array.dictionary)
    if size <= 1 and array.null_count < len(array):
        return array
    codes = pc.fill_null(array.indices, 0).to_numpy() if array.null_count else array.indices.to_numpy()
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    used = np.unique(codes if valid is None else codes[valid])
    if len(used) == size:
        return array
    index = np.searchsorted(used, codes)
    indices = pa.array(
        np.minimum(index, max(len(used) - 1, 0)), array.indices.type, mask=None if valid is None else ~valid
    )
    return pa.DictionaryArray.from_arrays(indices, array.dictionary.take(pa.array(used)))


def _is_delta_encoded(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_int64(data_type) or pa.types.is_timestamp(data_type))


def escape_path_value(value: str) -> str:
    """Escape a partition value for a directory name, as Spark does."""
    return UNSAFE_PATH_CHARACTERS.sub(lambda match: f"%{ord(match[0]):02X}", value)


# --- read -------------------------------------------------------------------------------------------------------------


def read_batches(
    location: StoragePath, file: DataFile, spec: TableSpec, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a file, texts dictionary-encoded; columns that the file does not have are null."""
    names = list(columns or spec.columns.names)
    with location.open(file.path) as source:
        yield from _iter_batches(source, names, spec.columns)


def _iter_batches(source: pa.NativeFile, names: list[str], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    footer = pq.read_metadata(source)
    in_file = set(footer.schema.to_arrow_schema().names)
    present = [name for name in names if name in in_file]
    texts = [name for name in present if columns.field(name).type == TEXT_TYPE]
    file = pq.ParquetFile(source, metadata=footer, read_dictionary=texts)
    schema = with_text_type(pa.schema([columns.field(name) for name in names]), DICTIONARY_TYPE)
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        rows = READ_BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1)
        for batch in file.iter_batches(min(max(rows, 1), READ_BATCH_ROWS), row_groups=[number], columns=present):
            yield conform_to_schema(batch, schema)


def conform_to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast rows to a schema: other tools may have written other types, or omitted columns."""
    if batch.schema.equals(schema):
        return batch
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns = [_conform_array(arrays.get(field.name), field.type, batch.num_rows) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _conform_array(array: pa.Array | None, data_type: pa.DataType, rows: int) -> pa.Array:
    if array is None:
        return pa.nulls(rows, data_type)
    if array.type == data_type:
        return array
    if data_type == DICTIONARY_TYPE and not pa.types.is_dictionary(array.type):
        return array.cast(TEXT_TYPE).dictionary_encode().cast(DICTIONARY_TYPE)
    return array.cast(data_type)


def group_batches(
    batches: Iterable[pa.RecordBatch], max_rows: int = BUFFER_ROWS, max_bytes: int = BUFFER_BYTES
) -> Iterator[pa.Table]:
    """Group batches into tables of at least the size of a row group; each column has one chunk.

    Memory holds one table, and one column twice while its chunks are concatenated, as long as the caller drops a table
    before it takes the next one.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= max_rows or size >= max_bytes:
            yield concat_batches(waiting)
            rows = size = 0
    if waiting:
        yield concat_batches(waiting)


def concat_batches(batches: list[pa.RecordBatch]) -> pa.Table:
    """Concatenate batches into a table whose columns have one chunk each.

    The list is emptied, so that the chunks of a column are freed as soon as they are concatenated.
    """
    schema = batches[0].schema
    chunks = [list(column) for column in zip(*(batch.columns for batch in batches), strict=True)]
    batches.clear()
    return pa.Table.from_arrays(
        [_concat_arrays(arrays, field.type) for arrays, field in zip(chunks, schema, strict=True)], schema=schema
    )


def _concat_arrays(chunks: list[pa.Array], data_type: pa.DataType) -> pa.Array:
    column = pa.chunked_array(chunks, data_type)
    chunks.clear()
    return column.unify_dictionaries().combine_chunks()
