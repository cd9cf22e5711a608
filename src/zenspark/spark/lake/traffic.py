"""`traffic`: per prefix and minute of reception, how much came and how long it was under way.

Latency is `received_at` less `timestamp`, in microseconds, of the samples that have a stamp; it is negative where the
publisher's clock runs ahead. Each fold stores sums; a reader sees them added up.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zenspark.spark.lake.derived import MERGED, NEW
from zenspark.spark.lake.partitions import prefixes_of
from zenspark.spark.lake.shapes import TRAFFIC

MICROSECONDS_PER_MINUTE = 60_000_000


class Traffic:
    """Makes `traffic` out of samples."""

    shape = TRAFFIC
    needs = "key"
    columns: tuple[str, ...] = ("key", "payload", "timestamp", "received_at")
    digested = TRAFFIC.schema
    has_state = False

    def digest(self, rows: pa.Table) -> pa.Table:
        """Sums of some rows."""
        keys = rows["key"].chunk(0)
        prefixes = prefixes_of(keys.dictionary).dictionary_encode()
        received = rows["received_at"].chunk(0).cast(pa.int64())
        latency = pc.subtract(received, rows["timestamp"].chunk(0).cast(pa.int64()))
        minutes = received.to_numpy() // MICROSECONDS_PER_MINUTE * MICROSECONDS_PER_MINUTE
        counted = pa.table(
            {
                "prefix": prefixes.indices.take(keys.indices),
                "minute": pa.array(minutes),
                "bytes": pc.fill_null(pc.binary_length(rows["payload"].chunk(0)), 0).cast(pa.int64()),
                "latency": latency,
                "sum": latency.cast(pa.float64()),  # what was stamped years ago does not overflow it
            }
        )
        wanted = [
            ("bytes", "count"),
            ("bytes", "sum"),
            ("latency", "count"),
            ("sum", "sum"),
            ("latency", "min"),
            ("latency", "max"),
        ]
        found = counted.group_by(["prefix", "minute"]).aggregate(wanted)
        sums = [found[f"{name}_{what}"] for name, what in wanted]
        columns = [
            prefixes.dictionary.take(found["prefix"]),
            found["minute"],
            *sums,
            pa.repeat(NEW, found.num_rows),
        ]
        return pa.table(columns, names=TRAFFIC.schema.names).cast(TRAFFIC.schema)

    def step(self, digests: DataFrame, state: DataFrame) -> DataFrame:
        return digests

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


def summed(rows: DataFrame) -> DataFrame:
    """One row per prefix and minute."""
    sums = [F.sum(name).alias(name) for name in ("messages", "bytes", "stamped", "latency_sum")]
    limits = [F.min("latency_min").alias("latency_min"), F.max("latency_max").alias("latency_max")]
    return rows.groupBy("prefix", "minute").agg(*sums, *limits)
