"""From a configuration to a session, and to its end with the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.optional import some
from tests.unit.api.sessions import address, config, connected, has_neighbour, listening
from tests.waiting import PATIENCE, until
from zenspark.api.open import SessionLifecycle, open
from zenspark.api.session import Session
from zenspark.errors import ZError
from zenspark.handlers.handler import FifoChannel
from zenspark.net.io.congestion import WriterSettings
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.pending_links import InboundLimits
from zenspark.transport.handshake import Capabilities
from zenspark.types.enums import WhatAmI
from zenspark.types.query import Query
from zenspark.types.timestamp_stack import TimestampContext, TimestampInstrumentationBuilder

NOBODY = "tcp/127.0.0.1:1"

PROGRAM = """
import json, os, sys
import zenspark
config = zenspark.Config()
config.insert_json5("mode", '"client"')
config.insert_json5("connect/endpoints", json.dumps([sys.argv[1]]))
config.insert_json5("scouting/multicast/enabled", "false")
"""


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", PROGRAM + textwrap.dedent(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=6 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_client_without_reachable_endpoint_raises() -> None:
    with pytest.raises(ZError):
        open(config("client", connect=[NOBODY], connect__timeout_ms=0))
    with pytest.raises(ZError):
        open(config("client"))
    assert not any(running._runtime.node.identity.whatami.name == "CLIENT" for running in SessionLifecycle._all)


def test_peer_opens_without_neighbours() -> None:
    with open(config("peer", connect=[NOBODY], connect__exit_on_failure=False)) as session:
        assert session.info.transports() == []


def test_configured_zid_is_used() -> None:
    with open(config("peer", id="a1b2c3")) as session:
        assert str(session.zid()) == "a1b2c3"


def test_listening_on_a_used_port_raises() -> None:
    with listening("peer") as session, pytest.raises(ZError):
        open(config("peer", [address(session)], listen__exit_on_failure=True))


def test_wrong_password_is_rejected(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann:secret\n\nbob:other\n")
    with listening("router", transport__auth__usrpwd={"dictionary_file": str(users)}) as router:
        good = {"user": "ann", "password": "secret"}
        with connected("client", router, transport__auth__usrpwd=good) as client:
            assert has_neighbour(router, client)
        bad = {"user": "ann", "password": "wrong"}
        with pytest.raises(ZError):
            open(config("client", connect=[address(router)], transport__auth__usrpwd=bad, connect__timeout_ms=0))


def test_timestamp_callback_makes_custom_records() -> None:
    asked: list[TimestampContext] = []

    def stamp(context: TimestampContext) -> bytes:
        asked.append(context)
        return b"now"

    instrumentation = TimestampInstrumentationBuilder().set_send(True).build()
    with open(config("peer"), timestamp_callback=stamp) as session:
        subscriber = session.declare_subscriber("a")
        session.put("a", b"", timestamp_instrumentation=instrumentation)
        (record,) = some(subscriber.recv(PATIENCE).timestamp_stack).records
        assert (record.is_custom, record.timestamp()) == (True, b"now")
        assert asked == [TimestampContext(session.zid(), WhatAmI.PEER)]


def test_concurrent_close_is_safe(router: Session, client: Session) -> None:
    threads = [threading.Thread(target=client.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    until(lambda: not router.info.transports())


def test_publications_are_written_at_process_exit(router: Session) -> None:
    subscriber = router.declare_subscriber("a")
    run(
        """
        session = zenspark.open(config)
        session.declare_subscriber("b", print)
        session.put("a", b"x" * 3_000_000, congestion_control=zenspark.CongestionControl.BLOCK)
        """,
        address(router),
    )
    assert len(subscriber.recv(PATIENCE).payload) == 3_000_000
    until(lambda: not router.info.transports())


def test_publications_of_an_unreferenced_session_are_written(router: Session) -> None:
    subscriber = router.declare_subscriber("a")
    run(
        """
        def main():
            session = zenspark.open(config)
            session.put("a", b"x" * 3_000_000, congestion_control=zenspark.CongestionControl.BLOCK)
        main()
        """,
        address(router),
    )
    assert len(subscriber.recv(PATIENCE).payload) == 3_000_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_child_forgets_sessions_of_the_parent(router: Session) -> None:
    subscriber = router.declare_subscriber("a")
    out = run(
        """
        session = zenspark.open(config)
        publisher = session.declare_publisher("a")
        child = os.fork()
        if not child:
            assert session.is_closed()
            try:
                session.put("a", b"never")
            except zenspark.ZError as error:
                print("refused", flush=True)
            session.close()
            del publisher
            with zenspark.open(config) as own:
                own.put("a", b"child")
            sys.exit(0)
        pid, status = os.waitpid(child, 0)
        assert status == 0
        publisher.put(b"parent")
        session.close()
        """,
        address(router),
    )
    assert out == "refused\n"
    assert {subscriber.recv(PATIENCE).payload.to_bytes() for _ in range(2)} == {b"child", b"parent"}
    assert subscriber.try_recv() is None


BLOCKING = {
    "receive": "subscriber.recv()",
    "iterate": "for _ in subscriber: pass",
    "ask": 'list(session.get("slow", timeout=600))',
    "put": 'while True: session.put("full", bytes(100_000), congestion_control=zenspark.CongestionControl.BLOCK)',
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals are different there")
@pytest.mark.parametrize("call", BLOCKING)
def test_every_blocking_call_can_be_interrupted(router: Session, call: str) -> None:
    waiting = router.declare_queryable("slow")
    full = router.declare_subscriber("full", FifoChannel(1))
    asked: list[Query] = []
    program = f"""
        session = zenspark.open(config)
        subscriber = session.declare_subscriber("never")
        try:
            print("ready", flush=True)
            {BLOCKING[call]}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        os._exit(0)
        """
    command = [sys.executable, "-c", PROGRAM + textwrap.dedent(program), address(router)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            if call == "ask":
                asked.append(waiting.recv(PATIENCE))
            if call == "put":
                until(lambda: any(driver._paused for driver in router._runtime.node.drivers.values()))
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
        finally:
            child.kill()
    full.undeclare()


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
        patience = WriterSettings(drop_wait=0.0018, block_wait=0.0019, batch_fill_wait=0.02)
        assert node.limits == NodeLimits(
            open_timeout=1.1,
            accept_timeout=1.2,
            inbound=InboundLimits(pending=13, sessions=14),
            message_size=2100,
            session_reassembly=2100,
            total_reassembly=4200,
            keep_alives=6,
            writer=patience,
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
            assert subscriber.recv(PATIENCE).payload.to_string() == "x"
