"""Which sequence numbers of a source are missing and which are repeated, whatever the order they arrive in.

A source numbers what it publishes, one after the other. Numbers of SourceInfo have 32 bits and wrap around; others do
not wrap. Between the lowest and the highest number received, every number is either received or *missing*; what is
before the lowest is not missed, because it may have been published before the recorder subscribed. A number that
arrives again is *repeated*. A missing number that arrives late is no longer missing. So what is missing in the end
depends on the numbers only, not on their order, and not on how they are cut into batches.

The memory of a source is bounded: of its missing ranges the newest `MAX_OPEN_RANGES` stay open. Older ones are settled: they stay
missing, and numbers below the last of them are no longer judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

SN_MODULUS = 2**32
"""The numbers of SourceInfo are counted modulo this."""
MAX_OPEN_RANGES = 256
"""Missing ranges of a source that a late number can still fill."""


@dataclass(frozen=True)
class MissingRange:
    """Numbers from `first` to `last` that are missing, and when that was noticed."""

    first: int
    last: int
    noticed: int


class RepeatedNumbers(NamedTuple):
    """Numbers that arrived again, in their order: there may be as many as rows, so there is no object for each."""

    numbers: Numbers
    noticed: Numbers
    """When each of them arrived again for the first time."""
    times: Numbers
    """How often it arrived again."""


@dataclass(frozen=True)
class SourceState:
    """What is remembered of a source. Its numbers are counted on behind the wrap-around, so that they have an order."""

    lowest: int
    highest: int
    received: int
    """When a sample of it arrived last."""
    is_finalized: bool = False
    """Nothing below `lowest` is judged any more."""
    open_ranges: tuple[MissingRange, ...] = field(default=())
    """Missing ranges, in order."""


@dataclass(frozen=True)
class GapUpdate:
    """What new numbers of a source mean."""

    source: SourceState
    repeated: RepeatedNumbers
    finalized: list[MissingRange]
    """Missing ranges that will stay so."""


def update_gaps(known: SourceState | None, numbers: Numbers, times: Numbers, wraps: bool = True) -> GapUpdate:
    """Takes in numbers of one source in the order they arrived, each with its time of reception."""
    counted = unwrap(known.highest if known else int(numbers[0]), numbers) if wraps else numbers
    order = np.argsort(counted, kind="stable")
    counted, came = counted[order], times[order]
    is_first = np.concatenate([[True], counted[1:] != counted[:-1]])
    again, came_again = counted[~is_first], came[~is_first]
    fresh, came_first = counted[is_first], came[is_first]
    received = int(times.max())
    if known is None:
        source = SourceState(
            int(fresh[0]), int(fresh[-1]), received, open_ranges=tuple(_find_missing(fresh, came_first))
        )
    else:
        source, was_there = _extend_source(replace(known, received=max(known.received, received)), fresh, came_first)
        again, came_again = np.append(again, fresh[was_there]), np.append(came_again, came_first[was_there])
    return _finalize_surplus(source, _count_repeated(again, came_again))


def unwrap(reference: int, numbers: Numbers) -> Numbers:
    """Counts numbers on from a reference: each becomes the nearest to it of those that are equal modulo WRAP."""
    found: Numbers = reference + (numbers - reference + SN_MODULUS // 2) % SN_MODULUS - SN_MODULUS // 2
    return found


def _extend_source(known: SourceState, fresh: Numbers, came: Numbers) -> tuple[SourceState, Numbers]:
    """Adds the distinct numbers of a batch to a source; also returns the places of those that it had before."""
    above, below = fresh > known.highest, (fresh < known.lowest) & (not known.is_finalized)
    inside = np.flatnonzero((fresh >= known.lowest) & (fresh <= known.highest))
    still_missing, was_missing = _fill_ranges(known.open_ranges, fresh[inside])
    upper = _find_missing(np.append(known.highest, fresh[above]), np.append(0, came[above]))
    lower = _find_missing(np.append(fresh[below], known.lowest), np.append(came[below], 0))
    lowest = int(fresh[below][0]) if below.any() else known.lowest
    highest = int(fresh[above][-1]) if above.any() else known.highest
    return replace(known, lowest=lowest, highest=highest, open_ranges=(*lower, *still_missing, *upper)), inside[
        ~was_missing
    ]


def _find_missing(numbers: Numbers, came: Numbers) -> list[MissingRange]:
    """What is missing between numbers in order; noticed when the later one of its neighbours arrived."""
    places = np.flatnonzero(np.diff(numbers) > 1)
    noticed = np.maximum(came[places], came[places + 1])
    return [
        MissingRange(first + 1, last - 1, time)
        for first, last, time in zip(
            numbers[places].tolist(), numbers[places + 1].tolist(), noticed.tolist(), strict=True
        )
    ]


def _fill_ranges(missing: tuple[MissingRange, ...], late: Numbers) -> tuple[list[MissingRange], npt.NDArray[np.bool_]]:
    """Removes late numbers from missing ranges; also returns which of them were missing."""
    firsts = np.array([gap.first for gap in missing], np.int64)
    lasts = np.array([gap.last for gap in missing], np.int64)
    place = np.searchsorted(firsts, late, side="right") - 1
    was_missing = np.zeros(len(late), bool)
    if missing:
        was_missing = (place >= 0) & (late <= lasts[place])
    found: dict[int, list[int]] = {}
    for index, number in zip(place[was_missing].tolist(), late[was_missing].tolist(), strict=True):
        found.setdefault(index, []).append(number)
    left = [part for index, gap in enumerate(missing) for part in _split_range(gap, found.get(index, []))]
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


def _count_repeated(again: Numbers, came: Numbers) -> RepeatedNumbers:
    """Each number once, with when it came first and how often."""
    order = np.lexsort((came, again))
    again, came = again[order], came[order]
    starts = np.flatnonzero(np.concatenate([[True], again[1:] != again[:-1]])) if len(again) else order
    return RepeatedNumbers(again[starts], came[starts], np.diff(starts, append=len(again)))


def _finalize_surplus(source: SourceState, repeated: RepeatedNumbers) -> GapUpdate:
    surplus = len(source.open_ranges) - MAX_OPEN_RANGES
    if surplus <= 0:
        return GapUpdate(source, repeated, [])
    old, kept = source.open_ranges[:surplus], source.open_ranges[surplus:]
    return GapUpdate(replace(source, lowest=old[-1].last + 1, is_finalized=True, open_ranges=kept), repeated, list(old))
