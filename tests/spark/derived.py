"""Derived tables as Spark reads them, up to the moment, to compare with a model."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.lake_model import Row
from tests.lake_tables import PUBLIC, assert_equal
from zenspark.spark.lake import Lake


def read(lake: Lake, spark: SparkSession, name: str) -> pa.Table:
    """A derived table up to the moment."""
    found = lake.read(spark, name)
    assert found.columns == PUBLIC[name].names
    return found.toArrow().cast(PUBLIC[name])


def assert_read(lake: Lake, spark: SparkSession, rows: Sequence[Row]) -> None:
    """What is read through zenspark has everything."""
    assert_equal({name: read(lake, spark, name) for name in PUBLIC}, rows)
