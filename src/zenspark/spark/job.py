"""Job: everything between a Zenoh network and tables, in one process and the Spark it drives.

A session, recorders and storages start at once; Spark, which takes seconds, lands what they record as soon as it is
there. To end, first nothing more is recorded, then everything recorded lands. Whatever is cut off in between is in the
journal, and lands the next time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from zenspark.api.config import Config
from zenspark.api.opening import open as open_session
from zenspark.errors import ZError
from zenspark.journal import Policy
from zenspark.spark.engine import spark_session
from zenspark.spark.lake import Lake
from zenspark.spark.lake.landing import Landing
from zenspark.spark.lake.landing import Progress as LandingProgress
from zenspark.spark.storage.managing import Storages
from zenspark.spark.storage.settings import StorageSettings

MOMENT = 0.01
"""Seconds to look whether something has ended: Spark refuses to be asked without waiting."""


class JobEnded(ZError):
    """The job cannot go on: a part of it has ended, and why."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem)
        self.what = what
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what} has ended: {self.problem}"


class Progress(msgspec.Struct, frozen=True):
    """How far a job has come since it was started."""

    recorded: int
    rate: float
    """Messages a second, lately."""
    landed: int
    waiting: int
    """Recorded, and not in a table yet."""
    bytes: int
    """What the files of the tables took."""
    lag: float | None
    """Seconds from the network to the table, of the last batch."""
    batch_seconds: float | None
    """How long the last batch took."""
    keys: int
    """Of how many keys the newest value can be asked for."""
    problem: str | None
    """What is wrong and does not keep rows from landing."""


class Job:
    """One node with its storages and landings."""

    def __init__(self, config: Config, storages: Sequence[StorageSettings], policy: Policy | None = None) -> None:
        self.session = open_session(config)
        self.storages = Storages(self.session, storages, policy)
        self.landings: dict[str, Landing] = {}
        """By the place of their lake."""
        self.spark: SparkSession | None = None

    def record(self) -> None:
        """Record and answer from now on."""
        self.storages.start()

    def land(self, master: str) -> SparkSession:
        """Start Spark, and have it land what is recorded."""
        self.spark = spark_session(master)
        for lake, journals in self._journals().items():
            self.landings[lake] = Landing(self.spark, journals, Lake(lake))
            self.landings[lake].start()
        return self.spark

    def _journals(self) -> dict[str, list[Path]]:
        """Of each lake the journals that land there."""
        found: dict[str, list[Path]] = {}
        for each in self.storages.settings:
            if each.lake is not None and each.record and each.journal not in found.setdefault(each.lake, []):
                found[each.lake].append(each.journal)
        return found

    def check(self) -> None:
        """JobEnded if a part has ended that should go on."""
        for recorder in self.storages.recorders.values():
            if not recorder.is_running:
                raise JobEnded("recording", recorder.status().error or "the session was closed")
        for lake, landing in self.landings.items():
            if landing.wait(MOMENT):
                raise JobEnded(f"landing in {lake}", "Spark ended the query")

    def progress(self) -> Progress:
        """How far it has come."""
        recorded = [recorder.status() for recorder in self.storages.recorders.values()]
        landed = [landing.progress() for landing in self.landings.values()]
        problems = [each.error for each in recorded if each.error] + [each.problem for each in landed if each.problem]
        return Progress(
            recorded=sum(each.rows for each in recorded),
            rate=sum(each.rate for each in recorded),
            landed=sum(each.rows for each in landed),
            waiting=sum(each.waiting for each in landed),
            bytes=sum(each.bytes for each in landed),
            lag=_greatest(landed, "lag"),
            batch_seconds=_greatest(landed, "batch_seconds"),
            keys=sum(len(storage.newest) for storage in self.storages.storages.values()),
            problem=problems[0] if problems else None,
        )

    def drain(self) -> None:
        """Record no more, and land everything that was recorded."""
        self.storages.stop_recording()
        if self.spark is not None:
            self.spark.sparkContext.setLogLevel("OFF")  # what is cancelled on purpose Spark would log as errors
        for landing in self.landings.values():
            landing.stop()

    def close(self) -> None:
        """End all of it; what has not landed does so the next time."""
        for landing in self.landings.values():
            with contextlib.suppress(ZError):  # why it ended was said before
                landing.stop(0)
        self.storages.close()
        self.session.close()
        if self.spark is not None:
            self.spark.stop()


def _greatest(landed: list[LandingProgress], name: str) -> float | None:
    return max((getattr(each, name) for each in landed if getattr(each, name) is not None), default=None)
