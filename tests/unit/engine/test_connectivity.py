"""Reaching the network as configured: what is waited for, what is an error, which options links get."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator

import pytest

from tests.unit.net.ends import free_group, meanwhile
from tests.unit.net.nodes import TestNode, nodes
from tests.wait import TIMEOUT_SECONDS
from zenspark.config.config import Config
from zenspark.config.settings import (
    EndpointGroup,
    GossipSettings,
    MulticastScoutingSettings,
    Settings,
    StrategyByTarget,
)
from zenspark.engine import connectivity as reaching_module
from zenspark.engine.connectivity import Connectivity, _alternatives, _autoconnect_policy, parse_roles
from zenspark.errors import LinkError, UsageError, ZError
from zenspark.net.links.interfaces import find_interface
from zenspark.wire.values import WhatAmI

LO = find_interface("127.0.0.1").name


def settings(**values: object) -> Settings:
    config = Config()
    values = {"scouting__multicast__enabled": False, "listen__endpoints": [], **values}
    for name, value in values.items():
        config.insert_json5(name.replace("__", "/"), json.dumps(value))
    return config.settings()


@contextlib.contextmanager
def connectivity_of(node: TestNode, configured: Settings) -> Iterator[Connectivity]:
    connectivity = Connectivity(node, configured)
    with nodes(node):
        try:
            yield connectivity
        finally:
            connectivity.stop_connecting()
            node.close()
            connectivity.close()


def unused() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"tcp/127.0.0.1:{probe.getsockname()[1]}"


def client(number: int = 0xC1) -> TestNode:
    return TestNode(number, WhatAmI.CLIENT)


def test_client_is_connected_when_start_returns() -> None:
    router, node = TestNode(0xA1, WhatAmI.ROUTER), client()
    with nodes(router):
        configured = settings(mode="client", connect__endpoints=[unused(), str(router.listen_on_loopback())])
        with connectivity_of(node, configured) as connectivity:
            connectivity.start()
            assert node.neighbours() == {0xA1}


def test_client_without_reachable_endpoint_fails_at_once() -> None:
    with (
        connectivity_of(client(), settings(mode="client", connect__endpoints=[unused()])) as connectivity,
        pytest.raises(LinkError, match="refused"),
    ):
        connectivity.start()


def test_client_without_exit_on_failure_opens_unconnected() -> None:
    configured = settings(mode="client", connect__endpoints=[unused()], connect__exit_on_failure=False)
    with connectivity_of(client(), configured) as connectivity:
        connectivity.start()


def test_client_retries_until_the_connect_timeout() -> None:
    configured = settings(
        mode="client", connect__endpoints=[unused()], connect__timeout_ms=100, connect__retry={"period_init_ms": 10}
    )
    with connectivity_of(client(), configured) as connectivity:
        start = time.monotonic()
        with pytest.raises(LinkError):
            connectivity.start()
        assert 0.05 < time.monotonic() - start < TIMEOUT_SECONDS


def test_client_without_endpoints_and_scouting_raises_usage_error() -> None:
    with (
        connectivity_of(client(), settings(mode="client")) as connectivity,
        pytest.raises(UsageError, match="connect/endpoints"),
    ):
        connectivity.start()


def test_client_whose_scout_has_no_reply_raises() -> None:
    group = {"enabled": True, "address": free_group(), "interface": LO}
    configured = settings(mode="client", scouting__multicast=group, scouting__timeout=50)
    with connectivity_of(client(), configured) as connectivity, pytest.raises(ZError, match="no node replied to SCOUT"):
        connectivity.start()


@pytest.mark.slow
def test_a_client_finds_a_router_and_peers_find_each_other() -> None:
    group = {"enabled": True, "address": free_group(), "interface": LO}
    here = ["tcp/127.0.0.1:0"]
    router, peer, node = TestNode(0xA1, WhatAmI.ROUTER), TestNode(0xB1), client()
    with (
        connectivity_of(router, settings(mode="router", scouting__multicast=group, listen__endpoints=here)) as first,
        connectivity_of(peer, settings(mode="peer", scouting__multicast=group, listen__endpoints=here)) as second,
        connectivity_of(node, settings(mode="client", scouting__multicast=group)) as third,
    ):
        first.start()
        second.start()
        peer.wait_for(0xA1)
        third.start()
        assert node.neighbours() <= {0xA1, 0xB1}
        assert len(node.neighbours()) == 1


@pytest.mark.parametrize(("mode", "listen", "replies"), [("peer", 1, 1), ("peer", 0, 0), ("client", 1, 0)])
def test_only_listening_nodes_that_are_no_clients_reply_to_scout(mode: str, listen: int, replies: int) -> None:
    group = {"enabled": True, "address": free_group(), "interface": LO, "listen": bool(listen), "autoconnect": []}
    node = TestNode(0xA1, WhatAmI[mode.upper()])
    with connectivity_of(node, settings(mode=mode, scouting__multicast=group)) as connectivity:
        connectivity._discover()
        assert len(connectivity.autoconnector._responders) == replies


def test_peer_starts_without_its_endpoint_after_the_scouting_delay_and_connects_later() -> None:
    there = unused()
    node, late = TestNode(0xA1), TestNode(0xB1)
    configured = settings(
        mode="peer", connect__endpoints=[there], connect__retry={"period_init_ms": 10}, scouting__delay=50
    )
    with connectivity_of(node, configured) as connectivity, nodes(late):
        connectivity.start()
        assert node.neighbours() == set()
        late.listen(connectivity._endpoint(there))
        node.wait_for(0xB1)


def test_peer_that_has_started_is_connected_to_the_nodes_it_scouted() -> None:
    group = {"enabled": True, "address": free_group(), "interface": LO}
    router, peer = TestNode(0xA1, WhatAmI.ROUTER), TestNode(0xB1)
    found = settings(
        mode="router",
        scouting__multicast=group,
        listen__endpoints=["tcp/127.0.0.1:0"],
        open__return_conditions={"connect_scouted": False},
    )
    delayed = settings(mode="peer", scouting__multicast=group, scouting__delay=int(TIMEOUT_SECONDS * 1000))
    with connectivity_of(router, found) as first, connectivity_of(peer, delayed) as second:
        first.start()
        second.start()
        assert peer.neighbours() == {0xA1}


def test_peer_has_started_when_the_initial_declarations_are_received(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[bool] = []

    def receive_at_the_second_look(node: TestNode) -> bool:
        node.loop.call_soon(node.wake)
        received.append(bool(received))
        return received[-1]

    monkeypatch.setattr(reaching_module, "HANDSHAKE_GRACE_SECONDS", TIMEOUT_SECONDS)
    monkeypatch.setattr(TestNode, "initial_declarations_received", property(receive_at_the_second_look))
    with connectivity_of(TestNode(0xA1), settings(mode="peer")) as connectivity:
        connectivity.start()
        assert received == [False, True]


@pytest.mark.parametrize("condition", ["connect_scouted", "declares"])
def test_peer_does_not_wait_without_return_conditions(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for the nodes it connects to, nor for declarations of neighbours."""
    monkeypatch.setattr(reaching_module, "HANDSHAKE_GRACE_SECONDS", 600.0)
    monkeypatch.setattr(TestNode, "initial_declarations_received", condition != "declares")
    configured = settings(
        mode="peer",
        connect__endpoints=[unused()] if condition == "connect_scouted" else [],
        scouting__delay=600_000,
        open__return_conditions={condition: False},
    )
    with connectivity_of(TestNode(0xA1), configured) as connectivity, meanwhile(connectivity.start) as result:
        result()


def test_peer_with_exit_on_failure_fails_to_open() -> None:
    configured = settings(
        mode="peer", connect__endpoints=[unused()], connect__exit_on_failure=True, connect__timeout_ms=0
    )
    with connectivity_of(TestNode(0xA1), configured) as connectivity, pytest.raises(LinkError):
        connectivity.start()


def test_peer_with_connect_timeout_zero_does_not_retry() -> None:
    configured = settings(mode="peer", connect__endpoints=[unused()], connect__timeout_ms=0)
    with connectivity_of(TestNode(0xA1), configured) as connectivity:
        connectivity.start()
        assert all(connector.has_ended for connector in connectivity.connectors)


def test_stop_connecting_ends_the_connectors_of_an_open_node() -> None:
    configured = settings(mode="peer", connect__endpoints=[unused()], scouting__delay=1)
    with connectivity_of(TestNode(0xA1), configured) as connectivity:
        connectivity.start()
        (connector,) = connectivity.connectors
        assert not connector.has_ended
        connectivity.stop_connecting()
        assert connector.has_ended


def test_listen_on_an_address_in_use_raises_unless_exit_on_failure_is_off() -> None:
    taken = TestNode(0xA1)
    with nodes(taken):
        there = str(taken.listen_on_loopback())
        with (
            connectivity_of(TestNode(0xB1), settings(listen__endpoints=[there])) as connectivity,
            pytest.raises(LinkError),
        ):
            connectivity.start()
        lenient = settings(listen__endpoints=[there, "tcp/127.0.0.1:0"], listen__exit_on_failure=False)
        node = TestNode(0xB2)
        with connectivity_of(node, lenient) as connectivity:
            connectivity.start()
            assert len(node.listeners) == 1


@pytest.mark.parametrize("must", [True, False])
def test_listening_is_retried_until_the_address_is_free(must: bool) -> None:
    """As eclipse-zenoh does: `open` waits for it only if it must have it."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as holder:
        configured = settings(
            listen__endpoints=[f"tcp/127.0.0.1:{holder.getsockname()[1]}"],
            listen__timeout_ms=-1,
            listen__retry={"period_init_ms": 5, "period_max_ms": 10},
            listen__exit_on_failure=must,
        )
        node = TestNode(0xA1)
        with connectivity_of(node, configured) as connectivity, meanwhile(connectivity.start) as result:
            if not must:
                result()
            assert not node.listeners
            holder.close()
            result()
            while not node.listeners:
                node.wait(lambda: False, 0.01)


def test_endpoints_get_the_configured_options_of_their_protocol() -> None:
    configured = settings(
        transport__link__tls={"root_ca_certificate": "root.pem", "enable_mtls": True, "so_sndbuf": 4096},
        transport__link__tcp={"so_rcvbuf": 8192},
    )
    with connectivity_of(TestNode(0xA1), configured) as connectivity:
        tls = connectivity._endpoint("tls/localhost:1#root_ca_certificate=own.pem")
        assert tls.option("root_ca_certificate") == "own.pem"
        assert tls.option("enable_mtls") == "true"
        assert tls.option("so_sndbuf") == "4096"
        assert tls.option("listen_certificate") is None
        assert connectivity._endpoint("tcp/localhost:1").option("so_rcvbuf") == "8192"
        assert connectivity._endpoint("udp/localhost:1").config == ()


def test_protocols_may_be_forbidden() -> None:
    with (
        connectivity_of(TestNode(0xA1), settings(transport__link__protocols=["udp"])) as connectivity,
        pytest.raises(UsageError, match="transport/link/protocols"),
    ):
        connectivity._endpoint("tcp/localhost:1")


@pytest.mark.parametrize("mode", ["peer", "client"])
def test_multicast_groups_are_joined_not_connected_to(mode: str) -> None:
    group = f"udp/{free_group()}#iface={LO}"
    node = TestNode(0xA1, WhatAmI[mode.upper()])
    with (
        connectivity_of(node, settings(mode=mode, connect__endpoints=[group])) as connectivity,
        pytest.raises(UsageError, match="belongs in listen/endpoints, not in connect/endpoints"),
    ):
        connectivity.start()


def test_multicast_groups_are_joined() -> None:
    group = f"udp/{free_group()}#iface={LO}"
    first, second = TestNode(0xA1), TestNode(0xB1)
    configured = settings(mode="peer", listen__endpoints=[group])
    with connectivity_of(first, configured) as one, connectivity_of(second, configured) as other:
        one.start()
        other.start()
        assert first.wait(lambda: [face.zid.value for face in first.neighbourhood] == [0xB1], TIMEOUT_SECONDS)


def test_a_group_is_one_connection_or_several() -> None:
    both = ("tcp/a:1", "tcp/b:1")
    assert _alternatives(EndpointGroup("oneOf", both)) == [both]
    assert _alternatives(EndpointGroup("allOf", both)) == [("tcp/a:1",), ("tcp/b:1",)]
    assert _alternatives("tcp/a:1") == [("tcp/a:1",)]


def test_autoconnect_policy_follows_the_configured_strategy() -> None:
    assert parse_roles(("router", "peer", "client")) == 7
    assert _autoconnect_policy(MulticastScoutingSettings(autoconnect=("router", "peer", "client"))).only_smaller == 0
    assert (
        _autoconnect_policy(GossipSettings(autoconnect=("peer",), autoconnect_strategy="greater-zid")).only_smaller == 3
    )
    by_target = StrategyByTarget(to_router="always", to_peer="greater-zid")
    assert (
        _autoconnect_policy(
            GossipSettings(autoconnect=("router", "peer", "client"), autoconnect_strategy=by_target)
        ).only_smaller
        == 2
    )
