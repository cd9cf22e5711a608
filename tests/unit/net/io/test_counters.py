"""Counters of neighbours: kept when they leave, bounded, and logged once per interval."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

import pytest

from zenspark.log_throttle import LOG_INTERVAL_SECONDS
from zenspark.net.io import counters as module
from zenspark.net.io.counters import (
    DROP_TEXTS,
    LOSS_TEXTS,
    CounterRegistry,
    DropReason,
    LinkTraffic,
    MessageTotals,
    NeighbourCounters,
    NeighbourTotals,
)
from zenspark.transport.counters import LossReason, MessageKind, ReceiveCounters
from zenspark.wire.values import ZenohId

ZID, OTHER = ZenohId(0xA1), ZenohId(0xB1)
NAME = "client a1 (tcp/127.0.0.1:7447)"


class Timers:
    """A clock that is advanced by the test."""

    def __init__(self) -> None:
        self.time = 0.0
        self.due: list[tuple[float, Callable[[], object]]] = []

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, work: Callable[[], object]) -> None:
        self.due.append((when, work))

    def run_next(self) -> None:
        """Run what is next."""
        ((self.time, work),) = self.due
        self.due.clear()
        work()


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def registry(timers: Timers) -> CounterRegistry:
    return CounterRegistry(timers, contextlib.nullcontext())


def receive_counters(received: int = 0, **lost: int) -> ReceiveCounters:
    made = ReceiveCounters()
    made.received = received
    for name, count in lost.items():
        made.count_lost(LossReason(name), count)
    return made


def test_every_reason_has_a_text() -> None:
    assert LOSS_TEXTS.keys() == set(LossReason)
    assert DROP_TEXTS.keys() == set(DropReason)


def test_a_neighbour_is_counted_over_all_its_links() -> None:
    counters = NeighbourCounters(ZID)
    first, second = receive_counters(3, interrupted=1), receive_counters(4)
    counters.open(NAME, first)
    counters.open(NAME, second)
    counters.count_dropped(DropReason.CONGESTION, 2)
    counters.count_dropped(DropReason.CONGESTION, 5)
    first.received += 10
    expected = NeighbourTotals(ZID, 17, {LossReason.INTERRUPTED: 1}, {DropReason.CONGESTION: 7}, {MessageKind.PUSH: 17})
    assert counters.totals == expected
    counters.close(first)
    assert counters.is_open
    counters.close(second)
    assert not counters.is_open
    assert counters.totals == expected


def test_counters_continue_after_reconnect(registry: CounterRegistry) -> None:
    first = receive_counters(3)
    before = registry.open(ZID, NAME, first)
    registry.close(ZID, first)
    assert registry.open(ZID, NAME, receive_counters(4)) is before
    (totals,) = registry.totals
    assert totals.received == 7


def test_counters_of_oldest_past_neighbours_are_removed(
    registry: CounterRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_NEIGHBOURS", 3)
    registry.open(ZID, NAME, receive_counters())
    for number in range(1, 6):
        came = receive_counters(number)
        registry.open(ZenohId(number), NAME, came)
        registry.close(ZenohId(number), came)
    assert [totals.zid.value for totals in registry.totals] == [ZID.value, 4, 5]
    for number in range(10, 15):
        registry.open(ZenohId(number), NAME, receive_counters())
    assert [totals.zid.value for totals in registry.totals] == [ZID.value, 10, 11, 12, 13, 14]
    assert registry.message_totals.received_by_kind == {MessageKind.PUSH: 1 + 2 + 3 + 4 + 5}


def test_totals_of_all_neighbours_add_up(registry: CounterRegistry) -> None:
    for number in (1, 2):
        registry.open(ZenohId(number), NAME, receive_counters(number, interrupted=1)).count_dropped(
            DropReason.BLOCKED, 3
        )
    expected = MessageTotals({MessageKind.PUSH: 3}, {LossReason.INTERRUPTED: 2}, {DropReason.BLOCKED: 6})
    assert registry.message_totals == expected


def test_traffic_of_links_adds_up() -> None:
    total = LinkTraffic()
    for _ in range(2):
        total.add(LinkTraffic(1, 2, {MessageKind.PUSH: 3}))
    assert total == LinkTraffic(2, 4, {MessageKind.PUSH: 6})


def test_losses_are_logged_once_per_interval_with_a_count(
    registry: CounterRegistry, timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    came = receive_counters(interrupted=12)
    registry.open(ZID, NAME, came)
    registry.open(OTHER, NAME, receive_counters(1000))
    assert caplog.messages == [], "not yet"
    timers.run_next()
    assert timers.now() == LOG_INTERVAL_SECONDS
    assert caplog.messages == [
        f"lost 12 fragmented messages from {NAME} in the last 10 s: "
        "a new message began before the last fragment; 12 in all"
    ]
    caplog.clear()
    timers.run_next()
    assert caplog.messages == [], "nothing more was lost"
    came.count_lost(LossReason.INTERRUPTED, 677)
    came.count_lost(LossReason.SEQUENCE_GAP, 3)
    timers.run_next()
    assert caplog.messages == [
        f"lost 677 fragmented messages from {NAME} in the last 10 s: "
        "a new message began before the last fragment; 689 in all",
        f"lost 3 frames or fragments from {NAME} in the last 10 s: sequence numbers were skipped; 3 in all",
    ]


def test_drops_are_logged_once_per_interval_with_a_count(
    registry: CounterRegistry, timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    counters = registry.open(ZID, NAME, receive_counters())
    counters.count_dropped(DropReason.CONGESTION, 4)
    timers.run_next()
    counters.count_dropped(DropReason.CONGESTION, 1)
    timers.run_next()
    words = f"messages to {NAME} in the last 10 s: the link had unsent bytes or was backlogged;"
    assert caplog.messages == [f"dropped 4 {words} 4 in all", f"dropped 1 {words} 5 in all"]


def test_unsent_batches_are_logged_as_batches(
    registry: CounterRegistry, timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    registry.open(ZID, NAME, receive_counters()).count_dropped(DropReason.UNRESPONSIVE, 3)
    timers.run_next()
    assert caplog.messages == [
        f"dropped 3 unsent batches to {NAME} in the last 10 s: the neighbour was closed as a slow consumer; 3 in all"
    ]


def test_neighbour_is_named_by_its_zid_before_it_has_a_link() -> None:
    counters = NeighbourCounters(ZID)
    assert str(counters) == "a1"
    counters.open(NAME, receive_counters())
    assert str(counters) == NAME


def test_last_losses_are_logged_when_a_neighbour_leaves(
    registry: CounterRegistry, timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    came = receive_counters(too_large=1)
    registry.open(ZID, NAME, came)
    registry.close(ZID, came)
    assert len(caplog.messages) == 1
    timers.run_next()
    assert timers.due == [], "there is no neighbour"
    assert len(caplog.messages) == 1
    registry.open(ZID, NAME, receive_counters())
    assert len(timers.due) == 1
