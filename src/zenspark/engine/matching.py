"""Matching: whether anybody is at the other end of a publisher or a querier, and who wants to know when that changes.

It asks the router for the declarations that match, and looks again whenever one comes or goes, here or elsewhere.
"""

from __future__ import annotations

import msgspec

from zenspark.engine.runtime import LocalInterest, SessionRuntime
from zenspark.handlers.handler import DeliverySink
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.enums import Locality
from zenspark.types.network_info import MatchingStatus
from zenspark.wire.values import InterestMode


class ListenerState(msgspec.Struct, eq=False):
    """Somebody who wants to be told, and what they were told last."""

    sink: DeliverySink[MatchingStatus]
    last: bool = False


class MatchingTracker:
    """The other end of one publisher or querier."""

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
        self._listening: dict[int, ListenerState] = {}
        self._watching = LocalInterest(
            runtime.next_id(), kind, key_expr, lambda *_: self.on_match_change(), lambda: None
        )
        with runtime.lock:
            runtime.on_change[kind].add(self)
            if destination is not Locality.SESSION_LOCAL:
                runtime.declare_interest(self._watching, InterestMode.CURRENT_FUTURE)

    @property
    def status(self) -> bool:
        """Whether there is anybody."""
        with self._runtime.lock:
            asked = (self._kind, self._key_expr, self._only_complete)
            elsewhere = self._destination is not Locality.SESSION_LOCAL and self._runtime.has_remote_match(*asked)
            return elsewhere or (self._destination is not Locality.REMOTE and self._runtime.has_local_match(*asked))

    def on_match_change(self) -> None:
        """Something that may match came or went: tell what has changed."""
        with self._runtime.lock:
            status = self.status
            for listening in self._listening.values():
                if listening.last != status:
                    listening.last = status
                    listening.sink.push(MatchingStatus(status))

    def listen(self, number: int, sink: DeliverySink[MatchingStatus]) -> None:
        """Be told of changes, and at once if there is somebody."""
        with self._runtime.lock:
            self._listening[number] = ListenerState(sink)
            self.on_match_change()

    def unlisten(self, number: int) -> None:
        """Be told no more."""
        with self._runtime.lock:
            listening = self._listening.pop(number, None)
        if listening is not None:
            listening.sink.close()

    def end(self) -> None:
        """Nobody wants to know any more."""
        with self._runtime.lock:
            self._runtime.on_change[self._kind].discard(self)
            self._runtime.undeclare_interest(self._watching)
            listening = list(self._listening)
        for number in listening:
            self._runtime.finish(number)
