"""Who hears of which declaration, and how often."""

from __future__ import annotations

from tests.unit.router.nodes import Network, Node
from tests.unit.router.test_router import answered, face_towards, pushed
from zenspark.router.face import Kind
from zenspark.wire.codec import encode_link_states
from zenspark.wire.messages import Declare, DeclareQueryable, Interest, LinkState, NetworkOam, UndeclareSubscriber
from zenspark.wire.values import InterestMode, QueryableInfo, WhatAmI, WireExpr, ZenohId

BOTH = InterestMode.CURRENT_FUTURE


def links(centre: Node, peer: Node, *others: Node, net: Network) -> None:
    """A peer tells its router to whom it has links."""
    entries = [LinkState(psid=0, sn=2, zid=peer.router.zid, whatami=2, links=tuple(range(1, len(others) + 1)))]
    entries += [LinkState(psid=at + 1, sn=0, zid=other.router.zid, whatami=2) for at, other in enumerate(others)]
    message = NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(entries))
    net.emit(centre, centre.router.receive(face_towards(centre, peer), message, net.now))
    net.run()


def test_a_key_goes_up_once_and_ends_with_its_last_holder() -> None:
    net = Network()
    peer, one, other = net.peer(), net.client(), net.client()
    for client in (one, other):
        net.join(client, peer)
    above, _ = peer.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    net.subscribe(one, "a")
    net.subscribe(other, "a")
    assert list(above.told[Kind.SUBSCRIBER]) == ["a"]
    net.declare(one, UndeclareSubscriber(id=1))
    assert list(above.told[Kind.SUBSCRIBER]) == ["a"]
    net.declare(other, UndeclareSubscriber(id=1))
    assert list(above.told[Kind.SUBSCRIBER]) == []


def test_a_router_stays_out_of_the_way_of_peers_with_a_link() -> None:
    net = Network()
    centre, one, other = net.router(), net.peer(), net.peer()
    for peer in (one, other):
        net.join(peer, centre)
    net.subscribe(other, "a")
    assert answered(net.ask(one, "a", BOTH, subscribers=True)) == ["D_SUBSCRIBER a", "D_FINAL"]
    net.put(one, "a", b"1")
    assert pushed(other) == [("a", b"1")]
    one.heard.clear()
    links(centre, one, other, net=net)
    links(centre, other, one, net=net)
    assert answered(one.heard) == ["U_SUBSCRIBER"]
    other.heard.clear()
    net.put(one, "a", b"2")
    assert pushed(other) == []
    one.heard.clear()
    links(centre, one, net=net)
    assert answered(one.heard) == ["D_SUBSCRIBER a"]


def test_a_link_to_who_is_not_here_changes_nothing() -> None:
    net = Network()
    centre, one, other, stranger = net.router(), net.peer(), net.peer(), net.peer()
    for peer in (one, other):
        net.join(peer, centre)
    links(centre, one, stranger, net=net)
    net.part(one, centre)
    net.join(one, centre)
    net.subscribe(other, "a")
    net.put(one, "a", b"1")
    assert pushed(other) == [("a", b"1")]


def test_one_offer_for_many_is_complete_if_one_of_them_is_for_all() -> None:
    net = Network()
    centre, other = net.router(), net.client()
    net.join(other, centre)
    net.queryable(other, "q/a", True, 1)
    ask = Interest(id=7, mode=BOTH, queryables=True, aggregate=True, wire_expr=WireExpr(0, "q/*"))
    net.say(centre, ask)
    net.queryable(other, "q/**", True, 2)
    offers = [message.body for message in centre.heard if isinstance(message, Declare)]
    infos = [body.info for body in offers if isinstance(body, DeclareQueryable)]
    assert infos == [QueryableInfo(False), QueryableInfo(True)]


def test_what_is_declared_elsewhere_is_not_ours_to_declare() -> None:
    net = Network()
    left, middle, right = net.router(), net.router(), net.router()
    net.join(left, middle)
    net.join(middle, right)
    net.subscribe(left, "a")
    net.subscribe(right, "a")
    assert answered(net.ask(middle, "a", BOTH, subscribers=True)) == ["D_SUBSCRIBER a", "D_FINAL"]
    middle.heard.clear()
    net.declare(left, UndeclareSubscriber(id=1))
    assert middle.heard == []
    net.part(middle, right)
    assert answered(middle.heard) == ["U_SUBSCRIBER"]


def test_a_link_between_two_peers_is_nothing_to_a_third() -> None:
    net = Network()
    centre, one, other, third = net.router(), net.peer(), net.peer(), net.client()
    for node in (one, other, third):
        net.join(node, centre)
    net.subscribe(other, "a")
    assert answered(net.ask(third, "a", BOTH, subscribers=True)) == ["D_SUBSCRIBER a", "D_FINAL"]
    third.heard.clear()
    links(centre, one, other, net=net)
    links(centre, other, one, net=net)
    assert third.heard == []
