"""Connectors: they try until they are let in, come back when the session is lost, and stop."""

from __future__ import annotations

import logging
import socket
import threading
import time
from itertools import pairwise

import pytest

from tests.unit.net.ends import meanwhile
from tests.unit.net.nodes import QUICK, TestNode, call, nodes
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.errors import LinkError, UsageError
from zenspark.net.backoff import RetryPolicy
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node.connector import ConnectAttempt, Connector
from zenspark.net.node.limits import NodeLimits
from zenspark.wire.values import ZenohId

A, B, C = 0xA1, 0xB1, 0xC1
OFTEN = RetryPolicy(10, 20, 2.0)
ONCE = RetryPolicy(10, 20, 2.0, timeout_ms=0)


def unused() -> Endpoint:
    """An endpoint without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return Endpoint.parse(f"tcp/127.0.0.1:{probe.getsockname()[1]}")


def test_wait_open_returns_when_the_session_is_open_and_stop_keeps_it() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        connector = Connector(alice, [bob.listen_on_loopback()], OFTEN)
        assert not connector.is_open
        connector.start()
        assert connector.wait_open(TIMEOUT_SECONDS)
        assert alice.neighbours() == {B}
        connector.stop()
        assert alice.neighbours() == {B}, "the session stays"
        assert not connector._thread.is_alive()


def test_connect_is_retried_until_a_listener_is_bound() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        there = unused()
        connector = Connector(alice, [there], OFTEN)
        connector.start()
        assert not connector.wait_open(0.05)
        assert isinstance(connector.error, LinkError)
        bob.listen(there)
        assert connector.wait_open(TIMEOUT_SECONDS)


def test_connector_problem_is_the_reason_why_there_is_no_session() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice):
        with nodes(bob):
            there = bob.listen_on_loopback()
            connector = Connector(alice, [there], OFTEN)
            assert (connector.endpoints, connector.problem) == ([there.locator.text], None)
            connector.start()
            assert connector.wait_open(TIMEOUT_SECONDS)
            assert connector.problem is None
        until(lambda: connector.problem)
        until(lambda: "refused" in str(connector.problem))


@pytest.mark.slow
def test_waits_between_connect_attempts_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    alice = TestNode(A)
    with nodes(alice):
        tries: list[float] = []
        enough = threading.Event()

        def refuse(*_: object) -> None:
            tries.append(time.monotonic())
            if len(tries) == 4:
                enough.set()
            raise LinkError("tcp/nowhere:1", "refused")

        monkeypatch.setattr(alice, "connect", refuse)
        connector = Connector(alice, [unused()], RetryPolicy(20, 80, 2.0))
        connector.start()
        assert enough.wait(TIMEOUT_SECONDS)
        connector.stop()
        waits = [later - earlier for earlier, later in pairwise(tries)]
        assert waits[0] >= 0.02
        assert waits[1] >= 0.04
        assert waits[2] >= 0.08


def test_first_reachable_of_several_endpoints_is_used() -> None:
    alice, bob, carol = TestNode(A), TestNode(B), TestNode(C)
    with nodes(alice, bob, carol):
        connector = Connector(alice, [unused(), bob.listen_on_loopback(), carol.listen_on_loopback()], ONCE)
        connector.start()
        assert connector.wait_open(TIMEOUT_SECONDS)
        assert alice.neighbours() == {B}


def test_timeout_of_zero_makes_one_attempt() -> None:
    alice = TestNode(A)
    with nodes(alice):
        connector = Connector(alice, [unused()], ONCE)
        connector.start()
        assert not connector.wait_open(None), "it gives up, so there is nothing to wait for"
        assert connector.has_ended
        assert isinstance(connector.error, LinkError)


def test_connector_uses_the_retry_options_of_its_endpoint() -> None:
    alice = TestNode(A)
    with nodes(alice):
        there = Endpoint.parse(f"{unused()}#exit_on_failure=true;retry_period_init_ms=7")
        policy = Connector(alice, [there], OFTEN).policy
        assert policy.exit_on_failure
        assert policy.period_init_ms == 7


def test_lost_session_is_reconnected() -> None:
    alice, bob = TestNode(A), TestNode(B)
    carol = TestNode(C)
    with nodes(alice, bob, carol):
        there = bob.listen_on_loopback()
        connector = Connector(alice, [there], ONCE)
        connector.start()
        assert connector.wait_open(TIMEOUT_SECONDS)
        bob.close()
        alice.wait_for()
        assert not connector.is_open
        carol.listen(there)
        assert connector.wait_open(TIMEOUT_SECONDS), "once it was there it is wanted back, whatever the timeout was"
        alice.wait_for(C)


def test_existing_session_counts_until_it_ends() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        there, here = bob.listen_on_loopback(), alice.listen_on_loopback()
        call(bob, here)
        alice.wait_for(B)
        connector = Connector(alice, [there], OFTEN)
        connector.start()
        assert connector.wait_open(TIMEOUT_SECONDS)
        assert len(alice.drivers) == 1
        (driver,) = bob.drivers.values()
        bob.loop.call_soon(driver.end_session)
        alice.wait(lambda: not alice.drivers, TIMEOUT_SECONDS)
        alice.wait_for(B)
        bob.wait_for(A)
        assert connector.wait_open(TIMEOUT_SECONDS)


def test_connection_to_self_is_not_retried_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "zenspark.net")
    alice = TestNode(A)
    with nodes(alice):
        there = alice.listen_on_loopback()
        connector = Connector(alice, [there], OFTEN)
        connector.start()
        assert not connector.wait_open(None)
        assert connector.has_ended
    assert [line for line in caplog.messages if line.startswith("connecting to ")] == [
        f"connecting to {there.locator.text} failed: it is this node itself; remove it from connect/endpoints"
    ]


def test_failed_attempt_is_logged_with_its_endpoint_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "zenspark.net")
    alice, there = TestNode(A), unused()
    with nodes(alice):
        connector = Connector(alice, [there], ONCE)
        connector.start()
        assert not connector.wait_open(None)
    assert f"connecting to {there.locator.text} failed: cannot connect: Connection refused" in caplog.messages


def test_problem_of_an_attempt_names_no_endpoint() -> None:
    alice = TestNode(A)
    with nodes(alice):
        attempt = ConnectAttempt(alice, unused())
        assert attempt.problem == "no session was opened"
        attempt.error = UsageError("unusable")
        assert attempt.problem == "unusable"


def test_stop_wakes_wait_open_at_once() -> None:
    alice = TestNode(A)
    with nodes(alice):
        connector = Connector(alice, [unused()], RetryPolicy(3_600_000, 3_600_000, 1.0))
        connector.start()
        with meanwhile(lambda: connector.wait_open(None)) as result:
            alice.wait(lambda: connector.error is not None, 0.05)
            connector.stop(TIMEOUT_SECONDS)
            assert not result()
        assert not connector._thread.is_alive()
        connector.stop()


def test_closing_the_node_ends_its_connectors() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        trying, open_ = Connector(alice, [unused()], OFTEN), Connector(alice, [bob.listen_on_loopback()], OFTEN)
        trying.start()
        open_.start()
        assert open_.wait_open(TIMEOUT_SECONDS)
        alice.close()
        for connector in (trying, open_):
            connector._thread.join(TIMEOUT_SECONDS)
            assert not connector._thread.is_alive()


def test_attempt_without_reply_ends_after_open_timeout() -> None:
    alice = TestNode(A, limits=NodeLimits(open_timeout=0.1, writer=QUICK))
    with nodes(alice), socket.create_server(("127.0.0.1", 0)) as deaf:
        attempt = ConnectAttempt(alice, Endpoint.parse(f"tcp/127.0.0.1:{deaf.getsockname()[1]}"), ZenohId(B))
        assert not attempt.run()
        assert "no session" in str(attempt.error)
        assert not attempt.is_open
