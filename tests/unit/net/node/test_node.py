"""Node: sessions between nodes on loopback, closing and forking."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from tests.unit.net.ends import is_at_end, raw
from tests.unit.net.nodes import QUICK, TestNode, call, nodes
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import CloseReason, LinkError, SessionClosed
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.node import make_identity
from zenspark.transport.handshake import Capabilities, Opened
from zenspark.wire.values import WhatAmI, ZenohId

A, B, C = 0xA1, 0xB1, 0xC1


@pytest.mark.parametrize("protocol", ["tcp", "udp", "ws"])
def test_publications_arrive_in_both_directions(protocol: str) -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        there = bob.listen_on_loopback(protocol)
        alice.subscribe()
        call(alice, there)
        alice.wait_for(B)
        bob.wait_for(A)
        bob.subscribe()
        for sender, receiver in ((alice, bob), (bob, alice)):
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not receiver.received.payloads and time.monotonic() < deadline:
                sender.publish(b"hello")
                receiver.received.wait(lambda: bool(receiver.received.payloads), 0.01)  # noqa: B023
            assert set(receiver.received.payloads) == {b"hello"}


def test_neighbours_come_and_go() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        recorder = call(alice, bob.listen_on_loopback())
        alice.wait_for(B)
        assert recorder.wait(lambda: isinstance(recorder.events[0], Opened))
        bob.close()
        alice.wait_for()
        closed = recorder.wait_closed()
        assert closed.by_peer
        assert closed.reason is CloseReason.GENERIC
        assert alice.received.wait(lambda: ("closed", B) in alice.received.events)
        assert alice.received.events.index(("opened", B)) < alice.received.events.index(("closed", B))


def test_connect_to_unreachable_endpoint_raises_link_error() -> None:
    alice = TestNode(A)
    with nodes(alice), socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
        once.close()
        with pytest.raises(LinkError):
            call(alice, Endpoint.parse(f"tcp/127.0.0.1:{port}"))


@pytest.mark.slow
def test_close_returns_although_a_peer_is_stuck() -> None:
    alice, bob = TestNode(A, limits=NodeLimits(writer=QUICK)), TestNode(B)
    with nodes(alice, bob):
        bob.subscribe()
        call(alice, bob.listen_on_loopback())
        alice.wait_for(B)
        bob.wait_for(A)
        (driver,) = bob.drivers.values()
        driver.pause()
        (own,) = alice.drivers.values()
        while not own._unsent:
            alice.publish(bytes(60_000))
        start = time.monotonic()
        alice.close()
        assert time.monotonic() - start < 5.0


@pytest.mark.slow
def test_close_ends_pending_links_of_both_sides() -> None:
    alice = TestNode(A)
    with socket.create_server(("127.0.0.1", 0)) as deaf, raw(alice.listen_on_loopback()) as silent:
        recorder = call(alice, Endpoint.parse(f"tcp/127.0.0.1:{deaf.getsockname()[1]}"))
        called, _ = deaf.accept()
        assert called.recv(1)
        start = time.monotonic()
        alice.close()
        alice.close()
        called.close()
        assert time.monotonic() - start < 8.0
        assert recorder.closure is not None
        assert is_at_end(silent)
        with pytest.raises(SessionClosed):
            alice.connect(Endpoint.parse(f"tcp/127.0.0.1:{deaf.getsockname()[1]}"), lambda *_: None)


def test_close_may_be_called_in_the_loop() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(bob):
        call(alice, bob.listen_on_loopback())
        alice.wait_for(B)
        alice.loop.call_soon(alice.close)
        bob.wait_for()
        assert alice.loop._ended.wait(TIMEOUT_SECONDS)


def test_identity_has_a_random_id_unless_one_is_given() -> None:
    assert make_identity(ZenohId(5), WhatAmI.PEER).zid == ZenohId(5)
    assert make_identity(None, WhatAmI.PEER).zid != make_identity(None, WhatAmI.PEER).zid
    assert make_identity(None, WhatAmI.PEER).zid.size == 16


@pytest.mark.slow
def test_a_short_lease_is_kept_by_both_sides() -> None:
    alice, bob = TestNode(A, offer=Capabilities(lease_ms=500)), TestNode(B, offer=Capabilities(lease_ms=500))
    with nodes(alice, bob):
        call(alice, bob.listen_on_loopback())
        alice.wait_for(B)
        assert not alice.wait(lambda: not alice.neighbours(), 1.2)
        assert bob.neighbours() == {A}


FORK = """
import os, sys
from tests.unit.net.nodes import TestNode, call
parent, other = TestNode(0xA1), TestNode(0xB1)
there = other.listen_on_loopback()
call(parent, there)
parent.wait_for(0xB1)
other.wait_for(0xA1)
child = os.fork()
if not child:
    parent.publish(b"from the child, which must not reach anybody")
    parent.close()
    own = TestNode(0xC1)
    call(own, there)
    own.wait_for(0xB1)
    own.close()
    print("child done", flush=True)
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
other.wait_for(0xA1)
other.subscribe()
parent.close()
other.wait_for()
other.close()
print("parent done", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_its_own_sessions_and_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout.split("\n")[:2] == ["child done", "parent done"], done.stderr
    assert done.returncode == 0
