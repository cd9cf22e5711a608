"""The constants of the interpreted and of the compiled build are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zenspark.wire.codec import encode
from zenspark.wire.columns import layout
from zenspark.wire.columns.layout import (
    LANE_EXPRESS,
    LANE_PRIORITY,
    LANE_RELIABLE,
    StopReason,
    frame_header,
    lane_of,
    lane_of_header,
    lane_with_priority,
)
from zenspark.wire.messages import MAX_TRANSPORT_ID, Fragment, Frame
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


@pytest.mark.parametrize("priority", Priority)
@pytest.mark.parametrize("reliable", [True, False])
def test_frame_headers_are_those_of_the_object_codec(priority: Priority, reliable: bool) -> None:
    lane = lane_of(priority, reliable)
    header = frame_header(lane)
    qos = bytes([layout.FRAME_QOS_EXTENSION, priority]) if header & layout.Z_FLAG else b""
    assert encode(Frame(reliable=reliable, sn=7, priority=priority)) == bytes([header, 7]) + qos
    assert lane_with_priority(lane_of_header(header), priority) == lane
    assert bool(header & layout.Z_FLAG) == (priority is not Priority.DATA)


@pytest.mark.parametrize("reliable", [True, False])
def test_a_header_without_qos_extension_has_the_lane_of_the_default_priority(reliable: bool) -> None:
    for header in (
        encode(Frame(reliable=reliable, sn=7))[0],
        encode(Fragment(reliable=reliable, more=True, sn=7, payload=b""))[0],
    ):
        assert lane_of_header(header) == lane_of(Priority.DATA, reliable)


def test_the_flags_of_a_fragment_are_those_of_the_object_codec() -> None:
    fragment = Fragment(reliable=True, more=True, sn=7, first=True, payload=b"")
    flags = layout.RELIABLE_FLAG | layout.MORE_FLAG | layout.Z_FLAG
    assert encode(fragment) == bytes([layout.FRAGMENT_ID | flags, 7, layout.FIRST_EXTENSION])


def test_a_qos_extension_may_have_bits_beside_the_priority() -> None:
    lane = lane_with_priority(lane_of(Priority.DATA, True), 0xF8 | Priority.REAL_TIME)
    assert lane == lane_of(Priority.REAL_TIME, True)


def test_record_at_returns_the_words_of_a_record() -> None:
    table = list(range(3 * layout.RECORD_WORDS))
    assert layout.record_at(table, 1) == table[layout.RECORD_WORDS : 2 * layout.RECORD_WORDS]
