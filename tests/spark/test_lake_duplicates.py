"""Two recorders of the same keys: each sample is ingested once, by one query or by two, whichever recorder fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.rows import numbers, sample
from zenspark.arrow import SCHEMA
from zenspark.journal import JournalWriter
from zenspark.spark.ingest.ingest_query import IngestQuery
from zenspark.spark.lake import Lake

pytestmark = pytest.mark.spark

SAMPLES = [sample(number) for number in range(300)]


def record(path: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    with JournalWriter(path / name, recorder=name) as writer:
        for start in range(0, len(rows), 50):
            writer.append(pa.RecordBatch.from_pylist(rows[start : start + 50], schema=SCHEMA))
            writer.flush()
    return path / name


def ingest(spark: SparkSession, lake: Lake, *journals: Path) -> None:
    ingestion = IngestQuery(spark, journals, lake, trigger=None, deduplicate=True)
    ingestion.start()
    assert ingestion.wait(120)
    assert ingestion.stop()


def published(lake: Lake) -> list[int]:
    return numbers(lake.dataset("samples").to_table(columns=["source_sn"]).to_pylist())


def test_samples_of_two_recorders_are_stored_once(spark: SparkSession, tmp_path: Path) -> None:
    one = record(tmp_path, "one", SAMPLES[:200])  # the first is lost in between, the second comes late
    two = record(tmp_path, "two", SAMPLES[100:])
    together = Lake(tmp_path / "together")
    ingest(spark, together, one, two)
    assert published(together) == list(range(300))
    assert together.ingested() == {"one": 200, "two": 200}
    apart = Lake(tmp_path / "apart")
    ingest(spark, apart, two)
    ingest(spark, apart, one)
    assert published(apart) == list(range(300))
