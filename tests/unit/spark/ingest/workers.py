"""What tasks of Spark do, done here: refreshes, merges and publications without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast
from unittest.mock import patch

from pyspark.sql import SparkSession

from zenspark.spark.ingest import derived, publication

Work = TypeVar("Work")
Result = TypeVar("Result")

NO_SPARK = cast(SparkSession, None)


def on_workers(spark: SparkSession, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
    return [function(each) for each in work]


@contextmanager
def no_spark() -> Iterator[SparkSession]:
    """Lets this process do the work of tasks; what is given in the place of a session must not be used."""
    with patch.object(derived, "on_workers", on_workers), patch.object(publication, "on_workers", on_workers):
        yield NO_SPARK
