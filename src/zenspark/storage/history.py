"""History queries: the samples of a time range, from the lake and from journal rows that are not ingested yet.

The time of a sample is its timestamp, or its reception time if it has none, in microseconds. Days are pruned by
reception time: a sample is found if its timestamp is at most a day ahead of its reception.

The lake is scanned selectively (`lake/scan.py`). With a limit the journal rows are read first, then files from the
newest on, until no remaining file can have one of the newest samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
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
from zenspark.storage.sample_order import Numbers
from zenspark.storage.value_pages import parse_encoding
from zenspark.types.time_range import TimeRange
from zenspark.types.timestamps import EPOCH, MICROSECOND
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
"""Largest lead of the clock of a timestamp over the recorder's clock."""
MAX_SORTED_ROWS, MAX_SORTED_BYTES = 100_000, 64 << 20
"""More samples than this are returned unsorted: sorting would have to keep all of them in memory."""
MAX_CHUNK_ROWS, MAX_CHUNK_BYTES = 1024, 4 << 20
"""Rows that become Python objects at a time: their payloads are in memory twice."""
MESSAGE_COLUMNS = ["key", "kind", "payload", "encoding", "timestamp_ntp64", "timestamp_id", "attachment"]
MAX_TIME_SECONDS = 1e11
"""Bound of times in a query: larger ones would overflow microseconds in 64 bits."""


class HistoryQuery(msgspec.Struct, frozen=True):
    """Parameters of a history query."""

    key_expr: str
    times: TimeRange
    limit: int | None = None
    """Maximum number of samples, the newest ones: per key, or in total if the key expression has no wildcards."""


class History:
    """Runs history queries on one lake and its journals; thread-safe."""

    def __init__(self, scope: KeyScope, inputs: StorageInputs) -> None:
        self._scope = scope
        self._inputs = inputs

    def samples(self, query: HistoryQuery, key_expr_index: int = 0) -> Iterator[tuple[str, Put | Del]]:
        """Yield the samples for one of the storage's key expressions, oldest first unless there are very many.

        Raises `LakeError` if files were removed while they were read: in the second attempt, or after the first sample.
        """
        has_yielded = False
        try:
            for sample in self._run(query, key_expr_index):
                has_yielded = True
                yield sample
            return
        except (FileNotFoundError, OffsetOutOfRange) as error:
            if has_yielded:
                raise _removed_error(error) from error
        try:
            yield from self._run(query, key_expr_index)
        except (FileNotFoundError, OffsetOutOfRange) as error:
            raise _removed_error(error) from error

    def _run(self, query: HistoryQuery, key_expr_index: int) -> Iterator[tuple[str, Put | Del]]:
        search = HistorySearch(self._scope, query, key_expr_index)
        snapshot = self._inputs.snapshot(search.day_from, search.prefix)
        tail = self._inputs.read_tail(snapshot.offsets, search.received)
        if query.limit is None:
            yield from _order_messages(search.all_rows(snapshot, tail))
        else:
            yield from search.newest_rows(snapshot, tail, query.limit).sort_by_time().messages()


class HistorySearch:
    """Finds the samples of one query."""

    def __init__(self, scope: KeyScope, query: HistoryQuery, key_expr_index: int) -> None:
        self._scope = scope
        self._query = query
        self._key_expr_index = key_expr_index
        literal = scope.literal_prefix(query.key_expr, key_expr_index)
        self.prefix = None if literal is None else partition_prefix(literal.text)
        """Prefix partition of the keys that can match; None for all."""
        self.is_single_key = "*" not in query.key_expr
        """Whether the query is for a single key."""
        self._times = _to_time_predicate(query.times)
        text, is_exact = literal or (None, False)
        self.request = ScanRequest(
            KeyPredicate(self._matching, text, is_exact=is_exact), self._times, tuple(HISTORY_COLUMNS)
        )

    def _matching(self, names: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return self._scope.match(names, self._query.key_expr, self._key_expr_index)

    @property
    def received(self) -> int | None:
        """Earliest reception time of samples that can match, in microseconds; None if unbounded."""
        return None if self._times.start == MIN_TIME_US else max(0, self._times.start - MAX_CLOCK_AHEAD // MICROSECOND)

    @property
    def day_from(self) -> date | None:
        """Earliest day of reception of samples that can match; None if unbounded."""
        return None if self.received is None else (EPOCH + timedelta(microseconds=self.received)).date()

    def all_rows(self, snapshot: SamplesSnapshot, tail: Iterable[pa.RecordBatch]) -> Iterator[HistoryRows]:
        """Yield all samples, ingested ones first."""
        for batch in snapshot.rows(self.request):
            yield self._from_lake(batch)
        yield from self._from_journals(tail)

    def newest_rows(self, snapshot: SamplesSnapshot, tail: Iterable[pa.RecordBatch], limit: int) -> HistoryRows:
        """Find the newest samples; journal rows are searched first."""
        newest = NewestTimes(limit, is_single_key=self.is_single_key)
        kept = _NewestRows(limit, self.is_single_key)
        for rows in self._from_journals(tail):
            kept.add(rows)
        journal_rows = kept.rows()
        newest.add(journal_rows.table.column("name").to_pylist(), journal_rows.times.tolist())
        for batch in snapshot.newest(self.request, newest):
            kept.add(self._from_lake(batch))
        return kept.rows()

    def _from_lake(self, batch: pa.RecordBatch) -> HistoryRows:
        """Convert rows of the lake, all of which match."""
        return HistoryRows.from_batch(self._scope.full_keys(batch.column("key")), batch)

    def _from_journals(self, tail: Iterable[pa.RecordBatch]) -> Iterator[HistoryRows]:
        """Select the matching rows of the journals."""
        for batch in tail:
            times = pc.coalesce(batch.column("timestamp"), batch.column("received_at"))
            in_range = batch.select(HISTORY_COLUMNS).filter(pa.array(self._times.mask(times)))
            keys, rows = self._scope.select_rows(in_range, self._query.key_expr, self._key_expr_index)
            if rows.num_rows:
                yield HistoryRows.from_batch(keys.cast(pa.string()), rows)


class _NewestRows:
    """Collects rows and keeps only the newest, to bound memory."""

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
    """Samples with their full keys; `name` is the key in the tables, without `strip_prefix`."""

    table: pa.Table

    @staticmethod
    def from_batch(keys: pa.Array, rows: pa.RecordBatch) -> HistoryRows:
        """Add the full keys to recorded rows."""
        with_names = pa.Table.from_batches([rows]).append_column("name", rows.column("key"))
        return HistoryRows(with_names.set_column(0, "key", keys))

    @staticmethod
    def concat(parts: list[HistoryRows]) -> HistoryRows:
        """Concatenate rows."""
        return HistoryRows(pa.concat_tables([part.table for part in parts]) if parts else NO_ROWS)

    @property
    def times(self) -> Numbers:
        """Time of each row, in microseconds."""
        times = pc.coalesce(self.table.column("timestamp"), self.table.column("received_at"))
        microseconds: Numbers = times.cast(pa.int64()).to_numpy()
        return microseconds

    def _order(self) -> tuple[Numbers, Numbers, Numbers]:
        """Sort keys for `np.lexsort`, least significant first: offset, clock reading, time."""
        readings, offsets = (
            pc.fill_null(self.table.column(name), 0).to_numpy() for name in ("timestamp_ntp64", "offset")
        )
        return offsets, readings.view(np.uint64), self.times

    def sort_by_time(self) -> HistoryRows:
        """Sort rows, oldest first."""
        return HistoryRows(self.table.take(pa.array(np.lexsort(self._order()))))

    def newest(self, limit: int, *, is_single_key: bool = False) -> HistoryRows:
        """Keep the newest `limit` rows per key, or in total with `is_single_key`."""
        if self.table.num_rows <= limit:
            return self
        if is_single_key:
            return HistoryRows(self.table.take(pa.array(np.lexsort(self._order())[-limit:])))
        keys = self.table.column("key").combine_chunks().dictionary_encode().indices.to_numpy()
        order = np.lexsort((*self._order(), keys))
        ends = np.append(np.flatnonzero(np.diff(keys[order])) + 1, len(order))
        from_end = np.repeat(ends, np.diff(ends, prepend=0)) - np.arange(len(order))
        return HistoryRows(self.table.take(pa.array(order[from_end <= limit])))

    def messages(self) -> Iterator[tuple[str, Put | Del]]:
        """Yield each sample as key and message."""
        size = max(1, self.table.nbytes // max(self.table.num_rows, 1))
        for batch in self.table.to_batches(max_chunksize=max(1, min(MAX_CHUNK_ROWS, MAX_CHUNK_BYTES // size))):
            yield from map(_to_message, batch.select(MESSAGE_COLUMNS).to_pylist())


def _order_messages(batches: Iterator[HistoryRows]) -> Iterator[tuple[str, Put | Del]]:
    """Yield samples sorted by time; unsorted if there are very many."""
    kept: list[HistoryRows] = []
    for rows in batches:
        kept.append(rows)
        if _exceeds_sort_limit(kept):
            for part in kept:
                yield from part.messages()
            kept = []
    if kept:
        yield from HistoryRows.concat(kept).sort_by_time().messages()


def _exceeds_sort_limit(parts: list[HistoryRows]) -> bool:
    rows: int = sum(part.table.num_rows for part in parts)
    size: int = sum(part.table.nbytes for part in parts)
    return rows > MAX_SORTED_ROWS or size > MAX_SORTED_BYTES


def _to_message(row: dict[str, Any]) -> tuple[str, Put | Del]:
    timestamp = None
    if row["timestamp_ntp64"] is not None and row["timestamp_id"] is not None:
        timestamp = Timestamp(row["timestamp_ntp64"] % (1 << 64), ZenohId.parse(row["timestamp_id"]))
    if row["kind"] != "PUT":
        return row["key"], Del(timestamp=timestamp, attachment=row["attachment"])
    encoding, payload = parse_encoding(row["encoding"]), row["payload"] or b""
    return row["key"], Put(timestamp=timestamp, encoding=encoding, attachment=row["attachment"], payload=payload)


def _to_time_predicate(times: TimeRange) -> TimePredicate:
    """Convert to a closed range in microseconds."""
    start, end = _to_microseconds(times.start), _to_microseconds(times.end)
    return TimePredicate(
        MIN_TIME_US if start is None else start + (not times.includes_start),
        MAX_TIME_US if end is None else end - (not times.includes_end),
    )


def _to_microseconds(seconds: float) -> int | None:
    """A bound in microseconds since 1970; None if it is infinite."""
    return round(min(max(seconds, -MAX_TIME_SECONDS), MAX_TIME_SECONDS) * 1e6) if math.isfinite(seconds) else None


def _removed_error(error: FileNotFoundError | OffsetOutOfRange) -> LakeError:
    if isinstance(error, OffsetOutOfRange):
        return LakeError(error.path, "rows were trimmed while they were read: query again")
    return LakeError(str(error.filename or error), "was removed while it was read: query again, or keep files longer")


NO_ROWS = pa.schema([*map(JOURNAL_SCHEMA.field, HISTORY_COLUMNS), pa.field("name", pa.string())]).empty_table()
