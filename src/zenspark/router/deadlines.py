"""Deadlines: what must have happened by when, the first of them at hand."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")

MIN_COMPACTION = 1000
"""From how many entries on those that are not open any more are thrown out, each time their number has doubled."""


class Deadlines(Generic[T]):
    """Things with a time; those that `is_open` does not hold for any more count for nothing."""

    def __init__(self, is_open: Callable[[T, float], bool]) -> None:
        self._is_open = is_open
        self._heap: list[tuple[float, int, T]] = []
        self._numbers = count()
        self._compact_at = MIN_COMPACTION

    def add(self, item: T, when: float) -> None:
        """Something is due at a time."""
        heappush(self._heap, (when, next(self._numbers), item))
        if len(self._heap) >= self._compact_at:
            self._compact()

    def _compact(self) -> None:
        """Throw out what is over: quick answers to questions with a long timeout must not fill the memory."""
        self._heap = [entry for entry in self._heap if self._is_open(entry[2], entry[0])]
        heapify(self._heap)
        self._compact_at = max(MIN_COMPACTION, 2 * len(self._heap))

    def next(self) -> float | None:
        """When the first is due."""
        while self._heap and not self._is_open(self._heap[0][2], self._heap[0][0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[T]:
        """Those that are due, the first first; each is handed out once."""
        found = []
        while (when := self.next()) is not None and when <= now:
            found.append(heappop(self._heap)[2])
        return found
