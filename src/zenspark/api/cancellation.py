"""CancellationToken: one switch for many queries in flight; and what binds one query to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from zenspark.errors import UsageError
from zenspark.handlers.handler import Callback
from zenspark.net.loop.event_loop import yield_leadership
from zenspark.types.arguments import require_type


class CancellationToken:
    """Ends every query it was given to; from then on no query can be asked with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: set[Callable[[], None]] | None = set()

    def cancel(self) -> None:
        """End them all: no reply comes after this, and their callbacks have returned and been dropped."""
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


class TrackedCallback:
    """A callback whose end can be waited for, unless by itself."""

    def __init__(self, callback: Callback[Any], on_drop: Callable[[], None]) -> None:
        self._callback = callback
        self._on_drop = on_drop
        self._has_dropped = threading.Event()
        self._thread: int | None = None
        """The thread it runs in now."""

    def as_callback(self) -> Callback[Any]:
        return Callback(self._call, self._drop, indirect=self._callback.indirect)

    def _call(self, item: object) -> None:
        self._thread = threading.get_ident()
        try:
            self._callback.callback(item)
        finally:
            self._thread = None

    def _drop(self) -> None:
        try:
            if self._callback.drop is not None:
                self._callback.drop()
        finally:
            self._has_dropped.set()
            self._on_drop()

    def wait(self) -> None:
        """Until it has returned for the last time and was dropped."""
        if self._thread != threading.get_ident():
            yield_leadership()  # whoever waits here may be the one who would have to call it
            self._has_dropped.wait()


class CancellableQuery(Protocol):
    """A query in flight."""

    def cancel(self) -> None: ...

    def on_finish(self, work: Callable[[], None]) -> None: ...


class HasLock(Protocol):
    """Where such a query lives."""

    @property
    def lock(self) -> threading.RLock: ...


class QueryCancellation:
    """Binds a query and its handler to a token, if there is one. `handler` is what the query has to use."""

    def __init__(self, runtime: HasLock, token: CancellationToken | None, handler: object) -> None:
        self.handler = handler
        self._runtime = runtime
        self._token = token
        self._awaited: TrackedCallback | None = None
        if token is not None:
            require_type(CancellationToken, token).check()
            self.handler = self._awaitable(handler)

    def _awaitable(self, handler: object) -> object:
        if isinstance(handler, tuple) and len(handler) == 2:
            return (self._awaitable(handler[0]), handler[1])
        if not callable(handler):
            return handler
        callback = handler if isinstance(handler, Callback) else Callback(handler)
        self._awaited = TrackedCallback(callback, self._detach)
        return self._awaited.as_callback()

    def watch(self, query: CancellableQuery) -> None:
        """Have the token end this query as long as it is in flight, or its callback runs."""
        if self._token is None:
            return
        self._query = query
        self._token.attach(self._stop)
        if self._awaited is None:
            with self._runtime.lock:
                query.on_finish(self._detach)

    def _stop(self) -> None:
        with self._runtime.lock:
            self._query.cancel()
        if self._awaited is not None:
            self._awaited.wait()

    def _detach(self) -> None:
        assert self._token is not None
        self._token.detach(self._stop)
