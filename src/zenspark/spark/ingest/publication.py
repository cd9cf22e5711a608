"""Publication: the public table of a derived table, made from its state, right for every reader as of its last commit.

The public table has the documented columns and one row per key, range or minute, sorted by one column (`key`,
`source_zid`, `minute`) over all files, with statistics, so that readers leave out files and row groups. Its marks are
those of the state it was made from: up to which offset of every recorder it is right.

Its files are *segments*: each has the rows from its least value up to before that of the next. A publication finds out
which segments have values that refreshes have touched since the last one, and writes the rows of these anew; all others
stay as they are. All files that go and come are one transaction. Files that another tool put in the place of others are
segments as well: where they overlap, or have no statistics, they count as one.
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

from zenspark.lake.delta_table import Change, Table
from zenspark.lake.key_ranges import Range, Sorted, Value, write_sorted
from zenspark.lake.levels import is_new, is_wild
from zenspark.lake.offset_marks import marks, offsets, recorders
from zenspark.lake.parquet_files import File, batches_of
from zenspark.spark.ingest.derived import REBUILDING, REBUILT, Derivation, read_wild
from zenspark.spark.ingest.latest import literal_prefix
from zenspark.spark.ingest.write_files import on_workers

STATE_VERSION = "state-version"
"""The mark of a public table: the version of the state it was made from."""
LABEL = "publish"
"""What the names of its files begin with."""
SMALL_BYTES = 256 << 10
"""A smaller segment is written anew together with a neighbour that changed."""
LAST = chr(0x10FFFF)
"""Behind all characters that keys have."""


class Published(NamedTuple):
    """What a publication cost."""

    seconds: float
    rows: int


class Segment(NamedTuple):
    """Files with the rows from a value up to before that of the next segment; the first begins before everything."""

    start: Value | None
    files: list[File]


class Run(NamedTuple):
    """Neighbouring segments that are written anew."""

    range: Range
    files: list[File]


class Publication:
    """The public table of one derived table, beside its state."""

    def __init__(self, derivation: Derivation, public: Table, state: Table) -> None:
        self.derivation = derivation
        self.public = public
        self.state = state
        self._column = derivation.order[0]

    def publish(self, spark: SparkSession) -> Published:
        """Brings the public table up to the state, in one transaction; nothing is committed if nothing changed."""
        started = time.monotonic()
        is_ready = self.state.exists and not self.state.mark(REBUILDING)
        if not is_ready or self.public.mark(STATE_VERSION) == self.state.version:
            return Published(time.monotonic() - started, 0)
        runs = self._find_runs(spark)
        added = self._write(spark, runs)
        moved = marks(offsets(self.state, recorders(self.state))) | {REBUILT: self.state.mark(REBUILT) or 0}
        if runs or any(self.public.mark(name) != value for name, value in moved.items()):
            removed = [file for run in runs for file in run.files]
            self.public.commit(Change(add=added, remove=removed, marks=moved | {STATE_VERSION: self.state.version}))
        return Published(time.monotonic() - started, sum(file.rows for file in added))

    def _find_runs(self, spark: SparkSession) -> list[Run]:
        """What has to be written anew."""
        version = self.public.mark(STATE_VERSION)
        if version is None or self.public.mark(REBUILT) != (self.state.mark(REBUILT) or 0):
            return [Run(Range(), self.public.files)]
        touched = [file for file in self.state.files_since(version) if is_new(file)]
        if not touched:
            return []
        segments = find_segments(self.public.files, self._column)
        if len(segments) == 1:
            return [Run(Range(), segments[0].files)]
        find = partial(find_touched, self._sorted_state, [segment.start for segment in segments])
        places = {place for found in on_workers(spark, find, touched) for place in found}
        return join_runs(segments, places)

    def _write(self, spark: SparkSession, runs: Sequence[Run]) -> list[File]:
        """Writes the rows of these runs, a task for each range that fits into memory."""
        state, public = self._sorted_state, Sorted(self.public.folder, self.public.shape, self._column)
        exact = [file for file in self.state.files if not is_wild(file)]
        ranges = [part for run in runs for part in state.split(exact, run.range)]
        write = partial(publish_range, self.derivation, state, public, exact, self._read_wild() if runs else None)
        return [file for files in on_workers(spark, write, ranges) for file in files]

    def _read_wild(self) -> pa.Table:
        return read_wild(self.derivation, self._sorted_state, self.state.files)

    @property
    def _sorted_state(self) -> Sorted:
        return Sorted(self.state.folder, self.state.shape, self._column)


# --- which segments ---------------------------------------------------------------------------------------------------


def find_segments(files: Iterable[File], column: str) -> list[Segment]:
    """The segments of a table, by the statistics of its files; at least one."""
    limits = [(file.least.get(column), file.greatest.get(column), file) for file in files]
    if any(least is None or greatest is None for least, greatest, _ in limits):
        return [Segment(None, [file for *_, file in limits])]
    found: list[Segment] = []
    end: Value = None
    for least, greatest, file in sorted(limits, key=lambda each: each[:2]):
        if not found:
            found.append(Segment(None, []))
        elif least > end:
            found.append(Segment(least, []))
        found[-1].files.append(file)
        end = greatest if end is None else max(end, greatest)
    return found or [Segment(None, [])]


def find_touched(state: Sorted, starts: Sequence[Value | None], file: File) -> set[int]:
    """The places of segments, which begin at `starts`, that have values of a new file of a state."""
    batches = batches_of(state.folder, file, state.shape, [state.column])
    values = pc.unique(pa.chunked_array([_plain(batch.column(0)) for batch in batches]))
    if is_wild(file):
        spans = [literal_prefix(key) for key in values.to_pylist()]
        return {place for first in spans for place in range(_place(starts, first), _place(starts, first + LAST) + 1)}
    ordered = values.take(pc.sort_indices(values))
    return {place for place in range(len(starts)) if _has_any(ordered, starts, place)}


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _has_any(values: pa.Array, starts: Sequence[Value | None], place: int) -> bool:
    """Whether one of the values, in order, is in a segment."""
    first = 0
    if starts[place] is not None:
        first = bisect_left(range(len(values)), starts[place], key=lambda at: values[at].as_py())
    if first == len(values):
        return False
    return place + 1 == len(starts) or bool(values[first].as_py() < starts[place + 1])


def _place(starts: Sequence[Value | None], value: Value) -> int:
    """The segment that a value is in."""
    return bisect_right(range(1, len(starts)), value, key=lambda place: starts[place])


def join_runs(segments: Sequence[Segment], touched: Iterable[int]) -> list[Run]:
    """Touched segments, and small ones beside them, as runs."""
    found: list[tuple[int, int]] = []
    for place in sorted(_with_small(segments, set(touched))):
        if found and place == found[-1][1] + 1:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return [_run(segments, first, last) for first, last in found]


def _with_small(segments: Sequence[Segment], touched: set[int]) -> set[int]:
    """Adds to touched segments the small ones that stand next to them."""
    small = {at for at, segment in enumerate(segments) if sum(file.size for file in segment.files) < SMALL_BYTES}
    beside = {place + step for place in touched for step in (-1, 1)}
    return touched | (beside & small)


def _run(segments: Sequence[Segment], first: int, last: int) -> Run:
    end = segments[last + 1].start if last + 1 < len(segments) else None
    files = [file for segment in segments[first : last + 1] for file in segment.files]
    return Run(Range(segments[first].start, end), files)


# --- what tasks do ----------------------------------------------------------------------------------------------------


def publish_range(
    derivation: Derivation, state: Sorted, public: Sorted, files: Sequence[File], wild: pa.Table, wanted: Range
) -> list[File]:
    """Writes the public rows of a range of the state."""
    rows = derivation.resolve(state.read(files, wanted, derivation.reduce), wild)
    return write_sorted(public, LABEL, rows, derivation.order, {})
