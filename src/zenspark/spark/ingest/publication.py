"""Publication: writes the public table of a derived table from its state.

The public table has the documented columns and one row per key, range or minute, sorted by one column (`key`,
`source_zid`, `minute`) over all files, with statistics, so that readers skip files and row groups. Its marks are those
of the state it was made from: the offset of every recorder up to which it is complete.

Its files are *segments*: each has the rows from its least value up to the least value of the next (exclusive). A
publication finds the segments with values that refreshes have changed since the last one and rewrites their rows; all
other files stay. All added and removed files are one transaction. Files written by other tools are segments as well:
files that overlap, or have no statistics, count as one segment.
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
from zenspark.lake.key_ranges import KeyRange, SortedTable, SortKey, write_sorted
from zenspark.lake.levels import has_wildcard_keys, is_new
from zenspark.lake.offset_marks import list_recorders, offset_app_versions, read_offsets
from zenspark.lake.parquet_files import DataFile, read_batches
from zenspark.spark.ingest.derived import REBUILDING, REBUILT, DerivedTableSpec, read_wild
from zenspark.spark.ingest.latest import literal_prefix
from zenspark.spark.ingest.write_files import run_on_executors

STATE_VERSION = "state-version"
"""Mark of a public table: the version of the state it was made from."""
PUBLISH_LABEL = "publish"
"""Prefix of the names of its files."""
SMALL_SEGMENT_BYTES = 256 << 10
"""A smaller segment is rewritten together with an adjacent segment that changed."""
MAX_CHARACTER = chr(0x10FFFF)
"""Greater than every character of a key."""


class PublishResult(NamedTuple):
    """Duration and number of rows of a publication."""

    seconds: float
    rows: int


class Segment(NamedTuple):
    """Files with the rows from `start` up to the start of the next segment; the first has no lower bound."""

    start: SortKey | None
    files: list[DataFile]


class SegmentRun(NamedTuple):
    """Adjacent segments that are rewritten together."""

    range: KeyRange
    files: list[DataFile]


class Publication:
    """Publishes the state of one derived table to its public table."""

    def __init__(self, definition: DerivedTableSpec, public: LakeTable, state: LakeTable) -> None:
        self.definition = definition
        self.public = public
        self.state = state
        self._column = definition.order[0]

    def publish(self, spark: SparkSession) -> PublishResult:
        """Update the public table to the state in one transaction; commits nothing if nothing changed."""
        started = time.monotonic()
        is_ready = self.state.exists and not self.state.app_version(REBUILDING)
        if not is_ready or self.public.app_version(STATE_VERSION) == self.state.version:
            return PublishResult(time.monotonic() - started, 0)
        runs = self._find_runs(spark)
        added = self._write(spark, runs)
        moved = offset_app_versions(read_offsets(self.state, list_recorders(self.state))) | {
            REBUILT: self.state.app_version(REBUILT) or 0
        }
        if runs or any(self.public.app_version(name) != value for name, value in moved.items()):
            removed = [file for run in runs for file in run.files]
            self.public.commit(
                Transaction(add=added, remove=removed, app_versions=moved | {STATE_VERSION: self.state.version})
            )
        return PublishResult(time.monotonic() - started, sum(file.rows for file in added))

    def _find_runs(self, spark: SparkSession) -> list[SegmentRun]:
        """Find the segments to rewrite."""
        version = self.public.app_version(STATE_VERSION)
        if version is None or self.public.app_version(REBUILT) != (self.state.app_version(REBUILT) or 0):
            return [SegmentRun(KeyRange(), self.public.files)]
        touched = [file for file in self.state.files_since(version) if is_new(file)]
        if not touched:
            return []
        segments = find_segments(self.public.files, self._column)
        if len(segments) == 1:
            return [SegmentRun(KeyRange(), segments[0].files)]
        find = partial(find_touched, self._sorted_state, [segment.start for segment in segments])
        indices = {index for found in run_on_executors(spark, find, touched) for index in found}
        return merge_adjacent(segments, indices)

    def _write(self, spark: SparkSession, runs: Sequence[SegmentRun]) -> list[DataFile]:
        """Write the rows of these runs, one task per range that fits into memory."""
        state, public = self._sorted_state, SortedTable(self.public.location, self.public.spec, self._column)
        exact = [file for file in self.state.files if not has_wildcard_keys(file)]
        ranges = [part for run in runs for part in state.split(exact, run.range)]
        write = partial(publish_range, self.definition, state, public, exact, self._read_wild() if runs else None)
        return [file for files in run_on_executors(spark, write, ranges) for file in files]

    def _read_wild(self) -> pa.Table:
        return read_wild(self.definition, self._sorted_state, self.state.files)

    @property
    def _sorted_state(self) -> SortedTable:
        return SortedTable(self.state.location, self.state.spec, self._column)


# --- segments --------------------------------------------------------------------------------------------------------


def find_segments(files: Iterable[DataFile], column: str) -> list[Segment]:
    """Return the segments of a table, by the statistics of its files; at least one."""
    limits = [(file.min_values.get(column), file.max_values.get(column), file) for file in files]
    if any(least is None or greatest is None for least, greatest, _ in limits):
        return [Segment(None, [file for *_, file in limits])]
    found: list[Segment] = []
    end: SortKey = None
    for least, greatest, file in sorted(limits, key=lambda each: each[:2]):
        if not found:
            found.append(Segment(None, []))
        elif least > end:
            found.append(Segment(least, []))
        found[-1].files.append(file)
        end = greatest if end is None else max(end, greatest)
    return found or [Segment(None, [])]


def find_touched(state: SortedTable, starts: Sequence[SortKey | None], file: DataFile) -> set[int]:
    """Return the indices of segments, given by their `starts`, that contain values of a new file of the state."""
    batches = read_batches(state.location, file, state.spec, [state.column])
    values = pc.unique(pa.chunked_array([_decode_dictionary(batch.column(0)) for batch in batches]))
    if has_wildcard_keys(file):
        spans = [literal_prefix(key) for key in values.to_pylist()]
        return {
            index
            for first in spans
            for index in range(_segment_index(starts, first), _segment_index(starts, first + MAX_CHARACTER) + 1)
        }
    ordered = values.take(pc.sort_indices(values))
    return {index for index in range(len(starts)) if _has_value_in(ordered, starts, index)}


def _decode_dictionary(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _has_value_in(values: pa.Array, starts: Sequence[SortKey | None], index: int) -> bool:
    """Whether one of the sorted values is in a segment."""
    first = 0
    if starts[index] is not None:
        first = bisect_left(range(len(values)), starts[index], key=lambda at: values[at].as_py())
    if first == len(values):
        return False
    return index + 1 == len(starts) or bool(values[first].as_py() < starts[index + 1])


def _segment_index(starts: Sequence[SortKey | None], value: SortKey) -> int:
    """Return the index of the segment that contains a value."""
    return bisect_right(range(1, len(starts)), value, key=lambda index: starts[index])


def merge_adjacent(segments: Sequence[Segment], touched: Iterable[int]) -> list[SegmentRun]:
    """Merge changed segments, and small ones next to them, into runs of adjacent segments."""
    found: list[tuple[int, int]] = []
    for index in sorted(_add_small_neighbours(segments, set(touched))):
        if found and index == found[-1][1] + 1:
            found[-1] = (found[-1][0], index)
        else:
            found.append((index, index))
    return [_make_run(segments, first, last) for first, last in found]


def _add_small_neighbours(segments: Sequence[Segment], touched: set[int]) -> set[int]:
    """Add the small segments that are adjacent to changed ones."""
    small = {
        at for at, segment in enumerate(segments) if sum(file.size for file in segment.files) < SMALL_SEGMENT_BYTES
    }
    adjacent = {index + step for index in touched for step in (-1, 1)}
    return touched | (adjacent & small)


def _make_run(segments: Sequence[Segment], first: int, last: int) -> SegmentRun:
    end = segments[last + 1].start if last + 1 < len(segments) else None
    files = [file for segment in segments[first : last + 1] for file in segment.files]
    return SegmentRun(KeyRange(segments[first].start, end), files)


# --- tasks ----------------------------------------------------------------------------------------------------------


def publish_range(
    definition: DerivedTableSpec,
    state: SortedTable,
    public: SortedTable,
    files: Sequence[DataFile],
    wild: pa.Table,
    wanted: KeyRange,
) -> list[DataFile]:
    """Write the public rows of a range of the state; runs as a Spark task."""
    rows = definition.to_public_rows(state.read(files, wanted, definition.reduce), wild)
    return write_sorted(public, PUBLISH_LABEL, rows, definition.order, {})
