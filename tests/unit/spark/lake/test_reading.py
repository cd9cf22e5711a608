"""Columns for Spark."""

from zenspark.spark.lake.reading import spark_columns, spark_schema
from zenspark.spark.lake.shapes import JOURNAL, SAMPLES


def test_columns_have_the_types_that_spark_gives_them() -> None:
    types = dict(spark_columns(SAMPLES.schema))
    assert list(types) == SAMPLES.schema.names
    assert {types[name] for name in ("offset", "timestamp_ntp64", "source_sn")} == {"bigint"}
    assert (types["received_at"], types["payload"], types["day"]) == ("timestamp", "binary", "date")
    assert all(field.nullable for field in spark_schema(JOURNAL))
