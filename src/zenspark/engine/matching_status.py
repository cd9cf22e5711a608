"""Matching status of a publisher or querier: whether a subscriber or queryable matches it.

A `MatchingTracker` declares an interest in the declarations that match, and re-evaluates the status whenever one of
them, remote or of this session, is declared or undeclared.
"""

from __future__ import annotations

import msgspec

from zenspark.engine.interests import LocalInterest
from zenspark.engine.runtime import SessionRuntime
from zenspark.handlers.handler import DeliverySink
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.enums import Locality
from zenspark.types.network_info import MatchingStatus
from zenspark.wire.values import InterestMode, QueryTarget


class ListenerState(msgspec.Struct, eq=False):
    """One matching listener, and the status delivered to it last."""

    sink: DeliverySink[MatchingStatus]
    last: bool = False


class MatchingTracker:
    """Tracks the matching status of one publisher or querier."""

    def __init__(
        self,
        runtime: SessionRuntime,
        kind: DeclarationKind,
        key_expr: KeyExpr,
        destination: Locality,
        only_complete: bool = False,
    ) -> None:
        self._runtime = runtime
        self._kind = kind
        self._key_expr = key_expr
        self._destination = destination
        self._only_complete = only_complete
        self._listeners: dict[int, ListenerState] = {}
        self._interest = LocalInterest(
            runtime.entities.next_id(), kind, key_expr, lambda *_: self.on_match_change(), lambda: None
        )
        with runtime.lock:
            runtime.observers.add(kind, self)
            if destination is not Locality.SESSION_LOCAL:
                runtime.interests.declare(self._interest, InterestMode.CURRENT_FUTURE)

    @property
    def status(self) -> bool:
        """Whether a subscriber or queryable matches."""
        return has_match(self._runtime, self._kind, self._key_expr, self._destination, self._only_complete)

    def on_match_change(self) -> None:
        """Deliver the status to the listeners for which it has changed."""
        with self._runtime.lock:
            status = self.status
            for listener in self._listeners.values():
                if listener.last != status:
                    listener.last = status
                    listener.sink.push(MatchingStatus(status))

    def listen(self, listener_id: int, sink: DeliverySink[MatchingStatus]) -> None:
        """Deliver changes of the status to a sink, and at once if there is a match."""
        with self._runtime.lock:
            self._listeners[listener_id] = ListenerState(sink)
            self.on_match_change()

    def unlisten(self, listener_id: int) -> None:
        """Remove a listener, and close its sink."""
        with self._runtime.lock:
            listener = self._listeners.pop(listener_id, None)
        if listener is not None:
            listener.sink.close()

    def end(self) -> None:
        """Undeclare the interest, and undeclare all listeners."""
        with self._runtime.lock:
            self._runtime.observers.remove(self._kind, self)
            self._runtime.interests.undeclare(self._interest)
            listener_ids = list(self._listeners)
        for listener_id in listener_ids:
            self._runtime.entities.undeclare(listener_id)


def has_match(
    runtime: SessionRuntime,
    kind: DeclarationKind,
    key_expr: KeyExpr,
    destination: Locality = Locality.ANY,
    only_complete: bool = False,
) -> bool:
    """Return whether a subscriber or queryable matches a key expression, remote or of this session."""
    with runtime.lock:
        if destination is not Locality.SESSION_LOCAL and runtime.interests.has_remote_match(
            kind, key_expr, only_complete
        ):
            return True
        return destination is not Locality.REMOTE and _has_local_match(runtime, kind, str(key_expr), only_complete)


def _has_local_match(runtime: SessionRuntime, kind: DeclarationKind, key: str, only_complete: bool) -> bool:
    if kind is DeclarationKind.SUBSCRIBER:
        return bool(runtime.subscriptions.matching(key, True))
    target = QueryTarget.ALL_COMPLETE if only_complete else QueryTarget.ALL
    return bool(runtime.queryables.matching(key, target, True))
