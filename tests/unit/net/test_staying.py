"""Publications that stay with a node's own session: stamped all at once, with the result of stamping each."""

from __future__ import annotations

import pytest

from tests.unit.arrow.test_incoming import CLOCK, FULL, PLAIN, REMOVAL, decoded, keys_of
from zenspark.api.sample import head_of, samples_of
from zenspark.arrow.incoming import batch_of, piece_of
from zenspark.clock import HybridClock, ns_from_ntp64
from zenspark.key import KeyExpr
from zenspark.net.staying import Stay, stamped
from zenspark.router.stamping import Stamping
from zenspark.transport.hearing import Pushes
from zenspark.wire.messages import Push, Put
from zenspark.wire.values import ZenohId

OWN = ZenohId(0x5)
assert isinstance(FULL.body, Put)
assert FULL.body.timestamp is not None
THEN = FULL.body.timestamp.ntp64
NOW = ns_from_ntp64(THEN)


def stamping(now: int = NOW) -> Stamping:
    return Stamping(OWN, HybridClock(), lambda: now)


def given(*messages: Push, start: int = 0) -> tuple[Pushes, list[Stay]]:
    columns = decoded(*messages)
    stays = [Stay.of(columns.shape_at(index)) for index in range(columns.shape_count)]
    return Pushes(columns, start, len(columns)), stays


def stamps(pushes: Pushes) -> list[tuple[str | None, int | None]]:
    columns = pushes.columns
    rows = batch_of([piece_of(pushes, keys_of(columns), "feed", 0)]).to_pylist()
    samples = samples_of(
        pushes,
        [head_of(pushes.shape_at(at), KeyExpr("a")) for at in range(columns.shape_count)],
        True,
    )
    found = [(row["timestamp_id"], row["timestamp_ntp64"]) for row in rows]
    assert found == [
        (None, None) if sample.timestamp is None else (str(sample.timestamp.get_id()), sample.timestamp.to_wire().ntp64)
        for sample in samples
    ]
    return found


@pytest.mark.parametrize("start", [0, 1])
def test_what_has_no_stamp_gets_one(start: int) -> None:
    pushes, stays = given(PLAIN, PLAIN, PLAIN, start=start)
    found = stamped(pushes, stays, stamping())
    assert found is not None
    first = stamping().readings(1)[0]
    assert stamps(found) == [(str(OWN), first + at) for at in range(3 - start)]


def test_what_has_a_stamp_keeps_it() -> None:
    pushes, stays = given(FULL, FULL)
    clock = stamping()
    assert stamped(pushes, stays, clock) is pushes
    assert clock.readings(1)[0] > THEN


def test_of_all_kinds_each_gets_its_due() -> None:
    pushes, stays = given(PLAIN, FULL, REMOVAL, PLAIN)
    assert stays == [Stay.UNSTAMPED, Stay.STAMPED, Stay.AS_IT_IS]
    found = stamped(pushes, stays, stamping())
    assert found is not None
    own, kept, none, last = stamps(found)
    assert kept == (str(CLOCK), THEN)
    assert none == (None, None)
    assert own[0] == last[0] == str(OWN)
    assert own[1] is not None
    assert last[1] is not None
    assert THEN < own[1] < last[1]


def test_a_stamp_from_the_future_has_to_be_looked_at() -> None:
    pushes, stays = given(PLAIN, FULL)
    assert stamped(pushes, stays, stamping(NOW - 3_600_000_000_000)) is None


def test_removals_stay_as_they_are() -> None:
    pushes, stays = given(REMOVAL)
    assert stamped(pushes, stays, stamping()) is pushes
    assert stamps(pushes) == [(None, None)]
