"""A router between one who publishes and one who does not read for the moment."""

from __future__ import annotations

import time

import pytest

from tests.unit.net.ends import meanwhile
from tests.unit.net.nodes import KEY, TestNode, call, nodes, qos
from tests.waiting import PATIENCE
from zenspark.net import speaking
from zenspark.net.endpoints import Endpoint
from zenspark.net.node import Limits
from zenspark.net.speaking import Patience
from zenspark.wire.codec import encode
from zenspark.wire.messages import Push, Put
from zenspark.wire.values import Congestion, Priority, WhatAmI, WireExpr

A, B, C = 0xA1, 0xB1, 0xC1


class Relay:
    """A router between a client that publishes and one that does not read for the moment."""

    def __init__(self, block: float) -> None:
        patience = Patience(block=block, linger=0.1)
        self.router = TestNode(A, WhatAmI.ROUTER, Limits(patience=patience))
        self.source, self.target = TestNode(B, WhatAmI.CLIENT), TestNode(C, WhatAmI.CLIENT)
        there = self.router.place()
        there = Endpoint.parse(f"{there}#so_rcvbuf=8192")
        self.target.subscribe()
        call(self.target, there)
        self.router.wait_for(C)
        call(self.source, there)
        self.router.wait_for(B, C)
        self.source.wait_for(A)
        self.target.wait_for(A)
        (driver,) = self.target.drivers.values()
        driver.pause()
        self.reading = driver
        (self.saying,) = self.source.drivers.values()
        (self.behind,) = [each for face, each in self.router.drivers.items() if face.zid.value == C]

    def publish(self, congestion: Congestion, reliable: bool = True) -> bool:
        message = Push(wire_expr=WireExpr(0, KEY), qos=qos(congestion), body=Put(payload=bytes(10_000)))
        return self.saying.put(encode(message), None, qos(congestion), reliable)

    def all(self) -> tuple[TestNode, ...]:
        return self.source, self.target, self.router


def test_what_is_passed_on_waits_for_who_does_not_read_and_its_source_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaking, "BEHIND", 100_000)
    relay = Relay(block=60.0)
    with nodes(*relay.all()):
        with meanwhile(lambda: [relay.publish(Congestion.BLOCK) for _ in range(3000)]) as result:
            deadline = time.monotonic() + PATIENCE
            while not relay.behind.is_behind:
                assert time.monotonic() < deadline
                relay.router.wait(lambda: False, 0.01)
            relay.reading.resume()
            assert all(result())
        assert len(relay.target.heard.wait_payloads(3000)) == 3000
        assert relay.behind._backlog < 2_000_000, "its source was held back"


def test_what_may_be_dropped_is_not_passed_on_to_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaking, "BEHIND", 100_000)
    relay = Relay(block=60.0)
    with nodes(*relay.all()):
        sent = [relay.publish(Congestion.DROP) for _ in range(3000)]
        assert relay.saying.wait_for_room(Congestion.BLOCK)
        assert relay.router.wait(lambda: relay.behind._backlog < 1_000_000, 0)
        relay.reading.resume()
        assert relay.publish(Congestion.BLOCK)
        assert relay.target.heard.wait(lambda: bool(relay.target.heard.payloads))
        assert len(relay.target.heard.payloads) <= sum(sent) + 1


def test_who_takes_nothing_although_others_wait_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaking, "BEHIND", 100_000)
    relay = Relay(block=0.3)
    with nodes(*relay.all()):
        with meanwhile(lambda: [relay.publish(Congestion.BLOCK) for _ in range(3000)]):
            relay.router.wait_for(B)
        assert relay.publish(Congestion.BLOCK), "the source goes on"


def test_the_links_one_would_wait_for_are_known_by_key() -> None:
    relay = Relay(block=60.0)
    with nodes(*relay.all()):
        message = Push(wire_expr=WireExpr(0, KEY), qos=qos(Congestion.BLOCK), body=Put(payload=bytes(100_000)))
        deadline = time.monotonic() + PATIENCE
        while not relay.behind.makes_wait(Congestion.BLOCK):
            assert time.monotonic() < deadline
            relay.behind.put(encode(message), None, qos(Congestion.BLOCK), True)
        assert relay.router.late_links(Congestion.BLOCK) == [relay.behind]
        assert relay.router.late_links(Congestion.BLOCK, KEY) == [relay.behind]
        assert relay.router.late_links(Congestion.BLOCK, "nobody/wants/this") == []
        relay.reading.resume()
        assert relay.behind.wait_for_room(Congestion.BLOCK)
        assert relay.router.late_links(Congestion.BLOCK, KEY) == []


def test_reliability_is_passed_on() -> None:
    relay = Relay(block=60.0)
    with nodes(*relay.all()):
        relay.reading.resume()
        for reliable in (True, False):
            assert relay.publish(Congestion.BLOCK, reliable)
        relay.target.heard.wait_payloads(2)
        hearing = relay.reading.connection._hearing
        assert hearing is not None
        assert {lane[1] for lane in hearing._lanes if lane[0] is Priority.DATA} == {True, False}
