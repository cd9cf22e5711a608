"""Replay: publishes recorded rows again, at their pace, faster, or as fast as possible.

Rows come from a journal or from Parquet files with the columns of a sample. Those that came at about the same time go
out together, as one batch.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC as UTC_ZONE
from datetime import datetime
from pathlib import Path
from typing import Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from zenspark.api.flush_barrier import FENCE_KEY
from zenspark.api.session import Session
from zenspark.arrow import SCHEMA
from zenspark.engine.matching import has_match
from zenspark.errors import NoJournal, UsageError
from zenspark.journal.format import MANIFEST, SAMPLES
from zenspark.journal.key_remap import KeyRemap
from zenspark.journal.parquet_input import ParquetInput
from zenspark.journal.reader import Journal
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.enums import CongestionControl, Priority

BATCH_WINDOW_SECONDS = 0.001
"""Seconds of the recording that go out together: a message by itself costs a hundred times more."""
MATCH_CACHE_SECONDS = 1.0
"""How long what was found of a key counts: with many keys and subscribers looking is dearer than publishing."""
SUBSCRIBER_POLL_SECONDS = 0.05
"""Seconds between looks at whether somebody subscribes."""
TIMESTAMP_COLUMNS = ("timestamp", "timestamp_ntp64", "timestamp_id")
NOT_PUBLISHED = ("received_at", "via")


class ReplayBound(msgspec.Struct, frozen=True):
    """Where to begin or end: at an offset, or at a time of reception in microseconds since 1970."""

    offset: int | None = None
    time_us: int | None = None

    @staticmethod
    def parse(text: str) -> ReplayBound:
        """A number is an offset, anything else a time such as 2026-11-16T12:00:00Z; UTC unless it says otherwise."""
        if text.isdigit():
            return ReplayBound(offset=int(text))
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(f"expected an offset or a time such as 2026-11-16T12:00:00Z, found {text!r}") from None
        aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC_ZONE)
        return ReplayBound(time_us=round(aware.timestamp() * 1e6))


class ReplayProgress(msgspec.Struct, frozen=True):
    """What was published."""

    rows: int
    dropped: int
    """Counted for each neighbour whose link was full."""
    seconds: float
    unmatched: int = 0
    """Rows that no subscriber took: none was known whose key expression matches theirs."""


# --- where rows come from ---------------------------------------------------------------------------------------------


def read_recorded(
    source: str, start: ReplayBound | None = None, end: ReplayBound | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a journal, or of a Parquet file or directory, between two bounds, in the order they came."""
    path = Path(source)
    if (path / MANIFEST).exists():
        return _read_journal(Journal(path), start, end)
    if not path.exists():
        raise NoJournal(source, "there is no such journal, file or directory")
    return _read_parquet(ParquetInput(path), path, start, end)


def _read_journal(journal: Journal, start: ReplayBound | None, end: ReplayBound | None) -> Iterator[pa.RecordBatch]:
    if journal.rows != SAMPLES:
        raise NoJournal(str(journal.path), f"expected a journal of samples, found one of {journal.rows}")

    def offset(bound: ReplayBound | None, otherwise: int) -> int:
        if bound is None:
            return otherwise
        return bound.offset if bound.offset is not None else journal.offset_at(bound.time_us or 0)

    first = offset(start, journal.earliest())
    return journal.read(first, max(offset(end, journal.latest()), first))


def _read_parquet(
    table: ParquetInput, path: Path, start: ReplayBound | None, end: ReplayBound | None
) -> Iterator[pa.RecordBatch]:
    condition = None
    for bound, is_start in ((start, True), (end, False)):
        if bound is not None:
            one = _bound_condition(bound, table.names, path, is_start)
            condition = one if condition is None else condition & one
    return table.read(condition)


def _bound_condition(bound: ReplayBound, names: list[str], path: Path, is_start: bool) -> ds.Expression:
    if bound.offset is not None and "offset" not in names:
        raise UsageError(f"{path}: its rows have no offsets; give a time")
    if bound.offset is not None:
        return ds.field("offset") >= bound.offset if is_start else ds.field("offset") < bound.offset
    limit = pa.scalar(bound.time_us, SCHEMA.field("received_at").type)
    return ds.field("received_at") >= limit if is_start else ds.field("received_at") < limit


# --- publishing -------------------------------------------------------------------------------------------------------


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """How rows are published again."""

    speed: float | None = 1.0
    """So many times as fast as they came; None is as fast as possible."""
    remapping: KeyRemap = KeyRemap()
    restamp: bool = False
    """Forget their timestamps, so that whoever stamps makes new ones."""
    may_drop: bool = False
    """Keep the congestion control they had; otherwise a full link makes the replay wait, and nothing is dropped."""

    def run(
        self, session: Session, batches: Iterator[pa.RecordBatch], stop: threading.Event | None = None
    ) -> Iterator[ReplayProgress]:
        """Publish; what was published up to now, after each part. Ends early when `stop` is set."""
        ending = stop or threading.Event()
        with SubscriberMatcher(session) as subscribers:
            began = time.monotonic()
            pace = ReplayClock(self.speed, began)
            rows = dropped = unmatched = 0
            for batch in batches:
                wanted = self.remapping.apply(batch)
                for part in pace.parts(wanted, ending):
                    unmatched += subscribers.unmatched(part)
                    dropped += session.put_batch(self._ready(part), congestion_control=CongestionControl.BLOCK)
                    rows += part.num_rows
                    yield ReplayProgress(rows, dropped, time.monotonic() - began, unmatched)
                if ending.is_set():
                    return

    def _ready(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        left_out = {
            *NOT_PUBLISHED,
            *(TIMESTAMP_COLUMNS if self.restamp else ()),
            *(() if self.may_drop else ("congestion",)),
        }
        names = [name for name in batch.schema.names if name in SCHEMA.names and name not in left_out]
        return batch.select(names)


class SubscriberMatcher:
    """The subscribers this session knows of, from when this is entered on: which rows find none."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._matched: dict[str, bool] = {}
        """What was found of keys since `_looked_at`."""
        self._looked_at = 0.0

    def __enter__(self) -> Self:
        # a client is told of subscribers because it has a publisher, and of those there are before any reply
        self._publisher = self._session.declare_publisher("**")
        for _ in self._session.get(FENCE_KEY, priority=Priority.BACKGROUND):
            pass
        return self

    def __exit__(self, *_: object) -> None:
        if not self._session.is_closed():
            self._publisher.undeclare()

    def unmatched(self, batch: pa.RecordBatch) -> int:
        """How many rows have a key that no subscriber takes."""
        now = time.monotonic()
        if now - self._looked_at >= MATCH_CACHE_SECONDS:
            self._matched, self._looked_at = {}, now
        counts = pc.value_counts(batch.column("key"))
        return sum(
            count.as_py() for key, count in zip(*counts.flatten(), strict=True) if not self._matches(key.as_py())
        )

    def _matches(self, key: str) -> bool:
        found = self._matched.get(key)
        if found is None:
            runtime = self._session._runtime
            found = self._matched[key] = has_match(runtime, DeclarationKind.SUBSCRIBER, KeyExpr(key))
        return found


class ReplayClock:
    """When rows are due: as long after the first as they came, divided by the speed."""

    def __init__(self, speed: float | None, began: float) -> None:
        if speed is not None and not speed > 0:
            raise UsageError(f"speed: expected more than 0, found {speed:g}")
        self._speed = speed
        self._began = began
        self._first: int | None = None

    def parts(self, batch: pa.RecordBatch, ending: threading.Event) -> Iterator[pa.RecordBatch]:
        """A batch in parts, each when it is due."""
        if self._speed is None or not batch.num_rows:
            if batch.num_rows:
                yield batch
            return
        times = memoryview(pc.cumulative_max(batch.column("received_at").cast(pa.int64())).buffers()[1]).cast("q")
        if self._first is None:
            self._first = times[0]
        start = 0
        while start < batch.num_rows and not ending.wait(self._left(times[start] - self._first)):
            now = self._first + (time.monotonic() - self._began + BATCH_WINDOW_SECONDS) * self._speed * 1e6
            stop = max(bisect_right(times, now, start, batch.num_rows), start + 1)
            yield batch[start:stop]
            start = stop

    def _left(self, since_first: int) -> float:
        """Seconds until a row is due that came so many microseconds after the first."""
        return max(since_first / 1e6 / (self._speed or 1.0) - (time.monotonic() - self._began), 0.0)


def wait_for_subscribers(session: Session, keys: list[KeyExpr], ending: threading.Event) -> bool:
    """Wait until somebody subscribes to one of the keys; whether somebody did."""
    publishers = [session.declare_publisher(key) for key in keys]
    try:
        while not any(publisher.matching_status.matching for publisher in publishers):
            if ending.wait(SUBSCRIBER_POLL_SECONDS):
                return False
        return True
    finally:
        for publisher in publishers:
            publisher.undeclare()
