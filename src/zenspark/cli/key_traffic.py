"""KeyTraffic: messages, bytes, rates and the last value of each key, counted as samples arrive."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterable

from zenspark.types.enums import SampleKind
from zenspark.types.sample import Sample

MAX_COUNTED_KEYS = 100_000
"""Keys that are counted one by one; samples of further keys are counted together."""
LATEST_INTERVAL_WEIGHT = 0.3
"""Weight of the latest interval in a rate; the previous rate has the rest of the weight."""


class KeyCounts:
    """Counts of one key, and its last sample."""

    __slots__ = (
        "_previous",
        "byte_rate",
        "bytes",
        "encoding",
        "is_deleted",
        "key",
        "messages",
        "payload",
        "rate",
        "seen_at",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.messages = 0
        self.bytes = 0
        self.rate = 0.0
        """Messages per second."""
        self.byte_rate = 0.0
        """Bytes of payload per second."""
        self.seen_at = 0.0
        """Time of the last sample, of a monotonic clock."""
        self.payload = b""
        self.encoding = ""
        self.is_deleted = False
        self._previous: tuple[int, int] | None = None

    def update_rates(self, seconds: float) -> None:
        """Compute the rates after an interval; the first interval counts alone."""
        messages, size = self._previous or (0, 0)
        rate, byte_rate = (self.messages - messages) / seconds, (self.bytes - size) / seconds
        weight = 1.0 if self._previous is None else LATEST_INTERVAL_WEIGHT
        self.rate += weight * (rate - self.rate)
        self.byte_rate += weight * (byte_rate - self.byte_rate)
        self._previous = (self.messages, self.bytes)


ORDERS: dict[str, Callable[[KeyCounts], float]] = {
    "rate": lambda counts: round(counts.rate, 1),
    "bytes": lambda counts: round(counts.byte_rate),
    "messages": lambda counts: counts.messages,
    "age": lambda counts: counts.seen_at,
}
"""Orders of keys by a number, largest first; the most recent sample for age."""


class KeyTraffic:
    """Counts samples by key; use it as the callback of a subscriber."""

    def __init__(self, max_keys: int = MAX_COUNTED_KEYS, clock: Callable[[], float] = time.monotonic) -> None:
        self._counts: dict[str, KeyCounts] = {}
        self._lock = threading.Lock()
        self._max_keys = max_keys
        self._clock = clock
        self._ticked_at = clock()
        self.total = KeyCounts("")
        """The counts of all keys together."""
        self.uncounted = 0
        """Samples of keys beyond the maximum."""

    def __call__(self, sample: Sample) -> None:
        key, size = str(sample.key_expr), len(sample.payload)
        with self._lock:
            self.total.messages += 1
            self.total.bytes += size
            counts = self._counts.get(key)
            if counts is None:
                if len(self._counts) >= self._max_keys:
                    self.uncounted += 1
                    return
                counts = self._counts[key] = KeyCounts(key)
            counts.messages += 1
            counts.bytes += size
            counts.seen_at = self._clock()
            counts.payload = sample.payload.to_bytes()
            counts.encoding = str(sample.encoding)
            counts.is_deleted = sample.kind is SampleKind.DELETE

    def __len__(self) -> int:
        return len(self._counts)

    def keys(self) -> list[str]:
        """Return the keys seen so far."""
        with self._lock:
            return list(self._counts)

    def get(self, key: str) -> KeyCounts | None:
        """Return the counts of a key, None if it was not seen."""
        return self._counts.get(key)

    def tick(self) -> None:
        """Update all rates; to be called at regular intervals."""
        with self._lock:
            now = self._clock()
            seconds = now - self._ticked_at
            if seconds <= 0:
                return
            self._ticked_at = now
            self.total.update_rates(seconds)
            for counts in self._counts.values():
                counts.update_rates(seconds)

    def largest(self, order: str, count: int, key_filter: Callable[[str], bool] | None = None) -> list[KeyCounts]:
        """Return the first `count` keys in an order of `ORDERS`, or by name ("key")."""
        with self._lock:
            candidates: Iterable[KeyCounts] = list(self._counts.values())
        if key_filter is not None:
            candidates = [counts for counts in candidates if key_filter(counts.key)]
        if order == "key":
            return heapq.nsmallest(count, candidates, key=lambda counts: counts.key)
        measure = ORDERS[order]  # rounded, and then by name: rows that are equal keep their places
        return heapq.nsmallest(count, candidates, key=lambda counts: (-measure(counts), counts.key))
