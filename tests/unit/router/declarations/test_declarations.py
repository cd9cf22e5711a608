"""Which neighbours receive which declaration, and how often."""

from __future__ import annotations

import pytest

from tests.unit.router.nodes import Network, declaration_texts, pushed
from zenspark.router.face import DeclarationKind
from zenspark.wire.messages import (
    Declare,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Interest,
    UndeclareQueryable,
    UndeclareSubscriber,
)
from zenspark.wire.values import InterestMode, QueryableInfo, WhatAmI, WireExpr, ZenohId

BOTH = InterestMode.CURRENT_FUTURE


def test_key_is_announced_upstream_once_until_its_last_owner() -> None:
    net = Network()
    peer, one, other = net.peer(), net.client(), net.client()
    for client in (one, other):
        net.join(client, peer)
    above, _ = peer.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    net.subscribe(one, "a")
    net.subscribe(other, "a")
    assert list(above.announced[DeclarationKind.SUBSCRIBER]) == ["a"]
    net.declare(one, UndeclareSubscriber(id=1))
    assert list(above.announced[DeclarationKind.SUBSCRIBER]) == ["a"]
    net.declare(other, UndeclareSubscriber(id=1))
    assert list(above.announced[DeclarationKind.SUBSCRIBER]) == []


def test_router_does_not_forward_between_linked_peers() -> None:
    net = Network()
    centre, one, other = net.router(), net.peer(), net.peer()
    for peer in (one, other):
        net.join(peer, centre)
        net.announce_links(centre, peer)
    net.subscribe(other, "a")
    assert declaration_texts(net.send_interest(one, "a", BOTH, subscribers=True)) == ["D_SUBSCRIBER a", "D_FINAL"]
    net.put(one, "a", b"1")
    assert pushed(other) == [("a", b"1")]
    one.received.clear()
    net.announce_links(centre, one, other)
    net.announce_links(centre, other, one)
    assert declaration_texts(one.received) == ["U_SUBSCRIBER"]
    other.received.clear()
    net.put(one, "a", b"2")
    assert pushed(other) == []
    one.received.clear()
    net.announce_links(centre, one)
    assert declaration_texts(one.received) == ["D_SUBSCRIBER a"]


def test_link_to_an_unknown_peer_changes_nothing() -> None:
    net = Network()
    centre, one, other, stranger = net.router(), net.peer(), net.peer(), net.peer()
    for peer in (one, other):
        net.join(peer, centre)
        net.announce_links(centre, peer, stranger)
    net.part(one, centre)
    net.join(one, centre)
    net.announce_links(centre, one)
    net.subscribe(other, "a")
    net.put(one, "a", b"1")
    assert pushed(other) == [("a", b"1")]


def test_aggregate_queryable_is_complete_if_one_includes_the_key() -> None:
    net = Network()
    centre, other = net.router(), net.client()
    net.join(other, centre)
    net.queryable(other, "q/a", True, 1)
    interest = Interest(id=7, mode=BOTH, queryables=True, aggregate=True, wire_expr=WireExpr(0, "q/*"))
    net.send(centre, interest)
    net.queryable(other, "q/**", True, 2)
    offers = [message.body for message in centre.received if isinstance(message, Declare)]
    infos = [body.info for body in offers if isinstance(body, DeclareQueryable)]
    assert infos == [QueryableInfo(False), QueryableInfo(True)]


def test_declarations_of_other_sources_are_not_declared_as_own() -> None:
    net = Network()
    left, middle, right = net.router(), net.router(), net.router()
    net.join(left, middle)
    net.join(middle, right)
    net.subscribe(left, "a")
    net.subscribe(right, "a")
    assert declaration_texts(net.send_interest(middle, "a", BOTH, subscribers=True)) == ["D_SUBSCRIBER a", "D_FINAL"]
    middle.received.clear()
    net.declare(left, UndeclareSubscriber(id=1))
    assert middle.received == []
    net.part(middle, right)
    assert declaration_texts(middle.received) == ["U_SUBSCRIBER"]


def test_link_between_two_peers_changes_no_announcement_to_a_client() -> None:
    net = Network()
    centre, one, other, third = net.router(), net.peer(), net.peer(), net.client()
    for node in (one, other, third):
        net.join(node, centre)
    net.subscribe(other, "a")
    assert declaration_texts(net.send_interest(third, "a", BOTH, subscribers=True)) == ["D_SUBSCRIBER a", "D_FINAL"]
    third.received.clear()
    net.announce_links(centre, one, other)
    net.announce_links(centre, other, one)
    assert third.received == []


@pytest.mark.parametrize("body", [DeclareSubscriber, DeclareQueryable])
def test_upstream_redeclaration_under_another_id_replaces_the_first(
    body: type[DeclareSubscriber | DeclareQueryable],
) -> None:
    """A router that never undeclares the first id must not keep a publisher matching."""
    net = Network()
    client = net.client()
    above, _ = client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    kind, undeclare = (
        (DeclarationKind.SUBSCRIBER, UndeclareSubscriber)
        if body is DeclareSubscriber
        else (DeclarationKind.QUERYABLE, UndeclareQueryable)
    )
    for number in (207, 216):
        client.router.receive(above, Declare(body=body(id=number, wire_expr=WireExpr(0, "a"))), 0.0)
    assert list(above.declared[kind]) == [216]
    assert above.usage.declarations == 1
    client.router.receive(above, Declare(body=undeclare(id=207)), 0.0)
    assert client.router.tables[kind].get("a") is not None
    client.router.receive(above, Declare(body=undeclare(id=216)), 0.0)
    assert client.router.tables[kind].get("a") is None


def test_tokens_of_an_upstream_node_on_one_key_are_kept_separately() -> None:
    net = Network()
    client = net.client()
    above, _ = client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    for number in (1, 2):
        client.router.receive(above, Declare(body=DeclareToken(id=number, wire_expr=WireExpr(0, "a"))), 0.0)
    assert list(above.declared[DeclarationKind.TOKEN]) == [1, 2]
