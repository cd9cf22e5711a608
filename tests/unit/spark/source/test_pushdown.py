from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from tests.rows import EPOCH, samples
from zenspark.journal.format import SAMPLES, read_schema
from zenspark.spark.source.pushdown import PushedFilter, ScanRange, make_row_filter, translate_filter

COLUMNS = read_schema(SAMPLES).names
push = partial(translate_filter, columns=COLUMNS)


def batch(rows: int = 100) -> pa.RecordBatch:
    columns = [*samples(0, rows).columns, pa.repeat("robot", rows), pa.array(range(rows), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=read_schema(SAMPLES))


def passing_offsets(*filters: Filter) -> list[int]:
    """The numbers of the rows that pass, of those that are all applied here."""
    pushed = [push(each) for each in filters]
    rows: list[int] = (
        make_row_filter([each for each in pushed if each is not None])(batch()).column("offset").to_pylist()
    )
    assert None not in pushed
    return rows


MOMENT = datetime.fromtimestamp(EPOCH / 1e6, UTC)


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        ([], list(range(100))),
        ([EqualTo(("key",), "fleet/r3/pose")], list(range(3, 100, 7))),
        ([In(("key",), ("fleet/r3/pose", "x"))], list(range(3, 100, 7))),
        ([StringStartsWith(("key",), "fleet/r3")], list(range(3, 100, 7))),
        ([IsNotNull(("key",))], list(range(100))),
        ([GreaterThan(("offset",), 97)], [98, 99]),
        ([GreaterThanOrEqual(("offset",), 10), LessThan(("offset",), 12)], [10, 11]),
        ([LessThanOrEqual(("received_at",), MOMENT)], [0]),
        ([EqualTo(("timestamp",), MOMENT.replace(tzinfo=None))], [0]),
        ([IsNotNull(("timestamp",)), EqualTo(("kind",), "DELETE"), LessThan(("source_sn",), 20)], [9, 19]),
    ],
)
def test_row_filter_keeps_matching_rows(filters: list[Filter], rows: list[int]) -> None:
    assert passing_offsets(*filters) == rows


@pytest.mark.parametrize(
    "given",
    [
        EqualTo(("payload",), b"x"),
        EqualTo(("a", "b"), 1),
        EqualTo(("unknown",), 1),
        StringContains(("key",), "x"),
        GreaterThan(("key",), "x"),
        In(("offset",), (1, 2)),
        Not(EqualTo(("key",), "x")),
    ],
)
def test_unsupported_filters_are_not_pushed_down(given: Filter) -> None:
    assert push(given) is None


def bounds(*filters: Filter) -> ScanRange:
    return ScanRange.of([each for each in map(push, filters) if isinstance(each, PushedFilter)])


def test_offset_filters_bound_the_scan_range() -> None:
    assert bounds(GreaterThan(("offset",), 5), LessThanOrEqual(("offset",), 9)) == ScanRange(start=6, end=10)
    assert bounds(GreaterThanOrEqual(("offset",), 5), LessThan(("offset",), 9), LessThan(("offset",), 8)) == ScanRange(
        5, 8
    )
    assert bounds(EqualTo(("offset",), 7), IsNotNull(("offset",))) == ScanRange(7, 8)


def test_time_and_recorder_filters_bound_the_scan_range() -> None:
    later = datetime.fromtimestamp(EPOCH / 1e6 + 1, UTC)
    found = bounds(GreaterThan(("received_at",), MOMENT), GreaterThanOrEqual(("received_at",), later))
    assert found == ScanRange(since=EPOCH + 1_000_000)
    assert bounds(LessThan(("received_at",), MOMENT)) == ScanRange()  # clocks may go back: later rows may be older
    found = bounds(In(("recorder",), ("a", "b")), EqualTo(("recorder",), "b"))
    assert found == ScanRange(recorders=frozenset({"b"}))
