"""Upkeep: what a lake needs beside the landing of samples, in a thread of its own, so that rows do not wait for it.

Every few seconds the derived tables take in what landed, and what the recorders observed is brought in; every few
minutes small files become large ones, and files that no longer count are removed. Each of these is one transaction or
several, and can be left undone at any point.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zenspark.errors import ZError
from zenspark.journal import Journal
from zenspark.spark.lake import GRACE, Lake

log = logging.getLogger("zenspark.spark")


JOBS = "zenspark-upkeep"
PATIENCE = 3.0
"""Seconds that what is under way may take to end by itself."""
CANCEL_EVERY = 0.1
"""Seconds between two tries to end Spark jobs of a fold: it may just have been between two of them."""


@dataclass(frozen=True)
class Care:
    """How often to do what, in seconds, and what to keep."""

    fold_every: float = 5.0
    compact_every: float = 60.0
    age: timedelta | None = None
    """How long samples are kept; None is for ever."""
    most: int | None = None
    """How many bytes of samples are kept."""
    grace: timedelta = GRACE


class Upkeep:
    """Does what is due, from `start` until `stop`."""

    def __init__(self, spark: SparkSession, lake: Lake, journals: Sequence[Journal], reader: str, care: Care) -> None:
        """`reader` is the name under which the journals know how far the lake has come."""
        self.problem: str | None = None
        """What went wrong the last time; it is tried again the next."""
        self._spark = spark
        self._lake = lake
        self._journals = journals
        self._reader = reader
        self._care = care
        self._compacted = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zenspark-upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, fold: bool) -> None:
        """Ends what is under way; what was observed last is still brought in, and what landed last if asked for."""
        self._stopping.set()
        self._thread.join(timeout=PATIENCE)
        while self._thread.is_alive():
            self._spark.sparkContext.cancelJobGroup(JOBS)  # a fold that does not end is made up for the next time
            self._thread.join(timeout=CANCEL_EVERY)
        self._lake.observe(self._journals, self._reader)
        if fold:
            self._lake.fold(self._spark)

    def _run(self) -> None:
        self._spark.sparkContext.setJobGroup(JOBS, "upkeep of a zenspark lake", interruptOnCancel=True)
        while not self._stopping.wait(self._care.fold_every):
            try:
                self._round()
            except (ZError, DeltaError, PySparkException, Py4JError, OSError) as error:
                if self._stopping.is_set():
                    return
                self.problem = f"{type(error).__name__}: {error}"
                log.warning("upkeep: %s", self.problem)
            else:
                self.problem = None

    def _round(self) -> None:
        self._lake.observe(self._journals, self._reader)
        self._lake.fold(self._spark)
        if time.monotonic() - self._compacted >= self._care.compact_every:
            self._compacted = time.monotonic()
            self._lake.compact(self._spark)
            self._lake.retain(self._care.age, self._care.most)
            self._lake.sweep(self._care.grace)
