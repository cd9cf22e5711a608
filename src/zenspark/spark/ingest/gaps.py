"""`gaps` with Spark: missing and repeated sequence numbers; `zenspark.lake.derived.gaps` defines them."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zenspark.lake.derived.gaps import GAP_KEY_COLUMNS, MISSING, REPEATED, GapsAggregation, update_sources
from zenspark.lake.specs import GAPS, GAPS_STATE
from zenspark.spark.ingest.read_files import spark_schema
from zenspark.types.ids import SOURCE_SN_MODULUS

MAX_SOURCE_BUCKETS = 16
"""Maximum number of tasks that sources are distributed over; one task holds the numbers of its sources in memory."""


class Gaps(GapsAggregation):
    """Defines the derived table `gaps`."""

    def combine(self, partials: DataFrame, state: DataFrame) -> DataFrame:
        bucket = F.pmod(F.hash("source_zid", "source_eid"), F.lit(MAX_SOURCE_BUCKETS)).alias("bucket")
        grouped = partials.groupBy(bucket).cogroup(state.groupBy(bucket))
        return grouped.applyInArrow(update_sources, spark_schema(GAPS_STATE.schema))

    def to_public_dataframe(self, stored: DataFrame, parts: Collection[str]) -> DataFrame:
        public = stored.where(F.col("kind").isin(MISSING, REPEATED)).groupBy(*GAP_KEY_COLUMNS)
        wraps = F.col("source_eid").isNotNull()
        wire = {
            name: F.when(wraps, F.pmod(name, F.lit(SOURCE_SN_MODULUS))).otherwise(F.col(name))
            for name in ("first_sn", "last_sn")
        }
        sums = public.agg(F.sum("count").alias("count"), F.min("noticed_at").alias("noticed_at"))
        return sums.withColumns(wire).select(GAPS.schema.names)
