"""The examples in docstrings of the data pipeline that need Spark; those that do not are run by the unit tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.unit.pipeline_api import GIVEN, Things, run_example
from tests.unit.test_init_pipeline import EXAMPLES, RUN_WITH_SPARK, needs
from zenspark.spark.ingest.ingest_query import IngestQuery
from zenspark.spark.lake import Lake

pytestmark = pytest.mark.spark

STARTS = "IngestQuery.start"
"""The example that starts the query itself."""


class SparkThings(Things):
    """What examples use that need Spark."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self.spark = spark

    @cached_property
    def samples(self) -> DataFrame:
        return self.lake.read(self.spark, "samples")

    @cached_property
    def rules(self) -> DataFrame:
        return self.spark.createDataFrame([("fleet/*/pose",)], "keyexpr string")

    @cached_property
    def query(self) -> IngestQuery:
        query = IngestQuery(self.spark, [self.journal.path], Lake("ingested"))
        self._open.callback(query.abandon)
        return query


@pytest.fixture
def things(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkThings]:
    monkeypatch.chdir(tmp_path)
    made = SparkThings(spark)
    yield made
    made.close()


@pytest.mark.parametrize("name", RUN_WITH_SPARK)
def test_docstring_example_prints_its_output(name: str, things: SparkThings) -> None:
    things.lake, things.journal  # noqa: B018 - made, as some examples open them by path
    if "query" in needs(name) and not name.endswith(STARTS):
        things.query.start()
    names = GIVEN | {each: getattr(things, each) for each in needs(name)}
    assert run_example(name, EXAMPLES[name], names) == ""
