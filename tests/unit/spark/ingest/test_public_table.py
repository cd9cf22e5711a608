"""Public tables without Spark: which files are written anew, and that they equal a model whatever happens before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest
from pyspark.sql import SparkSession

from tests.lake_model import Row
from tests.lake_samples import KEYS, RandomSamples, numbered
from tests.lake_tables import PUBLIC, assert_published, published, put_in
from tests.unit.spark.ingest.workers import no_spark
from zenspark.lake import key_ranges, levels
from zenspark.lake.delta_table import Transaction
from zenspark.lake.key_ranges import KeyRange
from zenspark.lake.parquet_files import DataFile
from zenspark.spark.ingest import public_table
from zenspark.spark.ingest.public_table import FileRange, find_file_ranges, merge_adjacent
from zenspark.spark.lake import Lake


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    with no_spark() as session:
        yield session


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def make_file(
    name: str, least: object = None, greatest: object = None, size: int = public_table.SMALL_FILE_RANGE_BYTES
) -> DataFile:
    return DataFile(name, size, 1, {}, {"key": least} if least else {}, {"key": greatest} if greatest else {})


def file_ranges(*files: DataFile) -> list[tuple[object, list[str]]]:
    return [(start, [file.path for file in own]) for start, own in find_file_ranges(files, "key")]


# --- file ranges ------------------------------------------------------------------------------------------------------


def test_each_file_is_a_file_range_and_the_first_begins_before_everything() -> None:
    assert file_ranges(make_file("2", "c", "d"), make_file("1", "a", "b"), make_file("3", "e", "e")) == [
        (None, ["1"]),
        ("c", ["2"]),
        ("e", ["3"]),
    ]


def test_files_that_overlap_are_one_file_range() -> None:
    files = [make_file("1", "a", "m"), make_file("2", "b", "c"), make_file("3", "m", "n"), make_file("4", "o", "p")]
    assert file_ranges(*files) == [(None, ["1", "2", "3"]), ("o", ["4"])]


def test_a_file_without_statistics_can_have_any_row() -> None:
    assert file_ranges(make_file("1", "a", "b"), make_file("2"), make_file("3", "c", "d")) == [(None, ["1", "2", "3"])]


def test_a_table_without_files_is_one_file_range() -> None:
    assert file_ranges() == [(None, [])]


def runs(changed: set[int], sizes: list[int]) -> list[tuple[KeyRange, list[str]]]:
    found = [
        FileRange(None if at == 0 else f"k{at}", [make_file(str(at), size=size * public_table.SMALL_FILE_RANGE_BYTES)])
        for at, size in enumerate(sizes)
    ]
    return [(run.range, [file.path for file in run.files]) for run in merge_adjacent(found, changed)]


def test_changed_file_ranges_that_are_neighbours_are_one_run() -> None:
    assert runs({0, 1, 3}, [1, 1, 1, 1, 1]) == [(KeyRange(None, "k2"), ["0", "1"]), (KeyRange("k3", "k4"), ["3"])]
    assert runs({4}, [1, 1, 1, 1, 1]) == [(KeyRange("k4", None), ["4"])]
    assert runs(set(), [1, 1]) == []


def test_small_file_ranges_beside_a_changed_one_are_written_with_it() -> None:
    assert runs({1}, [0, 1, 0, 0]) == [(KeyRange(None, "k3"), ["0", "1", "2"])]


# --- writes -----------------------------------------------------------------------------------------------------------


def put(key: str, timestamp: int, **more: object) -> Row:
    return {"key": key, "kind": "PUT", "payload": b"x" * 50, "timestamp_ntp64": timestamp} | more


def keys(lake: Lake) -> list[str]:
    return sorted(published(lake, "latest")["key"].to_pylist())


def paths(lake: Lake, name: str = "latest") -> set[str]:
    return {file.path for file in lake.table(name).files}


def ingest_and_publish(lake: Lake, spark: SparkSession, rows: list[Row]) -> int:
    """Ingests rows, refreshes and publishes; how many rows were written."""
    put_in(lake, rows)
    lake.refresh(spark)
    return lake.publish(spark).rows


@pytest.mark.slow
def test_only_files_whose_keys_changed_are_written_anew(lake: Lake, spark: SparkSession) -> None:
    with (
        patch.object(key_ranges, "SORTED_FILE_MEMORY_BYTES", 2000),
        patch.object(public_table, "SMALL_FILE_RANGE_BYTES", 0),
    ):
        rows = numbered([put(f"k/{number:03}", 1) for number in range(100)], 0, "r")
        ingest_and_publish(lake, spark, rows)
        before = paths(lake)
        assert len(before) > 5
        rows += numbered([put("k/050", 2), put("k/0505", 2)], 100, "r")
        ingest_and_publish(lake, spark, rows[100:])
        assert len(before - paths(lake)) == 1
        assert_published(lake, rows)
        ingest_and_publish(lake, spark, numbered([put("k/05$*", 3)], 102, "r"))
        assert 1 <= len(before - paths(lake)) < 5
        assert_published(lake, [*rows, *numbered([put("k/05$*", 3)], 102, "r")])


@pytest.mark.slow
def test_finished_minutes_of_traffic_are_not_rewritten(lake: Lake, spark: SparkSession) -> None:
    with (
        patch.object(key_ranges, "SORTED_FILE_MEMORY_BYTES", 2000),
        patch.object(public_table, "SMALL_FILE_RANGE_BYTES", 0),
    ):
        rows = numbered([put("a", 1, received_at=number * 60_000_000) for number in range(100)], 0, "r")
        ingest_and_publish(lake, spark, rows)
        before = paths(lake, "traffic")
        ingest_and_publish(lake, spark, numbered([put("a", 1, received_at=99 * 60_000_000)], 100, "r"))
        assert len(before - paths(lake, "traffic")) == 1


@pytest.mark.slow
def test_files_of_latest_have_disjoint_key_ranges(lake: Lake, spark: SparkSession) -> None:
    with patch.object(key_ranges, "SORTED_FILE_MEMORY_BYTES", 2000):
        ingest_and_publish(lake, spark, numbered([put(f"k/{number:03}", 1) for number in range(100)], 0, "r"))
    limits = sorted((file.min_values["key"], file.max_values["key"]) for file in lake.table("latest").files)
    assert len(limits) > 5
    assert all(greatest < least for (_, greatest), (least, _) in pairwise(limits))


@pytest.mark.slow
def test_nothing_is_committed_when_nothing_changed(lake: Lake, spark: SparkSession) -> None:
    assert ingest_and_publish(lake, spark, numbered([put("a", 1)], 0, "r")) > 0
    versions = [lake.table(name).version for name in PUBLIC]
    lake.refresh(spark)
    assert lake.publish(spark).rows == 0
    assert [lake.table(name).version for name in PUBLIC] == versions


def test_nothing_is_published_of_a_lake_without_samples(lake: Lake, spark: SparkSession) -> None:
    lake.create()
    versions = [lake.table(name).version for name in PUBLIC]
    lake.refresh(spark)
    assert lake.publish(spark).rows == 0
    assert [lake.table(name).version for name in PUBLIC] == versions


@pytest.mark.slow
def test_marks_have_the_end_offsets(lake: Lake, spark: SparkSession) -> None:
    ingest_and_publish(lake, spark, numbered([put("a", 1)], 0, "r"))
    put_in(lake, numbered([put("b", 1)], 1, "r"))
    lake.refresh(spark)
    assert lake.snapshot("latest").offsets == {"r": 1}
    lake.publish(spark)
    assert {name: lake.snapshot(name).offsets for name in PUBLIC} == {name: {"r": 2} for name in PUBLIC}


@pytest.mark.slow
def test_other_tool_reads_and_optimizes_the_table(lake: Lake, spark: SparkSession) -> None:
    with patch.object(key_ranges, "SORTED_FILE_MEMORY_BYTES", 2000):
        rows = numbered([put(f"k/{number:03}", 1) for number in range(100)], 0, "r")
        ingest_and_publish(lake, spark, rows)
        for name in PUBLIC:
            lake.table(name).to_deltalake().optimize.z_order([PUBLIC[name].names[0]])
        lake.table("latest").to_deltalake().vacuum(0, dry_run=False, enforce_retention_duration=False)
        rows += numbered([put("k/050", 2), put("l", 2)], 100, "r")
        ingest_and_publish(lake, spark, rows[100:])
    assert_published(lake, rows)
    assert pl.read_delta(lake.table("latest").location.address).height == 101


@pytest.mark.slow
def test_a_public_table_that_was_removed_is_made_again(lake: Lake, spark: SparkSession) -> None:
    rows = numbered([put(f"k/{number}", 1) for number in range(10)], 0, "r")
    ingest_and_publish(lake, spark, rows)
    lake.location.remove("latest")
    again = Lake(lake.location.address)
    again.publish(spark)
    assert_published(again, rows)


@pytest.mark.slow
def test_state_under_rebuild_is_not_published(lake: Lake, spark: SparkSession) -> None:
    rows = numbered([put(f"k/{number}", 1) for number in range(10)], 0, "r")
    ingest_and_publish(lake, spark, rows)
    lake.derived("latest")._start_rebuild()
    lake.publish(spark)
    assert_published(lake, rows)
    lake.refresh(spark)  # goes on after a crash
    lake.publish(spark)
    assert_published(lake, rows)


@pytest.mark.slow
def test_rebuild_removes_keys_no_longer_in_samples(lake: Lake, spark: SparkSession) -> None:
    with (
        patch.object(key_ranges, "SORTED_FILE_MEMORY_BYTES", 2000),
        patch.object(public_table, "SMALL_FILE_RANGE_BYTES", 0),
    ):
        rows = numbered([put(f"k/{number:03}", 1) for number in range(100)], 0, "r")
        ingest_and_publish(lake, spark, rows)
        samples = lake.table("samples")
        samples.commit(Transaction(remove=samples.files))
        put_in(lake, later := numbered([put("k/000", 2)], 100, "r"))
        for name in PUBLIC:
            lake.rebuild(spark, name)
    assert_published(lake, later)


@pytest.mark.slow
def test_minute_statistics_from_the_log_are_utc_datetimes(lake: Lake, spark: SparkSession) -> None:
    ingest_and_publish(lake, spark, numbered([put("a", 1, received_at=90_000_000)], 0, "r"))
    (file,) = Lake(lake.location.address).table("traffic").files
    assert file.min_values["minute"] == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(4, 12))])
def test_public_tables_equal_a_model_after_random_operations(lake: Lake, spark: SparkSession, seed: int) -> None:
    samples, dice = RandomSamples(seed), random.Random(-seed)
    with (
        patch.object(key_ranges, "SORTED_FILE_MEMORY_BYTES", dice.choice([1500, 4000, 32 << 20])),
        patch.object(public_table, "SMALL_FILE_RANGE_BYTES", dice.choice([0, 3000])),
        patch.object(levels, "MIN_FILES_TO_MERGE", dice.choice([1, 2, 5])),
        patch.object(levels, "MAX_NEW_FILES", dice.choice([4, 256])),
    ):
        for _ in range(dice.randrange(2, 12)):
            put_in(lake, samples.batch(dice.randrange(1, 60)))
            if dice.random() < 0.2:
                lake.table("samples").to_deltalake().optimize.compact()
            if dice.random() < 0.7:
                lake.refresh(spark)
            if dice.random() < 0.6:
                lake.publish(spark)
        lake.refresh(spark)
        lake.publish(spark)
        assert_published(lake, samples.rows)
    assert set(keys(lake)) <= set(KEYS)
