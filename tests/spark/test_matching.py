"""The key-expression join gives the pairs a cross join gives."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from zenspark.errors import UsageError
from zenspark.key import canonicalize
from zenspark.key.match import includes
from zenspark.spark.key_join import match_keys

pytestmark = pytest.mark.spark

CHUNKS = ["a", "b", "ab", "@a", "@b$*"]
key_texts = st.lists(st.sampled_from(CHUNKS), min_size=1, max_size=4).map("/".join)
wild_texts = st.lists(st.sampled_from([*CHUNKS, "*", "**", "a$*", "$*b"]), min_size=1, max_size=4).map("/".join)
keys_of_rows = st.one_of(key_texts, wild_texts.map(canonicalize))


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    keys=st.lists(keys_of_rows, min_size=20, max_size=60),
    expressions=st.lists(wild_texts, min_size=20, max_size=60),
    buckets=st.sampled_from([None, 1, 3, 8]),
)
def test_the_join_equals_a_cross_join(
    spark: SparkSession, keys: list[str], expressions: list[str], buckets: int | None
) -> None:
    rows = spark.createDataFrame(list(enumerate(keys)), "number int, key string")
    rules = spark.createDataFrame(list(enumerate(expressions)), "rule int, keyexpr string")
    found = match_keys(rows, rules, buckets=buckets).collect()
    assert sorted((row["number"], row["rule"]) for row in found) == [
        (number, rule)
        for number, key in enumerate(keys)
        for rule, text in enumerate(expressions)
        if includes(canonicalize(text), canonicalize(key))
    ]
    assert all((row["key"], row["keyexpr"]) == (keys[row["number"]], expressions[row["rule"]]) for row in found)


def test_join_accepts_other_column_names_and_nulls(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("x/y", 1), (None, 2)], "topic string, n int")
    rules = spark.createDataFrame([("x/*",), (None,), ("y",)], "rule string")
    found = match_keys(rows, rules, key="topic", expression="rule").collect()
    assert [tuple(row) for row in found] == [("x/y", 1, "x/*")]


def test_both_sides_may_come_from_one_table(spark: SparkSession) -> None:
    table = spark.createDataFrame([("a/b", "a/*"), ("c", "**")], "key string, keyexpr string")
    found = match_keys(table.select("key"), table.select("keyexpr")).collect()
    assert sorted(tuple(row) for row in found) == [("a/b", "**"), ("a/b", "a/*"), ("c", "**")]


def test_invalid_join_is_reported(spark: SparkSession) -> None:
    rows, rules = spark.range(1).selectExpr("'a' key"), spark.range(1).selectExpr("'a' keyexpr", "'x' key")
    with pytest.raises(UsageError, match="both sides have a column 'key'"):
        match_keys(rows, rules)
    with pytest.raises(UsageError, match="there is no column 'topic'; there are key"):
        match_keys(rows, rules.drop("key"), key="topic")
    stream = spark.readStream.format("rate").load().selectExpr("'a' key")
    with pytest.raises(UsageError, match="inside foreachBatch"):
        match_keys(stream, rules.drop("key"))
