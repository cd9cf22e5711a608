"""Deadlines: what must have happened by when, the first of them at hand."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Things with a time; those that `is_open` does not hold for any more count for nothing."""

    def __init__(self, is_open: Callable[[T, float], bool]) -> None:
        self._is_open = is_open
        self._heap: list[tuple[float, int, T]] = []
        self._numbers = count()

    def add(self, item: T, when: float) -> None:
        """Something is due at a time."""
        heappush(self._heap, (when, next(self._numbers), item))

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
