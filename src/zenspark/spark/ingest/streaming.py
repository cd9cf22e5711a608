"""Landing: the streaming query that brings journals into a lake, and the upkeep beside it.

One query reads all journals of a landing. Each of its batches goes into `samples` (samples.py says how); nothing else
is done on this way. Threads beside it refresh the derived tables and keep files few (upkeep.py), and renew the leases
that keep other landings away from these recorders (lease.py). Whatever of it is missed, through a crash or an error
that passes, is made up for the next time.

How far a landing has come is in the table alone. Spark's checkpoint is a directory of its own for each start, which is
removed at the end: one that a full disk has damaged, or that belongs to another lake, can do no harm.
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
from zenspark.spark.ingest.maintenance_thread import Upkeep
from zenspark.spark.ingest.samples import Landed, Samples, Superseded
from zenspark.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("zenspark.spark")

LEASE_SECONDS = 1.0
"""Between two tries to take a lease."""
DRAIN_SECONDS = 60.0
POLL_SECONDS = 0.05
"""Between two looks at whether everything has landed."""
OFTEN_SECONDS = 2.0
"""A query with batches so often is let land what is left; to start another takes longer."""

Notify = Callable[[str], None]


@dataclass(frozen=True)
class Progress:
    """How far a landing has come since it was started."""

    rows: int
    """Landed in this run,"""
    bytes: int
    """and the size of their files."""
    batches: int
    batch_seconds: float | None
    """How long the last batch took,"""
    running_seconds: float | None
    """and the one that is under way so far."""
    newest: datetime | None
    """When the newest row that landed was received."""
    reached: Mapping[str, int]
    """Up to before which offset the rows of each recorder have landed."""
    waiting: int
    """Rows in the journals that have not landed."""
    quarantined: int
    """Rows that could not be landed and were put aside."""
    duplicates: int
    """Rows that were left out, because another recorder had brought them in."""
    lost: int
    """Rows that the journals had trimmed before they landed."""
    problem: str | None
    """What is wrong with the upkeep, if anything; rows land all the same."""


@dataclass
class _Counts:
    rows: int = 0
    bytes: int = 0
    batches: int = 0
    batch_seconds: float | None = None
    began: float | None = None
    newest: datetime | None = None
    quarantined: int = 0
    duplicates: int = 0
    lost: int = 0
    landed: dict[str, int] = field(default_factory=dict)


class Landing:
    """Brings journals into a lake, from where the lake ends, until it is stopped."""

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
        """`trigger` is the time between batches, in seconds or in Spark's words.

        With None the query lands what there is and ends by itself. `options` go to the source, such as
        maxOffsetsPerTrigger. `instance` names the pipeline that this landing is a part of: the next one of the same
        name takes over its leases at once. With `deduplicate` samples that several recorders recorded land once.
        """
        if not journals:
            raise UsageError("a landing needs a journal")
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            raise UsageError(
                "a landing needs a driver with a JVM, which a Spark Connect session has not: "
                "give the master URL of the cluster instead, such as spark://host:7077"
            )
        self.lake = lake
        self.journals = [Journal(path) for path in journals]
        self._spark = spark
        self._trigger = f"{round(trigger * 1000)} milliseconds" if isinstance(trigger, int | float) else trigger
        self._is_often = isinstance(trigger, int | float) and trigger <= OFTEN_SECONDS
        self._options = dict(options or {})
        self._maintenance = maintenance or MaintenanceConfig()
        self._instance = instance
        self._deduplicate = deduplicate
        self._query: StreamingQuery | None = None
        self._leases: LeaseKeeper | None = None
        self._upkeep: Upkeep | None = None
        self._checkpoint: str | None = None
        self._clock = ClockSteps()
        self._counts = _Counts()
        self._lock = threading.Lock()
        """Held while a batch lands."""
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._on_batch: Callable[[], None] | None = None

    # --- life

    def start(self, on_wait: Notify | None = None, on_batch: Callable[[], None] | None = None) -> None:
        """Start the query and the upkeep, where the lake ends; waits while another process lands these journals.

        `on_wait` is called with one line that says which process that is, `on_batch` whenever a batch has landed.
        """
        self._on_batch = on_batch
        self.lake.folder.check()
        leases = LeaseKeeper(self.lake.folder, [each.recorder for each in self.journals], self._instance)
        self._leases = leases
        if not self._acquired(leases, on_wait or log.warning):
            return
        leases.start()
        self._upkeep = Upkeep(self._spark, self.lake, self.journals, self._reader, self._maintenance, leases)
        self.lake.create(timedelta(seconds=self._maintenance.history))
        self._samples = Samples(self.lake.folder, self.lake.table("samples"), deduplicate=self._deduplicate)
        self._samples.claim(journal.recorder for journal in self.journals)
        self._retry_quarantine()
        landed = self.lake.landed()
        self._counts.landed = {each.recorder: landed.get(each.recorder, 0) for each in self.journals}
        self._query = self._started(self._trigger)
        self._upkeep.start()

    def _acquired(self, leases: LeaseKeeper, on_wait: Notify) -> bool:
        """Wait for the leases; whether they were there before it was stopped."""
        told = None
        while (reason := leases.acquire()) is not None:
            if reason != told:
                on_wait(reason)
                told = reason
            if self._stopping.wait(LEASE_SECONDS):
                return False
        return True

    def _retry_quarantine(self) -> None:
        """Land what another version of zenspark had to put aside, if this one can read it."""
        own = {journal.recorder for journal in self.journals}
        table = self._samples.table
        aside = quarantine.listing(self.lake.folder, table)
        quarantine.retry(
            self.lake.folder, table, [item for item in aside if item.recorder in own and item.version != __version__]
        )

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended by itself, and raise what ended it; False if that takes too many seconds."""
        query = self._running
        try:
            ended = query.awaitTermination(timeout)  # type: ignore[arg-type]  # None is for ever
        except Exception as error:
            raise self._reason(error) from error
        if self._leases is not None and self._leases.lost is not None:
            raise Superseded(self.lake.folder.address, f"another process lands recorder {self._leases.lost!r}")
        if not ended and timeout is not None:
            self._restart_after_clock_step()
        return True if timeout is None else bool(ended)

    def _restart_after_clock_step(self) -> None:
        """Start the query again if the clock was set back: Spark would wait until it is as late as before."""
        seconds = self._clock.back_seconds()
        if seconds and self._trigger is not None and not self._stopping.is_set():
            log.warning("the clock was set back by %.0f s: the query is started again", seconds)
            self._stop_query()
            self._query = self._started(self._trigger)

    def stop(self, timeout: float = DRAIN_SECONDS) -> bool:
        """Land what the journals have now, refresh the tables, and end; whether everything has landed in time.

        Raises what ended the query, if that was before.
        """
        self._stopping.set()
        if self._query is None:
            return False
        deadline = time.monotonic() + timeout
        target = {journal.recorder: journal.latest() for journal in self.journals}
        try:
            has_landed = self._drained(target, deadline) if timeout else self._has_landed(target)
            if has_landed and timeout and self._upkeep is not None:
                self._upkeep.stop()
                self._upkeep.finish()
            return has_landed
        finally:
            self._end(release=True)

    def abandon(self) -> None:
        """End without landing anything more, after a failure: leases are kept for the next attempt."""
        self._stopping.set()
        with contextlib.suppress(Exception):  # Java may be gone
            self._end(release=False)

    def _end(self, *, release: bool) -> None:
        try:
            self._stop_query()
            if self._upkeep is not None:
                self._upkeep.stop()
        finally:
            if self._leases is not None:
                self._leases.stop(release=release)
            if self._checkpoint is not None:
                shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _drained(self, target: Mapping[str, int], deadline: float) -> bool:
        """Land everything up to a target; by a query that ends by itself, if the next batch may be far away."""
        self._check_failure()
        while self._is_often and not self._has_landed(target) and time.monotonic() < deadline:
            self.wait(POLL_SECONDS)
        self._stop_query()
        if not self._has_landed(target) and time.monotonic() < deadline:
            self._query = self._started(None)
            self.wait(deadline - time.monotonic())
            self._stop_query()
        return self._has_landed(target)

    def _stop_query(self) -> None:
        with self._lock:  # a batch that is under way ends; one that begins now has done nothing yet
            if self._query is not None:
                self._query.stop()

    def _check_failure(self) -> None:
        error = self._running.exception()
        if error is not None:
            raise self._reason(error)

    def progress(self) -> Progress:
        """How far it has come."""
        counts = self._counts
        ends = {journal.recorder: journal.latest() for journal in self.journals}
        return Progress(
            rows=counts.rows,
            bytes=counts.bytes,
            batches=counts.batches,
            batch_seconds=counts.batch_seconds,
            running_seconds=None if counts.began is None else time.monotonic() - counts.began,
            newest=counts.newest,
            reached=dict(counts.landed),
            waiting=sum(max(0, end - counts.landed.get(recorder, 0)) for recorder, end in ends.items()),
            quarantined=counts.quarantined,
            duplicates=counts.duplicates,
            lost=counts.lost,
            problem=None if self._upkeep is None else self._upkeep.problem,
        )

    @property
    def _reader(self) -> str:
        """The name under which the journals know how far this lake has come."""
        return reader_name(self.lake.folder.address)

    @property
    def _running(self) -> StreamingQuery:
        if self._query is None:
            raise UsageError("this landing was not started")
        return self._query

    def _reason(self, error: Exception) -> Exception:
        """Why the query ended: what was raised here says more than what Spark made of it."""
        if self._failure is not None:
            return self._failure
        return error if isinstance(error, ZError) else LakeError(self.lake.folder.address, error_cause(error))

    def _has_landed(self, target: Mapping[str, int]) -> bool:
        return all(self._counts.landed.get(recorder, 0) >= end for recorder, end in target.items())

    # --- the query

    def _started(self, trigger: str | None) -> StreamingQuery:
        source = {
            "journal": json.dumps([str(journal.path.absolute()) for journal in self.journals]),
            "startingOffsets": json.dumps(self._beginnings()),
            "parallelism": str(self._spark.sparkContext.defaultParallelism),
            "reader": self._reader,
            "slices": "true",
        }
        parts = self._spark.readStream.format("zenoh").options(**(source | self._options)).load()
        self._checkpoint = self._checkpoint or mkdtemp(prefix="zenspark-checkpoint-")
        writer = parts.writeStream.foreachBatch(self._land).option(
            "checkpointLocation", Path(self._checkpoint, uuid4().hex).as_uri()
        )
        timed: dict[str, Any] = {"availableNow": True} if trigger is None else {"processingTime": trigger}
        name = f"{self._reader}-{uuid4().hex[:8]}"  # a session may land several sets of journals in one lake
        return writer.queryName(name).trigger(**timed).start()

    def _beginnings(self) -> dict[str, int]:
        return {journal.recorder: self._beginning(journal) for journal in self.journals}

    def _beginning(self, journal: Journal) -> int:
        """Where to begin in a journal: behind what the lake has, or where its rows begin if those before are gone."""
        landed, latest = self._counts.landed.get(journal.recorder, 0), journal.latest()
        if landed > latest:
            raise LakeError(
                self.lake.folder.address,
                f"it has rows of recorder {journal.recorder!r} up to before offset {landed}, but its journal "
                f"{journal.path} ends at {latest}: is it an older copy? Give new rows a journal of another name",
            )
        return max(landed, journal.earliest())

    def _land(self, parts: DataFrame, batch: int) -> None:
        with self._lock:
            self._counts.began = began = time.monotonic()
            try:
                landed = self._samples.land(parts, batch)
            except Exception as error:
                self._failure = self._explained(error)
                raise
            finally:
                self._counts.began = None
            self._count(landed, time.monotonic() - began)

    def _explained(self, error: Exception) -> Exception:
        """An error, or what is wrong with the place if that is it: it says so better."""
        if isinstance(error, Superseded):
            return error
        try:
            self.lake.folder.check()
        except ZError as problem:
            return problem
        return error if isinstance(error, ZError) else LakeError(self.lake.folder.address, error_cause(error))

    def _count(self, landed: Landed, seconds: float) -> None:
        counts = self._counts
        counts.batch_seconds = seconds
        if not landed.reached:
            return
        counts.batches += 1
        counts.rows += landed.rows
        counts.bytes += landed.bytes
        counts.quarantined += landed.quarantined
        counts.duplicates += landed.duplicates
        counts.lost += landed.lost
        counts.landed |= landed.reached
        counts.newest = landed.newest or counts.newest
        if landed.lost:
            log.error("%d rows were trimmed from the journals before they could land", landed.lost)
        for journal in self.journals:
            if journal.recorder in landed.reached:
                with contextlib.suppress(JournalError):  # the next batch does it again
                    journal.commit(self._reader, landed.reached[journal.recorder])
        if self._on_batch is not None:
            self._on_batch()
