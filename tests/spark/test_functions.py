"""The SQL functions in SQL, beside what they are made of."""

from __future__ import annotations

import cbor2
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit

from zenspark.clock import ntp64_from_ns
from zenspark.key.match import includes, intersects
from zenspark.spark.functions import FUNCTIONS, register, zenoh_decode_payload, zenoh_key_match

pytestmark = pytest.mark.spark

KEYS = ["a/b", "a/b/c", "a/@x/c", "b", "a/bc", None]
EXPRESSIONS = ["a/**", "a/*", "a/b$*", "**/c", "@x", "a/@x/*", "b", None]


def test_register_registers_all_functions(spark: SparkSession) -> None:
    register(spark)
    for function in FUNCTIONS:
        assert spark.catalog.functionExists(function.func.__name__)


def test_sql_functions_equal_key_expression_relations(spark: SparkSession) -> None:
    register(spark)
    keys = spark.createDataFrame([(key,) for key in KEYS], "key string")
    expressions = spark.createDataFrame([(text,) for text in EXPRESSIONS], "keyexpr string")
    rows = keys.crossJoin(expressions).selectExpr(
        "key",
        "keyexpr",
        "zenoh_intersects(key, keyexpr) i",
        "zenoh_includes(keyexpr, key) c",
        "zenoh_key_match(key, keyexpr) m",
    )
    found = {(row["key"], row["keyexpr"]): (row["i"], row["c"], row["m"]) for row in rows.collect()}
    assert len(found) == len(KEYS) * len(EXPRESSIONS)
    for (key, text), results in found.items():
        if key is None or text is None:
            assert results == (None, None, None)
        else:
            assert results == (intersects(key, text), includes(text, key), includes(text, key))


def test_functions_accept_dataframe_columns(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("a/b", "text/plain", bytearray(b"x"))], "key string, encoding string, payload binary"
    )
    found = rows.select(
        zenoh_key_match("key", lit("a//b".replace("//", "/"))), zenoh_decode_payload(col("encoding"), col("payload"))
    )
    assert tuple(found.first() or ()) == (True, "x")


def test_payloads_become_texts(spark: SparkSession) -> None:
    register(spark)
    rows = [
        ("text/plain", b"h\xc3\xa9"),
        ("application/json", b'{"a": 1}'),
        ("application/cbor", cbor2.dumps({"a": [1, b"\x00"]})),
        ("zenoh/serialized;int32", (-5).to_bytes(4, "little", signed=True)),
        ("zenoh/serialized;float64", b"\x00\x00\x00\x00\x00\x00\xf8\x3f"),
        ("zenoh/serialized", b"\x00"),
        ("image/png", b"\x89PNG"),
        ("zenoh/bytes", b"21.5"),
        ("zenoh/bytes", b"\x00\x01"),
        ("text/plain", b"\xff"),
        (None, b"x"),
        ("text/plain", None),
    ]
    table = spark.createDataFrame([(n, e, p) for n, (e, p) in enumerate(rows)], "n int, e string, p binary")
    found = table.selectExpr("n", "zenoh_decode_payload(e, p) text").orderBy("n").collect()
    assert [row["text"] for row in found] == [
        "hé",
        '{"a": 1}',
        '{"a":[1,"AA"]}',
        "-5",
        "1.5",
        None,
        None,
        "21.5",
        None,
        None,
        None,
        None,
    ]


def test_ntp64_becomes_a_timestamp(spark: SparkSession) -> None:
    register(spark)
    reading = ntp64_from_ns(1_700_000_000_123_456_789)
    (row,) = spark.sql(f"select cast(zenoh_ntp64_to_timestamp({reading}L) as string) t").collect()
    assert row["t"] == "2023-11-14 22:13:20.123457"


def test_a_key_expression_that_does_not_parse_is_named(spark: SparkSession) -> None:
    register(spark)
    with pytest.raises(PySparkException, match="key expression 'a//b', position 2: expected a chunk that is not empty"):
        spark.sql("select zenoh_key_match('a', 'a//b')").collect()


def test_try_functions_give_null_for_an_invalid_key(spark: SparkSession) -> None:
    register(spark)
    keys = spark.createDataFrame([("a/b",), ("a//b",), ("c",)], "key string")
    found = keys.selectExpr(
        "try_zenoh_key_match(key, 'a/*') m", "try_zenoh_intersects(key, '**') i", "try_zenoh_includes('a/**', key) c"
    )
    assert [tuple(row) for row in found.collect()] == [(True, True, True), (None, None, None), (False, True, False)]


def test_untyped_literals_and_nulls_are_accepted(spark: SparkSession) -> None:
    register(spark)
    (row,) = spark.sql(
        """
        select zenoh_key_match(null, 'a') m, zenoh_intersects('a', null) i, zenoh_includes(null, null) c,
               zenoh_decode_payload(null, x'00') e, zenoh_decode_payload('text/plain', null) p,
               zenoh_ntp64_to_timestamp(null) t, cast(zenoh_ntp64_to_timestamp(0) as long) zero,
               cast(zenoh_ntp64_to_timestamp(17179869184000000000) as long) late
        """
    ).collect()
    assert tuple(row) == (None, None, None, None, None, None, 0, 4_000_000_000)


def test_cbor_nan_and_infinity_are_parsed_from_json(spark: SparkSession) -> None:
    register(spark)
    payload = cbor2.dumps({"x": float("nan"), "y": float("-inf")}).hex()
    (row,) = spark.sql(
        f"""
        select from_json(text, 'x double, y double') numbers, parse_json(text) is not null parsed
        from (select zenoh_decode_payload('application/cbor', x'{payload}') text)
        """
    ).collect()
    assert str(row["numbers"]["x"]) == "nan"
    assert row["numbers"]["y"] == float("-inf")
    assert row["parsed"]
