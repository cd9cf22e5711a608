"""`traffic`: per prefix and minute of reception, how much came and how long it was under way.

Latency is `received_at` less `timestamp`, in microseconds, of the samples that have a stamp; it is negative where the
publisher's clock runs ahead. Each fold stores sums; a reader sees them added up.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from zenspark.spark.lake.derived import MERGED, NEW
from zenspark.spark.lake.shapes import TRAFFIC

MICROSECONDS_PER_MINUTE = 60_000_000


class Traffic:
    """Makes `traffic` out of samples."""

    shape = TRAFFIC
    needs = "key"

    def step(self, rows: DataFrame, state: DataFrame) -> DataFrame:
        latency = F.unix_micros("received_at") - F.unix_micros("timestamp")
        counted = rows.select(
            "prefix",
            minute_of("received_at").alias("minute"),
            F.lit(1).cast("long").alias("messages"),
            F.coalesce(F.octet_length("payload"), F.lit(0)).cast("long").alias("bytes"),
            F.col("timestamp").isNotNull().cast("long").alias("stamped"),
            latency.cast("double").alias("latency_sum"),  # what was stamped years ago does not overflow it
            latency.alias("latency_min"),
            latency.alias("latency_max"),
        )
        return summed(counted).withColumn("part", F.lit(NEW))

    def merge(self, stored: DataFrame) -> DataFrame:
        return summed(stored).withColumn("part", F.lit(MERGED))

    def view(self, stored: DataFrame) -> DataFrame:
        return summed(stored).select(
            "prefix",
            "minute",
            "messages",
            "bytes",
            (F.col("messages") / 60).alias("messages_per_second"),
            (F.col("bytes") / 60).alias("bytes_per_second"),
            F.col("latency_min").alias("latency_min_us"),
            (F.col("latency_sum") / F.when(F.col("stamped") > 0, F.col("stamped"))).alias("latency_avg_us"),
            F.col("latency_max").alias("latency_max_us"),
        )


def minute_of(time: str) -> Column:
    """The start of the minute a time is in."""
    minutes = F.floor(F.unix_micros(time) / F.lit(MICROSECONDS_PER_MINUTE))
    return F.timestamp_micros(minutes * F.lit(MICROSECONDS_PER_MINUTE))


def summed(rows: DataFrame) -> DataFrame:
    """One row per prefix and minute."""
    sums = [F.sum(name).alias(name) for name in ("messages", "bytes", "stamped", "latency_sum")]
    limits = [F.min("latency_min").alias("latency_min"), F.max("latency_max").alias("latency_max")]
    return rows.groupBy("prefix", "minute").agg(*sums, *limits)
