"""The network of routers: what is said of links, byte by byte where it was captured, and the trees that follow."""

from __future__ import annotations

import pytest

from zenspark.router import network
from zenspark.router.face import Face, Out, Region
from zenspark.router.network import FORGET_AFTER, TREES_DELAY, Moved, Network
from zenspark.wire.codec import decode_link_states, encode_link_states
from zenspark.wire.messages import LinkState, NetworkOam
from zenspark.wire.values import WhatAmI, ZenohId

A, B, C, D = (ZenohId(number) for number in (0xA, 0xB, 0xC, 0xD))


def face(zid: ZenohId, number: int = 1) -> Face:
    return Face(number, zid, WhatAmI.ROUTER, Region.ROUTER)


def oam(*entries: LinkState) -> NetworkOam:
    return NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(entries))


def said(out: Out) -> list[tuple[ZenohId, list[LinkState]]]:
    found = []
    for to, message in out:
        assert isinstance(message, NetworkOam)
        assert message.zbuf is not None
        found.append((to.zid, list(decode_link_states(message.zbuf))))
    return found


def own(zid: ZenohId, sn: int, *links: int, psid: int = 0) -> LinkState:
    return LinkState(psid=psid, sn=sn, zid=zid, whatami=1, links=links)


def named(psid: int, zid: ZenohId) -> LinkState:
    return LinkState(psid=psid, sn=0, zid=zid, whatami=1)


def beside(node: Network, other: ZenohId, number: int = 1) -> Face:
    """A router beside a node, known to be so by both."""
    there = face(other, number)
    node.opened(there, (), 0.0)
    node.receive(there, oam(own(other, 2, 1), named(1, node.zid)), 0.0)
    return there


def test_two_routers_meet_as_captured() -> None:
    """Section 16.6: self with links, and the new neighbour."""
    node = Network(ZenohId.parse("c0c1c2c3"))
    out = node.opened(face(ZenohId.parse("a0a1a2a3")), (), 0.0)
    ((_, message),) = out
    assert isinstance(message, NetworkOam)
    assert message.zbuf == bytes.fromhex("02 07 00 02 04 c3c2c1c0 01 00 01 01 03 01 00 04 a3a2a1a0 01 00")


def test_the_trees_change_a_moment_after_the_links() -> None:
    node, there = Network(A), face(B)
    node.opened(there, (), 1.0)
    node.receive(there, oam(own(B, 2, 1), named(1, A)), 1.05)
    assert node.trees_at == 1.0 + TREES_DELAY
    assert not node.is_reachable(B)
    moved, _ = node.draw(1.1)
    assert moved == Moved(frozenset({B}), frozenset())
    assert node.trees_at is None
    assert node.children(A) == [there]
    assert node.parent(B) is there
    assert node.parent(A) is None
    assert node.directions(A) == {B: there}
    assert node.distance(B) == pytest.approx(100, abs=1)


def test_news_go_on_to_the_others_in_our_numbers() -> None:
    node = Network(A)
    left, right = beside(node, B, 1), beside(node, C, 2)
    news = oam(own(D, 5, 7, psid=9), LinkState(psid=7, sn=3, zid=B, whatami=1, links=(1, 9)))
    told = said(node.receive(left, news, 0.0))
    assert told[0] == (C, [own(D, 5, 1, psid=3), LinkState(psid=1, sn=3, links=(0, 3))])
    assert told[1] == (B, [named(3, D)])  # who told of it hears our number for it
    assert node.receive(left, news, 0.0) == []
    assert node.psid(D) == 3
    assert node.root(3) == D
    assert node.source(left, 9) == D
    assert node.source(right, 9) is None
    node.draw(1.0)
    assert node.directions(A) == {B: left, D: left, C: right}
    assert node.directions(D) == {C: right}
    assert node.parent(D) is left


def test_those_in_a_state_that_are_unknown_are_named() -> None:
    node = Network(A)
    left = beside(node, B, 1)
    node.receive(left, oam(LinkState(psid=0, sn=3, links=(1, 4)), named(4, D)), 0.0)
    right = face(C, 2)
    ((_, first), _) = said(node.opened(right, (), 0.0))
    assert {entry.zid for entry in first} == {A, B, C, D}
    node.receive(right, oam(own(C, 2, 1), named(1, A)), 0.0)
    (told, _) = said(node.receive(right, oam(own(C, 3, 1, 5), named(5, ZenohId(0xE))), 0.0))
    assert told == (B, [LinkState(psid=3, sn=3, links=(0, 4)), named(4, ZenohId(0xE))])


def test_a_lost_link_is_told_and_who_was_behind_it_is_gone() -> None:
    node = Network(A)
    left, right = beside(node, B, 1), beside(node, C, 2)
    node.draw(0.1)
    assert said(node.closed(left, 1.0)) == [(C, [LinkState(psid=0, sn=4, links=(2,))])]
    assert node.children(A) == [right]
    moved, _ = node.draw(1.1)
    assert moved == Moved(frozenset(), frozenset({B}))
    assert node.tree(B) is None
    assert node.parent(B) is None
    assert node.directions(B) == {}
    assert node.children(B) == []


def test_a_second_link_to_a_neighbour_outlives_the_first() -> None:
    node, first, second = Network(A), face(B, 1), face(B, 2)
    node.opened(first, (), 0.0)
    node.opened(second, (), 0.0)
    assert node.closed(first, 0.0) == []
    assert node.face(B) is second


def test_who_was_started_anew_counts_from_the_beginning() -> None:
    node = Network(A)
    left = beside(node, B)
    node.receive(left, oam(own(D, 50, 0, psid=2), LinkState(psid=0, sn=3, links=(1, 2))), 0.0)
    node.draw(0.1)
    assert node.receive(left, oam(LinkState(psid=2, sn=2, links=(0,))), 0.2) == []
    node.receive(left, oam(LinkState(psid=0, sn=4, links=(1,))), 0.3)
    node.draw(0.4)
    assert not node.is_reachable(D)
    node.receive(left, oam(LinkState(psid=2, sn=2, links=(0,)), LinkState(psid=0, sn=5, links=(1, 2))), 0.5)
    node.receive(left, oam(LinkState(psid=2, sn=1, links=())), 0.5)  # once is enough
    node.draw(0.6)
    assert node.is_reachable(D)


def test_who_stays_away_is_forgotten_and_its_number_free() -> None:
    node = Network(A)
    left = beside(node, B)
    node.receive(left, oam(own(D, 5, 0, psid=2), LinkState(psid=0, sn=3, links=(1, 2))), 0.0)
    node.draw(0.1)
    node.receive(left, oam(LinkState(psid=0, sn=4, links=(1,))), 1.0)
    node.draw(1.1)
    node.draw(1.2)
    assert node.psid(D) == 2
    node.draw(1.1 + FORGET_AFTER)
    assert node.psid(D) is None
    (_, introduced) = said(node.receive(left, oam(LinkState(psid=2, sn=6, links=(0,))), 20.0))[-1]
    assert introduced == [named(3, D)]


def test_numbers_come_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MAX_PSID", 2)
    node = Network(A)
    left = beside(node, B)
    node.receive(left, oam(own(D, 5, 0, psid=2), LinkState(psid=0, sn=3, links=(1,))), 0.0)
    for now in (0.1, 20.0):
        node.draw(now)
    assert node.psid(D) is None
    node.receive(left, oam(own(C, 1, psid=1)), 20.0)
    assert node.psid(C) == 2


def test_a_state_of_us_from_before_is_outdone() -> None:
    node = Network(A)
    left, _ = beside(node, B, 1), beside(node, C, 2)
    assert node.receive(left, oam(LinkState(psid=1, sn=3, links=())), 0.0) == []
    assert said(node.receive(left, oam(LinkState(psid=1, sn=70, links=())), 0.0)) == [
        (C, [LinkState(psid=0, sn=71, links=(1, 2))])
    ]


def test_weights_are_told_and_count() -> None:
    node = Network(A, {B: 7})
    left, right = face(B, 1), face(C, 2)
    ((_, entries),) = said(node.opened(left, (), 0.0))
    assert entries[0].weights == (7,)
    told = said(node.opened(right, (), 0.0))
    assert told[1] == (B, [LinkState(psid=0, sn=3, links=(1, 2), weights=(7, 0)), named(2, C)])
    state = LinkState(psid=0, sn=2, zid=B, whatami=1, links=(1,), weights=(500,))
    node.receive(left, oam(state, named(1, A)), 0.0)
    node.draw(0.1)
    assert node.distance(B) == pytest.approx(500, rel=0.01)


def test_what_is_not_the_state_of_a_router_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Network(A)
    left = beside(node, B)
    assert node.receive(left, NetworkOam(id=7, zbuf=b""), 0.0) == []
    assert node.receive(left, NetworkOam(id=NetworkOam.LINK_STATE, zbuf=b"\xff"), 0.0) == []
    assert node.receive(left, oam(LinkState(psid=2, sn=5, zid=D, whatami=2)), 0.0) == []
    assert node.receive(left, oam(LinkState(psid=8, sn=5)), 0.0) == []
    monkeypatch.setattr(network, "MAX_NODES", 2)
    assert node.receive(left, oam(own(C, 5, 0, psid=3), LinkState(psid=0, sn=3, links=(1, 3))), 0.0) == []
    assert node.opened(face(D, 3), (), 0.0) == []


def test_what_is_known_can_be_looked_at() -> None:
    """A line A - B - C, seen from A: who is there, how far the links count, where messages go next."""
    node = Network(A, {B: 7})
    there = beside(node, B)
    node.receive(there, oam(own(B, 3, 1, 2), named(1, A), named(2, C), own(C, 2, 0, psid=2)), 0.0)
    assert node.nodes == {0: A}
    node.draw(1.0)
    assert sorted(node.nodes.values()) == [A, B, C]
    assert [(one, other, int(far)) for one, other, far in node.edges] == [(A, B, 7), (B, C, 100)]
    assert node.weights(B) == (7, 0)
    assert node.weights(D) == (0, 0)
    assert [node.successor(root, to) for root in (A, B, C) for to in (B, C)] == [B] * 6
    assert node.successor(A, D) is None
    assert node.successor(D, A) is None
