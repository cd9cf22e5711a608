"""SQL functions on keys, payloads and timestamps, as Arrow UDFs; `register` registers them all.

    from zenspark.spark.functions import register
    register(spark)
    spark.sql("select key from samples where zenoh_key_match(key, 'fleet/*/pose')")

They can be used as columns in Python: `df.where(zenoh_key_match("key", lit("fleet/*/pose")))`. `zenspark.sql.functions`
defines what they return.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # missing in the type stubs
from pyspark.sql.types import BooleanType, StringType, TimestampType

from zenspark.sql import functions

zenoh_intersects = arrow_udf(functions.zenoh_intersects, BooleanType())
zenoh_includes = arrow_udf(functions.zenoh_includes, BooleanType())
zenoh_key_match = arrow_udf(functions.zenoh_key_match, BooleanType())
try_zenoh_intersects = arrow_udf(functions.try_zenoh_intersects, BooleanType())
try_zenoh_includes = arrow_udf(functions.try_zenoh_includes, BooleanType())
try_zenoh_key_match = arrow_udf(functions.try_zenoh_key_match, BooleanType())
zenoh_decode_payload = arrow_udf(functions.zenoh_decode_payload, StringType())
zenoh_ntp64_to_timestamp = arrow_udf(functions.zenoh_ntp64_to_timestamp, TimestampType())

FUNCTIONS = (
    zenoh_intersects,
    zenoh_includes,
    zenoh_key_match,
    try_zenoh_intersects,
    try_zenoh_includes,
    try_zenoh_key_match,
    zenoh_decode_payload,
    zenoh_ntp64_to_timestamp,
)


def register(spark: SparkSession) -> None:
    """Register all functions for SQL in this session.

    Args:
        spark: The Spark session.

    Example:
        >>> register(spark)
        >>> rows = spark.sql("select zenoh_key_match('fleet/r1/pose', 'fleet/*/pose')").collect()
    """
    for function in FUNCTIONS:
        spark.udf.register(function.func.__name__, function)
