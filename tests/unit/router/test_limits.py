"""What one neighbour may make a router hold: at each limit only the excess is refused, counted, and named."""

from __future__ import annotations

import pytest

from tests.steps import steps
from zenspark.key.limits import KeyLimits
from zenspark.router.face import DeclarationKind, Face, Outgoing
from zenspark.router.limits import RefusalReason, Refusals, RouterLimits, wildcard_chunks
from zenspark.router.router import Router, RouterPolicy
from zenspark.wire.messages import (
    AnyDeclaration,
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Err,
    Interest,
    Push,
    Put,
    Query,
    Request,
    Response,
    ResponseFinal,
    UndeclareKeyexpr,
    UndeclareSubscriber,
)
from zenspark.wire.values import BoundExpr, InterestMode, WhatAmI, WireExpr, ZenohId

TIGHT = RouterLimits(
    key=KeyLimits(bytes=100, chunks=5, wildcards=3),
    declarations=3,
    network_declarations=5,
    declared_bytes=150,
    declared_chunks=6,
    wildcard_chunks=20,
    interests=2,
    key_mappings=3,
    key_mapping_bytes=120,
    queries=2,
)
LONG = "k" * 101


class Hub:
    """A router with two clients."""

    def __init__(self, whatami: WhatAmI = WhatAmI.ROUTER, limits: RouterLimits = TIGHT) -> None:
        self.router = Router(ZenohId(1), whatami, RouterPolicy(limits=limits))
        self.router.add_local()
        self.one = self.add(2, WhatAmI.CLIENT)
        self.other = self.add(3, WhatAmI.CLIENT)

    def add(self, number: int, whatami: WhatAmI) -> Face:
        return self.router.add_face(ZenohId(number), whatami, 0.0)[0]

    def declare(self, face: Face, body: AnyDeclaration) -> Outgoing:
        return self.router.receive(face, Declare(body=body), 0.0)

    def subscribe(self, face: Face, number: int, key: str) -> None:
        self.declare(face, DeclareSubscriber(id=number, wire_expr=WireExpr(0, key)))

    def keys(self, kind: DeclarationKind = DeclarationKind.SUBSCRIBER) -> set[str]:
        return {entry.key for entry in self.router.tables[kind].matching(None)}

    @property
    def refused(self) -> dict[RefusalReason, int]:
        return self.router.refusals.counts


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.mark.parametrize(
    ("key", "limit"),
    [
        (LONG, RefusalReason.KEY_BYTES),
        ("a/b/c/d/e/f", RefusalReason.KEY_CHUNKS),
        ("*/*/*/*", RefusalReason.KEY_WILDCARDS),
    ],
)
def test_a_key_over_a_limit_is_refused_everywhere_and_nothing_else_is(hub: Hub, key: str, limit: RefusalReason) -> None:
    hub.subscribe(hub.one, 1, key)
    hub.subscribe(hub.one, 2, "a")
    hub.subscribe(hub.other, 1, "**")
    assert hub.keys() == {"a", "**"}
    assert hub.router.receive(hub.one, Push(wire_expr=WireExpr(0, key), body=Put(payload=b"")), 0.0) == []
    assert len(hub.router.receive(hub.one, Push(wire_expr=WireExpr(0, "b"), body=Put(payload=b"")), 0.0)) == 1
    interest = Interest(id=7, mode=InterestMode.CURRENT_FUTURE, subscribers=True, wire_expr=WireExpr(0, key))
    ((_, final),) = hub.router.receive(hub.one, interest, 0.0)
    assert isinstance(final, Declare)
    assert isinstance(final.body, DeclareFinal)
    request = Request(request_id=1, wire_expr=WireExpr(0, key), body=Query())
    ((_, end),) = hub.router.receive(hub.one, request, 0.0)
    assert isinstance(end, ResponseFinal)
    hub.declare(hub.one, DeclareKeyexpr(expr_id=1, wire_expr=BoundExpr(0, key)))
    assert hub.one.resolve(WireExpr(1, "")) is None
    assert hub.refused == {limit: 5}
    assert hub.router.refusals.latest[limit] == str(hub.one)


def test_a_suffix_that_makes_a_key_too_long_is_refused(hub: Hub) -> None:
    hub.declare(hub.one, DeclareKeyexpr(expr_id=1, wire_expr=BoundExpr(0, "k" * 60)))
    hub.declare(hub.one, DeclareSubscriber(id=1, wire_expr=WireExpr(1, "k" * 60)))
    assert hub.refused == {RefusalReason.KEY_BYTES: 1}


def test_declarations_of_all_kinds_count_together_and_can_be_taken_back(hub: Hub) -> None:
    hub.subscribe(hub.one, 1, "a")
    hub.declare(hub.one, DeclareToken(id=1, wire_expr=WireExpr(0, "a")))
    hub.declare(hub.one, DeclareQueryable(id=1, wire_expr=WireExpr(0, "a")))
    hub.subscribe(hub.one, 2, "b")
    hub.subscribe(hub.other, 2, "c")
    assert hub.keys() == {"a", "c"}
    assert hub.refused == {RefusalReason.DECLARATIONS: 1}
    hub.subscribe(hub.one, 1, "a2")  # another key under an id that is there
    hub.declare(hub.one, UndeclareSubscriber(id=2))  # which was refused
    hub.declare(hub.one, UndeclareSubscriber(id=1))
    hub.subscribe(hub.one, 3, "d")
    assert hub.keys() == {"c", "d"}
    assert hub.refused == {RefusalReason.DECLARATIONS: 1}


def test_bytes_of_declared_keys_are_limited(hub: Hub) -> None:
    hub.subscribe(hub.one, 1, "a" * 90)
    hub.subscribe(hub.one, 2, "b" * 90)
    assert hub.keys() == {"a" * 90}
    hub.declare(hub.one, UndeclareSubscriber(id=1))
    hub.subscribe(hub.one, 2, "b" * 90)
    assert hub.keys() == {"b" * 90}
    assert hub.refused == {RefusalReason.DECLARED_BYTES: 1}


def test_chunks_of_declared_keys_are_limited(hub: Hub) -> None:
    hub.subscribe(hub.one, 1, "a/b/c/d")
    hub.subscribe(hub.one, 2, "b/c/d")
    hub.subscribe(hub.one, 3, "b/c")
    assert hub.keys() == {"a/b/c/d", "b/c"}
    assert hub.refused == {RefusalReason.DECLARED_CHUNKS: 1}


def test_an_undeclared_key_frees_as_many_chunks_as_it_took(hub: Hub) -> None:
    hub.subscribe(hub.one, 1, "a/b/c/d")
    hub.declare(hub.one, UndeclareSubscriber(id=1))
    assert hub.one.usage.declared_chunks == 0


def test_chunks_of_keys_with_wildcards_are_limited(hub: Hub) -> None:
    assert wildcard_chunks("a/b") == 0
    assert wildcard_chunks("a/$*b") == 10
    hub.subscribe(hub.one, 1, "a/$*b/**")
    hub.subscribe(hub.one, 2, "b/$*b/**")
    hub.subscribe(hub.one, 3, "b/c/d")
    assert hub.keys() == {"a/$*b/**", "b/c/d"}
    assert hub.refused == {RefusalReason.WILDCARD_CHUNKS: 1}


def test_interests_are_limited_and_end_at_once_beyond(hub: Hub) -> None:
    hub.subscribe(hub.other, 1, "a")

    def send_interest(
        number: int, mode: InterestMode = InterestMode.CURRENT_FUTURE, key: str | None = None
    ) -> Outgoing:
        expr = None if key is None else WireExpr(0, key)
        interest = Interest(id=number, mode=mode, subscribers=True, wire_expr=expr)
        return hub.router.receive(hub.one, interest, 0.0)

    assert len(send_interest(1)) == len(send_interest(2, key="**")) + 1
    assert len(send_interest(3)) == 1  # D_FINAL
    assert hub.refused == {RefusalReason.INTERESTS: 1}
    assert len(send_interest(2)) > 1  # again under the same id
    send_interest(1, InterestMode.FINAL)
    send_interest(3)
    assert hub.refused == {RefusalReason.INTERESTS: 1}
    assert hub.one.usage.interests == 2
    send_interest(2, InterestMode.FINAL)
    send_interest(3, key="a/$*b/**")
    send_interest(3, InterestMode.FINAL)
    assert (hub.one.usage.interests, hub.one.usage.declared_bytes, hub.one.usage.wildcard_chunks) == (0, 0, 0)


def test_key_ids_are_limited_in_number_and_bytes(hub: Hub) -> None:
    for number in range(1, 5):
        hub.declare(hub.one, DeclareKeyexpr(expr_id=number, wire_expr=BoundExpr(0, f"key{number}")))
    assert hub.refused == {RefusalReason.KEY_MAPPINGS: 1}
    hub.declare(hub.one, DeclareKeyexpr(expr_id=1, wire_expr=BoundExpr(0, "key1")))  # once more
    hub.declare(hub.one, UndeclareKeyexpr(expr_id=1))
    hub.declare(hub.one, UndeclareKeyexpr(expr_id=4))
    hub.declare(hub.one, DeclareKeyexpr(expr_id=4, wire_expr=BoundExpr(0, "k" * 90)))
    assert hub.one.resolve(WireExpr(4, "")) == "k" * 90
    hub.declare(hub.one, UndeclareKeyexpr(expr_id=2))
    hub.declare(hub.one, DeclareKeyexpr(expr_id=2, wire_expr=BoundExpr(0, "l" * 90)))
    assert hub.one.resolve(WireExpr(2, "")) is None
    assert hub.refused == {RefusalReason.KEY_MAPPINGS: 1, RefusalReason.KEY_MAPPING_BYTES: 1}
    assert hub.one.usage.key_mapping_bytes == 94


def test_queries_in_flight_are_limited_and_those_beyond_end_at_once(hub: Hub) -> None:
    hub.declare(hub.other, DeclareQueryable(id=1, wire_expr=WireExpr(0, "a")))

    def send_query(number: int) -> Outgoing:
        return hub.router.receive(hub.one, Request(request_id=number, wire_expr=WireExpr(0, "a"), body=Query()), 0.0)

    ((target, copy),) = send_query(1)
    assert target is hub.other
    send_query(2)
    (_, error), (_, final) = send_query(3)
    assert isinstance(error, Response)
    assert isinstance(error.body, Err)
    assert isinstance(final, ResponseFinal)
    assert final.request_id == 3
    assert hub.refused == {RefusalReason.QUERIES: 1}
    assert isinstance(copy, Request)
    hub.router.receive(hub.other, ResponseFinal(request_id=copy.request_id), 0.0)
    ((target, _),) = send_query(4)
    assert target is hub.other


def test_upstream_node_has_the_network_limit() -> None:
    hub = Hub(WhatAmI.PEER)
    above = hub.add(9, WhatAmI.ROUTER)
    for number in range(6):
        hub.subscribe(above, number, f"$*k/{number}")
    assert len(hub.keys()) == 5
    assert hub.refused == {RefusalReason.DECLARATIONS: 1}


def test_the_session_of_this_node_has_no_limits_but_those_of_keys() -> None:
    hub = Hub()
    local = next(face for face in hub.router._faces.values() if face.zid == ZenohId(1))
    for number in range(10):
        hub.subscribe(local, number, f"{number}" * 50)
    assert len(hub.keys()) == 10
    assert hub.refused == {}


@pytest.mark.slow
def test_wire_expr_of_a_key_with_many_slashes_takes_few_steps() -> None:
    hub = Hub(limits=RouterLimits(key=KeyLimits(bytes=65_535, chunks=65_535)))
    key = "/".join("a" * 30_000)
    for number in range(1, 11):
        hub.declare(hub.one, DeclareKeyexpr(expr_id=number, wire_expr=BoundExpr(0, "b" * (number * 2 - 1))))
    assert hub.one.to_wire_expr(key) == WireExpr(0, key)
    hub.declare(hub.one, DeclareKeyexpr(expr_id=11, wire_expr=BoundExpr(0, key[:99])))
    assert hub.one.to_wire_expr(key).scope == 11
    assert steps(lambda: hub.one.to_wire_expr(key)) < 4 * 30_000


def test_interest_beyond_the_bytes_of_declared_keys_is_refused() -> None:
    hub = Hub(limits=RouterLimits(declared_bytes=10))
    for interest_id, key in enumerate(("k" * 10, "l")):
        interest = Interest(id=interest_id, mode=InterestMode.FUTURE, subscribers=True, wire_expr=WireExpr(0, key))
        hub.router.receive(hub.one, interest, 0.0)
    assert (hub.one.usage.interests, hub.one.usage.declared_bytes) == (1, 10)
    assert hub.refused[RefusalReason.DECLARED_BYTES] == 1


class CountingObserver:
    """Takes the counters of each refusal."""

    def __init__(self) -> None:
        self.counts: list[dict[RefusalReason, int]] = []

    def on_refusal(self, refusals: Refusals) -> None:
        self.counts.append(dict(refusals.counts))


def test_observer_is_notified_after_each_refusal() -> None:
    observer = CountingObserver()
    refusals = Refusals(observer)
    refusals.count(RefusalReason.QUERIES, "client a")
    refusals.count(RefusalReason.SESSIONS, "client b", times=2)
    assert observer.counts == [
        {RefusalReason.QUERIES: 1},
        {RefusalReason.QUERIES: 1, RefusalReason.SESSIONS: 2},
    ]
