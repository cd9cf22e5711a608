"""CancellationToken: one switch for many queries in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable


class CancellationToken:
    """Ends every query it was given to, now and later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: list[Callable[[], None]] | None = []

    def cancel(self) -> None:
        """End them; those asked with this token from now on end at once."""
        with self._lock:
            stops, self._stops = self._stops, None
        for stop in stops or []:
            stop()

    @property
    def is_cancelled(self) -> bool:
        return self._stops is None

    def attach(self, stop: Callable[[], None]) -> None:
        """Have something stopped on cancellation."""
        with self._lock:
            if self._stops is not None:
                self._stops.append(stop)
                return
        stop()
