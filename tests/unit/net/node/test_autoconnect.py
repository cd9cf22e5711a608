"""Autoconnect: nodes find each other in a multicast group and by gossip, and connect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.unit.net.ends import free_group
from tests.unit.net.nodes import TestNode, call, nodes
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import UsageError
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import find_interface
from zenspark.net.node.autoconnect import Autoconnector, AutoconnectPolicy
from zenspark.net.node.scouting import ScoutingSettings
from zenspark.router.linkstate.gossip import DiscoveredNode
from zenspark.wire.values import Locator, Roles, WhatAmI, ZenohId

A, B, C = 0xA1, 0xB1, 0xC1
ALL = AutoconnectPolicy(Roles(7))
LO = find_interface("127.0.0.1").name


@pytest.fixture
def group() -> ScoutingSettings:
    """A group on loopback that no other test uses."""
    return ScoutingSettings(address=free_group(), interface=LO)


@contextlib.contextmanager
def discovering(*made: TestNode, single: bool = False) -> Iterator[list[Autoconnector]]:
    found = [Autoconnector(node, Endpoint.parse, single) for node in made]
    for node, autoconnector in zip(made, found, strict=True):
        node.observer.autoconnector = autoconnector
    with contextlib.ExitStack() as stack:
        for autoconnector in found:
            stack.callback(autoconnector.close)
        with nodes(*made):
            yield found


def test_peers_find_each_other_and_have_one_link(group: ScoutingSettings) -> None:
    alice, bob, carol = TestNode(A), TestNode(B), TestNode(C)
    with discovering(alice, bob, carol) as found:
        for node, autoconnector in zip((alice, bob, carol), found, strict=True):
            node.listen_on_loopback()
            autoconnector.respond(group)
            autoconnector.scout(group, ALL)
        alice.wait_for(B, C)
        bob.wait_for(A, C)
        carol.wait_for(A, B)
        assert len(alice.drivers) == 2


@pytest.mark.slow
def test_client_connects_to_one_scouted_node_and_reconnects_when_it_is_lost(group: ScoutingSettings) -> None:
    one, other = TestNode(B, WhatAmI.ROUTER), TestNode(C, WhatAmI.ROUTER)
    client = TestNode(A, WhatAmI.CLIENT)
    with discovering(one, other) as (first, second), discovering(client, single=True) as (looking,):
        for node, autoconnector in ((one, first), (other, second)):
            node.listen_on_loopback()
            autoconnector.respond(group)
        looking.scout(group, ALL)
        assert client.wait(lambda: len(client.neighbours()) == 1, TIMEOUT_SECONDS)
        (had,) = client.neighbours()
        left = C if had == B else B
        (one if had == B else other).close()
        client.wait_for(left)


def test_without_autoconnect_roles_no_scout_is_sent(group: ScoutingSettings) -> None:
    alice = TestNode(A)
    with discovering(alice) as (autoconnector,):
        autoconnector.scout(group, AutoconnectPolicy())
        assert autoconnector._scouter is None


def test_node_discovered_by_gossip_is_connected_to() -> None:
    alice, bob, carol = (TestNode(number, gossip=True) for number in (A, B, C))
    with discovering(alice, bob, carol) as found:
        there = alice.listen_on_loopback()
        bob.listen_on_loopback()
        carol.listen_on_loopback()
        for autoconnector in found:
            autoconnector.set_gossip_policy(ALL)
        call(bob, there)
        alice.wait_for(B)
        call(carol, there)
        carol.wait_for(A, B)
        bob.wait_for(A, C)


def test_of_two_only_the_one_with_the_greater_id_connects() -> None:
    greater = AutoconnectPolicy(Roles(7), only_smaller=Roles(WhatAmI.PEER.bit))
    peer, router = DiscoveredNode(ZenohId(5), WhatAmI.PEER, ()), DiscoveredNode(ZenohId(5), WhatAmI.ROUTER, ())
    assert greater.allows(ZenohId(6), peer)
    assert not greater.allows(ZenohId(4), peer)
    assert greater.allows(ZenohId(4), router)
    assert not AutoconnectPolicy(Roles(1)).allows(ZenohId(6), peer)


def test_locators_are_tried_in_order_and_invalid_ones_skipped() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with discovering(alice) as (autoconnector,), nodes(bob):
        there = bob.listen_on_loopback()
        bad = ("nonsense/1", "tcp/127.0.0.1:1", "tcp/no-port")
        found = DiscoveredNode(ZenohId(B), WhatAmI.PEER, tuple(Locator(text) for text in (*bad, str(there))))
        autoconnector._connect_if_allowed(found, ALL)
        autoconnector._connect_if_allowed(found, ALL)
        alice.wait_for(B)
        autoconnector._connect_if_allowed(found, ALL)
        assert len(alice.drivers) == 1


def test_locators_of_disabled_protocols_are_skipped() -> None:
    alice = TestNode(A)

    def refuse(text: str) -> Endpoint:
        raise UsageError(f"{text} is forbidden")

    autoconnector = Autoconnector(alice, refuse)
    with nodes(alice):
        found = DiscoveredNode(ZenohId(B), WhatAmI.PEER, (Locator("tcp/127.0.0.1:1"),))
        autoconnector._connect(found)
        autoconnector._connect_if_allowed(DiscoveredNode(ZenohId(A), WhatAmI.PEER, ()), ALL)
        assert autoconnector._connecting == set()
    autoconnector._connect_if_allowed(found, ALL)
    assert autoconnector._connecting == set(), "a node that is closed connects to nobody"
