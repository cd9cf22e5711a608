"""Time: sessions that never come about, sessions that are gone, and stalls during which nothing was read."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import time
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import zenspark
from tests.hostile.raw import RawPeer
from tests.hostile.routers import router
from tests.optional import some
from tests.unit.api.sessions import config
from tests.unit.net.nodes import QUICK, TestNode, nodes
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.net.io.link_driver import ConnectionDriver
from zenspark.net.node.limits import NodeLimits
from zenspark.wire.messages import Declare, Interest, KeepAlive
from zenspark.wire.values import InterestMode, WhatAmI, WireExpr

zenoh = pytest.importorskip("zenoh")


def test_driver_of_a_closed_session_is_freed() -> None:
    node = TestNode(0xA1, WhatAmI.ROUTER, NodeLimits(accept_timeout=1000.0, writer=QUICK))
    with nodes(node):
        locator = str(node.listen_on_loopback())
        with RawPeer(locator, zid=0xB1):
            node.wait_for(0xB1)
            (driver,) = [weakref.ref(each) for each in node.drivers.values()]
        node.wait_for()
        until(lambda: is_freed(driver))


def is_freed(driver: weakref.ref[ConnectionDriver]) -> bool:
    gc.collect()
    return driver() is None


@pytest.mark.parametrize("seconds", [2**63, 3601])
def test_announced_lease_is_limited_to_one_hour(seconds: int) -> None:
    node = TestNode(0xA1, WhatAmI.ROUTER)
    with nodes(node), RawPeer(str(node.listen_on_loopback()), zid=0xB1, lease_ms=seconds * 1000):
        node.wait_for(0xB1)
        (driver,) = node.drivers.values()
        assert driver.connection.next_timeout() <= node.loop.now() + 3600
        assert driver.connection.parameters is not None
        assert driver.connection.parameters.peer_lease == 3600


STOPPED_SECONDS = 13.0
"""Longer than the lease of every session with default settings, which is 10 s."""


def test_a_router_stopped_for_longer_than_the_default_lease_loses_no_session_that_sent_keep_alives() -> None:
    with router() as stopped, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(RawPeer(stopped.locator, lease_ms=10_000)) for _ in range(3)]
        os.kill(stopped.process.pid, signal.SIGSTOP)
        ends_at = time.monotonic() + STOPPED_SECONDS
        while time.monotonic() < ends_at:
            for peer in peers:
                assert peer.send_transport(KeepAlive())
            time.sleep(1.0)
        os.kill(stopped.process.pid, signal.SIGCONT)
        for peer in peers:  # a reply to what is sent now shows that the session is there
            assert peer.send(Interest(id=1, mode=InterestMode.CURRENT, tokens=True, wire_expr=WireExpr(0, "none")))
            until(partial(has_reply, peer))
        assert " closed: " not in stopped.log


def has_reply(peer: RawPeer) -> bool:
    return peer.read(0.02) and any(isinstance(message, Declare) for message in peer.received)


LEASE, STALL = 3.0, 4.5
"""Seconds of silence after which clients count as gone, and for which the router stands still."""


@contextlib.contextmanager
def eclipse_client(locator: str) -> Iterator[Any]:
    """A session of eclipse-zenoh that announces a short lease."""
    made = zenoh.Config()
    for key, value in client_settings(locator).items():
        made.insert_json5(key, json.dumps(value))
    with zenoh.open(made) as session:
        yield session


def client_settings(locator: str) -> dict[str, object]:
    return {
        "mode": "client",
        "connect/endpoints": [locator],
        "scouting/multicast/enabled": False,
        "transport/link/tx/lease": int(LEASE * 1000),
        "transport/shared_memory/enabled": False,
    }


@pytest.mark.interop
def test_router_keeps_its_neighbours_after_a_stall() -> None:
    with (
        router(transport__link__tx__lease="60000") as stopped,
        eclipse_client(stopped.locator) as foreign,
        zenspark.open(config("client", (), [stopped.locator], transport__link__tx__lease=int(LEASE * 1000))) as own,
    ):
        queryable = foreign.declare_queryable("theirs", lambda query: query.reply("theirs", "still here"))
        own.declare_queryable("ours", lambda query: query.reply("ours", b"still here"))
        until(lambda: [reply.ok for reply in own.get("theirs")] and [reply.ok for reply in foreign.get("ours")])
        time.sleep(LEASE / 3)  # it stops as most do: while it has nothing to do
        os.kill(stopped.process.pid, signal.SIGSTOP)
        time.sleep(STALL)
        os.kill(stopped.process.pid, signal.SIGCONT)
        assert [reply.ok.payload.to_string() for reply in foreign.get("ours", timeout=TIMEOUT_SECONDS)] == [
            "still here"
        ]
        assert [some(reply.ok).payload.to_string() for reply in own.get("theirs", timeout=TIMEOUT_SECONDS)] == [
            "still here"
        ]
        queryable.undeclare()
        assert " closed: " not in stopped.log
        assert stopped.log.count("session with") == 2
