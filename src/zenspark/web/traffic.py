"""Traffic: messages and bytes of a node since it started, links that have ended included."""

from __future__ import annotations

import msgspec

from zenspark.api.session import Session, runtime_of


class TrafficTotals(msgspec.Struct, frozen=True):
    """Totals at one moment."""

    received: dict[str, int] = msgspec.field(default_factory=dict)
    """Network messages received from neighbours, by kind."""
    sent: dict[str, int] = msgspec.field(default_factory=dict)
    """Network messages sent to neighbours, by kind."""
    bytes_in: int = 0
    bytes_out: int = 0
    sessions: int = 0
    unsent_bytes: int = 0
    """Bytes that wait for links."""
    pending_queries: int = 0
    """Queries that wait for replies of neighbours."""
    lost: dict[str, int] = msgspec.field(default_factory=dict)
    """Messages lost on the way in, by reason."""
    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    """Messages dropped on the way out, by reason."""

    @property
    def messages_in(self) -> int:
        """All network messages received."""
        return sum(self.received.values())


def read_traffic(session: Session) -> TrafficTotals:
    """Return the totals of a session's node; an empty one if the session is closed."""
    if session.is_closed():
        return TrafficTotals()
    node = runtime_of(session).node
    links, messages, faces = node.traffic, node.counters.message_totals, node.neighbourhood
    return TrafficTotals(
        {kind.value: count for kind, count in messages.received_by_kind.items()},
        {kind.value: count for kind, count in links.sent_by_kind.items()},
        links.bytes_received,
        links.bytes_sent,
        len(faces),
        sum(driver.backlog for driver in node.link_drivers),
        sum(len(queries) for face in faces for queries in list(face.in_flight)),
        {reason.value: count for reason, count in messages.lost.items()},
        {reason.value: count for reason, count in messages.dropped.items()},
    )
