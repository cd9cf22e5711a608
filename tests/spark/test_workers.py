"""Python workers of Spark: what they import."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_workers_import_the_installed_pyspark(spark: SparkSession) -> None:
    """Not the archive that Spark brings, which has no bytecode."""
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: pyspark.__file__).collect()
    assert found == [pyspark.__file__]
