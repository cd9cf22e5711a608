"""A lake on S3 against one on a disk: the same tables from the same journal, whatever is done with them."""

from __future__ import annotations

import subprocess
import sys
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
from tests.optional import some
from tests.rows import sample
from tests.s3 import S3, serving
from tests.spark.test_up import TIMEOUT_SECONDS, up
from zenspark.arrow import SCHEMA
from zenspark.errors import LakeError
from zenspark.journal import JournalWriter
from zenspark.journal.format import SCHEMAS, SESSIONS
from zenspark.lake import levels
from zenspark.lake.lake import STATE_TABLE_SPECS
from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.lake.pending_rows import STATE_VERSION_APP_ID
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest import maintenance
from zenspark.spark.ingest.ingest_query import IngestQuery
from zenspark.spark.ingest.read_files import can_spark_read
from zenspark.spark.lake import Lake, Retention
from zenspark.storage import Storage

pytestmark = pytest.mark.spark

KEYS = ["fleet/r1/pose", "a b%20/ü:=/[x]", "a b%20/z", "fleet/r2", "😀/1"]
DAY = 86_400_000_000
SESSION = {"time": 1, "event": "OPENED", "zid": "a1", "whatami": "peer", "source": "tcp/a", "destination": "tcp/b"}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with serving() as server:
        yield server


@pytest.fixture
def on_s3(s3: S3) -> Lake:
    """By options: no process of Spark finds them in its environment."""
    return Lake(f"s3://{s3.bucket()}/my lake", s3.options)


@pytest.fixture
def on_disk(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def made(number: int) -> dict[str, object]:
    """Rows with odd keys, of two days; some are DELETEs, and some numbers are missing."""
    return sample(number) | {
        "key": KEYS[number % len(KEYS)],
        "source_sn": number + number // 7,
        "received_at": DAY * (20_000 + number % 2) + number,
    }


def record(journal: Path, start: int, end: int) -> None:
    with JournalWriter(journal, recorder="robot") as writer:
        writer.append(pa.RecordBatch.from_pylist([made(number) for number in range(start, end)], schema=SCHEMA))
    with JournalWriter(journal / SESSIONS, recorder="robot", row_type=SESSIONS) as writer:
        writer.append(pa.RecordBatch.from_pylist([SESSION], schema=SCHEMAS[SESSIONS]))


def ingest(spark: SparkSession, lake: Lake, journal: Path) -> None:
    ingestion = IngestQuery(spark, [journal], lake, trigger=None, options={"maxOffsetsPerTrigger": "60"})
    ingestion.start()
    assert ingestion.wait(TIMEOUT_SECONDS)
    ingestion.stop()


def content(spark: SparkSession, lake: Lake, *names: str) -> dict[str, list[str]]:
    """All rows of tables, as Spark reads them."""
    found = names or lake.tables()
    return {name: sorted(str(row) for row in lake.read(spark, name).collect()) for name in found}


def stored(lake: Lake) -> tuple[Any, ...]:
    """What is read without Spark."""
    samples, latest = lake.snapshot("samples"), lake.snapshot("latest")
    rows = samples.dataset.to_table().sort_by("offset").to_pylist()
    newest, offsets = lake.newest()
    decisive = sorted((row["key"], row["offset"]) for batch in newest for row in batch.to_pylist())
    return (
        rows,
        samples.offsets,
        latest.offsets,
        dict(decisive),
        offsets,
        lake.ingested(),
    )  # the last of a key is the newest


def replies(lake: Lake, journal: Path) -> list[tuple[str, bytes, str]]:
    """Return the newest value and the history of a storage."""
    with zenspark.open(ours(mode="peer")) as session, Storage(session, "**", lake, [journal]):
        found = [reply.ok for key in ("**", "fleet/**?_time=[..]") for reply in session.get(key, timeout=60)]
    return sorted((str(some(ok).key_expr), some(ok).payload.to_bytes(), str(some(ok).timestamp)) for ok in found)


def maintain(spark: SparkSession, lake: Lake) -> tuple[int, ...]:
    """Merges, compacts, takes the first day away and removes what is unused; how much that was."""
    with patch.object(levels, "MIN_FILES_TO_MERGE", 1), patch.object(maintenance, "MIN_FILES_TO_COMPACT", 2):
        merged = sum(
            lake.derived(name).merge(spark, lake.table(name).app_version(STATE_VERSION_APP_ID))
            for name in STATE_TABLE_SPECS
        )
        fewer = lake.compact(spark)
    most = sum(file.size for file in lake.table("samples").files) - 1
    return merged, fewer, lake.expire(Retention(max_bytes=most), spark), lake.vacuum(timedelta(0), full=True)


def test_lake_on_s3_equals_lake_on_disk_after_ingestion_and_maintenance(
    spark: SparkSession, on_s3: Lake, on_disk: Lake, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    for start in (0, 100):  # the second time it goes on where it ended
        record(journal, start, start + 100)
        for lake in (on_s3, on_disk):
            ingest(spark, lake, journal)
    wanted = content(spark, on_disk)
    assert len(wanted["samples"]) == 200
    assert all(wanted[name] for name in on_disk.tables() if name not in ("declarations", "counters"))
    assert content(spark, on_s3) == wanted
    assert stored(on_s3) == stored(on_disk)
    assert len(replies(on_disk, journal)) > len(KEYS)
    assert replies(on_s3, journal) == replies(on_disk, journal)

    changes = [maintain(spark, lake) for lake in (on_s3, on_disk)]
    assert changes[0][:3] == changes[1][:3]  # how many files are unused depends on how many refreshes there were
    assert all(changes[0])
    assert content(spark, on_s3, *STATE_TABLE_SPECS) == {name: wanted[name] for name in STATE_TABLE_SPECS}
    assert stored(on_s3) == stored(on_disk)
    table = on_s3.table("samples")
    there = {file.path for file in table.location.files(suffix=".parquet") if "_delta_log" not in file.path}
    assert there == {file.path for file in table.files}


def test_condition_on_the_day_prunes_files(spark: SparkSession, on_s3: Lake, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    record(journal, 0, 10)
    ingest(spark, on_s3, journal)
    samples = on_s3.table("samples")
    for file in samples.files:
        if file.partition["day"] == "2024-10-05":
            samples.location.remove(file.path)  # who reads it fails
    rows = on_s3.read(spark, "samples").where("day = '2024-10-04'").collect()
    assert [row.offset for row in sorted(rows, key=lambda row: row.offset)] == [0, 2, 4, 6, 8]


def test_removed_bucket_fails_the_ingest_query_with_one_line(
    spark: SparkSession, on_s3: Lake, tmp_path: Path, s3: S3
) -> None:
    journal = tmp_path / "journal"
    record(journal, 0, 10)
    ingestion = IngestQuery(
        spark, [journal], on_s3, trigger="0 seconds", maintenance=MaintenanceConfig(refresh_interval=TIMEOUT_SECONDS)
    )
    ingestion.start()
    assert eventually(lambda: ingestion.progress().rows == 10)
    bucket = on_s3.location.address.split("/")[2]
    s3.remove(bucket)
    record(journal, 10, 20)
    with pytest.raises(LakeError) as raised:
        ingestion.wait(TIMEOUT_SECONDS)
    assert str(raised.value) == f"{on_s3.location.address}: there is no bucket {bucket!r} at {s3.endpoint}"
    assert not ingestion.stop(0)


def test_spark_reads_local_and_hdfs_paths_directly_but_not_s3(spark: SparkSession, on_s3: Lake, on_disk: Lake) -> None:
    assert can_spark_read(spark, on_disk.location)
    assert can_spark_read(spark, StoragePath.at("hdfs://name/lake"))
    assert not can_spark_read(spark, on_s3.location)


def test_up_and_sql_work_on_s3_with_environment_variables_only(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    endpoint, address = unused(), f"s3://{s3.bucket()}/lake"
    with up(endpoint, address, "--journal", str(tmp_path / "journal")) as running:
        running.wait_for("Spark started in")
        with zenspark.open(ours(mode="client", connect__endpoints=[endpoint])) as session:
            for number in range(10):
                session.put(f"robot/{number}", str(number))
            assert eventually(lambda: len(list(session.get("robot/*", timeout=60))) == 10)
        running.process.terminate()
        assert running.ended() == 0, running.lines
    assert f"tables are in {address}" in "\n".join(running.lines)
    query = "select count(*) as n, max(decode(payload, 'UTF-8')) as last from latest"
    command = [sys.executable, "-m", "zenspark", "sql", query, "--lake", address, "--format", "csv"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=TIMEOUT_SECONDS, check=False)
    assert (ended.returncode, ended.stdout) == (0, "n,last\n10,9\n"), ended.stderr
    assert not list(tmp_path.glob("s3*"))  # the address was not used as a path
