"""Peer links: the link states of peers, as captured from eclipse-zenoh 1.10.2."""

from __future__ import annotations

import pytest

from zenspark.router.face import Face, Region
from zenspark.router.linkstate import peer_links
from zenspark.router.linkstate.peer_links import PeerLinks
from zenspark.wire.codec import encode_link_states
from zenspark.wire.messages import LinkState, NetworkOam
from zenspark.wire.values import WhatAmI, ZenohId

ROUTER, ONE, OTHER = ZenohId(0xA), ZenohId(0xB1), ZenohId(0xB2)
FACE = Face(1, ONE, WhatAmI.PEER, Region.DOWNSTREAM_PEER)


def make_oam(*entries: LinkState) -> NetworkOam:
    return NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(entries))


def test_peer_links_are_resolved_by_announced_psids() -> None:
    peers = PeerLinks()
    own = LinkState(psid=0, sn=2, zid=ONE, whatami=2, links=(1,))
    assert peers.receive(
        FACE, make_oam(own, LinkState(psid=1, sn=0, zid=ROUTER, whatami=1, gateway=True))
    ) == frozenset({ROUTER})
    news = [LinkState(psid=2, sn=0, zid=OTHER, whatami=2), LinkState(psid=0, sn=3, whatami=2, links=(1, 2, 9))]
    assert peers.receive(FACE, make_oam(*news)) == frozenset({ROUTER, OTHER})
    assert peers.receive(FACE, make_oam(LinkState(psid=2, sn=3, zid=OTHER, whatami=2))) is None
    peers.remove_face(FACE)
    assert peers.receive(FACE, make_oam(news[1])) is None


def test_message_without_link_states_has_no_links() -> None:
    peers = PeerLinks()
    assert peers.receive(FACE, NetworkOam(id=7, zbuf=b"")) is None
    assert peers.receive(FACE, NetworkOam(id=NetworkOam.LINK_STATE)) is None
    assert peers.receive(FACE, NetworkOam(id=NetworkOam.LINK_STATE, zbuf=b"\xff")) is None


def test_number_of_psids_per_peer_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_links, "MAX_PSIDS_PER_PEER", 1)
    own = LinkState(psid=0, sn=2, zid=ONE, whatami=2, links=(1,))
    assert PeerLinks().receive(FACE, make_oam(own, LinkState(psid=1, sn=0, zid=ROUTER, whatami=1))) == frozenset()
