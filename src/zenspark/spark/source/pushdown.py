"""Filter push-down: applies filters of Spark while a journal is read, and skips rows that cannot pass them."""

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

TEXT_COLUMNS = frozenset({"key", "kind", "encoding", "recorder", "source_zid", "timestamp_id", "event", "zid"})
NUMBER_COLUMNS = frozenset({"offset", "source_sn", "source_eid", "timestamp_ntp64"})
PUSHED_TIME_COLUMNS = frozenset({"received_at", "timestamp", "time"})

FilterBuilder = Callable[[pc.Expression, Any], pc.Expression]
TEXT_FILTERS: dict[type[Filter], FilterBuilder] = {
    EqualTo: lambda field, value: field == value,
    In: lambda field, value: field.isin(value),
    StringStartsWith: pc.starts_with,
    IsNotNull: lambda field, _: field.is_valid(),
}
VALUE_FILTERS: dict[type[Filter], FilterBuilder] = {
    EqualTo: lambda field, value: field == value,
    GreaterThan: lambda field, value: field > value,
    GreaterThanOrEqual: lambda field, value: field >= value,
    LessThan: lambda field, value: field < value,
    LessThanOrEqual: lambda field, value: field <= value,
    IsNotNull: lambda field, _: field.is_valid(),
}
"""Arrow expressions of filters. As in SQL, a null passes none of them."""


class PushedFilter(msgspec.Struct, frozen=True):
    """A filter that is applied while reading."""

    kind: type[Filter]
    column: str
    value: Any

    def expression(self) -> pc.Expression:
        tests = TEXT_FILTERS if self.column in TEXT_COLUMNS else VALUE_FILTERS
        return tests[self.kind](pc.field(self.column), self.value)


def translate_filter(filter_: Filter, columns: Sequence[str]) -> PushedFilter | None:
    """Translate a filter; None if Spark must apply it."""
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    column = path[0] if len(path) == 1 else ""
    if column not in columns:
        return None
    value: Any = getattr(filter_, "value", None)
    if column in TEXT_COLUMNS and type(filter_) in TEXT_FILTERS:
        return PushedFilter(type(filter_), column, list(value) if isinstance(filter_, In) else value)
    if column in NUMBER_COLUMNS and type(filter_) in VALUE_FILTERS:
        return PushedFilter(type(filter_), column, value)
    if column in PUSHED_TIME_COLUMNS and type(filter_) in VALUE_FILTERS:
        return PushedFilter(type(filter_), column, value if value is None else _to_scalar(value))
    return None


def _to_scalar(value: datetime) -> pa.Scalar:
    return pa.scalar(value if value.tzinfo else value.replace(tzinfo=UTC_ZONE), UTC)


def make_row_filter(filters: Iterable[PushedFilter]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Make a function that keeps the rows of a batch that pass all filters."""
    combined: pc.Expression | None = None
    for pushed in filters:
        combined = pushed.expression() if combined is None else combined & pushed.expression()
    return (lambda batch: batch) if combined is None else lambda batch: batch.filter(combined)


class ScanRange(msgspec.Struct, frozen=True):
    """Bounds of offsets, reception time and recorders: no row outside of them can pass the filters."""

    start: int = 0
    end: int | None = None
    since: int | None = None
    """Earliest reception time, in microseconds since 1970."""
    recorders: frozenset[str] | None = None

    @staticmethod
    def of(filters: Iterable[PushedFilter]) -> ScanRange:
        range_ = ScanRange()
        for pushed in filters:
            range_ = range_.narrow(pushed)
        return range_

    def narrow(self, pushed: PushedFilter) -> ScanRange:
        """Return these bounds narrowed by one more filter."""
        kind, value = pushed.kind, pushed.value
        match pushed.column:
            case "offset" if kind is not IsNotNull:
                return self._from_offset(kind, int(value))
            case "received_at" | "time" if kind in (EqualTo, GreaterThan, GreaterThanOrEqual):
                return msgspec.structs.replace(self, since=max(self.since or 0, value.cast(pa.int64()).as_py()))
            case "recorder" if kind in (EqualTo, In):
                recorders = frozenset([value] if kind is EqualTo else value)
                return msgspec.structs.replace(self, recorders=recorders & (self.recorders or recorders))
            case _:
                return self

    def _from_offset(self, kind: type[Filter], value: int) -> ScanRange:
        start, end = self.start, self.end
        if kind in (EqualTo, GreaterThanOrEqual, GreaterThan):
            start = max(start, value + (kind is GreaterThan))
        if kind in (EqualTo, LessThanOrEqual, LessThan):
            stop = value + (kind is not LessThan)
            end = stop if end is None else min(end, stop)
        return msgspec.structs.replace(self, start=start, end=end)
