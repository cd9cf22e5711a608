"""Which nodes are listed as owners of a key: the lists are those that 1.10.2 gave in the same situations."""

from __future__ import annotations

from tests.unit.router.nodes import Network
from zenspark.router import introspection
from zenspark.router.face import DeclarationKind
from zenspark.router.introspection import OwnersByRole
from zenspark.wire.messages import Interest
from zenspark.wire.values import InterestMode, WireExpr


def test_router_lists_downstream_nodes_and_itself() -> None:
    net = Network()
    router, client, peer, other = net.router(), net.client(), net.peer(), net.router()
    for node in (client, peer, other):
        net.join(router, node)
    net.subscribe(client, "demo/sub/**")
    net.subscribe(peer, "demo/sub/**")
    net.subscribe(router, "demo/local")
    net.subscribe(other, "demo/other")
    assert introspection.declared_keys(router.router, DeclarationKind.SUBSCRIBER, "demo/**") == {
        "demo/sub/**": OwnersByRole(routers=["1"], peers=["3"], clients=["2"]),
        "demo/local": OwnersByRole(routers=["1"], clients=["1"]),
        "demo/other": OwnersByRole(routers=["4"]),
    }
    assert introspection.declared_keys(other.router, DeclarationKind.SUBSCRIBER, "demo/sub/x") == {
        "demo/sub/**": OwnersByRole(routers=["1"])
    }
    assert introspection.declared_keys(router.router, DeclarationKind.QUERYABLE, "**") == {}


def test_peer_lists_neighbouring_and_upstream_nodes_as_peers() -> None:
    net = Network()
    peer, client, other, router = net.peer(), net.client(), net.peer(), net.router()
    for node in (client, other, router):
        net.join(peer, node)
    net.subscribe(peer, "x/own")
    net.subscribe(client, "x/client")
    net.subscribe(other, "x/peer")
    net.subscribe(router, "x/router")
    net.send_interest(client, "x/router", InterestMode.CURRENT_FUTURE, subscribers=True)
    assert introspection.declared_keys(peer.router, DeclarationKind.SUBSCRIBER, "x/*") == {
        "x/own": OwnersByRole(peers=["1"], clients=["1"]),
        "x/client": OwnersByRole(peers=["1"], clients=["2"]),
        "x/peer": OwnersByRole(peers=["3"]),
        "x/router": OwnersByRole(peers=["4"]),
    }


def test_a_node_is_listed_once() -> None:
    net = Network()
    router, one, other = net.router(), net.client(), net.client()
    net.join(router, one)
    net.join(router, other)
    net.token(one, "t")
    net.token(other, "t")
    assert introspection.declared_keys(router.router, DeclarationKind.TOKEN, "t") == {
        "t": OwnersByRole(routers=["1"], clients=["2", "3"])
    }


def test_publishers_are_listed_by_their_interests() -> None:
    net = Network()
    router, client, peer = net.router(), net.client(), net.peer()
    net.join(router, client)
    net.join(peer, router)
    net.send_interest(client, "demo/pub", InterestMode.CURRENT_FUTURE, subscribers=True)
    net.send_interest(peer, "demo/pub", InterestMode.CURRENT_FUTURE, subscribers=True)
    net.send_interest(router, "demo/tokens", InterestMode.CURRENT_FUTURE, tokens=True)
    assert introspection.interested_keys(router.router, DeclarationKind.SUBSCRIBER, "demo/*") == {
        "demo/pub": OwnersByRole(peers=["3"], clients=["2"])
    }
    assert introspection.interested_keys(router.router, DeclarationKind.QUERYABLE, "demo/*") == {}


def test_interests_of_neighbouring_peers_are_not_listed() -> None:
    net = Network()
    peer, other = net.peer(), net.peer()
    net.join(peer, other)
    face = next(iter(peer.links))
    interest = Interest(id=1, mode=InterestMode.FUTURE, subscribers=True, wire_expr=WireExpr(0, "a"))
    peer.router.receive(face, interest, 0.0)
    assert peer.router.interests.by_face(face)
    assert introspection.interested_keys(peer.router, DeclarationKind.SUBSCRIBER, "a") == {}
    net.send(peer, interest)
    assert introspection.interested_keys(peer.router, DeclarationKind.SUBSCRIBER, "a") == {
        "a": OwnersByRole(clients=["1"])
    }
