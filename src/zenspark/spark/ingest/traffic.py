"""`traffic` with Spark: samples, bytes and latency per prefix and minute; see `zenspark.lake.derived.traffic`."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zenspark.lake.derived.traffic import SECONDS_PER_MINUTE, SUMS, TrafficAggregation


class Traffic(TrafficAggregation):
    """Defines the derived table `traffic`."""

    def combine(self, partials: DataFrame, state: DataFrame) -> DataFrame:
        return partials

    def to_public_dataframe(self, stored: DataFrame, parts: Collection[str]) -> DataFrame:
        sums = [getattr(F, how)(name).alias(name) for name, how in SUMS.items()]
        return (
            stored.groupBy("prefix", "minute")
            .agg(*sums)
            .select(
                "prefix",
                "minute",
                "messages",
                "bytes",
                (F.col("messages") / SECONDS_PER_MINUTE).alias("messages_per_second"),
                (F.col("bytes") / SECONDS_PER_MINUTE).alias("bytes_per_second"),
                F.col("latency_min").alias("latency_min_us"),
                (F.col("latency_sum") / F.when(F.col("stamped") > 0, F.col("stamped"))).alias("latency_avg_us"),
                F.col("latency_max").alias("latency_max_us"),
            )
        )
