"""CancellationToken ends many pending queries at once; QueryCancellation binds a query to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from zenspark.errors import UsageError
from zenspark.handlers.handler import Callback, to_callback
from zenspark.net.loop.leader_follower import yield_leadership
from zenspark.types.arguments import require_type


class CancellationToken:
    """Ends every query it was given to; afterwards it starts no query any more.

    Example:
        >>> token = zenspark.CancellationToken()
        >>> replies = session.get("demo/**", cancellation_token=token)
        >>> token.cancel()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: set[Callable[[], None]] | None = set()

    def cancel(self) -> None:
        """End all queries of the token; cancelling it again does nothing.

        No reply is delivered after this: their callbacks have returned and were dropped.

        Example:
            >>> token = zenspark.CancellationToken()
            >>> token.cancel()
            >>> token.is_cancelled
            True
        """
        with self._lock:
            stops, self._stops = self._stops, None
        for stop in stops or ():
            stop()

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._stops is None

    def attach(self, stop: Callable[[], None]) -> None:
        """Call a function on cancellation; at once if the token is cancelled already.

        Args:
            stop: The function; it is called in the thread that cancels.

        Example:
            >>> token = zenspark.CancellationToken()
            >>> token.attach(lambda: print("cancelled"))
            >>> token.cancel()
            cancelled
        """
        with self._lock:
            if self._stops is not None:
                self._stops.add(stop)
                return
        stop()

    def detach(self, stop: Callable[[], None]) -> None:
        """Remove a function that `attach` added, because its query has ended: cancellation no longer calls it.

        Args:
            stop: The function that was attached.

        Example:
            >>> def stop() -> None:
            ...     print("cancelled")
            >>> token = zenspark.CancellationToken()
            >>> token.attach(stop)
            >>> token.detach(stop)
            >>> token.cancel()
        """
        with self._lock:
            if self._stops is not None:
                self._stops.discard(stop)

    def check(self) -> None:
        """Check that the token can start a query.

        Raises:
            UsageError: It was cancelled.

        Example:
            >>> zenspark.CancellationToken().check()
        """
        if self._stops is None:
            raise UsageError("this cancellation token was cancelled: it can start nothing any more")


class TrackedCallback:
    """A callback whose last call can be waited for, by any thread but the one that runs it."""

    def __init__(self, callback: Callback[Any], on_drop: Callable[[], None]) -> None:
        self._callback = callback
        self._on_drop = on_drop
        self._has_dropped = threading.Event()
        self._thread: int | None = None
        """Id of the thread that runs the callback now; None while no call runs."""

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
        """Wait until the callback has returned for the last time and was dropped."""
        if self._thread != threading.get_ident():
            yield_leadership()  # the thread that waits here may be the one that would run the callback
            self._has_dropped.wait()


class CancellableQuery(Protocol):
    """A pending query that can be ended."""

    def cancel(self) -> None: ...

    def on_finish(self, work: Callable[[], None]) -> None: ...


class HasLock(Protocol):
    """The runtime of a session, as far as a cancellation needs it."""

    @property
    def lock(self) -> threading.RLock: ...


class QueryCancellation:
    """Binds a query and its handler to a token, if there is one. `handler` is the one that the query has to use."""

    def __init__(self, runtime: HasLock, token: CancellationToken | None, handler: object) -> None:
        self.handler = handler
        self._runtime = runtime
        self._token = token
        self._tracked: TrackedCallback | None = None
        if token is not None:
            require_type(CancellationToken, token).check()
            self.handler = self._track(handler)

    def _track(self, handler: object) -> object:
        if isinstance(handler, tuple) and len(handler) == 2:
            return (self._track(handler[0]), handler[1])
        if not callable(handler):
            return handler
        self._tracked = TrackedCallback(to_callback(handler), self._detach)
        return self._tracked.as_callback()

    def watch(self, query: CancellableQuery) -> None:
        """Let the token end this query as long as it is pending, or its callback runs."""
        if self._token is None:
            return
        self._query = query
        self._token.attach(self._stop)
        if self._tracked is None:
            with self._runtime.lock:
                query.on_finish(self._detach)

    def _stop(self) -> None:
        with self._runtime.lock:
            self._query.cancel()
        if self._tracked is not None:
            self._tracked.wait()

    def _detach(self) -> None:
        assert self._token is not None
        self._token.detach(self._stop)
