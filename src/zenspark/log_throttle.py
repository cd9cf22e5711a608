"""LogThrottle: limits log lines about events that a remote node or client can cause without end."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable

LOG_INTERVAL_SECONDS = 10.0
"""Least seconds between two lines of one kind: short enough to see when events began, long for a readable log."""


class LogThrottle:
    """Counts events by kind: the first of each kind per interval is logged, with the total.

    Events of one kind are counted in one thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._totals: Counter[str] = Counter()
        self._next_line_at: dict[str, float] = {}
        """Time of the clock before which no further line of a kind is logged."""

    def count(self, kind: str) -> int | None:
        """Count an event. Returns the total of its kind if a line about it is due, else None."""
        self._totals[kind] += 1
        now = self._clock()
        if now < self._next_line_at.get(kind, -math.inf):
            return None
        self._next_line_at[kind] = now + LOG_INTERVAL_SECONDS
        return self._totals[kind]
