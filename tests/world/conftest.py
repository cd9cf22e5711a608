"""One Spark for the tests of this folder that need one in their own process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from zenspark.spark.engine import DRIVER_JAVA_OPTIONS, spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores."""
    config = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = spark_session("local[2]", config=config, java_options=DRIVER_JAVA_OPTIONS)
    yield session
    session.stop()
