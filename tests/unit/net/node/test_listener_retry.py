"""Addresses that are taken for a while."""

from __future__ import annotations

import contextlib
import socket

import pytest

from tests.unit.net.ends import meanwhile
from tests.unit.net.nodes import TestNode, call, nodes
from tests.wait import until
from zenspark.errors import LinkError, SessionClosed
from zenspark.net.backoff import RetryPolicy
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node.listener_retry import ListenerRetry

A, B = 0xA1, 0xB1
OFTEN = RetryPolicy(5, 10, 2.0)


def occupied_address() -> tuple[socket.socket, Endpoint]:
    holder = socket.create_server(("127.0.0.1", 0))
    return holder, Endpoint.parse(f"tcp/127.0.0.1:{holder.getsockname()[1]}")


def test_listen_is_retried_until_the_address_is_free() -> None:
    holder, there = occupied_address()
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        binder = ListenerRetry(alice, there, OFTEN)
        with contextlib.closing(holder), meanwhile(binder.run) as result:
            with pytest.raises(LinkError):
                ListenerRetry(alice, there, RetryPolicy(5, 10, 2.0, timeout_ms=0)).run()
            assert not alice.listeners
            holder.close()
            result()
        assert alice.listeners
        call(bob, there)
        alice.wait_for(B)


def test_listen_raises_after_the_time_limit() -> None:
    holder, there = occupied_address()
    alice = TestNode(A)
    with nodes(alice), contextlib.closing(holder), pytest.raises(LinkError):
        ListenerRetry(alice, there, RetryPolicy(5, 10, 2.0, timeout_ms=50)).run()


def test_listener_retry_uses_the_options_of_its_endpoint() -> None:
    alice = TestNode(A)
    with nodes(alice):
        there = Endpoint.parse("tcp/127.0.0.1:0#exit_on_failure=false;retry_period_max_ms=7")
        assert ListenerRetry(alice, there, RetryPolicy(exit_on_failure=True)).policy == RetryPolicy(1000, 7)


def test_failed_listen_in_the_background_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    holder, there = occupied_address()
    alice = TestNode(A)
    with nodes(alice), contextlib.closing(holder):
        ListenerRetry(alice, there, RetryPolicy(5, 10, 2.0, timeout_ms=20)).start()
        until(lambda: caplog.records)
        assert caplog.messages[0].startswith(f"listening failed, no further attempt: {there.locator.text}: ")


def test_failed_join_in_the_background_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Endpoint.parse("udp/224.0.0.123:7447")

    def fail(endpoint: Endpoint) -> None:
        raise LinkError(endpoint.locator.text, "no such interface")

    alice = TestNode(A)
    monkeypatch.setattr(alice, "join", fail)
    with nodes(alice):
        ListenerRetry(alice, group, RetryPolicy(5, 10, 2.0, timeout_ms=0)).start()
        until(lambda: caplog.records)
    assert caplog.messages == [
        "joining a multicast group failed, no further attempt: udp/224.0.0.123:7447: no such interface"
    ]


def test_retries_end_when_the_node_closes() -> None:
    holder, there = occupied_address()
    alice = TestNode(A)
    with contextlib.closing(holder):
        with nodes(alice), meanwhile(ListenerRetry(alice, there, OFTEN).run) as result:
            alice.close()
            result()
        ListenerRetry(alice, there, OFTEN).run()
    with pytest.raises(SessionClosed):
        alice.listen(there)
