"""The network of routers: link states, byte by byte where they were captured, and the trees that follow."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from tests.steps import steps
from zenspark.router.face import Face, Outgoing, Region
from zenspark.router.limits import Admission, RefusalReason, Refusals, RouterLimits
from zenspark.router.linkstate import network
from zenspark.router.linkstate.network import (
    SECONDS_PER_EDGE,
    TREE_RECOMPUTATION_DELAY_SECONDS,
    UNREACHABLE_NODE_TTL_SECONDS,
    ReachabilityChange,
    RouterNetwork,
)
from zenspark.router.linkstate.states import RELAY_STATE_OAM_ID
from zenspark.wire.codec import decode_link_states, encode_link_states
from zenspark.wire.messages import LinkState, NetworkOam
from zenspark.wire.values import Locator, WhatAmI, ZenohId

A, B, C, D = (ZenohId(number) for number in (0xA, 0xB, 0xC, 0xD))


def face(zid: ZenohId, number: int = 1) -> Face:
    return Face(number, zid, WhatAmI.ROUTER, Region.ROUTER)


def oam(*entries: LinkState) -> NetworkOam:
    return NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(entries))


def sent(out: Outgoing) -> list[tuple[ZenohId, list[LinkState]]]:
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


def beside(node: RouterNetwork, other: ZenohId, number: int = 1) -> Face:
    """A router beside a node, known to be so by both."""
    there = face(other, number)
    node.add_neighbour(there, (), 0.0)
    node.receive(there, oam(own(other, 2, 1), named(1, node.zid)), 0.0)
    return there


def test_first_link_state_message_is_as_captured() -> None:
    """Section 16.6: self with links, and the new neighbour."""
    node = RouterNetwork(ZenohId.parse("c0c1c2c3"))
    out = node.add_neighbour(face(ZenohId.parse("a0a1a2a3")), (), 0.0)
    ((_, message),) = out
    assert isinstance(message, NetworkOam)
    assert message.zbuf == bytes.fromhex("02 07 00 02 04 c3c2c1c0 01 00 01 01 03 01 00 04 a3a2a1a0 01 00")


def test_trees_are_recomputed_after_a_delay_when_links_change() -> None:
    node, there = RouterNetwork(A), face(B)
    node.add_neighbour(there, (), 1.0)
    node.receive(there, oam(own(B, 2, 1), named(1, A)), 1.05)
    assert node.trees_due_at == 1.0 + TREE_RECOMPUTATION_DELAY_SECONDS
    assert not node.is_reachable(B)
    moved, _ = node.recompute_trees(1.1)
    assert moved == ReachabilityChange(frozenset({B}), frozenset())
    assert node.trees_due_at is None
    assert node.children(A) == [there]
    assert node.parent(B) is there
    assert node.parent(A) is None
    assert node.next_hops(A) == {B: there}
    assert node.distance(B) == pytest.approx(100, abs=1)


def test_newer_states_are_flooded_with_own_psids() -> None:
    node = RouterNetwork(A)
    left, right = beside(node, B, 1), beside(node, C, 2)
    news = oam(own(D, 5, 7, psid=9), LinkState(psid=7, sn=3, zid=B, whatami=1, links=(1, 9)))
    announced = sent(node.receive(left, news, 0.0))
    assert announced[0] == (C, [own(D, 5, 1, psid=3), LinkState(psid=1, sn=3, links=(0, 3))])
    assert announced[1] == (B, [named(3, D)])  # the neighbour that announced it receives our psid for it
    assert node.receive(left, news, 0.0) == []
    assert node.psid(D) == 3
    assert node.root(3) == D
    assert node.source(left, 9) == D
    assert node.source(right, 9) is None
    node.recompute_trees(1.0)
    assert node.next_hops(A) == {B: left, D: left, C: right}
    assert node.next_hops(D) == {C: right}
    assert node.parent(D) is left


def test_locators_in_a_state_are_flooded_with_it() -> None:
    node, locators = RouterNetwork(A), (Locator("tcp/192.0.2.1:7447"),)
    left, _ = beside(node, B, 1), beside(node, C, 2)
    state = LinkState(psid=0, sn=3, locators=locators, links=(1,))
    ((to, (announced,)),) = sent(node.receive(left, oam(state), 0.0))
    assert (to, announced.locators) == (C, locators)


def test_unknown_nodes_in_a_state_are_announced_with_it() -> None:
    node = RouterNetwork(A)
    left = beside(node, B, 1)
    node.receive(left, oam(LinkState(psid=0, sn=3, links=(1, 4)), named(4, D)), 0.0)
    right = face(C, 2)
    ((_, first), _) = sent(node.add_neighbour(right, (), 0.0))
    assert {entry.zid for entry in first} == {A, B, C, D}
    node.receive(right, oam(own(C, 2, 1), named(1, A)), 0.0)
    (announced, _) = sent(node.receive(right, oam(own(C, 3, 1, 5), named(5, ZenohId(0xE))), 0.0))
    assert announced == (B, [LinkState(psid=3, sn=3, links=(0, 4)), named(4, ZenohId(0xE))])


def test_lost_link_is_flooded_and_nodes_behind_it_become_unreachable() -> None:
    node = RouterNetwork(A)
    left, right = beside(node, B, 1), beside(node, C, 2)
    node.recompute_trees(0.1)
    assert sent(node.remove_neighbour(left, 1.0)) == [(C, [LinkState(psid=0, sn=4, links=(2,))])]
    assert node.children(A) == [right]
    moved, _ = node.recompute_trees(1.1)
    assert moved == ReachabilityChange(frozenset(), frozenset({B}))
    assert node.tree(B) is None
    assert node.parent(B) is None
    assert node.next_hops(B) == {}
    assert node.children(B) == []


def test_a_second_link_to_a_neighbour_outlives_the_first() -> None:
    node, first, second = RouterNetwork(A), face(B, 1), face(B, 2)
    node.add_neighbour(first, (), 0.0)
    node.add_neighbour(second, (), 0.0)
    assert node.remove_neighbour(first, 0.0) == []
    assert node.face(B) is second


def test_restarted_node_may_use_lower_versions() -> None:
    node = RouterNetwork(A)
    left = beside(node, B)
    node.receive(left, oam(own(D, 50, 0, psid=2), LinkState(psid=0, sn=3, links=(1, 2))), 0.0)
    node.recompute_trees(0.1)
    assert node.receive(left, oam(LinkState(psid=2, sn=2, links=(0,))), 0.2) == []
    node.receive(left, oam(LinkState(psid=0, sn=4, links=(1,))), 0.3)
    node.recompute_trees(0.4)
    assert not node.is_reachable(D)
    node.receive(left, oam(LinkState(psid=2, sn=2, links=(0,)), LinkState(psid=0, sn=5, links=(1, 2))), 0.5)
    node.receive(left, oam(LinkState(psid=2, sn=1, links=())), 0.5)  # once is enough
    node.recompute_trees(0.6)
    assert node.is_reachable(D)


def test_unreachable_node_is_removed_and_its_psid_freed() -> None:
    node = RouterNetwork(A)
    left = beside(node, B)
    node.receive(left, oam(own(D, 5, 0, psid=2), LinkState(psid=0, sn=3, links=(1, 2))), 0.0)
    node.recompute_trees(0.1)
    node.receive(left, oam(LinkState(psid=0, sn=4, links=(1,))), 1.0)
    node.recompute_trees(1.1)
    node.recompute_trees(1.2)
    assert node.psid(D) == 2
    node.recompute_trees(1.1 + UNREACHABLE_NODE_TTL_SECONDS)
    assert node.psid(D) is None
    (_, introduced) = sent(node.receive(left, oam(LinkState(psid=2, sn=6, links=(0,))), 20.0))[-1]
    assert introduced == [named(3, D)]


def test_psids_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MAX_PSID", 2)
    node = RouterNetwork(A)
    left = beside(node, B)
    node.receive(left, oam(own(D, 5, 0, psid=2), LinkState(psid=0, sn=3, links=(1,))), 0.0)
    for now in (0.1, 20.0):
        node.recompute_trees(now)
    assert node.psid(D) is None
    node.receive(left, oam(own(C, 1, psid=1)), 20.0)
    assert node.psid(C) == 2


def test_own_version_is_raised_above_one_from_before_a_restart() -> None:
    node = RouterNetwork(A)
    left, _ = beside(node, B, 1), beside(node, C, 2)
    assert node.receive(left, oam(LinkState(psid=1, sn=3, links=())), 0.0) == []
    assert sent(node.receive(left, oam(LinkState(psid=1, sn=70, links=())), 0.0)) == [
        (C, [LinkState(psid=0, sn=71, links=(1, 2))])
    ]


def test_forged_own_version_near_the_maximum_is_ignored() -> None:
    node = RouterNetwork(A)
    to_b = beside(node, B)
    assert node.receive(to_b, oam(own(A, (1 << 64) - 1, psid=1)), 0.0) == []
    assert sent(node.add_neighbour(face(C, 2), (), 0.0))
    assert sent(node.receive(to_b, oam(own(A, (1 << 63) - 1, psid=1)), 0.0))[0][1][0].sn == 1 << 63


def test_weights_are_announced_and_applied() -> None:
    node = RouterNetwork(A, {B: 7})
    left, right = face(B, 1), face(C, 2)
    ((_, entries),) = sent(node.add_neighbour(left, (), 0.0))
    assert entries[0].weights == (7,)
    announced = sent(node.add_neighbour(right, (), 0.0))
    assert announced[1] == (B, [LinkState(psid=0, sn=3, links=(1, 2), weights=(7, 0)), named(2, C)])
    state = LinkState(psid=0, sn=2, zid=B, whatami=1, links=(1,), weights=(500,))
    node.receive(left, oam(state, named(1, A)), 0.0)
    node.recompute_trees(0.1)
    assert node.distance(B) == pytest.approx(500, rel=0.01)


def test_messages_without_router_link_states_are_ignored() -> None:
    node = RouterNetwork(A)
    left = beside(node, B)
    assert node.receive(left, NetworkOam(id=7, zbuf=b""), 0.0) == []
    assert node.receive(left, NetworkOam(id=NetworkOam.LINK_STATE, zbuf=b"\xff"), 0.0) == []
    assert node.receive(left, oam(LinkState(psid=2, sn=5, zid=D, whatami=2)), 0.0) == []
    assert node.receive(left, oam(LinkState(psid=8, sn=5)), 0.0) == []


def test_number_of_network_nodes_is_limited() -> None:
    refusals = Refusals()
    node = RouterNetwork(A, admission=Admission(RouterLimits(network_nodes=2), refusals))
    left = beside(node, B)
    assert node.receive(left, oam(own(C, 5, 0, psid=3), LinkState(psid=0, sn=2, links=(1, 3))), 0.0) == []
    assert node.add_neighbour(face(D, 3), (), 0.0) == []
    assert refusals.counts == {RefusalReason.NETWORK_NODES: 2}


def test_number_of_network_links_is_limited() -> None:
    refusals = Refusals()
    node = RouterNetwork(A, admission=Admission(RouterLimits(node_links=2, network_links=4), refusals))
    left = beside(node, B)
    node.receive(left, oam(own(B, 3, 1, 2), named(1, A), named(2, C), own(C, 2, 0, 1, psid=2)), 0.0)
    assert refusals.counts == {}
    node.receive(left, oam(own(D, 2, 0, psid=4)), 0.0)
    assert refusals.counts == {RefusalReason.NETWORK_LINKS: 1}
    node.receive(left, oam(own(C, 3, 1, psid=2), own(D, 3, 0, psid=4)), 0.0)
    assert refusals.counts == {RefusalReason.NETWORK_LINKS: 1}
    node.receive(left, oam(own(C, 4, 0, 1, 4, psid=2)), 0.0)
    assert refusals.counts == {RefusalReason.NETWORK_LINKS: 2}


def forged_states(count: int, links: int) -> list[LinkState]:
    """Routers behind B (number 0), which all know those next to them in a ring, numbered from 2 on."""
    zids = [ZenohId((number + 1000) << 64 | 1) for number in range(count)]
    names = [named(number + 2, zid) for number, zid in enumerate(zids)]
    around = [
        tuple((number + step) % count + 2 for half in range(1, links // 2 + 1) for step in (half, -half))
        for number in range(count)
    ]
    own_links = [LinkState(psid=number + 2, sn=1, links=(0, *around[number])) for number in range(count)]
    return [*names, *own_links, LinkState(psid=0, sn=3, links=(1, *range(2, 202)))]


@pytest.mark.slow
def test_forged_full_mesh_of_routers_takes_few_steps() -> None:
    refusals = Refusals()
    node = RouterNetwork(A, admission=Admission(RouterLimits(), refusals))
    left = beside(node, B)
    message = oam(*forged_states(700, 698))
    assert steps(lambda: node.receive(left, message, 0.0), "/zenspark/router/") < 200_000  # reading it is linear
    assert steps(lambda: node.recompute_trees(1.0)) < 200_000
    assert refusals.counts == {RefusalReason.NETWORK_LINKS: 700}


@pytest.mark.slow
def test_change_of_one_link_takes_steps_linear_in_the_number_of_links() -> None:
    node = RouterNetwork(A)
    left = beside(node, B)
    node.receive(left, oam(*forged_states(700, 12)), 0.0)
    node.recompute_trees(1.0)
    assert len(node.nodes) == 702
    links = node._link_count
    roots = list(node.nodes.values())
    for sn in range(2, 5):
        node.receive(left, oam(LinkState(psid=2, sn=sn, links=(0,) if sn % 2 else (0, 3, 4))), 10.0 * sn)

        def follow() -> None:
            node.recompute_trees(10.0)
            for root in roots:
                node.parent(root)
                node.children(root)

        assert steps(follow) < 40 * links


@pytest.mark.slow
def test_tree_computations_are_delayed_in_proportion_to_their_cost() -> None:
    node = RouterNetwork(A)
    left = beside(node, B)
    node.receive(left, oam(*forged_states(700, 12)), 0.0)
    # the first computation was due before there was so much to compute
    assert node.trees_due_at == TREE_RECOMPUTATION_DELAY_SECONDS
    node.recompute_trees(5.0)
    node.receive(left, oam(LinkState(psid=2, sn=2, links=(0,))), 5.0)
    assert node.trees_due_at == pytest.approx(5.0 + 10 * SECONDS_PER_EDGE * node._link_count * 2)
    assert node.trees_due_at > 5.0 + TREE_RECOMPUTATION_DELAY_SECONDS
    node.recompute_trees(6.0)
    node.receive(left, oam(LinkState(psid=2, sn=3, links=(0, 3))), 60.0)
    assert node.trees_due_at == 60.0 + TREE_RECOMPUTATION_DELAY_SECONDS


@pytest.mark.parametrize("seed", range(20))
def test_parents_and_children_are_those_of_the_trees(seed: int) -> None:
    """The few trees that are computed have the same routes as one for each root would."""
    chance = random.Random(seed)
    zids = [ZenohId(chance.getrandbits(127) | 1) for _ in range(12)]
    pairs = [pair for pair in combinations(range(12), 2) if chance.random() < 0.3]
    links = {at: [b if a == at else a for a, b in pairs if at in (a, b)] for at in range(12)}
    node = RouterNetwork(zids[0])
    for number, other in enumerate(links[0]):
        node.add_neighbour(face(zids[other], number + 1), (), 0.0)
    for announcer in list(node._neighbours):
        for at in range(12):
            weights = tuple(1 + (at + other) % 3 for other in links[at])
            state = LinkState(psid=at, sn=9, zid=zids[at], whatami=1, links=tuple(links[at]), weights=weights)
            node.receive(announcer, oam(state), 0.0)
    node.recompute_trees(1.0)
    for root in zids:
        tree = node.tree(root)
        parent = None if tree is None or tree.parent is None else node.face(tree.parent)
        assert node.parent(root) is parent
        children = [] if tree is None else [node.face(zid) for zid in sorted(tree.children)]
        assert node.children(root) == children


def test_network_can_be_inspected() -> None:
    """A line A - B - C, seen from A: nodes, distances, next hops."""
    node = RouterNetwork(A, {B: 7})
    there = beside(node, B)
    node.receive(there, oam(own(B, 3, 1, 2), named(1, A), named(2, C), own(C, 2, 0, psid=2)), 0.0)
    assert node.nodes == {0: A}
    node.recompute_trees(1.0)
    assert sorted(node.nodes.values()) == [A, B, C]
    assert [(one, other, int(far)) for one, other, far in node.edges] == [(A, B, 7), (B, C, 100)]
    assert node.weights(B) == (7, 0)
    assert node.weights(D) == (0, 0)
    assert [node.successor(root, to) for root in (A, B, C) for to in (B, C)] == [B] * 6
    assert node.successor(A, D) is None
    assert node.successor(D, A) is None


# -- relays


def relay(zid: ZenohId, number: int = 1) -> Face:
    return Face(number, zid, WhatAmI.PEER, Region.ROUTER, relays=True)


def relay_state(*entries: LinkState) -> NetworkOam:
    return NetworkOam(id=RELAY_STATE_OAM_ID, zbuf=encode_link_states(entries))


def test_relays_exchange_states_under_an_id_of_their_own() -> None:
    """On the same link they gossip under the other, in other numbers."""
    node, there = RouterNetwork(A), relay(B)
    ((_, message),) = node.add_neighbour(there, (), 0.0)
    assert isinstance(message, NetworkOam)
    assert message.id == RELAY_STATE_OAM_ID
    assert node.receive(there, oam(own(B, 2, 1), named(1, A)), 0.0) == []
    node.recompute_trees(1.0)
    assert not node.is_reachable(B)
    node.receive(there, relay_state(own(B, 2, 1), named(1, A)), 0.0)
    node.recompute_trees(2.0)
    assert node.is_reachable(B)


def test_states_a_relay_receives_directly_are_not_flooded_to_it() -> None:
    """Only the number is: messages of that node may come through us later."""
    node, one, other = RouterNetwork(A), relay(B, 1), relay(C, 2)
    for there, beyond in ((one, C), (other, B)):
        node.add_neighbour(there, (), 0.0)
        node.receive(there, relay_state(own(there.zid, 2, 1, 2), named(1, A), named(2, beyond)), 0.0)
    assert sent(node.receive(one, relay_state(own(B, 3, 1, 2)), 0.0)) == []
    assert sent(node.receive(one, relay_state(own(B, 4, 1)), 0.0)) != [], "they are not linked any more"
    assert sent(node.receive(one, relay_state(own(B, 5, 1, 3), named(3, D)), 0.0)) != []


def test_peer_served_by_a_router_is_reached_via_network_but_in_no_tree() -> None:
    """It announces no links, so it is no part of any tree."""
    router, there = RouterNetwork(B), relay(A)
    router.add_neighbour(there, (), 0.0)
    ((_, (state, name)),) = sent(router.set_served_peer(C, True, face(C), 0.0))
    assert (state.psid, len(state.links)) == (0, 2)
    assert name.zid == C
    node, back = RouterNetwork(A), relay(B)
    node.add_neighbour(back, (), 0.0)
    node.receive(back, relay_state(own(B, 9, 1, 2), named(1, A), named(2, C)), 0.0)
    node.recompute_trees(1.0)
    assert node.reached_via_network == {A, B, C}
    assert not node.is_reachable(C)
    ((_, (state,)),) = sent(router.set_served_peer(C, False, face(C), 2.0))
    assert state.links == (1,)
    assert router.set_served_peer(C, False, face(C), 2.0) == []
    node.receive(back, relay_state(own(B, 10, 1)), 2.0)
    node.recompute_trees(3.0)
    assert node.reached_via_network == {A, B}


@pytest.mark.parametrize("served", [True, False])
def test_trees_are_recomputed_after_a_delay_when_a_served_peer_changes(served: bool) -> None:
    router = RouterNetwork(A)
    if not served:
        router.set_served_peer(C, True, face(C), 0.0)
        router.recompute_trees(0.1)
    assert router.trees_due_at is None
    router.set_served_peer(C, served, face(C), 1.0)
    assert router.trees_due_at == 1.0 + TREE_RECOMPUTATION_DELAY_SECONDS


def test_served_peer_over_the_node_limit_is_not_announced() -> None:
    router = RouterNetwork(B, admission=Admission(RouterLimits(network_nodes=1), Refusals()))
    assert router.set_served_peer(C, True, face(C), 0.0) == []


def test_trees_are_recomputed_at_once_for_the_first_state_of_a_relay() -> None:
    """It may publish at once; links that come and go between known nodes can wait."""
    node, there = RouterNetwork(A), relay(B)
    node.add_neighbour(there, (), 1.0)
    assert node.trees_due_at == 1.0 + TREE_RECOMPUTATION_DELAY_SECONDS
    node.receive(there, relay_state(own(B, 2, 1), named(1, A)), 1.05)
    assert node.trees_due_at == 1.05
    node.recompute_trees(1.05)
    assert node.is_reachable(B)
    node.receive(there, relay_state(own(B, 3, 1, 2), named(2, C)), 2.0)
    assert node.trees_due_at == 2.0 + TREE_RECOMPUTATION_DELAY_SECONDS
    node.receive(there, relay_state(own(C, 1, 0, psid=2)), 2.01)
    assert node.trees_due_at == 2.01


def test_trees_are_recomputed_at_once_for_a_relay_only_once() -> None:
    """However often it announces links: until it is removed."""
    node, there = RouterNetwork(A), relay(B)
    node.add_neighbour(there, (), 0.0)
    node.receive(there, relay_state(own(B, 2, 2), named(2, D)), 1.0)
    assert node.trees_due_at == 0.1
    node.recompute_trees(1.0)
    assert not node.is_reachable(B)
    for sn in range(3, 10):
        node.receive(there, relay_state(own(B, sn, *([2] * (sn % 2)))), 2.0)
    assert node.trees_due_at == 2.0 + TREE_RECOMPUTATION_DELAY_SECONDS


@pytest.mark.parametrize(
    "limits",
    [RouterLimits(network_nodes=2), RouterLimits(node_links=1), RouterLimits(network_links=1)],
)
def test_network_has_capacity_until_a_limit_is_reached(limits: RouterLimits) -> None:
    node, there = RouterNetwork(A, admission=Admission(limits, Refusals())), relay(B)
    assert node.has_capacity
    node.add_neighbour(there, (), 0.0)
    node.receive(there, relay_state(own(B, 2, 1), named(1, A)), 0.0)
    assert not node.has_capacity
