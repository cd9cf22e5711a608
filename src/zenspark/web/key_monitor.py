"""KeyMonitor: rate, size, age and newest value of each key of a key expression, while a page shows them.

A subscriber leaves rows in a `ChunkQueue`; a thread aggregates them by key with Arrow a few times per second. The cost
depends on the number of keys that changed, little on the number of messages.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterable
from itertools import islice

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.api.session import Session
from zenspark.arrow.decode import ConcatenatedColumns, RowChunk, concat_columns
from zenspark.clock import NTP64_PER_SECOND
from zenspark.errors import ZError
from zenspark.web.chunk_queue import ChunkQueue
from zenspark.web.values import Document, iso_from_us, picture_text, short_text, value_document

UPDATE_INTERVAL_SECONDS = 0.25
"""Interval in seconds at which rows are aggregated, and at which pages are sent batches."""
RATE_INTERVAL_SECONDS = 1.0
"""Interval in seconds at which the rates of keys are computed."""
RATE_DECAY_SECONDS = 4.0
"""Time constant in seconds of the exponential average of a rate."""
MIN_SENT_RATE_CHANGE = 0.05
"""Share of a rate by which it must have changed since pages were sent it, to be sent again."""
MIN_MESSAGES_PER_SECOND = 0.02
"""Messages per second below which the rate of a key without new messages is 0."""
MAX_MONITORED_KEYS = 50_000
"""Keys that a monitor keeps: a publisher of ever new keys must not fill the memory."""
MAX_KEPT_PAYLOAD_BYTES = 2 << 20
"""Bytes of a payload up to which it is kept as the newest value of its key."""
MAX_TOTAL_KEPT_BYTES = 128 << 20
"""Bytes of all kept payloads of a monitor; beyond, only payloads of up to `ALWAYS_KEPT_PAYLOAD_BYTES` are kept."""
ALWAYS_KEPT_PAYLOAD_BYTES = 1024
"""Bytes of a payload up to which it is always kept."""
MONITOR_LINGER_SECONDS = 30.0
"""Time in seconds that a monitor stays after its last page has disconnected, so that a reloaded page finds it."""
WARM_UP_SECONDS = 1.0
"""Time in seconds that a new monitor waits for first messages."""


class KeyState(msgspec.Struct):
    """Counts, rates and newest sample of one key."""

    key: str
    count: int = 0
    byte_count: int = 0
    rate: float = 0.0
    bytes_rate: float = 0.0
    received_at: int = 0
    """Microseconds since 1970."""
    kind: str = "PUT"
    encoding: str = ""
    size: int = 0
    source: str | None = None
    timestamp: int | None = None
    """Microseconds since 1970; None if the sample had no timestamp."""
    payload: bytes | None = None
    """Newest payload; None if it is too large to keep."""
    change: int = 0
    """Number of its last change, counted over all keys."""
    sent_rate: float = 0.0
    """Rate that was last sent to pages."""
    first_at: float = 0.0
    count_before: int = 0
    bytes_before: int = 0
    _row: bytes | None = None

    def row(self, now_us: int) -> bytes:
        """Return its row in JSON; all but the age is encoded once per change."""
        if self._row is None:
            if self.payload is None:
                value = picture_text(self.encoding, self.size) or ""
            else:
                value = short_text(self.payload, self.encoding)
            encoded = msgspec.json.encode(
                {
                    "key": self.key,
                    "count": self.count,
                    "rate": round(self.rate, 2),
                    "bytes_rate": round(self.bytes_rate, 1),
                    "kind": self.kind,
                    "encoding": self.encoding,
                    "size": self.size,
                    "source": self.source,
                    "value": value,
                }
            )
            self._row = encoded[:-1]
        return b'%s,"age_ms":%d}' % (self._row, max(now_us - self.received_at, 0) // 1000)

    def document(self) -> Document:
        """Return its newest sample."""
        return {
            "key": self.key,
            "kind": self.kind,
            "timestamp": iso_from_us(self.timestamp),
            "received_at": iso_from_us(self.received_at),
            "source": self.source,
            "value": value_document(self.payload or b"", self.encoding) | {"size": self.size},
        }


class KeyTable:
    """The keys of one monitor, ordered by their last change. Guarded by `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._changes = 0
        self._states: dict[str, KeyState] = {}
        self.is_truncated = False
        """Whether keys were left out because there are too many."""
        self.skipped = 0
        """Messages that were not aggregated, because they arrived too fast."""
        self._rated_at = time.monotonic()
        self._kept_bytes = 0

    def __len__(self) -> int:
        return len(self._states)

    def get(self, key: str) -> KeyState | None:
        """Return the state of a key; None if there is none."""
        return self._states.get(key)

    def add(self, chunks: list[RowChunk], now: float) -> None:
        """Aggregate rows; `now` is in seconds of the monotonic clock."""
        with self.lock:
            if chunks:
                for update in aggregate(concat_columns(chunks)):
                    self._apply(update, now)
            if now - self._rated_at >= RATE_INTERVAL_SECONDS:
                self._update_rates(now)

    def _apply(self, update: KeyUpdate, now: float) -> None:
        state = self._states.get(update.key)
        if state is None:
            if len(self._states) >= MAX_MONITORED_KEYS:
                self.is_truncated = True
                return
            state = self._states[update.key] = KeyState(update.key, first_at=now)
        self._number_change(state)
        state.count += update.count
        state.byte_count += update.byte_count
        state.kind, state.encoding, state.source = update.kind, update.encoding, update.source
        state.size = update.size
        self._kept_bytes -= len(state.payload or b"")
        is_kept = update.size <= ALWAYS_KEPT_PAYLOAD_BYTES or self._kept_bytes < MAX_TOTAL_KEPT_BYTES
        state.payload = update.payload if is_kept else None
        self._kept_bytes += len(state.payload or b"")
        state.timestamp, state.received_at = update.timestamp, update.received_at

    def _number_change(self, state: KeyState) -> None:
        """Number a change, and move the key to the end."""
        self._changes += 1
        state.change, state._row = self._changes, None
        self._states[state.key] = self._states.pop(state.key)

    def _update_rates(self, now: float) -> None:
        """Average the rates of all keys that have or had one."""
        seconds, self._rated_at = now - self._rated_at, now
        weight = 1 - math.exp(-seconds / RATE_DECAY_SECONDS)
        changed: list[KeyState] = []
        for state in self._states.values():
            count, size = state.count - state.count_before, state.byte_count - state.bytes_before
            if not count and not state.rate:
                continue
            state.count_before, state.bytes_before = state.count, state.byte_count
            is_new = now - state.first_at < RATE_DECAY_SECONDS
            share = max(weight, seconds / max(now - state.first_at, seconds)) if is_new else weight
            state.rate += (count / seconds - state.rate) * share
            state.bytes_rate += (size / seconds - state.bytes_rate) * share
            if state.rate < MIN_MESSAGES_PER_SECOND and not count:
                state.rate = state.bytes_rate = 0.0
            if not state.rate or abs(state.rate - state.sent_rate) > MIN_SENT_RATE_CHANGE * state.sent_rate:
                state.sent_rate = state.rate
                changed.append(state)
        for state in changed:
            self._number_change(state)

    def changed_rows(self, since: int, limit: int) -> tuple[list[tuple[str, bytes]], int]:
        """Return keys and rows that changed after a change, oldest first, at most `limit`, and the last change."""
        states: list[KeyState] = []
        with self.lock:
            for state in reversed(self._states.values()):
                if state.change <= since:
                    break
                states.append(state)
            states = states[-limit:]
            states.reverse()
            now_us = time.time_ns() // 1000
            rows = [(state.key, state.row(now_us)) for state in states]
            return rows, states[-1].change if states else since

    def newest_rows(self, limit: int) -> list[tuple[str, bytes]]:
        """Return keys and rows, those that changed last first, at most `limit`."""
        with self.lock:
            now_us = time.time_ns() // 1000
            return [(state.key, state.row(now_us)) for state in islice(reversed(self._states.values()), limit)]

    def keys(self) -> list[str]:
        """Return all keys."""
        with self.lock:
            return list(self._states)


class KeyUpdate(msgspec.Struct, frozen=True):
    """Aggregate of the rows of one key."""

    key: str
    count: int
    byte_count: int
    kind: str
    encoding: str
    source: str | None
    size: int
    payload: bytes | None
    timestamp: int | None
    received_at: int


def aggregate(rows: ConcatenatedColumns) -> Iterable[KeyUpdate]:
    """Yield an update for each set of shared values, which have one key each; the newest of a key comes last."""
    sizes = pc.binary_length(rows.payload)
    received_at = pc.run_end_decode(rows.received_at).cast(pa.int64())
    if rows.index is None:
        yield _update(rows, received_at, (rows.rows - 1, 0, rows.rows, pc.sum(sizes).as_py()))
        return
    table = pa.table({"index": rows.index, "size": sizes, "row": pa.array(range(rows.rows), pa.int64())})
    grouped = table.group_by("index", use_threads=False).aggregate([([], "count_all"), ("size", "sum"), ("row", "max")])
    shared_indices, counts, totals, last_rows = (
        grouped.column(name).to_pylist() for name in ("index", "count_all", "size_sum", "row_max")
    )
    for group in sorted(zip(last_rows, shared_indices, counts, totals, strict=True)):
        yield _update(rows, received_at, group)


def _update(rows: ConcatenatedColumns, received_at: pa.Array, group: tuple[int, int, int, int | None]) -> KeyUpdate:
    """Make the update of a group: its last row, the index of its shared values, its rows and bytes."""
    last, shared_index, count, total = group
    shared = rows.shared[shared_index]
    payload = rows.payload[last]
    size = 0 if not payload.is_valid else len(payload.as_buffer())
    ntp64 = None if rows.ntp64 is None or shared.timestamp_id is None else rows.ntp64[last].as_py()
    return KeyUpdate(
        shared.key or "",
        count,
        total or 0,
        shared.kind,
        shared.encoding,
        shared.source_zid or shared.via or shared.timestamp_id,
        size,
        payload.as_py() if size <= MAX_KEPT_PAYLOAD_BYTES else None,
        None if ntp64 is None else ntp64 * 1_000_000 // NTP64_PER_SECOND,
        received_at[last].as_py(),
    )


class KeyMonitor:
    """Watches the keys of one key expression, from construction until `close`."""

    def __init__(self, session: Session, key_expr: str) -> None:
        self.key_expr = key_expr
        self.table = KeyTable()
        self._began = time.monotonic()
        self._is_closing = threading.Event()
        self._queue = ChunkQueue()
        self._subscriber = session.declare_subscriber(key_expr, self._queue)
        self._thread = threading.Thread(target=self._run, name="zenspark-keys", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_closing.wait(UPDATE_INTERVAL_SECONDS):
            self.update()

    def wait_for_keys(self) -> None:
        """Wait until there are keys, for at most `WARM_UP_SECONDS`."""
        while not self.is_warm:
            time.sleep(UPDATE_INTERVAL_SECONDS / 5)

    @property
    def is_warm(self) -> bool:
        """Whether there are keys, or `WARM_UP_SECONDS` have passed: before that, keys may still be on their way."""
        return len(self.table) > 0 or time.monotonic() - self._began >= WARM_UP_SECONDS

    def update(self) -> None:
        """Aggregate the received rows."""
        chunks, skipped = self._queue.take()
        self.table.skipped += skipped
        self.table.add(chunks, time.monotonic())

    def close(self) -> None:
        """Undeclare the subscriber."""
        self._is_closing.set()
        with contextlib.suppress(ZError):
            self._subscriber.undeclare()


class KeyMonitors:
    """The monitors of a server by key expression; each lives while it is used, and a while longer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._monitors: dict[str, KeyMonitor] = {}
        self._users: dict[str, int] = {}
        self._unused_since: dict[str, float] = {}

    def acquire(self, key_expr: str) -> KeyMonitor:
        """Return the monitor of a key expression, for use until `release`."""
        with self._lock:
            monitor = self._monitors.get(key_expr)
            if monitor is None:
                monitor = self._monitors[key_expr] = KeyMonitor(self._session, key_expr)
            self._users[key_expr] = self._users.get(key_expr, 0) + 1
            self._unused_since.pop(key_expr, None)
            return monitor

    def release(self, key_expr: str) -> None:
        """End the use of a monitor."""
        with self._lock:
            self._users[key_expr] -= 1
            if not self._users[key_expr]:
                self._unused_since[key_expr] = time.monotonic()

    def close_unused(self, now: float, linger: float = MONITOR_LINGER_SECONDS) -> None:
        """Close monitors that were not used for `linger` seconds."""
        with self._lock:
            for key_expr, unused_since in list(self._unused_since.items()):
                if now - unused_since >= linger:
                    del self._unused_since[key_expr], self._users[key_expr]
                    self._monitors.pop(key_expr).close()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            for monitor in self._monitors.values():
                monitor.close()
            self._monitors.clear()

    def newest(self, key: str) -> KeyState | None:
        """Return the newest state of a key in any monitor."""
        with self._lock:
            states = [state for monitor in self._monitors.values() if (state := monitor.table.get(key)) is not None]
        return max(states, key=lambda state: state.received_at, default=None)

    @property
    def key_count(self) -> int:
        """Number of keys of the largest monitor."""
        with self._lock:
            return max((len(monitor.table) for monitor in self._monitors.values()), default=0)

    @property
    def skipped(self) -> int:
        """Messages that monitors did not aggregate, because they arrived too fast."""
        with self._lock:
            return sum(monitor.table.skipped for monitor in self._monitors.values())
