"""Gossip: which link states a node sends to which neighbour; protocol section 16.7."""

from __future__ import annotations

import pytest

from zenspark.router.face import REGION_BY_ROLES, Face, Outgoing
from zenspark.router.linkstate import gossip
from zenspark.router.linkstate.gossip import DiscoveredNode, GossipProtocol
from zenspark.wire.codec import decode_link_states, encode, encode_link_states
from zenspark.wire.messages import LinkState, NetworkOam
from zenspark.wire.values import Locator, QoS, Roles, WhatAmI, ZenohId

OWN = ZenohId(0xA0)
ALL_ROLES = Roles(7)
HERE = (Locator("tcp/127.0.0.1:1"),)
THERE = (Locator("tcp/127.0.0.1:44407"),)


def neighbour(number: int, whatami: WhatAmI = WhatAmI.PEER) -> Face:
    return Face(number, ZenohId(number), whatami, REGION_BY_ROLES[WhatAmI.PEER, whatami])


def make_oam(*entries: LinkState) -> NetworkOam:
    return NetworkOam(id=NetworkOam.LINK_STATE, qos=QoS.DECLARE, zbuf=encode_link_states(entries))


def about_self(face: Face, locators: tuple[Locator, ...] = THERE, sn: int = 1) -> NetworkOam:
    return make_oam(LinkState(psid=0, sn=sn, zid=face.zid, whatami=face.whatami.bit, locators=locators))


def entries(out: Outgoing) -> list[tuple[int, list[LinkState]]]:
    """The link states by receiver."""
    found = []
    for face, message in out:
        assert isinstance(message, NetworkOam)
        assert message.zbuf is not None
        found.append((face.zid.value, list(decode_link_states(message.zbuf))))
    return found


def peer(multihop: bool = False, targets: Roles = ALL_ROLES) -> GossipProtocol:
    return GossipProtocol(OWN, WhatAmI.PEER, targets, multihop)


def test_new_neighbour_gets_entries_of_this_node_and_itself() -> None:
    face = neighbour(0xB1)
    assert entries(peer().add_neighbour(face, HERE)) == [
        (
            0xB1,
            [
                LinkState(psid=0, sn=1, zid=OWN, whatami=2, locators=HERE),
                LinkState(psid=1, sn=0, zid=face.zid, whatami=2),
            ],
        )
    ]


def test_no_gossip_to_roles_outside_the_targets() -> None:
    node = peer(targets=Roles(WhatAmI.ROUTER.bit))
    assert node.add_neighbour(neighbour(0xB1), HERE) == []
    assert len(node.add_neighbour(neighbour(0xB2, WhatAmI.ROUTER), HERE)) == 1


def test_locators_of_a_new_neighbour_are_forwarded_to_the_others() -> None:
    node = GossipProtocol(OWN, WhatAmI.ROUTER, ALL_ROLES)
    first, second = neighbour(0xB1), neighbour(0xB2)
    node.add_neighbour(first, HERE)
    node.add_neighbour(second, HERE)
    found, out = node.receive(second, about_self(second))
    assert found == [DiscoveredNode(second.zid, WhatAmI.PEER, THERE)]
    ((face, message),) = out
    assert face is first
    head, text = bytes.fromhex("df0121081d0107020101b2020113"), b"tcp/127.0.0.1:44407"
    assert encode(message) == head + text + b"\0"


def test_new_neighbour_gets_locators_of_the_others() -> None:
    node = peer()
    first, silent, late = neighbour(0xB1), neighbour(0xB3), neighbour(0xB2)
    node.add_neighbour(first, HERE)
    node.add_neighbour(silent, HERE)
    node.receive(first, about_self(first))
    ((_, received),) = entries(node.add_neighbour(late, HERE))
    assert [entry.zid for entry in received] == [OWN, late.zid, first.zid]
    assert received[2].locators == THERE


def test_known_locators_are_not_forwarded_again() -> None:
    node = peer()
    first, second = neighbour(0xB1), neighbour(0xB2)
    node.add_neighbour(first, HERE)
    node.add_neighbour(second, HERE)
    assert len(node.receive(first, about_self(first))[0]) == 1
    assert node.receive(first, about_self(first)) == ([], [])
    assert node.receive(first, about_self(first, sn=2)) == ([], [])
    assert node.receive(first, about_self(first, HERE, sn=1)) == ([], []), "older than what is known"
    found, out = node.receive(first, about_self(first, HERE, sn=3))
    assert found == [DiscoveredNode(first.zid, WhatAmI.PEER, HERE)]
    assert len(out) == 1


@pytest.mark.parametrize("multihop", [False, True])
def test_entries_of_non_neighbours_are_forwarded_only_with_multihop(multihop: bool) -> None:
    node = peer(multihop)
    first, second = neighbour(0xB1), neighbour(0xB2)
    node.add_neighbour(first, HERE)
    node.add_neighbour(second, HERE)
    rumour = make_oam(LinkState(psid=7, sn=1, zid=ZenohId(0xC1), whatami=2, locators=THERE))
    found, out = node.receive(first, rumour)
    assert found == [DiscoveredNode(ZenohId(0xC1), WhatAmI.PEER, THERE)]
    assert [face for face, _ in out] == ([second] if multihop else [])
    ((_, received),) = entries(node.add_neighbour(neighbour(0xB3), HERE))
    assert (ZenohId(0xC1) in [entry.zid for entry in received]) is multihop


def test_psid_resolves_to_the_announced_node() -> None:
    node = peer()
    face = neighbour(0xB1)
    node.add_neighbour(face, HERE)
    assert node.receive(face, make_oam(LinkState(psid=4, sn=1, zid=ZenohId(0xC1), whatami=2))) == ([], [])
    assert node.receive(face, make_oam(LinkState(psid=9, sn=1, whatami=2, locators=THERE))) == ([], []), (
        "never explained"
    )
    found, _ = node.receive(face, make_oam(LinkState(psid=4, sn=2, whatami=2, locators=THERE)))
    assert found == [DiscoveredNode(ZenohId(0xC1), WhatAmI.PEER, THERE)]


def test_entries_of_this_node_or_without_role_are_ignored() -> None:
    node = peer()
    face = neighbour(0xB1)
    node.add_neighbour(face, HERE)
    assert node.receive(face, make_oam(LinkState(psid=1, sn=9, zid=OWN, whatami=2, locators=THERE))) == ([], [])
    assert node.receive(face, make_oam(LinkState(psid=2, sn=9, zid=ZenohId(0xC1), locators=THERE))) == ([], [])
    assert node.receive(face, make_oam(LinkState(psid=2, sn=9, zid=ZenohId(0xC1), whatami=3, locators=THERE))) == (
        [],
        [],
    )


@pytest.mark.parametrize(
    "message",
    [
        NetworkOam(id=1, zbuf=b"\x05\x07"),
        NetworkOam(id=1, value=3),
        NetworkOam(id=2, zbuf=encode_link_states([])),
    ],
)
def test_messages_that_are_no_gossip_are_ignored(message: NetworkOam) -> None:
    node = peer()
    face = neighbour(0xB1)
    node.add_neighbour(face, HERE)
    assert node.receive(face, message) == ([], [])


def test_removed_neighbour_is_not_announced_any_more() -> None:
    node = peer()
    first, second = neighbour(0xB1), neighbour(0xB2)
    node.add_neighbour(first, HERE)
    node.receive(first, about_self(first))
    node.remove_neighbour(first)
    assert node.receive(first, about_self(first)) == ([], []), "what was received over a link that is gone"
    ((_, received),) = entries(node.add_neighbour(second, HERE))
    assert [entry.zid for entry in received] == [OWN, second.zid]
    again = neighbour(0xB1)
    node.add_neighbour(again, HERE)
    assert len(node.receive(again, about_self(again))[0]) == 1


def test_with_two_links_a_node_is_gone_with_the_second() -> None:
    node = peer()
    first, twin = neighbour(0xB1), neighbour(0xB1)
    node.add_neighbour(first, HERE)
    node.add_neighbour(twin, HERE)
    node.receive(first, about_self(first))
    node.remove_neighbour(first)
    assert node.receive(twin, about_self(twin)) == ([], []), "it is known"
    node.remove_neighbour(twin)
    node.remove_neighbour(twin)


def test_number_of_gossip_nodes_and_locators_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gossip, "MAX_GOSSIP_NODES", 5)
    node = peer()
    face = neighbour(0xB1)
    node.add_neighbour(face, HERE)
    many = [LinkState(psid=n, sn=1, zid=ZenohId(n), whatami=2, locators=THERE * 100) for n in range(1, 20)]
    found, _ = node.receive(face, make_oam(*many))
    assert len(found) == 4
    assert all(len(one.locators) == gossip.MAX_LOCATORS_PER_NODE for one in found)
    assert node.add_neighbour(neighbour(0xB2), HERE) == [], "a neighbour too many has a session, but no gossip"


def test_psids_beyond_the_limit_are_not_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gossip, "MAX_GOSSIP_NODES", 2)
    node = peer()
    face = neighbour(0xB1)
    node.add_neighbour(face, HERE)
    node.receive(face, make_oam(*[LinkState(psid=n, sn=1, zid=ZenohId(n), whatami=2) for n in (1, 2, 3)]))
    assert node.receive(face, make_oam(LinkState(psid=3, sn=2, whatami=2, locators=THERE))) == ([], [])
    found, _ = node.receive(face, make_oam(LinkState(psid=2, sn=2, whatami=2, locators=THERE)))
    assert found == [DiscoveredNode(ZenohId(2), WhatAmI.PEER, THERE)]


def test_peer_announces_its_links_to_its_router_as_eclipse_zenoh_does() -> None:
    node = peer()
    router, other = neighbour(0xA1, WhatAmI.ROUTER), neighbour(0xB1)
    ((_, first),) = entries(node.add_neighbour(router, HERE))
    assert first == [
        LinkState(psid=0, sn=1, zid=OWN, whatami=2, locators=HERE, links=(1,)),
        LinkState(psid=1, sn=0, zid=router.zid, whatami=1, gateway=True),
    ]
    assert entries(node.add_neighbour(other, HERE))[0] == (
        0xA1,
        [
            LinkState(psid=2, sn=0, zid=other.zid, whatami=2),
            LinkState(psid=0, sn=2, whatami=2, locators=HERE, links=(1, 2)),
        ],
    )
    assert entries(node.remove_neighbour(other)) == [
        (0xA1, [LinkState(psid=0, sn=3, whatami=2, locators=HERE, links=(1,))])
    ]


def test_late_router_gets_all_links() -> None:
    node = peer()
    node.add_neighbour(neighbour(0xB1), HERE)
    ((_, announced),) = entries(node.add_neighbour(neighbour(0xA1, WhatAmI.ROUTER), HERE))
    assert announced[0].links == (1, 2)
    assert [(entry.psid, entry.zid) for entry in announced[1:]] == [(2, ZenohId(0xA1)), (1, ZenohId(0xB1))]


def test_router_does_not_gossip_to_other_routers() -> None:
    node = GossipProtocol(OWN, WhatAmI.ROUTER, ALL_ROLES)
    beside = Face(1, ZenohId(0xA1), WhatAmI.ROUTER, REGION_BY_ROLES[WhatAmI.ROUTER, WhatAmI.ROUTER])
    assert node.add_neighbour(beside, HERE) == []
    assert node.add_neighbour(neighbour(0xB1), HERE)
    assert node.receive(beside, about_self(beside))[0] == [DiscoveredNode(beside.zid, WhatAmI.ROUTER, THERE)]


@pytest.mark.parametrize("role", [WhatAmI.ROUTER, WhatAmI.PEER])
@pytest.mark.parametrize("multihop", [False, True])
def test_locators_of_routers_are_not_announced(role: WhatAmI, multihop: bool) -> None:
    """A peer with links to two routers of one network would receive everything twice."""
    node = GossipProtocol(OWN, role, ALL_ROLES, multihop)
    router = Face(1, ZenohId(0xA1), WhatAmI.ROUTER, REGION_BY_ROLES[role, WhatAmI.ROUTER])
    first, late = neighbour(0xB1), neighbour(0xB2)
    node.add_neighbour(router, HERE)
    node.add_neighbour(first, HERE)
    found, out = node.receive(router, about_self(router))
    assert found == [DiscoveredNode(router.zid, WhatAmI.ROUTER, THERE)]
    assert out == []
    *_, (receiver, received) = entries(node.add_neighbour(late, HERE))
    assert receiver == late.zid.value
    assert [entry.zid for entry in received] == [OWN, late.zid]


def test_a_router_does_not_announce_its_own_locators() -> None:
    """A peer of eclipse-zenoh would pass them on to peers that have no link to the router."""
    node = GossipProtocol(OWN, WhatAmI.ROUTER, ALL_ROLES)
    face = Face(1, ZenohId(0xB1), WhatAmI.PEER, REGION_BY_ROLES[WhatAmI.ROUTER, WhatAmI.PEER])
    ((_, (own, *_)),) = entries(node.add_neighbour(face, HERE))
    assert own == LinkState(psid=0, sn=1, zid=OWN, whatami=WhatAmI.ROUTER.bit)


def test_upstream_router_gets_entries_of_the_other_routers_of_a_peer() -> None:
    node = peer()
    first, second = neighbour(0xA1, WhatAmI.ROUTER), neighbour(0xA2, WhatAmI.ROUTER)
    node.add_neighbour(first, HERE)
    node.receive(first, about_self(first))
    *_, (_, received) = entries(node.add_neighbour(second, HERE))
    assert [entry.zid for entry in received] == [OWN, second.zid, first.zid]


def test_relays_gossip_as_other_peers_do() -> None:
    node = peer()
    face = Face(1, ZenohId(0xB1), WhatAmI.PEER, REGION_BY_ROLES[WhatAmI.ROUTER, WhatAmI.ROUTER], relays=True)
    assert len(node.add_neighbour(face, HERE)) == 1
