"""Dispatcher: messages between neighbours, the router and the local session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from tests.unit.net.nodes import KEY, Recorder, TestNode, call, nodes, push
from tests.wait import until
from zenspark.net.io.congestion_control import WriterSettings
from zenspark.net.io.forwarding_backpressure import ForwardingBackpressure
from zenspark.net.io.link_driver import ConnectionDriver
from zenspark.net.loop.event_loop import EventLoop
from zenspark.net.node.dispatch import Dispatcher
from zenspark.router.face import Face
from zenspark.router.linkstate.gossip import DiscoveredNode
from zenspark.router.router import Router, RouterPolicy
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareSubscriber,
    DeclareToken,
    Interest,
    NetworkMessage,
    Push,
)
from zenspark.wire.values import InterestMode, QoS, WhatAmI, WireExpr, ZenohId

A, B, C = 0xA1, 0xB1, 0xC1


def test_router_forwards_publications_between_its_clients() -> None:
    router = TestNode(A, WhatAmI.ROUTER)
    one, other = TestNode(B, WhatAmI.CLIENT), TestNode(C, WhatAmI.CLIENT)
    with nodes(one, other, router):
        there = router.listen_on_loopback()
        other.subscribe()
        call(other, there)
        call(one, there)
        router.wait_for(B, C)
        one.wait_for(A)
        until(lambda: router.router.routes.push_next_hops(router.local_face, KEY))
        one.send_local(Interest(id=1, mode=InterestMode.CURRENT_FUTURE, subscribers=True, wire_expr=WireExpr(0, KEY)))
        assert one.received.wait(
            lambda: any(isinstance(e, Declare) and isinstance(e.body, DeclareFinal) for e in one.received.events)
        )
        one.publish(b"through")
        assert other.received.wait_payloads(1) == [b"through"]
        assert one.received.payloads == []


def test_gossip_of_a_neighbour_reports_discovered_nodes() -> None:
    alice, bob, carol = (TestNode(number, gossip=True) for number in (A, B, C))
    with nodes(alice, bob, carol):
        there = alice.listen_on_loopback()
        to_bob = bob.listen_on_loopback()
        call(bob, there)
        alice.wait_for(B)
        call(carol, there)
        alice.wait_for(B, C)
        expected = DiscoveredNode(ZenohId(B), WhatAmI.PEER, (to_bob.locator,))
        assert carol.observer.wait(lambda: expected in carol.observer.events)


class FakeDriver:
    """Records the messages sent on a link."""

    is_backlogged = False

    def __init__(self) -> None:
        self.sent: list[NetworkMessage] = []

    def send_message(self, message: NetworkMessage, qos: QoS, reliable: bool) -> None:
        self.sent.append(message)


class FakeSession(Recorder):
    """Records the source and reliability of each message."""

    def receive(self, message: NetworkMessage, source: Face, reliable: bool) -> None:
        self.note((type(message), source, reliable))


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop("test-dispatch")
    yield made
    made.stop()


def make_dispatcher(loop: EventLoop) -> tuple[Dispatcher, Face, FakeDriver, FakeSession]:
    """Make a dispatcher with one neighbour. Its loop does not run."""
    router = Router(ZenohId(A), WhatAmI.PEER, RouterPolicy())
    dispatcher = Dispatcher(router, loop, ForwardingBackpressure(loop, WriterSettings()))
    session, driver = FakeSession(), FakeDriver()
    dispatcher.session = session
    face, _ = router.add_face(ZenohId(B), WhatAmI.PEER, 0.0)
    with dispatcher.lock:
        dispatcher.faces.add_session(face, cast("ConnectionDriver", driver))
    return dispatcher, face, driver, session


@pytest.mark.parametrize("reliable", [True, False])
def test_session_gets_the_source_and_reliability_of_a_message(loop: EventLoop, reliable: bool) -> None:
    dispatcher, face, _, session = make_dispatcher(loop)
    with dispatcher.lock:
        dispatcher.route(dispatcher.local_face, Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, KEY))))
        dispatcher.route(face, push(b"x"), reliable)
    assert (Push, face, reliable) in session.events


def test_message_without_a_source_comes_from_the_local_face(loop: EventLoop) -> None:
    dispatcher, face, _, session = make_dispatcher(loop)
    interest = Interest(id=1, mode=InterestMode.CURRENT_FUTURE, tokens=True, wire_expr=WireExpr(0, KEY))
    token = Declare(body=DeclareToken(id=7, wire_expr=WireExpr(0, KEY)))
    with dispatcher.lock:
        dispatcher.route(dispatcher.local_face, interest)
        dispatcher.route(face, token)
        session.events.clear()
        dispatcher.emit(dispatcher.router.remove_face(face, 1.0))
    assert session.events == [(Declare, dispatcher.local_face, True)]


def test_route_returns_the_links_it_has_sent_on(loop: EventLoop) -> None:
    dispatcher, face, driver, _ = make_dispatcher(loop)
    interest = Interest(id=1, mode=InterestMode.CURRENT_FUTURE, subscribers=True, wire_expr=WireExpr(0, KEY))
    subscriber = Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, KEY)))
    with dispatcher.lock:
        dispatcher.route(face, interest)
        driver.sent.clear()
        assert set(dispatcher.route(dispatcher.local_face, subscriber)) == {driver}  # type: ignore[comparison-overlap]  # equal by design
    assert {type(message) for message in driver.sent} == {Declare}
