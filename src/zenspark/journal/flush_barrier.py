"""FlushBarrier: wait until the node that a client is connected to has received everything the client published.

A query for a key that no queryable has is finished by the neighbour itself, after everything that was sent to it
before. Only a client sends such a query: its one neighbour routes it. A router or a peer finds that no queryable
matches, and the barrier then only detects that a neighbour was lost; closing the session writes what is queued.
"""

from __future__ import annotations

from zenspark.api.session import Session
from zenspark.errors import LinkError
from zenspark.types.enums import Priority, SampleKind
from zenspark.types.network_info import TransportEvent

FLUSH_BARRIER_KEY = "@zenspark/fence"
"""A key that no queryable has."""


class FlushBarrier:
    """A barrier that a client makes before publishing, and waits for afterwards."""

    def __init__(self, session: Session, endpoints: str) -> None:
        """Start to watch for lost neighbours.

        Args:
            session: The session that publishes.
            endpoints: Its endpoints, which errors name.
        """
        self._session = session
        self._endpoints = endpoints
        self.losses: list[TransportEvent] = []
        """Neighbours that disconnected since, each with its event."""
        self._events = session.info.declare_transport_events_listener(self._record_loss)

    def _record_loss(self, event: TransportEvent) -> None:
        if event.kind is SampleKind.DELETE:
            self.losses.append(event)

    def wait(self, timeout: float) -> None:
        """Wait until the node that a client is connected to confirms that it has received everything before.

        A router or a peer has no such confirmation: for it the wait only reports lost neighbours.

        Args:
            timeout: Seconds to wait.

        Raises:
            LinkError: A neighbour was lost, or did not confirm in time.
        """
        replies = self._session.get(FLUSH_BARRIER_KEY, timeout=timeout, priority=Priority.BACKGROUND)
        is_silent = any(reply.err is not None for reply in replies)
        if self.losses or is_silent:
            why = "the connection was lost" if self.losses else f"no reply within {timeout:g} s"
            raise LinkError(self._endpoints, f"{why}: what was published may not have arrived")
