"""Upkeep: what a lake needs beside the landing of samples, in a thread of its own, so that rows do not wait for it.

Every few seconds the derived tables take in what landed, and what the recorders observed is brought in; every few minutes small files
become large ones, and files that no longer count are removed. Each of these is one transaction or several,
and can be left undone at any point.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zenspark.errors import ZError
from zenspark.journal import Journal
from zenspark.spark.lake import Lake

log = logging.getLogger("zenspark.spark")


class Upkeep:
    """Does what is due, every so many seconds, from `start` until `stop`."""

    def __init__(self, spark: SparkSession, lake: Lake, journals: Sequence[Journal], every: float) -> None:
        self.problem: str | None = None
        """What went wrong the last time; it is tried again the next."""
        self._spark = spark
        self._lake = lake
        self._journals = journals
        self._every = every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zenspark-upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends after what is under way; what was observed last is still brought in."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._every):
            self._try()

    def _try(self) -> None:
        try:
            self._lake.fold(self._spark)
        except (ZError, DeltaError, PySparkException, OSError) as error:
            self.problem = f"{type(error).__name__}: {error}"
            log.warning("upkeep: %s", self.problem)
        else:
            self.problem = None
