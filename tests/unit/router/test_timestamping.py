"""Timestamping: what gets a timestamp, what keeps its own, and what comes from the future."""

from __future__ import annotations

from zenspark.clock import HybridClock, ntp64_from_ns
from zenspark.router.timestamping import TimestampPolicy
from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, StopReason
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Del, Frame, Push, Put
from zenspark.wire.values import Timestamp, WireExpr, ZenohId

OWN, OTHER = ZenohId(1), ZenohId(2)
NOW = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000


def push(timestamp: Timestamp | None = None) -> Push:
    return Push(wire_expr=WireExpr(0, "a"), body=Put(timestamp=timestamp, payload=b"x"))


def timestamp_policy(drops_future: bool = False) -> TimestampPolicy:
    return TimestampPolicy(OWN, HybridClock(), lambda: NOW, drops_future)


def stamp_of(message: Push | None) -> Timestamp | None:
    assert message is not None
    assert isinstance(message.body, Put)
    return message.body.timestamp


def test_put_without_timestamp_gets_one_of_this_node() -> None:
    clock = timestamp_policy()
    first, second = stamp_of(clock.timestamp(push())), stamp_of(clock.timestamp(push()))
    assert first is not None
    assert second is not None
    assert first.id == OWN
    assert first.ntp64 >> 32 == NOW // 10**9
    assert second > first


def test_plausible_timestamp_is_kept_and_advances_the_clock() -> None:
    clock = timestamp_policy()
    ahead = Timestamp(ntp64_from_ns(NOW + 100_000_000), OTHER)
    assert stamp_of(clock.timestamp(push(ahead))) == ahead
    own = stamp_of(clock.timestamp(push()))
    assert own is not None
    assert own.ntp64 > ahead.ntp64


def test_a_timestamp_from_the_future_is_replaced_or_the_sample_dropped() -> None:
    future = Timestamp(ntp64_from_ns(NOW + HOUR), OTHER)
    replaced = stamp_of(timestamp_policy().timestamp(push(future)))
    assert replaced is not None
    assert replaced.id == OWN
    assert timestamp_policy(drops_future=True).timestamp(push(future)) is None


def test_the_timestamp_of_the_push_counts_where_the_put_has_none() -> None:
    """PU-72: it becomes that of the PUT, which every receiver reads."""
    clock = timestamp_policy()
    of_push, of_put = Timestamp(ntp64_from_ns(NOW), OTHER), Timestamp(ntp64_from_ns(NOW - HOUR), OTHER)
    assert stamp_of(clock.timestamp(replace(push(), timestamp=of_push))) == of_push
    assert stamp_of(clock.timestamp(replace(push(of_put), timestamp=of_push))) == of_put
    future = Timestamp(ntp64_from_ns(NOW + HOUR), OTHER)
    replaced = stamp_of(clock.timestamp(replace(push(), timestamp=future)))
    assert replaced is not None
    assert replaced.id == OWN
    assert timestamp_policy(drops_future=True).timestamp(replace(push(), timestamp=future)) is None


def test_deletions_get_no_timestamp() -> None:
    deletion = Push(wire_expr=WireExpr(0, "a"), body=Del())
    assert timestamp_policy().timestamp(deletion) is deletion


def columns_of(*pushes: Push) -> PushColumns:
    columns = PushColumns(16)
    content = encode(Frame(reliable=True, sn=1, msgs=pushes))
    assert BatchDecoder(content, Framing.BATCH).decode(columns) is StopReason.END
    return columns


def test_timestamps_of_rows_increase_and_exceed_all_received_timestamps() -> None:
    clock = timestamp_policy()
    ahead = Timestamp(ntp64_from_ns(NOW + 100_000_000), OTHER)
    deletion = Push(wire_expr=WireExpr(0, "a"), body=Del())
    columns = columns_of(push(), deletion, push(ahead), push())
    assert clock.timestamp_rows(columns, 0, 4, b"\1" * columns.template_count)
    first, deleted, kept, last = columns.timestamp
    assert (deleted, kept) == (0, ahead.ntp64)
    assert ahead.ntp64 < first < last
    assert clock.timestamp_rows(columns_of(push(ahead)), 0, 1, b"\1")
    again = stamp_of(clock.timestamp(push()))
    assert again is not None
    assert again.ntp64 > last


def test_no_row_is_timestamped_if_one_is_from_the_future() -> None:
    clock = timestamp_policy()
    columns = columns_of(push(), push(Timestamp(ntp64_from_ns(NOW + HOUR), OTHER)))
    assert not clock.timestamp_rows(columns, 0, 2, b"\1\1")
    assert columns.timestamp[0] == 0
    assert clock.timestamp_rows(columns, 0, 2, b"\1\0")  # no subscriber matches the other one
