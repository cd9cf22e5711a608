"""The constants of the interpreted and of the compiled build are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zenspark.wire.columns import layout
from zenspark.wire.columns.layout import LANE_EXPRESS, LANE_PRIORITY, LANE_RELIABLE, StopReason, lane_of
from zenspark.wire.messages import MAX_TRANSPORT_ID
from zenspark.wire.values import Priority

DECLARATIONS = Path(layout.__file__).with_suffix(".pxd").read_text()
IN_C = {name: int(value, 0) for name, value in re.findall(r"^    (\w+) = (-?\w+)$", DECLARATIONS, re.MULTILINE)}


def test_both_builds_have_the_same_constants() -> None:
    in_python = {name: value for name, value in vars(layout).items() if name.isupper() and isinstance(value, int)}
    assert in_python == IN_C | {"ABSENT": 0xFFFF_FFFF}
    assert "ZENSPARK_ABSENT 0xFFFFFFFFu" in DECLARATIONS
    assert layout.MAX_TRANSPORT_ID == MAX_TRANSPORT_ID


def test_stop_reasons_have_the_numbers_that_loops_return() -> None:
    assert {reason.name: reason.value for reason in StopReason} == {
        name: IN_C[f"STOP_{name}"] for name in ("END", "FULL", "MESSAGE", "OVERSIZED")
    }
    assert [layout.STOP_REASONS[reason] for reason in StopReason] == list(StopReason)


@pytest.mark.parametrize("priority", Priority)
@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize("express", [True, False])
def test_lane_contains_priority_reliability_and_express(priority: Priority, reliable: bool, express: bool) -> None:
    lane = lane_of(priority, reliable, express)
    assert (lane & LANE_PRIORITY, bool(lane & LANE_RELIABLE), bool(lane & LANE_EXPRESS)) == (
        priority,
        reliable,
        express,
    )
    assert lane != layout.NO_LANE


def test_record_at_returns_the_words_of_a_record() -> None:
    table = list(range(3 * layout.RECORD_WORDS))
    assert layout.record_at(table, 1) == table[layout.RECORD_WORDS : 2 * layout.RECORD_WORDS]
