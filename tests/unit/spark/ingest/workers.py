"""What tasks of Spark do, done here: refreshes, merges and writes of public tables, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast
from unittest.mock import patch

from pyspark.sql import SparkSession

from zenspark.spark.ingest import derived, public_table

Work = TypeVar("Work")
Result = TypeVar("Result")

NO_SPARK = cast(SparkSession, None)


def run_on_executors(spark: SparkSession, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
    return [function(each) for each in work]


@contextmanager
def no_spark() -> Iterator[SparkSession]:
    """Run tasks in this process; the returned session must not be used."""
    with (
        patch.object(derived, "run_on_executors", run_on_executors),
        patch.object(public_table, "run_on_executors", run_on_executors),
    ):
        yield NO_SPARK
