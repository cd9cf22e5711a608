"""Routers and relaying peers in a network: declarations by source, entry routers and relays."""

from __future__ import annotations

from tests.unit.router.nodes import Network, declaration_texts, pushed
from zenspark.router.face import Face
from zenspark.router.interceptors.rules import NeighbourAttributes, RouterSubject
from zenspark.router.limits import RefusalReason
from zenspark.router.linkstate.states import MAX_STATES_MESSAGE_BYTES
from zenspark.router.router import Router, RouterPolicy
from zenspark.wire.codec import encode, encode_link_states
from zenspark.wire.messages import (
    Declare,
    DeclareKeyexpr,
    DeclareSubscriber,
    Del,
    LinkState,
    NetworkOam,
    Push,
    Put,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import BoundExpr, InterestMode, Mapping, QoS, WhatAmI, WireExpr, ZenohId


def beside(*routers: WhatAmI) -> tuple[Router, list[Face]]:
    """Our router with neighbouring routers, which have announced their links."""
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
    assert router.routes.push_next_hops(left, "a", 1) == (right,)


def test_declarations_of_a_removed_router_are_removed() -> None:
    router, (left,) = beside(WhatAmI.ROUTER)
    client, _ = router.add_face(ZenohId(99), WhatAmI.CLIENT, 0.0)
    router.receive(left, Declare(body=DeclareSubscriber(id=0, wire_expr=WireExpr(0, "a"))), 0.0)
    assert router.routes.push_next_hops(client, "a") == (left,)
    assert router.remove_face(left, 1.0) == []
    assert router.routes.push_next_hops(client, "a") == ()
    while (due := router.next_timeout()) is not None:
        router.handle_timeout(due)
    assert router.routes.push_next_hops(client, "a") == ()


def test_gossip_of_clients_is_ignored() -> None:
    client = Router(ZenohId(1), WhatAmI.CLIENT)
    above, _ = client.add_face(ZenohId(2), WhatAmI.ROUTER, 0.0)
    assert client.receive(above, NetworkOam(id=NetworkOam.LINK_STATE, zbuf=b"\0"), 0.0) == []
    assert client.network is None
    router, (peer,) = beside(WhatAmI.PEER)
    assert router.receive(peer, NetworkOam(id=7), 0.0) == []


# -- relays


def test_relaying_peers_in_a_line_reach_each_other(net: Network) -> None:
    left, middle, right = net.relay(), net.relay(), net.relay()
    net.join(left, middle)
    net.join(middle, right)
    net.subscribe(left, "a/*")
    net.token(left, "t")
    net.put(right, "a/b")
    assert pushed(left) == [("a/b", b"x")]
    assert declaration_texts(net.send_interest(right, "**", InterestMode.CURRENT, tokens=True)) == [
        "D_TOKEN t",
        "D_FINAL",
    ]
    net.put(middle, "a/c")
    assert pushed(left) == [("a/b", b"x"), ("a/c", b"x")]


def test_relay_reports_when_initial_declarations_are_received(net: Network) -> None:
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
        node.received.clear()
    net.put(plain, "a")
    assert (pushed(near), pushed(far)) == ([("a", b"x")], [])
    near.received.clear()
    net.put(far, "a")
    assert (pushed(near), pushed(plain)) == ([("a", b"x")], [])


def test_peer_linked_to_a_relay_and_a_router_receives_publications_once(net: Network) -> None:
    """It has links to a peer and a router that relay, and receives once; from the peer when the router is gone."""
    plain, beside, above = net.peer(), net.relay(), net.relay(WhatAmI.ROUTER)
    net.join(beside, above)
    net.join(plain, beside)
    net.subscribe(plain, "down")
    net.subscribe(beside, "up")
    net.put(beside, "down")
    assert pushed(plain) == [("down", b"x")]
    net.join(plain, above)
    for sender, receiver, key in ((beside, plain, "down"), (plain, beside, "up")):
        receiver.received.clear()
        net.put(sender, key)
        assert pushed(receiver) == [(key, b"x")]
    net.part(plain, above)
    for sender, receiver, key in ((beside, plain, "down"), (plain, beside, "up")):
        receiver.received.clear()
        net.put(sender, key)
        assert pushed(receiver) == [(key, b"x")]


def test_relay_and_its_upstream_router_receive_each_publication_once(net: Network) -> None:
    """It does not relay, but another router is linked to it: for a relaying peer there are two ways."""
    peer, ours, theirs = net.relay(), net.relay(WhatAmI.ROUTER), net.router()
    net.join(peer, theirs)
    net.send_interest(peer, "up", InterestMode.CURRENT_FUTURE, subscribers=True)
    net.subscribe(theirs, "up")
    net.subscribe(peer, "down")
    changes = [(net.join, ours, theirs), (net.join, peer, ours), (net.part, ours, theirs)]
    for change, one, other in changes:
        for sender, receiver, key in ((peer, theirs, "up"), (theirs, peer, "down")):
            receiver.received.clear()
            net.put(sender, key)
            assert pushed(receiver) == [(key, b"x")]
        change(one, other)
    theirs.received.clear()
    net.put(peer, "up")
    assert pushed(theirs) == [("up", b"x")]


def test_router_that_is_not_among_the_allowed_routers_is_refused_and_counted() -> None:
    allowed = RouterSubject(zids=("2",))
    router = Router(ZenohId(1), WhatAmI.ROUTER, RouterPolicy(routers=(allowed,)))
    member, stranger = NeighbourAttributes(zid=ZenohId(2)), NeighbourAttributes(zid=ZenohId(3))
    assert router.accepts(WhatAmI.ROUTER, member, "router 2 (tcp/[::1]:50312)")
    assert router.accepts(WhatAmI.CLIENT, stranger, "client 3 (tcp/[::1]:50313)")
    assert not router.accepts(WhatAmI.ROUTER, stranger, "router 3 (tcp/[::1]:50314)")
    assert router.refusals.counts[RefusalReason.ROUTERS] == 1
    assert router.refusals.latest[RefusalReason.ROUTERS] == "router 3 (tcp/[::1]:50314)"


def test_oversized_link_state_message_is_refused_and_counted() -> None:
    router, (neighbour,) = beside(WhatAmI.ROUTER)
    message = NetworkOam(id=NetworkOam.LINK_STATE, zbuf=bytes(MAX_STATES_MESSAGE_BYTES + 1))
    assert router.receive(neighbour, message, 0.0) == []
    assert router.refusals.counts[RefusalReason.NETWORK_LINKS] == 1
