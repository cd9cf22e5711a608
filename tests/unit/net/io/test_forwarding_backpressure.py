"""A router between a publisher and a subscriber that does not read for the moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.unit.net.ends import meanwhile
from tests.unit.net.nodes import KEY, TestNode, call, nodes, qos
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.net.io import forwarding_backpressure as module
from zenspark.net.io import writer
from zenspark.net.io.congestion_control import WriterSettings, describe_stall
from zenspark.net.io.counters import DropReason
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.loop.event_loop import Timer
from zenspark.net.node.limits import NodeLimits
from zenspark.router.forwarding.plans import NeighbourPlan
from zenspark.wire.codec import encode
from zenspark.wire.columns import NO_LANE, BatchDecoder, Framing, PushColumns, PushRun, StopReason
from zenspark.wire.messages import (
    Declare,
    DeclareToken,
    Frame,
    NetworkMessage,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
)
from zenspark.wire.values import Congestion, Priority, QoS, WhatAmI, WireExpr

A, B, C = 0xA1, 0xB1, 0xC1


class Relay:
    """A router between a client that publishes and one that does not read for the moment."""

    def __init__(self, block: float) -> None:
        settings = WriterSettings(wait_before_close=block, close_linger=0.1)
        self.router = TestNode(A, WhatAmI.ROUTER, NodeLimits(writer=settings))
        self.source, self.target = TestNode(B, WhatAmI.CLIENT), TestNode(C, WhatAmI.CLIENT)
        there = self.router.listen_on_loopback()
        # Not below loopback's maximum segment of 65,483 bytes: there TCP may send one receive buffer every 200 ms.
        there = Endpoint.parse(f"{there}#so_rcvbuf=131072")
        self.target.subscribe()
        call(self.target, there)
        self.router.wait_for(C)
        call(self.source, there)
        self.router.wait_for(B, C)
        self.source.wait_for(A)
        self.target.wait_for(A)
        (driver,) = self.target.drivers.values()
        driver.pause()
        self.target_driver = driver
        (self.source_driver,) = self.source.drivers.values()
        (self.behind,) = [each for face, each in self.router.drivers.items() if face.zid.value == C]
        until(self._has_subscription)

    def _has_subscription(self) -> bool:
        """Return whether the router has the target's subscription; before that it forwards nothing."""
        with self.router.lock:
            return bool(self.router.router.routes.push_next_hops(self.router.local_face, KEY))

    def drops(self) -> Mapping[DropReason, int]:
        """Return the messages that the router dropped instead of sending them to the target."""
        (totals,) = [each for each in self.router.counters.totals if each.zid.value == C]
        return totals.dropped

    def publish(self, congestion: Congestion, reliable: bool = True) -> bool:
        message = Push(wire_expr=WireExpr(0, KEY), qos=qos(congestion), body=Put(payload=bytes(10_000)))
        return self.source_driver.publish(encode(message), None, qos(congestion), reliable)

    def all(self) -> tuple[TestNode, ...]:
        return self.source, self.target, self.router


@pytest.mark.slow
def test_source_is_paused_while_the_target_is_backlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BACKLOG_HIGH_WATER_BYTES", 100_000)
    relay = Relay(block=60.0)
    with nodes(*relay.all()):
        with meanwhile(lambda: [relay.publish(Congestion.BLOCK) for _ in range(3000)]) as result:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not relay.behind.is_backlogged:
                assert time.monotonic() < deadline
                relay.router.wait(lambda: False, 0.01)
            relay.target_driver.resume()
            assert all(result())
        assert len(relay.target.received.wait_payloads(3000)) == 3000
        assert relay.behind._backlog < 2_000_000, "its source was held back"


@pytest.mark.slow
def test_droppable_publications_to_a_backlogged_target_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BACKLOG_HIGH_WATER_BYTES", 100_000)
    relay = Relay(block=60.0)
    with nodes(*relay.all()):
        sent = [relay.publish(Congestion.DROP) for _ in range(3000)]
        assert relay.source_driver.wait_until_drained(Congestion.BLOCK)
        assert relay.router.wait(lambda: relay.behind._backlog < 1_000_000, 0)
        relay.target_driver.resume()
        assert relay.publish(Congestion.BLOCK)
        assert relay.target.received.wait(lambda: bool(relay.target.received.payloads))
        assert len(relay.target.received.payloads) <= sum(sent) + 1


@pytest.mark.slow
def test_drops_are_counted_for_the_backlogged_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BACKLOG_HIGH_WATER_BYTES", 100_000)
    relay = Relay(block=60.0)
    with nodes(*relay.all()):
        sent, deadline = 0, time.monotonic() + TIMEOUT_SECONDS
        while not relay.drops():  # on a busy machine the source may drop most of them itself
            assert time.monotonic() < deadline
            sent += sum(relay.publish(Congestion.DROP) for _ in range(100))
        assert relay.source_driver.wait_until_drained(Congestion.BLOCK)
        relay.target_driver.resume()
        last = Push(wire_expr=WireExpr(0, KEY), qos=qos(Congestion.BLOCK), body=Put(payload=b"last"))
        assert relay.source_driver.publish(encode(last), None, qos(Congestion.BLOCK), True)
        assert relay.target.received.wait(lambda: b"last" in relay.target.received.payloads)
        assert relay.drops() == {DropReason.CONGESTION: sent + 1 - len(relay.target.received.payloads)}


SHAPES = {"a": Congestion.DROP, "b": Congestion.BLOCK, "c": Congestion.DROP}
"""Keys, and how publications on them are treated."""


@pytest.mark.parametrize(
    ("keys", "wanted", "dropped"),
    [("aab", "ab", 2), ("aab", "b", 0), ("bb", "b", 0), ("aaa", "a", 3), ("abcabc", "abc", 4), ("abcabc", "bc", 2)],
)
def test_count_droppable_counts_forwarded_rows_that_may_be_dropped(keys: str, wanted: str, dropped: int) -> None:
    messages = tuple(Push(wire_expr=WireExpr(0, key), qos=qos(SHAPES[key]), body=Put(payload=b"")) for key in keys)
    columns = PushColumns(16)
    assert (
        BatchDecoder(encode(Frame(reliable=True, sn=0, msgs=messages)), Framing.BATCH).decode(columns) is StopReason.END
    )
    plan = NeighbourPlan.empty(columns.template_count)
    for index in range(columns.template_count):
        template = columns.template_at(index)
        if template.wire_expr.suffix in wanted:
            plan.lanes[index] = 13
            plan.undroppable_lanes[index] = 13 if template.qos.congestion is Congestion.BLOCK else NO_LANE
    assert module._count_droppable(plan, PushRun(columns, 0, len(keys))) == dropped


ROWS = {"d": Congestion.DROP, "b": Congestion.BLOCK, "f": Congestion.BLOCK_FIRST, "g": Congestion.BLOCK_FIRST}


@pytest.mark.parametrize(
    ("keys", "passed", "dropped", "is_held"),
    [
        ("dfgfb", ["f", "b"], 3, True),
        ("bdgbf", ["b", "g", "b"], 2, True),
        ("ddf", ["f"], 2, True),
        ("f", ["f"], 0, True),
        ("dd", [], 2, False),
        ("db", ["b"], 1, True),
    ],
)
def test_first_row_with_block_first_is_forwarded(keys: str, passed: list[str], dropped: int, is_held: bool) -> None:
    source, target, pushes, plan = FakeLink(), FakeLink(BACKLOGGED_BYTES), *rows_of(keys)
    _, backpressure = held()
    for _ in range(2):
        assert [keys[row] for row in forwarded_rows(backpressure, source, target, plan, pushes)] == passed
        assert target.dropped.pop(DropReason.CONGESTION, 0) == dropped
        assert source.paused == ({target} if is_held else set())
        backpressure.resume_sources(target)
    while_it_waits = [key for key in keys if ROWS[key] is Congestion.BLOCK]
    forwarded_rows(backpressure, source, target, plan, pushes)
    assert [keys[row] for row in forwarded_rows(backpressure, source, target, plan, pushes)] == while_it_waits
    target.backlog = 0
    assert len(forwarded_rows(backpressure, source, target, plan, pushes)) == len(keys)


def rows_of(keys: str) -> tuple[PushRun, NeighbourPlan]:
    """A row for each key, with the QoS that the key names, and the plan of a neighbour that matches all of them."""
    columns = PushColumns(16)
    messages = tuple(Push(wire_expr=WireExpr(0, key), qos=qos(ROWS[key]), body=Put(payload=b"")) for key in keys)
    assert (
        BatchDecoder(encode(Frame(reliable=True, sn=0, msgs=messages)), Framing.BATCH).decode(columns) is StopReason.END
    )
    plan = NeighbourPlan.empty(columns.template_count)
    for index in range(columns.template_count):
        congestion = columns.template_at(index).qos.congestion
        plan.lanes[index] = 13
        if congestion is Congestion.BLOCK:
            plan.undroppable_lanes[index] = 13
        elif congestion is Congestion.BLOCK_FIRST:
            plan.block_first.add(index)
    return PushRun(columns, 0, len(keys)), plan


def forwarded_rows(
    backpressure: module.ForwardingBackpressure,
    source: FakeLink,
    target: FakeLink,
    plan: NeighbourPlan,
    pushes: PushRun,
) -> list[int]:
    """Return the rows that are forwarded."""
    slices = backpressure.select_rows(source, target, plan, pushes)  # type: ignore[arg-type] # links without sockets
    template_index = pushes.columns.template_index
    return [row for start, stop, lanes in slices for row in range(start, stop) if lanes[template_index[row]] != NO_LANE]


@pytest.mark.slow
def test_relay_pauses_a_source_of_block_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BACKLOG_HIGH_WATER_BYTES", 100_000)
    relay = Relay(block=60.0)
    with nodes(*relay.all()):
        with meanwhile(lambda: sum(relay.publish(Congestion.BLOCK_FIRST) for _ in range(3000))) as result:
            (driver,) = [each for face, each in relay.router.drivers.items() if face.zid.value == B]
            until(lambda: relay.behind in driver._paused)
            relay.target_driver.resume()
            sent = result()
        assert relay.publish(Congestion.BLOCK)
        until(lambda: sum(totals(relay)) == sent + 1)


def totals(relay: Relay) -> tuple[int, int]:
    """How many publications arrived, and how many the router dropped."""
    (counted,) = [each for each in relay.router.counters.totals if each.zid.value == C]
    return len(relay.target.received.payloads), counted.dropped.get(DropReason.CONGESTION, 0)


@pytest.mark.slow
def test_unresponsive_target_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BACKLOG_HIGH_WATER_BYTES", 100_000)
    relay = Relay(block=0.3)
    with nodes(*relay.all()):
        with meanwhile(lambda: [relay.publish(Congestion.BLOCK) for _ in range(3000)]):
            relay.router.wait_for(B)
        assert relay.publish(Congestion.BLOCK), "the source goes on"


def test_blocking_links_are_found_by_key() -> None:
    relay = Relay(block=60.0)
    with nodes(*relay.all()):
        message = Push(wire_expr=WireExpr(0, KEY), qos=qos(Congestion.BLOCK), body=Put(payload=bytes(100_000)))
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not relay.behind.would_block(Congestion.BLOCK):
            assert time.monotonic() < deadline
            relay.behind.publish(encode(message), None, qos(Congestion.BLOCK), True)
        assert relay.router.blocking_links(Congestion.BLOCK) == [relay.behind]
        assert relay.router.blocking_links(Congestion.BLOCK, KEY) == [relay.behind]
        assert relay.router.blocking_links(Congestion.BLOCK, "nobody/wants/this") == []
        relay.target_driver.resume()
        assert relay.behind.wait_until_drained(Congestion.BLOCK)
        assert relay.router.blocking_links(Congestion.BLOCK, KEY) == []


def test_forwarded_publications_keep_their_reliability() -> None:
    relay = Relay(block=60.0)
    with nodes(*relay.all()):
        relay.target_driver.resume()
        for reliable in (True, False):
            assert relay.publish(Congestion.BLOCK, reliable)
        relay.target.received.wait_payloads(2)
        receiver = relay.target_driver.connection._receiver
        assert receiver is not None
        assert {lane[1] for lane in receiver._lanes if lane[0] is Priority.DATA} == {True, False}


# -- everything but publications --------------------------------------------------------------------------------------


class FakeLink:
    """A link with unsent bytes, with the attributes that forwarding backpressure uses."""

    def __init__(self, backlog: int = 0) -> None:
        self.backlog = backlog
        self.bytes_sent = 0
        self.dropped: dict[DropReason, int] = {}
        self.paused: set[object] = set()
        self.closed: str | None = None

    @property
    def is_backlogged(self) -> bool:
        return self.backlog > writer.BACKLOG_HIGH_WATER_BYTES

    def count_dropped(self, reason: DropReason, count: int = 1) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def pause(self, by: object) -> None:
        self.paused.add(by)

    def resume(self, by: object) -> None:
        self.paused.discard(by)

    def retry_from_loop(self) -> None:
        """The link takes nothing."""

    def close_slow_consumer(self, text: str) -> None:
        self.closed = text


class Clock:
    """A loop whose clock is advanced by the test."""

    def __init__(self) -> None:
        self.time = 0.0
        self._timers: list[Timer] = []

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, work: Callable[[], object]) -> Timer:
        timer = Timer(self, when, work)  # type: ignore[arg-type]
        self._timers.append(timer)
        return timer

    cancelled = 0

    def pass_time(self, seconds: float) -> None:
        end = self.time + seconds
        while due := [timer for timer in self._timers if timer.when <= end]:
            timer = min(due, key=lambda each: each.when)
            self._timers.remove(timer)
            self.time = timer.when
            if timer.task is not None:
                timer.task()
        self.time = end

    @property
    def is_idle(self) -> bool:
        return not any(timer.task is not None for timer in self._timers)


WRITER_SETTINGS = WriterSettings(wait_before_close=4.0, max_backlog=1 << 25)
BACKLOGGED_BYTES = writer.BACKLOG_HIGH_WATER_BYTES + 1
REQUEST = Request(request_id=1, wire_expr=WireExpr(0, KEY), body=Query())


def held() -> tuple[Clock, Any]:
    clock = Clock()
    return clock, module.ForwardingBackpressure(clock, WRITER_SETTINGS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message",
    [
        REQUEST,
        Response(request_id=1, wire_expr=WireExpr(0, KEY), body=Reply(body=Put(payload=b""))),
        Declare(body=DeclareToken(id=1, wire_expr=WireExpr(0, KEY))),
        Push(wire_expr=WireExpr(0, KEY), qos=qos(Congestion.BLOCK), body=Put(payload=b"")),
    ],
)
def test_source_of_undroppable_messages_is_paused_until_drained(message: NetworkMessage) -> None:
    clock, backpressure = held()
    source, target = FakeLink(), FakeLink(BACKLOGGED_BYTES)
    assert backpressure.pause_source_or_drop(source, target, message)
    assert source.paused == {target}
    target.backlog = 0
    backpressure.resume_sources(target)
    assert source.paused == set()
    clock.pass_time(10)
    assert target.closed is None
    assert clock.is_idle


def test_droppable_publications_do_not_pause_their_source() -> None:
    _, backpressure = held()
    source, target = FakeLink(), FakeLink(BACKLOGGED_BYTES)
    assert not backpressure.pause_source_or_drop(
        source, target, Push(wire_expr=WireExpr(0, KEY), qos=qos(Congestion.DROP), body=Put(payload=b""))
    )
    assert (source.paused, target.dropped) == (set(), {DropReason.CONGESTION: 1})


@pytest.mark.parametrize("is_local", [False, True])
def test_responses_that_may_be_dropped_do_not_pause_their_source(is_local: bool) -> None:
    """Without a QoS, or with one that blocks, they wait."""
    _, backpressure = held()
    source, target = FakeLink(), FakeLink(BACKLOGGED_BYTES)

    def is_forwarded(treated: QoS | None) -> bool:
        response = Response(request_id=1, wire_expr=WireExpr(0, KEY), qos=treated, body=Reply(body=Put(payload=b"")))
        return bool(backpressure.pause_source_or_drop(None if is_local else source, target, response))

    assert not is_forwarded(qos(Congestion.DROP))
    assert (source.paused, target.dropped) == (set(), {DropReason.CONGESTION: 1})
    assert is_forwarded(None)
    assert is_forwarded(qos(Congestion.BLOCK))
    assert source.paused == (set() if is_local else {target})


def test_block_first_forwards_one_and_drops_others_until_drained() -> None:
    _, backpressure = held()
    one, other, target, third = FakeLink(), FakeLink(), FakeLink(BACKLOGGED_BYTES), FakeLink(BACKLOGGED_BYTES)
    message = Push(wire_expr=WireExpr(0, KEY), qos=qos(Congestion.BLOCK_FIRST), body=Put(payload=b""))
    assert [backpressure.pause_source_or_drop(one, target, message) for _ in range(3)] == [True, False, False]
    assert (one.paused, target.dropped) == ({target}, {DropReason.CONGESTION: 2})
    assert [backpressure.pause_source_or_drop(other, target, message) for _ in range(2)] == [True, False], (
        "each has one of its own"
    )
    assert backpressure.pause_source_or_drop(one, third, message), "for each link"
    backpressure.resume_sources(target)
    assert (one.paused, other.paused) == ({third}, set())
    assert [backpressure.pause_source_or_drop(one, target, message) for _ in range(2)] == [True, False], (
        "it waits no more"
    )
    for link in (one, target, third):
        backpressure.remove(link)
    assert backpressure._block_first_sources == {}


def test_messages_without_a_source_are_forwarded() -> None:
    clock, backpressure = held()
    assert backpressure.pause_source_or_drop(None, FakeLink(BACKLOGGED_BYTES), REQUEST)
    assert clock.is_idle


def test_link_without_progress_is_closed_while_sources_are_paused() -> None:
    clock, backpressure = held()
    source, target = FakeLink(), FakeLink(BACKLOGGED_BYTES)
    backpressure.pause_source_or_drop(source, target, REQUEST)
    clock.pass_time(3.9)
    assert target.closed is None
    clock.pass_time(0.2)
    assert target.closed == describe_stall(4.0)
    backpressure.remove(target)
    assert source.paused == set()
    assert clock.is_idle


def test_link_with_progress_is_not_closed() -> None:
    clock, backpressure = held()
    target = FakeLink(BACKLOGGED_BYTES)
    backpressure.pause_source_or_drop(FakeLink(), target, REQUEST)
    for _ in range(10):
        clock.pass_time(1.9)
        target.bytes_sent += 1
    assert target.closed is None


@pytest.mark.parametrize(
    ("backlog", "others", "is_given_up"),
    [
        (BACKLOGGED_BYTES, 0, False),
        (module.MAX_STALLED_BACKLOG_BYTES + 1, 0, True),
        (BACKLOGGED_BYTES, module.MAX_TOTAL_BACKLOG_BYTES, True),
    ],
)
def test_link_without_paused_sources_is_closed_only_over_the_backlog_limit(
    backlog: int, others: int, is_given_up: bool
) -> None:
    clock, backpressure = held()
    target = FakeLink(backlog)
    backpressure.start_stall_timer(target)
    other = FakeLink(others)
    if others:
        backpressure.start_stall_timer(other)
    clock.pass_time(4.1)
    assert (target.closed is not None) == is_given_up


def test_links_that_pause_each_other_are_resumed_before_they_are_closed() -> None:
    clock, backpressure = held()
    one, other = FakeLink(BACKLOGGED_BYTES), FakeLink(BACKLOGGED_BYTES)
    backpressure.pause_source_or_drop(one, other, REQUEST)
    backpressure.pause_source_or_drop(other, one, REQUEST)
    assert (one.paused, other.paused) == ({other}, {one})
    clock.pass_time(2.1)
    assert one.paused == other.paused == set()
    backpressure.pause_source_or_drop(one, other, REQUEST)
    assert one.paused == set(), "it may be waiting for us"
    other.backlog = WRITER_SETTINGS.max_backlog // 2 + 1
    backpressure.pause_source_or_drop(one, other, REQUEST)
    assert one.paused == {other}, "but there is a limit"
    one.bytes_sent += 1
    clock.pass_time(2.0)
    assert (one.closed, other.closed) == (None, describe_stall(4.0))


def test_removed_link_leaves_no_state() -> None:
    clock, backpressure = held()
    gone, target = FakeLink(), FakeLink(BACKLOGGED_BYTES)
    backpressure.pause_source_or_drop(gone, target, REQUEST)
    backpressure.remove(gone)
    assert backpressure._paused_sources == {target: set()}
    backpressure.remove(target)
    assert (backpressure._paused_sources, backpressure._stall_timers, backpressure._exempt_from_pause) == (
        {},
        {},
        set(),
    )
    assert clock.is_idle
