"""GroupDriver: reads and writes the datagrams of a group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.net.ends import free_group
from tests.unit.net.nodes import QUICK, EventRecorder, qos
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.net.io.group_driver import GroupDriver
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.io.link_observer import LinkObserver
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import find_interface
from zenspark.net.links.multicast import join
from zenspark.net.loop.event_loop import EventLoop
from zenspark.transport.handshake import Identity
from zenspark.transport.multicast import GroupSession, GroupSettings, MemberEvent, MemberJoined, MemberLeft
from zenspark.wire.codec import encode
from zenspark.wire.messages import Push, Put
from zenspark.wire.values import WhatAmI, WireExpr, ZenohId

LO = find_interface("127.0.0.1").name


class Member(EventRecorder, LinkObserver):
    """A member of a group with a loop of its own; records the events of the group and of its link."""

    def __init__(self, number: int, endpoint: Endpoint) -> None:
        super().__init__()
        self.loop = EventLoop("test-member")
        session = GroupSession(Identity(ZenohId(number), WhatAmI.PEER), GroupSettings(), self.loop.now(), number)
        self.driver = GroupDriver(self.loop, join(endpoint), session, self.note, QUICK, self)
        self.loop.start()
        self.loop.call_soon(self.driver.start)

    def on_link_closed(self, driver: LinkDriver) -> None:
        self.note("link closed")

    def wait_for(self, kind: type) -> None:
        assert self.wait(lambda: any(isinstance(event, kind) for event in list(self.events))), self.events

    def close(self) -> None:
        self.loop.call_soon(self.driver.end_session)
        assert self.wait(lambda: "link closed" in self.events)
        assert self.loop.stop(TIMEOUT_SECONDS)


@pytest.fixture
def members() -> Iterator[tuple[Member, Member]]:
    endpoint = Endpoint.parse(f"udp/{free_group()}#iface={LO}")
    first, second = Member(0xA1, endpoint), Member(0xB1, endpoint)
    first.wait_for(MemberJoined)
    second.wait_for(MemberJoined)
    yield first, second
    for member in (first, second):
        if not member.driver.is_link_closed:
            member.close()


def test_publications_reach_the_other_member(members: tuple[Member, Member]) -> None:
    first, second = members
    message = encode(Push(wire_expr=WireExpr(0, "a"), qos=qos(), body=Put(payload=b"x")))
    assert first.driver.publish(message, None, qos(), True)
    second.wait_for(MemberEvent)


def test_close_is_received_and_the_link_released(members: tuple[Member, Member]) -> None:
    first, second = members
    first.close()
    second.wait_for(MemberLeft)
    assert first.driver.link.fileno() < 0


def test_datagrams_that_are_not_taken_are_sent_again(
    members: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = members
    send, refusals = first.driver.link.send, iter([0, 0, 0])

    def send_later(data: bytes) -> int:
        return 0 if next(refusals, None) is not None else send(data)

    monkeypatch.setattr(first.driver.link, "send", send_later)
    message = encode(Push(wire_expr=WireExpr(0, "a"), qos=qos(), body=Put(payload=b"x")))
    assert first.driver.publish(message, None, qos(), True)
    second.wait_for(MemberEvent)
    until(lambda: not first.driver.has_unsent)
