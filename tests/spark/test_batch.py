"""Reading journals and querying the network, with real Spark and, on the other end, real eclipse-zenoh."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.interop.reference import ours, reference, unused
from tests.rows import EPOCH, numbers, samples
from tests.spark.conftest import Recorded
from zenspark.api.open import open as open_session
from zenspark.journal import Journal
from zenspark.types.query import Query

pytestmark = pytest.mark.spark


def read(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    return spark.read.format("zenoh").options(**options).load(str(path))  # type: ignore[arg-type]  # Spark's hint is narrow


def test_a_journal_is_a_table_with_nothing_registered(spark: SparkSession, recorded: Recorded) -> None:
    path = recorded(1000)
    found = read(spark, path).orderBy("offset").toArrow()
    expected = pa.Table.from_batches(Journal(path).read(0, 1000))
    assert found.cast(expected.schema).to_pylist() == expected.to_pylist()
    assert found.drop_columns(["recorder", "offset"]).to_pylist() == samples(0, 1000).to_pylist()


def test_a_journal_is_a_view_in_sql(spark: SparkSession, recorded: Recorded) -> None:
    spark.sql(f"create or replace temporary view recorded using zenoh options (journal '{recorded(30)}')")
    (row,) = spark.sql("select count(*) rows, max(offset) last from recorded").collect()
    assert tuple(row) == (30, 29)


def test_several_journals_are_one_table(spark: SparkSession, recorded: Recorded) -> None:
    paths = [str(recorded(300)), str(recorded(200, name="other", first=1000))]
    table = spark.read.format("zenoh").option("journal", json.dumps(paths)).load()
    assert numbers(table.collect()) == [*range(300), *range(1000, 1200)]
    counts = {row["recorder"]: row["count"] for row in table.groupBy("recorder").count().collect()}
    assert counts == {"robot": 300, "other": 200}


def test_ranges_by_offset_and_by_time(spark: SparkSession, recorded: Recorded) -> None:
    path = recorded(1000)
    by_offset = read(spark, path, startingOffsets='{"robot": 150}', endingOffsets='{"robot": 420}')
    assert numbers(by_offset.collect()) == list(range(150, 420))
    by_time = read(spark, path, startingTimestamp=str(EPOCH // 1000 + 150), endingTimestamp="2023-11-14T22:13:20.420Z")
    assert numbers(by_time.collect()) == list(range(150, 420))
    assert read(spark, path, startingOffsets="latest").collect() == []


FILTERS = [
    "key = 'fleet/r3/pose'",
    "key in ('fleet/r1/pose', 'fleet/r2/pose', 'other')",
    "key like 'fleet/r5%'",
    "offset >= 120 and offset < 333",
    "offset = 77",
    "received_at > timestamp'2023-11-14 22:13:20.300'",
    "received_at <= timestamp'2023-11-14 22:13:20.300' and kind = 'DELETE'",
    "recorder = 'nobody'",
    "attachment is null and offset > 900",
]


def test_filters_give_the_same_rows_whether_pushed_down_or_not(spark: SparkSession, recorded: Recorded) -> None:
    path = recorded(1000)
    table = read(spark, path)
    plain = [numbers(table.where(each).collect()) for each in FILTERS]
    assert [len(rows) for rows in plain] == [143, 286, 143, 213, 1, 699, 30, 0, 66]
    assert [numbers(read(spark, path, pushDown=True).where(each).collect()) for each in FILTERS] == plain


def test_one_table_can_be_filtered_repeatedly(spark: SparkSession, recorded: Recorded) -> None:
    """What goes wrong with filters pushed down in Spark 4.3, and is why they are not by default."""
    table = read(spark, recorded(1000))
    few = table.where("offset > 900")
    assert (few.count(), table.count(), few.union(table.where("offset < 10")).count()) == (99, 1000, 109)


def test_min_partitions_divides_a_journal(spark: SparkSession, recorded: Recorded) -> None:
    path = recorded(1000, block=50)
    assert read(spark, path).rdd.getNumPartitions() == 1
    table = read(spark, path, minPartitions=4)
    assert table.rdd.getNumPartitions() == 4
    assert numbers(table.collect()) == list(range(1000))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"jurnal": "x"}, "there is no option jurnal for reading format zenoh: did you mean journal?"),
        ({"journal": "/nowhere/at/all"}, "/nowhere/at/all: there is no such directory"),
        ({}, "reading needs one of the options journal and selector"),
        ({"selector": "a/**"}, "option selector needs connect, listen or config"),
        ({"selector": "a//b", "connect": "tcp/127.0.0.1:1"}, "key expression 'a//b', position 2"),
    ],
)
def test_invalid_option_is_named(spark: SparkSession, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.read.format("zenoh").options(**options).load().collect()
    assert complaint in str(caught.value)


def test_offsets_outside_the_journal_raise_unless_fail_on_data_loss_is_false(
    spark: SparkSession, recorded: Recorded
) -> None:
    path = recorded(10)
    with pytest.raises(PySparkException, match="offset 50 is not there"):
        read(spark, path, startingOffsets='{"robot": 50}').collect()
    left = read(spark, path, endingOffsets='{"robot": 50}', failOnDataLoss=False)
    assert numbers(left.collect()) == list(range(10))


def test_selectors_query_eclipse_zenoh_queryables(spark: SparkSession) -> None:
    endpoint = unused()
    with reference(mode="router", listen__endpoints=[endpoint]) as router:
        router.execute("queryable a/x")
        router.execute("queryable b/y")
        source = spark.read.format("zenoh").options(connect=endpoint, selector='["a/*?q=1", "b/*", "c/*"]')
        queried = source.option("parallelism", 2).load()
        assert queried.rdd.getNumPartitions() == 2
        rows = queried.orderBy("key").collect()
    assert [(row["key"], row["kind"], bytes(row["payload"])) for row in rows] == [
        ("a/*", "PUT", b"answer"),  # this queryable replies with the key expression of the query
        ("b/*", "PUT", b"answer"),
    ]


def test_an_error_reply_fails_the_query_or_is_a_row(spark: SparkSession) -> None:
    endpoint = unused()

    def on_query(query: Query) -> None:
        query.reply("a/x", "fine", encoding="text/plain", attachment="note")
        query.reply_err("out of order", encoding="text/plain")

    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as session:
        session.declare_queryable("a/*", on_query)
        queried = spark.read.format("zenoh").options(connect=endpoint, selector="a/*")
        with pytest.raises(PySparkException, match="a queryable replied with an error: out of order"):
            queried.load().collect()
        rows = queried.option("onError", "row").load().orderBy("kind").collect()
    assert [(row["key"], row["kind"], row["error"]) for row in rows] == [
        ("a/*", "ERROR", "out of order"),
        ("a/x", "PUT", None),
    ]
    assert bytes(rows[1]["attachment"]) == b"note"


def test_many_selectors_are_few_tasks(spark: SparkSession) -> None:
    endpoint, wanted = unused(), [f"a/{number}" for number in range(100)]
    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as session:
        session.declare_queryable("a/*", lambda query: query.reply(query.key_expr, "x"))
        queried = (
            spark.read.format("zenoh").options(connect=endpoint, selector=json.dumps(wanted), parallelism=2).load()
        )
        assert queried.rdd.getNumPartitions() == 2
        assert sorted(row["key"] for row in queried.select("key").collect()) == sorted(wanted)


def test_a_selector_without_a_final_reply_is_named(spark: SparkSession) -> None:
    endpoint, held = unused(), list[Query]()
    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as session:
        session.declare_queryable("a", held.append)
        queried = spark.read.format("zenoh").options(connect=endpoint, selector="a", timeout=0.2)
        with pytest.raises(PySparkException, match="a: timed out"):
            queried.load().collect()
        (row,) = queried.option("onError", "row").load().collect()
    assert (row["key"], row["kind"]) == ("a", "TIMEOUT")


def test_unreachable_endpoint_is_named(spark: SparkSession) -> None:
    endpoint = unused()
    with pytest.raises(PySparkException, match=f"{endpoint}: no session as client"):
        spark.read.format("zenoh").options(connect=endpoint, selector="a/*").load().collect()
