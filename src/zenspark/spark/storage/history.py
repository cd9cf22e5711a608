"""What was published in a range of time: the samples of the lake, then those that have not landed yet.

A sample counts at its timestamp, or if it has none when it was received; to the microsecond. A day is looked at only if
samples received then can be meant: a timestamp at most a day ahead of the reception is found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from zenspark.api.timeranges import TimeRange
from zenspark.arrow import UTC as COLUMN_TIME
from zenspark.arrow.outgoing import ntp64_of
from zenspark.spark.lake.partitions import prefix_of
from zenspark.spark.storage.order import Numbers
from zenspark.spark.storage.pages import encoding_of
from zenspark.spark.storage.scope import Scope
from zenspark.spark.storage.sources import Sources
from zenspark.wire.messages import Del, Put
from zenspark.wire.values import Timestamp, ZenohId

COLUMNS = [
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
AHEAD = timedelta(days=1)
"""How far a clock may be ahead of the recorder's."""
SORTED = 100_000
"""So many samples are put in order; more would have to be kept in memory for that."""
CHUNK = 1024
"""How many rows become Python objects at a time."""
MESSAGE = ["key", "kind", "payload", "encoding", "timestamp_ntp64", "timestamp_id", "attachment"]
MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAR = 1e11
"""A time after all others, in seconds: more would not fit where times are compared."""


class Asked(msgspec.Struct, frozen=True):
    """What a query wants of the past."""

    key_expr: str
    times: TimeRange
    limit: int | None = None
    """How many samples of each key at most: the newest."""


class History:
    """Answers from one lake and its journals."""

    def __init__(self, scope: Scope, sources: Sources) -> None:
        self._scope = scope
        self._sources = sources

    def samples(self, asked: Asked, owner: int = 0) -> Iterator[tuple[str, Put | Del]]:
        """The samples on one of the storage's key expressions, oldest first unless there are very many."""
        kept: list[Rows] = []
        for rows in self._rows(asked, owner):
            kept.append(rows)
            if sum(each.table.num_rows for each in kept) <= SORTED:
                continue
            if asked.limit is None:
                for each in kept:
                    yield from each.messages()
                kept = []
            else:
                kept = [Rows.joined(kept).newest(asked.limit)]
        if kept:
            rows = Rows.joined(kept)
            yield from (rows if asked.limit is None else rows.newest(asked.limit)).in_order().messages()

    def _rows(self, asked: Asked, owner: int) -> Iterator[Rows]:
        start = _microseconds(asked.times.start)
        received = None if start is None else max(0, start - AHEAD // MICROSECOND)
        landed = self._sources.samples(COLUMNS, self._only(asked, received))
        for batch in landed.batches:
            yield from self._selected(batch, asked, owner)
        for batch in self._sources.tail(landed.offsets, received):
            yield from self._selected(batch.select(COLUMNS), asked, owner)

    def _selected(self, batch: pa.RecordBatch, asked: Asked, owner: int) -> Iterator[Rows]:
        keys, rows = self._scope.select(batch.filter(_is_in(asked.times, _times(batch))), asked.key_expr, owner)
        if rows.num_rows:
            yield Rows(pa.Table.from_batches([rows.set_column(0, "key", keys.cast(pa.string()))]))

    def _only(self, asked: Asked, received: int | None) -> Any:  # noqa: ANN401 - pyarrow has no types
        """An expression that leaves files and row groups out; whoever reads on looks again."""
        only = pc.is_valid(ds.field("key"))
        if received is not None:
            first = EPOCH + timedelta(microseconds=received)
            only &= ds.field("day") >= pa.scalar(first.date(), pa.date32())
        for bound, compare in ((asked.times.start, pc.greater_equal), (asked.times.end, pc.less_equal)):
            known = _microseconds(bound)
            if known is not None:
                limit = pa.scalar(known, COLUMN_TIME)
                is_unstamped = pc.is_null(ds.field("timestamp"))
                only &= compare(ds.field("timestamp"), limit) | (is_unstamped & compare(ds.field("received_at"), limit))
        prefix = self._scope.literal_prefix(asked.key_expr)
        if prefix is not None:
            is_wild = pc.match_substring(ds.field("prefix"), "*")
            only &= (ds.field("prefix") == prefix_of(prefix)) | is_wild
        return only


class Rows(msgspec.Struct, frozen=True):
    """Samples with their full keys."""

    table: pa.Table

    @staticmethod
    def joined(parts: list[Rows]) -> Rows:
        """Those of all parts."""
        return Rows(pa.concat_tables([part.table for part in parts]))

    def _order(self) -> tuple[Numbers, Numbers]:
        """What they are ordered by: the clock's reading, then where they are recorded."""
        readings = pc.coalesce(self.table.column("timestamp_ntp64"), ntp64_of(self.table.column("received_at")))
        return self.table.column("offset").to_numpy(), readings.to_numpy().view(np.uint64)

    def in_order(self) -> Rows:
        """Oldest first."""
        return Rows(self.table.take(pa.array(np.lexsort(self._order()))))

    def newest(self, limit: int) -> Rows:
        """So many of each key."""
        keys = self.table.column("key").combine_chunks().dictionary_encode().indices.to_numpy()
        order = np.lexsort((*self._order(), keys))
        ends = np.append(np.flatnonzero(np.diff(keys[order])) + 1, len(order))
        behind = np.repeat(ends, np.diff(ends, prepend=0)) - np.arange(len(order))
        return Rows(self.table.take(pa.array(order[behind <= limit])))

    def messages(self) -> Iterator[tuple[str, Put | Del]]:
        """Each with its key, as it was published."""
        for batch in self.table.to_batches(max_chunksize=CHUNK):
            yield from map(_message, batch.select(MESSAGE).to_pylist())


def _message(row: dict[str, Any]) -> tuple[str, Put | Del]:
    stamp = None
    if row["timestamp_ntp64"] is not None and row["timestamp_id"] is not None:
        stamp = Timestamp(row["timestamp_ntp64"] % (1 << 64), ZenohId.parse(row["timestamp_id"]))
    if row["kind"] != "PUT":
        return row["key"], Del(timestamp=stamp, attachment=row["attachment"])
    encoding, payload = encoding_of(row["encoding"]), row["payload"] or b""
    return row["key"], Put(timestamp=stamp, encoding=encoding, attachment=row["attachment"], payload=payload)


def _times(batch: pa.RecordBatch) -> pa.Array:
    return pc.coalesce(batch.column("timestamp"), batch.column("received_at"))


def _is_in(times: TimeRange, column: pa.Array) -> pa.Array:
    """Of each time whether it is in the range."""
    start, end = _microseconds(times.start), _microseconds(times.end)
    found = pc.is_valid(column)
    if start is not None:
        compare = pc.greater_equal if times.has_start else pc.greater
        found = pc.and_(found, compare(column, pa.scalar(start, COLUMN_TIME)))
    if end is not None:
        compare = pc.less_equal if times.has_end else pc.less
        found = pc.and_(found, compare(column, pa.scalar(end, COLUMN_TIME)))
    return found


def _microseconds(seconds: float) -> int | None:
    """A bound since 1970; None if it bounds nothing."""
    return round(min(max(seconds, 0.0), FAR) * 1e6) if math.isfinite(seconds) else None
