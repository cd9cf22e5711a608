"""Leases and keep-alives: when a silent peer has expired, and when this node must send.

An idle link stays open by keep-alives; the link of a silent peer does not: when its lease has expired,
`Connection.handle_timeout` (`connection.py`) ends the session, with reason EXPIRED, and `net/io/link_driver.py` closes
the link. `GroupSession.handle_timeout` (`multicast.py`) removes a silent member. A peer that opens no session in time
is another matter: `ConnectionDriver` in `net/io/link_driver.py` closes its link.

Each node sends its lease when a session opens, or in JOIN for a group, and then something several times within
it: a KEEP_ALIVE if there is nothing else.
"""

from __future__ import annotations

DEFAULT_LEASE_MS = 10_000
"""Default lease in milliseconds: time without a message after which a session is closed."""
KEEP_ALIVES_PER_LEASE = 4
"""Keep-alives sent per lease, unless configured otherwise."""


class PeerLease:
    """The lease of a peer: renewed by every byte received from it, expired after `seconds` of silence.

    While this node itself does not read the link, paused by backpressure, `LinkDriver` renews the lease: unread bytes
    are not silence.
    """

    def __init__(self, now: float, seconds: float = float("inf")) -> None:
        self.seconds = seconds
        """Seconds of silence after which the peer is gone; infinite until the peer has sent them."""
        self.renewed_at = now

    @property
    def expires_at(self) -> float:
        """Time at which the lease expires unless something is received."""
        return self.renewed_at + self.seconds

    def has_expired(self, now: float) -> bool:
        """Return whether the peer was silent for the whole lease."""
        return now >= self.expires_at

    def describe_expiry(self) -> str:
        """Describe for logs and listeners why the link is closed."""
        return f"lease expired: nothing received for {self.seconds:g} s"


class KeepAliveTimer:
    """Time of this node's next KEEP_ALIVE: a fraction of its own lease after the last byte it sent."""

    def __init__(self, now: float, per_lease: int = KEEP_ALIVES_PER_LEASE, lease: float = float("inf")) -> None:
        self._per_lease = per_lease
        self.lease = lease
        """Lease of this node in seconds; infinite until the session is open."""
        self.sent_at = now

    @property
    def due_at(self) -> float:
        """Time at which a keep-alive must be sent unless something else is."""
        return self.sent_at + self.lease / self._per_lease
