"""Derived tables against a plain model: random samples in random batches, and all that may happen in between."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.lake_model import Row
from tests.lake_samples import RandomSamples
from tests.lake_tables import assert_published, published, put_in
from tests.spark.derived import assert_read, read
from tests.spark.lakes import numbered
from zenspark.lake import levels
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.spark.lake import Lake

pytestmark = pytest.mark.spark


def compact(lake: Lake) -> None:
    lake.table("samples").to_deltalake().optimize.compact()


def z_order(lake: Lake) -> None:
    lake.table("samples").to_deltalake().optimize.z_order(["key"])


def rearrange_public(lake: Lake) -> None:
    for name in ("latest", "traffic", "gaps"):
        lake.table(name).to_deltalake().optimize.compact()


FOREIGN: list[Callable[[Lake], None]] = [compact, z_order, rearrange_public]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (2, 3))])
def test_derived_tables_equal_a_model_after_random_operations(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    lake = Lake(tmp_path / "lake")
    samples = RandomSamples(seed)
    dice = random.Random(-seed)
    with patch.object(levels, "MIN_FILES_TO_MERGE", 3):
        for _ in range(6):
            put_in(lake, samples.batch(dice.randrange(20, 80)))
            if dice.random() < 0.5:
                dice.choice(FOREIGN)(lake)
            if dice.random() < 0.7:
                lake.refresh(spark)
            if dice.random() < 0.5:
                lake.publish(spark)
        assert_read(lake, spark, samples.rows)
        lake.refresh(spark)
        lake.publish(spark)
        assert_published(lake, samples.rows)
        assert_read(lake, spark, samples.rows)


# --- rows that another tool deletes from `samples` --------------------------------------------------------------------


def put(key: str, timestamp: int, **more: object) -> Row:
    return {"key": key, "kind": "PUT", "payload": f"{key} at {timestamp}".encode(), "timestamp_ntp64": timestamp} | more


def delete(key: str, timestamp: int) -> Row:
    return put(key, timestamp) | {"kind": "DELETE", "payload": None}


def values(table: pa.Table) -> dict[str, int]:
    """The timestamps of keys."""
    return {row["key"]: row["timestamp_ntp64"] for row in table.select(["key", "timestamp_ntp64"]).to_pylist()}


def refreshed(lake: Lake, spark: SparkSession) -> dict[str, int]:
    """`latest` up to the moment, which is what other readers find after a refresh and a publication."""
    before = values(read(lake, spark, "latest"))
    lake.refresh(spark)
    lake.publish(spark)
    assert values(published(lake, "latest")) == before
    return before


@pytest.mark.parametrize("vacuumed", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_a_key_falls_back_to_the_newest_row_that_is_left(spark: SparkSession, tmp_path: Path, vacuumed: bool) -> None:
    lake = Lake(tmp_path / "lake")
    given = [put("u/1", 1), put("u/1", 2), put("u/2", 1), put("u/2", 2), put("v/1", 1), put("u/3", 1), delete("u/3", 2)]
    put_in(lake, numbered(given))
    assert refreshed(lake, spark) == {"u/1": 2, "u/2": 2, "v/1": 1}
    put_in(lake, numbered([put("v/2", 1)], start=7))
    delta = lake.table("samples").to_deltalake()
    delta.delete("key = 'u/1' and timestamp_ntp64 = 2")
    delta.delete("key = 'u/2'")
    delta.delete("key = 'u/3' and kind = 'DELETE'")
    if vacuumed:
        delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert refreshed(lake, spark) == {"u/1": 1, "u/3": 1, "v/1": 1, "v/2": 1}
    assert not lake.derived("latest").refresh(spark)
    assert sum(published(lake, "traffic")["messages"].to_pylist()) == 8  # what was observed


def test_deleted_wildcard_row_no_longer_affects_other_keys(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([put("u/1", 1), put("v/1", 1), delete("u/*", 5), put("v/**", 5), put("w", 9)]))
    assert refreshed(lake, spark) == {"v/1": 5, "w": 9}
    lake.table("samples").to_deltalake().delete("key = 'u/*' or key = 'v/**'")
    assert refreshed(lake, spark) == {"u/1": 1, "v/1": 1, "w": 9}


def test_row_updated_by_another_tool_is_updated_in_latest(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([put("u/1", 1), put("u/2", 1)]))
    refreshed(lake, spark)
    lake.table("samples").to_deltalake().update(predicate="key = 'u/1'", updates={"encoding": "'erased'"})
    refreshed(lake, spark)
    assert {row["key"]: row["encoding"] for row in published(lake, "latest").to_pylist()} == {
        "u/1": "erased",
        "u/2": "text/plain",
    }


def test_expired_rows_stay_in_latest_unlike_rows_deleted_by_other_tools(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([put("u/1", 1), put("u/2", 1)]))
    put_in(lake, numbered([put("u/3", 1)], start=2))
    refreshed(lake, spark)
    samples = lake.table("samples")
    samples.commit(Transaction(remove=[file for file in samples.files if file.rows == 2]))  # as retention does
    samples.to_deltalake().delete("key = 'u/3'")
    assert refreshed(lake, spark) == {"u/1": 1, "u/2": 1}


def test_missing_log_history_is_reported_and_rows_stay(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([put("u/1", 1)]))
    refreshed(lake, spark)
    put_in(lake, numbered([put("u/2", 1)], start=1))
    with patch.object(LakeTable, "foreign_changes", lambda table, version: None):
        lake.refresh(spark)
    assert (
        "rows deleted by other tools since then stay in table latest until `zenspark lake rebuild --table latest`"
        in caplog.text
    )
    assert refreshed(lake, spark) == {"u/1": 1, "u/2": 1}
