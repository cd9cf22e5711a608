"""Gap detection of one source, in one or several batches, against a model with sets."""

import tracemalloc
from collections import Counter
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.optional import some
from zenspark.lake import sequence_gaps
from zenspark.lake.sequence_gaps import MissingRange, SourceState, unwrap, update_gaps
from zenspark.types.ids import SOURCE_SN_MODULUS


class GapTracker:
    """Feeds numbers of a source in batches, and collects the results."""

    def __init__(self, wraps: bool = True) -> None:
        self.wraps = wraps
        self.source: SourceState | None = None
        self.repeated: Counter[int] = Counter()
        self.finalized: list[MissingRange] = []
        self._clock = 0

    def receive(self, numbers: list[int]) -> "GapTracker":
        times = np.arange(self._clock, self._clock + len(numbers), dtype=np.int64)
        self._clock += len(numbers)
        verdict = update_gaps(self.source, np.array(numbers, np.int64), times, self.wraps)
        self.source = verdict.source
        for number, count in zip(verdict.repeated.numbers.tolist(), verdict.repeated.repetitions.tolist(), strict=True):
            self.repeated[number] += count
        self.finalized += verdict.finalized
        return self

    @property
    def missing(self) -> list[tuple[int, int]]:
        assert self.source is not None
        return [(gap.first, gap.last) for gap in [*self.finalized, *self.source.open_ranges]]


def missing_of(numbers: list[int]) -> list[tuple[int, int]]:
    return [(low + 1, high - 1) for low, high in pairwise(sorted(set(numbers))) if high - low > 1]


pieces = st.lists(st.lists(st.integers(0, 40), min_size=1), min_size=1)


@pytest.mark.slow
@given(pieces)
def test_result_is_independent_of_order_and_batches(numbers: list[list[int]]) -> None:
    tracker = GapTracker()
    for piece in numbers:
        tracker.receive(piece)
    received = [number for piece in numbers for number in piece]
    assert tracker.missing == missing_of(received)
    assert tracker.repeated == Counter({number: count - 1 for number, count in Counter(received).items() if count > 1})


@pytest.mark.slow
@given(pieces, st.integers(0, SOURCE_SN_MODULUS - 1))
def test_wrapped_numbers_are_unwrapped(numbers: list[list[int]], start: int) -> None:
    plain, wrapped = GapTracker(), GapTracker()
    for piece in numbers:
        plain.receive(piece)
        wrapped.receive([(number + start) % SOURCE_SN_MODULUS for number in piece])
    assert [size(each) for each in wrapped.missing] == [size(each) for each in plain.missing]
    shifted = {(number + start) % SOURCE_SN_MODULUS: count for number, count in plain.repeated.items()}
    assert {number % SOURCE_SN_MODULUS: count for number, count in wrapped.repeated.items()} == shifted


def size(gap: tuple[int, int]) -> int:
    return gap[1] - gap[0]


@pytest.mark.slow
@given(pieces, st.integers(0, 2**48))
def test_non_wrapping_numbers_are_unchanged(numbers: list[list[int]], start: int) -> None:
    tracker = GapTracker(wraps=False)
    for piece in numbers:
        tracker.receive([number * 2**31 + start for number in piece])
    assert tracker.missing == missing_of([number * 2**31 + start for piece in numbers for number in piece])


def test_gap_is_noticed_when_the_later_neighbour_arrives() -> None:
    assert some(GapTracker().receive([1, 2, 5]).source).open_ranges == (MissingRange(3, 4, 2),)
    assert some(GapTracker().receive([5, 2, 1]).source).open_ranges == (MissingRange(3, 4, 1),)
    assert some(GapTracker().receive([1, 2]).receive([9, 5]).source).open_ranges == (
        MissingRange(3, 4, 3),
        MissingRange(6, 8, 3),
    )


def test_numbers_before_the_first_are_not_missing() -> None:
    assert GapTracker().receive([1000, 1001]).missing == []


def test_lower_number_extends_the_range_and_makes_a_gap() -> None:
    assert GapTracker().receive([10]).receive([7]).missing == [(8, 9)]


def test_late_number_splits_a_missing_range() -> None:
    assert GapTracker().receive([0, 10]).receive([5]).missing == [(1, 4), (6, 9)]
    assert GapTracker().receive([0, 10]).receive([1, 9]).missing == [(2, 8)]


def test_surplus_ranges_are_finalized_and_ignored() -> None:
    with patch.object(sequence_gaps, "MAX_OPEN_RANGES", 2):
        tracker = GapTracker().receive([0, 2, 4, 6, 8])
        assert [(gap.first, gap.last) for gap in tracker.finalized] == [(1, 1), (3, 3)]
        tracker.receive([1, 3, 2, -5 % SOURCE_SN_MODULUS])
        assert tracker.missing == [(1, 1), (3, 3), (5, 5), (7, 7)]
        assert tracker.repeated == Counter()
        tracker.receive([5])
        assert tracker.missing == [(1, 1), (3, 3), (7, 7)]


@pytest.mark.parametrize(
    ("reference", "number", "expected"),
    [
        (0, SOURCE_SN_MODULUS - 1, -1),
        (SOURCE_SN_MODULUS - 1, 0, SOURCE_SN_MODULUS),
        (3 * SOURCE_SN_MODULUS, 5, 3 * SOURCE_SN_MODULUS + 5),
        (7, 7, 7),
        (0, SOURCE_SN_MODULUS // 2 - 1, SOURCE_SN_MODULUS // 2 - 1),
    ],
)
def test_unwrap_chooses_the_nearest_value(reference: int, number: int, expected: int) -> None:
    assert unwrap(reference, np.array([number], np.int64)).tolist() == [expected]


def test_many_repeated_numbers_are_arrays() -> None:
    """A source that starts anew, or a journal that is recorded twice, repeats as many numbers as there are rows."""
    count = 50_000
    numbers, times = np.tile(np.arange(count // 10), 10), np.arange(count)
    known = SourceState(0, count, 0)
    tracemalloc.start()
    try:
        verdict = update_gaps(known, numbers, times)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert verdict.repeated.repetitions.tolist() == [10] * (count // 10)
    assert verdict.repeated.noticed_at_us.tolist() == list(range(count // 10))
    assert peak < 120 * count
