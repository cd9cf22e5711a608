"""PublicTableWriter: writes the public table of a derived table from its state.

The public table has the documented columns and one row per key, range or minute, sorted by one column (`key`,
`source_zid`, `minute`) over all files, with statistics, so that readers skip files and row groups. Its application
versions repeat those of the state it was made from: the offset of every recorder up to which it is complete.

Its files are divided into *file ranges*: each has the rows from its least value up to the least value of the next
(exclusive). A write finds the file ranges with values that refreshes have changed since the last one and rewrites their
rows; all other files stay. All added and removed files are one transaction. Files written by other tools form file
ranges as well: those that overlap, or have no statistics, are in one.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.derived.latest import literal_prefix
from zenspark.lake.ingested_offsets import list_recorders, offset_app_versions, read_offsets
from zenspark.lake.key_ranges import KeyRange, SortedTable, SortKey, write_sorted
from zenspark.lake.levels import has_wildcard_keys, is_new
from zenspark.lake.parquet_files import DataFile, read_batches
from zenspark.lake.pending_rows import REBUILD_COUNT_APP_ID, STATE_VERSION_APP_ID
from zenspark.spark.ingest.derived import REBUILDING_APP_ID, DerivedTableSpec, read_wildcard_rows
from zenspark.spark.ingest.write_files import run_on_executors

PUBLIC_WRITE_LABEL = "publish"
"""Prefix of the names of its files."""
SMALL_FILE_RANGE_BYTES = 256 << 10
"""A smaller file range is rewritten together with an adjacent one that changed."""
MAX_CHARACTER = chr(0x10FFFF)
"""Greater than every character of a key."""


class PublishResult(NamedTuple):
    """Duration and number of rows of a write of public tables.

    Attributes:
        seconds: Duration of the write.
        rows: Number of rows that were written.

    Example:
        >>> result = lake.publish(spark)
        >>> print(result.rows, result.seconds)
    """

    seconds: float
    rows: int


class FileRange(NamedTuple):
    """Files with the rows from `start` up to the start of the next file range; the first has no lower bound."""

    start: SortKey | None
    files: list[DataFile]


class FileRangeRun(NamedTuple):
    """Adjacent file ranges that are rewritten together."""

    range: KeyRange
    files: list[DataFile]


class PublicTableWriter:
    """Writes the public table of one derived table."""

    def __init__(self, definition: DerivedTableSpec, public: LakeTable, state: LakeTable) -> None:
        self.definition = definition
        self.public = public
        self.state = state
        self._column = definition.order[0]

    def write(self, spark: SparkSession) -> PublishResult:
        """Update the public table to the state in one transaction; commits nothing if nothing changed."""
        started = time.monotonic()
        is_ready = self.state.exists and not self.state.app_version(REBUILDING_APP_ID)
        if not is_ready or self.public.app_version(STATE_VERSION_APP_ID) == self.state.version:
            return PublishResult(time.monotonic() - started, 0)
        runs = self._find_runs(spark)
        added = self._write(spark, runs)
        app_versions = offset_app_versions(read_offsets(self.state, list_recorders(self.state))) | {
            REBUILD_COUNT_APP_ID: self.state.app_version(REBUILD_COUNT_APP_ID) or 0
        }
        if runs or any(self.public.app_version(name) != value for name, value in app_versions.items()):
            removed = [file for run in runs for file in run.files]
            self.public.commit(
                Transaction(
                    add=added, remove=removed, app_versions=app_versions | {STATE_VERSION_APP_ID: self.state.version}
                )
            )
        return PublishResult(time.monotonic() - started, sum(file.rows for file in added))

    def _find_runs(self, spark: SparkSession) -> list[FileRangeRun]:
        """Find the file ranges to rewrite."""
        version = self.public.app_version(STATE_VERSION_APP_ID)
        if version is None or self.public.app_version(REBUILD_COUNT_APP_ID) != (
            self.state.app_version(REBUILD_COUNT_APP_ID) or 0
        ):
            return [FileRangeRun(KeyRange(), self.public.files)]
        changed = [file for file in self.state.files_since(version) if is_new(file)]
        if not changed:
            return []
        file_ranges = find_file_ranges(self.public.files, self._column)
        if len(file_ranges) == 1:
            return [FileRangeRun(KeyRange(), file_ranges[0].files)]
        find = partial(find_changed_ranges, self._sorted_state, [file_range.start for file_range in file_ranges])
        indices = {index for changed_ranges in run_on_executors(spark, find, changed) for index in changed_ranges}
        return merge_adjacent(file_ranges, indices)

    def _write(self, spark: SparkSession, runs: Sequence[FileRangeRun]) -> list[DataFile]:
        """Write the rows of these runs, one task per range that fits into memory."""
        state, public = self._sorted_state, SortedTable(self.public.location, self.public.spec, self._column)
        exact = [file for file in self.state.files if not has_wildcard_keys(file)]
        ranges = [part for run in runs for part in state.split(exact, run.range)]
        write = partial(
            write_public_range, self.definition, state, public, exact, self._read_wildcard_rows() if runs else None
        )
        return [file for files in run_on_executors(spark, write, ranges) for file in files]

    def _read_wildcard_rows(self) -> pa.Table:
        return read_wildcard_rows(self.definition, self._sorted_state, self.state.files)

    @property
    def _sorted_state(self) -> SortedTable:
        return SortedTable(self.state.location, self.state.spec, self._column)


# --- file ranges -----------------------------------------------------------------------------------------------------


def find_file_ranges(files: Iterable[DataFile], column: str) -> list[FileRange]:
    """Return the file ranges of a table, by the statistics of its files; at least one."""
    limits = [(file.min_values.get(column), file.max_values.get(column), file) for file in files]
    if any(least is None or greatest is None for least, greatest, _ in limits):
        return [FileRange(None, [file for *_, file in limits])]
    file_ranges: list[FileRange] = []
    end: SortKey = None
    for least, greatest, file in sorted(limits, key=lambda limit: limit[:2]):
        if not file_ranges:
            file_ranges.append(FileRange(None, []))
        elif least > end:
            file_ranges.append(FileRange(least, []))
        file_ranges[-1].files.append(file)
        end = greatest if end is None else max(end, greatest)
    return file_ranges or [FileRange(None, [])]


def find_changed_ranges(state: SortedTable, starts: Sequence[SortKey | None], file: DataFile) -> set[int]:
    """Return the indices of file ranges, given by their `starts`, that contain values of a new file of the state."""
    batches = read_batches(state.location, file, state.spec, [state.column])
    values = pc.unique(pa.chunked_array([_decode_dictionary(batch.column(0)) for batch in batches]))
    if has_wildcard_keys(file):
        prefixes = [literal_prefix(key) for key in values.to_pylist()]
        return {
            index
            for first in prefixes
            for index in range(_file_range_index(starts, first), _file_range_index(starts, first + MAX_CHARACTER) + 1)
        }
    ordered = values.take(pc.sort_indices(values))
    return {index for index in range(len(starts)) if _has_value_in(ordered, starts, index)}


def _decode_dictionary(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _has_value_in(values: pa.Array, starts: Sequence[SortKey | None], index: int) -> bool:
    """Whether one of the sorted values is in a file range."""
    first = 0
    if starts[index] is not None:
        first = bisect_left(range(len(values)), starts[index], key=lambda at: values[at].as_py())
    if first == len(values):
        return False
    return index + 1 == len(starts) or bool(values[first].as_py() < starts[index + 1])


def _file_range_index(starts: Sequence[SortKey | None], value: SortKey) -> int:
    """Return the index of the file range that contains a value."""
    return bisect_right(range(1, len(starts)), value, key=lambda index: starts[index])


def merge_adjacent(file_ranges: Sequence[FileRange], changed: Iterable[int]) -> list[FileRangeRun]:
    """Merge changed file ranges, and small ones next to them, into runs of adjacent ones."""
    merged: list[tuple[int, int]] = []
    for index in sorted(_add_small_neighbours(file_ranges, set(changed))):
        if merged and index == merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], index)
        else:
            merged.append((index, index))
    return [_make_run(file_ranges, first, last) for first, last in merged]


def _add_small_neighbours(file_ranges: Sequence[FileRange], changed: set[int]) -> set[int]:
    """Add the small file ranges that are adjacent to changed ones."""
    small = {
        at
        for at, file_range in enumerate(file_ranges)
        if sum(file.size for file in file_range.files) < SMALL_FILE_RANGE_BYTES
    }
    adjacent = {index + step for index in changed for step in (-1, 1)}
    return changed | (adjacent & small)


def _make_run(file_ranges: Sequence[FileRange], first: int, last: int) -> FileRangeRun:
    end = file_ranges[last + 1].start if last + 1 < len(file_ranges) else None
    files = [file for file_range in file_ranges[first : last + 1] for file in file_range.files]
    return FileRangeRun(KeyRange(file_ranges[first].start, end), files)


# --- tasks ----------------------------------------------------------------------------------------------------------


def write_public_range(
    definition: DerivedTableSpec,
    state: SortedTable,
    public: SortedTable,
    files: Sequence[DataFile],
    wildcard_rows: pa.Table,
    key_range: KeyRange,
) -> list[DataFile]:
    """Write the public rows of a range of the state; runs as a Spark task."""
    rows = definition.to_public_rows(state.read(files, key_range, definition.reduce), wildcard_rows)
    return write_sorted(public, PUBLIC_WRITE_LABEL, rows, definition.order, {})
