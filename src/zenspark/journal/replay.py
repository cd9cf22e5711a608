"""Replay: publishes recorded rows at their original rate, a multiple of it, or as fast as possible.

Rows are read from a journal or from Parquet files with the columns of a sample. Rows received at about the same time
are published as one batch.
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

from zenspark.api.session import Session, runtime_of
from zenspark.arrow import SCHEMA
from zenspark.engine.matching_status import has_match
from zenspark.errors import NoJournal, UsageError
from zenspark.journal.flush_barrier import FLUSH_BARRIER_KEY
from zenspark.journal.format import MANIFEST, SAMPLES
from zenspark.journal.journal import Journal
from zenspark.journal.key_remap import KeyRemap
from zenspark.journal.parquet_input import ParquetInput
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.enums import CongestionControl, Priority

BATCH_WINDOW_SECONDS = 0.001
"""Time window in seconds of rows that are published as one batch: a single message costs a hundred times more."""
MATCH_CACHE_SECONDS = 1.0
"""Seconds for which the match result of a key is cached: a lookup among many subscribers costs more than publishing."""
SUBSCRIBER_POLL_INTERVAL_SECONDS = 0.05
"""Poll interval in seconds while waiting for subscribers."""
TIMESTAMP_COLUMNS = ("timestamp", "timestamp_ntp64", "timestamp_id")
NOT_PUBLISHED = ("received_at", "via")


class ReplayBound(msgspec.Struct, frozen=True):
    """Start or end of a replay: an offset, or a reception time in microseconds since 1970."""

    offset: int | None = None
    time_us: int | None = None

    @staticmethod
    def parse(text: str) -> ReplayBound:
        """Parse an offset (digits), or an ISO 8601 time such as 2026-11-16T12:00:00Z; UTC is the default zone."""
        if text.isdigit():
            return ReplayBound(offset=int(text))
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(f"expected an offset or a time such as 2026-11-16T12:00:00Z, found {text!r}") from None
        aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC_ZONE)
        return ReplayBound(time_us=round(aware.timestamp() * 1e6))


class ReplayProgress(msgspec.Struct, frozen=True):
    """Progress of a replay: rows published so far."""

    rows: int
    dropped: int
    """Dropped messages, counted per neighbour whose link was congested."""
    seconds: float
    unmatched: int = 0
    """Rows without a matching subscriber."""
    read: int = 0
    """Rows of the source that were read, including those that are not published."""


# --- sources ----------------------------------------------------------------------------------------------------------


def read_recorded(
    source: str, start: ReplayBound | None = None, end: ReplayBound | None = None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a journal, or of a Parquet file or directory, between two bounds, in order of reception."""
    path = Path(source)
    if (path / MANIFEST).exists():
        return _read_journal(Journal(path), start, end)
    if not path.exists():
        raise NoJournal(source, "there is no such journal, file or directory")
    return _read_parquet(ParquetInput(path), path, start, end)


def count_recorded(source: str, start: ReplayBound | None = None, end: ReplayBound | None = None) -> int:
    """Count the rows that `read_recorded` reads; a journal may grow meanwhile."""
    path = Path(source)
    if (path / MANIFEST).exists():
        first, last = find_offsets(Journal(path), start, end)
        return last - first
    table = ParquetInput(path)
    return table.count(_bounds_condition(table, path, start, end))


def _read_journal(journal: Journal, start: ReplayBound | None, end: ReplayBound | None) -> Iterator[pa.RecordBatch]:
    if journal.row_type != SAMPLES:
        raise NoJournal(str(journal.path), f"expected a journal of samples, found one of {journal.row_type}")
    return journal.read(*find_offsets(journal, start, end))


def find_offsets(journal: Journal, start: ReplayBound | None, end: ReplayBound | None) -> tuple[int, int]:
    """Return the first offset, and the one after the last."""

    def offset(bound: ReplayBound | None, otherwise: int) -> int:
        if bound is None:
            return otherwise
        return bound.offset if bound.offset is not None else journal.offset_at(bound.time_us or 0)

    first = offset(start, journal.earliest())
    return first, max(offset(end, journal.latest()), first)


def _read_parquet(
    table: ParquetInput, path: Path, start: ReplayBound | None, end: ReplayBound | None
) -> Iterator[pa.RecordBatch]:
    return table.read(_bounds_condition(table, path, start, end))


def _bounds_condition(
    table: ParquetInput, path: Path, start: ReplayBound | None, end: ReplayBound | None
) -> ds.Expression | None:
    condition = None
    for bound, is_start in ((start, True), (end, False)):
        if bound is not None:
            bounded = _bound_condition(bound, table.names, path, is_start)
            condition = bounded if condition is None else condition & bounded
    return condition


def _bound_condition(bound: ReplayBound, names: list[str], path: Path, is_start: bool) -> ds.Expression:
    if bound.offset is not None and "offset" not in names:
        raise UsageError(f"{path}: its rows have no offsets; give a time")
    if bound.offset is not None:
        return ds.field("offset") >= bound.offset if is_start else ds.field("offset") < bound.offset
    limit = pa.scalar(bound.time_us, SCHEMA.field("received_at").type)
    return ds.field("received_at") >= limit if is_start else ds.field("received_at") < limit


# --- publishing -------------------------------------------------------------------------------------------------------


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a replay."""

    speed: float | None = 1.0
    """Multiple of the original rate; None is as fast as possible."""
    remapping: KeyRemap = KeyRemap()
    restamp: bool = False
    """Drop the recorded timestamps, so that the node or its router assigns new ones."""
    may_drop: bool = False
    """Keep the recorded congestion control; otherwise it is BLOCK, and nothing is dropped on a congested link."""

    def run(
        self, session: Session, batches: Iterator[pa.RecordBatch], stop: threading.Event | None = None
    ) -> Iterator[ReplayProgress]:
        """Publish batches; yields the progress after each part. Ends early when `stop` is set."""
        ending = stop or threading.Event()
        with SubscriberMatcher(session) as subscribers:
            began = time.monotonic()
            clock = ReplayClock(self.speed, began)
            rows = dropped = unmatched = read = 0
            for batch in batches:
                selected = self.remapping.apply(batch)
                done = 0
                for part in clock.split_when_due(selected, ending):
                    unmatched += subscribers.count_unmatched(part)
                    dropped += session.put_batch(self._select_columns(part), congestion_control=CongestionControl.BLOCK)
                    rows += part.num_rows
                    done += part.num_rows
                    position = read + batch.num_rows * done // selected.num_rows
                    yield ReplayProgress(rows, dropped, time.monotonic() - began, unmatched, position)
                read += batch.num_rows
                if ending.is_set():
                    return

    def _select_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        omitted = {
            *NOT_PUBLISHED,
            *(TIMESTAMP_COLUMNS if self.restamp else ()),
            *(() if self.may_drop else ("congestion",)),
        }
        names = [name for name in batch.schema.names if name in SCHEMA.names and name not in omitted]
        return batch.select(names)


class SubscriberMatcher:
    """Counts rows without a matching subscriber, while it is entered."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._matched: dict[str, bool] = {}
        """Match results of keys since `_cached_at`."""
        self._cached_at = 0.0

    def __enter__(self) -> Self:
        # a client gets declarations of subscribers because it has a publisher, and all current ones before any reply
        self._publisher = self._session.declare_publisher("**")
        for _ in self._session.get(FLUSH_BARRIER_KEY, priority=Priority.BACKGROUND):
            pass
        return self

    def __exit__(self, *_: object) -> None:
        if not self._session.is_closed():
            self._publisher.undeclare()

    def count_unmatched(self, batch: pa.RecordBatch) -> int:
        """Count rows whose key matches no subscriber."""
        now = time.monotonic()
        if now - self._cached_at >= MATCH_CACHE_SECONDS:
            self._matched, self._cached_at = {}, now
        counts = pc.value_counts(batch.column("key"))
        return sum(
            count.as_py() for key, count in zip(*counts.flatten(), strict=True) if not self._matches(key.as_py())
        )

    def _matches(self, key: str) -> bool:
        is_matched = self._matched.get(key)
        if is_matched is None:
            runtime = runtime_of(self._session)
            is_matched = self._matched[key] = has_match(runtime, DeclarationKind.SUBSCRIBER, KeyExpr(key))
        return is_matched


class ReplayClock:
    """Schedules rows: each is due as long after the first as it was received, divided by the speed."""

    def __init__(self, speed: float | None, began: float) -> None:
        if speed is not None and not speed > 0:
            raise UsageError(f"speed: expected more than 0, found {speed:g}")
        self._speed = speed
        self._began = began
        self._first: int | None = None

    def split_when_due(self, batch: pa.RecordBatch, ending: threading.Event) -> Iterator[pa.RecordBatch]:
        """Yield the parts of a batch, each when it is due."""
        if self._speed is None or not batch.num_rows:
            if batch.num_rows:
                yield batch
            return
        times = memoryview(pc.cumulative_max(batch.column("received_at").cast(pa.int64())).buffers()[1]).cast("q")
        if self._first is None:
            self._first = times[0]
        start = 0
        while start < batch.num_rows and not ending.wait(self._seconds_left(times[start] - self._first)):
            now = self._first + (time.monotonic() - self._began + BATCH_WINDOW_SECONDS) * self._speed * 1e6
            stop = max(bisect_right(times, now, start, batch.num_rows), start + 1)
            yield batch[start:stop]
            start = stop

    def _seconds_left(self, since_first: int) -> float:
        """Return the seconds until a row is due that was received `since_first` microseconds after the first."""
        return max(since_first / 1e6 / (self._speed or 1.0) - (time.monotonic() - self._began), 0.0)


def wait_for_subscribers(session: Session, keys: list[KeyExpr], ending: threading.Event) -> bool:
    """Wait until one of the keys has a matching subscriber; False if `ending` is set first."""
    publishers = [session.declare_publisher(key) for key in keys]
    try:
        while not any(publisher.matching_status.matching for publisher in publishers):
            if ending.wait(SUBSCRIBER_POLL_INTERVAL_SECONDS):
                return False
        return True
    finally:
        for publisher in publishers:
            publisher.undeclare()
