"""Samples in order, each once, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from zenspark.api.ext import reorder_buffer
from zenspark.api.ext.reorder_buffer import Miss, Ordering, Outcome
from zenspark.key import KeyExpr
from zenspark.types.ids import EntityGlobalId, ZenohId
from zenspark.types.sample import Sample, sample_from_body
from zenspark.types.timestamps import TimestampId
from zenspark.wire.messages import Put
from zenspark.wire.values import QoS, SourceInfo, Timestamp
from zenspark.wire.values import ZenohId as WireId

ZID = WireId(0xA1)
WHO = EntityGlobalId(ZenohId.from_wire(ZID), 1)
CLOCK = TimestampId.from_wire(ZID)


def numbered(sn: int) -> Sample:
    body = Put(source_info=SourceInfo(ZID, 1, sn), payload=str(sn).encode())
    return sample_from_body(body, KeyExpr("a"), QoS.DEFAULT, True)


def stamped(ntp64: int) -> Sample:
    body = Put(timestamp=Timestamp(ntp64, ZID), payload=str(ntp64).encode())
    return sample_from_body(body, KeyExpr("a"), QoS.DEFAULT, True)


def shown(outcomes: list[Outcome]) -> list[Any]:
    return [("miss", one.nb) if isinstance(one, Miss) else int(one.payload.to_string()) for one in outcomes]


def received(kept: Ordering, *samples: Sample) -> list[Any]:
    return [one for sample in samples for one in shown(kept.receive(sample))]


def test_without_recovery_a_gap_is_reported_at_once() -> None:
    kept = Ordering()
    assert received(kept, *map(numbered, [5, 6, 9, 9, 7, 10])) == [5, 6, ("miss", 2), 9, 10]
    assert kept.gap(WHO) is None


def test_with_recovery_what_follows_a_gap_waits_for_the_answer() -> None:
    kept = Ordering(recovers=True)
    assert received(kept, *map(numbered, [0, 2])) == [0]
    assert kept.gap(WHO) == "1.."
    kept.ask(WHO)
    assert kept.gap(WHO) is None
    assert received(kept, *map(numbered, [3, 1, 2])) == [1, 2, 3]
    assert kept.answered(WHO) == []


def test_what_was_not_recovered_is_reported() -> None:
    kept = Ordering(recovers=True)
    received(kept, numbered(0), numbered(3), numbered(6))
    kept.ask(WHO)
    assert shown(kept.answered(WHO)) == [("miss", 2), 3, ("miss", 2), 6]
    assert received(kept, numbered(1), numbered(7)) == [7]


def test_numbers_begin_again_after_the_largest() -> None:
    kept = Ordering(recovers=True)
    top = (1 << 32) - 1
    assert received(kept, numbered(top), numbered(1)) == [top]
    assert kept.gap(WHO) == "0.."
    assert received(kept, numbered(0), numbered(top)) == [0, 1]
    received(kept, numbered(4), numbered(3))
    kept.ask(WHO)
    assert shown(kept.answered(WHO)) == [("miss", 1), 3, 4]


def test_while_everybody_is_asked_nothing_is_handed_over() -> None:
    kept = Ordering(asks_all=True)
    assert received(kept, *map(numbered, [7, 5, 6])) == []
    assert received(kept, *map(stamped, [30, 10, 20, 10])) == []
    assert sorted(shown(kept.all_answered())) == [5, 6, 7, 10, 20, 30]
    assert received(kept, numbered(8), stamped(40), stamped(35)) == [8, 40]


def test_only_so_many_are_held_back() -> None:
    kept = Ordering(asks_all=True, depth=2)
    assert received(kept, *map(numbered, [5, 6])) == [5, 6]
    assert received(kept, *map(stamped, [20, 10])) == [10, 20]


def test_a_source_that_is_still_asked_is_not_released() -> None:
    kept = Ordering(asks_all=True)
    kept.ask(WHO)
    kept.ask(CLOCK)
    received(kept, numbered(1), stamped(10))
    assert kept.all_answered() == []
    assert shown(kept.answered(WHO)) == [1]
    assert received(kept, stamped(5)) == []
    assert shown(kept.answered(CLOCK)) == [5, 10]


def test_answers_while_everybody_is_asked_are_kept() -> None:
    kept = Ordering(asks_all=True)
    kept.ask(WHO)
    received(kept, numbered(1))
    assert kept.answered(WHO) == []
    assert shown(kept.all_answered()) == [1]


def test_a_late_source_is_heard_when_its_past_samples_have_come() -> None:
    kept = Ordering()
    kept.ask(WHO)
    assert received(kept, numbered(2), numbered(0), numbered(1)) == []
    assert shown(kept.answered(WHO)) == [0, 1, 2]


def test_a_heartbeat_shows_what_is_missing() -> None:
    kept = Ordering(recovers=True)
    assert kept.up_to(WHO, 3) == "..3"
    received(kept, numbered(1))
    assert kept.up_to(WHO, 1) is None
    assert kept.up_to(WHO, 0) is None
    assert kept.up_to(WHO, 4) == "2..4"
    kept.ask(WHO)
    assert kept.up_to(WHO, 4) is None
    assert kept.numbered == [WHO]
    assert kept.after_last(WHO) == "2.."


def test_a_heartbeat_of_somebody_new_waits_until_everybody_has_answered() -> None:
    assert Ordering(recovers=True, asks_all=True).up_to(WHO, 3) is None


def test_without_number_or_stamp_everything_passes() -> None:
    kept = Ordering(asks_all=True)
    plain = sample_from_body(Put(payload=b"7"), KeyExpr("a"), QoS.DEFAULT, True)
    assert received(kept, plain, plain) == [7, 7]


def test_the_source_unheard_of_for_the_longest_time_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reorder_buffer, "MAX_SOURCES", 2)
    kept = Ordering()
    for eid in (1, 2, 1, 3):
        kept.ask(EntityGlobalId(ZenohId.from_wire(ZID), eid))
    assert sorted(who.eid for who in kept.numbered) == [1, 3]


@examples(200)
@given(st.lists(st.integers(0, 12), max_size=40), st.booleans())
def test_whatever_comes_is_handed_over_in_order_and_every_gap_is_reported(numbers: list[int], recovers: bool) -> None:
    kept = Ordering(recovers)
    found = received(kept, *map(numbered, numbers))
    kept.ask(WHO)
    found += shown(kept.answered(WHO))
    at = numbers[0] if numbers else 0
    for one in found:
        if isinstance(one, tuple):
            at += one[1]
        else:
            assert one == at
            at += 1
