from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.unit.storage.made import recorded, row
from zenspark.storage.sample_order import (
    NO_CLOCK,
    ClockRanks,
    SampleOrder,
    StringIds,
    is_later,
    is_newer,
    select_newest_rows,
)


def test_equal_strings_share_an_id_and_null_is_0() -> None:
    names = StringIds()
    assert names.ids(pa.array(["a", None, "b", "a"])).tolist() == [1, 0, 2, 1]
    assert names.ids(pa.array(["c", "b"])).tolist() == [3, 2]
    assert names.ids(pa.array([None, None], pa.string())).tolist() == [0, 0]
    assert names.texts == [None, "a", "b", "c"]


def test_clocks_are_ranked_by_their_lowest_byte_first_and_none_is_last() -> None:
    clocks = ClockRanks()
    numbers = clocks.ids(pa.array(["201", "1ff", "2"]))
    ranks = clocks.ranks(np.array([NO_CLOCK, *numbers])).tolist()
    assert ranks == [3, 0, 2, 1]
    clocks.ids(pa.array(["1"]))
    assert clocks.ranks(np.array([NO_CLOCK, *numbers, 4])).tolist() == [4, 1, 3, 2, 0]


def test_sample_order_has_ntp64_clock_recorder_and_offset() -> None:
    clocks, recorders = ClockRanks(), StringIds()
    rows = recorded([row("a", b"", 2), row("a", None, received=3), row("a", b"", 2_200_000_000)], first=7)
    orders = SampleOrder.from_rows(rows, clocks, recorders)
    assert orders.ntp64.tolist() == [2 << 32, 3 << 32, 2_200_000_000 << 32]
    assert orders.clock.tolist() == [1, NO_CLOCK, 1]
    assert orders.recorder.tolist() == [1, 1, 1]
    assert orders.offset.tolist() == [7, 8, 9]
    grown = orders.resize(5)
    assert grown.offset.tolist() == [7, 8, 9, 0, 0]
    assert len(grown) == 5


def test_sample_order_of_null_values_uses_defaults() -> None:
    bare = row("a", b"") | {"received_at": None, "recorder": None, "offset": None}
    orders = SampleOrder.from_rows(recorded([row("a", b"", 2), bare], first=7), ClockRanks(), StringIds())
    assert (orders.ntp64.tolist(), orders.clock.tolist()) == ([2 << 32, 0], [1, NO_CLOCK])
    assert (orders.recorder.tolist(), orders.offset.tolist()) == ([1, 0], [7, 0])


def test_newest_row_of_each_key_is_selected() -> None:
    clocks, recorders = ClockRanks(), StringIds()
    rows = recorded([row("", b"", 2), row("", b"", 5), row("", b"", 3), row("", b"", 3), row("", b"", 1)])
    orders = SampleOrder.from_rows(rows, clocks, recorders)
    assert select_newest_rows(np.array([0, 1, 0, 0, 1]), orders, SampleOrder.zeros(2), clocks).tolist() == [3, 1]


def test_row_without_timestamp_is_newer_than_earlier_recorded_rows() -> None:
    clocks, recorders = ClockRanks(), StringIds()
    known = SampleOrder.from_rows(recorded([row("", b"", 9)], first=1), clocks, recorders)
    orders = SampleOrder.from_rows(recorded([row("", None, received=4)], first=2), clocks, recorders)
    assert select_newest_rows(np.array([0]), orders, known, clocks).tolist() == [0]
    assert orders.ntp64.tolist() == [9 << 32]
    assert is_newer(orders, known, clocks).tolist() == [True]
    seen = SampleOrder.from_rows(recorded([row("", None, received=4)], first=0), clocks, recorders)
    select_newest_rows(np.array([0]), seen, known, clocks)
    assert is_newer(seen, known, clocks).tolist() == [False]


def test_the_same_row_is_later_but_not_newer() -> None:
    clocks, recorders = ClockRanks(), StringIds()
    orders = SampleOrder.from_rows(recorded([row("", b"", 1)]), clocks, recorders)
    assert is_later(orders, orders, clocks).tolist() == [True]
    assert is_newer(orders, orders, clocks).tolist() == [False]


def test_result_is_independent_of_row_order() -> None:
    clocks, recorders = ClockRanks(), StringIds()
    rows = recorded([row("", b"", 8), row("", None, received=6), row("", b"", 5)])
    early, without_timestamp, late = (SampleOrder.from_rows(rows[at : at + 1], clocks, recorders) for at in range(3))
    assert is_newer(early, late, clocks).tolist() == [True]
    assert is_newer(late, early, clocks).tolist() == [False]
    assert is_newer(early, without_timestamp, clocks).tolist() == [False]
    assert is_newer(without_timestamp, late, clocks).tolist() == [True]
    assert is_newer(late, without_timestamp, clocks).tolist() == [False]
