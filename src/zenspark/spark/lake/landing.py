"""Landing: the streaming query that brings journals into a lake, and the upkeep beside it.

One query reads all journals. Each of its batches goes into `samples` (samples.py says how); nothing else is done on
this way. A thread beside it folds what landed into the derived tables, brings in what the recorders observed, and
keeps files few. Whatever of it is missed, through a crash or an error that passes, is made up for the next time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from zenspark.errors import LakeError, UsageError, ZError
from zenspark.journal import Journal
from zenspark.spark.lake import Lake
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.samples import Landed, Samples
from zenspark.spark.lake.upkeep import Care, Upkeep

log = logging.getLogger("zenspark.spark")

CHECKPOINT = "_checkpoint"
LOOK_EVERY = 0.05
"""Seconds between looks at whether everything has landed."""


@dataclass(frozen=True)
class Progress:
    """How far a landing has come since it was started."""

    rows: int
    """Landed in this run,"""
    bytes: int
    """and the size of their files."""
    batches: int
    batch_seconds: float | None
    """How long the last batch took."""
    newest: datetime | None
    """When the newest row that landed was received."""
    lag: float | None
    """How old that was, in seconds, when it had landed: the time from the network to the table."""
    waiting: int
    """Rows in the journals that have not landed."""
    problem: str | None
    """What is wrong with the upkeep, if anything; rows land all the same."""


@dataclass
class _Counts:
    rows: int = 0
    bytes: int = 0
    batches: int = 0
    batch_seconds: float | None = None
    newest: datetime | None = None
    lag: float | None = None
    landed: dict[str, int] = field(default_factory=dict)


class Landing:
    """Brings journals into a lake, from where the lake ends, until it is stopped."""

    def __init__(
        self,
        spark: SparkSession,
        journals: Sequence[str | Path],
        lake: Lake,
        trigger: str | None = "1 second",
        options: Mapping[str, str] | None = None,
        care: Care | None = None,
    ) -> None:
        """`trigger` is the time between batches; with None the query lands what there is and ends by itself.

        `options` go to the source, such as maxOffsetsPerTrigger; `care` says how the tables are kept in shape.
        """
        if not journals:
            raise UsageError("a landing needs a journal")
        self.lake = lake
        self.journals = [Journal(path) for path in journals]
        self._spark = spark
        self._trigger = trigger
        self._options = dict(options or {})
        self._query: StreamingQuery | None = None
        self._counts = _Counts()
        self._landing = threading.Lock()  # held while a batch lands
        self._failure: ZError | None = None
        self._upkeep = Upkeep(spark, lake, self.journals, self._reader, care or Care())

    # --- life

    def start(self) -> None:
        """Starts the query and the upkeep. Goes on where the lake ends, whatever happened before."""
        self._counts.landed = self.lake.landed()  # also makes sure that the table can be used, before anything starts
        self._query = self._started()
        self._upkeep.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the query has ended by itself, and raises what ended it; False if that takes too many seconds."""
        query = self._running
        try:
            ended = query.awaitTermination(timeout)  # type: ignore[arg-type]  # None is for ever
        except PySparkException as error:
            raise self._reason(error) from error
        return True if timeout is None else bool(ended)

    def stop(self, timeout: float = 60.0) -> None:
        """Lands what the journals have now, then ends; raises what ended the query, if that was before."""
        target = {journal.recorder: journal.latest() for journal in self.journals}
        deadline = time.monotonic() + timeout
        while self._running.isActive and not self._has_landed(target) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)
        with self._landing:  # a batch that is under way ends; one that begins now has done nothing yet
            self._running.stop()
        if not self.lake.folder.local:
            self._checkpoint.remove("")
        self._upkeep.stop(fold=self._trigger is None)
        if self._failure is not None:
            raise self._failure
        if self._running.exception() is not None and not self._has_landed(target):
            raise self._reason(self._running.exception())

    def progress(self) -> Progress:
        """How far it has come."""
        counts = self._counts
        ends = {journal.recorder: journal.latest() for journal in self.journals}
        waiting = sum(end - counts.landed.get(recorder, 0) for recorder, end in ends.items())
        return Progress(
            rows=counts.rows,
            bytes=counts.bytes,
            batches=counts.batches,
            batch_seconds=counts.batch_seconds,
            newest=counts.newest,
            lag=counts.lag,
            waiting=waiting,
            problem=self._upkeep.problem,
        )

    @property
    def _reader(self) -> str:
        """The name under which the journals know how far this lake has come."""
        return f"lake-{hashlib.sha256(self.lake.folder.address.encode()).hexdigest()[:16]}"

    @property
    def _running(self) -> StreamingQuery:
        if self._query is None:
            raise UsageError("this landing was not started")
        return self._query

    def _reason(self, error: object) -> ZError:
        return self._failure or LakeError(self.lake.folder.address, f"landing ended: {error}")

    def _has_landed(self, target: Mapping[str, int]) -> bool:
        return all(self._counts.landed.get(recorder, 0) >= end for recorder, end in target.items())

    # --- the query

    def _started(self) -> StreamingQuery:
        source = {
            "journal": json.dumps([str(journal.path.absolute()) for journal in self.journals]),
            # only for a new checkpoint: it goes on where the table ends
            "startingOffsets": json.dumps(self._beginnings()),
            "reader": self._reader,
            "slices": "true",
        }
        parts = self._spark.readStream.format("zenoh").options(**(source | self._options)).load()
        writer = parts.writeStream.foreachBatch(self._land).option("checkpointLocation", self._checkpoint.spark)
        timed: dict[str, Any] = {"availableNow": True} if self._trigger is None else {"processingTime": self._trigger}
        return writer.queryName(self._reader).trigger(**timed).start()

    @cached_property
    def _checkpoint(self) -> Folder:
        """Where Spark notes what it does: in the lake, or if that is not on this machine in a new directory each time.

        Without an old one the query begins where the table ends, and Spark has no way to write to S3 by itself.
        """
        if self.lake.folder.local:
            return self.lake.folder / CHECKPOINT
        return Folder.at(mkdtemp(prefix="zenspark-checkpoint-"))

    def _beginnings(self) -> dict[str, int]:
        return {
            journal.recorder: max(self._counts.landed.get(journal.recorder, 0), journal.earliest())
            for journal in self.journals
        }

    @cached_property
    def _samples(self) -> Samples:
        """Made when the first batch comes: then Spark has named the query in its checkpoint."""
        named = self._checkpoint.read("metadata")
        assert named is not None
        return Samples(self.lake.table("samples"), json.loads(named)["id"])

    def _land(self, parts: DataFrame, batch: int) -> None:
        began = time.monotonic()
        with self._landing:
            try:
                landed = self._landed(parts, batch)
            except ZError as error:
                self._failure = error
                raise
            self._count(landed, time.monotonic() - began)

    def _landed(self, parts: DataFrame, batch: int) -> Landed | None:
        try:
            return self._samples.land(parts, batch)
        except (OSError, DeltaError, Py4JJavaError):
            self.lake.folder.check()  # if it is the place, this says so better
            raise

    def _count(self, landed: Landed | None, seconds: float) -> None:
        counts = self._counts
        counts.batch_seconds = seconds
        if landed is not None:
            counts.batches += 1
            counts.rows += landed.rows
            counts.bytes += landed.bytes
            counts.landed |= landed.reached
            if landed.newest is not None:
                counts.newest = landed.newest
                counts.lag = time.time() - landed.newest.timestamp()
