"""Limits on the state and work a neighbour may cause in this node, and counters of refusals.

Every limit has a number in `RouterLimits`, a name in `RefusalReason` and a row in docs/security.md. Only the message
over a limit is refused, where the protocol allows that: the declaration is ignored, the query ends without a reply, the
message is not forwarded, and the session stays open. Limits are checked when something is declared or when a route is
looked up for the first time, never for each publication.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.key.limits import KeyLimits

CHUNKS_PER_GLOB = 8
"""Chunks a `$*` counts as: matching it takes about that much longer than looking up a chunk."""


class RefusalReason(StrEnum):
    """Reason of a refusal: the limit exceeded, or a rule; the values name the counters."""

    KEY_BYTES = "key_bytes"
    KEY_CHUNKS = "key_chunks"
    KEY_WILDCARDS = "key_wildcards"
    DECLARATIONS = "declarations"
    DECLARED_BYTES = "declared_bytes"
    DECLARED_CHUNKS = "declared_chunks"
    WILDCARD_CHUNKS = "wild_chunks"
    INTERESTS = "interests"
    KEY_MAPPINGS = "key_numbers"
    KEY_MAPPING_BYTES = "key_number_bytes"
    QUERIES = "queries"
    NETWORK_NODES = "network_nodes"
    NETWORK_LINKS = "network_links"
    ROUTERS = "routers"
    PENDING = "pending"
    PENDING_PER_ADDRESS = "pending_per_address"
    SESSIONS = "sessions"
    SESSIONS_PER_ADDRESS = "sessions_per_address"
    HANDSHAKES = "handshakes"
    """Failed TLS or WebSocket handshake of a connecting node; not a numeric limit."""
    ACCESS_INGRESS = "access_ingress"
    """Message from a neighbour that access control denied; not a numeric limit."""
    ACCESS_EGRESS = "access_egress"
    """Message to a neighbour that access control denied; not a numeric limit."""


class RouterLimits(msgspec.Struct, frozen=True):
    """Limits of one node; all but those of key expressions and link state are per neighbour."""

    key: KeyLimits = KeyLimits()
    declarations: int = 100_000
    """Subscribers, queryables and tokens of a client or peer: about 1.3 kB each."""
    network_declarations: int = 1_000_000
    """Subscribers, queryables and tokens of a router, or of the upstream node, which declares for all nodes behind it.
   """
    declared_bytes: int = 32 << 20
    """Bytes in the keys of the declarations and interests of a client or peer."""
    declared_chunks: int = 1_000_000
    """Chunks in the keys of declarations and interests: each can take 150 bytes, and a key with wildcards can be
    matched with each."""
    wildcard_chunks: int = 10_000
    """Chunks in the declared keys with wildcards, a `$*` counting as 8: a chunk of a key may be matched with all."""
    interests: int = 100_000
    """Interests of a client or peer: about 1.7 kB each."""
    key_mappings: int = 65_535
    """Key ids a neighbour may map: as many as there are ids of 16 bits."""
    key_mapping_bytes: int = 16 << 20
    """Bytes in the keys a neighbour maps to ids."""
    network_nodes: int = 1000
    """Nodes of the link-state network: routers and relaying peers, this node included, real or forged."""
    node_links: int = 256
    """Links that one node of the network may claim."""
    network_links: int = 10_000
    """Links that all nodes of the network may claim, each end counted: as many as 100 routers in a full mesh."""
    queries: int = 50_000
    """Pending queries of a neighbour: about 0.5 kB each, and work when all expire together."""


class NeighbourUsage:
    """Amounts of limited resources one neighbour uses."""

    __slots__ = (
        "declarations",
        "declared_bytes",
        "declared_chunks",
        "interests",
        "key_mapping_bytes",
        "key_mappings",
        "wildcard_chunks",
    )

    def __init__(self) -> None:
        self.declarations = 0
        self.interests = 0
        self.declared_bytes = 0
        self.declared_chunks = 0
        self.wildcard_chunks = 0
        self.key_mappings = 0
        self.key_mapping_bytes = 0

    def add_key(self, key: str | None) -> None:
        """Count the key of one more declaration or interest; None for an interest in everything."""
        if key is not None:
            self.declared_bytes += len(key)
            self.declared_chunks += key.count("/") + 1
            if "*" in key:
                self.wildcard_chunks += wildcard_chunks(key)

    def remove_key(self, key: str | None) -> None:
        """Uncount the key of a declaration or interest that was removed."""
        if key is not None:
            self.declared_bytes -= len(key)
            self.declared_chunks -= key.count("/") + 1
            self.wildcard_chunks -= wildcard_chunks(key)


def wildcard_chunks(key: str) -> int:
    """Chunks a key adds to the tree of keys with wildcards; a `$*` counts as CHUNKS_PER_GLOB."""
    return key.count("/") + 1 + CHUNKS_PER_GLOB * key.count("$*") if "*" in key else 0


class RefusalObserver(Protocol):
    """Observes refusals, for a log."""

    def on_refusal(self, refusals: Refusals) -> None:
        """Handle a refusal that was just counted; must be fast."""


class Refusals:
    """Counter of each limit or rule, and the neighbour or address it last applied to."""

    def __init__(self, observer: RefusalObserver | None = None) -> None:
        self.counts: dict[RefusalReason, int] = {}
        self.latest: dict[RefusalReason, str] = {}
        self._observer = observer

    def count(self, limit: RefusalReason, origin: object, times: int = 1) -> None:
        """Count a refusal for a neighbour or an address."""
        self.counts[limit] = self.counts.get(limit, 0) + times
        self.latest[limit] = str(origin)  # not the object: that would keep a removed neighbour alive
        if self._observer is not None:
            self._observer.on_refusal(self)


class Admission:
    """Admits what a neighbour requests within the limits, and counts what it refuses."""

    def __init__(self, limits: RouterLimits, refusals: Refusals) -> None:
        self.limits = limits
        self.refusals = refusals
        self._always_within = limits.key.always_within

    def admit_key(self, neighbour: object, key: str) -> bool:
        """Admit a key that is a canonical key expression and within the limits; False if not, and one over a limit is
        counted as refused."""
        return (len(key) <= self._always_within or self._admit_key_size(neighbour, key)) and is_key_expression(key)

    def _admit_key_size(self, neighbour: object, key: str) -> bool:
        excess = self.limits.key.excess(key)
        return excess is None or self._refuse(RefusalReason(f"key_{excess.limit}"), neighbour)

    def admit_declaration(self, neighbour: object, usage: NeighbourUsage, key: str, for_network: bool) -> bool:
        """Admit one more declaration on a key, which adds to the usage of its neighbour; False if it is refused."""
        limits = self.limits
        if usage.declarations >= (limits.network_declarations if for_network else limits.declarations):
            return self._refuse(RefusalReason.DECLARATIONS, neighbour)
        usage.add_key(key)
        excess = None if for_network else self._excess(usage)
        if excess is not None:
            usage.remove_key(key)
            return self._refuse(excess, neighbour)
        usage.declarations += 1
        return True

    def admit_interest(self, neighbour: object, usage: NeighbourUsage, key: str | None) -> bool:
        """Admit one more interest in a key, which adds to the usage of its neighbour; False if it is refused."""
        if usage.interests >= self.limits.interests:
            return self._refuse(RefusalReason.INTERESTS, neighbour)
        usage.add_key(key)
        excess = self._excess(usage)
        if excess is not None:
            usage.remove_key(key)
            return self._refuse(excess, neighbour)
        usage.interests += 1
        return True

    def _excess(self, usage: NeighbourUsage) -> RefusalReason | None:
        """The limit that the keys of declarations and interests exceed, if any."""
        limits = self.limits
        if usage.declared_bytes > limits.declared_bytes:
            return RefusalReason.DECLARED_BYTES
        if usage.declared_chunks > limits.declared_chunks:
            return RefusalReason.DECLARED_CHUNKS
        return RefusalReason.WILDCARD_CHUNKS if usage.wildcard_chunks > limits.wildcard_chunks else None

    def admit_key_mapping(self, neighbour: object, usage: NeighbourUsage, key: str) -> bool:
        """Admit the mapping of one more key to an id, which `Face.add_key_mapping` counts; False if it is refused."""
        if not self._admit_key_size(neighbour, key):
            return False
        if usage.key_mappings >= self.limits.key_mappings:
            return self._refuse(RefusalReason.KEY_MAPPINGS, neighbour)
        if usage.key_mapping_bytes + len(key) > self.limits.key_mapping_bytes:
            return self._refuse(RefusalReason.KEY_MAPPING_BYTES, neighbour)
        return True

    def admit_query(self, neighbour: object, in_flight: int) -> bool:
        """Admit one more query of a neighbour with `in_flight` pending ones; False if it is refused."""
        return in_flight < self.limits.queries or self._refuse(RefusalReason.QUERIES, neighbour)

    def _refuse(self, limit: RefusalReason, neighbour: object) -> bool:
        self.refusals.count(limit, neighbour)
        return False


def is_key_expression(key: str) -> bool:
    """Whether a text from the wire is a canonical key expression."""
    try:
        KeyExpr(key)
    except UsageError:
        return False
    return True
