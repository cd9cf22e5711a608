"""Floods from outside against a router, with honest eclipse-zenoh clients beside them that must not notice."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from functools import partial

import pytest
import zenoh

import zenspark
from tests.hostile.raw import RawPeer
from tests.unit.api.sessions import address, config, listening
from tests.wait import until
from zenspark.api.session import Session
from zenspark.net.links.endpoint import Endpoint
from zenspark.router.linkstate.states import RELAY_STATE_OAM_ID
from zenspark.wire.codec import encode_link_states
from zenspark.wire.messages import Declare, DeclareSubscriber, Fragment, LinkState, NetworkOam, Push, Put
from zenspark.wire.values import WhatAmI, WireExpr, ZenohId

SILENT = int(os.environ.get("ZENSPARK_SILENT_CONNECTIONS", "2000"))
"""Connections that send nothing; the acceptance figure is 10,000."""
BETWEEN = 200
"""How many of them come between two honest clients."""


def honest_config(router: Session) -> zenoh.Config:
    made = zenoh.Config()
    for key, value in {
        "mode": "client",
        "connect/endpoints": [address(router)],
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
    }.items():
        made.insert_json5(key, json.dumps(value))
    return made


def is_served(router: Session) -> bool:
    """Whether an honest client gets a session, and a reply."""
    with zenoh.open(honest_config(router)) as client:
        return [reply.ok and reply.ok.payload.to_string() for reply in client.get("honest", timeout=30)] == ["served"]


@pytest.fixture
def router() -> Iterator[Session]:
    with (
        listening("router") as session,
        session.declare_queryable("honest", lambda query: query.reply("honest", "served")),
    ):
        yield session


def test_flood_of_silent_connections_does_not_block_honest_peers(router: Session) -> None:
    there = Endpoint.parse(address(router)).host_port
    silent: list[socket.socket] = []
    try:
        for number in range(SILENT):
            silent.append(socket.create_connection(there, timeout=30))
            if number % BETWEEN == BETWEEN - 1:
                assert is_served(router), f"after {number + 1} silent connections"
        assert len(router._runtime.node.sessions.pending) <= 100
        assert router.info.refusals()["pending"] >= SILENT - 101
    finally:
        for each in silent:
            each.close()


def test_keys_that_are_hard_to_match_are_refused_and_the_session_goes_on(router: Session) -> None:
    hard = "/".join(["**", "a"] * 8_000)
    with router.declare_subscriber("after") as after, RawPeer(address(router)) as one:
        for number, end in enumerate("bcdefghijk"):
            one.send(Declare(body=DeclareSubscriber(id=number, wire_expr=WireExpr(0, f"{hard}/{end}"))))
        one.send(*[Push(wire_expr=WireExpr(0, f"{hard}/x"), body=Put(payload=b""))] * 10)
        one.send(Push(wire_expr=WireExpr(0, "/".join("a" * 20_000)), body=Put(payload=b"")))
        one.send(Push(wire_expr=WireExpr(0, "after"), body=Put(payload=b"still here")))
        assert after.recv(timeout=30).payload.to_string() == "still here"
        assert router.info.refusals() == {"key_bytes": 21}
        assert is_served(router)
        assert one.closed is None


def test_declarations_over_the_limit_are_refused_and_those_of_others_are_not() -> None:
    with listening("router", limits__session__declarations=100) as router, RawPeer(address(router)) as one:
        one.send(*[Declare(body=DeclareSubscriber(id=n, wire_expr=WireExpr(0, f"k/{n}"))) for n in range(1000)])
        until(lambda: router.info.refusals() == {"declarations": 900})
        with zenoh.open(honest_config(router)) as client:
            subscriber = client.declare_subscriber("k/999")
            until(lambda: any(each.key == "k/999" for each in router.info.declarations()))
            router.put("k/999", "for the honest")
            assert subscriber.recv().payload.to_string() == "for the honest"


def test_unfinished_messages_take_bounded_memory_and_large_ones_still_arrive() -> None:
    settings = {"limits__reassembly__session_bytes": 4 << 20, "limits__reassembly__total_bytes": 8 << 20}
    with listening("router", **settings) as router, router.declare_subscriber("large") as large:
        pool = router._runtime.node._factory._pool
        peers = [RawPeer(address(router)) for _ in range(3)]
        for peer in peers:
            peer_sn = peer._sn
            for sn in range(80):
                piece = Fragment(reliable=True, sn=peer_sn + sn, first=sn == 0, more=True, payload=bytes(48_000))
                peer.send_transport(piece)
        until(lambda: sum(each.lost.get("memory", 0) for each in router.info.link_counters()) >= 1)
        with zenoh.open(honest_config(router)) as client:
            client.put("large", bytes(3 << 20), congestion_control=zenoh.CongestionControl.BLOCK)
            assert len(large.recv(timeout=30).payload) == 3 << 20
        assert pool.used <= 8 << 20
        for peer in peers:
            peer.close()
        until(lambda: not pool.used)


def test_accepted_identities_may_be_routers() -> None:
    accept = [{"addresses": ["127.0.0.0/8"]}]
    with (
        listening("router", routing__router__accept=accept) as router,
        RawPeer(address(router), whatami=WhatAmI.ROUTER),
    ):
        until(lambda: router.info.routers_zid())


@pytest.mark.parametrize("subject", [{"addresses": ["192.0.2.0/24"]}, {"usernames": ["fleet"]}])
def test_node_that_is_not_accepted_may_be_a_client_but_no_router(subject: dict[str, list[str]]) -> None:
    with listening("router", routing__router__accept=[subject]) as router, RawPeer(address(router)):
        until(lambda: len(router.info.transports()) == 1)
        with zenspark.open(config("router", (), [address(router)])):
            until(lambda: router.info.refusals().get("routers"))
            assert not router.info.routers_zid()


@pytest.mark.parametrize(
    ("whatami", "oam_id"), [(WhatAmI.ROUTER, NetworkOam.LINK_STATE), (WhatAmI.PEER, RELAY_STATE_OAM_ID)]
)
def test_forged_nodes_do_not_block_routing(router: Session, whatami: WhatAmI, oam_id: int) -> None:
    """700 of them that all know each other, then changes of one link, each of which was 2.8 s of work."""
    states = partial(states_in, oam_id)
    with RawPeer(address(router), whatami=whatami, relays=whatami is WhatAmI.PEER) as liar:
        zids = [ZenohId((number + 1000) << 64 | 1) for number in range(700)]
        everybody = tuple(range(2, 702))
        names = [LinkState(psid=n, sn=0, zid=zid, whatami=1) for n, zid in zip(everybody, zids, strict=True)]
        liar.send(*[states(*names[at : at + 100]) for at in range(0, 700, 100)])
        for number in everybody:
            liar.send(states(LinkState(psid=number, sn=1, links=(0, *everybody))))
        liar.send(states(LinkState(psid=0, sn=2, zid=liar.zid, whatami=1, links=(1, *everybody))))
        assert is_served(router)
        until(lambda: router.info.refusals() == {"network_links": 701})
        assert is_served(router)


def states_in(oam_id: int, *entries: LinkState) -> NetworkOam:
    return NetworkOam(id=oam_id, zbuf=encode_link_states(entries))
