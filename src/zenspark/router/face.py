"""One neighbour of the router: the words it uses for keys, what it declared, what it asked, what it was told.

The session of this very node is a face too, in the region LOCAL. A face decides nothing; it remembers.
"""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from enum import Enum, auto
from itertools import count
from typing import Protocol, TypeVar

import msgspec

from zenspark.key import KeyExpr
from zenspark.router.limits import Usage
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
"""Bits of a request id on the wire, whatever resolution a session agreed on."""


class Region(Enum):
    """Where a neighbour stands as seen from here; who may reach whom depends on nothing else."""

    __hash__ = object.__hash__  # that of Enum is a Python function, and it is looked up for every route

    LOCAL = auto()
    """the session of this node"""
    CLIENT = auto()
    """a client of ours"""
    SOUTH_PEER = auto()
    """a peer under us, a router"""
    PEER = auto()
    """a peer beside us, a peer"""
    UPSTREAM = auto()
    """the router above a peer; the router or peer above a client"""
    ROUTER = auto()
    """a router beside us, a router; or a node beside us that relays, as we do: we are in one network"""
    GROUP = auto()
    """all members of a multicast group together: what is said there, everybody hears"""
    MEMBER = auto()
    """one member of a group, who is heard but cannot be spoken to alone"""


REGIONS = {
    (WhatAmI.ROUTER, WhatAmI.ROUTER): Region.ROUTER,
    (WhatAmI.ROUTER, WhatAmI.PEER): Region.SOUTH_PEER,
    (WhatAmI.ROUTER, WhatAmI.CLIENT): Region.CLIENT,
    (WhatAmI.PEER, WhatAmI.ROUTER): Region.UPSTREAM,
    (WhatAmI.PEER, WhatAmI.PEER): Region.PEER,
    (WhatAmI.PEER, WhatAmI.CLIENT): Region.CLIENT,
    (WhatAmI.CLIENT, WhatAmI.ROUTER): Region.UPSTREAM,
    (WhatAmI.CLIENT, WhatAmI.PEER): Region.UPSTREAM,
}
"""(own role, neighbour's role) to region; two clients never have a session."""


class DeclarationKind(Enum):
    """What can be declared under a key."""

    SUBSCRIBER = auto()
    QUERYABLE = auto()
    TOKEN = auto()


DECLARE: dict[type[Declaration], DeclarationKind] = {
    DeclareSubscriber: DeclarationKind.SUBSCRIBER,
    DeclareQueryable: DeclarationKind.QUERYABLE,
    DeclareToken: DeclarationKind.TOKEN,
}
UNDECLARE: dict[type[Declaration], DeclarationKind] = {
    UndeclareSubscriber: DeclarationKind.SUBSCRIBER,
    UndeclareQueryable: DeclarationKind.QUERYABLE,
    UndeclareToken: DeclarationKind.TOKEN,
}


class AnnouncedDeclaration(msgspec.Struct):
    """A declaration we made to a face: the id it has there, and the info last sent."""

    id: int
    info: QueryableInfo = QueryableInfo.NONE


class FaceDeclaration(msgspec.Struct, frozen=True):
    """A declaration a face made."""

    key: str
    info: QueryableInfo = QueryableInfo.NONE


M = TypeVar("M", bound=NetworkMessage)


class Interceptor(Protocol):
    """Decides what passes one way between a neighbour and this node; see `interceptors/`."""

    def intercept(self, message: M, reliable: bool, now: float) -> M | None:
        """The message as it goes on; None if it does not."""


class DeclarationOwner:
    """Whoever can hold declarations: a neighbour, or a router somewhere in the network."""

    def __init__(self, number: int, zid: ZenohId, region: Region) -> None:
        self.number = number
        self.zid = zid
        self.region = region
        self.members: set[ZenohId] = set()
        """Who belongs to a group: what they say to us elsewhere, they say there themselves."""


class Face(DeclarationOwner):
    """A neighbour and the vocabulary shared with it."""

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
        """Whether it is in our network as a relay, one of us being a peer."""
        self.initial_declarations_pending = region is Region.PEER or relays
        """A peer that has not yet said D_FINAL(0) may want anything."""
        self.patch = 1
        """The patch of the protocol that the session with it agreed on."""
        self.group: Face | None = None
        """The group a member belongs to."""
        self.is_duplicate_member = False
        """Whether a member is heard in another way too, so that its publications arrive there."""
        self.ingress: Interceptor | None = None
        self.egress: Interceptor | None = None
        """Who decides what comes from it and goes to it, if anybody does."""
        self._ids = count(1)
        self._request_mask = (1 << min(request_bits, MAX_REQUEST_BITS)) - 1
        self._request_id = 0
        self.in_flight: list[AnyMapping[int, object]] = []
        """The requests of this node on this face that are not answered, by id: one table for each part that asks."""
        self._their_keys: dict[int, str] = {}
        self._our_keys: dict[int, str] = {}
        self._next_key = 1
        self._known: dict[str, tuple[int, Mapping]] = {}
        self._known_lengths: dict[int, int] = {}
        """How many of the keys with a number have each length: only prefixes of these lengths are looked up."""
        self.usage = Usage()
        self.direct_queries = 0
        """Queries in flight of this neighbour that the session of this node answers without the router."""
        self.key_mapping_version = 0
        """Changes whenever a wire expression from this face may have got another meaning."""

    def __repr__(self) -> str:
        return f"<Face {self.number} {self.zid} {self.whatami.text}>"

    def __str__(self) -> str:
        return f"{self.whatami.text} {self.zid}"

    def next_id(self) -> int:
        """A number for a declaration or an interest of ours on this face."""
        return next(self._ids)

    def next_request_id(self) -> int | None:
        """An id for a request of ours on this face: within the RID resolution of the session (0 to 2^RID_bits - 1),
        and not in flight. None if all of them are in flight."""
        number = (self._request_id + 1) & self._request_mask
        for requests in self.in_flight:
            if number in requests:
                return self._next_free_request_id(number)
        self._request_id = number
        return number

    def _next_free_request_id(self, number: int) -> int | None:
        """The next id behind one that is in flight."""
        if sum(map(len, self.in_flight)) > self._request_mask:
            return None
        while any(number in requests for requests in self.in_flight):
            number = (number + 1) & self._request_mask
        self._request_id = number
        return number

    # keys

    def resolve(self, expr: WireExpr) -> str | None:
        """The key expression a wire expression from this face stands for; None if its number is unknown."""
        return self._resolved(expr, self._their_keys if expr.mapping is Mapping.SENDER else self._our_keys)

    def resolve_outgoing(self, expr: WireExpr) -> str | None:
        """The key expression a wire expression stands for when we say it to this face."""
        return self._resolved(expr, self._our_keys if expr.mapping is Mapping.SENDER else self._their_keys)

    def _resolved(self, expr: WireExpr, numbers: dict[int, str]) -> str | None:
        if not expr.scope:
            return expr.suffix
        prefix = numbers.get(expr.scope)
        return None if prefix is None else prefix + expr.suffix

    def to_wire_expr(self, key: str) -> WireExpr:
        """The shortest way to say a key to this face: the longest prefix with a number, then the rest."""
        end = len(key) if self._known else 0
        while end > 0:
            known = self._known.get(key[:end]) if end in self._known_lengths else None
            if known is not None:
                return WireExpr(known[0], key[end:], known[1])
            end = key.rfind("/", 0, end)
        return WireExpr(0, key)

    def new_key_mapping(self, declaration: DeclareKeyexpr) -> str | None:
        """The key to which the face gives a number that it has not bound before; None if it does not."""
        if declaration.wire_expr.scope or declaration.expr_id in self._their_keys:
            return None
        return declaration.wire_expr.suffix

    def add_key_mapping(self, declaration: DeclareKeyexpr) -> None:
        """The face bound one of its numbers. A number once bound keeps its meaning."""
        if declaration.wire_expr.scope:
            return  # says nothing: the number would have to be read in our own vocabulary
        number, key = declaration.expr_id, declaration.wire_expr.suffix
        bound = self._their_keys.get(number)
        if bound is None:
            self.usage.key_numbers += 1
            bound = self._their_keys[number] = key
            self.usage.key_number_bytes += len(key)
        self.key_mapping_version += 1
        self._know(bound, number, Mapping.RECEIVER)

    def remove_key_mapping(self, number: int) -> None:
        """The face freed one of its numbers."""
        self.key_mapping_version += 1
        key = self._their_keys.pop(number, None)
        if key is None:
            return
        self.usage.key_numbers -= 1
        self.usage.key_number_bytes -= len(key)
        if self._known.get(key) == (number, Mapping.RECEIVER):
            del self._known[key]
            self._known_lengths[len(key)] -= 1
            if not self._known_lengths[len(key)]:
                del self._known_lengths[len(key)]

    def _know(self, key: str, number: int, mapping: Mapping) -> None:
        """A key has a number that can be said to this face."""
        if key not in self._known:
            self._known_lengths[len(key)] = self._known_lengths.get(len(key), 0) + 1
        self._known[key] = (number, mapping)

    def bind(self, key: str) -> DeclareKeyexpr | None:
        """Give a key a number of ours; None if it has one, or if there is none left.

        In a group keys have no numbers: who joins later would not know them.
        """
        if key in self._known or self.region is Region.GROUP:
            return None
        number = self._next_key
        while number in self._their_keys:  # a number means one thing on a session, whoever bound it
            number += 1
        if number > MAX_KEY_ID:
            return None
        self.key_mapping_version += 1
        self._next_key = number + 1
        self._our_keys[number] = key
        self._know(key, number, Mapping.SENDER)
        return DeclareKeyexpr(expr_id=number, wire_expr=BoundExpr(0, key))

    def bind_prefix(self, key: str) -> DeclareKeyexpr | None:
        """Give the part of a key before its first wildcard a number."""
        prefix = KeyExpr(key).prefix
        return self.bind(str(prefix)) if prefix is not None else None


Outgoing = list[tuple[Face, NetworkMessage]]
"""What must be said, in this order."""
