"""Upkeep: what a lake needs beside the landing of samples, in threads of its own, so that rows do not wait for it.

One thread refreshes: every few seconds the derived tables take in what landed, and what the recorders observed is
brought in. Another one compacts: every few minutes small files become large ones, samples that are not kept any longer
are removed, and then files that no longer count. Each of these is one transaction or several, and can be left undone
at any point. Of several landings in one lake, one does it (lease.py).
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

from zenspark.errors import ZError
from zenspark.journal import Journal
from zenspark.lake.delta_table import DEFAULT_HISTORY
from zenspark.lake.error_cause import error_cause
from zenspark.lake.lease import LeaseKeeper
from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.spark.ingest.maintenance import Retention, Rule
from zenspark.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("zenspark.spark")

END_SECONDS = 3.0
"""What is under way may take so long to end by itself."""
CANCEL_SECONDS = 0.1
"""Between two tries to end the Spark jobs of a task: it may just have been between two of them."""
PUBLISH_PAUSE = 10
"""After a publication of the derived tables at least so many times its duration passes before the next one."""
HANDOVER_SECONDS = 20.0
"""So long at the end a landing waits for the process that maintains the tables to take in its rows, or to end."""
HANDOVER_POLL_SECONDS = 0.2
FULL_VACUUM_ROUNDS = 60
"""Every so many rounds all files are listed, to find those that were written and never committed."""


class PeriodicTask:
    """Does something again and again in a thread; what fails is tried again the next time."""

    def __init__(self, spark: SparkSession, name: str, interval: float, task: Callable[[], None]) -> None:
        self.problem: str | None = None
        """What went wrong the last time, in one line."""
        self._spark = spark
        self._name = name
        self._interval = interval
        self._task = task
        self._stopping = threading.Event()
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name=f"zenspark-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it, and the Spark jobs that it has under way: what they leave undone is made up for later."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=END_SECONDS)
        while self._thread.is_alive():
            self._is_cancelled = True
            self._spark.sparkContext.cancelJobGroup(self._group)
            self._thread.join(timeout=CANCEL_SECONDS)
        self._is_cancelled = False

    @property
    def _group(self) -> str:
        return f"zenspark-{self._name}"

    def _run(self) -> None:
        try:
            self._spark.sparkContext.setJobGroup(self._group, f"{self._name} of a lake", interruptOnCancel=True)
            while not self._stopping.wait(self._interval):
                self.run_once()
        except Exception as error:  # Java is gone, and the landing with it
            self._note(error)

    def run_once(self) -> None:
        """Do it now, in this thread."""
        try:
            self._task()
        except Exception as error:  # whatever it is, rows land, and the next round tries again
            self._note(error)
        else:
            self.problem = None

    def _note(self, error: Exception) -> None:
        if self._is_cancelled:
            return
        problem = f"{self._name}: {error_cause(error)}"
        if problem != self.problem:
            log.warning("%s", problem, exc_info=error)
        self.problem = problem


class Upkeep:
    """Does what is due in a lake, from `start` until `stop`."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        journals: Sequence[Journal],
        reader: str,
        config: MaintenanceConfig,
        leases: LeaseKeeper,
    ) -> None:
        """`reader` is the name under which the journals know how far the lake has come."""
        self._spark = spark
        self._lake = lake
        self._journals = journals
        self._reader = reader
        self._config = config
        self._leases = leases
        self._rounds = 0
        self._publish_at = 0.0
        self._tasks = [
            PeriodicTask(spark, "refresh", config.refresh_interval, partial(self._explained, self._refresh)),
            PeriodicTask(spark, "compaction", config.compact_interval, partial(self._explained, self._compact)),
        ]

    @property
    def problem(self) -> str | None:
        """What is wrong, if anything."""
        return next((task.problem for task in self._tasks if task.problem), None)

    def start(self) -> None:
        for task in self._tasks:
            task.start()

    def stop(self) -> None:
        """End what is under way."""
        for task in self._tasks:
            task.stop()

    def finish(self) -> None:
        """Bring in what was observed last, refresh the tables and publish them, for the last time.

        While another process maintains the tables it does that; if it is ending, too, it may have done so before the
        last rows landed. So it is waited for, or its work taken over.
        """
        deadline = time.monotonic() + HANDOVER_SECONDS
        with contextlib.suppress(OSError, ZError):  # the refresh says what is wrong
            while not (self._leases.maintain_now() or self._lake.is_refreshed()) and time.monotonic() < deadline:
                time.sleep(HANDOVER_POLL_SECONDS)
        self._publish_at = 0.0
        self._tasks[0].run_once()

    def _explained(self, task: Callable[[], None]) -> None:
        """Do something; if it fails because of the place, say what is wrong with that."""
        try:
            task()
        except Exception:
            self._lake.folder.check()
            raise

    def _refresh(self) -> None:
        self._lake.observe(self._journals, self._reader)
        if self._leases.maintains:
            self._lake.refresh(self._spark)
            if time.monotonic() >= self._publish_at:
                cost = self._lake.publish(self._spark).seconds
                self._publish_at = time.monotonic() + cost * PUBLISH_PAUSE

    def _compact(self) -> None:
        if not self._leases.maintains:
            return
        self._lake.compact(self._spark)
        self._lake.expire(retention_of(self._config), self._spark)
        history = timedelta(seconds=self._config.history)
        self._lake.set_history(history)
        self._lake.vacuum()
        if self._rounds % FULL_VACUUM_ROUNDS == 0:  # what is not committed yet may belong to a batch under way
            self._lake.vacuum(max(history, DEFAULT_HISTORY), full=True)
        self._lake.checkpoint()
        self._rounds += 1


def retention_of(config: MaintenanceConfig) -> Retention:
    """What is kept of samples: rules in the order in which they were given, a bare prefix for all keys below it."""
    rules = tuple(Rule(key_expression(name), _age(seconds)) for name, seconds in config.retain.items())
    return Retention(_age(config.retain_age), config.retain_bytes, rules)


def key_expression(name: str) -> str:
    """A key expression as it is; a prefix, such as `fleet` or `fleet/ant/`, means the keys below it."""
    return name if "*" in name else f"{name.rstrip('/')}/**"


def _age(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
