"""Definition of `gaps` for Spark; tests/spark tests the table."""

from zenspark.lake.derived.resolve import AGGREGATIONS
from zenspark.spark.ingest.gaps import Gaps


def test_spark_and_arrow_have_the_same_definition() -> None:
    assert isinstance(Gaps(), type(AGGREGATIONS["gaps"]))
