"""Fence: whether the neighbours of a session have taken everything it published.

A query for a key that no queryable has is answered by the neighbour itself, behind everything that was sent to it
before. Only a client sends such a query: its one neighbour routes it. A router or a peer knows that no queryable
matches, and the fence then says no more than that no neighbour was lost; closing the session writes what is queued.
"""

from __future__ import annotations

from zenspark.api.session import Session
from zenspark.errors import LinkError
from zenspark.types.enums import Priority, SampleKind
from zenspark.types.network_info import TransportEvent

FENCE_KEY = "@zenspark/fence"
"""A key that no queryable has."""


class Fence:
    """Put up before publishing, asked afterwards."""

    def __init__(self, session: Session, where: str) -> None:
        """`where` names the neighbours in errors: the endpoints the session is connected to."""
        self._session = session
        self._where = where
        self.losses: list[TransportEvent] = []
        """Neighbours that went away since, each with its event."""
        self._events = session.info.declare_transport_events_listener(self._note)

    def _note(self, event: TransportEvent) -> None:
        if event.kind is SampleKind.DELETE:
            self.losses.append(event)

    def wait(self, timeout: float) -> None:
        """Returns when the neighbours have taken everything; LinkError if one was lost, or is silent for too long."""
        replies = self._session.get(FENCE_KEY, timeout=timeout, priority=Priority.BACKGROUND)
        is_silent = any(reply.err is not None for reply in replies)
        if self.losses or is_silent:
            why = "the connection was lost" if self.losses else f"no answer within {timeout:g} s"
            raise LinkError(self._where, f"{why}: what was published may not have arrived")
