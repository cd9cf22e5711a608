"""Deadlines: heap of items by time, the earliest first."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")

MIN_COMPACTION_ENTRIES = 1000
"""Number of entries from which on closed ones are removed, each time the number has doubled."""


class Deadlines(Generic[T]):
    """Items with a time; items for which `is_open` is false are ignored."""

    def __init__(self, is_open: Callable[[T, float], bool]) -> None:
        self._is_open = is_open
        self._heap: list[tuple[float, int, T]] = []
        self._sequence = count()
        self._compact_at = MIN_COMPACTION_ENTRIES

    def add(self, item: T, when: float) -> None:
        """Add an item that is due at a time."""
        heappush(self._heap, (when, next(self._sequence), item))
        if len(self._heap) >= self._compact_at:
            self._compact()

    def _compact(self) -> None:
        """Remove closed items: fast replies to queries with a long timeout must not fill the memory."""
        self._heap = [entry for entry in self._heap if self._is_open(entry[2], entry[0])]
        heapify(self._heap)
        self._compact_at = max(MIN_COMPACTION_ENTRIES, 2 * len(self._heap))

    def next(self) -> float | None:
        """Time of the first open item; None if there is none."""
        while self._heap and not self._is_open(self._heap[0][2], self._heap[0][0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[T]:
        """Remove and return the items that are due, the earliest first."""
        items = []
        while (when := self.next()) is not None and when <= now:
            items.append(heappop(self._heap)[2])
        return items
