"""Queries in a router: the queryables they reach, and the replies until their one final."""

from __future__ import annotations

import pytest

from tests.unit.router.nodes import Network, Node, requests
from zenspark.router.router import Router, RouterPolicy
from zenspark.wire.messages import Declare, DeclareQueryable, Err, Put, Query, Reply, Request, Response, ResponseFinal
from zenspark.wire.values import EntityId, QueryableInfo, QueryTarget, WhatAmI, WireExpr, ZenohId


def reply(net: Network, node: Node, request: Request, payload: bytes) -> None:
    body = Reply(body=Put(payload=payload))
    responder = EntityId(node.router.zid, 3)
    response = Response(request_id=request.request_id, wire_expr=WireExpr(0, "q/a"), responder=responder, body=body)
    net.send(node, response)


def replies(node: Node) -> list[tuple[int, str, EntityId | None, bytes]]:
    """Request id, key, responder and payload of each received reply."""
    return [
        (message.request_id, message.wire_expr.suffix, message.responder, message.body.body.payload)
        for message in node.received
        if isinstance(message, Response) and isinstance(message.body, Reply) and isinstance(message.body.body, Put)
    ]


def finish(net: Network, node: Node, request: Request) -> None:
    net.send(node, ResponseFinal(request_id=request.request_id))


def test_a_query_ends_in_exactly_one_final(net: Network) -> None:
    querier, centre, one, two = net.client(), net.router(), net.client(), net.client()
    for client in (querier, one, two):
        net.join(client, centre)
    net.queryable(one, "q/**")
    net.queryable(two, "q/a")
    net.get(querier, "q/a", 9)
    (first,), (second,) = requests(one), requests(two)
    querier.received.clear()
    reply(net, one, first, b"1")
    finish(net, one, first)
    assert [type(message) for message in querier.received] == [Response]
    reply(net, two, second, b"2")
    net.part(two, centre)
    assert [type(message) for message in querier.received] == [Response, Response, ResponseFinal]
    assert all(getattr(message, "request_id", None) == 9 for message in querier.received)
    assert replies(querier) == [
        (9, "q/a", EntityId(one.router.zid, 3), b"1"),
        (9, "q/a", EntityId(two.router.zid, 3), b"2"),
    ]


def test_a_request_id_belongs_to_one_session(net: Network) -> None:
    """Two queriers use the same id, and so do the copies that go to two queryables."""
    left, centre, right, one, two = net.client(), net.router(), net.client(), net.client(), net.client()
    for client in (left, right, one, two):
        net.join(client, centre)
    net.queryable(one, "q/**")
    net.queryable(two, "r/**")
    net.get(left, "q/a", 9)
    net.get(right, "r/a", 9)
    net.get(right, "q/b", 8)
    (first, third), (second,) = requests(one), requests(two)
    assert (first.request_id == second.request_id, first.request_id == third.request_id) == (True, False)
    left.received.clear()
    right.received.clear()
    for node, request, payload in ((one, third, b"3"), (two, second, b"2"), (one, first, b"1")):
        reply(net, node, request, payload)
        finish(net, node, request)
    assert [(number, payload) for number, _, _, payload in replies(left)] == [(9, b"1")]
    assert [(number, payload) for number, _, _, payload in replies(right)] == [(8, b"3"), (9, b"2")]
    finals = [[one.request_id for one in node.received if isinstance(one, ResponseFinal)] for node in (left, right)]
    assert finals == [[9], [8, 9]]


@pytest.mark.parametrize(
    ("target", "reached"),
    [
        (QueryTarget.BEST_MATCHING, "c0"),
        (QueryTarget.ALL, "c0 c1 c2"),
        (QueryTarget.ALL_COMPLETE, "c0"),
    ],
)
def test_targets_choose_queryables(net: Network, target: QueryTarget, reached: str) -> None:
    querier, centre = net.client(), net.router()
    responders = {name: net.client() for name in ("c0", "c1", "c2")}
    for client in (querier, *responders.values()):
        net.join(client, centre)
    net.queryable(responders["c0"], "q/**", complete=True)
    net.queryable(responders["c1"], "q/**")
    net.queryable(responders["c2"], "q/a")
    net.get(querier, "q/a", target=target)
    assert " ".join(name for name, node in responders.items() if requests(node)) == reached


@pytest.mark.parametrize(("by_flag", "reached"), [(False, "wide"), (True, "wide part")])
@pytest.mark.parametrize("target", list(QueryTarget))
def test_all_complete_may_rely_on_the_declared_complete_flag(by_flag: bool, reached: str, target: QueryTarget) -> None:
    """QU-34, RO-19: an option of the router, for AllComplete alone."""
    router = Router(ZenohId(1), WhatAmI.ROUTER, RouterPolicy(trusts_complete_flag=by_flag))
    querier, wide, part, other = (router.add_face(ZenohId(at), WhatAmI.CLIENT, 0.0)[0] for at in (2, 3, 4, 5))
    for face, key, complete in ((wide, "q/**", True), (part, "q/a", True), (other, "q/**", False)):
        body = DeclareQueryable(id=1, wire_expr=WireExpr(0, key), info=QueryableInfo(complete))
        router.receive(face, Declare(body=body), 0.0)
    names = {wide: "wide", part: "part", other: "other"}
    found = " ".join(
        sorted((names[face] for face in router.routes.request_next_hops(querier, "q/*", target)), reverse=True)
    )
    expected = {QueryTarget.BEST_MATCHING: "wide", QueryTarget.ALL: "wide part other"}
    assert found == expected.get(target, reached)


@pytest.mark.parametrize(
    ("role", "querier_role", "reached"),
    [
        (WhatAmI.PEER, WhatAmI.PEER, True),
        (WhatAmI.CLIENT, WhatAmI.ROUTER, True),
        (WhatAmI.ROUTER, WhatAmI.ROUTER, False),
        (WhatAmI.ROUTER, WhatAmI.CLIENT, False),
    ],
)
def test_receiver_of_an_all_complete_query_does_not_filter_again(
    role: WhatAmI, querier_role: WhatAmI, reached: bool
) -> None:
    """RO-19: its own session is queried by the flag, if the querying node has selected by declarations of this one."""
    router = Router(ZenohId(1), role)
    local, querier = router.add_local(), router.add_face(ZenohId(2), querier_role, 0.0)[0]
    body = DeclareQueryable(id=1, wire_expr=WireExpr(0, "q/a"), info=QueryableInfo(True))
    router.receive(local, Declare(body=body), 0.0)
    assert router.routes.request_next_hops(querier, "q/*", QueryTarget.ALL_COMPLETE) == ((local,) if reached else ())


def test_all_complete_query_for_a_client_does_not_reach_the_local_session() -> None:
    router = Router(ZenohId(1), WhatAmI.PEER)
    local, querier = router.add_local(), router.add_face(ZenohId(2), WhatAmI.ROUTER, 0.0)[0]
    client = router.add_face(ZenohId(3), WhatAmI.CLIENT, 0.0)[0]
    for face, key in ((local, "q/a"), (client, "q/**")):
        body = DeclareQueryable(id=1, wire_expr=WireExpr(0, key), info=QueryableInfo(True))
        router.receive(face, Declare(body=body), 0.0)
    assert router.routes.request_next_hops(querier, "q/*", QueryTarget.ALL_COMPLETE) == (client,)


def test_best_matching_queries_all_where_none_is_complete(net: Network) -> None:
    querier, centre, one, two = net.client(), net.router(), net.client(), net.client()
    for client in (querier, one, two):
        net.join(client, centre)
    net.queryable(one, "q/a", complete=True)
    net.queryable(two, "q/**")
    net.get(querier, "q/*")
    assert requests(one)
    assert requests(two)


def test_best_matching_queries_the_nearest_complete_one_of_each_region() -> None:
    router = Router(ZenohId(1), WhatAmI.ROUTER)
    querier, far, near, none = (router.add_face(ZenohId(number), WhatAmI.CLIENT, 0.0)[0] for number in range(2, 6))
    peer, _ = router.add_face(ZenohId(6), WhatAmI.PEER, 0.0)
    offers = {far: QueryableInfo(True, 5), near: QueryableInfo(True, 1), none: QueryableInfo(False, 0)}
    for face, info in (offers | {peer: QueryableInfo(True, 9)}).items():
        router.receive(face, Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, "q/**"), info=info)), 0.0)
    assert set(router.routes.request_next_hops(querier, "q/a", QueryTarget.BEST_MATCHING)) == {near, peer}


def test_all_complete_queries_those_complete_for_the_whole_query(net: Network) -> None:
    querier, centre, whole, part = net.client(), net.router(), net.client(), net.client()
    for client in (querier, whole, part):
        net.join(client, centre)
    net.queryable(whole, "q/**", complete=True)
    net.queryable(part, "q/a", complete=True)
    net.get(querier, "q/*", target=QueryTarget.ALL_COMPLETE)
    assert [len(requests(node)) for node in (whole, part)] == [1, 0]


def test_query_without_targets_is_final_at_once(net: Network) -> None:
    querier, centre = net.client(), net.router()
    net.join(querier, centre)
    net.get(querier, "q/a", 3)
    assert [message.request_id for message in querier.received if isinstance(message, ResponseFinal)] == [3]


def test_query_to_a_silent_queryable_times_out(net: Network) -> None:
    querier, centre, silent = net.client(), net.router(), net.client()
    net.join(querier, centre)
    net.join(silent, centre)
    net.queryable(silent, "q")
    net.get(querier, "q", 4)
    assert centre.router.next_timeout() == 1.0
    assert centre.router.handle_timeout(0.5) == []
    net.emit(centre, centre.router.handle_timeout(1.0))
    net.run()
    error, final = [message for message in querier.received if not isinstance(message, Request)]
    assert isinstance(error, Response)
    assert error.body == Err(payload=b"Timeout")
    assert isinstance(final, ResponseFinal)
    assert centre.router.next_timeout() is None


def test_a_budget_ends_a_query_early(net: Network) -> None:
    querier, centre, responder = net.client(), net.router(), net.client()
    net.join(querier, centre)
    net.join(responder, centre)
    net.queryable(responder, "q/**")
    net.send(querier, Request(request_id=5, wire_expr=WireExpr(0, "q/a"), budget=2, body=Query()))
    (request,) = requests(responder)
    querier.received.clear()
    for payload in (b"1", b"2", b"3"):
        reply(net, responder, request, payload)
    finish(net, responder, request)
    assert [type(message) for message in querier.received] == [Response, Response, ResponseFinal]


def test_a_budget_goes_on_to_the_queryables_and_errors_count(net: Network) -> None:
    """QU-37: each router on the way knows the budget; ERR is a RESPONSE as REPLY is."""
    querier, first, second, responder = net.client(), net.router(), net.router(), net.client()
    net.join(querier, first)
    net.join(first, second)
    net.join(responder, second)
    net.queryable(responder, "q/**")
    net.send(querier, Request(request_id=5, wire_expr=WireExpr(0, "q/a"), budget=2, body=Query()))
    (request,) = requests(responder)
    assert request.budget == 2
    querier.received.clear()
    for _ in range(3):
        net.send(
            responder, Response(request_id=request.request_id, wire_expr=WireExpr(0, "q/a"), body=Err(payload=b"no"))
        )
    assert [type(message) for message in querier.received] == [Response, Response, ResponseFinal]
