"""Batches into `samples`: every row once, whatever happens."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

import zenspark
from tests.spark.lakes import Ingester, batch, everything, expected, numbered, rows_from
from tests.spark.poison import parts_of, poison, recorded_blocks
from zenspark.errors import LakeError
from zenspark.lake.delta_table import LakeTable
from zenspark.lake.partitioning import MAX_PREFIX_CHARACTERS
from zenspark.spark.ingest.commit_samples import SamplesWriter, WriterFenced
from zenspark.spark.lake import Lake

pytestmark = pytest.mark.spark

PREFIXES = ["fleet", "a b", "%41", "x=y", "ü", "[z]", "a:b", "@v", "{c", "d}", "'e'", "\\", "+", "-"]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "my lake")


def files_of(lake: Lake) -> set[str]:
    return {found.path for found in lake.table("samples").location.files(suffix=".parquet")}


def test_rows_are_ingested_into_partitions_of_day_and_prefix(spark: SparkSession, lake: Lake) -> None:
    rows = numbered([{"key": f"{prefix}/k"} for prefix in PREFIXES])
    result = Ingester(spark, lake).ingest(rows)
    assert (result.rows, result.committed_offsets) == (len(rows), {"robot": len(rows)})
    assert everything(lake) == expected(rows)
    table = lake.read(spark, "samples")
    found = table.where("day = '2023-11-14'").select("prefix", "key").collect()
    assert sorted((row.prefix, row.key) for row in found) == sorted((prefix, f"{prefix}/k") for prefix in PREFIXES)
    assert table.where("prefix = 'x=y'").count() == 1


def test_repeated_batch_is_rejected(spark: SparkSession, lake: Lake) -> None:
    ingester = Ingester(spark, lake)
    ingester.ingest(rows_from(0, 10))
    ingester.ingest(rows_from(10, 20))
    before = files_of(lake)
    with pytest.raises(LakeError, match="recorder 'robot' from offset 10, but rows up to 20 are committed"):
        ingester.ingest(rows_from(10, 20))
    assert files_of(lake) == before
    assert everything(lake) == expected(rows_from(0, 20))
    assert lake.ingested() == {"robot": 20}


def test_files_of_a_failed_attempt_are_ignored_and_the_batch_is_repeated(spark: SparkSession, lake: Lake) -> None:
    ingester = Ingester(spark, lake)
    ingester.ingest(rows_from(0, 10))
    with patch.object(LakeTable, "commit", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        ingester.ingest(rows_from(10, 20))
    left = files_of(lake)
    assert len(left) > len(lake.table("samples").files)
    assert everything(lake) == expected(rows_from(0, 10))
    Ingester(spark, lake).ingest(rows_from(10, 20))
    assert everything(lake) == expected(rows_from(0, 20))


def test_committed_rows_are_rejected_from_another_writer(spark: SparkSession, lake: Lake) -> None:
    Ingester(spark, lake).ingest(rows_from(0, 10))
    with pytest.raises(LakeError, match=r"recorder 'robot' from offset 5, but rows up to 10 are committed"):
        Ingester(spark, lake).ingest(rows_from(5, 15))
    assert everything(lake) == expected(rows_from(0, 10))


def test_only_the_last_writer_of_a_recorder_can_commit(spark: SparkSession, lake: Lake) -> None:
    one, other = Ingester(spark, lake), Ingester(spark, lake)
    one.ingest(rows_from(0, 10))
    other.samples.fence_earlier_writers(["robot"])
    before = files_of(lake)
    with pytest.raises(WriterFenced, match="another process has started to ingest recorder 'robot'"):
        one.ingest(rows_from(10, 20))
    assert files_of(lake) == before
    other.ingest(rows_from(10, 30))
    assert everything(lake) == expected(rows_from(0, 30))


def test_writers_of_different_recorders_do_not_conflict(spark: SparkSession, lake: Lake) -> None:
    one, other = Ingester(spark, lake), Ingester(spark, lake)
    for start in (0, 10):
        one.ingest(rows_from(start, start + 10, "one"))
        other.ingest(rows_from(start, start + 10, "other"))
    assert everything(lake) == expected(rows_from(0, 20, "one") + rows_from(0, 20, "other"))


def test_rows_that_the_journal_lost_are_counted(spark: SparkSession, lake: Lake) -> None:
    ingester = Ingester(spark, lake)
    ingester.ingest(rows_from(0, 10))
    parts = batch(spark, lake, rows_from(10, 30)).withColumn("start", lit(25).cast("bigint")).limit(1)
    result = ingester.samples.commit_batch(parts.withColumn("end", lit(30).cast("bigint")), 1)
    assert (result.lost, result.rows, lake.ingested()) == ({"robot": 15}, 5, {"robot": 30})


def test_unreadable_block_is_quarantined_and_ingested_when_readable(spark: SparkSession, lake: Lake) -> None:
    journal = recorded_blocks(lake, 5)
    restore = poison(journal, 2)
    samples = SamplesWriter(lake.location, lake.table("samples"))
    result = samples.commit_batch(parts_of(spark, journal), 0)
    assert (result.rows, result.quarantined, lake.ingested()) == (400, 100, {"robot": 500})
    assert everything(lake) == expected(rows_from(0, 200) + rows_from(300, 500))
    (aside,) = lake.quarantine()
    assert (aside.recorder, aside.start, aside.end, aside.version) == ("robot", 200, 300, zenspark.__version__)
    assert "rows of samples" in aside.reason
    assert lake.retry_quarantine(spark) == 0
    restore()
    assert lake.retry_quarantine(spark) == 100
    assert everything(lake) == expected(rows_from(0, 500))
    assert lake.quarantine() == []
    assert lake.location.files("_quarantine") == []


def test_several_recorders_have_their_own_offsets(spark: SparkSession, lake: Lake) -> None:
    ingester = Ingester(spark, lake)
    ingester.ingest(rows_from(0, 10, "a") + rows_from(0, 5, "b"))
    ingester.ingest(rows_from(10, 12, "a") + rows_from(0, 1, "ü"))
    assert lake.ingested() == {"a": 12, "b": 5, "ü": 1}


def test_batch_with_wrong_columns_or_rows_is_rejected_before_writing(spark: SparkSession, lake: Lake) -> None:
    ingester = Ingester(spark, lake)
    parts = batch(spark, lake, rows_from(0, 3))
    for wrong, message in [
        (parts.drop("segment"), "segment is missing"),
        (parts.withColumn("more", parts.path), "more is unknown"),
        (parts.withColumn("start", parts["start"].cast("int")), "start is int, not bigint"),
        (parts.withColumn("rows", lit("sessions")), "rows of type sessions"),
    ]:
        with pytest.raises(LakeError, match=message):
            ingester.samples.commit_batch(wrong, 0)
    assert files_of(lake) == set()


def test_a_prefix_that_is_too_long_for_a_directory_is_cut(spark: SparkSession, lake: Lake) -> None:
    rows = numbered([{"key": f"{'x' * 300}/k"}, {"key": f"{'ü' * 300}"}, {"key": f"{'y' * 300}$*/k"}])
    Ingester(spark, lake).ingest(rows)
    assert everything(lake) == expected(rows)
    found = {row.prefix for row in lake.read(spark, "samples").select("prefix").collect()}
    assert found == {"x" * MAX_PREFIX_CHARACTERS, "ü" * MAX_PREFIX_CHARACTERS, "*"}


def test_an_empty_batch_is_no_transaction(spark: SparkSession, lake: Lake) -> None:
    result = Ingester(spark, lake).ingest([])
    assert (result.rows, result.newest, lake.table("samples").exists) == (0, None, False)
