"""Lifecycle of the session runtime, and dispatch of received messages."""

from __future__ import annotations

import threading

import pytest

from tests.optional import some
from tests.unit.api.sessions import connected, listening
from tests.unit.net.ends import meanwhile
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.engine.runtime import SessionRuntime
from zenspark.errors import SessionClosed
from zenspark.handlers.handler import FifoChannel
from zenspark.types.enums import CongestionControl, Locality
from zenspark.types.sample import Sample
from zenspark.wire import messages
from zenspark.wire import values as wire


def test_check_open_raises_after_close(peer: Session) -> None:
    runtime: SessionRuntime = peer._runtime
    runtime.check_open()
    peer.close()
    with pytest.raises(SessionClosed):
        runtime.check_open()


def test_publication_from_the_router_is_delivered_as_one_of_another_session(peer: Session) -> None:
    remote = peer.declare_subscriber("a", allowed_origin=Locality.REMOTE)
    local = peer.declare_subscriber("a", allowed_origin=Locality.SESSION_LOCAL)
    runtime: SessionRuntime = peer._runtime
    push = messages.Push(wire_expr=wire.WireExpr(0, "a"), body=messages.Put(payload=b"1"))
    with runtime.lock:
        runtime.receive(push, runtime.node.local_face, True)
    assert some(remote.try_recv()).payload == b"1"
    assert local.try_recv() is None


@pytest.mark.parametrize("size", [1, 200_000])
def test_a_full_channel_pauses_its_sender(router: Session, client: Session, size: int) -> None:
    full = router.declare_subscriber("much", FifoChannel(5))

    def send() -> None:
        for _ in range(100):
            client.put("much", b"x" * size, congestion_control=CongestionControl.BLOCK)

    sender = threading.Thread(target=send)
    sender.start()
    until(lambda: full._runtime.node.drivers and next(iter(full._runtime.node.drivers.values()))._paused)
    assert [len(full.recv(TIMEOUT_SECONDS).payload) for _ in range(100)] == [size] * 100
    sender.join(TIMEOUT_SECONDS)
    until(lambda: not next(iter(full._runtime.node.drivers.values()))._paused)


def test_single_publication_that_fills_a_channel_pauses_the_link_it_came_by(client: Session) -> None:
    full = client.declare_subscriber("a", FifoChannel(1))
    runtime: SessionRuntime = client._runtime
    push = messages.Push(wire_expr=wire.WireExpr(0, "a"), body=messages.Put(payload=b"1"))
    with runtime.lock:
        ((face, driver),) = runtime.node.drivers.items()
        assert not driver._paused
        for _ in range(2):
            runtime.receive(push, face, True)
        assert driver._paused
    assert full.recv(TIMEOUT_SECONDS).payload == b"1"


def test_wait_for_links_waits_until_a_backlogged_link_is_drained(
    client: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (driver,) = client._runtime.node.link_drivers
    waits: list[wire.Congestion] = []
    monkeypatch.setattr(driver, "wait_until_drained", waits.append)
    client._runtime.wait_for_links()
    assert waits == []
    monkeypatch.setattr("zenspark.net.io.writer.BACKLOG_HIGH_WATER_BYTES", -1)
    client._runtime.wait_for_links()
    assert waits == [wire.Congestion.BLOCK]


@pytest.mark.slow
def test_declaration_waits_for_a_backlogged_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.net.io.writer.BACKLOG_HIGH_WATER_BYTES", 10_000)
    with listening("router") as router, connected("client", router) as client:
        (reader,) = router._runtime.node.drivers.values()
        (writer,) = client._runtime.node.drivers.values()
        reader.pause()
        with meanwhile(lambda: [client.liveliness().declare_token(f"{n}/{'k' * 8000}") for n in range(1500)]) as made:
            until(lambda: writer.is_backlogged)
            reader.resume()
            tokens = made()
        assert writer.backlog < 1_000_000
        # counted by a subscriber: queries for all of them, one after the other, would hold up what is still to be read
        found: list[Sample] = []
        subscriber = router.liveliness().declare_subscriber("*/*", found.append, history=True)
        until(lambda: len(found) == len(tokens))
        subscriber.undeclare()
