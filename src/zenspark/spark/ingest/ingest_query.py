"""IngestQuery: the streaming query that ingests journals into a lake, with the maintenance threads beside it.

One query reads all journals. Each micro-batch is committed to `samples` (commit_samples.py) and does nothing else.
Threads beside it refresh the derived tables and compact files (maintenance_schedule.py), and renew the leases that keep
other processes from ingesting the same recorders (lake/lease.py). Work that a crash or a transient error interrupts is
done by the next run.

The committed offsets are stored in the table alone. Spark's checkpoint is a temporary directory of each start, removed
at the end: a checkpoint that a full disk damaged, or that belongs to another lake, cannot do harm.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from zenspark import __version__
from zenspark.errors import JournalError, LakeError, UsageError, ZError
from zenspark.journal import Journal
from zenspark.lake import quarantine
from zenspark.lake.error_cause import error_cause
from zenspark.lake.lease import LeaseKeeper
from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.lake.reader_name import reader_name
from zenspark.spark.ingest.clock_steps import ClockSteps
from zenspark.spark.ingest.commit_samples import BatchResult, SamplesWriter, WriterFenced
from zenspark.spark.ingest.maintenance_schedule import TableMaintenance
from zenspark.spark.ingest.process_protocol import MaintenanceRun
from zenspark.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger("zenspark.spark")

LEASE_RETRY_INTERVAL_SECONDS = 1.0
"""Seconds between two attempts to acquire the leases."""
DEFAULT_DRAIN_TIMEOUT_SECONDS = 60.0
INGEST_POLL_INTERVAL_SECONDS = 0.05
"""Seconds between two checks whether everything is ingested."""
MAX_SHORT_TRIGGER_SECONDS = 2.0
"""Longest trigger interval with which the running query drains the rest; otherwise a new query is faster."""

Notify = Callable[[str], None]


@dataclass(frozen=True)
class IngestProgress:
    """Progress of an ingest query since it was started.

    Attributes:
        rows: Rows ingested in this run.
        bytes: Size of the files written in this run.
        batches: Batches committed in this run.
        batch_seconds: Duration of the last batch; None before the first one.
        running_seconds: Seconds since the current batch started; None between two batches.
        newest: Reception time of the newest ingested row; None before the first one.
        committed_offsets: End offset (exclusive) by recorder of the ingested rows.
        waiting: Rows in the journals that are not ingested yet.
        quarantined: Rows that could not be ingested and were moved to quarantine.
        duplicates: Rows skipped because another recorder's copy was ingested before.
        lost: Rows that the journals trimmed before they were ingested.
        problem: Error of the last table maintenance; None without. Ingestion continues.
        maintenance_runs: The last run of each maintenance task.

    Example:
        >>> progress = query.progress()
        >>> print(progress.rows, progress.waiting, progress.problem)
    """

    rows: int
    bytes: int
    batches: int
    batch_seconds: float | None
    running_seconds: float | None
    newest: datetime | None
    committed_offsets: Mapping[str, int]
    waiting: int
    quarantined: int
    duplicates: int
    lost: int
    problem: str | None
    maintenance_runs: tuple[MaintenanceRun, ...] = ()


@dataclass
class _Counts:
    """Counts of an ingest query since it started, and its current batch."""

    rows: int = 0
    bytes: int = 0
    batches: int = 0
    batch_seconds: float | None = None
    started_at: float | None = None
    newest: datetime | None = None
    quarantined: int = 0
    duplicates: int = 0
    lost: int = 0
    offsets: dict[str, int] = field(default_factory=dict)


class IngestQuery:
    """Ingests journals into a lake, starting at the offsets committed in the lake, until it is stopped.

    Example:
        >>> query = IngestQuery(spark, ["journal"], Lake("lake"))
        >>> query.start()
        >>> query.stop()
        True
    """

    def __init__(
        self,
        spark: SparkSession,
        journals: Sequence[str | Path],
        lake: Lake,
        trigger: str | float | None = 1.0,
        options: Mapping[str, str] | None = None,
        maintenance: MaintenanceConfig | None = None,
        instance: str | None = None,
        deduplicate: bool = False,
    ) -> None:
        """Validate the arguments; `start` starts the query.

        Args:
            spark: Session with a driver that has a JVM.
            journals: Directories of the journals.
            lake: The lake that is written.
            trigger: Seconds from one batch to the next, or an interval in Spark's syntax; with None the query ingests
                what is in the journals and ends.
            options: Options of the stream source, such as maxOffsetsPerTrigger; none by default.
            maintenance: Intervals and retention of the maintenance of the tables; `MaintenanceConfig()` by default.
            instance: Id of the pipeline: a successor with the same id takes over its leases at once; none by default.
            deduplicate: Whether samples that several recorders recorded are ingested once.

        Raises:
            UsageError: There is no journal, or the session is one of Spark Connect.
        """
        if not journals:
            raise UsageError("ingestion needs at least one journal")
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            raise UsageError(
                "ingestion needs a driver with a JVM, which a Spark Connect session does not have: "
                "give the master URL of the cluster instead, such as spark://host:7077"
            )
        self.lake = lake
        self.journals = [Journal(path) for path in journals]
        self._spark = spark
        self._trigger = f"{round(trigger * 1000)} milliseconds" if isinstance(trigger, int | float) else trigger
        self._has_short_trigger = isinstance(trigger, int | float) and trigger <= MAX_SHORT_TRIGGER_SECONDS
        self._options = dict(options or {})
        self._maintenance = maintenance or MaintenanceConfig()
        self._instance = instance
        self._deduplicate = deduplicate
        self._query: StreamingQuery | None = None
        self._leases: LeaseKeeper | None = None
        self._table_maintenance: TableMaintenance | None = None
        self._checkpoint: str | None = None
        self._clock = ClockSteps()
        self._counts = _Counts()
        self._lock = threading.Lock()
        """Held while a batch is ingested."""
        self._refuses_batches = False
        """Whether a batch that begins is left to the next query, because this one is being stopped."""
        self._has_refused_batch = False
        """Whether Spark's query ends with an error because of that: it is a stop, and no failure."""
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._on_batch: Callable[[], None] | None = None

    # --- lifecycle

    def start(self, on_wait: Notify | None = None, on_batch: Callable[[], None] | None = None) -> None:
        """Start the query and the maintenance threads; blocks while another process holds the leases.

        Args:
            on_wait: Called with one line that names that process; by default it is logged.
            on_batch: Called after every committed batch; nothing by default.

        Raises:
            LakeError: The lake cannot be read or created.
            JournalError: A journal cannot be read.

        Example:
            >>> query.start()
        """
        self._on_batch = on_batch
        self.lake.location.check()
        leases = LeaseKeeper(self.lake.location, [journal.recorder for journal in self.journals], self._instance)
        self._leases = leases
        if not self._acquire_leases(leases, on_wait or logger.warning):
            return
        leases.start()
        self._table_maintenance = TableMaintenance(
            self._spark, self.lake, self.journals, self._reader, self._maintenance, leases
        )
        self.lake.create(timedelta(seconds=self._maintenance.history))
        self._samples = SamplesWriter(self.lake.location, self.lake.table("samples"), deduplicate=self._deduplicate)
        self._samples.fence_earlier_writers(journal.recorder for journal in self.journals)
        self._retry_quarantine()
        ingested = self.lake.ingested()
        self._counts.offsets = {journal.recorder: ingested.get(journal.recorder, 0) for journal in self.journals}
        self._query = self._start_query(self._trigger)
        self._table_maintenance.start()

    def _acquire_leases(self, leases: LeaseKeeper, on_wait: Notify) -> bool:
        """Wait for the leases. Returns False if the query was stopped before."""
        logged = None
        while (reason := leases.acquire()) is not None:
            if reason != logged:
                on_wait(reason)
                logged = reason
            if self._stopping.wait(LEASE_RETRY_INTERVAL_SECONDS):
                return False
        return True

    def _retry_quarantine(self) -> None:
        """Ingest quarantined rows that another version of zenspark could not read, if this one can."""
        recorders = {journal.recorder for journal in self.journals}
        table = self._samples.table
        entries = quarantine.list_quarantined(self.lake.location, table)
        quarantine.retry(
            self.lake.location,
            table,
            [item for item in entries if item.recorder in recorders and item.version != __version__],
        )

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query ends.

        Args:
            timeout: Seconds to wait; without end by default.

        Returns:
            True if it has ended, False if not within the timeout.

        Raises:
            ZError: The query failed, was not started, or another process has taken over a recorder.

        Example:
            >>> has_ended = query.wait(timeout=1)
        """
        query = self._active_query
        try:
            ended = query.awaitTermination(timeout)  # type: ignore[arg-type]  # None waits forever
        except Exception as error:
            if not self._was_stopped:
                raise self._failure_cause(error) from error
            ended = True
        if self._leases is not None and self._leases.lost is not None:
            raise WriterFenced(self.lake.location.address, f"another process ingests recorder {self._leases.lost!r}")
        if not ended and timeout is not None:
            self._restart_after_clock_step()
        return True if timeout is None else bool(ended)

    def _restart_after_clock_step(self) -> None:
        """Restart the query if the wall clock was set back: Spark would wait until the old time is reached again."""
        seconds = self._clock.back_seconds()
        if seconds and self._trigger is not None and not self._stopping.is_set():
            address = self.lake.location.address
            logger.warning("%s: wall clock was set back by %.0f s: restarting the ingest query", address, seconds)
            self._stop_query()
            self._query = self._start_query(self._trigger)

    def stop(self, timeout: float = DEFAULT_DRAIN_TIMEOUT_SECONDS) -> bool:
        """Ingest what is in the journals now, refresh the tables, and end.

        Args:
            timeout: Seconds for ingesting the rest; 0 ends at once.

        Returns:
            True if everything is ingested.

        Raises:
            ZError: The query failed.

        Example:
            >>> is_complete = query.stop()
        """
        self._stopping.set()
        if self._query is None:
            return False
        deadline = time.monotonic() + timeout
        target = {journal.recorder: journal.latest() for journal in self.journals}
        try:
            has_ingested = self._drain(target, deadline) if timeout else self._has_ingested(target)
            if has_ingested and timeout and self._table_maintenance is not None:
                self._table_maintenance.stop()
                self._table_maintenance.finish()
            return has_ingested
        finally:
            self._close(release=True)

    def abandon(self) -> None:
        """End at once after a failure; the leases are kept for the next attempt.

        Example:
            >>> query.abandon()
        """
        self._stopping.set()
        with contextlib.suppress(Exception):  # Java may have ended
            self._close(release=False)

    def _close(self, *, release: bool) -> None:
        try:
            self._stop_query()
            if self._table_maintenance is not None:
                self._table_maintenance.stop()
        finally:
            if self._leases is not None:
                self._leases.stop(release=release)
            if self._checkpoint is not None:
                shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _drain(self, target: Mapping[str, int], deadline: float) -> bool:
        """Ingest up to the target offsets; starts an availableNow query if the next trigger may be far away."""
        self._check_failure()
        while self._has_short_trigger and not self._has_ingested(target) and time.monotonic() < deadline:
            self.wait(INGEST_POLL_INTERVAL_SECONDS)
        self._stop_query()
        if not self._has_ingested(target) and time.monotonic() < deadline:
            self._query = self._start_query(None)
            self.wait(deadline - time.monotonic())
            self._stop_query()
        return self._has_ingested(target)

    def _stop_query(self) -> None:
        self._refuses_batches = True  # before the lock: Spark's `stop` waits for a batch that begins now
        with self._lock:  # lets the current batch finish
            pass
        if self._query is not None:
            self._query.stop()

    def _check_failure(self) -> None:
        error = self._active_query.exception()
        if error is not None and not self._was_stopped:
            raise self._failure_cause(error)

    @property
    def _was_stopped(self) -> bool:
        """Whether the error of Spark's query is that of a batch refused by a stop."""
        return self._has_refused_batch and self._failure is None

    def progress(self) -> IngestProgress:
        """Return the progress since the start.

        Returns:
            Counts since the start, rows that wait, offsets and problems.

        Example:
            >>> print(query.progress().rows, query.progress().waiting)
        """
        counts = self._counts
        ends = {journal.recorder: journal.latest() for journal in self.journals}
        return IngestProgress(
            rows=counts.rows,
            bytes=counts.bytes,
            batches=counts.batches,
            batch_seconds=counts.batch_seconds,
            running_seconds=None if counts.started_at is None else time.monotonic() - counts.started_at,
            newest=counts.newest,
            committed_offsets=dict(counts.offsets),
            waiting=sum(max(0, end - counts.offsets.get(recorder, 0)) for recorder, end in ends.items()),
            quarantined=counts.quarantined,
            duplicates=counts.duplicates,
            lost=counts.lost,
            problem=None if self._table_maintenance is None else self._table_maintenance.problem,
            maintenance_runs=() if self._table_maintenance is None else self._table_maintenance.runs,
        )

    @property
    def _reader(self) -> str:
        """Reader name under which the journals store the offsets of this lake."""
        return reader_name(self.lake.location.address)

    @property
    def _active_query(self) -> StreamingQuery:
        if self._query is None:
            raise UsageError("the ingest query was not started")
        return self._query

    def _failure_cause(self, error: Exception) -> Exception:
        """Return the error that ended the query: that of the batch is more specific than Spark's wrapper."""
        if self._failure is not None:
            return self._failure
        return error if isinstance(error, ZError) else LakeError(self.lake.location.address, error_cause(error))

    def _has_ingested(self, target: Mapping[str, int]) -> bool:
        return all(self._counts.offsets.get(recorder, 0) >= end for recorder, end in target.items())

    # --- the query

    def _start_query(self, trigger: str | None) -> StreamingQuery:
        source = {
            "journal": json.dumps([str(journal.path.absolute()) for journal in self.journals]),
            "startingOffsets": json.dumps(self._start_offsets()),
            "parallelism": str(self._spark.sparkContext.defaultParallelism),
            "reader": self._reader,
            "slices": "true",
        }
        parts = self._spark.readStream.format("zenoh").options(**(source | self._options)).load()
        self._checkpoint = self._checkpoint or mkdtemp(prefix="zenspark-checkpoint-")
        self._refuses_batches = self._has_refused_batch = False
        writer = parts.writeStream.foreachBatch(self._ingest_batch).option(
            "checkpointLocation", Path(self._checkpoint, uuid4().hex).as_uri()
        )
        trigger_options: dict[str, Any] = {"availableNow": True} if trigger is None else {"processingTime": trigger}
        name = f"{self._reader}-{uuid4().hex[:8]}"  # a session may ingest several sets of journals into one lake
        return writer.queryName(name).trigger(**trigger_options).start()

    def _start_offsets(self) -> dict[str, int]:
        return {journal.recorder: self._start_offset(journal) for journal in self.journals}

    def _start_offset(self, journal: Journal) -> int:
        """Return the first offset to ingest: the end offset in the lake, or the first row the journal still has."""
        start, latest = self._counts.offsets.get(journal.recorder, 0), journal.latest()
        if start > latest:
            raise LakeError(
                self.lake.location.address,
                f"the lake has rows of recorder {journal.recorder!r} below offset {start}, but its journal "
                f"{journal.path} ends at {latest}: is it an older copy? Give new rows a journal of another name",
            )
        return max(start, journal.earliest())

    def _ingest_batch(self, slice_rows: DataFrame, batch: int) -> None:
        with self._lock:
            if self._refuses_batches:  # an error, or else Spark would commit its offsets, and the journals be trimmed
                self._has_refused_batch = True
                raise LakeError(self.lake.location.address, "the ingest query is being stopped")
            self._counts.started_at = started_at = time.monotonic()
            try:
                result = self._samples.commit_batch(slice_rows, batch)
            except Exception as error:
                self._failure = self._to_cause(error)
                raise
            finally:
                self._counts.started_at = None
            self._add_result(result, time.monotonic() - started_at)

    def _to_cause(self, error: Exception) -> Exception:
        """Return the error of a storage path check if that fails: it names the cause better than `error`."""
        if isinstance(error, WriterFenced):
            return error
        try:
            self.lake.location.check()
        except ZError as problem:
            return problem
        return error if isinstance(error, ZError) else LakeError(self.lake.location.address, error_cause(error))

    def _add_result(self, result: BatchResult, seconds: float) -> None:
        counts = self._counts
        counts.batch_seconds = seconds
        if not result.committed_offsets:
            return
        counts.batches += 1
        counts.rows += result.rows
        counts.bytes += result.bytes
        counts.quarantined += result.quarantined
        counts.duplicates += result.duplicates
        counts.lost += sum(result.lost.values())
        counts.offsets |= result.committed_offsets
        counts.newest = result.newest or counts.newest
        for recorder, lost in result.lost.items():
            logger.error(
                "%s: lost %d rows of recorder %s: its journal trimmed them before ingestion; let it retain more",
                self.lake.location.address,
                lost,
                recorder,
            )
        for journal in self.journals:
            if journal.recorder in result.committed_offsets:
                with contextlib.suppress(JournalError):  # the next batch commits again
                    journal.commit(self._reader, result.committed_offsets[journal.recorder])
        if self._on_batch is not None:
            self._on_batch()
