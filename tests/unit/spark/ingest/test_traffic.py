"""Definition of `traffic` for Spark; tests/spark tests the table."""

from zenspark.lake.derived.resolve import AGGREGATIONS
from zenspark.spark.ingest.traffic import Traffic


def test_spark_and_arrow_have_the_same_definition() -> None:
    assert isinstance(Traffic(), type(AGGREGATIONS["traffic"]))
