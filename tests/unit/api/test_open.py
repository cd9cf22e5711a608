"""From a configuration to a session, and to its end with the process."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.optional import some
from tests.unit.api.programs import PROGRAM
from tests.unit.api.sessions import address, config, connected, has_neighbour, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.open import SessionOpener, open
from zenspark.api.session import Session
from zenspark.engine.lifecycle import SessionLifecycle
from zenspark.errors import ZError
from zenspark.handlers.handler import FifoChannel
from zenspark.types.enums import WhatAmI
from zenspark.types.query import Query
from zenspark.types.timestamp_stack import TimestampContext, TimestampInstrumentationBuilder

UNREACHABLE_ENDPOINT = "tcp/127.0.0.1:1"


def test_client_without_reachable_endpoint_raises() -> None:
    with pytest.raises(ZError):
        open(config("client", connect=[UNREACHABLE_ENDPOINT], connect__timeout_ms=0))
    with pytest.raises(ZError):
        open(config("client"))
    assert not any(running._runtime.node.identity.whatami.name == "CLIENT" for running in SessionLifecycle._all)


@pytest.mark.slow
def test_peer_opens_without_neighbours() -> None:
    with open(config("peer", connect=[UNREACHABLE_ENDPOINT], connect__exit_on_failure=False)) as session:
        assert session.info.transports() == []


def test_configured_zid_is_used() -> None:
    with open(config("peer", id="a1b2c3")) as session:
        assert str(session.zid()) == "a1b2c3"


def test_listening_on_a_used_port_raises() -> None:
    with listening("peer") as session, pytest.raises(ZError):
        open(config("peer", [address(session)], listen__exit_on_failure=True))


@pytest.mark.parametrize("mode", ["router", "peer"])
def test_subscriber_declared_before_finish_receives_the_first_put_of_an_early_client(mode: str) -> None:
    opener = SessionOpener(config(mode, ["tcp/127.0.0.1:0"]), None)
    with opener.prepare() as session, ThreadPoolExecutor() as threads:
        early = threads.submit(open, config("client", (), [address(session)]))
        subscriber = session.declare_subscriber("a/**", FifoChannel(10))
        assert not early.done()
        assert session.info.transports() == []
        assert opener.finish() is session
        with early.result(TIMEOUT_SECONDS) as client:
            client.put("a/b", "first")
            assert some(subscriber.recv(timeout=TIMEOUT_SECONDS)).payload.to_string() == "first"


def test_a_client_that_cannot_connect_raises_before_it_is_prepared() -> None:
    with pytest.raises(ZError):
        SessionOpener(config("client", connect=[UNREACHABLE_ENDPOINT], connect__timeout_ms=0), None).prepare()
    with listening("router") as router:
        opener = SessionOpener(config("client", connect=[address(router)]), None)
        with opener.prepare() as client:
            assert has_neighbour(client, router)
            assert opener.finish() is client
            assert len(client.info.transports()) == 1


def test_preparing_to_listen_on_a_used_port_raises() -> None:
    with listening("peer") as session, pytest.raises(ZError):
        SessionOpener(config("peer", [address(session)], listen__exit_on_failure=True), None).prepare()


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
    contexts: list[TimestampContext] = []

    def stamp(context: TimestampContext) -> bytes:
        contexts.append(context)
        return b"now"

    instrumentation = TimestampInstrumentationBuilder().set_send(True).build()
    with open(config("peer"), timestamp_callback=stamp) as session:
        subscriber = session.declare_subscriber("a")
        session.put("a", b"", timestamp_instrumentation=instrumentation)
        (record,) = some(subscriber.recv(TIMEOUT_SECONDS).timestamp_stack).records
        assert (record.is_custom, record.timestamp()) == (True, b"now")
        assert contexts == [TimestampContext(session.zid(), WhatAmI.PEER)]


BLOCKING = {
    "receive": "subscriber.recv()",
    "iterate": "for _ in subscriber: pass",
    "get": 'list(session.get("slow", timeout=600))',
    "put": 'while True: session.put("full", bytes(100_000), congestion_control=zenspark.CongestionControl.BLOCK)',
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are different there")
@pytest.mark.parametrize("call", BLOCKING)
def test_every_blocking_call_can_be_interrupted(router: Session, call: str) -> None:
    waiting = router.declare_queryable("slow")
    full = router.declare_subscriber("full", FifoChannel(1))
    held: list[Query] = []
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
            if call == "get":
                held.append(waiting.recv(TIMEOUT_SECONDS))
            if call == "put":
                until(lambda: any(driver._paused for driver in router._runtime.node.drivers.values()))
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
        finally:
            child.kill()
    full.undeclare()


def test_timestamp_callback_must_be_a_function() -> None:
    with pytest.raises(TypeError, match="expected a function as timestamp_callback, found 'int'"):
        open(config("peer"), timestamp_callback=3)  # type: ignore[arg-type]
