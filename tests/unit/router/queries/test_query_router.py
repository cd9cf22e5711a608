"""Requests between routers: where they entered goes with them, and one final comes back."""

from __future__ import annotations

import pytest

from tests.unit.router.nodes import Network, Node
from zenspark.router.face import Face
from zenspark.router.limits import RouterLimits
from zenspark.router.queries.query_router import MAX_QUERY_SECONDS, TOO_MANY_QUERIES_TEXT, query_timeout_seconds
from zenspark.router.router import Router, RouterPolicy
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import (
    Declare,
    DeclareQueryable,
    Err,
    NetworkMessage,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
)
from zenspark.wire.values import Congestion, Priority, QoS, QueryTarget, WhatAmI, WireExpr, ZenohId


def message_types(node: Node) -> list[str]:
    return [type(message).__name__ for message in node.received]


def response(number: int, key: str) -> Response:
    return Response(request_id=number, wire_expr=WireExpr(0, key), body=Reply(body=Put(payload=b"1")))


@pytest.fixture
def line() -> tuple[Network, Node, Node, Node]:
    net = Network()
    left, middle, right = net.router(), net.router(), net.router()
    net.join(left, middle)
    net.join(middle, right)
    return net, left, middle, right


def test_query_through_a_line_of_routers_gets_one_final(line: tuple[Network, Node, Node, Node]) -> None:
    net, left, _, right = line
    net.queryable(right, "q/**")
    net.get(left, "q/a", 9, QueryTarget.ALL)
    (request,) = right.received
    assert isinstance(request, Request)
    assert (request.wire_expr, request.node_id) == (WireExpr(0, "q/a"), 0)
    left.received.clear()
    net.send(right, response(request.request_id, "q/a"))
    net.send(right, ResponseFinal(request_id=request.request_id))
    assert message_types(left) == ["Response", "ResponseFinal"]
    net.send(right, ResponseFinal(request_id=request.request_id))
    assert message_types(left) == ["Response", "ResponseFinal"]


@pytest.mark.parametrize("key", ["q//x", "", "q#", "/q"])
def test_a_reply_on_an_invalid_key_is_dropped_and_not_counted(line: tuple[Network, Node, Node, Node], key: str) -> None:
    net, left, _, right = line
    net.queryable(right, "q/**")
    request = Request(request_id=9, wire_expr=WireExpr(0, "q/a"), target=QueryTarget.ALL, budget=2, body=Query())
    net.send(left, request)
    (forwarded,) = right.received
    assert isinstance(forwarded, Request)
    left.received.clear()
    for name in (key, "q/a", "q/b"):
        net.send(right, response(forwarded.request_id, name))
    assert message_types(left) == ["Response", "Response", "ResponseFinal"]
    keys = [message.wire_expr.suffix for message in left.received if isinstance(message, Response)]
    assert keys == ["q/a", "q/b"]


def test_error_reply_without_a_key_is_forwarded(line: tuple[Network, Node, Node, Node]) -> None:
    net, left, _, right = line
    net.queryable(right, "q/**")
    net.get(left, "q/a", 9, QueryTarget.ALL)
    (forwarded,) = right.received
    assert isinstance(forwarded, Request)
    left.received.clear()
    net.send(right, Response(request_id=forwarded.request_id, wire_expr=WireExpr(), body=Err(payload=b"Timeout")))
    assert message_types(left) == ["Response"]


def test_responses_keep_their_qos_and_the_final_overtakes_none(line: tuple[Network, Node, Node, Node]) -> None:
    net, left, _, right = line
    net.queryable(right, "q/**")
    requested = QoS(Priority.DATA_HIGH, Congestion.BLOCK)
    net.send(left, Request(request_id=9, wire_expr=WireExpr(0, "q/a"), qos=requested, body=Query()))
    (request,) = right.received
    assert isinstance(request, Request)
    left.received.clear()
    urgent, idle = QoS(Priority.REAL_TIME, Congestion.BLOCK, express=True), QoS(Priority.BACKGROUND)
    for qos in (urgent, None, QoS.DEFAULT, idle, urgent):
        net.send(right, replace(response(request.request_id, "q/a"), qos=qos))
    net.send(right, ResponseFinal(request_id=request.request_id, qos=requested))
    treated = [message.qos for message in left.received if isinstance(message, Response | ResponseFinal)]
    assert treated == [urgent, requested, QoS.DEFAULT, idle, urgent, QoS(Priority.BACKGROUND, Congestion.BLOCK)]


def test_responses_to_a_request_without_a_qos_carry_none_either(line: tuple[Network, Node, Node, Node]) -> None:
    net, left, _, right = line
    net.queryable(right, "q/**")
    net.send(left, Request(request_id=9, wire_expr=WireExpr(0, "q/a"), body=Query()))
    (request,) = right.received
    assert isinstance(request, Request)
    left.received.clear()
    for qos in (None, QoS.DEFAULT, QoS.REQUEST):
        net.send(right, replace(response(request.request_id, "q/a"), qos=qos))
    assert [message.qos for message in left.received if isinstance(message, Response)] == [None, None, QoS.REQUEST]


def test_request_between_routers_carries_its_entry_router(line: tuple[Network, Node, Node, Node]) -> None:
    net, left, middle, right = line
    net.queryable(right, "q")
    from_left = next(face for face, (node, _) in middle.links.items() if node is left)
    request = Request(request_id=1, wire_expr=WireExpr(0, "q"), body=Query())
    ((_, passed),) = middle.router.receive(from_left, request, 0.0)
    assert isinstance(passed, Request)
    assert middle.router.network is not None
    assert passed.node_id == middle.router.network.psid(left.router.zid) == 1


def test_request_with_unknown_entry_router_is_final_at_once(line: tuple[Network, Node, Node, Node]) -> None:
    net, left, middle, right = line
    net.queryable(right, "q")
    from_left = next(face for face, (node, _) in middle.links.items() if node is left)
    lost = Request(request_id=5, wire_expr=WireExpr(0, "q"), node_id=77, body=Query())
    assert middle.router.receive(from_left, lost, 0.0) == [(from_left, ResponseFinal(request_id=5))]


def test_a_queryable_that_is_lost_ends_the_query(line: tuple[Network, Node, Node, Node]) -> None:
    net, left, middle, right = line
    net.queryable(right, "q")
    net.get(left, "q", 3)
    left.received.clear()
    net.part(middle, right)
    assert message_types(left) == ["ResponseFinal"]


def test_best_matching_targets_the_nearest_router(line: tuple[Network, Node, Node, Node]) -> None:
    net, left, middle, right = line
    for node in (middle, right):
        client = net.client()
        net.join(client, node)
        net.queryable(client, "q", complete=True)
    face = next(iter(left.links))
    assert left.router.routes.request_next_hops(left.local, "q", QueryTarget.BEST_MATCHING) == (face,)


@pytest.mark.parametrize(("requested_ms", "seconds"), [(None, 10.0), (2_000, 2.0), (2**63, MAX_QUERY_SECONDS)])
def test_query_timeout_of_a_neighbour_is_limited(requested_ms: int | None, seconds: float) -> None:
    request = Request(request_id=1, wire_expr=WireExpr(0, "q"), timeout_ms=requested_ms, body=Query())
    assert query_timeout_seconds(request, 10.0, MAX_QUERY_SECONDS) == seconds


def test_request_without_timeout_gets_the_default() -> None:
    """QU-41."""
    router = Router(ZenohId(1), WhatAmI.ROUTER)
    querier, queryable = (router.add_face(ZenohId(number), WhatAmI.CLIENT, 0.0)[0] for number in (2, 3))
    router.receive(queryable, Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, "q"))), 0.0)
    ((_, passed),) = router.receive(querier, Request(request_id=1, wire_expr=WireExpr(0, "q"), body=Query()), 5.0)
    assert isinstance(passed, Request)
    assert passed.timeout_ms is None
    assert (router.next_timeout(), router.handle_timeout(14.9)) == (15.0, [])
    assert [type(message) for _, message in router.handle_timeout(15.0)] == [Response, ResponseFinal]


def test_errors_of_a_router_have_the_key_of_the_query() -> None:
    """RE-19: in the place of a queryable that is silent, that has no request id left, or that may not be queried."""
    policy = RouterPolicy(limits=RouterLimits(queries=2))
    router = Router(ZenohId(1), WhatAmI.ROUTER, policy)
    querier = router.add_face(ZenohId(2), WhatAmI.CLIENT, 0.0)[0]
    queryable = router.add_face(ZenohId(3), WhatAmI.CLIENT, 0.0, request_bits=8)[0]
    router.receive(queryable, Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, "q/**"))), 0.0)
    queryable.in_flight.append(dict.fromkeys(range(255)))

    def send_query(number: int) -> list[tuple[Face, NetworkMessage]]:
        return router.receive(
            querier, Request(request_id=number, wire_expr=WireExpr(0, f"q/{number}"), body=Query()), 0.0
        )

    def errors(out: list[tuple[Face, NetworkMessage]]) -> list[tuple[int, WireExpr, bytes]]:
        found = [message for face, message in out if face is querier and isinstance(message, Response)]
        return [(one.request_id, one.wire_expr, one.body.payload) for one in found if isinstance(one.body, Err)]

    assert errors(send_query(1)) == []
    assert errors(send_query(2)) == [(2, WireExpr(0, "q/2"), TOO_MANY_QUERIES_TEXT)]
    del queryable.in_flight[0]
    assert errors(send_query(3)) == []
    assert errors(send_query(4)) == [(4, WireExpr(0, "q/4"), TOO_MANY_QUERIES_TEXT)]
    late = errors(router.handle_timeout(10.0))
    assert late == [(1, WireExpr(0, "q/1"), b"Timeout"), (3, WireExpr(0, "q/3"), b"Timeout")]


def test_local_session_may_wait_forever() -> None:
    router = Router(ZenohId(1), WhatAmI.PEER)
    local, peer = router.add_local(), router.add_face(ZenohId(2), WhatAmI.PEER, 0.0)[0]
    router.receive(peer, Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, "q"))), 0.0)
    ((_, passed),) = router.receive(local, Request(request_id=1, wire_expr=WireExpr(0, "q"), body=Query()), 0.0)
    assert isinstance(passed, Request)
    assert (passed.timeout_ms, router.next_timeout()) == (None, None)
    final = ResponseFinal(request_id=passed.request_id)
    assert router.receive(peer, final, 1e9) == [(local, ResponseFinal(request_id=1))]


def test_local_session_gets_its_requested_timeout() -> None:
    router = Router(ZenohId(1), WhatAmI.PEER)
    local, peer = router.add_local(), router.add_face(ZenohId(2), WhatAmI.PEER, 0.0)[0]
    router.receive(peer, Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, "q"))), 0.0)
    router.receive(local, Request(request_id=1, wire_expr=WireExpr(0, "q"), timeout_ms=10**10, body=Query()), 0.0)
    assert router.next_timeout() == 10**7
