"""Derived tables: incremental aggregates of `samples` (`latest`, `gaps`, `traffic`).

A derived table is stored as two Delta tables. Its *state*, `_state/<name>`, is internal to zenspark; its *public*
table, `<name>`, is for every reader and is written from the state (public_table.py).

The state stores in its application versions the offset of every recorder up to which it includes rows, and the version
of `samples` at that time. A *refresh* adds the rows committed since: one transaction adds their partial aggregates and
updates these versions, so every row counts exactly once. A refresh reads only files that are newer than that version.
Within these files it selects rows by recorder and offset, because a file that another tool rewrote contains old rows
too. A backlog is refreshed in steps of `MAX_ROWS_PER_REFRESH` rows.

`read` returns the table with all rows of `samples`: pending rows are aggregated while reading. The refresh interval
therefore determines the cost of reading, not its result.
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

from zenspark.lake.delta_table import ForeignCommit, LakeTable, Transaction
from zenspark.lake.derived.partial_aggregates import PartialAggregation, TaskFiles, iterate_partials
from zenspark.lake.ingested_offsets import list_recorders, offset_app_versions, read_offsets
from zenspark.lake.key_ranges import FULL_RANGE, KeyRange, SortedTable, write_sorted
from zenspark.lake.levels import (
    MERGED_WILDCARD_PART,
    NEW_PART,
    REPLACED_PART,
    WILDCARD_PART,
    has_wildcard_keys,
    part_of,
    plan_merge,
    received_before,
)
from zenspark.lake.parquet_files import DataFile, read_batches
from zenspark.lake.pending_rows import (
    PROPAGATED_DELETES_APP_ID,
    REBUILD_COUNT_APP_ID,
    SAMPLES_VERSION_APP_ID,
    OffsetRanges,
    find_late,
    find_pending,
)
from zenspark.lake.quarantine import RETRIED
from zenspark.lake.specs import TableSpec
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest.delete_propagation import remove_deleted
from zenspark.spark.ingest.partial_aggregates import read_partials, split_into_tasks, write_partials
from zenspark.spark.ingest.read_files import dataframe, dataframe_of_rows, read_rows, spark_schema
from zenspark.spark.ingest.write_files import run_on_executors, split_partition_columns, write_dataframe
from zenspark.types.timestamps import MICROSECOND

logger = logging.getLogger("zenspark.spark")

REBUILDING_APP_ID = "rebuilding"
"""Application id of a state table: 1 while it is being rebuilt; its public table is not written then."""

REFRESH_LABEL = "refresh"
"""Prefix of the names of files that a refresh writes."""
MERGE_LABEL = "merge"
"""Prefix of the names of files that a merge writes."""

TOMBSTONE_TTL = timedelta(days=1)
"""Time for which tombstones (DELETEs, rows with wildcards) are kept, so that delayed older samples stay hidden."""
MAX_ROWS_PER_REFRESH = 1 << 22
"""Rows of one recorder per refresh transaction: bounds the work lost in a crash and the memory of a backlog. All of
these rows may belong to one source, and the task that checks its sequence numbers needs some 130 bytes per row."""
MAX_DRIVER_ROWS = 1 << 20
"""Most rows of partial aggregates that the driver combines itself: for so few a Spark query would cost more."""
MIN_ROW_BYTES = 16
"""Minimum size of a row in a file, to estimate the rows of files without a row count."""


class DerivedTableSpec(PartialAggregation, Protocol):
    """Defines one derived table: aggregation of samples, combination with the state, and public rows."""

    public: TableSpec
    partial_schema: pa.Schema
    """Columns of a partial aggregate; those of the state, unless `needs_state`."""
    needs_state: bool
    """Whether a partial aggregate must be combined with the previous partition `part=state` to be meaningful."""
    propagates_deletes: bool
    """Whether rows that another tool deletes from `samples` are removed from the state, and merges drop old rows."""

    def combine(self, partials: DataFrame, state: DataFrame) -> DataFrame:
        """Combine partial aggregates with the partition `part=state` on executors; the result replaces it."""

    def combine_rows(self, partials: pa.Table, state: pa.Table) -> pa.Table:
        """Combine partial aggregates with the state in the driver, for few rows."""

    def reduce(self, rows: pa.Table) -> pa.Table:
        """Merge rows of the state that belong together into fewer rows with the same content."""

    def drop_expired(self, rows: pa.Table, wildcard_rows: pa.Table, limits: Mapping[str, int]) -> pa.Table:
        """Drop reduced rows received before `limits`, in microseconds per recorder, that are needed no longer."""

    def to_public_rows(self, rows: pa.Table, wildcard_rows: pa.Table) -> pa.Table:
        """Compute the rows of the public table from reduced rows of the state and the rows with wildcards."""

    def to_public_dataframe(self, stored: DataFrame, parts: Collection[str]) -> DataFrame:
        """Compute the public table with Spark from rows that are not reduced; `parts`: the partitions of these."""


class DerivedTable:
    """One derived table: its state and the `samples` table it is computed from."""

    def __init__(self, definition: DerivedTableSpec, state: LakeTable, samples: LakeTable) -> None:
        """Open `state` before `samples`, so that the state is never ahead of the samples."""
        self.definition = definition
        self.state = state
        self.samples = samples

    # --- refresh

    def refresh(self, spark: SparkSession) -> bool:
        """Add the rows committed to `samples` since the last refresh. Returns whether the state changed."""
        changed = self._propagate_deletes(spark)
        while self._refresh_step(spark):
            changed = True
        return changed

    def _refresh_step(self, spark: SparkSession) -> bool:
        """Refresh by at most `MAX_ROWS_PER_REFRESH` rows per recorder. Returns whether anything was pending."""
        pending = self._pending()
        if pending.is_empty and not self.state.app_version(REBUILDING_APP_ID):
            return False
        step = pending.limit_rows(MAX_ROWS_PER_REFRESH)
        tasks = self._split_pending(step)
        change = self._make_change(spark, step, tasks) if tasks else Transaction()
        app_versions = offset_app_versions(step.end) | dict.fromkeys(find_late(self.state, self.samples), RETRIED)
        if step.end == pending.end:
            app_versions[SAMPLES_VERSION_APP_ID] = self.samples.version
            if self.state.app_version(REBUILDING_APP_ID):
                app_versions[REBUILDING_APP_ID] = 0
        if self.definition.propagates_deletes:
            app_versions[PROPAGATED_DELETES_APP_ID] = self.samples.version
        self.state.commit(replace(change, app_versions=app_versions))
        return True

    def _make_change(self, spark: SparkSession, extent: OffsetRanges, tasks: Sequence[TaskFiles]) -> Transaction:
        """Aggregate pending rows and return the files to add to and remove from the state."""
        if not self.definition.needs_state:
            write = partial(
                write_partials, self.definition, self.state.location, REFRESH_LABEL, self.samples.location, extent
            )
            return Transaction(add=[file for files in run_on_executors(spark, write, tasks) for file in files])
        if not _fits_driver(tasks):
            return Transaction(
                add=self._write(self._combine(spark, extent, tasks), REFRESH_LABEL),
                remove=self._files_in(REPLACED_PART),
            )
        rows = self._combine_rows(spark, extent, tasks)
        return (
            Transaction()
            if rows is None
            else Transaction(add=self._write_rows(rows), remove=self._files_in(REPLACED_PART))
        )

    def _combine(self, spark: SparkSession, extent: OffsetRanges, tasks: Sequence[TaskFiles]) -> DataFrame:
        """Aggregate pending rows and combine them with the partition `part=state`, on executors."""
        definition, folder = self.definition, self.samples.location

        def make_partials(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    for aggregated in iterate_partials(definition, folder, extent, tasks[number]):
                        yield from aggregated.cast(definition.partial_schema).to_batches()

        task_ids = spark.range(0, len(tasks), 1, len(tasks))
        partials = task_ids.mapInArrow(make_partials, spark_schema(definition.partial_schema))
        return definition.combine(partials, dataframe(spark, self.state, self._files_in(REPLACED_PART)))

    def _combine_rows(self, spark: SparkSession, extent: OffsetRanges, tasks: Sequence[TaskFiles]) -> pa.Table | None:
        """Aggregate pending rows on executors and combine them in the driver; None if they contribute nothing."""
        read = partial(read_partials, self.definition, self.samples.location, extent)
        partials = [aggregated for tables in run_on_executors(spark, read, tasks) for aggregated in tables]
        if not partials:
            return None
        spec = self.state.spec
        batches = [
            batch for file in self._files_in(REPLACED_PART) for batch in read_rows(self.state.location, file, spec)
        ]
        return self.definition.combine_rows(pa.concat_tables(partials), pa.Table.from_batches(batches, spec.schema))

    # --- reading

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the table as of now, including rows of `samples` that are not refreshed yet."""
        stored, pending = self._read_stored(spark), self._pending()
        parts = {part_of(file) for file in self.state.files}
        tasks = [] if pending.is_empty else self._split_pending(pending)
        if not tasks:
            return self.definition.to_public_dataframe(
                stored.unionByName(dataframe(spark, self.state, self._files_in(REPLACED_PART))), parts
            )
        if self.definition.needs_state and _fits_driver(tasks):
            rows = self._combine_rows(spark, pending, tasks)
            state = (
                dataframe(spark, self.state, self._files_in(REPLACED_PART))
                if rows is None
                else dataframe_of_rows(spark, rows)
            )
        else:
            state = self._combine(spark, pending, tasks)
        return self.definition.to_public_dataframe(stored.unionByName(state), parts | {NEW_PART, WILDCARD_PART})

    def _read_stored(self, spark: SparkSession) -> DataFrame:
        """Read the state but for `part=state`, and without rows that other tools deleted from `samples`."""
        changes = self._foreign_changes()
        stored = dataframe(spark, self.state, self._files_outside_replaced_part)
        remaining = remove_deleted(spark, stored, self.samples, changes) if changes else None
        return stored if remaining is None else remaining

    # --- merge, rebuild, propagation of deletes

    def merge(self, spark: SparkSession, written: int | None) -> bool:
        """Merge small files of the state if it is worthwhile; `written` is the state version of the public table."""
        unwritten = self.state.files if written is None else self.state.files_since(written)
        plan = plan_merge(self.state.files, unwritten)
        if plan is None:
            return False
        limits = self._find_limits(spark, plan.files) if plan.is_full else None
        exact = [file for file in plan.files if not has_wildcard_keys(file)]
        wildcard_rows = read_wildcard_rows(self.definition, self._sorted, plan.files)
        write = partial(merge_range, self.definition, self._sorted, exact, wildcard_rows, limits, plan.part)
        ranges = self._sorted.split(exact, FULL_RANGE)
        added = [file for files in run_on_executors(spark, write, ranges) for file in files]
        if limits is not None and wildcard_rows.num_rows:
            wildcard_rows = wildcard_rows.filter(pc.invert(received_before(wildcard_rows, limits)))
        part = {"part": WILDCARD_PART if plan.part == NEW_PART else MERGED_WILDCARD_PART}
        added += write_sorted(self._sorted, MERGE_LABEL, wildcard_rows, self.definition.order, part)
        self.state.commit(Transaction(add=added, remove=plan.files, is_optimize=True))
        return True

    def _find_limits(self, spark: SparkSession, files: Sequence[DataFile]) -> dict[str, int]:
        """Return per recorder the time before which rows are old: `TOMBSTONE_TTL` before now and before its newest row.

        A backlog that is ingested late is therefore measured by the times it was recorded at.
        """
        if not self.definition.propagates_deletes:
            return {}
        find = partial(find_newest_times, self.state.location, self.state.spec)
        newest: dict[str, int] = {}
        for times in run_on_executors(spark, find, files):
            newest |= {name: max(time, newest.get(name, 0)) for name, time in times.items()}
        now = int(time.time() * 1_000_000)
        return {name: min(newest_time, now) - TOMBSTONE_TTL // MICROSECOND for name, newest_time in newest.items()}

    def rebuild(self, spark: SparkSession) -> None:
        """Rebuild the state from the rows that are in `samples` now."""
        self._start_rebuild()
        self.refresh(spark)

    def _start_rebuild(self) -> None:
        zero = offset_app_versions(dict.fromkeys(read_offsets(self.state, list_recorders(self.samples)), 0))
        start = {
            SAMPLES_VERSION_APP_ID: 0,
            PROPAGATED_DELETES_APP_ID: self.samples.version,
            REBUILDING_APP_ID: 1,
            REBUILD_COUNT_APP_ID: self._rebuild_count + 1,
        }
        self.state.commit(Transaction(remove=self.state.files, app_versions=zero | start))

    def _propagate_deletes(self, spark: SparkSession) -> bool:
        """Remove from the state rows that other tools deleted from `samples`. Returns whether they deleted any."""
        changes = self._foreign_changes()
        if changes is None:
            logger.warning(
                "%s: Delta log no longer has version %s; rows deleted by other tools since then stay in table %s"
                " until `zenspark lake rebuild --table %s`",
                self.samples.location.address,
                self.state.app_version(PROPAGATED_DELETES_APP_ID),
                self.state.spec.name,
                self.state.spec.name,
            )
        elif not changes:
            return False
        done = {PROPAGATED_DELETES_APP_ID: self.samples.version}
        remaining = (
            remove_deleted(spark, dataframe(spark, self.state, self.state.files), self.samples, changes)
            if changes
            else None
        )
        if remaining is None:
            self.state.commit(Transaction(app_versions=done))
            return True
        column = self.definition.order[0]
        rows = remaining.repartitionByRange(column).sortWithinPartitions(column)
        added = self._write(rows, MERGE_LABEL)
        self.state.commit(
            Transaction(
                add=added, remove=self.state.files, app_versions=done | {REBUILD_COUNT_APP_ID: self._rebuild_count + 1}
            )
        )
        return True

    def _foreign_changes(self) -> list[ForeignCommit] | None:
        """List deletes by other tools in `samples` since the last refresh; None if the log is too short."""
        version = self.state.app_version(PROPAGATED_DELETES_APP_ID)
        return (
            [] if version is None or not self.definition.propagates_deletes else self.samples.foreign_changes(version)
        )

    # --- files

    @property
    def _rebuild_count(self) -> int:
        return self.state.app_version(REBUILD_COUNT_APP_ID) or 0

    def _files_in(self, part: str) -> list[DataFile]:
        return [file for file in self.state.files if part_of(file) == part]

    @property
    def _files_outside_replaced_part(self) -> list[DataFile]:
        return [file for file in self.state.files if part_of(file) != REPLACED_PART]

    def _pending(self) -> OffsetRanges:
        return find_pending(self.state, self.samples)

    def _split_pending(self, extent: OffsetRanges) -> list[TaskFiles]:
        """List the files that can contain these rows, split into tasks."""
        version = self.state.app_version(SAMPLES_VERSION_APP_ID)
        files = self.samples.files if version is None else self.samples.files_since(version)
        return split_into_tasks(file for file in files if extent.may_have_rows_in(file))

    @property
    def _sorted(self) -> SortedTable:
        return SortedTable(self.state.location, self.state.spec, self.definition.order[0])

    def _write(self, rows: DataFrame, label: str) -> list[DataFile]:
        return write_dataframe(rows.select(self.state.spec.schema.names), self.state, label)

    def _write_rows(self, rows: pa.Table) -> list[DataFile]:
        order = self.definition.order
        parts = split_partition_columns(rows, self.state.spec)
        return [
            file
            for partition, part in parts
            for file in write_sorted(self._sorted, REFRESH_LABEL, partition, order, part)
        ]


def _fits_driver(tasks: Sequence[TaskFiles]) -> bool:
    """Whether the partial aggregates of these files are few enough to combine in the driver."""
    return sum(file.rows or file.size // MIN_ROW_BYTES for task in tasks for file in task) <= MAX_DRIVER_ROWS


# --- tasks on executors -----------------------------------------------------------------------------------------------


def merge_range(
    definition: DerivedTableSpec,
    state: SortedTable,
    files: Sequence[DataFile],
    wildcard_rows: pa.Table,
    limits: Mapping[str, int] | None,
    part: str,
    key_range: KeyRange,
) -> list[DataFile]:
    """Write the reduced rows of a key range into a partition; with `limits`, drop expired rows."""
    rows = state.read(files, key_range, definition.reduce)
    if limits is not None:
        rows = definition.drop_expired(rows, wildcard_rows, limits)
    return write_sorted(state, MERGE_LABEL, rows, definition.order, {"part": part})


def read_wildcard_rows(definition: DerivedTableSpec, state: SortedTable, files: Iterable[DataFile]) -> pa.Table:
    """Read the rows whose keys have wildcards, which are in partitions of their own."""
    wildcard_files = [file for file in files if has_wildcard_keys(file)]
    return state.read(wildcard_files, FULL_RANGE, definition.reduce).cast(state.spec.columns)


def find_newest_times(folder: StoragePath, spec: TableSpec, file: DataFile) -> dict[str, int]:
    """Return per recorder the reception time, in microseconds, of its newest row in a file."""
    newest: dict[str, int] = {}
    for batch in read_batches(folder, file, spec, ["recorder", "received_at"]):
        rows = pa.table(
            {"recorder": batch["recorder"].cast(pa.string()), "time": batch["received_at"].cast(pa.int64())}
        )
        for row in rows.group_by("recorder").aggregate([("time", "max")]).to_pylist():
            newest[row["recorder"]] = max(row["time_max"], newest.get(row["recorder"], 0))
    return newest
