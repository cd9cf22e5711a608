"""Who is listed as the holder of a key: the lists are those that 1.10.2 gave in the same situations."""

from __future__ import annotations

from tests.unit.router.nodes import Network
from zenspark.router import introspection
from zenspark.router.face import Kind
from zenspark.router.introspection import Holders
from zenspark.wire.messages import Interest
from zenspark.wire.values import InterestMode, WireExpr


def test_a_router_lists_who_is_below_and_itself() -> None:
    net = Network()
    router, client, peer, other = net.router(), net.client(), net.peer(), net.router()
    for node in (client, peer, other):
        net.join(router, node)
    net.subscribe(client, "demo/sub/**")
    net.subscribe(peer, "demo/sub/**")
    net.subscribe(router, "demo/local")
    net.subscribe(other, "demo/other")
    assert introspection.declared(router.router, Kind.SUBSCRIBER, "demo/**") == {
        "demo/sub/**": Holders(routers=["1"], peers=["3"], clients=["2"]),
        "demo/local": Holders(routers=["1"], clients=["1"]),
        "demo/other": Holders(routers=["4"]),
    }
    assert introspection.declared(other.router, Kind.SUBSCRIBER, "demo/sub/x") == {
        "demo/sub/**": Holders(routers=["1"])
    }
    assert introspection.declared(router.router, Kind.QUERYABLE, "**") == {}


def test_beside_and_above_a_peer_are_peers() -> None:
    net = Network()
    peer, client, other, router = net.peer(), net.client(), net.peer(), net.router()
    for node in (client, other, router):
        net.join(peer, node)
    net.subscribe(peer, "x/own")
    net.subscribe(client, "x/client")
    net.subscribe(other, "x/peer")
    net.subscribe(router, "x/router")
    net.ask(client, "x/router", InterestMode.CURRENT_FUTURE, subscribers=True)
    assert introspection.declared(peer.router, Kind.SUBSCRIBER, "x/*") == {
        "x/own": Holders(peers=["1"], clients=["1"]),
        "x/client": Holders(peers=["1"], clients=["2"]),
        "x/peer": Holders(peers=["3"]),
        "x/router": Holders(peers=["4"]),
    }


def test_a_node_is_listed_once() -> None:
    net = Network()
    router, one, other = net.router(), net.client(), net.client()
    net.join(router, one)
    net.join(router, other)
    net.token(one, "t")
    net.token(other, "t")
    assert introspection.declared(router.router, Kind.TOKEN, "t") == {"t": Holders(routers=["1"], clients=["2", "3"])}


def test_publishers_are_known_by_what_they_ask() -> None:
    net = Network()
    router, client, peer = net.router(), net.client(), net.peer()
    net.join(router, client)
    net.join(peer, router)
    net.ask(client, "demo/pub", InterestMode.CURRENT_FUTURE, subscribers=True)
    net.ask(peer, "demo/pub", InterestMode.CURRENT_FUTURE, subscribers=True)
    net.ask(router, "demo/tokens", InterestMode.CURRENT_FUTURE, tokens=True)
    assert introspection.asked(router.router, Kind.SUBSCRIBER, "demo/*") == {
        "demo/pub": Holders(peers=["3"], clients=["2"])
    }
    assert introspection.asked(router.router, Kind.QUERYABLE, "demo/*") == {}


def test_what_peers_beside_ask_is_not_listed() -> None:
    net = Network()
    peer, other = net.peer(), net.peer()
    net.join(peer, other)
    face = next(iter(peer.links))
    asking = Interest(id=1, mode=InterestMode.FUTURE, subscribers=True, wire_expr=WireExpr(0, "a"))
    peer.router.receive(face, asking, 0.0)
    assert peer.router.interests.of(face)
    assert introspection.asked(peer.router, Kind.SUBSCRIBER, "a") == {}
    net.say(peer, asking)
    assert introspection.asked(peer.router, Kind.SUBSCRIBER, "a") == {"a": Holders(clients=["1"])}
