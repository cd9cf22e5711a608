"""Multicast groups in a router: publications to the group, and messages of its members."""

from __future__ import annotations

from tests.unit.router.nodes import Network, declaration_texts
from zenspark.router.face import Face
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import (
    Declare,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    NetworkMessage,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
    UndeclareKeyexpr,
    UndeclareToken,
)
from zenspark.wire.values import BoundExpr, InterestMode, QoS, QueryTarget, WhatAmI, WireExpr, ZenohId


class TestGroups:
    """A multicast group is one face to send to, and one for each member to receive from."""

    def pushed_keys(self, out: list[tuple[Face, NetworkMessage]]) -> list[tuple[Face, str]]:
        return [(face, message.wire_expr.suffix) for face, message in out if isinstance(message, Push)]

    def push(self, key: str = "a/b") -> Push:
        return Push(wire_expr=WireExpr(0, key), body=Put(payload=b"x"))

    def test_every_publication_goes_to_the_group_once(self, net: Network) -> None:
        router = (node := net.peer()).router
        group = router.add_group()
        assert self.pushed_keys(router.receive(node.local, self.push(), 0.0)) == [(group, "a/b")]
        for number in (8, 9):
            router.add_member(group, ZenohId(number), WhatAmI.PEER)
        assert self.pushed_keys(router.receive(node.local, self.push("c"), 0.0)) == [(group, "c")]
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
        assert {face.zid for face, _ in self.pushed_keys(out)} == {middle.router.zid, client.router.zid}

    def test_member_may_use_key_ids(self, net: Network) -> None:
        node = net.peer()
        net.subscribe(node, "a/**")
        member = node.router.add_member(node.router.add_group(), ZenohId(99), WhatAmI.PEER)
        named = Push(wire_expr=WireExpr(7, "/c"), body=Put(payload=b"x"))
        assert node.router.receive(member, named, 0.0) == []
        binding = Declare(body=DeclareKeyexpr(expr_id=7, wire_expr=BoundExpr(0, "a/b")))
        assert node.router.receive(member, binding, 0.0) == []
        assert self.pushed_keys(node.router.receive(member, named, 0.0)) == [(node.local, "a/b/c")]
        node.router.receive(member, Declare(body=UndeclareKeyexpr(expr_id=7)), 0.0)
        assert node.router.receive(member, named, 0.0) == []

    def test_requests_of_members_get_replies_in_the_group(self, net: Network) -> None:
        node = net.peer()
        net.queryable(node, "a/**")
        group = node.router.add_group()
        member = node.router.add_member(group, ZenohId(99), WhatAmI.PEER)
        node.router.add_member(group, ZenohId(98), WhatAmI.PEER)
        request = Request(request_id=7, wire_expr=WireExpr(0, "a/b"), qos=QoS.REQUEST, body=Query())
        ((target, forwarded),) = node.router.receive(member, request, 0.0)
        assert target is node.local
        assert isinstance(forwarded, Request)
        reply = Response(
            request_id=forwarded.request_id, wire_expr=WireExpr(0, "a/b"), body=Reply(body=Put(payload=b""))
        )
        ((target, back),) = node.router.receive(node.local, reply, 0.0)
        assert (target, back) == (member, replace(reply, request_id=7, qos=QoS.REQUEST))
        final = ResponseFinal(request_id=forwarded.request_id)
        assert node.router.receive(node.local, final, 0.0) == [(member, ResponseFinal(request_id=7, qos=QoS.REQUEST))]

    def test_no_final_to_a_member_where_other_members_may_reply(self, net: Network) -> None:
        """zenoh-pico takes the first RESPONSE_FINAL for the end of all replies, and does the same."""
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
        assert declaration_texts(net.send_interest(node, "t/**", InterestMode.CURRENT_FUTURE, tokens=True)) == [
            "D_FINAL"
        ]
        for number, interest in ((1, None), (2, 0)):  # what it declares, and what it announces to a newcomer
            token = DeclareToken(id=number, wire_expr=WireExpr(0, f"t/{number}"))
            out = node.router.receive(member, Declare(interest_id=interest, body=token), 0.0)
            assert [target for target, _ in out] == [node.local]
            assert declaration_texts([message for _, message in out]) == [f"D_TOKEN t/{number}"]
        assert declaration_texts(net.send_interest(node, "t/*", InterestMode.CURRENT, tokens=True))[-3:] == [
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
        assert declaration_texts(net.send_interest(other, "t", InterestMode.CURRENT, tokens=True)) == [
            "D_TOKEN t",
            "D_FINAL",
        ]

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

    def test_router_forwards_between_groups_and_sessions_and_never_back(self, net: Network) -> None:
        router, peer = net.router(), net.peer()
        net.join(peer, router)
        net.subscribe(peer, "a/**")
        group = router.router.add_group()
        member = router.router.add_member(group, ZenohId(99), WhatAmI.PEER)
        (face,) = router.links
        assert [target for target, _ in router.router.receive(member, self.push(), 0.0)] == [face]
        assert self.pushed_keys(router.router.receive(face, self.push(), 0.0)) == [(group, "a/b")]
        router.router.add_member(group, peer.router.zid, WhatAmI.PEER)  # which then sends it there itself
        assert router.router.receive(face, self.push(), 0.0) == []

    def test_group_messages_of_a_member_with_a_session_are_ignored(self, net: Network) -> None:
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


def test_group_messages_of_a_member_in_the_network_are_ignored(net: Network) -> None:
    left, middle, right = net.relay(), net.relay(), net.relay()
    net.join(left, middle)
    group = left.router.add_group()
    member = left.router.add_member(group, right.router.zid, WhatAmI.PEER)
    assert not member.is_duplicate_member
    net.join(middle, right)
    assert member.is_duplicate_member
