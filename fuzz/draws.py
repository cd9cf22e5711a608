"""Messages drawn from the bytes of an input: valid ones of every kind, from so few keys and ids that they match.

A target that draws messages spends no input on bytes that the decoder refuses. The hostile suite draws messages as
well, from random bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from zenspark.errors import DecodeError
from zenspark.wire.codec import decode_network, encode_link_states
from zenspark.wire.messages import (
    AnyDeclaration,
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Del,
    Err,
    Interest,
    LinkState,
    NetworkMessage,
    NetworkOam,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
    UndeclareKeyexpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import (
    BoundExpr,
    InterestMode,
    Locator,
    Mapping,
    QueryableInfo,
    QueryTarget,
    WhatAmI,
    WireExpr,
    ZenohId,
)

T = TypeVar("T")

KEYS = ["a", "b", "a/b", "a/b/c", "a/*", "**", "a/**", "**/c", "a$*", "a/$*b/**", "@/b", "a/@x/*", "é/b"]
BROKEN_KEYS = ["", "/", "a//b", "/a", "a/", "a/**/**", "$*$*", "a/*b", "?", "a#b", "**/a" * 40]
SUFFIXES = [*KEYS, *KEYS, "/b", "/*", "/**", "", *BROKEN_KEYS]
EDGES = [0, 1, 2, 3, 4, 5, 127, 128, 0xFFFF, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32]
EDGES += [1 << 53, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
RAW_BYTES = 48
"""Longest message that is decoded from the bytes of the input."""


class Draws:
    """Choices by the bytes of an input, one after the other; when they are used up, always the first choice."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_used_up(self) -> bool:
        return self._at >= len(self._data)

    def byte(self) -> int:
        self._at += 1
        return 0 if self._at > len(self._data) else self._data[self._at - 1]

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        self._at += size
        return self._data[self._at - size : self._at]

    def flag(self) -> bool:
        return self.byte() % 2 == 1

    def choice(self, choices: Sequence[T]) -> T:
        return choices[self.byte() % len(choices)]

    def number(self, bits: int) -> int:
        """Draw a number, mostly a small one, sometimes one where its encoding or a limit changes."""
        drawn = self.byte()
        return (drawn % 8 if drawn < 192 else EDGES[drawn % len(EDGES)]) & ((1 << bits) - 1)


# -- parts of messages -------------------------------------------------------------------------------------------------


def zenoh_id(draws: Draws) -> ZenohId:
    """Draw one of a few ids; the first are those of the nodes that the targets make."""
    drawn = draws.byte()
    return ZenohId(drawn % 16 + 1 if drawn < 240 else (1 << 128) - 1 - drawn % 4)


def wire_expr(draws: Draws) -> WireExpr:
    """Draw a key in full or by its id, declared, undeclared or invalid."""
    scope = draws.choice([0, 0, 0, 1, 2, 3, 0xFFFF])
    return WireExpr(scope, draws.choice(SUFFIXES), draws.choice(list(Mapping)))


def declaration(draws: Draws) -> AnyDeclaration:
    """Draw a declaration or an undeclaration."""
    number = draws.number(32)
    expr = wire_expr(draws)
    ended = expr if draws.flag() else None
    makers: list[Callable[[], AnyDeclaration]] = [
        lambda: DeclareSubscriber(id=number, wire_expr=expr),
        lambda: DeclareQueryable(id=number, wire_expr=expr, info=QueryableInfo(draws.flag(), draws.number(16))),
        lambda: DeclareToken(id=number, wire_expr=expr),
        lambda: DeclareKeyexpr(expr_id=number & 0xFFFF, wire_expr=BoundExpr(expr.scope % 2, expr.suffix)),
        lambda: UndeclareSubscriber(id=number, ext_wire_expr=ended),
        lambda: UndeclareQueryable(id=number, ext_wire_expr=ended),
        lambda: UndeclareToken(id=number, ext_wire_expr=ended),
        lambda: UndeclareKeyexpr(expr_id=number & 0xFFFF),
        DeclareFinal,
    ]
    return draws.choice(makers)()


def link_state(draws: Draws) -> LinkState:
    """Draw the link state of a node."""
    links = tuple(draws.number(64) for _ in range(draws.byte() % 6))
    return LinkState(
        psid=draws.number(64),
        sn=draws.number(64),
        zid=zenoh_id(draws) if draws.flag() else None,
        whatami=draws.choice([None, WhatAmI.ROUTER.bit, WhatAmI.PEER.bit, WhatAmI.CLIENT.bit, 0, 255]),
        locators=draws.choice([None, (), (Locator("tcp/127.0.0.1:7447"),), (Locator("udp/é"),) * 100]),
        links=links,
        weights=tuple(draws.number(16) for _ in links) if draws.flag() else None,
        gateway=draws.flag(),
    )


# -- messages ----------------------------------------------------------------------------------------------------------


def declare(draws: Draws) -> NetworkMessage:
    interest_id = draws.number(32) if draws.byte() % 4 == 1 else None
    return Declare(interest_id=interest_id, node_id=draws.number(16), body=declaration(draws))


def interest(draws: Draws) -> NetworkMessage:
    mode, number = draws.choice(list(InterestMode)), draws.number(32)
    if mode is InterestMode.FINAL:
        return Interest(mode=mode, id=number)
    kinds = draws.byte()
    return Interest(
        mode=mode,
        id=number,
        aggregate=bool(kinds & 1),
        tokens=bool(kinds & 2),
        queryables=bool(kinds & 4),
        subscribers=bool(kinds & 8),
        keyexprs=bool(kinds & 16),
        wire_expr=wire_expr(draws) if kinds & 32 else None,
    )


def push(draws: Draws) -> NetworkMessage:
    body = Del() if draws.byte() % 4 == 1 else Put(payload=draws.take(draws.byte() % 8))
    return Push(wire_expr=wire_expr(draws), node_id=draws.number(16), body=body)


def request(draws: Draws) -> NetworkMessage:
    return Request(
        request_id=draws.number(32),
        wire_expr=wire_expr(draws),
        target=draws.choice(list(QueryTarget)),
        budget=draws.number(32),
        timeout_ms=draws.number(64) if draws.flag() else None,
        node_id=draws.number(16),
        body=Query(parameters=draws.choice(["", "_time=[now(-1s)..]", "x;y=1"])),
    )


def response(draws: Draws) -> NetworkMessage:
    body = Err(payload=b"no") if draws.flag() else Reply(body=Put(payload=b"yes"))
    return Response(request_id=draws.number(32), wire_expr=wire_expr(draws), body=body)


def response_final(draws: Draws) -> NetworkMessage:
    return ResponseFinal(request_id=draws.number(32))


def link_state_oam(draws: Draws) -> NetworkMessage:
    states = [link_state(draws) for _ in range(draws.byte() % 5)]
    return NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(states))


def other_oam(draws: Draws) -> NetworkMessage:
    return NetworkOam(id=draws.number(16), zbuf=draws.take(draws.byte() % RAW_BYTES))


MESSAGES: list[Callable[[Draws], NetworkMessage]] = [
    declare,
    declare,
    declare,
    interest,
    push,
    request,
    response,
    response_final,
    link_state_oam,
    other_oam,
]


def network_message(draws: Draws) -> NetworkMessage | None:
    """Draw a message of any kind, or decode one from the next bytes; None if they do not decode."""
    drawn = draws.byte()
    if drawn < 224:
        return MESSAGES[drawn % len(MESSAGES)](draws)
    try:
        return decode_network(draws.take(RAW_BYTES))
    except DecodeError:
        return None
