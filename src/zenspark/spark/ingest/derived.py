"""Derived tables: what follows from `samples`, kept up to the moment.

A derived table is two tables. Its *state*, `_state/<name>`, is zenspark's own; its *public* table, `<name>`, is for
every reader, and written from the state (publication.py).

The state has marks: up to which offset of every recorder it has taken rows in, and which version of `samples` that
was. A *refresh* takes in what was committed since: one transaction adds what the new rows mean and moves the marks, so
every row counts exactly once. It looks only at files that are newer than that version; of these, rows count by
recorder and offset, since a file that another tool rearranged has old rows too. A backlog is taken in by steps of
`STEP_ROWS`.

`read` gives the table with everything in `samples`: what was not taken in yet is computed while reading. How often
refreshes happen decides what reading costs, not what it gives.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from zenspark.lake.delta_table import Change, ForeignChange, Table
from zenspark.lake.key_ranges import EVERYTHING, Range, Sorted, write_sorted
from zenspark.lake.levels import MERGED_WILD, NEW, STATE, WILD, is_old, is_wild, part_of, plan_merge
from zenspark.lake.offset_marks import marks, offsets, recorders
from zenspark.lake.parquet_files import File, batches_of
from zenspark.lake.pending import SAMPLES_VERSION, Extent, find_late, find_pending
from zenspark.lake.quarantine import RETRIED
from zenspark.lake.specs import Shape
from zenspark.lake.storage_path import Folder
from zenspark.spark.ingest.erasure import erase
from zenspark.spark.ingest.partial_aggregates import (
    Digestion,
    Share,
    iterate_digests,
    read_digests,
    share_files,
    write_digests,
)
from zenspark.spark.ingest.read_files import frame, frame_of_rows, rows_of, spark_schema
from zenspark.spark.ingest.write_files import by_partition, on_workers, written

log = logging.getLogger("zenspark.spark")

ERASED_VERSION = "erased-version"
"""The version of `samples` up to which rows that other tools deleted are gone from a state that forgets them."""
REBUILT = "rebuilt"
"""How often a state was made anew, so that a public table made from an older one is replaced whole."""
REBUILDING = "rebuilding"
"""1 while a state is made anew: then it is not published."""

REFRESHED = "refresh"
"""The label of files that refreshes write,"""
MERGED_LABEL = "merge"
"""and of those that merges write."""

GRACE = timedelta(days=1)
"""How long rows that hide others, such as DELETEs, are remembered for what may be delayed."""
STEP_ROWS = 1 << 22
"""Rows of a recorder taken in by one transaction: work that was done stays done, and a backlog must fit into memory.
All of these may be of one source, and the task that judges its numbers needs some 130 bytes for each."""
DRIVER_ROWS = 1 << 20
"""Up to so many rows, a state is stepped in the driver: a query of Spark would cost more."""
BYTES_PER_ROW = 16
"""What a row takes in a file at least, for files without a count of their rows."""


class Derivation(Digestion, Protocol):
    """What makes one derived table out of samples."""

    public: Shape
    digested: pa.Schema
    """The columns of a digest; those of the state, unless `has_state`."""
    has_state: bool
    """Whether a digest means something only together with what was before."""
    forgets: bool
    """Whether rows that another tool deletes from `samples` count no longer, and merges leave out old rows."""

    def step(self, digests: DataFrame, state: DataFrame) -> DataFrame:
        """What digests mean for the state, in its columns and parts; its part STATE is replaced by the new one."""

    def step_rows(self, digests: pa.Table, state: pa.Table) -> pa.Table:
        """The same for few rows."""

    def reduce(self, rows: pa.Table) -> pa.Table:
        """The same content in fewer rows of the state."""

    def forget(self, rows: pa.Table, wild: pa.Table, limits: Mapping[str, int]) -> pa.Table:
        """Leaves out reduced rows that are needed no longer; `limits` has for each recorder the time of the oldest."""

    def resolve(self, rows: pa.Table, wild: pa.Table) -> pa.Table:
        """The rows of the public table, of reduced rows of the state and those of its parts with wildcards."""

    def view(self, stored: DataFrame, parts: Collection[str]) -> DataFrame:
        """The same by Spark, of rows that are not reduced; they are in these parts of the state at most."""


class Derived:
    """One derived table beside the samples it follows from."""

    def __init__(self, derivation: Derivation, state: Table, samples: Table) -> None:
        """`state` must have been opened first: so it is never ahead of `samples`."""
        self.derivation = derivation
        self.state = state
        self.samples = samples

    # --- taking in

    def refresh(self, spark: SparkSession) -> bool:
        """Takes in what was committed to `samples` since the last time; whether there was anything."""
        changed = self._erase(spark)
        while self._take_in(spark):
            changed = True
        return changed

    def _take_in(self, spark: SparkSession) -> bool:
        """Takes in one step; whether there was anything."""
        pending = self._pending()
        if pending.empty and not self.state.mark(REBUILDING):
            return False
        step = pending.limited(STEP_ROWS)
        shares = self._shares(step)
        change = self._changed(spark, step, shares) if shares else Change()
        moved = marks(step.end) | dict.fromkeys(find_late(self.state, self.samples), RETRIED)
        if step.end == pending.end:
            moved[SAMPLES_VERSION] = self.samples.version
            if self.state.mark(REBUILDING):
                moved[REBUILDING] = 0
        if self.derivation.forgets:
            moved[ERASED_VERSION] = self.samples.version
        self.state.commit(replace(change, marks=moved))
        return True

    def _changed(self, spark: SparkSession, extent: Extent, shares: Sequence[Share]) -> Change:
        """What these rows change in the state."""
        if not self.derivation.has_state:
            write = partial(write_digests, self.derivation, self.state.folder, REFRESHED, self.samples.folder, extent)
            return Change(add=[file for files in on_workers(spark, write, shares) for file in files])
        if not _are_few(shares):
            return Change(add=self._write(self._stepped(spark, extent, shares), REFRESHED), remove=self._in(STATE))
        rows = self._stepped_rows(spark, extent, shares)
        return Change() if rows is None else Change(add=self._write_rows(rows), remove=self._in(STATE))

    def _stepped(self, spark: SparkSession, extent: Extent, shares: Sequence[Share]) -> DataFrame:
        """The state with these rows taken in, by tasks."""
        derivation, folder = self.derivation, self.samples.folder

        def make_digests(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    for digest in iterate_digests(derivation, folder, extent, shares[number]):
                        yield from digest.cast(derivation.digested).to_batches()

        tasks = spark.range(0, len(shares), 1, len(shares))
        digests = tasks.mapInArrow(make_digests, spark_schema(derivation.digested))
        return derivation.step(digests, frame(spark, self.state, self._in(STATE)))

    def _stepped_rows(self, spark: SparkSession, extent: Extent, shares: Sequence[Share]) -> pa.Table | None:
        """The same by the driver; None if these rows mean nothing."""
        read = partial(read_digests, self.derivation, self.samples.folder, extent)
        digests = [digest for found in on_workers(spark, read, shares) for digest in found]
        if not digests:
            return None
        shape = self.state.shape
        batches = [batch for file in self._in(STATE) for batch in rows_of(self.state.folder, file, shape)]
        return self.derivation.step_rows(pa.concat_tables(digests), pa.Table.from_batches(batches, shape.schema))

    # --- reading

    def read(self, spark: SparkSession) -> DataFrame:
        """The table as it is now, with everything that is in `samples`."""
        stored, pending = self._stored(spark), self._pending()
        parts = {part_of(file) for file in self.state.files}
        shares = [] if pending.empty else self._shares(pending)
        if not shares:
            return self.derivation.view(stored.unionByName(frame(spark, self.state, self._in(STATE))), parts)
        if self.derivation.has_state and _are_few(shares):
            rows = self._stepped_rows(spark, pending, shares)
            state = frame(spark, self.state, self._in(STATE)) if rows is None else frame_of_rows(spark, rows)
        else:
            state = self._stepped(spark, pending, shares)
        return self.derivation.view(stored.unionByName(state), parts | {NEW, WILD})

    def _stored(self, spark: SparkSession) -> DataFrame:
        """What refreshes have stored and still counts, without the part STATE."""
        changes = self._foreign_changes()
        stored = frame(spark, self.state, self._not_state)
        left = erase(spark, stored, self.samples, changes) if changes else None
        return stored if left is None else left

    # --- keeping it small, and right

    def merge(self, spark: SparkSession, published: int | None) -> bool:
        """Merges files that refreshes left, if it is worth it; `published` is the version that the public table has."""
        unpublished = self.state.files if published is None else self.state.files_since(published)
        plan = plan_merge(self.state.files, unpublished)
        if plan is None:
            return False
        limits = self._find_limits(spark, plan.files) if plan.complete else None
        exact = [file for file in plan.files if not is_wild(file)]
        wild = read_wild(self.derivation, self._sorted, plan.files)
        write = partial(merge_range, self.derivation, self._sorted, exact, wild, limits, plan.part)
        ranges = self._sorted.split(exact, EVERYTHING)
        added = [file for files in on_workers(spark, write, ranges) for file in files]
        if limits is not None and wild.num_rows:
            wild = wild.filter(pc.invert(is_old(wild, limits)))
        part = {"part": WILD if plan.part == NEW else MERGED_WILD}
        added += write_sorted(self._sorted, MERGED_LABEL, wild, self.derivation.order, part)
        self.state.commit(Change(add=added, remove=plan.files, rearranges=True))
        return True

    def _find_limits(self, spark: SparkSession, files: Sequence[File]) -> dict[str, int]:
        """For each recorder the time before which rows are old: a `GRACE` before now, and before its newest row.

        So a backlog that lands late is judged by the times it was recorded at.
        """
        if not self.derivation.forgets:
            return {}
        find = partial(find_newest, self.state.folder, self.state.shape)
        newest: dict[str, int] = {}
        for found in on_workers(spark, find, files):
            newest |= {name: max(time, newest.get(name, 0)) for name, time in found.items()}
        now = int(time.time() * 1_000_000)
        return {name: min(each, now) - GRACE // timedelta(microseconds=1) for name, each in newest.items()}

    def rebuild(self, spark: SparkSession) -> None:
        """Makes the state anew from the rows that are in `samples` now, and forgets what followed from others."""
        self._begin_rebuilding()
        self.refresh(spark)

    def _begin_rebuilding(self) -> None:
        zero = marks(dict.fromkeys(offsets(self.state, recorders(self.samples)), 0))
        moved = {SAMPLES_VERSION: 0, ERASED_VERSION: self.samples.version, REBUILDING: 1, REBUILT: self._rebuilt + 1}
        self.state.commit(Change(remove=self.state.files, marks=zero | moved))

    def _erase(self, spark: SparkSession) -> bool:
        """Takes away what follows from rows that other tools deleted from `samples`; whether they deleted any."""
        changes = self._foreign_changes()
        if changes is None:
            log.warning(
                "%s: the log does not reach back to version %s; what other tools have deleted since then stays in %s"
                " until it is rebuilt",
                self.samples.folder.address,
                self.state.mark(ERASED_VERSION),
                self.state.shape.name,
            )
        elif not changes:
            return False
        done = {ERASED_VERSION: self.samples.version}
        left = erase(spark, frame(spark, self.state, self.state.files), self.samples, changes) if changes else None
        if left is None:
            self.state.commit(Change(marks=done))
            return True
        column = self.derivation.order[0]
        rows = left.repartitionByRange(column).sortWithinPartitions(column)
        added = self._write(rows, MERGED_LABEL)
        self.state.commit(Change(add=added, remove=self.state.files, marks=done | {REBUILT: self._rebuilt + 1}))
        return True

    def _foreign_changes(self) -> list[ForeignChange] | None:
        """What other tools deleted from `samples` since the last time; None if that cannot be found out any more."""
        version = self.state.mark(ERASED_VERSION)
        return [] if version is None or not self.derivation.forgets else self.samples.foreign_changes(version)

    # --- files

    @property
    def _rebuilt(self) -> int:
        return self.state.mark(REBUILT) or 0

    def _in(self, part: str) -> list[File]:
        return [file for file in self.state.files if part_of(file) == part]

    @property
    def _not_state(self) -> list[File]:
        return [file for file in self.state.files if part_of(file) != STATE]

    def _pending(self) -> Extent:
        return find_pending(self.state, self.samples)

    def _shares(self, extent: Extent) -> list[Share]:
        """The files that can have these rows, for a task each."""
        version = self.state.mark(SAMPLES_VERSION)
        files = self.samples.files if version is None else self.samples.files_since(version)
        return share_files(file for file in files if extent.may_hold(file))

    @property
    def _sorted(self) -> Sorted:
        return Sorted(self.state.folder, self.state.shape, self.derivation.order[0])

    def _write(self, rows: DataFrame, label: str) -> list[File]:
        return written(rows.select(self.state.shape.schema.names), self.state, label)

    def _write_rows(self, rows: pa.Table) -> list[File]:
        order = self.derivation.order
        parts = by_partition(rows, self.state.shape)
        return [file for own, part in parts for file in write_sorted(self._sorted, REFRESHED, own, order, part)]


def _are_few(shares: Sequence[Share]) -> bool:
    """Whether the driver can take in the digests of these files."""
    return sum(file.rows or file.size // BYTES_PER_ROW for share in shares for file in share) <= DRIVER_ROWS


# --- what tasks do ----------------------------------------------------------------------------------------------------


def merge_range(
    derivation: Derivation,
    state: Sorted,
    files: Sequence[File],
    wild: pa.Table,
    limits: Mapping[str, int] | None,
    part: str,
    wanted: Range,
) -> list[File]:
    """Writes the rows of a range in fewer rows into a part; with `limits`, without those that are needed no longer."""
    rows = state.read(files, wanted, derivation.reduce)
    if limits is not None:
        rows = derivation.forget(rows, wild, limits)
    return write_sorted(state, MERGED_LABEL, rows, derivation.order, {"part": part})


def read_wild(derivation: Derivation, state: Sorted, files: Iterable[File]) -> pa.Table:
    """The rows of parts with wildcards."""
    wild = [file for file in files if is_wild(file)]
    return state.read(wild, EVERYTHING, derivation.reduce).cast(state.shape.columns)


def find_newest(folder: Folder, shape: Shape, file: File) -> dict[str, int]:
    """For each recorder when the newest of its rows in a file was received."""
    found: dict[str, int] = {}
    for batch in batches_of(folder, file, shape, ["recorder", "received_at"]):
        rows = pa.table(
            {"recorder": batch["recorder"].cast(pa.string()), "time": batch["received_at"].cast(pa.int64())}
        )
        for row in rows.group_by("recorder").aggregate([("time", "max")]).to_pylist():
            found[row["recorder"]] = max(row["time_max"], found.get(row["recorder"], 0))
    return found
