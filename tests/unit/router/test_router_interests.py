"""Interests in a router: what is declared for them, what is forwarded, and how they end."""

from __future__ import annotations

from tests.unit.router.nodes import Network, declaration_texts, face_towards
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareQueryable,
    Interest,
    UndeclareQueryable,
    UndeclareSubscriber,
)
from zenspark.wire.values import InterestMode, QoS, WhatAmI, WireExpr, ZenohId


def test_publisher_interest_gets_current_and_future_subscribers(net: Network) -> None:
    publisher, centre, subscriber = net.client(), net.router(), net.client()
    net.join(publisher, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "demo/**")
    received = net.send_interest(publisher, "demo/p", InterestMode.CURRENT_FUTURE, subscribers=True)
    assert declaration_texts(received) == ["D_SUBSCRIBER demo/**", "D_FINAL"]
    publisher.received.clear()
    net.subscribe(subscriber, "demo/p", 2)
    assert declaration_texts(publisher.received) == ["D_SUBSCRIBER demo/p"]
    forgotten = net.send_interest(publisher, None, InterestMode.FINAL)
    assert declaration_texts(forgotten) == ["U_SUBSCRIBER", "U_SUBSCRIBER"]  # no neighbour announces their end any more
    publisher.received.clear()
    net.subscribe(subscriber, "demo/*", 3)
    assert declaration_texts(publisher.received) == []


def test_resolved_interest_filters_publications_upstream(net: Network) -> None:
    publisher, centre = net.client(), net.router()
    net.join(publisher, centre)
    upstream = next(iter(publisher.links))
    assert publisher.router.routes.push_next_hops(publisher.local, "demo/p") == (upstream,)
    net.send_interest(publisher, "demo/p", InterestMode.CURRENT_FUTURE, subscribers=True)
    assert publisher.router.routes.push_next_hops(publisher.local, "demo/p") == ()
    assert publisher.router.routes.push_next_hops(publisher.local, "demo/other") == (upstream,)
    subscriber = net.client()
    net.join(subscriber, centre)
    net.subscribe(subscriber, "demo/**")
    assert publisher.router.routes.push_next_hops(publisher.local, "demo/p") == (upstream,)


def test_aggregated_interest_gets_one_declaration(net: Network) -> None:
    querier, centre, other = net.client(), net.router(), net.client()
    net.join(querier, centre)
    net.join(other, centre)
    net.subscribe(other, "a/b", 1)
    net.subscribe(other, "a/c", 2)
    face = next(face for face, (node, _) in centre.links.items() if node is querier)
    received = net.send_interest(centre, "a/*", InterestMode.CURRENT_FUTURE, subscribers=True, aggregate=True)
    assert declaration_texts(received) == ["D_SUBSCRIBER a/*", "D_FINAL"]
    assert face.region.name == "CLIENT"
    centre.received.clear()
    net.declare(other, UndeclareSubscriber(id=1))
    assert declaration_texts(centre.received) == []
    net.declare(other, UndeclareSubscriber(id=2))
    assert declaration_texts(centre.received) == ["U_SUBSCRIBER"]


def test_upstream_declarations_for_an_interest_are_removed_with_it(net: Network) -> None:
    publisher, centre, subscriber = net.client(), net.router(), net.client()
    net.join(publisher, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "demo/p")
    net.send_interest(publisher, "demo/p", InterestMode.CURRENT_FUTURE, subscribers=True)
    net.send_interest(publisher, None, InterestMode.FINAL)
    net.declare(subscriber, UndeclareSubscriber(id=1))
    received = net.send_interest(publisher, "demo/p", InterestMode.CURRENT_FUTURE, subscribers=True)
    assert declaration_texts(received) == ["D_FINAL"]
    assert publisher.router.routes.push_next_hops(publisher.local, "demo/p") == ()
    net.subscribe(subscriber, "demo/p", 2)
    assert declaration_texts(publisher.received)[-1] == "D_SUBSCRIBER demo/p"
    assert publisher.router.routes.push_next_hops(publisher.local, "demo/p") == tuple(publisher.links)


def test_upstream_declarations_of_another_interest_are_kept(net: Network) -> None:
    publisher, centre, subscriber = net.client(), net.router(), net.client()
    net.join(publisher, centre)
    net.join(subscriber, centre)
    net.subscribe(subscriber, "demo/p")
    other = Interest(id=8, mode=InterestMode.CURRENT_FUTURE, subscribers=True, wire_expr=WireExpr(0, "demo/**"))
    net.send(publisher, other)
    net.send_interest(publisher, "demo/p", InterestMode.CURRENT_FUTURE, subscribers=True)
    net.send_interest(publisher, None, InterestMode.FINAL)
    publisher.received.clear()
    net.declare(subscriber, UndeclareSubscriber(id=1))
    assert declaration_texts(publisher.received) == ["U_SUBSCRIBER"]


def test_querier_interest_gets_queryable_updates_and_end(net: Network) -> None:
    querier, centre, responder = net.client(), net.router(), net.client()
    net.join(querier, centre)
    net.join(responder, centre)
    interest = Interest(id=7, mode=InterestMode.CURRENT_FUTURE, queryables=True, wire_expr=WireExpr(0, "q/*"))
    assert declaration_texts(net.send(querier, interest)) == ["D_FINAL"]
    querier.received.clear()
    net.queryable(responder, "q/a")
    net.queryable(responder, "q/a", complete=True)
    net.declare(responder, UndeclareQueryable(id=1))
    assert declaration_texts(querier.received) == ["D_QUERYABLE q/a", "D_QUERYABLE q/a", "U_QUERYABLE"]
    bodies = [message.body for message in querier.received if isinstance(message, Declare)]
    assert [body.info.complete for body in bodies if isinstance(body, DeclareQueryable)] == [False, True]


def test_earlier_interests_are_forwarded_to_a_new_router(net: Network) -> None:
    watcher, centre, alive = net.client(), net.router(), net.client()
    assert declaration_texts(net.send_interest(watcher, "live/**", InterestMode.CURRENT_FUTURE, tokens=True)) == [
        "D_FINAL"
    ]
    net.join(alive, centre)
    net.token(alive, "live/a")
    watcher.received.clear()
    net.join(watcher, centre)
    assert declaration_texts(watcher.received)[0] == "D_TOKEN live/a"


def test_interests_of_a_removed_face_end(net: Network) -> None:
    client, peer, above = net.client(), net.peer(), net.router()
    net.join(peer, above)
    net.join(client, peer)
    net.send_interest(client, "a", InterestMode.CURRENT_FUTURE, subscribers=True)
    upstream = face_towards(peer, above)
    assert peer.router.routes.push_next_hops(peer.local, "a") == ()
    net.part(client, peer)
    assert peer.router.routes.push_next_hops(peer.local, "a") == (upstream,)


def test_new_session_sends_no_interest_without_local_ones(net: Network) -> None:
    client = net.client()
    net.subscribe(client, "a")
    _, first = client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    assert {type(message) for _, message in first} == {Declare}


def test_interests_of_upstream_nodes_are_ignored(net: Network) -> None:
    client, centre = net.client(), net.router()
    net.join(client, centre)
    interest = Interest(id=3, mode=InterestMode.CURRENT, tokens=True)
    assert client.router.receive(face_towards(client, centre), interest, 0.0) == []


def test_interest_with_an_unknown_key_id_is_final_at_once(net: Network) -> None:
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


def test_interest_may_end_before_its_reply(net: Network) -> None:
    client = net.client()
    upstream, _ = client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    interest = Interest(id=3, mode=InterestMode.CURRENT, tokens=True)
    ((target, passed),) = client.router.receive(client.local, interest, 0.0)
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
    net.send_interest(centre, "a/*", InterestMode.CURRENT_FUTURE, subscribers=True, aggregate=True)
    centre.received.clear()
    assert declaration_texts(net.send_interest(centre, None, InterestMode.FINAL)) == ["U_SUBSCRIBER"]


def test_future_interest_gets_no_current_declarations(net: Network) -> None:
    centre, other = net.router(), net.client()
    net.join(other, centre)
    net.subscribe(other, "a")
    assert net.send_interest(centre, "a", InterestMode.FUTURE, subscribers=True) == []
