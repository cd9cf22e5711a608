"""Detection of wall clock steps, by comparison with the monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable

MIN_STEP_SECONDS = 1.0
"""Smaller differences are clock corrections, or the time between the two readings."""


class ClockSteps:
    """Detects that the wall clock was set back."""

    def __init__(
        self, wall_clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._difference = wall_clock() - monotonic()

    def back_seconds(self) -> float:
        """Return the seconds the wall clock was set back since the last call; 0.0 if it was not."""
        before, self._difference = self._difference, self._wall_clock() - self._monotonic()
        step = before - self._difference
        return step if step >= MIN_STEP_SECONDS else 0.0
