"""CancellationToken: one switch for many queries in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable

from zenspark.errors import UsageError


class CancellationToken:
    """Ends every query it was given to; from then on no query can be asked with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: set[Callable[[], None]] | None = set()

    def cancel(self) -> None:
        """End them all; their channels end without another reply."""
        with self._lock:
            stops, self._stops = self._stops, None
        for stop in stops or ():
            stop()

    @property
    def is_cancelled(self) -> bool:
        return self._stops is None

    def attach(self, stop: Callable[[], None]) -> None:
        """Have something stopped on cancellation; at once if that came just now."""
        with self._lock:
            if self._stops is not None:
                self._stops.add(stop)
                return
        stop()

    def detach(self, stop: Callable[[], None]) -> None:
        """What was to be stopped has ended by itself."""
        with self._lock:
            if self._stops is not None:
                self._stops.discard(stop)

    def check(self) -> None:
        """Raise if it was cancelled already."""
        if self._stops is None:
            raise UsageError("this cancellation token was cancelled: it can start nothing any more")
