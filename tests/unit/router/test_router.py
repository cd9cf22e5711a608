"""The router's moves, one by one, between nodes in memory."""

from __future__ import annotations

import pytest

from tests.unit.router.nodes import Network, Node
from zenspark.clock import HybridClock, ntp64_from_ns
from zenspark.router.face import DeclarationKind, Face
from zenspark.router.router import Router, RouterPolicy
from zenspark.router.timestamping import TimestampPolicy
from zenspark.wire.codec import encode, encode_link_states
from zenspark.wire.declare import replace
from zenspark.wire.messages import (
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
    Congestion,
    EntityId,
    InterestMode,
    Mapping,
    Priority,
    QoS,
    QueryableInfo,
    QueryTarget,
    Timestamp,
    WhatAmI,
    WireExpr,
    ZenohId,
)


def pushed(node: Node) -> list[tuple[str, bytes]]:
    pushes = [message for message in node.heard if isinstance(message, Push)]
    return [(push.wire_expr.suffix, push.body.payload) for push in pushes if isinstance(push.body, Put)]


def answered(heard: list[NetworkMessage]) -> list[str]:
    found = []
    for message in heard:
        assert isinstance(message, Declare)
        expr = getattr(message.body, "wire_expr", None)
        found.append(f"{message.body.NAME} {expr.suffix}" if expr else message.body.NAME)
    return found


def requests(node: Node) -> list[Request]:
    return [message for message in node.heard if isinstance(message, Request)]


@pytest.fixture
def net() -> Network:
    return Network()


def test_a_publication_reaches_a_subscriber_through_a_router_once(net: Network) -> None:
    publisher, centre, subscriber = net.client(), net.router(), net.client()
    net.join(publisher, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "demo/**", 1)
    net.subscribe(subscriber, "demo/a", 2)
    net.put(publisher, "demo/a", b"1")
    net.put(publisher, "other", b"2")
    assert pushed(subscriber) == [("demo/a", b"1")]
    assert pushed(publisher) == []


def test_a_publication_reaches_every_matching_subscriber(net: Network) -> None:
    publisher, centre, *subscribers = net.client(), net.router(), net.client(), net.client(), net.client()
    for client in (publisher, *subscribers):
        net.join(client, centre)
    for subscriber, key in zip(subscribers, ("demo/**", "demo/a", "other/a"), strict=True):
        net.subscribe(subscriber, key)
    net.put(publisher, "demo/*")
    assert [pushed(subscriber) for subscriber in subscribers] == [[("demo/*", b"x")], [("demo/*", b"x")], []]


def test_a_late_router_learns_what_its_client_already_declared(net: Network) -> None:
    publisher, centre, subscriber = net.client(), net.router(), net.client()
    net.subscribe(subscriber, "demo/**")
    net.join(publisher, centre)
    net.join(subscriber, centre)
    net.put(publisher, "demo/a")
    assert pushed(subscriber) == [("demo/a", b"x")]


def test_peers_push_their_declarations_and_then_the_final_zero(net: Network) -> None:
    one, other = net.peer(), net.peer()
    net.subscribe(other, "demo/**")
    face, first = other.router.add_face(one.router.zid, one.router.whatami, 0.0)
    assert answered([message for _, message in first]) == ["D_KEYEXPR demo", "D_SUBSCRIBER /**", "D_FINAL"]
    assert first[-1][1] == Declare(interest_id=0, qos=QoS.DECLARE, body=DeclareFinal())
    assert face.initial_declarations_pending


def test_peer_with_pending_initial_declarations_gets_everything(net: Network) -> None:
    one, other = net.peer(), net.peer()
    face, _ = one.router.add_face(other.router.zid, other.router.whatami, 0.0)
    assert one.router.routes.push_targets(one.local, "any") == (face,)
    one.router.receive(face, Declare(interest_id=0, body=DeclareFinal()), 0.0)
    assert one.router.routes.push_targets(one.local, "any") == ()


def test_peers_do_not_relay_between_peers(net: Network) -> None:
    left, middle, right = net.peer(), net.peer(), net.peer()
    net.join(left, middle)
    net.join(middle, right)
    net.subscribe(right, "**")
    net.put(left, "a")
    assert pushed(right) == []
    net.put(middle, "a")
    assert pushed(right) == [("a", b"x")]


def test_a_peer_relays_for_its_clients(net: Network) -> None:
    client, middle, right = net.client(), net.peer(), net.peer()
    net.join(client, middle)
    net.join(middle, right)
    net.subscribe(right, "**")
    net.subscribe(client, "back")
    net.put(client, "a")
    assert pushed(right) == [("a", b"x")]
    net.put(right, "back")
    assert pushed(client) == [("back", b"x")]


def test_a_router_relays_between_its_peers(net: Network) -> None:
    left, centre, right = net.peer(), net.router(), net.peer()
    for peer in (left, right):
        net.join(peer, centre)
        net.tell_links(centre, peer)
    net.subscribe(right, "a/*")
    net.put(left, "a/b")
    assert pushed(right) == [("a/b", b"x")]


def test_undeclaring_the_last_subscriber_stops_publications(net: Network) -> None:
    publisher, centre, one, two = net.client(), net.router(), net.client(), net.client()
    for client in (publisher, one, two):
        net.join(client, centre)
    assert answered(net.ask(publisher, "a", InterestMode.CURRENT_FUTURE, subscribers=True)) == ["D_FINAL"]
    net.subscribe(one, "a")
    net.subscribe(two, "a")
    net.declare(one, UndeclareSubscriber(id=1))
    net.put(publisher, "a")
    assert pushed(two) == [("a", b"x")]
    publisher.heard.clear()
    net.part(two, centre)
    assert answered(publisher.heard) == ["U_SUBSCRIBER"]


def test_publisher_interest_gets_current_and_future_subscribers(net: Network) -> None:
    publisher, centre, subscriber = net.client(), net.router(), net.client()
    net.join(publisher, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "demo/**")
    heard = net.ask(publisher, "demo/p", InterestMode.CURRENT_FUTURE, subscribers=True)
    assert answered(heard) == ["D_SUBSCRIBER demo/**", "D_FINAL"]
    publisher.heard.clear()
    net.subscribe(subscriber, "demo/p", 2)
    assert answered(publisher.heard) == ["D_SUBSCRIBER demo/p"]
    forgotten = net.ask(publisher, None, InterestMode.FINAL)
    assert answered(forgotten) == ["U_SUBSCRIBER", "U_SUBSCRIBER"]  # nobody will tell us any more if they go
    publisher.heard.clear()
    net.subscribe(subscriber, "demo/*", 3)
    assert answered(publisher.heard) == []


def test_resolved_interest_filters_publications_upstream(net: Network) -> None:
    publisher, centre = net.client(), net.router()
    net.join(publisher, centre)
    upstream = next(iter(publisher.links))
    assert publisher.router.routes.push_targets(publisher.local, "demo/p") == (upstream,)
    net.ask(publisher, "demo/p", InterestMode.CURRENT_FUTURE, subscribers=True)
    assert publisher.router.routes.push_targets(publisher.local, "demo/p") == ()
    assert publisher.router.routes.push_targets(publisher.local, "demo/other") == (upstream,)
    subscriber = net.client()
    net.join(subscriber, centre)
    net.subscribe(subscriber, "demo/**")
    assert publisher.router.routes.push_targets(publisher.local, "demo/p") == (upstream,)


def test_aggregated_interest_gets_one_declaration(net: Network) -> None:
    asker, centre, other = net.client(), net.router(), net.client()
    net.join(asker, centre)
    net.join(other, centre)
    net.subscribe(other, "a/b", 1)
    net.subscribe(other, "a/c", 2)
    face = next(face for face, (node, _) in centre.links.items() if node is asker)
    heard = net.ask(centre, "a/*", InterestMode.CURRENT_FUTURE, subscribers=True, aggregate=True)
    assert answered(heard) == ["D_SUBSCRIBER a/*", "D_FINAL"]
    assert face.region.name == "CLIENT"
    centre.heard.clear()
    net.declare(other, UndeclareSubscriber(id=1))
    assert answered(centre.heard) == []
    net.declare(other, UndeclareSubscriber(id=2))
    assert answered(centre.heard) == ["U_SUBSCRIBER"]


def test_tokens_are_announced_also_to_their_owner(net: Network) -> None:
    one, centre, two = net.client(), net.router(), net.client()
    net.join(one, centre)
    net.join(two, centre)
    net.token(one, "live/one")
    net.token(two, "live/two")
    heard = net.ask(one, "live/**", InterestMode.CURRENT, tokens=True)
    assert sorted(answered(heard)[:-1]) == ["D_TOKEN live/one", "D_TOKEN live/two"]
    assert answered(heard)[-1] == "D_FINAL"
    assert all(isinstance(message, Declare) and message.interest_id == 7 for message in heard)


def test_a_token_dies_with_its_session(net: Network) -> None:
    watcher, centre, alive = net.client(), net.router(), net.client()
    net.join(watcher, centre)
    net.join(alive, centre)
    net.ask(watcher, "live/**", InterestMode.FUTURE, tokens=True)
    net.token(alive, "live/a")
    net.token(alive, "live/a", 2)
    assert answered(watcher.heard) == ["D_TOKEN live/a"]
    watcher.heard.clear()
    net.part(alive, centre)
    assert answered(watcher.heard) == ["U_TOKEN"]


def reply(net: Network, node: Node, request: Request, payload: bytes) -> None:
    body = Reply(body=Put(payload=payload))
    responder = EntityId(node.router.zid, 3)
    response = Response(request_id=request.request_id, wire_expr=WireExpr(0, "q/a"), responder=responder, body=body)
    net.say(node, response)


def replies(node: Node) -> list[tuple[int, str, EntityId | None, bytes]]:
    """Request id, key, responder and payload of each reply heard."""
    return [
        (message.request_id, message.wire_expr.suffix, message.responder, message.body.body.payload)
        for message in node.heard
        if isinstance(message, Response) and isinstance(message.body, Reply) and isinstance(message.body.body, Put)
    ]


def finish(net: Network, node: Node, request: Request) -> None:
    net.say(node, ResponseFinal(request_id=request.request_id))


def test_a_query_ends_in_exactly_one_final(net: Network) -> None:
    asker, centre, one, two = net.client(), net.router(), net.client(), net.client()
    for client in (asker, one, two):
        net.join(client, centre)
    net.queryable(one, "q/**")
    net.queryable(two, "q/a")
    net.get(asker, "q/a", 9)
    (first,), (second,) = requests(one), requests(two)
    asker.heard.clear()
    reply(net, one, first, b"1")
    finish(net, one, first)
    assert [type(message) for message in asker.heard] == [Response]
    reply(net, two, second, b"2")
    net.part(two, centre)
    assert [type(message) for message in asker.heard] == [Response, Response, ResponseFinal]
    assert all(getattr(message, "request_id", None) == 9 for message in asker.heard)
    assert replies(asker) == [
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
    left.heard.clear()
    right.heard.clear()
    for node, request, payload in ((one, third, b"3"), (two, second, b"2"), (one, first, b"1")):
        reply(net, node, request, payload)
        finish(net, node, request)
    assert [(number, payload) for number, _, _, payload in replies(left)] == [(9, b"1")]
    assert [(number, payload) for number, _, _, payload in replies(right)] == [(8, b"3"), (9, b"2")]
    finals = [[one.request_id for one in node.heard if isinstance(one, ResponseFinal)] for node in (left, right)]
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
    asker, centre = net.client(), net.router()
    answerers = {name: net.client() for name in ("c0", "c1", "c2")}
    for client in (asker, *answerers.values()):
        net.join(client, centre)
    net.queryable(answerers["c0"], "q/**", complete=True)
    net.queryable(answerers["c1"], "q/**")
    net.queryable(answerers["c2"], "q/a")
    net.get(asker, "q/a", target=target)
    assert " ".join(name for name, node in answerers.items() if requests(node)) == reached


@pytest.mark.parametrize(("by_flag", "reached"), [(False, "wide"), (True, "wide part")])
@pytest.mark.parametrize("target", list(QueryTarget))
def test_complete_may_mean_declared_complete(by_flag: bool, reached: str, target: QueryTarget) -> None:
    """QU-34, RO-19: an option of the router, for AllComplete alone."""
    router = Router(ZenohId(1), WhatAmI.ROUTER, RouterPolicy(trusts_complete_flag=by_flag))
    asker, wide, part, other = (router.add_face(ZenohId(at), WhatAmI.CLIENT, 0.0)[0] for at in (2, 3, 4, 5))
    for face, key, complete in ((wide, "q/**", True), (part, "q/a", True), (other, "q/**", False)):
        body = DeclareQueryable(id=1, wire_expr=WireExpr(0, key), info=QueryableInfo(complete))
        router.receive(face, Declare(body=body), 0.0)
    names = {wide: "wide", part: "part", other: "other"}
    found = " ".join(
        sorted((names[face] for face in router.routes.request_targets(asker, "q/*", target)), reverse=True)
    )
    expected = {QueryTarget.BEST_MATCHING: "wide", QueryTarget.ALL: "wide part other"}
    assert found == expected.get(target, reached)


@pytest.mark.parametrize(
    ("role", "asking", "reached"),
    [
        (WhatAmI.PEER, WhatAmI.PEER, True),
        (WhatAmI.CLIENT, WhatAmI.ROUTER, True),
        (WhatAmI.ROUTER, WhatAmI.ROUTER, False),
        (WhatAmI.ROUTER, WhatAmI.CLIENT, False),
    ],
)
def test_receiver_of_an_all_complete_query_does_not_filter_again(role: WhatAmI, asking: WhatAmI, reached: bool) -> None:
    """RO-19: its own session is asked by the flag, if the node that asks has chosen by what was declared here."""
    router = Router(ZenohId(1), role)
    local, asker = router.add_local(), router.add_face(ZenohId(2), asking, 0.0)[0]
    body = DeclareQueryable(id=1, wire_expr=WireExpr(0, "q/a"), info=QueryableInfo(True))
    router.receive(local, Declare(body=body), 0.0)
    assert router.routes.request_targets(asker, "q/*", QueryTarget.ALL_COMPLETE) == ((local,) if reached else ())


def test_a_query_for_all_complete_that_is_meant_for_a_client_is_not_for_the_session() -> None:
    router = Router(ZenohId(1), WhatAmI.PEER)
    local, asker = router.add_local(), router.add_face(ZenohId(2), WhatAmI.ROUTER, 0.0)[0]
    client = router.add_face(ZenohId(3), WhatAmI.CLIENT, 0.0)[0]
    for face, key in ((local, "q/a"), (client, "q/**")):
        body = DeclareQueryable(id=1, wire_expr=WireExpr(0, key), info=QueryableInfo(True))
        router.receive(face, Declare(body=body), 0.0)
    assert router.routes.request_targets(asker, "q/*", QueryTarget.ALL_COMPLETE) == (client,)


def test_best_matching_queries_all_where_none_is_complete(net: Network) -> None:
    asker, centre, one, two = net.client(), net.router(), net.client(), net.client()
    for client in (asker, one, two):
        net.join(client, centre)
    net.queryable(one, "q/a", complete=True)
    net.queryable(two, "q/**")
    net.get(asker, "q/*")
    assert requests(one)
    assert requests(two)


def test_best_matching_queries_the_nearest_complete_one_of_each_region() -> None:
    router = Router(ZenohId(1), WhatAmI.ROUTER)
    asker, far, near, none = (router.add_face(ZenohId(number), WhatAmI.CLIENT, 0.0)[0] for number in range(2, 6))
    peer, _ = router.add_face(ZenohId(6), WhatAmI.PEER, 0.0)
    offers = {far: QueryableInfo(True, 5), near: QueryableInfo(True, 1), none: QueryableInfo(False, 0)}
    for face, info in (offers | {peer: QueryableInfo(True, 9)}).items():
        router.receive(face, Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, "q/**"), info=info)), 0.0)
    assert set(router.routes.request_targets(asker, "q/a", QueryTarget.BEST_MATCHING)) == {near, peer}


def test_all_complete_queries_those_complete_for_the_whole_query(net: Network) -> None:
    asker, centre, whole, part = net.client(), net.router(), net.client(), net.client()
    for client in (asker, whole, part):
        net.join(client, centre)
    net.queryable(whole, "q/**", complete=True)
    net.queryable(part, "q/a", complete=True)
    net.get(asker, "q/*", target=QueryTarget.ALL_COMPLETE)
    assert [len(requests(node)) for node in (whole, part)] == [1, 0]


def test_query_without_targets_is_final_at_once(net: Network) -> None:
    asker, centre = net.client(), net.router()
    net.join(asker, centre)
    net.get(asker, "q/a", 3)
    assert [message.request_id for message in asker.heard if isinstance(message, ResponseFinal)] == [3]


def test_query_to_a_silent_queryable_times_out(net: Network) -> None:
    asker, centre, silent = net.client(), net.router(), net.client()
    net.join(asker, centre)
    net.join(silent, centre)
    net.queryable(silent, "q")
    net.get(asker, "q", 4)
    assert centre.router.next_timeout() == 1.0
    assert centre.router.handle_timeout(0.5) == []
    net.emit(centre, centre.router.handle_timeout(1.0))
    net.run()
    error, final = [message for message in asker.heard if not isinstance(message, Request)]
    assert isinstance(error, Response)
    assert error.body == Err(payload=b"Timeout")
    assert isinstance(final, ResponseFinal)
    assert centre.router.next_timeout() is None


def test_a_budget_ends_a_query_early(net: Network) -> None:
    asker, centre, answerer = net.client(), net.router(), net.client()
    net.join(asker, centre)
    net.join(answerer, centre)
    net.queryable(answerer, "q/**")
    net.say(asker, Request(request_id=5, wire_expr=WireExpr(0, "q/a"), budget=2, body=Query()))
    (request,) = requests(answerer)
    asker.heard.clear()
    for payload in (b"1", b"2", b"3"):
        reply(net, answerer, request, payload)
    finish(net, answerer, request)
    assert [type(message) for message in asker.heard] == [Response, Response, ResponseFinal]


def test_a_budget_goes_on_to_the_queryables_and_errors_count(net: Network) -> None:
    """QU-37: each router on the way knows the budget; ERR is a RESPONSE as REPLY is."""
    asker, first, second, answerer = net.client(), net.router(), net.router(), net.client()
    net.join(asker, first)
    net.join(first, second)
    net.join(answerer, second)
    net.queryable(answerer, "q/**")
    net.say(asker, Request(request_id=5, wire_expr=WireExpr(0, "q/a"), budget=2, body=Query()))
    (request,) = requests(answerer)
    assert request.budget == 2
    asker.heard.clear()
    for _ in range(3):
        net.say(
            answerer, Response(request_id=request.request_id, wire_expr=WireExpr(0, "q/a"), body=Err(payload=b"no"))
        )
    assert [type(message) for message in asker.heard] == [Response, Response, ResponseFinal]


def test_unknown_numbers_and_bad_keys_are_dropped(net: Network) -> None:
    sender, centre, subscriber = net.client(), net.router(), net.client()
    net.join(sender, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "**")
    face = next(face for face, (node, _) in centre.links.items() if node is sender)
    for expr in (WireExpr(77, "x"), WireExpr(0, "a//b")):
        assert centre.router.receive(face, Push(wire_expr=expr, body=Del()), 0.0) == []
    unresolved = Request(request_id=8, wire_expr=WireExpr(77), body=Query())
    ((target, final),) = centre.router.receive(face, unresolved, 0.0)
    assert (target, final) == (face, ResponseFinal(request_id=8))


def test_undeclaring_what_was_never_declared_changes_nothing(net: Network) -> None:
    node = net.router()
    for body in (UndeclareSubscriber(id=5), UndeclareQueryable(id=5), UndeclareToken(id=5)):
        assert node.router.receive(node.local, Declare(body=body), 0.0) == []


def test_a_declaration_used_again_under_its_id_moves(net: Network) -> None:
    publisher, centre, subscriber = net.client(), net.router(), net.client()
    net.join(publisher, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "a", 1)
    net.subscribe(subscriber, "b", 1)
    net.put(publisher, "a", b"1")
    net.put(publisher, "b", b"2")
    assert pushed(subscriber) == [("b", b"2")]


def test_upstream_declarations_for_an_interest_are_removed_with_it(net: Network) -> None:
    publisher, centre, subscriber = net.client(), net.router(), net.client()
    net.join(publisher, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "demo/p")
    net.ask(publisher, "demo/p", InterestMode.CURRENT_FUTURE, subscribers=True)
    net.ask(publisher, None, InterestMode.FINAL)
    net.declare(subscriber, UndeclareSubscriber(id=1))
    heard = net.ask(publisher, "demo/p", InterestMode.CURRENT_FUTURE, subscribers=True)
    assert answered(heard) == ["D_FINAL"]
    assert publisher.router.routes.push_targets(publisher.local, "demo/p") == ()
    net.subscribe(subscriber, "demo/p", 2)
    assert answered(publisher.heard)[-1] == "D_SUBSCRIBER demo/p"
    assert publisher.router.routes.push_targets(publisher.local, "demo/p") == tuple(publisher.links)


def test_upstream_declarations_of_another_interest_are_kept(net: Network) -> None:
    publisher, centre, subscriber = net.client(), net.router(), net.client()
    net.join(publisher, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "demo/p")
    other = Interest(id=8, mode=InterestMode.CURRENT_FUTURE, subscribers=True, wire_expr=WireExpr(0, "demo/**"))
    net.say(publisher, other)
    net.ask(publisher, "demo/p", InterestMode.CURRENT_FUTURE, subscribers=True)
    net.ask(publisher, None, InterestMode.FINAL)
    publisher.heard.clear()
    net.declare(subscriber, UndeclareSubscriber(id=1))
    assert answered(publisher.heard) == ["U_SUBSCRIBER"]


def face_towards(node: Node, other: Node) -> Face:
    return next(face for face, (neighbour, _) in node.links.items() if neighbour is other)


def test_querier_interest_gets_queryable_updates_and_end(net: Network) -> None:
    asker, centre, answerer = net.client(), net.router(), net.client()
    net.join(asker, centre)
    net.join(answerer, centre)
    interest = Interest(id=7, mode=InterestMode.CURRENT_FUTURE, queryables=True, wire_expr=WireExpr(0, "q/*"))
    assert answered(net.say(asker, interest)) == ["D_FINAL"]
    asker.heard.clear()
    net.queryable(answerer, "q/a")
    net.queryable(answerer, "q/a", complete=True)
    net.declare(answerer, UndeclareQueryable(id=1))
    assert answered(asker.heard) == ["D_QUERYABLE q/a", "D_QUERYABLE q/a", "U_QUERYABLE"]
    bodies = [message.body for message in asker.heard if isinstance(message, Declare)]
    assert [body.info.complete for body in bodies if isinstance(body, DeclareQueryable)] == [False, True]


def test_earlier_interests_are_forwarded_to_a_new_router(net: Network) -> None:
    watcher, centre, alive = net.client(), net.router(), net.client()
    assert answered(net.ask(watcher, "live/**", InterestMode.CURRENT_FUTURE, tokens=True)) == ["D_FINAL"]
    net.join(alive, centre)
    net.token(alive, "live/a")
    watcher.heard.clear()
    net.join(watcher, centre)
    assert answered(watcher.heard)[0] == "D_TOKEN live/a"


def test_interests_of_a_removed_face_end(net: Network) -> None:
    client, peer, above = net.client(), net.peer(), net.router()
    net.join(peer, above)
    net.join(client, peer)
    net.ask(client, "a", InterestMode.CURRENT_FUTURE, subscribers=True)
    upstream = face_towards(peer, above)
    assert peer.router.routes.push_targets(peer.local, "a") == ()
    net.part(client, peer)
    assert peer.router.routes.push_targets(peer.local, "a") == (upstream,)


def test_removed_key_id_is_unknown(net: Network) -> None:
    sender, centre, subscriber = net.client(), net.router(), net.client()
    net.join(sender, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "**")
    face = face_towards(centre, sender)
    for body in (DeclareKeyexpr(expr_id=9, wire_expr=BoundExpr(0, "k")), UndeclareKeyexpr(expr_id=9)):
        centre.router.receive(face, Declare(body=body), 0.0)
    assert centre.router.receive(face, Push(wire_expr=WireExpr(9), body=Del()), 0.0) == []


def test_a_declaration_under_no_key_is_ignored(net: Network) -> None:
    node = net.router()
    body = DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a//b"))
    assert node.router.receive(node.local, Declare(body=body), 0.0) == []
    assert node.local.declared[DeclarationKind.SUBSCRIBER] == {}


def test_new_session_sends_no_interest_without_local_ones(net: Network) -> None:
    client = net.client()
    net.subscribe(client, "a")
    _, first = client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    assert {type(message) for _, message in first} == {Declare}


def test_declarations_and_interests_are_sent_with_control_priority_and_block(net: Network) -> None:
    client = net.client()
    client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    subscriber = Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a")))
    interest = Interest(id=3, mode=InterestMode.CURRENT, tokens=True)
    said = [message for one in (subscriber, interest) for _, message in client.router.receive(client.local, one, 0.0)]
    assert [type(message) for message in said] == [Declare, Declare, Interest], "the first gives the key a number"
    assert {getattr(message, "qos", None) for message in said} == {QoS(Priority.CONTROL, Congestion.BLOCK)}


def test_interests_of_upstream_nodes_are_ignored(net: Network) -> None:
    client, centre = net.client(), net.router()
    net.join(client, centre)
    interest = Interest(id=3, mode=InterestMode.CURRENT, tokens=True)
    assert client.router.receive(face_towards(client, centre), interest, 0.0) == []


def test_an_interest_in_no_key_is_final_at_once(net: Network) -> None:
    node = net.router()
    interest = Interest(id=3, mode=InterestMode.CURRENT_FUTURE, tokens=True, wire_expr=WireExpr(77))
    assert node.router.receive(node.local, interest, 0.0) == [
        (node.local, Declare(interest_id=3, qos=QoS.DECLARE, body=DeclareFinal()))
    ]


def test_interest_of_a_peer_is_not_forwarded_upstream(net: Network) -> None:
    one, other, above = net.peer(), net.peer(), net.router()
    net.join(one, above)
    net.join(one, other)
    interest = Interest(id=3, mode=InterestMode.CURRENT, tokens=True)
    out = one.router.receive(face_towards(one, other), interest, 0.0)
    assert [type(message) for _, message in out] == [Declare]


def test_interest_may_end_before_it_is_answered(net: Network) -> None:
    client = net.client()
    upstream, _ = client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    ask = Interest(id=3, mode=InterestMode.CURRENT, tokens=True)
    ((target, passed),) = client.router.receive(client.local, ask, 0.0)
    assert target is upstream
    ((target, final),) = client.router.receive(client.local, Interest(id=3, mode=InterestMode.FINAL), 0.0)
    assert isinstance(passed, Interest)
    assert final == Interest(id=passed.id, mode=InterestMode.FINAL, qos=QoS.DECLARE)


def test_interest_is_final_after_the_upstream_timeout(net: Network) -> None:
    client = net.client()
    client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    client.router.receive(client.local, Interest(id=3, mode=InterestMode.CURRENT, tokens=True), 0.0)
    assert client.router.next_timeout() == 10.0
    assert client.router.handle_timeout(9.9) == []
    ((face, final),) = client.router.handle_timeout(10.0)
    assert face is client.local
    assert final == Declare(interest_id=3, qos=QoS.DECLARE, body=DeclareFinal())


def test_aggregate_declaration_ends_with_its_interest(net: Network) -> None:
    centre, other = net.router(), net.client()
    net.join(other, centre)
    net.subscribe(other, "a/b")
    net.ask(centre, "a/*", InterestMode.CURRENT_FUTURE, subscribers=True, aggregate=True)
    centre.heard.clear()
    assert answered(net.ask(centre, None, InterestMode.FINAL)) == ["U_SUBSCRIBER"]


def test_future_interest_gets_no_current_declarations(net: Network) -> None:
    centre, other = net.router(), net.client()
    net.join(other, centre)
    net.subscribe(other, "a")
    assert net.ask(centre, "a", InterestMode.FUTURE, subscribers=True) == []


def beside(*routers: WhatAmI) -> tuple[Router, list[Face]]:
    """Our router with others beside it, which have said that they are."""
    router = Router(ZenohId(1), WhatAmI.ROUTER)
    faces = []
    for number, whatami in enumerate(routers):
        face, _ = router.add_face(ZenohId(number + 10), whatami, 0.0)
        entries = [
            LinkState(psid=0, sn=2, zid=face.zid, whatami=1, links=(1,)),
            LinkState(psid=1, sn=0, zid=router.zid),
        ]
        router.receive(face, NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(entries)), 0.0)
        faces.append(face)
    router.handle_timeout(router.next_timeout() or 0.0)
    return router, faces


def test_routers_exchange_declarations_by_source_as_captured() -> None:
    """Section 16.5: id 0, no NodeId for our own; relayed with our number for the source; ended by the key."""
    router, (left, right) = beside(WhatAmI.ROUTER, WhatAmI.ROUTER)
    named = Declare(qos=QoS.DECLARE, body=DeclareKeyexpr(expr_id=1, wire_expr=BoundExpr(0, "demo")))
    sub = DeclareSubscriber(id=0, wire_expr=WireExpr(1, "/**", Mapping.SENDER))
    router.receive(left, named, 0.0)
    binding, relayed = router.receive(left, Declare(qos=QoS.DECLARE, body=sub), 0.0)
    assert binding == (right, named)
    assert relayed[0] is right
    assert encode(relayed[1]).hex() == "9ea1083301620001032f2a2a"
    end = UndeclareSubscriber(id=0, ext_wire_expr=WireExpr(1, "/**", Mapping.SENDER))
    ((_, ended),) = router.receive(left, Declare(qos=QoS.DECLARE, body=end), 0.0)
    assert encode(ended).hex() == "9ea10833018300" + "5f0503012f2a2a"
    assert router.receive(left, Declare(body=end), 0.0) == []


def test_publication_between_routers_carries_its_entry_router() -> None:
    router, (left, right) = beside(WhatAmI.ROUTER, WhatAmI.ROUTER)
    client, _ = router.add_face(ZenohId(99), WhatAmI.CLIENT, 0.0)
    for face in (right, client):
        router.receive(face, Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a"))), 0.0)
    out = router.receive(left, Push(wire_expr=WireExpr(0, "a"), body=Put(payload=b"x")), 0.0)
    assert [(face, getattr(message, "node_id", None)) for face, message in out] == [(right, 1), (client, 0)]
    out = router.receive(client, Push(wire_expr=WireExpr(0, "a"), body=Put(payload=b"x")), 0.0)
    assert [(face, getattr(message, "node_id", None)) for face, message in out] == [(right, 0)]


def test_message_with_unknown_entry_router_is_dropped() -> None:
    router, (left, right) = beside(WhatAmI.ROUTER, WhatAmI.ROUTER)
    subscriber = DeclareSubscriber(id=0, wire_expr=WireExpr(0, "a"))
    assert router.receive(left, Declare(node_id=7, body=subscriber), 0.0) == []
    router.receive(right, Declare(body=subscriber), 0.0)
    for node_id in (7, 1):  # a number never explained; ourselves
        assert router.receive(left, Push(wire_expr=WireExpr(0, "a"), node_id=node_id, body=Del()), 0.0) == []
    unnamed = UndeclareSubscriber(id=0)
    assert router.receive(right, Declare(body=unnamed), 0.0) == []
    assert (
        router.receive(right, Declare(node_id=7, body=UndeclareToken(id=0, ext_wire_expr=WireExpr(0, "a"))), 0.0) == []
    )
    assert router.routes.push_targets(left, "a", 1) == (right,)


def test_a_router_that_leaves_takes_its_declarations_with_it() -> None:
    router, (left,) = beside(WhatAmI.ROUTER)
    client, _ = router.add_face(ZenohId(99), WhatAmI.CLIENT, 0.0)
    router.receive(left, Declare(body=DeclareSubscriber(id=0, wire_expr=WireExpr(0, "a"))), 0.0)
    assert router.routes.push_targets(client, "a") == (left,)
    assert router.remove_face(left, 1.0) == []
    assert router.routes.push_targets(client, "a") == ()
    while (due := router.next_timeout()) is not None:
        router.handle_timeout(due)
    assert router.routes.push_targets(client, "a") == ()


def test_gossip_of_clients_is_ignored() -> None:
    client = Router(ZenohId(1), WhatAmI.CLIENT)
    above, _ = client.add_face(ZenohId(2), WhatAmI.ROUTER, 0.0)
    assert client.receive(above, NetworkOam(id=NetworkOam.LINK_STATE, zbuf=b"\0"), 0.0) == []
    assert client.network is None
    router, (peer,) = beside(WhatAmI.PEER)
    assert router.receive(peer, NetworkOam(id=7), 0.0) == []


def test_a_new_session_of_a_node_outlives_the_old_one() -> None:
    router = Router(ZenohId(1), WhatAmI.ROUTER)
    first, _ = router.add_face(ZenohId(2), WhatAmI.PEER, 0.0)
    second, _ = router.add_face(ZenohId(2), WhatAmI.PEER, 0.0)
    router.remove_face(first, 0.0)
    router.receive(second, Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a"))), 0.0)
    assert router.routes.push_targets(router.add_local(), "a") == (second,)


def test_only_forwarded_publications_get_timestamps() -> None:
    clock = HybridClock()
    policy = RouterPolicy(timestamping=TimestampPolicy(ZenohId(1), clock, lambda: 10**18, drops_future=True))
    router = Router(ZenohId(1), WhatAmI.ROUTER, policy)
    local = router.add_local()
    client, _ = router.add_face(ZenohId(2), WhatAmI.CLIENT, 0.0)
    put = Push(wire_expr=WireExpr(0, "a"), body=Put(payload=b"x"))
    assert router.receive(local, put, 0.0) == []
    router.receive(client, Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a"))), 0.0)
    ((_, passed),) = router.receive(local, put, 0.0)
    assert isinstance(passed, Push)
    assert isinstance(passed.body, Put)
    assert passed.body.timestamp == Timestamp(ntp64_from_ns(10**18), ZenohId(1))
    future = Put(timestamp=Timestamp(ntp64_from_ns(2 * 10**18), ZenohId(9)), payload=b"x")
    assert router.receive(local, Push(wire_expr=WireExpr(0, "a"), body=future), 0.0) == []


class TestGroups:
    """A multicast group is one face to speak to, and one for each member to hear."""

    def said(self, out: list[tuple[Face, NetworkMessage]]) -> list[tuple[Face, str]]:
        return [(face, message.wire_expr.suffix) for face, message in out if isinstance(message, Push)]

    def push(self, key: str = "a/b") -> Push:
        return Push(wire_expr=WireExpr(0, key), body=Put(payload=b"x"))

    def test_every_publication_goes_to_the_group_once(self, net: Network) -> None:
        router = (node := net.peer()).router
        group = router.add_group()
        assert self.said(router.receive(node.local, self.push(), 0.0)) == [(group, "a/b")]
        for number in (8, 9):
            router.add_member(group, ZenohId(number), WhatAmI.PEER)
        assert self.said(router.receive(node.local, self.push("c"), 0.0)) == [(group, "c")]
        router.remove_face(group, 0.0)
        assert router.receive(node.local, self.push(), 0.0) == []

    def test_no_key_ids_or_declarations_in_a_group(self, net: Network) -> None:
        router = (node := net.peer()).router
        group = router.add_group()
        assert group.bind("a/b") is None
        for body in (
            DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a/**")),
            DeclareQueryable(id=1, wire_expr=WireExpr(0, "a/**")),
        ):
            assert router.receive(node.local, Declare(body=body), 0.0) == []
        request = Request(request_id=1, wire_expr=WireExpr(0, "a/b"), target=QueryTarget.ALL, body=Query())
        other = net.peer()
        net.join(node, other)
        assert group not in dict(router.receive(node.local, request, 0.0))

    def test_member_messages_go_to_session_and_clients_not_to_group_or_peers(self, net: Network) -> None:
        middle, client, peer = net.peer(), net.client(), net.peer()
        net.join(client, middle)
        net.join(peer, middle)
        for node in (middle, client, peer):
            net.subscribe(node, "a/**")
        group = middle.router.add_group()
        member = middle.router.add_member(group, ZenohId(99), WhatAmI.PEER)
        out = middle.router.receive(member, self.push(), 0.0)
        assert {face.zid for face, _ in self.said(out)} == {middle.router.zid, client.router.zid}

    def test_member_may_use_key_ids(self, net: Network) -> None:
        node = net.peer()
        net.subscribe(node, "a/**")
        member = node.router.add_member(node.router.add_group(), ZenohId(99), WhatAmI.PEER)
        named = Push(wire_expr=WireExpr(7, "/c"), body=Put(payload=b"x"))
        assert node.router.receive(member, named, 0.0) == []
        binding = Declare(body=DeclareKeyexpr(expr_id=7, wire_expr=BoundExpr(0, "a/b")))
        assert node.router.receive(member, binding, 0.0) == []
        assert self.said(node.router.receive(member, named, 0.0)) == [(node.local, "a/b/c")]
        node.router.receive(member, Declare(body=UndeclareKeyexpr(expr_id=7)), 0.0)
        assert node.router.receive(member, named, 0.0) == []

    def test_requests_of_members_are_answered_in_the_group(self, net: Network) -> None:
        node = net.peer()
        net.queryable(node, "a/**")
        group = node.router.add_group()
        member = node.router.add_member(group, ZenohId(99), WhatAmI.PEER)
        node.router.add_member(group, ZenohId(98), WhatAmI.PEER)
        request = Request(request_id=7, wire_expr=WireExpr(0, "a/b"), qos=QoS.REQUEST, body=Query())
        ((target, asked),) = node.router.receive(member, request, 0.0)
        assert target is node.local
        assert isinstance(asked, Request)
        reply = Response(request_id=asked.request_id, wire_expr=WireExpr(0, "a/b"), body=Reply(body=Put(payload=b"")))
        ((target, back),) = node.router.receive(node.local, reply, 0.0)
        assert (target, back) == (member, replace(reply, request_id=7, qos=QoS.REQUEST))
        final = ResponseFinal(request_id=asked.request_id)
        answered = node.router.receive(node.local, final, 0.0)
        assert answered == [(member, ResponseFinal(request_id=7, qos=QoS.REQUEST))]

    def test_no_final_to_a_member_where_other_members_may_reply(self, net: Network) -> None:
        """zenoh-pico takes the first RESPONSE_FINAL for the end of all answers, and does the same."""
        node = net.peer()
        group = node.router.add_group()
        member = node.router.add_member(group, ZenohId(99), WhatAmI.PEER)
        request = Request(request_id=7, wire_expr=WireExpr(0, "a/b"), body=Query())
        assert node.router.receive(member, request, 0.0) == [(member, ResponseFinal(request_id=7))]
        node.router.add_member(group, ZenohId(98), WhatAmI.PEER)
        assert node.router.receive(member, request, 0.0) == []

    def test_queries_of_a_member_with_a_session_use_the_session(self, net: Network) -> None:
        node, other = net.peer(), net.peer()
        net.queryable(node, "a/**")
        member = node.router.add_member(node.router.add_group(), other.router.zid, WhatAmI.PEER)
        net.join(node, other)
        request = Request(request_id=7, wire_expr=WireExpr(0, "a/b"), body=Query())
        assert node.router.receive(member, request, 0.0) == []

    def test_tokens_of_members_are_alive_until_they_are_undeclared_or_the_member_leaves(self, net: Network) -> None:
        node = net.router()
        member = node.router.add_member(node.router.add_group(), ZenohId(99), WhatAmI.PEER)
        assert answered(net.ask(node, "t/**", InterestMode.CURRENT_FUTURE, tokens=True)) == ["D_FINAL"]
        for number, interest in ((1, None), (2, 0)):  # what it declares, and what it tells a newcomer
            token = DeclareToken(id=number, wire_expr=WireExpr(0, f"t/{number}"))
            out = node.router.receive(member, Declare(interest_id=interest, body=token), 0.0)
            assert [target for target, _ in out] == [node.local]
            assert answered([message for _, message in out]) == [f"D_TOKEN t/{number}"]
        assert answered(net.ask(node, "t/*", InterestMode.CURRENT, tokens=True))[-3:] == [
            "D_TOKEN t/1",
            "D_TOKEN t/2",
            "D_FINAL",
        ]
        ((_, gone),) = node.router.receive(member, Declare(body=UndeclareToken(id=1)), 0.0)
        assert isinstance(gone, Declare)
        assert isinstance(gone.body, UndeclareToken)
        ((_, gone),) = node.router.remove_face(member, 0.0)
        assert isinstance(gone, Declare)
        assert isinstance(gone.body, UndeclareToken)

    def test_tokens_of_members_are_announced_to_routers(self, net: Network) -> None:
        node, other = net.router(), net.router()
        net.join(node, other)
        member = node.router.add_member(node.router.add_group(), ZenohId(99), WhatAmI.PEER)
        net.emit(node, node.router.receive(member, Declare(body=DeclareToken(id=1, wire_expr=WireExpr(0, "t"))), 0.0))
        net.run()
        assert answered(net.ask(other, "t", InterestMode.CURRENT, tokens=True)) == ["D_TOKEN t", "D_FINAL"]

    def test_other_declarations_of_members_are_ignored(self, net: Network) -> None:
        node = net.peer()
        net.queryable(node, "a/**")
        member = node.router.add_member(node.router.add_group(), ZenohId(99), WhatAmI.PEER)
        for message in (
            Declare(body=DeclareSubscriber(id=0, wire_expr=WireExpr(0, "a/**"))),
            Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, "a/**"))),
            ResponseFinal(request_id=1),
        ):
            assert node.router.receive(member, message, 0.0) == []
        assert not any(member.declared.values())

    def test_routers_carry_between_groups_and_sessions_and_never_back(self, net: Network) -> None:
        router, peer = net.router(), net.peer()
        net.join(peer, router)
        net.subscribe(peer, "a/**")
        group = router.router.add_group()
        member = router.router.add_member(group, ZenohId(99), WhatAmI.PEER)
        (face,) = router.links
        assert [target for target, _ in router.router.receive(member, self.push(), 0.0)] == [face]
        assert self.said(router.router.receive(face, self.push(), 0.0)) == [(group, "a/b")]
        router.router.add_member(group, peer.router.zid, WhatAmI.PEER)  # which then says it there itself
        assert router.router.receive(face, self.push(), 0.0) == []

    def test_messages_of_a_member_with_a_session_count_only_there(self, net: Network) -> None:
        node, other = net.peer(), net.peer()
        net.subscribe(node, "a/**")
        first, second = node.router.add_group(), node.router.add_group()
        early = node.router.add_member(first, other.router.zid, WhatAmI.PEER)
        late = node.router.add_member(second, other.router.zid, WhatAmI.PEER)
        assert (early.is_duplicate_member, late.is_duplicate_member) == (False, True)
        net.join(node, other)
        assert early.is_duplicate_member
        assert node.router.receive(early, self.push(), 0.0) == []
        net.part(node, other)
        assert not early.is_duplicate_member
        node.router.remove_face(early, 0.0)
        assert not first.members
        assert len(node.router.receive(late, self.push(), 0.0)) == 1


def test_rejected_query_or_interest_gets_its_final(net: Network) -> None:
    centre = net.router()
    face, _ = centre.router.add_face(ZenohId(9), WhatAmI.CLIENT, 0.0)
    request = Request(request_id=4, wire_expr=WireExpr(0, "q"), qos=QoS.DECLARE, body=Query())
    (first, response), (second, final) = centre.router.reject(face, request, "no")
    assert first is second is face
    assert isinstance(response, Response)
    assert (response.request_id, response.qos, response.body) == (4, QoS.DECLARE, Err(payload=b"no"))
    assert final == ResponseFinal(request_id=4, qos=QoS.DECLARE)
    interest = Interest(id=3, mode=InterestMode.CURRENT, tokens=True)
    declared_final = Declare(interest_id=3, qos=QoS.DECLARE, body=DeclareFinal())
    assert centre.router.reject(face, interest, "no") == [(face, declared_final)]
    assert centre.router.reject(face, Push(wire_expr=WireExpr(0, "k"), body=Put(payload=b"")), "no") == []


# -- relays


def test_relaying_peers_in_a_line_reach_each_other(net: Network) -> None:
    left, middle, right = net.relay(), net.relay(), net.relay()
    net.join(left, middle)
    net.join(middle, right)
    net.subscribe(left, "a/*")
    net.token(left, "t")
    net.put(right, "a/b")
    assert pushed(left) == [("a/b", b"x")]
    assert answered(net.ask(right, "**", InterestMode.CURRENT, tokens=True)) == ["D_TOKEN t", "D_FINAL"]
    net.put(middle, "a/c")
    assert pushed(left) == [("a/b", b"x"), ("a/c", b"x")]


def test_relay_knows_when_initial_declarations_are_received(net: Network) -> None:
    one, other = net.relay(), net.relay()
    face, _ = one.router.add_face(other.router.zid, WhatAmI.PEER, 0.0, relays=True)
    assert not one.router.initial_declarations_received
    one.router.remove_face(face, 0.0)
    assert one.router.initial_declarations_received
    net.join(one, other)
    assert one.router.initial_declarations_received
    assert other.router.initial_declarations_received


def test_a_peer_that_does_not_relay_reaches_the_relay_beside_it_only(net: Network) -> None:
    plain, near, far = net.peer(), net.relay(), net.relay()
    net.join(near, far)
    net.join(plain, near)
    for node in (plain, near, far):
        net.subscribe(node, "a")
    for node in (plain, near, far):
        node.heard.clear()
    net.put(plain, "a")
    assert (pushed(near), pushed(far)) == ([("a", b"x")], [])
    near.heard.clear()
    net.put(far, "a")
    assert (pushed(near), pushed(plain)) == ([("a", b"x")], [])


def test_a_peer_that_a_router_serves_is_left_to_it(net: Network) -> None:
    """It has links to a peer and a router that relay, and receives once; from the peer when the router is gone."""
    plain, beside, above = net.peer(), net.relay(), net.relay(WhatAmI.ROUTER)
    net.join(beside, above)
    net.join(plain, beside)
    net.subscribe(plain, "down")
    net.subscribe(beside, "up")
    net.put(beside, "down")
    assert pushed(plain) == [("down", b"x")]
    net.join(plain, above)
    for speaker, listener, key in ((beside, plain, "down"), (plain, beside, "up")):
        listener.heard.clear()
        net.put(speaker, key)
        assert pushed(listener) == [(key, b"x")]
    net.part(plain, above)
    for speaker, listener, key in ((beside, plain, "down"), (plain, beside, "up")):
        listener.heard.clear()
        net.put(speaker, key)
        assert pushed(listener) == [(key, b"x")]


def test_a_router_above_that_is_in_the_network_is_reached_through_it(net: Network) -> None:
    """It does not relay, but another router is linked to it: for a relaying peer there are two ways."""
    peer, ours, theirs = net.relay(), net.relay(WhatAmI.ROUTER), net.router()
    net.join(peer, theirs)
    net.ask(peer, "up", InterestMode.CURRENT_FUTURE, subscribers=True)
    net.subscribe(theirs, "up")
    net.subscribe(peer, "down")
    changes = [(net.join, ours, theirs), (net.join, peer, ours), (net.part, ours, theirs)]
    for change, one, other in changes:
        for speaker, listener, key in ((peer, theirs, "up"), (theirs, peer, "down")):
            listener.heard.clear()
            net.put(speaker, key)
            assert pushed(listener) == [(key, b"x")]
        change(one, other)
    theirs.heard.clear()
    net.put(peer, "up")
    assert pushed(theirs) == [("up", b"x")]


def test_group_messages_of_a_member_in_the_network_are_ignored(net: Network) -> None:
    left, middle, right = net.relay(), net.relay(), net.relay()
    net.join(left, middle)
    group = left.router.add_group()
    member = left.router.add_member(group, right.router.zid, WhatAmI.PEER)
    assert not member.is_duplicate_member
    net.join(middle, right)
    assert member.is_duplicate_member
