"""What a neighbour may make this node hold and do, and how often that was refused.

Every limit has a number in `RouterLimits`, a name in `Limit` and a row in docs/security.md. What is over a limit is
refused alone, where the protocol allows that: the declaration counts for nothing, the query ends without a reply, the
message is not forwarded, and the session goes on. Limits are checked where something is declared or where a route is
looked up for the first time, never for each publication.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.key.limits import KeyLimits

GLOB_CHUNKS = 8
"""As how many chunks a `$*` counts: comparing texts takes so much longer than looking a chunk up."""


class Limit(StrEnum):
    """Why something was refused: the limit it was over, or a rule; the values name the counters."""

    KEY_BYTES = "key_bytes"
    KEY_CHUNKS = "key_chunks"
    KEY_WILDCARDS = "key_wildcards"
    DECLARATIONS = "declarations"
    DECLARED_BYTES = "declared_bytes"
    DECLARED_CHUNKS = "declared_chunks"
    WILD_CHUNKS = "wild_chunks"
    INTERESTS = "interests"
    KEY_NUMBERS = "key_numbers"
    KEY_NUMBER_BYTES = "key_number_bytes"
    QUERIES = "queries"
    NETWORK_NODES = "network_nodes"
    NETWORK_LINKS = "network_links"
    ROUTERS = "routers"
    PENDING = "pending"
    PENDING_PER_ADDRESS = "pending_per_address"
    SESSIONS = "sessions"
    SESSIONS_PER_ADDRESS = "sessions_per_address"
    HANDSHAKES = "handshakes"
    """Not a number: the TLS or WebSocket handshake of a caller failed."""
    ACCESS_INGRESS = "access_ingress"
    """Not a number: access control denied a message that a neighbour sent."""
    ACCESS_EGRESS = "access_egress"
    """Not a number: access control denied a message that would have been sent to a neighbour."""


class RouterLimits(msgspec.Struct, frozen=True):
    """The limits of one node, all but those of key expressions and link state per neighbour."""

    key: KeyLimits = KeyLimits()
    declarations: int = 100_000
    """Subscribers, queryables and tokens of a client or peer: about 1.3 kB each."""
    network_declarations: int = 1_000_000
    """The same of a router, or of the node above us, which declares for everybody behind it."""
    declared_bytes: int = 32 << 20
    """Bytes in the keys of the declarations and interests of a client or peer."""
    declared_chunks: int = 1_000_000
    """Chunks in these keys: each can take 150 bytes, and a key with wildcards can be compared with each."""
    wild_chunks: int = 10_000
    """Chunks in those of them that have wildcards, a `$*` as 8: a chunk of a key may be compared with all."""
    interests: int = 100_000
    """Interests of a client or peer: about 1.7 kB each."""
    key_numbers: int = 65_535
    """Keys to which a neighbour gives a number: as many as there are numbers of 16 bits."""
    key_number_bytes: int = 16 << 20
    """Bytes in these keys."""
    network_nodes: int = 1000
    """Routers in the network, real or invented."""
    node_links: int = 256
    """Links that one of them may claim to have."""
    network_links: int = 10_000
    """Links that all of them may claim to have, each end counted: as many as 100 routers that all know each other."""
    queries: int = 50_000
    """Queries of a neighbour that have not ended: about 0.5 kB each, and work when all run out of time together."""


class Usage:
    """What one neighbour holds of what is limited."""

    __slots__ = (
        "declarations",
        "declared_bytes",
        "declared_chunks",
        "interests",
        "key_number_bytes",
        "key_numbers",
        "wild_chunks",
    )

    def __init__(self) -> None:
        self.declarations = 0
        self.interests = 0
        self.declared_bytes = 0
        self.declared_chunks = 0
        self.wild_chunks = 0
        self.key_numbers = 0
        self.key_number_bytes = 0

    def add_key(self, key: str | None) -> None:
        """The key of one more declaration or interest is kept; None for an interest in everything."""
        if key is not None:
            self.declared_bytes += len(key)
            self.declared_chunks += key.count("/") + 1
            if "*" in key:
                self.wild_chunks += wild_chunks(key)

    def remove_key(self, key: str | None) -> None:
        """It is not kept any more."""
        if key is not None:
            self.declared_bytes -= len(key)
            self.declared_chunks -= key.count("/") + 1
            self.wild_chunks -= wild_chunks(key)


def wild_chunks(key: str) -> int:
    """How many chunks a key adds to the tree of those with wildcards; a `$*` costs as much as GLOB_CHUNKS."""
    return key.count("/") + 1 + GLOB_CHUNKS * key.count("$*") if "*" in key else 0


class Refusals:
    """How often each limit or rule was the reason to refuse something, and to whom that happened last."""

    def __init__(self) -> None:
        self.counts: dict[Limit, int] = {}
        self.latest: dict[Limit, str] = {}
        self.on_count: Callable[[], object] = lambda: None
        """Called after each refusal; it must not take long."""

    def count(self, limit: Limit, who: object, times: int = 1) -> None:
        """Something was refused to a neighbour or an address."""
        self.counts[limit] = self.counts.get(limit, 0) + times
        self.latest[limit] = str(who)  # a neighbour itself would be kept in memory when it is gone
        self.on_count()


class Admission:
    """Decides whether something of a neighbour is within the limits, and counts it if it is not."""

    def __init__(self, limits: RouterLimits, refusals: Refusals) -> None:
        self.limits = limits
        self.refusals = refusals
        self._always_within = limits.key.always_within

    def key(self, who: object, key: str) -> bool:
        """Whether a text from the wire is a key expression in canonical form and within the limits."""
        return (len(key) <= self._always_within or self._is_within(who, key)) and is_key_expression(key)

    def _is_within(self, who: object, key: str) -> bool:
        excess = self.limits.key.excess(key)
        return excess is None or self._refuse(Limit(f"key_{excess.limit}"), who)

    def declaration(self, who: object, usage: Usage, key: str, for_network: bool) -> bool:
        """Whether a neighbour may declare one thing more under a key; if so, it is counted as held."""
        limits = self.limits
        if usage.declarations >= (limits.network_declarations if for_network else limits.declarations):
            return self._refuse(Limit.DECLARATIONS, who)
        usage.add_key(key)
        excess = None if for_network else self._excess(usage)
        if excess is not None:
            usage.remove_key(key)
            return self._refuse(excess, who)
        usage.declarations += 1
        return True

    def interest(self, who: object, usage: Usage, key: str | None) -> bool:
        """Whether a neighbour may ask for the declarations under one key more; if so, it is counted as held."""
        if usage.interests >= self.limits.interests:
            return self._refuse(Limit.INTERESTS, who)
        usage.add_key(key)
        excess = self._excess(usage)
        if excess is not None:
            usage.remove_key(key)
            return self._refuse(excess, who)
        usage.interests += 1
        return True

    def _excess(self, usage: Usage) -> Limit | None:
        """The limit that the keys of declarations and interests are over."""
        limits = self.limits
        if usage.declared_bytes > limits.declared_bytes:
            return Limit.DECLARED_BYTES
        if usage.declared_chunks > limits.declared_chunks:
            return Limit.DECLARED_CHUNKS
        return Limit.WILD_CHUNKS if usage.wild_chunks > limits.wild_chunks else None

    def key_number(self, who: object, usage: Usage, key: str) -> bool:
        """Whether a neighbour may give a number to one key more."""
        if not self._is_within(who, key):
            return False
        if usage.key_numbers >= self.limits.key_numbers:
            return self._refuse(Limit.KEY_NUMBERS, who)
        if usage.key_number_bytes + len(key) > self.limits.key_number_bytes:
            return self._refuse(Limit.KEY_NUMBER_BYTES, who)
        return True

    def query(self, who: object, in_flight: int) -> bool:
        """Whether a neighbour with some queries in flight may have one more."""
        return in_flight < self.limits.queries or self._refuse(Limit.QUERIES, who)

    def _refuse(self, limit: Limit, who: object) -> bool:
        self.refusals.count(limit, who)
        return False


def is_key_expression(key: str) -> bool:
    """Whether a text from the wire is a key expression in canonical form."""
    try:
        KeyExpr(key)
    except UsageError:
        return False
    return True
