"""`zenspark router` as a process: clients of eclipse-zenoh communicate through it, and receive CLOSE when it ends."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

from tests.interop.reference import eventually, reference, unused
from tests.wait import TIMEOUT_SECONDS

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

Session: TypeAlias = Any
"""Of eclipse-zenoh."""


@contextlib.contextmanager
def router(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A router in a process of its own, and where it listens."""
    command = [sys.executable, "-m", "zenspark", "router", "--no-multicast-scouting", "-l", "tcp/127.0.0.1:0"]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        yield process, lines[-1].split()[-1]
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def client(endpoint: str) -> Iterator[Session]:
    config = zenoh.Config()
    settings = {"mode": "client", "connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
    for key, value in {**settings, "transport/shared_memory/enabled": False}.items():
        config.insert_json5(key, json.dumps(value))
    with zenoh.open(config) as session:
        yield session


def test_router_command_forwards_between_clients() -> None:
    with router("-i", "a1") as (_, endpoint), client(endpoint) as one, client(endpoint) as other:
        assert [str(zid) for zid in one.info.routers_zid()] == ["a1"]
        received: queue.Queue[tuple[str, str, bool]] = queue.Queue()
        subscriber = one.declare_subscriber(
            "demo/**",
            lambda sample: received.put((str(sample.key_expr), sample.payload.to_string(), bool(sample.timestamp))),
        )
        queryable = one.declare_queryable("demo/time", lambda query: query.reply("demo/time", "noon"))
        publisher = other.declare_publisher("demo/hello")
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put("world")
        assert received.get(timeout=TIMEOUT_SECONDS) == ("demo/hello", "world", True)
        assert [reply.ok.payload.to_string() for reply in other.get("demo/time", timeout=TIMEOUT_SECONDS)] == ["noon"]
        subscriber.undeclare()
        queryable.undeclare()


def test_router_command_replies_in_the_admin_space() -> None:
    with router("-i", "a1", "--cfg", 'metadata:"here"') as (_, endpoint), client(endpoint) as session:
        (reply,) = session.get("@/*/router", timeout=TIMEOUT_SECONDS)
        described = json.loads(reply.ok.payload.to_string())
        assert (str(reply.ok.key_expr), described["locators"], described["metadata"]) == (
            "@/a1/router",
            [endpoint],
            "here",
        )


def test_admin_space_permissions_none_sends_no_reply() -> None:
    with router("--adminspace-permissions", "none") as (_, endpoint), client(endpoint) as session:
        assert list(session.get("@/*/router", timeout=TIMEOUT_SECONDS)) == []


def test_no_timestamp_flag_leaves_samples_unstamped() -> None:
    with router("--no-timestamp") as (_, endpoint), client(endpoint) as one, client(endpoint) as other:
        received: queue.Queue[object] = queue.Queue()
        subscriber = one.declare_subscriber("demo", lambda sample: received.put(sample.timestamp))
        publisher = other.declare_publisher("demo")
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put("x")
        assert received.get(timeout=TIMEOUT_SECONDS) is None
        subscriber.undeclare()


def test_router_command_joins_the_network_of_another_router() -> None:
    endpoint = unused()
    with (
        reference(mode="router", listen__endpoints=[endpoint]) as theirs,
        router("-e", endpoint) as (_, own),
        client(own) as session,
    ):
        received: queue.Queue[str] = queue.Queue()
        subscriber = session.declare_subscriber("demo", lambda sample: received.put(sample.payload.to_string()))

        def is_received() -> bool:
            theirs.execute("put demo x")
            with contextlib.suppress(queue.Empty):
                return received.get(timeout=0.1) == "x"
            return False

        assert eventually(is_received)
        subscriber.undeclare()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_router_closes_client_transports(number: signal.Signals) -> None:
    with router() as (process, endpoint), client(endpoint) as session:
        events: queue.Queue[str] = queue.Queue()
        listener = session.info.declare_transport_events_listener(
            lambda event: events.put(str(event.kind).rpartition(".")[2]), history=True
        )
        assert events.get(timeout=TIMEOUT_SECONDS) == "PUT"
        process.send_signal(number)
        assert process.wait(timeout=2 * TIMEOUT_SECONDS) == 0
        assert events.get(timeout=TIMEOUT_SECONDS) == "DELETE"
        listener.undeclare()
