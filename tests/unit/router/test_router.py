"""The router's moves, one by one, between nodes in memory: publications and declarations."""

from __future__ import annotations

from tests.unit.router.nodes import Network, declaration_texts, face_towards, pushed
from zenspark.clock import HybridClock, ntp64_from_ns
from zenspark.router.face import DeclarationKind
from zenspark.router.router import Router, RouterPolicy
from zenspark.router.timestamping import TimestampPolicy
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareSubscriber,
    Del,
    Err,
    Interest,
    Push,
    Put,
    Query,
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
    InterestMode,
    Priority,
    QoS,
    Timestamp,
    WhatAmI,
    WireExpr,
    ZenohId,
)


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


def test_router_joined_later_gets_earlier_declarations_of_its_client(net: Network) -> None:
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
    assert declaration_texts([message for _, message in first]) == ["D_KEYEXPR demo", "D_SUBSCRIBER /**", "D_FINAL"]
    assert first[-1][1] == Declare(interest_id=0, qos=QoS.DECLARE, body=DeclareFinal())
    assert face.initial_declarations_pending


def test_peer_with_pending_initial_declarations_gets_everything(net: Network) -> None:
    one, other = net.peer(), net.peer()
    face, _ = one.router.add_face(other.router.zid, other.router.whatami, 0.0)
    assert one.router.routes.push_next_hops(one.local, "any") == (face,)
    one.router.receive(face, Declare(interest_id=0, body=DeclareFinal()), 0.0)
    assert one.router.routes.push_next_hops(one.local, "any") == ()


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
        net.announce_links(centre, peer)
    net.subscribe(right, "a/*")
    net.put(left, "a/b")
    assert pushed(right) == [("a/b", b"x")]


def test_undeclaring_the_last_subscriber_stops_publications(net: Network) -> None:
    publisher, centre, one, two = net.client(), net.router(), net.client(), net.client()
    for client in (publisher, one, two):
        net.join(client, centre)
    assert declaration_texts(net.send_interest(publisher, "a", InterestMode.CURRENT_FUTURE, subscribers=True)) == [
        "D_FINAL"
    ]
    net.subscribe(one, "a")
    net.subscribe(two, "a")
    net.declare(one, UndeclareSubscriber(id=1))
    net.put(publisher, "a")
    assert pushed(two) == [("a", b"x")]
    publisher.received.clear()
    net.part(two, centre)
    assert declaration_texts(publisher.received) == ["U_SUBSCRIBER"]


def test_tokens_are_announced_also_to_their_owner(net: Network) -> None:
    one, centre, two = net.client(), net.router(), net.client()
    net.join(one, centre)
    net.join(two, centre)
    net.token(one, "live/one")
    net.token(two, "live/two")
    received = net.send_interest(one, "live/**", InterestMode.CURRENT, tokens=True)
    assert sorted(declaration_texts(received)[:-1]) == ["D_TOKEN live/one", "D_TOKEN live/two"]
    assert declaration_texts(received)[-1] == "D_FINAL"
    assert all(isinstance(message, Declare) and message.interest_id == 7 for message in received)


def test_token_is_undeclared_when_its_session_ends(net: Network) -> None:
    watcher, centre, alive = net.client(), net.router(), net.client()
    net.join(watcher, centre)
    net.join(alive, centre)
    net.send_interest(watcher, "live/**", InterestMode.FUTURE, tokens=True)
    net.token(alive, "live/a")
    net.token(alive, "live/a", 2)
    assert declaration_texts(watcher.received) == ["D_TOKEN live/a"]
    watcher.received.clear()
    net.part(alive, centre)
    assert declaration_texts(watcher.received) == ["U_TOKEN"]


def test_messages_with_unknown_key_ids_or_invalid_keys_are_dropped(net: Network) -> None:
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


def test_undeclare_of_an_unknown_id_is_ignored(net: Network) -> None:
    node = net.router()
    for body in (UndeclareSubscriber(id=5), UndeclareQueryable(id=5), UndeclareToken(id=5)):
        assert node.router.receive(node.local, Declare(body=body), 0.0) == []


def test_redeclaration_under_the_same_id_replaces_the_key(net: Network) -> None:
    publisher, centre, subscriber = net.client(), net.router(), net.client()
    net.join(publisher, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "a", 1)
    net.subscribe(subscriber, "b", 1)
    net.put(publisher, "a", b"1")
    net.put(publisher, "b", b"2")
    assert pushed(subscriber) == [("b", b"2")]


def test_removed_key_id_is_unknown(net: Network) -> None:
    sender, centre, subscriber = net.client(), net.router(), net.client()
    net.join(sender, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "**")
    face = face_towards(centre, sender)
    for body in (DeclareKeyexpr(expr_id=9, wire_expr=BoundExpr(0, "k")), UndeclareKeyexpr(expr_id=9)):
        centre.router.receive(face, Declare(body=body), 0.0)
    assert centre.router.receive(face, Push(wire_expr=WireExpr(9), body=Del()), 0.0) == []


def test_declaration_with_an_invalid_key_is_ignored(net: Network) -> None:
    node = net.router()
    body = DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a//b"))
    assert node.router.receive(node.local, Declare(body=body), 0.0) == []
    assert node.local.declared[DeclarationKind.SUBSCRIBER] == {}


def test_declarations_and_interests_are_sent_with_control_priority_and_block(net: Network) -> None:
    client = net.client()
    client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    subscriber = Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a")))
    interest = Interest(id=3, mode=InterestMode.CURRENT, tokens=True)
    sent = [message for one in (subscriber, interest) for _, message in client.router.receive(client.local, one, 0.0)]
    assert [type(message) for message in sent] == [Declare, Declare, Interest], "the first gives the key a number"
    assert {getattr(message, "qos", None) for message in sent} == {QoS(Priority.CONTROL, Congestion.BLOCK)}


def test_a_new_session_of_a_node_outlives_the_old_one() -> None:
    router = Router(ZenohId(1), WhatAmI.ROUTER)
    first, _ = router.add_face(ZenohId(2), WhatAmI.PEER, 0.0)
    second, _ = router.add_face(ZenohId(2), WhatAmI.PEER, 0.0)
    router.remove_face(first, 0.0)
    router.receive(second, Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a"))), 0.0)
    assert router.routes.push_next_hops(router.add_local(), "a") == (second,)


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
