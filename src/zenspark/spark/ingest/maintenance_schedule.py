"""TableMaintenance: refresh, compaction, retention and vacuum of a lake, beside ingestion.

One thread refreshes: every few seconds it updates the derived tables with ingested rows and imports the network events
of the recorders. Another thread compacts: every minute by default it merges small files, removes expired samples, and
then vacuums files that no snapshot references. Each step is one or more transactions and can be interrupted at any
point. Of several processes that ingest into one lake, one does this (lake/lease.py).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from zenspark.errors import ZError
from zenspark.journal import Journal
from zenspark.lake.delta_table import DEFAULT_HISTORY
from zenspark.lake.error_cause import error_cause
from zenspark.lake.lease import LeaseKeeper
from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.spark.ingest.maintenance import Retention, RetentionRule
from zenspark.spark.ingest.process_protocol import MaintenanceRun
from zenspark.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("zenspark.spark")

JOIN_TIMEOUT_SECONDS = 3.0
"""Seconds for the current task to finish before its Spark jobs are cancelled."""
CANCEL_RETRY_INTERVAL_SECONDS = 0.1
"""Seconds between two cancellations of the Spark jobs of a task: it may have been between two jobs."""
PUBLIC_WRITE_PAUSE_FACTOR = 10
"""Minimum pause before the public tables are written again, as a multiple of the last duration."""
HANDOVER_TIMEOUT_SECONDS = 20.0
"""Seconds to wait at the end until the process that maintains the tables has refreshed the last rows, or ended."""
HANDOVER_POLL_INTERVAL_SECONDS = 0.2
NOT_MAINTAINER = "another process maintains the tables"
FULL_VACUUM_INTERVAL_RUNS = 60
"""Compaction runs between full vacuums, which list all files to find files that were never committed."""


class PeriodicMaintenance:
    """Runs a task periodically in a thread; a failed task is retried in the next run."""

    def __init__(self, spark: SparkSession, address: str, name: str, interval: float, task: Callable[[], str]) -> None:
        """Take the address of the lake, for the log, the interval in seconds, and a task that returns a summary."""
        self.problem: str | None = None
        """Error of the last run in one line."""
        self.last_run = MaintenanceRun(task=name)
        """The last run, and the start of the next."""
        self._spark = spark
        self._address = address
        self._name = name
        self._interval = interval
        self._task = task
        self._stopping = threading.Event()
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name=f"zenspark-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and cancel its Spark jobs; the next run completes their work."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=JOIN_TIMEOUT_SECONDS)
        while self._thread.is_alive():
            self._is_cancelled = True
            self._spark.sparkContext.cancelJobGroup(self._group)
            self._thread.join(timeout=CANCEL_RETRY_INTERVAL_SECONDS)
        self._is_cancelled = False

    @property
    def _group(self) -> str:
        return f"zenspark-{self._name}"

    def _run(self) -> None:
        try:
            self._spark.sparkContext.setJobGroup(self._group, f"{self._name} of a lake", interruptOnCancel=True)
            while not self._wait():
                self.run_once()
        except Exception as error:  # Java has ended, and the ingest query with it
            if not self._is_cancelled:
                self.problem = self._describe(error)
                logger.warning("%s: table maintenance ended: %s", self._address, self.problem, exc_info=error)

    def _wait(self) -> bool:
        """Wait for the next run; returns whether the thread is to end."""
        self.last_run = msgspec.structs.replace(self.last_run, next=time.time() + self._interval)
        return self._stopping.wait(self._interval)

    def run_once(self) -> None:
        """Run the task once in the calling thread."""
        self.last_run = msgspec.structs.replace(self.last_run, next=None)
        began = time.monotonic()
        try:
            result = self._task()
        except Exception as error:  # ingestion continues, and the next run retries
            self._record_problem(error)
            result = error_cause(error)
        else:
            self.problem = None
        self.last_run = MaintenanceRun(
            task=self._name,
            time=time.time(),
            seconds=time.monotonic() - began,
            result=result,
            is_failed=self.problem is not None,
        )

    def _record_problem(self, error: Exception) -> None:
        if self._is_cancelled:
            return
        problem = self._describe(error)
        if problem != self.problem:
            text = "%s: table maintenance failed, retrying in %g s: %s"
            logger.warning(text, self._address, self._interval, problem, exc_info=error)
        self.problem = problem

    def _describe(self, error: Exception) -> str:
        return f"{self._name}: {error_cause(error)}"


class TableMaintenance:
    """Runs the periodic maintenance of a lake, from `start` until `stop`."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        journals: Sequence[Journal],
        reader: str,
        config: MaintenanceConfig,
        leases: LeaseKeeper,
    ) -> None:
        """`reader` is the name under which the journals store the offsets of the lake."""
        self._spark = spark
        self._lake = lake
        self._journals = journals
        self._reader = reader
        self._config = config
        self._leases = leases
        self._compactions = 0
        self._public_write_at = 0.0
        address, run = lake.location.address, self._with_path_check
        self._tasks = [
            PeriodicMaintenance(spark, address, "refresh", config.refresh_interval, partial(run, self._refresh)),
            PeriodicMaintenance(spark, address, "compaction", config.compact_interval, partial(run, self._compact)),
        ]

    @property
    def problem(self) -> str | None:
        """Error of the last run of a task, if any."""
        return next((task.problem for task in self._tasks if task.problem), None)

    @property
    def runs(self) -> tuple[MaintenanceRun, ...]:
        """The last run of each task."""
        return tuple(task.last_run for task in self._tasks)

    def start(self) -> None:
        for task in self._tasks:
            task.start()

    def stop(self) -> None:
        """Stop both threads."""
        for task in self._tasks:
            task.stop()

    def finish(self) -> None:
        """Import the last network events, refresh the derived tables and write the public ones, for the last time.

        While another process maintains the tables, that process does it. If it is ending as well, it may have refreshed
        before the last rows were ingested. So this waits until its work is complete, or takes over.
        """
        deadline = time.monotonic() + HANDOVER_TIMEOUT_SECONDS
        with contextlib.suppress(OSError, ZError):  # the refresh reports the error
            while not (self._leases.maintain_now() or self._lake.is_refreshed()) and time.monotonic() < deadline:
                time.sleep(HANDOVER_POLL_INTERVAL_SECONDS)
        self._public_write_at = 0.0
        self._tasks[0].run_once()

    def _with_path_check(self, task: Callable[[], str]) -> str:
        """Run a task; if it fails and the storage path check fails as well, raise the error of the check."""
        try:
            return task()
        except Exception:
            self._lake.location.check()
            raise

    def _refresh(self) -> str:
        self._lake.observe(self._journals, self._reader)
        if not self._leases.maintains:
            return NOT_MAINTAINER
        self._lake.refresh(self._spark)
        if time.monotonic() < self._public_write_at:
            return "derived tables refreshed"
        written = self._lake.publish(self._spark)
        self._public_write_at = time.monotonic() + written.seconds * PUBLIC_WRITE_PAUSE_FACTOR
        return f"derived tables refreshed, {written.rows} rows written to public tables"

    def _compact(self) -> str:
        if not self._leases.maintains:
            return NOT_MAINTAINER
        decrease = self._lake.compact(self._spark)
        expired = self._lake.expire(make_retention(self._config), self._spark)
        history = timedelta(seconds=self._config.history)
        self._lake.set_history(history)
        deleted = self._lake.vacuum()
        if self._compactions % FULL_VACUUM_INTERVAL_RUNS == 0:  # uncommitted files may belong to the current batch
            deleted += self._lake.vacuum(max(history, DEFAULT_HISTORY), full=True)
        self._lake.checkpoint()
        self._compactions += 1
        return f"{decrease} files fewer, {expired} expired, {deleted} deleted from disk"


def make_retention(config: MaintenanceConfig) -> Retention:
    """Make the retention from the configuration: rules in their order, a bare prefix means all keys below it."""
    rules = tuple(RetentionRule(to_key_expr(name), _age(seconds)) for name, seconds in config.retain.items())
    return Retention(_age(config.retain_age), config.retain_bytes, rules)


def to_key_expr(name: str) -> str:
    """Return a key expression unchanged; a prefix such as `fleet` or `fleet/ant/` becomes the keys below it."""
    return name if "*" in name else f"{name.rstrip('/')}/**"


def _age(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
