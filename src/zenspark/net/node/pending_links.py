"""Callers: links that others opened and that have no session yet, and how many sessions each address has.

A flood of connections that say nothing must not keep others out: when there are too many callers, the oldest that has
said nothing goes, not the newcomer. An honest node sends its first message at once, so it is only turned away if all
others have sent theirs, too, and it is the oldest. A caller whose first bytes lie unread in its socket has spoken.

Addresses are counted as an attacker gets them: one IPv4 address, or one IPv6 network of 64 bits. Callers on this
machine (loopback, Unix sockets) have no limit per address: programs here share one address, and who can run programs
here has simpler ways to disturb.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

import msgspec

from zenspark.net.links.base import READ, Link, poll_descriptor
from zenspark.net.links.interfaces import parse_address
from zenspark.router.limits import Limit, Refusals

IPV6_PREFIX = 64
"""Bits of an IPv6 address that name a network: whoever has one address of it has all."""


class InboundLimits(msgspec.Struct, frozen=True):
    """How many others may call at a time."""

    pending: int = 100
    """Callers without a session. Each has a descriptor, a buffer and, for TLS and WebSocket, a thread."""
    pending_per_address: int = 50
    """The same for one address."""
    sessions: int = 1000
    """Sessions, in all."""
    sessions_per_address: int = 500
    """Sessions opened from one address: one machine, or a network behind one, must not take all there are."""


def origin_of(link: Link) -> str | None:
    """The address, or network, that a link comes from; None for this machine."""
    if link.remote_host is None:
        return None
    address = parse_address(link.remote_host)
    if address.is_loopback:
        return None
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))


class InboundLinks:
    """Those who call one node. Only the loop uses it; `has_spoken` tells whether something of a link was read."""

    def __init__(self, limits: InboundLimits, refusals: Refusals, has_spoken: Callable[[Link], bool]) -> None:
        self._limits = limits
        self._refusals = refusals
        self._has_spoken = has_spoken
        self._pending: dict[Link, str | None] = {}
        """Oldest first, with where they come from."""
        self._sessions: dict[Link, str | None] = {}
        self._pending_of: dict[str, int] = {}
        self._sessions_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, link: Link) -> Link | None:
        """A new caller; who has to go for it, if somebody has: the newcomer itself only if there may be none at all."""
        if not self._limits.pending:
            self._refusals.count(Limit.PENDING, link.dst)
            return link
        origin = origin_of(link)
        leaving = self._in_the_way(origin)
        self._pending[link] = origin
        _count(self._pending_of, origin, 1)
        return leaving

    def _in_the_way(self, origin: str | None) -> Link | None:
        """Who has to go when another caller comes from an address."""
        if origin is not None and self._pending_of.get(origin, 0) >= self._limits.pending_per_address:
            same = [link for link, place in self._pending.items() if place == origin]
            return self._oldest(same, Limit.PENDING_PER_ADDRESS)
        if len(self._pending) >= self._limits.pending:
            return self._oldest(list(self._pending), Limit.PENDING)
        return None

    def _oldest(self, candidates: list[Link], limit: Limit) -> Link:
        """The oldest that has said nothing, if there is one, or the oldest."""
        silent = (link for link in candidates if not self._has_spoken(link) and not _has_unread(link))
        leaving = next(silent, candidates[0])
        self._refusals.count(limit, leaving.dst)
        return leaving

    def may_open(self, link: Link) -> str | None:
        """Why a caller cannot have a session; None if it can."""
        limits, origin = self._limits, self._pending.get(link)
        if len(self._sessions) >= limits.sessions:
            self._refusals.count(Limit.SESSIONS, link.dst)
            return f"{limits.sessions} sessions are the limit"
        if origin is not None and self._sessions_of.get(origin, 0) >= limits.sessions_per_address:
            self._refusals.count(Limit.SESSIONS_PER_ADDRESS, link.dst)
            return f"{limits.sessions_per_address} sessions from {origin} are the limit"
        return None

    def open(self, link: Link) -> None:
        """A link has a session now, whoever opened it; only those that others opened count for their address."""
        origin = self._drop_pending(link)
        self._sessions[link] = origin
        _count(self._sessions_of, origin, 1)

    def remove(self, link: Link) -> None:
        """A link is gone."""
        self._drop_pending(link)
        if link in self._sessions:
            _count(self._sessions_of, self._sessions.pop(link), -1)

    def _drop_pending(self, link: Link) -> str | None:
        origin = self._pending.pop(link, None)
        _count(self._pending_of, origin, -1)
        return origin


def _count(counts: dict[str, int], origin: str | None, change: int) -> None:
    if origin is not None:
        counts[origin] = counts.get(origin, 0) + change
        if not counts[origin]:
            del counts[origin]


def _has_unread(link: Link) -> bool:
    """Whether something, if only the end, lies in the socket of a link."""
    descriptor = link.fileno()
    return descriptor >= 0 and poll_descriptor(descriptor, READ, 0.0)
