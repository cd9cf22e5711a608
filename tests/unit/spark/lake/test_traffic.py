"""What `traffic` needs; tests/spark/test_lake_upkeep.py tests the table."""

import pyarrow as pa

from zenspark.journal.packing import WORDS, spelled
from zenspark.spark.lake.derived import NEW
from zenspark.spark.lake.shapes import JOURNAL, TRAFFIC
from zenspark.spark.lake.traffic import MICROSECONDS_PER_MINUTE, Traffic

NAMES = ("key", "payload", "received_at", "timestamp")


def test_it_counts_every_sample() -> None:
    assert Traffic.needs == "key"
    assert Traffic.shape is TRAFFIC
    assert MICROSECONDS_PER_MINUTE == 60 * 10**6


def test_a_digest_sums_up_per_prefix_and_minute() -> None:
    minute = MICROSECONDS_PER_MINUTE
    given = [("a/1", b"123", 10, 4), ("a/2", None, minute - 1, None), ("b", b"1", 5, 7), ("a/1", b"12", minute, minute)]
    rows = pa.table(
        [
            pa.array(column, JOURNAL.field(name).type)
            for name, column in zip(NAMES, zip(*given, strict=True), strict=True)
        ],
        names=NAMES,
    )
    digest = Traffic().digest(rows.cast(spelled(rows.schema, WORDS)))
    assert digest.schema == TRAFFIC.schema
    told = [
        tuple(row.values()) for row in digest.cast(TRAFFIC.schema.set(1, pa.field("minute", pa.int64()))).to_pylist()
    ]
    assert sorted(told) == [
        ("a", 0, 2, 3, 1, 6.0, 6, 6, NEW),
        ("a", minute, 1, 2, 1, 0.0, 0, 0, NEW),
        ("b", 0, 1, 1, 1, -2.0, -2, -2, NEW),
    ]
