"""Predicates on keys and times, and what statistics say of them: whether rows that fulfil one may be there.

Statistics that are missing rule nothing out. A row counts at its timestamp, or if it has none when it was received.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.lake.parquet_files import DataFile
from zenspark.lake.parquet_footer import ColumnStats

BoolMask: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"
KeyMatcher: TypeAlias = Callable[[pa.Array], BoolMask]
"""Of each of some names whether it is meant."""

LAST_CHARACTER = chr(0x10FFFF).encode()
"""Stands behind a greatest text that was cut off: whatever comes there is not greater."""
MILLISECOND_US = 1000
"""Delta allows writers to cut off times in statistics at the millisecond."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MIN_TIME_US, MAX_TIME_US = -(1 << 63), (1 << 63) - 1


class KeyPredicate:
    """Keys that match an expression, of which a literal part is known: the key itself, or the chunks it begins with.

    A recorded key may have wildcards of its own: it then matches although it does not begin with the literal part.
    """

    def __init__(self, matching: KeyMatcher, literal: str | None = None, *, is_exact: bool = False) -> None:
        self.matching = matching
        self._literal = literal
        self.is_exact = is_exact
        """Whether the literal part is all: the expression has no wildcards."""

    @cached_property
    def _prefixes(self) -> tuple[bytes, ...]:
        """What a key that matches begins with, unless it is the literal part itself."""
        text = self._literal or ""
        starts = [0, *(at + 1 for at, letter in enumerate(text) if letter == "/")]
        wild = {f"{text[:at]}*" for at in starts} | {f"{text[:at]}$*" for at in range(len(text) + 1)}
        below = f"{text}/**" if self.is_exact else f"{text}/"
        return tuple(sorted(each.encode() for each in wild | {below}))

    @cached_property
    def _points(self) -> list[bytes]:
        return sorted({*self._prefixes, (self._literal or "").encode()})

    def may_match(self, limits: ColumnStats) -> bool:
        """Whether a key that matches may be from a least to a greatest one."""
        if self._literal is None:
            return not limits.is_all_null
        return _may_contain_text(self._points, self._prefixes, limits)


def _may_contain_text(points: list[bytes], prefixes: tuple[bytes, ...], limits: ColumnStats) -> bool:
    """Whether a text that is one of the points, or begins with one of the prefixes, may be within limits."""
    least, greatest = limits.min_value, limits.max_value
    if limits.is_all_null:
        return False
    if not isinstance(least, bytes) or not isinstance(greatest, bytes):  # none are known, or it is no text
        return True
    if least.startswith(prefixes):
        return True
    at = bisect_left(points, least)
    if at == len(points):
        return False
    if greatest.endswith(LAST_CHARACTER):
        kept = greatest[: -len(LAST_CHARACTER)]
        return bool(points[at][: len(kept)] <= kept)
    return bool(points[at] <= greatest)


class TimePredicate(msgspec.Struct, frozen=True):
    """A range of time in microseconds since 1970, both ends included."""

    start: int = MIN_TIME_US
    end: int = MAX_TIME_US

    def may_overlap(self, limits: ColumnStats) -> bool:
        """Whether a time within limits may be in the range."""
        if limits.is_all_null or self.start > self.end:
            return False
        if not isinstance(limits.min_value, int) or not isinstance(limits.max_value, int):  # as above
            return True
        return bool(limits.min_value <= self.end and limits.max_value >= self.start)

    def may_match_row(self, stamped: ColumnStats, received: ColumnStats) -> bool:
        """Whether a row may count in the range."""
        if self.may_overlap(stamped):
            return True
        return stamped.null_count != 0 and self.may_overlap(received)

    def mask(self, times: pa.Array) -> BoolMask:
        """Of each time whether it is in the range."""
        numbers = times.cast(pa.int64())
        known = (pc.fill_null(numbers, 0) if times.null_count else numbers).to_numpy()
        found: BoolMask = (known >= self.start) & (known <= self.end)
        if times.null_count:
            found &= pc.is_valid(times).to_numpy(zero_copy_only=False)
        return found


def max_row_time(stamped: ColumnStats, received: ColumnStats) -> int:
    """A time in microseconds that no row is newer than."""
    bounds = []
    if not stamped.is_all_null:
        bounds.append(stamped.max_value)
    if stamped.null_count != 0 and not received.is_all_null:
        bounds.append(received.max_value)
    return max((bound if isinstance(bound, int) else MAX_TIME_US for bound in bounds), default=MIN_TIME_US)


def key_stats(file: DataFile) -> ColumnStats:
    """What the log says of the keys in a file."""
    least, greatest = file.min_values.get("key"), file.max_values.get("key")
    if not isinstance(least, str) or not isinstance(greatest, str):
        return _stats_without_bounds(file, "key")
    return ColumnStats(least.encode(errors="surrogatepass"), greatest.encode(errors="surrogatepass"))


def time_stats(file: DataFile, column: str) -> ColumnStats:
    """What the log says of a column of times in a file."""
    least, greatest = _to_microseconds(file.min_values.get(column)), _to_microseconds(file.max_values.get(column))
    if least is None or greatest is None:
        return _stats_without_bounds(file, column)
    return ColumnStats(least, greatest + MILLISECOND_US - 1, file.null_counts.get(column))


def _stats_without_bounds(file: DataFile, column: str) -> ColumnStats:
    """The limits of a column without least and greatest values: there are none, or they are not known."""
    nulls = file.null_counts.get(column)
    return ColumnStats(null_count=nulls, is_all_null=bool(nulls) and nulls == file.rows)


def _to_microseconds(value: object) -> int | None:
    if not isinstance(value, datetime):
        return None
    known = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (known - EPOCH) // MICROSECOND
