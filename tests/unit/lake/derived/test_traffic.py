"""What `traffic` needs; tests/spark/test_lake_maintenance.py tests the table."""

import pyarrow as pa

from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake.derived.traffic import MICROSECONDS_PER_MINUTE, TrafficAggregation
from zenspark.lake.levels import NEW_PART
from zenspark.lake.specs import JOURNAL_SCHEMA, TRAFFIC, TRAFFIC_STATE

NAMES = ("key", "payload", "received_at", "timestamp")


def test_traffic_aggregation_defines_public_table_and_minute_length() -> None:
    assert TrafficAggregation.public is TRAFFIC
    assert MICROSECONDS_PER_MINUTE == 60 * 10**6


def test_partial_aggregate_sums_by_prefix_and_minute() -> None:
    minute = MICROSECONDS_PER_MINUTE
    given = [("a/1", b"123", 10, 4), ("a/2", None, minute - 1, None), ("b", b"1", 5, 7), ("a/1", b"12", minute, minute)]
    rows = pa.table(
        [
            pa.array(column, JOURNAL_SCHEMA.field(name).type)
            for name, column in zip(NAMES, zip(*given, strict=True), strict=True)
        ],
        names=NAMES,
    )
    aggregated = TrafficAggregation().aggregate_rows(rows.cast(with_text_type(rows.schema, DICTIONARY_TYPE)))
    assert aggregated.schema == TRAFFIC_STATE.schema
    actual = [
        tuple(row.values())
        for row in aggregated.cast(TRAFFIC_STATE.schema.set(1, pa.field("minute", pa.int64()))).to_pylist()
    ]
    assert sorted(actual) == [
        ("a", 0, 2, 3, 1, 6.0, 6, 6, NEW_PART),
        ("a", minute, 1, 2, 1, 0.0, 0, 0, NEW_PART),
        ("b", 0, 1, 1, 1, -2.0, -2, -2, NEW_PART),
    ]


def sums(*given: tuple[object, ...]) -> pa.Table:
    names = TRAFFIC_STATE.columns.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in given], schema=TRAFFIC_STATE.columns)


def test_sums_of_a_minute_are_added_up_and_published() -> None:
    rows = sums(
        ("a", 0, 60, 600, 2, 10.0, 3, 7), ("a", 0, 60, 0, 0, None, None, None), ("b", 0, 1, 2, 0, None, None, None)
    )
    reduced = TrafficAggregation().reduce(rows)
    assert reduced.schema == TRAFFIC_STATE.columns
    found = TrafficAggregation().to_public_rows(reduced, reduced[:0])
    assert found.schema == TRAFFIC.schema
    assert [tuple(row.values())[2:] for row in found.sort_by("prefix").to_pylist()] == [
        (120, 600, 2.0, 10.0, 3, 5.0, 7),
        (1, 2, 1 / 60, 2 / 60, None, None, None),
    ]
