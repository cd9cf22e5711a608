"""From a configuration to the limits, capabilities and policy of a node."""

from __future__ import annotations

import pytest

from tests.unit.api.sessions import connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.net.io.congestion_control import WriterSettings
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.link_quotas import LinkLimits
from zenspark.transport.handshake import Capabilities


def test_configuration_reaches_the_node() -> None:
    transport = {
        "unicast": {
            "open_timeout": 1100,
            "accept_timeout": 1200,
            "accept_pending": 13,
            "max_sessions": 14,
            "lowlatency": True,
            "qos": {"enabled": False},
            "compression": {"enabled": True},
        },
        "link": {
            "tx": {
                "sequence_number_resolution": "16bit",
                "lease": 1500,
                "keep_alive": 6,
                "batch_size": 1700,
                "queue": {
                    "congestion_control": {"drop": {"wait_before_drop": 1800}, "block": {"wait_before_close": 1900}},
                    "batching": {"time_limit": 20},
                },
            },
            "rx": {"max_message_size": 2100},
        },
    }
    with listening(
        "peer", id="abc", transport=transport, queries_default_timeout=2200, routing__interests__timeout=2300
    ) as session:
        node = session._runtime.node
        writer_settings = WriterSettings(wait_before_drop=0.0018, wait_before_close=0.0019, batch_fill_wait=0.02)
        assert node.limits == NodeLimits(
            open_timeout=1.1,
            accept_timeout=1.2,
            inbound=LinkLimits(pending=13, sessions=14),
            message_size=2100,
            session_reassembly=2100,
            total_reassembly=4200,
            keep_alives=6,
            writer=writer_settings,
        )
        assert node.capabilities == Capabilities(
            resolution=0x09,
            batch_size=1700,
            lease_ms=1500,
            qos=False,
            low_latency=True,
            compression=True,
            relays=True,
        )
        assert str(session.zid()) == "abc"
        assert (node.router.policy.query_timeout, node.router.policy.interest_timeout) == (2.2, 2.3)


@pytest.mark.parametrize(
    ("mode", "peers", "accept", "relays"),
    [
        ("peer", "broker", None, False),
        ("peer", "mesh", None, False),
        ("peer", "relay", None, True),
        ("router", "relay", None, True),
        ("router", "relay", [], False),
    ],
)
def test_relaying_node_announces_it_in_the_handshake(
    mode: str, peers: str, accept: list[object] | None, relays: bool
) -> None:
    with listening(mode, routing__peers=peers, routing__router__accept=accept) as session:
        node = session._runtime.node
        assert node.capabilities.relays == node.router.policy.relays == relays
        assert node.router.policy.is_broker == (peers != "mesh")


def test_peer_beyond_the_relay_limit_does_not_relay() -> None:
    with (
        listening("router", limits__network__nodes=3) as router,
        connected("peer", router) as one,
        connected("peer", router) as two,
        connected("peer", router) as three,
        three.declare_subscriber("a") as subscriber,
    ):
        with router._runtime.node.lock:
            relaying = {face.zid for face in router._runtime.node.drivers if face.relays}
        assert relaying == {session._runtime.node.identity.zid for session in (one, two)}
        for session in (one, two):
            until(lambda: session.declare_publisher("a").matching_status.matching)  # noqa: B023
            session.put("a", "x")
            assert subscriber.recv(TIMEOUT_SECONDS).payload.to_string() == "x"
