"""A lake on S3 against one on a disk: the same tables from the same journal, whatever is done with them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import zenspark
from tests.interop.reference import eventually, ours, unused
from tests.rows import sample
from tests.s3 import S3, serving
from tests.spark.test_up import PATIENCE, up
from zenspark.arrow import SCHEMA
from zenspark.journal import JournalWriter
from zenspark.journal.layout import SCHEMAS, SESSIONS
from zenspark.spark.lake import Lake, derived, maintenance
from zenspark.spark.lake.landing import Landing
from zenspark.spark.storage import Storage

pytestmark = pytest.mark.spark

KEYS = ["fleet/r1/pose", "a b%20/ü:=/[x]", "a b%20/z", "*/r1/*", "fleet/*/pose", "😀/1"]
SESSION = {"time": 1, "event": "OPENED", "zid": "a1", "whatami": "peer", "source": "tcp/a", "destination": "tcp/b"}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with serving() as server:
        yield server


@pytest.fixture
def on_s3(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake as a user has it who says by environment variables where it is."""
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    return Lake(f"s3://{s3.bucket()}/my lake")


@pytest.fixture
def on_disk(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def made(number: int) -> dict[str, object]:
    """Rows with odd keys, of two days, some of which are DELETEs and some of which are missing."""
    key = {"key": KEYS[number % len(KEYS)], "source_sn": number + number // 7}
    return sample(number) | key | {"received_at": 86_400_000_000 * (20_000 + number % 2) + number}


def record(journal: Path, start: int, end: int) -> None:
    with JournalWriter(journal, recorder="robot") as writer:
        writer.append(pa.RecordBatch.from_pylist([made(number) for number in range(start, end)], schema=SCHEMA))
    with JournalWriter(journal / SESSIONS, recorder="robot", rows=SESSIONS) as writer:
        writer.append(pa.RecordBatch.from_pylist([SESSION], schema=SCHEMAS[SESSIONS]))


def land(spark: SparkSession, lake: Lake, journal: Path) -> None:
    landing = Landing(spark, [journal], lake, trigger=None, options={"maxOffsetsPerTrigger": "60"})
    landing.start()
    assert landing.wait(PATIENCE)
    landing.stop()


def content(spark: SparkSession, lake: Lake) -> dict[str, list[str]]:
    """All rows of all tables, as Spark reads them."""
    return {name: sorted(str(row) for row in lake.read(spark, name).collect()) for name in lake.tables()}


def stored(lake: Lake) -> tuple[Any, ...]:
    """What is read without Spark."""
    samples, latest = lake.snapshot("samples"), lake.snapshot("latest")
    rows = samples.dataset.to_table().sort_by("offset").to_pylist()
    newest, offsets = lake.newest()
    decisive = sorted((row["key"], row["offset"]) for batch in newest for row in batch.to_pylist())
    return rows, samples.offsets, latest.offsets, set(decisive), offsets, lake.landed()


def test_it_has_the_tables_that_one_on_a_disk_has(
    spark: SparkSession, on_s3: Lake, on_disk: Lake, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    for start in (0, 100):  # each time it goes on where it ended
        record(journal, start, start + 100)
        for lake in (on_s3, on_disk):
            land(spark, lake, journal)
    wanted = content(spark, on_disk)
    assert {name: len(rows) for name, rows in wanted.items()}["samples"] == 200
    assert all(wanted[name] for name in on_disk.tables() if name != "declarations")
    assert content(spark, on_s3) == wanted
    assert stored(on_s3) == stored(on_disk)
