"""Hostile messages of every kind in any order: thirty thousand here, a million behind `make hostile`.

Meanwhile honest clients get replies; afterwards the router is at work, has not grown, and has logged no exception.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.hostile.raw import RawPeer
from tests.hostile.routers import router
from tests.wait import until

pytest.importorskip("zenoh")

from tests.hostile.honest import honest_clients
from tests.hostile.noise import Noise

MESSAGES = int(os.environ.get("ZENSPARK_HOSTILE_MESSAGES", "30000"))
SEED = int(os.environ.get("ZENSPARK_HOSTILE_SEED", "1"))
MAX_GROWTH_MIB = 64
"""What a router may need for hostile neighbours, whatever they send."""


@pytest.mark.interop
def test_hostile_messages_do_not_affect_other_peers() -> None:
    with router() as process, honest_clients(process.locator) as clients:
        started = time.monotonic()
        with Noise(process.locator, SEED) as noise:
            noise.send(MESSAGES)
            seconds, growth = time.monotonic() - started, process.growth
        before = [client.replied for client in clients]
        until(lambda: all(client.replied > count for client, count in zip(clients, before, strict=True)))
        RawPeer(process.locator).close()
        assert process.process.poll() is None
        logged = process.log
    print(f"\n{noise.messages:,} messages of {len(noise.kinds)} kinds in {noise.sessions} sessions, {seconds:.0f} s")
    print(f"RSS of the router: +{growth:.1f} MiB")
    for client in clients:
        print(f"{client.name}: {client.replied} replies, the slowest after {client.slowest * 1000:.0f} ms")
    assert "Traceback" not in logged, logged[-5000:]
    assert [client.unreplied for client in clients] == [0, 0]
    assert growth < MAX_GROWTH_MIB
