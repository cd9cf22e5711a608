"""Face: state of one neighbour: key ids, its declarations and interests, and the declarations announced to it.

The session of this node is a face too, in the region LOCAL. A face holds state; it makes no decisions.
"""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from enum import Enum, auto
from itertools import count
from typing import Protocol, TypeVar

import msgspec

from zenspark.key import KeyExpr
from zenspark.router.limits import NeighbourUsage
from zenspark.wire.messages import (
    Declaration,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    NetworkMessage,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import BoundExpr, Mapping, QueryableInfo, WhatAmI, WireExpr, ZenohId

MAX_KEY_ID = 0xFFFF
MAX_REQUEST_BITS = 32
"""Bits of a request id on the wire, whatever resolution a session negotiated."""


class Region(Enum):
    """Position of a neighbour relative to this node: the first criterion of `ReachabilityPolicy`."""

    __hash__ = object.__hash__  # Enum.__hash__ is a Python function, too slow for every route lookup

    LOCAL = auto()
    """The session of this node."""
    CLIENT = auto()
    """A client connected to this node."""
    DOWNSTREAM_PEER = auto()
    """A peer connected to this router."""
    PEER = auto()
    """A peer, as neighbour of this peer."""
    UPSTREAM = auto()
    """The router a peer is connected to; the router or peer a client is connected to."""
    ROUTER = auto()
    """A router, as neighbour of this router; or a neighbour that relays like this node: both are in one network."""
    GROUP = auto()
    """All members of a multicast group together: a message sent there reaches every member."""
    MEMBER = auto()
    """One member of a group: messages are received from it, but cannot be sent to it alone."""


REGION_BY_ROLES = {
    (WhatAmI.ROUTER, WhatAmI.ROUTER): Region.ROUTER,
    (WhatAmI.ROUTER, WhatAmI.PEER): Region.DOWNSTREAM_PEER,
    (WhatAmI.ROUTER, WhatAmI.CLIENT): Region.CLIENT,
    (WhatAmI.PEER, WhatAmI.ROUTER): Region.UPSTREAM,
    (WhatAmI.PEER, WhatAmI.PEER): Region.PEER,
    (WhatAmI.PEER, WhatAmI.CLIENT): Region.CLIENT,
    (WhatAmI.CLIENT, WhatAmI.ROUTER): Region.UPSTREAM,
    (WhatAmI.CLIENT, WhatAmI.PEER): Region.UPSTREAM,
}
"""Region by role of this node and role of the neighbour; two clients never have a session."""


class DeclarationKind(Enum):
    """Kinds of declarations."""

    __hash__ = object.__hash__  # Enum.__hash__ is too slow: every declaration looks up a dozen tables by it

    SUBSCRIBER = auto()
    QUERYABLE = auto()
    TOKEN = auto()


KIND_BY_DECLARATION: dict[type[Declaration], DeclarationKind] = {
    DeclareSubscriber: DeclarationKind.SUBSCRIBER,
    DeclareQueryable: DeclarationKind.QUERYABLE,
    DeclareToken: DeclarationKind.TOKEN,
}
KIND_BY_UNDECLARATION: dict[type[Declaration], DeclarationKind] = {
    UndeclareSubscriber: DeclarationKind.SUBSCRIBER,
    UndeclareQueryable: DeclarationKind.QUERYABLE,
    UndeclareToken: DeclarationKind.TOKEN,
}


class AnnouncedDeclaration(msgspec.Struct):
    """A declaration announced to a face: the id it has there, and the info last sent."""

    id: int
    info: QueryableInfo = QueryableInfo.NONE


class FaceDeclaration(msgspec.Struct, frozen=True):
    """A declaration received from a face."""

    key: str
    info: QueryableInfo = QueryableInfo.NONE


M = TypeVar("M", bound=NetworkMessage)


class Interceptor(Protocol):
    """Filters and modifies messages in one direction between a neighbour and this node; see `interceptors/`."""

    def intercept(self, message: M, reliable: bool, now: float) -> M | None:
        """The message to forward, possibly modified; None to drop it."""


def describe_neighbour(whatami: WhatAmI, zid: ZenohId, address: str = "") -> str:
    """Return role, zid and address, as every log line names a neighbour; without address for groups."""
    return f"{whatami.text} {zid} ({address})" if address else f"{whatami.text} {zid}"


class DeclarationOwner:
    """Owner of declarations: a neighbour, or a router elsewhere in the network."""

    def __init__(self, number: int, zid: ZenohId, region: Region) -> None:
        self.number = number
        self.zid = zid
        self.region = region
        self.members: set[ZenohId] = set()
        """Zids of the members of a group: messages they send to this node directly must not be forwarded to the group.
       """


class Face(DeclarationOwner):
    """A neighbour, and the key ids exchanged with it."""

    def __init__(
        self,
        number: int,
        zid: ZenohId,
        whatami: WhatAmI,
        region: Region,
        request_bits: int = MAX_REQUEST_BITS,
        relays: bool = False,
    ) -> None:
        super().__init__(number, zid, region)
        self.whatami = whatami
        self.declared: dict[DeclarationKind, dict[int, FaceDeclaration]] = {kind: {} for kind in DeclarationKind}
        self.announced: dict[DeclarationKind, dict[str, AnnouncedDeclaration]] = {kind: {} for kind in DeclarationKind}
        self.relays = relays
        """Whether the neighbour belongs to this network as a relay, one of the two nodes being a peer."""
        self.initial_declarations_pending = region is Region.PEER or relays
        """Whether the peer has not yet sent D_FINAL(0): until then it may have any subscriber or queryable."""
        self.address = ""
        """Address of its link, for log lines; empty for the local session and for groups."""
        self.patch = 1
        """Protocol patch negotiated with it."""
        self.group: Face | None = None
        """The group a member belongs to."""
        self.is_duplicate_member = False
        """Whether messages of this member are also received on another face, so that they must be ignored here."""
        self.ingress: Interceptor | None = None
        """Interceptor of messages from this face, if any."""
        self.egress: Interceptor | None = None
        """Interceptor of messages to this face, if any."""
        self._declaration_ids = count(1)
        self._request_mask = (1 << min(request_bits, MAX_REQUEST_BITS)) - 1
        self._request_id = 0
        self.in_flight: list[AnyMapping[int, object]] = []
        """Pending requests of this node on this face, by id: one table for each component that sends queries."""
        self._neighbour_keys: dict[int, str] = {}
        self._own_keys: dict[int, str] = {}
        self._next_key_id = 1
        self._key_ids: dict[str, tuple[int, Mapping]] = {}
        self._key_lengths: dict[int, int] = {}
        """Number of mapped keys of each length: only prefixes of these lengths are looked up."""
        self.usage = NeighbourUsage()
        self.direct_queries = 0
        """Queries of this neighbour in flight that the local session replies to without the router."""
        self.key_mapping_version = 0
        """Incremented whenever the meaning of a wire expression from this face may have changed."""

    def __repr__(self) -> str:
        return f"<Face {self.number} {self.zid} {self.whatami.text}>"

    def __str__(self) -> str:
        """Return role, zid and address, as log lines name a neighbour."""
        return describe_neighbour(self.whatami, self.zid, self.address)

    @property
    def has_fellow_members(self) -> bool:
        """Whether there are other members in the group of this member, which may reply to its messages, too."""
        return self.group is not None and len(self.group.members) > 1

    def next_id(self) -> int:
        """Allocate an id for a declaration or an interest of this node on this face."""
        return next(self._declaration_ids)

    def next_request_id(self) -> int | None:
        """Allocate an id for a request of this node on this face: within the RID resolution of the session (0 to
        2^RID_bits - 1), and not in flight. None if all of them are in flight."""
        request_id = (self._request_id + 1) & self._request_mask
        for requests in self.in_flight:
            if request_id in requests:
                return self._next_free_request_id(request_id)
        self._request_id = request_id
        return request_id

    def _next_free_request_id(self, request_id: int) -> int | None:
        """Allocate the next id that is not in flight; None if all are in flight."""
        if sum(map(len, self.in_flight)) > self._request_mask:
            return None
        while any(request_id in requests for requests in self.in_flight):
            request_id = (request_id + 1) & self._request_mask
        self._request_id = request_id
        return request_id

    # -- key mapping

    def resolve(self, expr: WireExpr) -> str | None:
        """Key expression of a wire expression received from this face; None if its key id is unknown."""
        return self._lookup(expr, self._neighbour_keys if expr.mapping is Mapping.SENDER else self._own_keys)

    def resolve_outgoing(self, expr: WireExpr) -> str | None:
        """Key expression of a wire expression sent to this face; None if its key id is unknown."""
        return self._lookup(expr, self._own_keys if expr.mapping is Mapping.SENDER else self._neighbour_keys)

    def _lookup(self, expr: WireExpr, keys_by_id: dict[int, str]) -> str | None:
        if not expr.scope:
            return expr.suffix
        prefix = keys_by_id.get(expr.scope)
        return None if prefix is None else prefix + expr.suffix

    def to_wire_expr(self, key: str) -> WireExpr:
        """Shortest wire expression of a key for this face: the longest mapped prefix, then the suffix."""
        end = len(key) if self._key_ids else 0
        while end > 0:
            mapped = self._key_ids.get(key[:end]) if end in self._key_lengths else None
            if mapped is not None:
                return WireExpr(mapped[0], key[end:], mapped[1])
            end = key.rfind("/", 0, end)
        return WireExpr(0, key)

    def new_key_mapping(self, declaration: DeclareKeyexpr) -> str | None:
        """Key that D_KEYEXPR maps to an id not mapped before; None if it maps nothing new."""
        if declaration.wire_expr.scope or declaration.expr_id in self._neighbour_keys:
            return None
        return declaration.wire_expr.suffix

    def add_key_mapping(self, declaration: DeclareKeyexpr) -> None:
        """Handle D_KEYEXPR. An id once mapped keeps its meaning."""
        if declaration.wire_expr.scope:
            return  # ignored: the scope would have to be resolved with ids of this node
        key_id, key = declaration.expr_id, declaration.wire_expr.suffix
        bound = self._neighbour_keys.get(key_id)
        if bound is None:
            self.usage.key_mappings += 1
            bound = self._neighbour_keys[key_id] = key
            self.usage.key_mapping_bytes += len(key)
        self.key_mapping_version += 1
        self._add_key_id(bound, key_id, Mapping.RECEIVER)

    def remove_key_mapping(self, key_id: int) -> None:
        """Handle U_KEYEXPR."""
        self.key_mapping_version += 1
        key = self._neighbour_keys.pop(key_id, None)
        if key is None:
            return
        self.usage.key_mappings -= 1
        self.usage.key_mapping_bytes -= len(key)
        if self._key_ids.get(key) == (key_id, Mapping.RECEIVER):
            del self._key_ids[key]
            self._key_lengths[len(key)] -= 1
            if not self._key_lengths[len(key)]:
                del self._key_lengths[len(key)]

    def _add_key_id(self, key: str, key_id: int, mapping: Mapping) -> None:
        """Note that a key has an id usable in messages to this face."""
        if key not in self._key_ids:
            self._key_lengths[len(key)] = self._key_lengths.get(len(key), 0) + 1
        self._key_ids[key] = (key_id, mapping)

    def bind(self, key: str) -> DeclareKeyexpr | None:
        """Map a key to a new id of this node; None if it has one, or if no id is left.

        Groups have no key ids: a member that joins later would not know them.
        """
        if key in self._key_ids or self.region is Region.GROUP:
            return None
        key_id = self._next_key_id
        while key_id in self._neighbour_keys:  # a key id has one meaning on a session, whichever side bound it
            key_id += 1
        if key_id > MAX_KEY_ID:
            return None
        self.key_mapping_version += 1
        self._next_key_id = key_id + 1
        self._own_keys[key_id] = key
        self._add_key_id(key, key_id, Mapping.SENDER)
        return DeclareKeyexpr(expr_id=key_id, wire_expr=BoundExpr(0, key))

    def bind_prefix(self, key: str) -> DeclareKeyexpr | None:
        """Map the part of a key before its first wildcard to an id."""
        prefix = KeyExpr(key).prefix
        return self.bind(str(prefix)) if prefix is not None else None


Outgoing = list[tuple[Face, NetworkMessage]]
"""Messages to send, in this order."""
