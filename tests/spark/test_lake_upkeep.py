"""`traffic`, compaction, retention and sweeping: rows stay, files become few."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from tests.spark.lakes import Lander, everything, expected, numbered, plain, rows_from
from zenspark.spark.lake import Lake, derived, maintenance
from zenspark.spark.lake.folder import Folder

pytestmark = pytest.mark.spark

MINUTE = 60_000_000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def test_traffic_counts_per_prefix_and_minute_and_adds_up_over_folds(spark: SparkSession, lake: Lake) -> None:
    def row(key: str, at: int, latency: int | None, size: int) -> dict[str, object]:
        stamp = None if latency is None else at - latency
        return {"key": key, "kind": "PUT", "received_at": at, "timestamp": stamp, "payload": b"x" * size}

    rows = numbered(
        [
            row("a/1", 5, 1, 10),
            row("a/2", MINUTE - 1, 3, 20),
            row("b", 7, None, 1),
            row("a/1", MINUTE, -4, 0),
            row("a/1", 6, 8, 30) | {"kind": "DELETE", "payload": None},
        ]
    )
    lander = Lander(spark, lake)
    lander.land(rows[:3])
    lake.derived("traffic").fold(spark)
    lander.land(rows[3:])

    def counted() -> set[tuple[object, ...]]:
        names = ("prefix", "minute", "messages", "bytes", "latency_min_us", "latency_avg_us", "latency_max_us")
        return {tuple(row[name] for name in names) for row in plain(lake.read(spark, "traffic"))}

    first, second = datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 1)
    whole = {("a", first, 3, 30, 1, 4.0, 8), ("b", first, 1, 1, None, None, None), ("a", second, 1, 0, -4, -4.0, -4)}
    assert counted() == whole
    lake.derived("traffic").fold(spark)
    assert counted() == whole
    with patch.object(derived, "FEW_FILES", 1):
        assert lake.derived("traffic").merge(spark)
    assert counted() == whole
    assert len(lake.table("traffic").files) == 1


def test_small_files_become_one_and_leave_the_disk_after_a_grace(spark: SparkSession, lake: Lake) -> None:
    lander = Lander(spark, lake)
    for start in range(0, 40, 10):
        lander.land(rows_from(start, start + 10))
    assert lake.compact(spark) == 0  # nothing is taken in yet
    lake.fold(spark)
    lander.land(rows_from(40, 50))
    before = lake.table("samples").files
    read_before = lake.read(spark, "samples")
    saved = lake.compact(spark)
    table = lake.table("samples")
    assert saved > 0
    assert len(table.files) == len(before) - saved
    assert everything(lake) == expected(rows_from(0, 50))
    assert lake.landed() == {"robot": 50}
    lander.land(rows_from(50, 60))  # by one who has not seen that files were put together
    assert everything(lake) == expected(rows_from(0, 60))
    assert lake.sweep(timedelta(hours=1)) == 0
    assert read_before.count() == 50
    assert lake.sweep(timedelta(0)) > 0
    assert everything(lake) == expected(rows_from(0, 60))
    on_disk = {found.path for found in table.folder.files(suffix=".parquet")}
    assert on_disk == {file.path for file in lake.table("samples").files}


def test_old_days_go_but_not_before_they_are_taken_in(spark: SparkSession, lake: Lake) -> None:
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    days = [now - age * 24 * 60 * MINUTE for age in (10, 5, 0)]
    rows = numbered([{"received_at": at, "key": f"k/{at}", "kind": "PUT", "payload": b"1"} for at in days])
    Lander(spark, lake).land(rows)
    assert lake.retain(age=timedelta(days=7)) == 0
    lake.fold(spark)
    assert lake.retain(age=timedelta(days=7)) == 1
    assert everything(lake) == expected(rows[1:])
    assert lake.read(spark, "latest").count() == 3
    assert lake.retain(most=max(file.size for file in lake.table("samples").files)) == 1
    assert everything(lake) == expected(rows[2:])
    assert lake.landed() == {"robot": 3}


def test_a_sweep_leaves_the_attempt_that_may_be_under_way(spark: SparkSession, lake: Lake) -> None:
    lander = Lander(spark, lake)
    directory = lander.samples._begin(7)
    folder: Folder = lake.table("samples").folder
    folder.write(f"{directory}/day=2026-01-01/prefix=a/part.parquet", b"unfinished")
    folder.write("batch=of-somebody-dead/part.parquet", b"left")
    now = datetime.now(UTC)
    assert maintenance.sweep(lake.table("samples"), timedelta(0), now) == 1
    assert [found.path.split("/")[0] for found in folder.files(suffix=".parquet")] == [directory]
