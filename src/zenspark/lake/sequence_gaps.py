"""Gap detection: missing and repeated sequence numbers of a source, independent of the order of arrival.

A source numbers its publications consecutively. Sequence numbers of SourceInfo have 32 bits and wrap around; others do
not wrap. Between the lowest and the highest number received, every number is either received or *missing*; numbers
below the lowest are not missing, because they may have been published before the recorder subscribed. A number that
arrives again is *repeated*. A missing number that arrives late is no longer missing. So the final result depends on the
numbers only, not on their order, and not on how they are split into batches.

The state of a source is bounded: of its missing ranges the newest `MAX_OPEN_RANGES` stay open. Older ones are
finalized: they stay missing, and numbers below the last of them are ignored. Times are microseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zenspark.types.ids import SOURCE_SN_MODULUS

Numbers = npt.NDArray[np.int64]

MAX_OPEN_RANGES = 256
"""Missing ranges of a source that late numbers can still fill."""


@dataclass(frozen=True)
class MissingRange:
    """Missing numbers from `first` to `last`, inclusive, and the time at which the gap was noticed."""

    first: int
    last: int
    noticed_at_us: int


class RepeatedNumbers(NamedTuple):
    """Repeated numbers, ascending, as arrays: there may be as many as rows."""

    numbers: Numbers
    noticed_at_us: Numbers
    """Time of the first repetition of each."""
    repetitions: Numbers
    """Number of repetitions of each."""


@dataclass(frozen=True)
class SourceState:
    """State of a source. Its numbers are unwrapped: they continue to grow after a wrap-around."""

    lowest: int
    highest: int
    received_at_us: int
    """Time of the last sample."""
    is_finalized: bool = False
    """Whether ranges were finalized, so that numbers below `lowest` are ignored."""
    open_ranges: tuple[MissingRange, ...] = field(default=())
    """Missing ranges, ascending."""


@dataclass(frozen=True)
class GapUpdate:
    """Result of adding numbers of a source."""

    source: SourceState
    repeated: RepeatedNumbers
    finalized: list[MissingRange]
    """Ranges that are finally missing."""


def update_gaps(
    previous: SourceState | None, numbers: Numbers, received_at_us: Numbers, wraps: bool = True
) -> GapUpdate:
    """Add numbers of one source in order of arrival, each with its reception time."""
    counted = unwrap(previous.highest if previous else int(numbers[0]), numbers) if wraps else numbers
    order = np.argsort(counted, kind="stable")
    counted, times = counted[order], received_at_us[order]
    is_first = np.concatenate([[True], counted[1:] != counted[:-1]])
    repeats, repeat_times = counted[~is_first], times[~is_first]
    fresh, first_times = counted[is_first], times[is_first]
    newest_us = int(received_at_us.max())
    if previous is None:
        source = SourceState(
            int(fresh[0]), int(fresh[-1]), newest_us, open_ranges=tuple(_find_missing(fresh, first_times))
        )
    else:
        previous = replace(previous, received_at_us=max(previous.received_at_us, newest_us))
        source, repeat_indexes = _extend_source(previous, fresh, first_times)
        repeats, repeat_times = (
            np.append(repeats, fresh[repeat_indexes]),
            np.append(repeat_times, first_times[repeat_indexes]),
        )
    return _finalize_surplus(source, _count_repeated(repeats, repeat_times))


def unwrap(reference: int, numbers: Numbers) -> Numbers:
    """Unwrap numbers: each becomes the value nearest to the reference that is equal modulo SOURCE_SN_MODULUS."""
    unwrapped: Numbers = (
        reference + (numbers - reference + SOURCE_SN_MODULUS // 2) % SOURCE_SN_MODULUS - SOURCE_SN_MODULUS // 2
    )
    return unwrapped


def _extend_source(previous: SourceState, fresh: Numbers, times: Numbers) -> tuple[SourceState, Numbers]:
    """Add distinct numbers to a source; also returns the indexes of those that it had before."""
    above, below = fresh > previous.highest, (fresh < previous.lowest) & (not previous.is_finalized)
    inside = np.flatnonzero((fresh >= previous.lowest) & (fresh <= previous.highest))
    still_missing, was_missing = _fill_ranges(previous.open_ranges, fresh[inside])
    upper = _find_missing(np.append(previous.highest, fresh[above]), np.append(0, times[above]))
    lower = _find_missing(np.append(fresh[below], previous.lowest), np.append(times[below], 0))
    lowest = int(fresh[below][0]) if below.any() else previous.lowest
    highest = int(fresh[above][-1]) if above.any() else previous.highest
    return replace(previous, lowest=lowest, highest=highest, open_ranges=(*lower, *still_missing, *upper)), inside[
        ~was_missing
    ]


def _find_missing(numbers: Numbers, times: Numbers) -> list[MissingRange]:
    """Find the gaps between ascending numbers; each was noticed when the later of its neighbours arrived."""
    indices = np.flatnonzero(np.diff(numbers) > 1)
    noticed_at_us = np.maximum(times[indices], times[indices + 1])
    return [
        MissingRange(first + 1, last - 1, at_us)
        for first, last, at_us in zip(
            numbers[indices].tolist(), numbers[indices + 1].tolist(), noticed_at_us.tolist(), strict=True
        )
    ]


def _fill_ranges(missing: tuple[MissingRange, ...], late: Numbers) -> tuple[list[MissingRange], npt.NDArray[np.bool_]]:
    """Remove late numbers from missing ranges; also returns a mask of those that were missing."""
    firsts = np.array([gap.first for gap in missing], np.int64)
    lasts = np.array([gap.last for gap in missing], np.int64)
    range_index = np.searchsorted(firsts, late, side="right") - 1
    was_missing = np.zeros(len(late), bool)
    if missing:
        was_missing = (range_index >= 0) & (late <= lasts[range_index])
    filled: dict[int, list[int]] = {}
    for index, number in zip(range_index[was_missing].tolist(), late[was_missing].tolist(), strict=True):
        filled.setdefault(index, []).append(number)
    left = [part for index, gap in enumerate(missing) for part in _split_range(gap, filled.get(index, []))]
    return left, was_missing


def _split_range(gap: MissingRange, numbers: list[int]) -> list[MissingRange]:
    parts = []
    first = gap.first
    for number in numbers:
        if first < number:
            parts.append(replace(gap, first=first, last=number - 1))
        first = number + 1
    if first <= gap.last:
        parts.append(replace(gap, first=first))
    return parts


def _count_repeated(repeats: Numbers, times: Numbers) -> RepeatedNumbers:
    """Aggregate repetitions: each number once, with its first time and its count."""
    order = np.lexsort((times, repeats))
    repeats, times = repeats[order], times[order]
    starts = np.flatnonzero(np.concatenate([[True], repeats[1:] != repeats[:-1]])) if len(repeats) else order
    return RepeatedNumbers(repeats[starts], times[starts], np.diff(starts, append=len(repeats)))


def _finalize_surplus(source: SourceState, repeated: RepeatedNumbers) -> GapUpdate:
    surplus = len(source.open_ranges) - MAX_OPEN_RANGES
    if surplus <= 0:
        return GapUpdate(source, repeated, [])
    old, kept = source.open_ranges[:surplus], source.open_ranges[surplus:]
    return GapUpdate(replace(source, lowest=old[-1].last + 1, is_finalized=True, open_ranges=kept), repeated, list(old))
