"""Compaction, retention and vacuum: rows stay, files become few, and derived tables keep what they made of others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from tests.lake_tables import published, put_in, traffic_of
from tests.spark.lakes import everything, expected, numbered, plain, rows_from
from zenspark.spark.ingest import maintenance
from zenspark.spark.lake import Lake, Retention

pytestmark = pytest.mark.spark

MINUTE = 60_000_000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def test_traffic_counts_per_prefix_and_minute_and_adds_up_over_refreshes(spark: SparkSession, lake: Lake) -> None:
    def row(key: str, at: int, latency: int | None, size: int) -> dict[str, object]:
        timestamp = None if latency is None else at - latency
        return {"key": key, "kind": "PUT", "received_at": at, "timestamp": timestamp, "payload": b"x" * size}

    rows = numbered(
        [
            row("a/1", 5, 1, 10),
            row("a/2", MINUTE - 1, 3, 20),
            row("b", 7, None, 1),
            row("a/1", MINUTE, -4, 0),
            row("a/1", 6, 8, 30) | {"kind": "DELETE", "payload": None},
        ]
    )
    put_in(lake, rows[:3])
    lake.refresh(spark)
    put_in(lake, rows[3:])

    def counted() -> set[tuple[object, ...]]:
        names = ("prefix", "minute", "messages", "bytes", "latency_min_us", "latency_avg_us", "latency_max_us")
        return {tuple(row[name] for name in names) for row in plain(lake.read(spark, "traffic"))}

    first, second = datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 1)
    whole = {("a", first, 3, 30, 1, 4.0, 8), ("b", first, 1, 1, None, None, None), ("a", second, 1, 0, -4, -4.0, -4)}
    assert counted() == whole
    lake.refresh(spark)
    assert counted() == whole
    lake.publish(spark)
    found = traffic_of(published(lake, "traffic"))
    assert {name: tuple(each) for name, each in found.items()} == {
        ("a", 0): (3, 30, 1, 4.0, 8),
        ("b", 0): (1, 1, None, None, None),
        ("a", MINUTE): (1, 0, -4, -4.0, -4),
    }


def test_small_files_are_compacted_and_later_vacuumed(spark: SparkSession, lake: Lake) -> None:
    for start in range(0, 40, 10):
        put_in(lake, rows_from(start, start + 10))
    lake.refresh(spark)
    put_in(lake, rows_from(40, 50))
    read_before = lake.read(spark, "samples")
    before = lake.table("samples").files
    with patch.object(maintenance, "MIN_FILES_TO_COMPACT", 2):
        saved = lake.compact(spark)
    table = lake.table("samples")
    assert saved > 0
    assert len(table.files) == len(before) - saved
    put_in(lake, rows_from(50, 60))
    lake.refresh(spark)
    lake.publish(spark)
    assert sum(each.messages for each in traffic_of(published(lake, "traffic")).values()) == 60
    assert everything(lake) == expected(rows_from(0, 60))
    assert lake.ingested() == {"robot": 60}
    assert lake.vacuum(timedelta(hours=1)) == 0
    assert read_before.count() == 50
    assert lake.vacuum(timedelta(0)) > 0
    assert everything(lake) == expected(rows_from(0, 60))
    on_disk = {found.path for found in table.location.files(suffix=".parquet") if found.path.startswith("day=")}
    assert on_disk == {file.path for file in lake.table("samples").files}


def test_old_days_expire_only_after_refresh(spark: SparkSession, lake: Lake) -> None:
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    days = [now - age * 24 * 60 * MINUTE for age in (10, 5, 0)]
    rows = numbered([{"received_at": at, "key": f"k/{at}", "kind": "PUT", "payload": b"1"} for at in days])
    put_in(lake, rows)
    assert lake.expire(Retention(age=timedelta(days=7)), spark) == 0
    lake.refresh(spark)
    assert lake.expire(Retention(age=timedelta(days=7)), spark) == 1
    assert everything(lake) == expected(rows[1:])
    assert lake.read(spark, "latest").count() == 3
    most = max(file.size for file in lake.table("samples").files)
    assert lake.expire(Retention(max_bytes=most), spark) == 1
    assert everything(lake) == expected(rows[2:])
    assert lake.ingested() == {"robot": 3}
    lake.publish(spark)
    assert published(lake, "latest").num_rows == 3
    lake.rebuild(spark, "latest")
    assert published(lake, "latest").num_rows == 1
