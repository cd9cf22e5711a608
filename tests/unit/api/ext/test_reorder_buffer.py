"""Samples in order, each once, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from zenspark.api.ext import reorder_buffer
from zenspark.api.ext.reorder_buffer import Delivery, Miss, ReorderBuffer
from zenspark.key import KeyExpr
from zenspark.types.ids import EntityGlobalId, ZenohId
from zenspark.types.sample import Sample, sample_from_body
from zenspark.types.timestamps import TimestampId
from zenspark.wire.messages import Put
from zenspark.wire.values import QoS, SourceInfo, Timestamp
from zenspark.wire.values import ZenohId as WireId

ZID = WireId(0xA1)
SOURCE = EntityGlobalId(ZenohId.from_wire(ZID), 1)
CLOCK = TimestampId.from_wire(ZID)


def numbered(sn: int) -> Sample:
    body = Put(source_info=SourceInfo(ZID, 1, sn), payload=str(sn).encode())
    return sample_from_body(body, KeyExpr("a"), QoS.DEFAULT, True)


def stamped(ntp64: int) -> Sample:
    body = Put(timestamp=Timestamp(ntp64, ZID), payload=str(ntp64).encode())
    return sample_from_body(body, KeyExpr("a"), QoS.DEFAULT, True)


def shown(outcomes: list[Delivery]) -> list[Any]:
    return [("miss", one.nb) if isinstance(one, Miss) else int(one.payload.to_string()) for one in outcomes]


def received(kept: ReorderBuffer, *samples: Sample) -> list[Any]:
    return [one for sample in samples for one in shown(kept.receive(sample))]


def test_without_recovery_a_gap_is_reported_at_once() -> None:
    kept = ReorderBuffer()
    assert received(kept, *map(numbered, [5, 6, 9, 9, 7, 10])) == [5, 6, ("miss", 2), 9, 10]
    assert kept.missing_range(SOURCE) is None


def test_with_recovery_samples_after_a_gap_wait_for_the_query() -> None:
    kept = ReorderBuffer(recovers=True)
    assert received(kept, *map(numbered, [0, 2])) == [0]
    assert kept.missing_range(SOURCE) == "1.."
    kept.query_started(SOURCE)
    assert kept.missing_range(SOURCE) is None
    assert received(kept, *map(numbered, [3, 1, 2])) == [1, 2, 3]
    assert kept.query_finished(SOURCE) == []


def test_unrecovered_samples_are_reported_as_misses() -> None:
    kept = ReorderBuffer(recovers=True)
    received(kept, numbered(0), numbered(3), numbered(6))
    kept.query_started(SOURCE)
    assert shown(kept.query_finished(SOURCE)) == [("miss", 2), 3, ("miss", 2), 6]
    assert received(kept, numbered(1), numbered(7)) == [7]


def test_sequence_numbers_wrap_around_after_the_largest() -> None:
    kept = ReorderBuffer(recovers=True)
    top = (1 << 32) - 1
    assert received(kept, numbered(top), numbered(1)) == [top]
    assert kept.missing_range(SOURCE) == "0.."
    assert received(kept, numbered(0), numbered(top)) == [0, 1]
    received(kept, numbered(4), numbered(3))
    kept.query_started(SOURCE)
    assert shown(kept.query_finished(SOURCE)) == [("miss", 1), 3, 4]


def test_samples_are_buffered_while_history_is_queried() -> None:
    kept = ReorderBuffer(awaits_history=True)
    assert received(kept, *map(numbered, [7, 5, 6])) == []
    assert received(kept, *map(stamped, [30, 10, 20, 10])) == []
    assert sorted(shown(kept.history_finished())) == [5, 6, 7, 10, 20, 30]
    assert received(kept, numbered(8), stamped(40), stamped(35)) == [8, 40]


def test_buffered_samples_are_limited_by_depth() -> None:
    kept = ReorderBuffer(awaits_history=True, depth=2)
    assert received(kept, *map(numbered, [5, 6])) == [5, 6]
    assert received(kept, *map(stamped, [20, 10])) == [10, 20]


def test_publisher_with_pending_query_is_not_released() -> None:
    kept = ReorderBuffer(awaits_history=True)
    kept.query_started(SOURCE)
    kept.query_started(CLOCK)
    received(kept, numbered(1), stamped(10))
    assert kept.history_finished() == []
    assert shown(kept.query_finished(SOURCE)) == [1]
    assert received(kept, stamped(5)) == []
    assert shown(kept.query_finished(CLOCK)) == [5, 10]


def test_replies_are_buffered_while_history_is_queried() -> None:
    kept = ReorderBuffer(awaits_history=True)
    kept.query_started(SOURCE)
    received(kept, numbered(1))
    assert kept.query_finished(SOURCE) == []
    assert shown(kept.history_finished()) == [1]


def test_late_publisher_is_delivered_after_its_history() -> None:
    kept = ReorderBuffer()
    kept.query_started(SOURCE)
    assert received(kept, numbered(2), numbered(0), numbered(1)) == []
    assert shown(kept.query_finished(SOURCE)) == [0, 1, 2]


def test_heartbeat_returns_the_missing_range() -> None:
    kept = ReorderBuffer(recovers=True)
    assert kept.range_up_to(SOURCE, 3) == "..3"
    received(kept, numbered(1))
    assert kept.range_up_to(SOURCE, 1) is None
    assert kept.range_up_to(SOURCE, 0) is None
    assert kept.range_up_to(SOURCE, 4) == "2..4"
    kept.query_started(SOURCE)
    assert kept.range_up_to(SOURCE, 4) is None
    assert kept.numbered_publishers == [SOURCE]
    assert kept.range_after_last(SOURCE) == "2.."


def test_heartbeat_of_a_new_publisher_waits_for_the_history_query() -> None:
    assert ReorderBuffer(recovers=True, awaits_history=True).range_up_to(SOURCE, 3) is None


def test_samples_without_number_or_timestamp_are_delivered() -> None:
    kept = ReorderBuffer(awaits_history=True)
    plain = sample_from_body(Put(payload=b"7"), KeyExpr("a"), QoS.DEFAULT, True)
    assert received(kept, plain, plain) == [7, 7]


def test_least_recently_seen_publisher_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reorder_buffer, "MAX_PUBLISHERS", 2)
    kept = ReorderBuffer()
    for eid in (1, 2, 1, 3):
        kept.query_started(EntityGlobalId(ZenohId.from_wire(ZID), eid))
    assert sorted(who.eid for who in kept.numbered_publishers) == [1, 3]


@pytest.mark.slow
@examples(200)
@given(st.lists(st.integers(0, 12), max_size=40), st.booleans())
def test_random_arrivals_are_delivered_in_order_with_every_gap_reported(numbers: list[int], recovers: bool) -> None:
    kept = ReorderBuffer(recovers)
    found = received(kept, *map(numbered, numbers))
    kept.query_started(SOURCE)
    found += shown(kept.query_finished(SOURCE))
    at = numbers[0] if numbers else 0
    for one in found:
        if isinstance(one, tuple):
            at += one[1]
        else:
            assert one == at
            at += 1
