"""Matching: whether anybody is at the other end of a publisher or a querier, and who wants to know when that changes.

It asks the router for the declarations that match, and looks again whenever one comes or goes, here or elsewhere.
"""

from __future__ import annotations

import msgspec

from zenspark.engine.runtime import SessionRuntime, LocalInterest
from zenspark.handlers.handler import DeliverySink
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.enums import Locality
from zenspark.types.network_info import MatchingStatus
from zenspark.wire.values import InterestMode


class ListenerState(msgspec.Struct, eq=False):
    """Somebody who wants to be told, and what they were told last."""

    inlet: DeliverySink[MatchingStatus]
    last: bool = False


class MatchingTracker:
    """The other end of one publisher or querier."""

    def __init__(
        self, hub: SessionRuntime, kind: DeclarationKind, key_expr: KeyExpr, destination: Locality, only_complete: bool = False
    ) -> None:
        self._hub = hub
        self._kind = kind
        self._key_expr = key_expr
        self._destination = destination
        self._only_complete = only_complete
        self._listening: dict[int, ListenerState] = {}
        self._watching = LocalInterest(hub.next_id(), kind, key_expr, lambda *_: self.look(), lambda: None)
        with hub.lock:
            hub.on_change[kind].add(self)
            if destination is not Locality.SESSION_LOCAL:
                hub.watch(self._watching, InterestMode.CURRENT_FUTURE)

    @property
    def status(self) -> bool:
        """Whether there is anybody."""
        with self._hub.lock:
            asked = (self._kind, self._key_expr, self._only_complete)
            elsewhere = self._destination is not Locality.SESSION_LOCAL and self._hub.is_elsewhere(*asked)
            return elsewhere or (self._destination is not Locality.REMOTE and self._hub.is_here(*asked))

    def look(self) -> None:
        """Something that may match came or went: tell what has changed."""
        with self._hub.lock:
            status = self.status
            for listening in self._listening.values():
                if listening.last != status:
                    listening.last = status
                    listening.inlet.push(MatchingStatus(status))

    def listen(self, number: int, inlet: DeliverySink[MatchingStatus]) -> None:
        """Be told of changes, and at once if there is somebody."""
        with self._hub.lock:
            self._listening[number] = ListenerState(inlet)
            self.look()

    def unlisten(self, number: int) -> None:
        """Be told no more."""
        with self._hub.lock:
            listening = self._listening.pop(number, None)
        if listening is not None:
            listening.inlet.close()

    def end(self) -> None:
        """Nobody wants to know any more."""
        with self._hub.lock:
            self._hub.on_change[self._kind].discard(self)
            self._hub.unwatch(self._watching)
            listening = list(self._listening)
        for number in listening:
            self._hub.finish(number)
