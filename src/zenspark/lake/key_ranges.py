"""Range partitioning of a sorted table: each task reads, merges and writes one range.

The rows of a state or public table are sorted by one column (`key`, `source_zid`, `minute`). A range is a half-open
interval of that column. Ranges are chosen by the row group statistics in file footers so that the rows of one fit into
the memory of a task; from each file a task reads only the row groups that may have rows of its range.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zenspark.journal.block_codec import DICTIONARY_TYPE, TEXT_TYPE, with_text_type
from zenspark.lake.parquet_files import (
    KEY_ORDER_SIZES,
    READ_BATCH_ROWS,
    DataFile,
    DataFileWriter,
    concat_batches,
    conform_to_schema,
)
from zenspark.lake.specs import TableSpec
from zenspark.lake.storage_path import StoragePath

SORTED_FILE_MEMORY_BYTES = 32 << 20
"""Bytes in memory of the rows of one file: all of them are rewritten when one row changes."""
MIN_ROWS_TO_REDUCE = 1 << 20
"""Minimum number of rows to read before they are reduced."""

SortKey = Any
"""A value of the sort column: a string or a time."""


class KeyRange(NamedTuple):
    """Half-open range of values of the sort column; None is unbounded."""

    start: SortKey | None = None
    end: SortKey | None = None

    def overlaps(self, lowest: SortKey | None, highest: SortKey | None) -> bool:
        """Whether it overlaps a closed range; None is an unknown bound."""
        is_before = self.start is not None and highest is not None and highest < self.start
        is_after = self.end is not None and lowest is not None and lowest >= self.end
        return not is_before and not is_after


FULL_RANGE = KeyRange()


class SortedTable(NamedTuple):
    """A table with sorted files: location, spec and sort column."""

    location: StoragePath
    spec: TableSpec
    column: str

    def overlapping_files(self, files: Iterable[DataFile], key_range: KeyRange) -> list[DataFile]:
        """Files that may have rows of a range, by the statistics in the log."""
        column = self.column
        return [file for file in files if key_range.overlaps(file.min_values.get(column), file.max_values.get(column))]

    def split(self, files: Sequence[DataFile], key_range: KeyRange) -> list[KeyRange]:
        """Split a range so that the rows of each part take about `SORTED_FILE_MEMORY_BYTES` in these files."""
        overlapping = self.overlapping_files(files, key_range)
        if sum(file.size for file in overlapping) <= SORTED_FILE_MEMORY_BYTES:
            return [key_range]
        cuts = find_split_points(
            sorted(group for file in overlapping for group in self._row_group_sizes(file, key_range))
        )
        starts, ends = [key_range.start, *cuts], [*cuts, key_range.end]
        return [KeyRange(start, end) for start, end in zip(starts, ends, strict=True)]

    def _row_group_sizes(self, file: DataFile, key_range: KeyRange) -> Iterator[tuple[SortKey, int]]:
        """Yield the first value in the range and the byte size of each row group that may have rows of it."""
        with self.location.open(file.path) as source:
            footer = pq.read_metadata(source)
        for number in range(footer.num_row_groups):
            lowest, highest = self._min_max(footer, number)
            if lowest is not None and key_range.overlaps(lowest, highest):
                first = lowest if key_range.start is None else max(lowest, key_range.start)
                yield first, footer.row_group(number).total_byte_size

    def _min_max(self, footer: pq.FileMetaData, group: int) -> tuple[SortKey | None, SortKey | None]:
        columns = (footer.row_group(group).column(at) for at in range(footer.num_columns))
        statistics = next(column.statistics for column in columns if column.path_in_schema == self.column)
        return (statistics.min, statistics.max) if statistics and statistics.has_min_max else (None, None)

    def read(self, files: Sequence[DataFile], key_range: KeyRange, reduce: Callable[[pa.Table], pa.Table]) -> pa.Table:
        """Read and reduce the rows of a range; `reduce` gets dictionary-encoded texts and single-chunk columns.

        Rows are reduced whenever there are twice as many as were left the last time. So memory depends on the size of
        the result, not on how often a row was rewritten since files were merged.
        """
        schema = with_text_type(self.spec.columns, DICTIONARY_TYPE)
        waiting: list[pa.RecordBatch] = []
        rows, reduce_at = 0, MIN_ROWS_TO_REDUCE
        for batch in (
            batch for file in self.overlapping_files(files, key_range) for batch in self._batches(file, key_range)
        ):
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= reduce_at:
                left = reduce(concat_batches(waiting)).combine_chunks()
                waiting = [conform_to_schema(part, schema) for part in left.to_batches()]
                rows, reduce_at = left.num_rows, max(MIN_ROWS_TO_REDUCE, 2 * left.num_rows)
        return reduce(concat_batches(waiting) if waiting else pa.table(schema.empty_table()))

    def _batches(self, file: DataFile, key_range: KeyRange) -> Iterator[pa.RecordBatch]:
        schema = with_text_type(self.spec.columns, DICTIONARY_TYPE)
        texts = [column.name for column in self.spec.columns if column.type == TEXT_TYPE]
        with self.location.open(file.path) as source:
            parquet = pq.ParquetFile(source, read_dictionary=texts)
            groups = range(parquet.metadata.num_row_groups)
            selected = [group for group in groups if key_range.overlaps(*self._min_max(parquet.metadata, group))]
            for batch in parquet.iter_batches(READ_BATCH_ROWS, row_groups=selected, columns=schema.names):
                rows = select_range(conform_to_schema(batch, schema), self.column, key_range)
                if rows.num_rows:
                    yield rows


def find_split_points(groups: Sequence[tuple[SortKey, int]]) -> list[SortKey]:
    """Choose split points, one per `SORTED_FILE_MEMORY_BYTES`; row groups are first values and byte sizes, in order."""
    points: list[SortKey] = []
    size = 0
    for value, group_size in groups:
        is_greater = value > (points[-1] if points else groups[0][0])
        if is_greater and size + group_size > SORTED_FILE_MEMORY_BYTES:
            points.append(value)
            size = 0
        size += group_size
    return points


def select_range(rows: pa.RecordBatch, column: str, key_range: KeyRange) -> pa.RecordBatch:
    """Select the rows of a range."""
    values = rows[column]
    distinct = values.dictionary if pa.types.is_dictionary(values.type) else values
    within = pa.repeat(True, len(distinct))
    if key_range.start is not None:
        within = pc.and_(within, pc.greater_equal(distinct, pa.scalar(key_range.start, distinct.type)))
    if key_range.end is not None:
        within = pc.and_(within, pc.less(distinct, pa.scalar(key_range.end, distinct.type)))
    mask = within.take(values.indices) if distinct is not values else within
    return rows if pc.all(mask).as_py() else rows.filter(mask)


def sort_rows(rows: pa.Table, order: Sequence[str]) -> pa.Table:
    """Sort rows by some columns; each column of the result has one chunk."""
    keys = pa.table({name: _sort_key(rows[name].combine_chunks()) for name in order})
    return rows.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in order])).combine_chunks()


def _sort_key(column: pa.Array) -> pa.Array:
    """An array with the sort order of a column: for a dictionary, the ranks of its values."""
    if not pa.types.is_dictionary(column.type):
        return column
    ranks = np.empty(len(column.dictionary), np.int64)
    ranks[pc.sort_indices(column.dictionary).to_numpy()] = np.arange(len(column.dictionary))
    return pa.array(ranks).take(column.indices)


def write_sorted(
    target: SortedTable, label: str, rows: pa.Table, order: Sequence[str], partition: Mapping[str, str]
) -> list[DataFile]:
    """Sort rows and write them to files of `SORTED_FILE_MEMORY_BYTES`, about; equal sort keys share a file."""
    if not rows.num_rows:
        return []
    ordered = sort_rows(rows.select(target.spec.columns.names), order)
    values = ordered[target.column].chunk(0)
    written: list[DataFile] = []
    start, step = 0, max(1, ordered.num_rows * SORTED_FILE_MEMORY_BYTES // max(ordered.nbytes, 1))
    while start < ordered.num_rows:
        end = _next_value_start(values, start + step)
        files = DataFileWriter(target.location, target.spec, label, KEY_ORDER_SIZES)
        files.write(ordered[start:end].combine_chunks(), partition)
        written += files.close()
        start = end
    return written


def _next_value_start(values: pa.Array, index: int) -> int:
    """The first index from `index` on whose value differs from the one before it; values are sorted."""
    if index >= len(values):
        return len(values)
    return index + bisect_right(range(index, len(values)), values[index - 1].as_py(), key=lambda at: values[at].as_py())
