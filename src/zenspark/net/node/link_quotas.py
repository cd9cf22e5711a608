"""LinkQuotas: limits of the links that peers open without a session yet, and of all sessions.

A flood of connections that send nothing must not keep honest nodes out: when there are too many pending links, the
oldest one without received bytes is closed, not the new one. An honest node sends its first message at once, so it is
only closed if all others have sent theirs, too, and it is the oldest. Unread bytes in the socket count as received.

Addresses are counted as an attacker gets them: one IPv4 address, or one IPv6 network of 64 bits. Links from this
machine (loopback, Unix sockets) have no limit per address: all programs here share one address, and an attacker that
can run programs here has simpler means.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

import msgspec

from zenspark.net.links.base import READ, Link, poll_descriptor
from zenspark.net.links.interfaces import parse_address
from zenspark.router.limits import RefusalReason, Refusals

IPV6_PREFIX_BITS = 64
"""Bits of an IPv6 address that identify a network: a host with one address of it can have all."""


class LinkLimits(msgspec.Struct, frozen=True):
    """Limits of links without a session, and of sessions."""

    pending: int = 100
    """Links without a session. Each takes a descriptor, a buffer and, for TLS and WebSocket, a thread."""
    pending_per_address: int = 50
    """Links without a session from one address."""
    sessions: int = 1000
    """Sessions in total, opened by peers or by this node."""
    sessions_per_address: int = 500
    """Sessions opened from one address: one machine, or a network behind one, must not take all there are."""


def source_network_of(link: Link) -> str | None:
    """Return the source network of a link: an IPv4 address or an IPv6 prefix; None for this machine."""
    if link.remote_host is None:
        return None
    address = parse_address(link.remote_host)
    if address.is_loopback:
        return None
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, IPV6_PREFIX_BITS), strict=False))


class LinkQuotas:
    """The pending inbound links and the sessions of one node. Only used in the loop; `has_received` returns whether a
    link was read from."""

    def __init__(self, limits: LinkLimits, refusals: Refusals, has_received: Callable[[Link], bool]) -> None:
        self._limits = limits
        self._refusals = refusals
        self._has_received = has_received
        self._pending: dict[Link, str | None] = {}
        """Pending links and their source network, oldest first."""
        self._sessions: dict[Link, str | None] = {}
        self._pending_of: dict[str, int] = {}
        self._sessions_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, link: Link) -> Link | None:
        """Add a pending link; returns the link to close if there are too many, itself only if the limit is 0."""
        if not self._limits.pending:
            self._refusals.count(RefusalReason.PENDING, link.dst)
            return link
        source_network = source_network_of(link)
        evicted = self._find_evicted(source_network)
        self._pending[link] = source_network
        _count(self._pending_of, source_network, 1)
        return evicted

    def _find_evicted(self, source_network: str | None) -> Link | None:
        """Return the link to close when another one comes from a source network; None if the limits are kept."""
        if source_network is not None and self._pending_of.get(source_network, 0) >= self._limits.pending_per_address:
            candidates = [link for link, network in self._pending.items() if network == source_network]
            return self._oldest(candidates, RefusalReason.PENDING_PER_ADDRESS)
        if len(self._pending) >= self._limits.pending:
            return self._oldest(list(self._pending), RefusalReason.PENDING)
        return None

    def _oldest(self, candidates: list[Link], limit: RefusalReason) -> Link:
        """Return the oldest link without received bytes, or the oldest of all."""
        without_data = (link for link in candidates if not self._has_received(link) and not _has_unread(link))
        evicted = next(without_data, candidates[0])
        self._refusals.count(limit, evicted.dst)
        return evicted

    def session_refusal(self, link: Link) -> str | None:
        """Return the reason to refuse a session on a pending link; None if the limits allow it."""
        limits, source_network = self._limits, self._pending.get(link)
        if len(self._sessions) >= limits.sessions:
            self._refusals.count(RefusalReason.SESSIONS, link.dst)
            return f"{limits.sessions} sessions are the limit"
        if source_network is not None and self._sessions_of.get(source_network, 0) >= limits.sessions_per_address:
            self._refusals.count(RefusalReason.SESSIONS_PER_ADDRESS, link.dst)
            return f"{limits.sessions_per_address} sessions from {source_network} are the limit"
        return None

    def count_session(self, link: Link) -> None:
        """Count a session that was opened by a peer or by this node; only the former count for their address."""
        source_network = self._drop_pending(link)
        self._sessions[link] = source_network
        _count(self._sessions_of, source_network, 1)

    def remove(self, link: Link) -> None:
        """Remove a link that is closed."""
        self._drop_pending(link)
        if link in self._sessions:
            _count(self._sessions_of, self._sessions.pop(link), -1)

    def _drop_pending(self, link: Link) -> str | None:
        source_network = self._pending.pop(link, None)
        _count(self._pending_of, source_network, -1)
        return source_network


def _count(counts: dict[str, int], source_network: str | None, change: int) -> None:
    if source_network is not None:
        counts[source_network] = counts.get(source_network, 0) + change
        if not counts[source_network]:
            del counts[source_network]


def _has_unread(link: Link) -> bool:
    """Return whether bytes, or the end of the stream, can be read from the socket of a link."""
    descriptor = link.fileno()
    return descriptor >= 0 and poll_descriptor(descriptor, READ, 0.0)
