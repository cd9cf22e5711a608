"""Batches of given rows ingested into a lake, and what is in its tables as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.rows import sample
from zenspark.arrow import SCHEMA
from zenspark.journal import Journal, JournalWriter, Slice
from zenspark.lake.specs import JOURNAL_SCHEMA
from zenspark.spark.ingest.commit_samples import BatchResult, SamplesWriter
from zenspark.spark.lake import Lake
from zenspark.spark.source.stream import SLICES

Row = dict[str, Any]


def rows_from(start: int, end: int, recorder: str = "robot") -> list[Row]:
    """Rows of a journal, from one offset up to before another."""
    return [sample(number) | {"recorder": recorder, "offset": number} for number in range(start, end)]


def numbered(rows: Sequence[Row], start: int = 0, recorder: str = "robot") -> list[Row]:
    """Rows of a journal, each made of the sample of its offset and what is given for it."""
    return [sample(offset) | {"recorder": recorder, "offset": offset} | row for offset, row in enumerate(rows, start)]


def batch(spark: SparkSession, lake: Lake, rows: Sequence[Row]) -> DataFrame:
    """The rows in journals beside the lake, and the parts of these journals as a stream gives them."""
    found = [part for name in sorted({row["recorder"] for row in rows}) for part in _recorded(lake, name, rows)]
    table = pa.Table.from_pylist([msgspec.structs.asdict(part) for part in found], schema=SLICES)
    return spark.createDataFrame(table)


def _recorded(lake: Lake, recorder: str, rows: Sequence[Row]) -> list[Slice]:
    """The rows of one recorder, in its journal, where they stand already or follow what stands there."""
    own = pa.Table.from_pylist([row for row in rows if row["recorder"] == recorder], schema=JOURNAL_SCHEMA)
    first, last = own["offset"][0].as_py(), own["offset"][-1].as_py()
    path = f"{lake.location.address}-journals/{recorder}"
    with JournalWriter(path, recorder=recorder) as writer:
        for new in own.select(SCHEMA.names)[max(writer.end - first, 0) :].to_batches():
            writer.append(new)
    return Journal(path).slices(first, last + 1, 2)


class Ingester:
    """Ingests one batch after the other."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.spark = spark
        self.lake = lake
        self.samples = SamplesWriter(lake.location, lake.table("samples"))
        self._next = 0

    def ingest(self, rows: Sequence[Row]) -> BatchResult:
        self._next += 1
        return self.samples.commit_batch(batch(self.spark, self.lake, rows), self._next - 1)


def plain(rows: DataFrame) -> list[Row]:
    """The rows as dictionaries."""
    return [row.asDict() for row in rows.collect()]


def everything(lake: Lake) -> list[Row]:
    """The rows of `samples` in the order of their offsets, without Spark."""
    found = (
        lake.dataset("samples")
        .to_table(columns=JOURNAL_SCHEMA.names)
        .sort_by([("recorder", "ascending"), ("offset", "ascending")])
    )
    return found.cast(JOURNAL_SCHEMA).to_pylist()  # type: ignore[no-any-return]


def expected(rows: Sequence[Row]) -> list[Row]:
    """The same for rows that were made."""
    return pa.Table.from_pylist(list(rows), schema=JOURNAL_SCHEMA).to_pylist()  # type: ignore[no-any-return]
