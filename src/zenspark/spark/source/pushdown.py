"""Filters that Spark hands down: which are applied while a journal is read, and what need not be read at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC as UTC_ZONE
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from zenspark.arrow import UTC

TEXTS = frozenset({"key", "kind", "encoding", "recorder", "source_zid", "timestamp_id", "event", "zid"})
NUMBERS = frozenset({"offset", "source_sn", "source_eid", "timestamp_ntp64"})
TIMES = frozenset({"received_at", "timestamp", "time"})

Test = Callable[[pc.Expression, Any], pc.Expression]
ON_TEXTS: dict[type[Filter], Test] = {
    EqualTo: lambda field, value: field == value,
    In: lambda field, value: field.isin(value),
    StringStartsWith: pc.starts_with,
    IsNotNull: lambda field, _: field.is_valid(),
}
ON_VALUES: dict[type[Filter], Test] = {
    EqualTo: lambda field, value: field == value,
    GreaterThan: lambda field, value: field > value,
    GreaterThanOrEqual: lambda field, value: field >= value,
    LessThan: lambda field, value: field < value,
    LessThanOrEqual: lambda field, value: field <= value,
    IsNotNull: lambda field, _: field.is_valid(),
}
"""What a filter means to Arrow. A null passes none of them, there as in SQL."""


class Pushed(msgspec.Struct, frozen=True):
    """One filter that is applied here."""

    kind: type[Filter]
    column: str
    value: Any

    def expression(self) -> pc.Expression:
        tests = ON_TEXTS if self.column in TEXTS else ON_VALUES
        return tests[self.kind](pc.field(self.column), self.value)


def taken(given: Filter, columns: Sequence[str]) -> Pushed | None:
    """A filter in the form it is applied in; None if Spark has to."""
    path: tuple[str, ...] = getattr(given, "attribute", ())
    column = path[0] if len(path) == 1 else ""
    if column not in columns:
        return None
    value: Any = getattr(given, "value", None)
    if column in TEXTS and type(given) in ON_TEXTS:
        return Pushed(type(given), column, list(value) if isinstance(given, In) else value)
    if column in NUMBERS and type(given) in ON_VALUES:
        return Pushed(type(given), column, value)
    if column in TIMES and type(given) in ON_VALUES:
        return Pushed(type(given), column, value if value is None else _moment(value))
    return None


def _moment(value: datetime) -> pa.Scalar:
    return pa.scalar(value if value.tzinfo else value.replace(tzinfo=UTC_ZONE), UTC)


def applied(filters: Iterable[Pushed]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What leaves the rows of a batch that pass all filters."""
    whole: pc.Expression | None = None
    for each in filters:
        whole = each.expression() if whole is None else whole & each.expression()
    return (lambda batch: batch) if whole is None else lambda batch: batch.filter(whole)


class Bounds(msgspec.Struct, frozen=True):
    """What filters say of where rows are: no row outside these can pass."""

    start: int = 0
    end: int | None = None
    since: int | None = None
    """Received at this time or later, in microseconds since 1970."""
    recorders: frozenset[str] | None = None

    @staticmethod
    def of(filters: Iterable[Pushed]) -> Bounds:
        found = Bounds()
        for each in filters:
            found = found.and_also(each)
        return found

    def and_also(self, pushed: Pushed) -> Bounds:
        """These, narrowed by one more filter."""
        kind, value = pushed.kind, pushed.value
        match pushed.column:
            case "offset" if kind is not IsNotNull:
                return self._from_offset(kind, int(value))
            case "received_at" | "time" if kind in (EqualTo, GreaterThan, GreaterThanOrEqual):
                return msgspec.structs.replace(self, since=max(self.since or 0, value.cast(pa.int64()).as_py()))
            case "recorder" if kind in (EqualTo, In):
                named = frozenset([value] if kind is EqualTo else value)
                return msgspec.structs.replace(self, recorders=named & (self.recorders or named))
            case _:
                return self

    def _from_offset(self, kind: type[Filter], value: int) -> Bounds:
        start, end = self.start, self.end
        if kind in (EqualTo, GreaterThanOrEqual, GreaterThan):
            start = max(start, value + (kind is GreaterThan))
        if kind in (EqualTo, LessThanOrEqual, LessThan):
            stop = value + (kind is not LessThan)
            end = stop if end is None else min(end, stop)
        return msgspec.structs.replace(self, start=start, end=end)
