"""Ranges: a sorted table is read, merged and written piece by piece, each piece by one task.

The rows of a state or public table are ordered by one column (`key`, `source_zid`, `minute`). A range has the rows from
a value up to before another. Ranges are chosen so that the rows of one fit into the memory of a task, by the statistics
in the footers of files; from each file a task reads only the row groups that can have rows of its range.
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

TARGET_FILE_BYTES = 32 << 20
"""Rows of about so many bytes in memory become one file: what a changed row makes necessary to write anew."""
MIN_ROWS_TO_REDUCE = 1 << 20
"""Rows that are read before they are reduced, at least."""

SortKey = Any
"""A value of the column that rows are ordered by: a text or a time."""


class KeyRange(NamedTuple):
    """The rows from a value up to before another; None is no limit."""

    start: SortKey | None = None
    end: SortKey | None = None

    def overlaps(self, least: SortKey | None, greatest: SortKey | None) -> bool:
        """Whether it has values between these, both included; None is an unknown limit."""
        is_before = self.start is not None and greatest is not None and greatest < self.start
        is_behind = self.end is not None and least is not None and least >= self.end
        return not is_before and not is_behind


FULL_RANGE = KeyRange()


class SortedTable(NamedTuple):
    """A table whose rows are read in order: where its files are, what they have, and the column of the order."""

    location: StoragePath
    spec: TableSpec
    column: str

    def overlapping_files(self, files: Iterable[DataFile], wanted: KeyRange) -> list[DataFile]:
        """The files that can have rows of a range, by the statistics in the log."""
        return [
            file
            for file in files
            if wanted.overlaps(file.min_values.get(self.column), file.max_values.get(self.column))
        ]

    def split(self, files: Sequence[DataFile], wanted: KeyRange) -> list[KeyRange]:
        """Splits a range so that its rows in these files take about `TARGET_FILE_BYTES` in each part."""
        found = self.overlapping_files(files, wanted)
        if sum(file.size for file in found) <= TARGET_FILE_BYTES:
            return [wanted]
        cuts = find_split_points(sorted(group for file in found for group in self._groups(file, wanted)))
        starts, ends = [wanted.start, *cuts], [*cuts, wanted.end]
        return [KeyRange(start, end) for start, end in zip(starts, ends, strict=True)]

    def _groups(self, file: DataFile, wanted: KeyRange) -> Iterator[tuple[SortKey, int]]:
        """The first value in the range, and the size, of each row group that has rows of it and says so."""
        with self.location.open(file.path) as source:
            footer = pq.read_metadata(source)
        for number in range(footer.num_row_groups):
            least, greatest = self._limits(footer, number)
            if least is not None and wanted.overlaps(least, greatest):
                first = least if wanted.start is None else max(least, wanted.start)
                yield first, footer.row_group(number).total_byte_size

    def _limits(self, footer: pq.FileMetaData, group: int) -> tuple[SortKey | None, SortKey | None]:
        columns = (footer.row_group(group).column(at) for at in range(footer.num_columns))
        statistics = next(each.statistics for each in columns if each.path_in_schema == self.column)
        return (statistics.min, statistics.max) if statistics and statistics.has_min_max else (None, None)

    def read(self, files: Sequence[DataFile], wanted: KeyRange, reduce: Callable[[pa.Table], pa.Table]) -> pa.Table:
        """The rows of a range, in fewer rows: `reduce` gets them with texts as dictionaries and columns in one piece.

        They are reduced whenever there are twice as many as were left the last time. So what is in memory depends on
        what is left in the end, not on how often a row was written since files were merged.
        """
        schema = with_text_type(self.spec.columns, DICTIONARY_TYPE)
        waiting: list[pa.RecordBatch] = []
        rows, most = 0, MIN_ROWS_TO_REDUCE
        for batch in (batch for file in self.overlapping_files(files, wanted) for batch in self._batches(file, wanted)):
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= most:
                left = reduce(concat_batches(waiting)).combine_chunks()
                waiting = [conform_to_schema(each, schema) for each in left.to_batches()]
                rows, most = left.num_rows, max(MIN_ROWS_TO_REDUCE, 2 * left.num_rows)
        return reduce(concat_batches(waiting) if waiting else pa.table(schema.empty_table()))

    def _batches(self, file: DataFile, wanted: KeyRange) -> Iterator[pa.RecordBatch]:
        schema = with_text_type(self.spec.columns, DICTIONARY_TYPE)
        texts = [column.name for column in self.spec.columns if column.type == TEXT_TYPE]
        with self.location.open(file.path) as source:
            parquet = pq.ParquetFile(source, read_dictionary=texts)
            groups = range(parquet.metadata.num_row_groups)
            own = [group for group in groups if wanted.overlaps(*self._limits(parquet.metadata, group))]
            for batch in parquet.iter_batches(READ_BATCH_ROWS, row_groups=own, columns=schema.names):
                rows = select_range(conform_to_schema(batch, schema), self.column, wanted)
                if rows.num_rows:
                    yield rows


def find_split_points(groups: Sequence[tuple[SortKey, int]]) -> list[SortKey]:
    """Where to cut between row groups, given with their first values and sizes in order: after each `TARGET_FILE_BYTES`."""
    found: list[SortKey] = []
    size = 0
    for value, more in groups:
        is_another = value > (found[-1] if found else groups[0][0])
        if is_another and size + more > TARGET_FILE_BYTES:
            found.append(value)
            size = 0
        size += more
    return found


def select_range(rows: pa.RecordBatch, column: str, wanted: KeyRange) -> pa.RecordBatch:
    """The rows of a range."""
    values = rows[column]
    words = values.dictionary if pa.types.is_dictionary(values.type) else values
    within = pa.repeat(True, len(words))
    if wanted.start is not None:
        within = pc.and_(within, pc.greater_equal(words, pa.scalar(wanted.start, words.type)))
    if wanted.end is not None:
        within = pc.and_(within, pc.less(words, pa.scalar(wanted.end, words.type)))
    mask = within.take(values.indices) if words is not values else within
    return rows if pc.all(mask).as_py() else rows.filter(mask)


def sort_rows(rows: pa.Table, order: Sequence[str]) -> pa.Table:
    """Rows in the order of some columns, each column in one piece."""
    keys = pa.table({name: _sort_key(rows[name].combine_chunks()) for name in order})
    return rows.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in order])).combine_chunks()


def _sort_key(column: pa.Array) -> pa.Array:
    """What can be sorted in the place of a column: of a dictionary, the ranks of its values."""
    if not pa.types.is_dictionary(column.type):
        return column
    ranks = np.empty(len(column.dictionary), np.int64)
    ranks[pc.sort_indices(column.dictionary).to_numpy()] = np.arange(len(column.dictionary))
    return pa.array(ranks).take(column.indices)


def write_sorted(
    target: SortedTable, label: str, rows: pa.Table, order: Sequence[str], partition: Mapping[str, str]
) -> list[DataFile]:
    """Writes rows in order into files of about `TARGET_FILE_BYTES`; rows with the same first value stay together."""
    if not rows.num_rows:
        return []
    placed = sort_rows(rows.select(target.spec.columns.names), order)
    values = placed[target.column].chunk(0)
    found: list[DataFile] = []
    start, step = 0, max(1, placed.num_rows * TARGET_FILE_BYTES // max(placed.nbytes, 1))
    while start < placed.num_rows:
        end = _next_value_start(values, start + step)
        files = DataFileWriter(target.location, target.spec, label, KEY_ORDER_SIZES)
        files.write(placed[start:end].combine_chunks(), partition)
        found += files.close()
        start = end
    return found


def _next_value_start(values: pa.Array, place: int) -> int:
    """The first place from this one on where the value is another than before it; values are in order."""
    if place >= len(values):
        return len(values)
    return place + bisect_right(range(place, len(values)), values[place - 1].as_py(), key=lambda at: values[at].as_py())
