"""Interests: what a node replies itself, what it requests upstream, and what it makes of the replies."""

from __future__ import annotations

from tests.unit.router.nodes import Network, Node, declaration_texts, face_towards
from zenspark.router.declarations.announcements import NULL_EXPR
from zenspark.router.face import Face, Outgoing
from zenspark.router.interests.interest_handler import INITIAL_INTEREST
from zenspark.router.interests.table import INTEREST_TIMEOUT_SECONDS
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Interest,
    UndeclareToken,
)
from zenspark.wire.values import BoundExpr, InterestMode, QoS, WhatAmI, WireExpr, ZenohId

BOTH = InterestMode.CURRENT_FUTURE


def test_declaration_with_unknown_interest_id_is_stored() -> None:
    net = Network()
    client, centre = net.client(), net.router()
    net.join(client, centre)
    above = face_towards(client, centre)
    stray = DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a"))
    client.router.receive(above, Declare(interest_id=99, body=stray), 0.0)
    net.send_interest(client, "a", BOTH, subscribers=True)
    assert client.router.routes.push_next_hops(client.local, "a") == (above,)


def test_aggregated_interest_gets_one_declaration() -> None:
    net = Network()
    client, centre, other = net.client(), net.router(), net.client()
    net.join(client, centre)
    net.join(other, centre)
    net.subscribe(other, "a/b", 1)
    net.subscribe(other, "a/c", 2)
    assert declaration_texts(net.send_interest(client, "a/*", BOTH, subscribers=True, aggregate=True)) == [
        "D_SUBSCRIBER a/*",
        "D_FINAL",
    ]


def test_current_and_future_declarations_are_announced_two_levels_down() -> None:
    net = Network()
    client, peer, centre, other = net.client(), net.peer(), net.router(), net.client()
    net.join(peer, centre)
    net.join(client, peer)
    net.join(other, centre)
    net.token(other, "live/a")
    assert declaration_texts(net.send_interest(client, "live/*", BOTH, tokens=True)) == ["D_TOKEN live/a", "D_FINAL"]
    client.received.clear()
    net.token(other, "live/b", 2)
    assert declaration_texts(client.received) == ["D_TOKEN live/b"]


def test_current_interest_gets_each_key_once() -> None:
    net = Network()
    client = net.client()
    above, _ = client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    client.router.receive(client.local, Interest(id=3, mode=InterestMode.CURRENT, tokens=True), 0.0)
    reply = Declare(interest_id=1, body=DeclareToken(id=0, wire_expr=WireExpr(0, "a")))
    received = [*client.router.receive(above, reply, 0.0), *client.router.receive(above, reply, 0.0)]
    assert [face for face, _ in received] == [client.local]
    final = Declare(interest_id=1, qos=QoS.DECLARE, body=DeclareFinal())
    assert client.router.receive(above, final, 0.0) == [
        (client.local, Declare(interest_id=3, qos=QoS.DECLARE, body=DeclareFinal()))
    ]
    assert client.router.receive(above, Declare(body=DeclareFinal()), 0.0) == []


def test_propagated_interest_also_requests_key_expressions() -> None:
    client = Network().client()
    above, _ = client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    out = client.router.receive(client.local, Interest(id=3, mode=InterestMode.CURRENT, tokens=True), 0.0)
    expected = Interest(id=1, mode=InterestMode.CURRENT, keyexprs=True, tokens=True, qos=QoS.DECLARE)
    assert out == [(above, expected)]


def test_an_interest_that_was_replaced_does_not_end_the_one_of_the_same_id() -> None:
    client = Network().client()
    above, _ = client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    interest = Interest(id=3, mode=InterestMode.CURRENT, tokens=True)
    client.router.receive(client.local, interest, 0.0)
    client.router.receive(client.local, interest, 5.0)
    assert client.router.handle_timeout(INTEREST_TIMEOUT_SECONDS) == []
    final = Declare(interest_id=3, qos=QoS.DECLARE, body=DeclareFinal())
    reply = Declare(interest_id=2, body=DeclareFinal())
    assert client.router.receive(above, reply, 6.0) == [(client.local, final)]


def test_interest_timeout_of_removed_face_sends_nothing() -> None:
    peer = Network().peer()
    peer.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    client, _ = peer.router.add_face(ZenohId(98), WhatAmI.CLIENT, 0.0)
    peer.router.receive(client, Interest(id=3, mode=BOTH, tokens=True), 0.0)
    peer.router.remove_face(client, 1.0)
    assert peer.router.next_timeout() is None
    assert peer.router.handle_timeout(INTEREST_TIMEOUT_SECONDS) == []


def test_first_final_of_a_peer_ends_the_implicit_interest() -> None:
    net = Network()
    one, other = net.peer(), net.peer()
    face, _ = one.router.add_face(other.router.zid, other.router.whatami, 0.0)
    assert face.initial_declarations_pending
    one.router.receive(face, Declare(interest_id=INITIAL_INTEREST, body=DeclareFinal()), 0.0)
    assert not face.initial_declarations_pending


def test_own_subscribers_are_not_announced_back() -> None:
    net = Network()
    centre, client = net.router(), net.client()
    net.join(client, centre)
    net.subscribe(client, "a")
    assert declaration_texts(net.send_interest(client, "a", BOTH, subscribers=True)) == ["D_FINAL"]


# -- interests of group members


class InGroup:
    """A node in a multicast group, and the first other member of it."""

    def __init__(self, node: Node) -> None:
        self.router = node.router
        self.local = node.local
        self.group = self.router.add_group()
        self.member = self.join(99)

    def join(self, zid: int) -> Face:
        return self.router.add_member(self.group, ZenohId(zid), WhatAmI.PEER)

    def send_interest(self, *kinds: str, mode: InterestMode = InterestMode.CURRENT) -> Outgoing:
        """Let the member send interest 3."""
        interest = Interest(
            id=3,
            mode=mode,
            subscribers="subscribers" in kinds,
            queryables="queryables" in kinds,
            tokens="tokens" in kinds,
        )
        return self.router.receive(self.member, interest, 0.0)


def format_declarations(out: Outgoing) -> list[str]:
    return declaration_texts([message for _, message in out])


def test_an_interest_of_a_member_gets_its_reply_in_the_group() -> None:
    """All members receive the reply: it has no key ids, and each key one declaration id, until it is undeclared."""
    net = Network()
    node = net.peer()
    net.token(node, "t/1")
    net.subscribe(node, "s/1")
    inside = InGroup(node)
    binding = Declare(body=DeclareKeyexpr(expr_id=7, wire_expr=BoundExpr(0, "t")))
    assert inside.router.receive(inside.member, binding, 0.0) == []
    first, second = inside.member, inside.join(98)
    for inside.member in (first, second):
        out = inside.send_interest("subscribers", "tokens")
        assert [face for face, _ in out] == [inside.group, inside.group, inside.member]
        assert [message for _, message in out] == [
            Declare(interest_id=3, qos=QoS.DECLARE, body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, "s/1"))),
            Declare(interest_id=3, qos=QoS.DECLARE, body=DeclareToken(id=2, wire_expr=WireExpr(0, "t/1"))),
            Declare(interest_id=3, qos=QoS.DECLARE, body=DeclareFinal()),
        ]
    assert inside.router.remove_face(second, 0.0) == []
    ((face, gone),) = inside.router.receive(inside.local, Declare(body=UndeclareToken(id=1)), 0.0)
    assert face is inside.group
    assert isinstance(gone, Declare)
    assert gone.body == UndeclareToken(id=2, ext_wire_expr=NULL_EXPR)


def test_a_future_interest_of_a_member_is_followed_until_it_ends() -> None:
    inside = InGroup(Network().peer())
    assert inside.send_interest("tokens", mode=InterestMode.FUTURE) == []

    def declare(number: int) -> Outgoing:
        token = DeclareToken(id=number, wire_expr=WireExpr(0, f"t/{number}"))
        return inside.router.receive(inside.local, Declare(body=token), 0.0)

    out = declare(1)
    assert ([face for face, _ in out], format_declarations(out)) == ([inside.group], ["D_TOKEN t/1"])
    assert inside.send_interest(mode=InterestMode.FINAL) == []
    assert declare(2) == []


def test_no_queryables_are_declared_to_a_member() -> None:
    """A query of eclipse-zenoh waits for its timeout where a member of its group has declared a queryable."""
    net = Network()
    node = net.peer()
    net.queryable(node, "a/**")
    inside = InGroup(node)
    out = inside.send_interest("queryables", mode=BOTH)
    assert ([face for face, _ in out], format_declarations(out)) == ([inside.member], ["D_FINAL"])
    declaration = DeclareQueryable(id=2, wire_expr=WireExpr(0, "b"))
    assert inside.router.receive(inside.local, Declare(body=declaration), 0.0) == []


def test_an_interest_without_declarations_gets_no_final_where_other_members_may_reply() -> None:
    """zenoh-pico takes the first D_FINAL for the end of all replies."""
    inside = InGroup(Network().peer())
    assert format_declarations(inside.send_interest("tokens")) == ["D_FINAL"]
    inside.join(98)
    assert inside.send_interest("tokens") == []


def test_tokens_of_another_member_are_not_declared_for_it() -> None:
    net = Network()
    node, peer = net.router(), net.peer()
    net.join(peer, node)
    net.token(peer, "t/1")
    inside = InGroup(node)
    assert format_declarations(inside.send_interest("tokens")) == ["D_TOKEN t/1", "D_FINAL"]
    inside.router.add_member(inside.group, peer.router.zid, WhatAmI.PEER)
    assert inside.send_interest("tokens") == []


def test_an_interest_of_a_member_with_a_session_gets_its_reply_on_the_session() -> None:
    net = Network()
    node, other = net.peer(), net.peer()
    net.token(node, "t/1")
    net.join(node, other)
    inside = InGroup(node)
    inside.member = inside.router.add_member(inside.group, other.router.zid, WhatAmI.PEER)
    assert inside.send_interest("tokens") == []
