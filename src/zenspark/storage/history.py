"""What was published in a range of time: the samples of the lake, then those that have not landed yet.

A sample counts at its timestamp, or if it has none when it was received; to the microsecond. A day is looked at only if
samples received then can be meant: a timestamp at most a day ahead of the reception is found.

What is read of the lake is what statistics, dictionaries and page indexes leave (`lake/scan.py`). With a limit the
rows that have not landed come first, then files from the newest on, until nothing that is left can be among the newest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.errors import LakeError, OffsetOutOfRange
from zenspark.lake.partitioning import partition_prefix
from zenspark.lake.predicates import MAX_TIME_US, MIN_TIME_US, KeyPredicate, TimePredicate
from zenspark.lake.scan import NewestTimes, ScanRequest
from zenspark.lake.specs import JOURNAL_SCHEMA
from zenspark.storage.inputs import SamplesSnapshot, StorageInputs
from zenspark.storage.key_scope import KeyScope
from zenspark.storage.ordering import Numbers
from zenspark.storage.value_pages import parse_encoding
from zenspark.types.time_range import TimeRange
from zenspark.wire.messages import Del, Put
from zenspark.wire.values import Timestamp, ZenohId

HISTORY_COLUMNS = [
    "key",
    "kind",
    "payload",
    "encoding",
    "timestamp",
    "timestamp_ntp64",
    "timestamp_id",
    "attachment",
    "received_at",
    "recorder",
    "offset",
]
MAX_CLOCK_AHEAD = timedelta(days=1)
"""How far a clock may be ahead of the recorder's."""
MAX_SORTED_ROWS, MAX_SORTED_BYTES = 100_000, 64 << 20
"""So many samples are put in order: more would have to be kept in memory for that."""
MAX_CHUNK_ROWS, MAX_CHUNK_BYTES = 1024, 4 << 20
"""How many rows become Python objects at a time: their payloads are in memory twice."""
MESSAGE_COLUMNS = ["key", "kind", "payload", "encoding", "timestamp_ntp64", "timestamp_id", "attachment"]
MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TIME_SECONDS = 1e11
"""A time after all others: more would not fit where times are compared."""


class HistoryQuery(msgspec.Struct, frozen=True):
    """What a query wants of the past."""

    key_expr: str
    times: TimeRange
    limit: int | None = None
    """How many samples at most, the newest: of each key, or if there are no wildcards in the query, in all."""


class History:
    """Answers from one lake and its journals; any number of threads may ask at once."""

    def __init__(self, scope: KeyScope, sources: StorageInputs) -> None:
        self._scope = scope
        self._inputs = sources

    def samples(self, asked: HistoryQuery, owner: int = 0) -> Iterator[tuple[str, Put | Del]]:
        """The samples on one of the storage's key expressions, oldest first unless there are very many.

        Raises `LakeError` if files were removed while they were read, and that a second time or after an answer.
        """
        is_begun = False
        try:
            for sample in self._answer(asked, owner):
                is_begun = True
                yield sample
            return
        except (FileNotFoundError, OffsetOutOfRange) as error:
            if is_begun:
                raise _removed_error(error) from error
        try:
            yield from self._answer(asked, owner)
        except (FileNotFoundError, OffsetOutOfRange) as error:
            raise _removed_error(error) from error

    def _answer(self, asked: HistoryQuery, owner: int) -> Iterator[tuple[str, Put | Del]]:
        search = HistorySearch(self._scope, asked, owner)
        past = self._inputs.snapshot(search.day_from, search.prefix)
        tail = self._inputs.read_tail(past.offsets, search.received)
        if asked.limit is None:
            yield from _order_messages(search.all_rows(past, tail))
        else:
            yield from search.newest_rows(past, tail, asked.limit).sort_by_time().messages()


class HistorySearch:
    """How the samples of one query are found."""

    def __init__(self, scope: KeyScope, asked: HistoryQuery, owner: int) -> None:
        self._scope = scope
        self._asked = asked
        self._owner = owner
        literal = scope.literal_prefix(asked.key_expr, owner)
        self.prefix = None if literal is None else partition_prefix(literal.text)
        """The partition of the keys that can match."""
        self.is_single_key = "*" not in asked.key_expr
        """Whether one key is asked for."""
        self._times = _to_time_predicate(asked.times)
        text, is_exact = literal or (None, False)
        self.wanted = ScanRequest(
            KeyPredicate(self._matching, text, is_exact=is_exact), self._times, tuple(HISTORY_COLUMNS)
        )

    def _matching(self, names: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return self._scope.match(names, self._asked.key_expr, self._owner)

    @property
    def received(self) -> int | None:
        """When samples that can be meant were received at the earliest, in microseconds; None if at any time."""
        return None if self._times.start == MIN_TIME_US else max(0, self._times.start - MAX_CLOCK_AHEAD // MICROSECOND)

    @property
    def day_from(self) -> date | None:
        """The day of that."""
        return None if self.received is None else (EPOCH + timedelta(microseconds=self.received)).date()

    def all_rows(self, past: SamplesSnapshot, tail: Iterable[pa.RecordBatch]) -> Iterator[HistoryRows]:
        """All samples, first those that have landed."""
        for batch in past.rows(self.wanted):
            yield self._landed(batch)
        yield from self._recorded(tail)

    def newest_rows(self, past: SamplesSnapshot, tail: Iterable[pa.RecordBatch], limit: int) -> HistoryRows:
        """The newest samples, first looked for among those that have not landed."""
        newest = NewestTimes(limit, is_single_key=self.is_single_key)
        kept = _NewestRows(limit, self.is_single_key)
        for rows in self._recorded(tail):
            kept.add(rows)
        found = kept.rows()
        newest.add(found.table.column("name").to_pylist(), found.times.tolist())
        for batch in past.newest(self.wanted, newest):
            kept.add(self._landed(batch))
        return kept.rows()

    def _landed(self, batch: pa.RecordBatch) -> HistoryRows:
        """Rows of the lake, which are those that are wanted."""
        return HistoryRows.from_batch(self._scope.full_keys(batch.column("key")), batch)

    def _recorded(self, tail: Iterable[pa.RecordBatch]) -> Iterator[HistoryRows]:
        """Rows of the journals, of which some are wanted."""
        for batch in tail:
            times = pc.coalesce(batch.column("timestamp"), batch.column("received_at"))
            own = batch.select(HISTORY_COLUMNS).filter(pa.array(self._times.mask(times)))
            keys, rows = self._scope.select_rows(own, self._asked.key_expr, self._owner)
            if rows.num_rows:
                yield HistoryRows.from_batch(keys.cast(pa.string()), rows)


class _NewestRows:
    """Rows of which only the newest are kept, so that there are never many in memory."""

    def __init__(self, limit: int, is_single_key: bool) -> None:
        self._limit = limit
        self._is_single_key = is_single_key
        self._kept: list[HistoryRows] = []

    def add(self, rows: HistoryRows) -> None:
        self._kept.append(rows)
        if _exceeds_sort_limit(self._kept):
            self._kept = [self.rows()]

    def rows(self) -> HistoryRows:
        return HistoryRows.concat(self._kept).newest(self._limit, is_single_key=self._is_single_key)


class HistoryRows(msgspec.Struct, frozen=True):
    """Samples with their full keys, and as `name` what these are called in the tables."""

    table: pa.Table

    @staticmethod
    def from_batch(keys: pa.Array, rows: pa.RecordBatch) -> HistoryRows:
        """Rows as they are recorded, with the full key of each."""
        named = pa.Table.from_batches([rows]).append_column("name", rows.column("key"))
        return HistoryRows(named.set_column(0, "key", keys))

    @staticmethod
    def concat(parts: list[HistoryRows]) -> HistoryRows:
        """Those of all parts."""
        return HistoryRows(pa.concat_tables([part.table for part in parts]) if parts else NO_ROWS)

    @property
    def times(self) -> Numbers:
        """When each counts, in microseconds."""
        times = pc.coalesce(self.table.column("timestamp"), self.table.column("received_at"))
        found: Numbers = times.cast(pa.int64()).to_numpy()
        return found

    def _order(self) -> tuple[Numbers, Numbers, Numbers]:
        """What they are ordered by, last first: the time, the clock's reading, and where they are recorded."""
        readings, offsets = (
            pc.fill_null(self.table.column(name), 0).to_numpy() for name in ("timestamp_ntp64", "offset")
        )
        return offsets, readings.view(np.uint64), self.times

    def sort_by_time(self) -> HistoryRows:
        """Oldest first."""
        return HistoryRows(self.table.take(pa.array(np.lexsort(self._order()))))

    def newest(self, limit: int, *, is_single_key: bool = False) -> HistoryRows:
        """So many of each key, or of all together."""
        if self.table.num_rows <= limit:
            return self
        if is_single_key:
            return HistoryRows(self.table.take(pa.array(np.lexsort(self._order())[-limit:])))
        keys = self.table.column("key").combine_chunks().dictionary_encode().indices.to_numpy()
        order = np.lexsort((*self._order(), keys))
        ends = np.append(np.flatnonzero(np.diff(keys[order])) + 1, len(order))
        behind = np.repeat(ends, np.diff(ends, prepend=0)) - np.arange(len(order))
        return HistoryRows(self.table.take(pa.array(order[behind <= limit])))

    def messages(self) -> Iterator[tuple[str, Put | Del]]:
        """Each with its key, as it was published."""
        size = max(1, self.table.nbytes // max(self.table.num_rows, 1))
        for batch in self.table.to_batches(max_chunksize=max(1, min(MAX_CHUNK_ROWS, MAX_CHUNK_BYTES // size))):
            yield from map(_to_message, batch.select(MESSAGE_COLUMNS).to_pylist())


def _order_messages(found: Iterator[HistoryRows]) -> Iterator[tuple[str, Put | Del]]:
    """Samples in order; if there are very many, as they come."""
    kept: list[HistoryRows] = []
    for rows in found:
        kept.append(rows)
        if _exceeds_sort_limit(kept):
            for each in kept:
                yield from each.messages()
            kept = []
    if kept:
        yield from HistoryRows.concat(kept).sort_by_time().messages()


def _exceeds_sort_limit(parts: list[HistoryRows]) -> bool:
    rows: int = sum(part.table.num_rows for part in parts)
    size: int = sum(part.table.nbytes for part in parts)
    return rows > MAX_SORTED_ROWS or size > MAX_SORTED_BYTES


def _to_message(row: dict[str, Any]) -> tuple[str, Put | Del]:
    stamp = None
    if row["timestamp_ntp64"] is not None and row["timestamp_id"] is not None:
        stamp = Timestamp(row["timestamp_ntp64"] % (1 << 64), ZenohId.parse(row["timestamp_id"]))
    if row["kind"] != "PUT":
        return row["key"], Del(timestamp=stamp, attachment=row["attachment"])
    encoding, payload = parse_encoding(row["encoding"]), row["payload"] or b""
    return row["key"], Put(timestamp=stamp, encoding=encoding, attachment=row["attachment"], payload=payload)


def _to_time_predicate(given: TimeRange) -> TimePredicate:
    """A range in microseconds, both ends included."""
    start, end = _to_microseconds(given.start), _to_microseconds(given.end)
    return TimePredicate(
        MIN_TIME_US if start is None else start + (not given.has_start),
        MAX_TIME_US if end is None else end - (not given.has_end),
    )


def _to_microseconds(seconds: float) -> int | None:
    """A bound since 1970; None if it bounds nothing."""
    return round(min(max(seconds, -MAX_TIME_SECONDS), MAX_TIME_SECONDS) * 1e6) if math.isfinite(seconds) else None


def _removed_error(error: FileNotFoundError | OffsetOutOfRange) -> LakeError:
    if isinstance(error, OffsetOutOfRange):
        return LakeError(error.path, "rows were trimmed away while they were read: ask again")
    return LakeError(str(error.filename or error), "was removed while it was read: ask again, or keep files longer")


NO_ROWS = pa.schema([*map(JOURNAL_SCHEMA.field, HISTORY_COLUMNS), pa.field("name", pa.string())]).empty_table()
