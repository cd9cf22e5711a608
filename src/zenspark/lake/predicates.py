"""Predicates on keys and times, evaluated on statistics (may rows match?) and on columns (which rows match?).

Missing statistics exclude nothing. The time of a row is its timestamp, or its reception time if it has none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.lake.parquet_files import DataFile
from zenspark.lake.parquet_footer import ColumnStats
from zenspark.types.timestamps import EPOCH, MICROSECOND

BoolMask: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"
KeyMatcher: TypeAlias = Callable[[pa.Array], BoolMask]
"""Mask of the names that match."""

LAST_CHARACTER = chr(0x10FFFF).encode()
"""Ends a maximum that was truncated: no text with that prefix is greater."""
MILLISECOND_US = 1000
"""Delta allows writers to truncate times in statistics to milliseconds."""
MIN_TIME_US, MAX_TIME_US = -(1 << 63), (1 << 63) - 1


class KeyPredicate:
    """Matches keys against a key expression with a known literal prefix: the whole key, or its first chunks.

    A recorded key may have wildcards itself; it can match without beginning with the literal prefix.
    """

    def __init__(self, matching: KeyMatcher, literal: str | None = None, *, is_exact: bool = False) -> None:
        self.matching = matching
        self._literal = literal
        self.is_exact = is_exact
        """Whether the literal prefix is the whole expression, which has no wildcards."""

    @cached_property
    def _prefixes(self) -> tuple[bytes, ...]:
        """Prefixes of all keys that can match, other than the literal itself."""
        text = self._literal or ""
        starts = [0, *(at + 1 for at, letter in enumerate(text) if letter == "/")]
        wildcards = {f"{text[:at]}*" for at in starts} | {f"{text[:at]}$*" for at in range(len(text) + 1)}
        below = f"{text}/**" if self.is_exact else f"{text}/"
        return tuple(sorted(prefix.encode() for prefix in wildcards | {below}))

    @cached_property
    def _points(self) -> list[bytes]:
        return sorted({*self._prefixes, (self._literal or "").encode()})

    def may_match(self, stats: ColumnStats) -> bool:
        """Whether a column with these statistics may have a matching key."""
        if self._literal is None:
            return not stats.is_all_null
        return _may_contain_text(self._points, self._prefixes, stats)


def _may_contain_text(points: list[bytes], prefixes: tuple[bytes, ...], stats: ColumnStats) -> bool:
    """Whether a column with these statistics may have one of the points, or a text with one of the prefixes."""
    lowest, highest = stats.min_value, stats.max_value
    if stats.is_all_null:
        return False
    if not isinstance(lowest, bytes) or not isinstance(highest, bytes):  # no statistics, or not a text column
        return True
    if lowest.startswith(prefixes):
        return True
    at = bisect_left(points, lowest)
    if at == len(points):
        return False
    if highest.endswith(LAST_CHARACTER):
        prefix = highest[: -len(LAST_CHARACTER)]
        return bool(points[at][: len(prefix)] <= prefix)
    return bool(points[at] <= highest)


class TimePredicate(msgspec.Struct, frozen=True):
    """Closed range of times in microseconds since 1970."""

    start: int = MIN_TIME_US
    end: int = MAX_TIME_US

    def may_overlap(self, stats: ColumnStats) -> bool:
        """Whether a column with these statistics may have a time in the range."""
        if stats.is_all_null or self.start > self.end:
            return False
        if not isinstance(stats.min_value, int) or not isinstance(stats.max_value, int):
            return True
        return bool(stats.min_value <= self.end and stats.max_value >= self.start)

    def may_match_row(self, timestamp: ColumnStats, received: ColumnStats) -> bool:
        """Whether a row may have its time in the range, by the statistics of timestamps and of reception times."""
        if self.may_overlap(timestamp):
            return True
        return timestamp.null_count != 0 and self.may_overlap(received)

    def mask(self, times: pa.Array) -> BoolMask:
        """Mask of the times that are in the range."""
        numbers = times.cast(pa.int64())
        values = (pc.fill_null(numbers, 0) if times.null_count else numbers).to_numpy()
        is_inside: BoolMask = (values >= self.start) & (values <= self.end)
        if times.null_count:
            is_inside &= pc.is_valid(times).to_numpy(zero_copy_only=False)
        return is_inside


def max_row_time(timestamp: ColumnStats, received: ColumnStats) -> int:
    """Upper bound of the times of rows, in microseconds, by statistics."""
    bounds = []
    if not timestamp.is_all_null:
        bounds.append(timestamp.max_value)
    if timestamp.null_count != 0 and not received.is_all_null:
        bounds.append(received.max_value)
    return max((bound if isinstance(bound, int) else MAX_TIME_US for bound in bounds), default=MIN_TIME_US)


def key_stats(file: DataFile) -> ColumnStats:
    """Statistics of the keys of a file, from the log."""
    least, greatest = file.min_values.get("key"), file.max_values.get("key")
    if not isinstance(least, str) or not isinstance(greatest, str):
        return _stats_without_bounds(file, "key")
    return ColumnStats(least.encode(errors="surrogatepass"), greatest.encode(errors="surrogatepass"))


def time_stats(file: DataFile, column: str) -> ColumnStats:
    """Statistics of a time column of a file, from the log."""
    least, greatest = _to_microseconds(file.min_values.get(column)), _to_microseconds(file.max_values.get(column))
    if least is None or greatest is None:
        return _stats_without_bounds(file, column)
    return ColumnStats(least, greatest + MILLISECOND_US - 1, file.null_counts.get(column))


def _stats_without_bounds(file: DataFile, column: str) -> ColumnStats:
    """Statistics of a column without minimum and maximum: all values are null, or they are unknown."""
    null_count = file.null_counts.get(column)
    return ColumnStats(null_count=null_count, is_all_null=bool(null_count) and null_count == file.rows)


def _to_microseconds(value: object) -> int | None:
    if not isinstance(value, datetime):
        return None
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - EPOCH) // MICROSECOND
