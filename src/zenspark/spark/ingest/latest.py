"""`latest` with Spark: the newest sample of every key; `zenspark.lake.derived.latest` defines which one that is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from zenspark.lake.derived.latest import TIMESTAMP_ID_DIGITS, LatestAggregation, apply_wildcards
from zenspark.lake.levels import WILDCARD_PARTS
from zenspark.lake.specs import JOURNAL_SCHEMA
from zenspark.spark.ingest.read_files import spark_schema

SIGN_BIT = -(2**63)
_ORDER = ("_timestamp", "_id", "offset", "recorder")


class Latest(LatestAggregation):
    """Defines the derived table `latest`."""

    def combine(self, partials: DataFrame, state: DataFrame) -> DataFrame:
        return partials

    def to_public_dataframe(self, stored: DataFrame, parts: Collection[str]) -> DataFrame:
        exact = select_newest(stored.where(~in_wildcard_part())).where(F.col("kind") == "PUT")
        if not set(parts) & set(WILDCARD_PARTS):
            return exact
        wildcard_rows = select_newest(stored.where(in_wildcard_part())).toArrow().cast(JOURNAL_SCHEMA)
        return (
            exact.mapInArrow(partial(_apply_to_batches, wildcard_rows), spark_schema(JOURNAL_SCHEMA))
            if wildcard_rows.num_rows
            else exact
        )


def _apply_to_batches(wildcard_rows: pa.Table, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Apply rows with wildcards to the batches of a Spark task."""
    for batch in batches:
        yield from apply_wildcards(pa.Table.from_batches([batch]).cast(JOURNAL_SCHEMA), wildcard_rows).to_batches()


def has_wildcards(key: str) -> Column:
    """Whether a key has wildcards."""
    return F.col(key).contains("*")


def in_wildcard_part() -> Column:
    """Whether a row of the state is in a partition with rows whose keys have wildcards."""
    return F.col("part").isin(*WILDCARD_PARTS)


def timestamp_column(ntp64: str, received_at: str) -> Column:
    """Return the NTP64 timestamp of a row, or its reception time, as a signed number with the order of its clock."""
    micros = F.unix_micros(received_at)
    seconds, rest = F.floor(micros / F.lit(1_000_000)), micros % F.lit(1_000_000)
    received = F.shiftleft(seconds, 32) + F.floor(rest * F.lit(2**32 / 1_000_000))
    # NTP64 is unsigned: flipping the sign bit makes the signed order equal to the unsigned order
    return F.coalesce(F.col(ntp64), received).bitwiseXOR(F.lit(SIGN_BIT))


def with_order_columns(rows: DataFrame) -> DataFrame:
    """Add the columns that rows are ordered by."""
    clock = F.lpad(
        F.coalesce("timestamp_id", F.lit("")), TIMESTAMP_ID_DIGITS, "0"
    )  # hexadecimal, without leading zeros
    return rows.withColumns({"_timestamp": timestamp_column("timestamp_ntp64", "received_at"), "_id": clock})


def select_newest(rows: DataFrame) -> DataFrame:
    """Select the newest row per key; of keys with wildcards, the newest PUT and the newest DELETE.

    Aggregates by timestamp first, which Spark does without sorting. Only the remaining rows, one per key except for
    equal timestamps, are sorted.
    """
    group = F.when(has_wildcards("key"), F.col("kind")).otherwise(F.lit(""))
    ordered = with_order_columns(rows).withColumn("_group", group)
    best = ordered.groupBy("key", "_group").agg(F.max("_timestamp").alias("_timestamp"))
    candidates = ordered.join(best, ["key", "_group", "_timestamp"], "left_semi")
    order = Window.partitionBy("key", "_group").orderBy(*(F.col(name).desc() for name in _ORDER[1:]))
    return candidates.withColumn("_rank", F.row_number().over(order)).where("_rank = 1").select(JOURNAL_SCHEMA.names)
