"""Stamping: what gets a timestamp, what keeps its own, and what comes from the future."""

from __future__ import annotations

from zenspark.clock import HybridClock, ntp64_from_ns
from zenspark.router.stamping import Stamping
from zenspark.wire.messages import Del, Push, Put
from zenspark.wire.values import Timestamp, WireExpr, ZenohId

OWN, OTHER = ZenohId(1), ZenohId(2)
NOW = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000


def push(timestamp: Timestamp | None = None) -> Push:
    return Push(wire_expr=WireExpr(0, "a"), body=Put(timestamp=timestamp, payload=b"x"))


def stamping(drops_future: bool = False) -> Stamping:
    return Stamping(OWN, HybridClock(), lambda: NOW, drops_future)


def stamp_of(message: Push | None) -> Timestamp | None:
    assert message is not None
    assert isinstance(message.body, Put)
    return message.body.timestamp


def test_what_has_no_timestamp_gets_one_of_this_node() -> None:
    clock = stamping()
    first, second = stamp_of(clock.stamp(push())), stamp_of(clock.stamp(push()))
    assert first is not None
    assert second is not None
    assert first.id == OWN
    assert first.ntp64 >> 32 == NOW // 10**9
    assert second > first


def test_a_plausible_timestamp_stays_and_the_clock_learns_from_it() -> None:
    clock = stamping()
    ahead = Timestamp(ntp64_from_ns(NOW + 100_000_000), OTHER)
    assert stamp_of(clock.stamp(push(ahead))) == ahead
    own = stamp_of(clock.stamp(push()))
    assert own is not None
    assert own.ntp64 > ahead.ntp64


def test_a_timestamp_from_the_future_is_replaced_or_the_sample_dropped() -> None:
    future = Timestamp(ntp64_from_ns(NOW + HOUR), OTHER)
    replaced = stamp_of(stamping().stamp(push(future)))
    assert replaced is not None
    assert replaced.id == OWN
    assert stamping(drops_future=True).stamp(push(future)) is None


def test_deletions_are_left_as_they_are() -> None:
    deletion = Push(wire_expr=WireExpr(0, "a"), body=Del())
    assert stamping().stamp(deletion) is deletion


def test_many_are_stamped_at_once_one_after_the_other() -> None:
    clock = stamping()
    readings = clock.readings(3)
    assert len(readings) == 3
    assert readings[0] >> 32 == NOW // 10**9
    last = stamp_of(clock.stamp(push()))
    assert last is not None
    assert last.ntp64 > readings[-1]


def test_of_many_the_greatest_stamp_is_judged() -> None:
    clock = stamping()
    assert clock.accepts(ntp64_from_ns(NOW + 100_000_000))
    assert clock.readings(1)[0] > ntp64_from_ns(NOW + 100_000_000)
    assert not clock.accepts(ntp64_from_ns(NOW + HOUR))
