"""`latest` as Spark reads it: the newest sample per key, in whatever order samples come."""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from tests.lake_model import Row, latest
from tests.lake_tables import put_in
from tests.spark.lakes import numbered, plain
from zenspark.lake import levels
from zenspark.spark.lake import Lake

pytestmark = pytest.mark.spark

NOW = 4_000_000_000_000_000
"""In the future, so that nothing is old enough to be forgotten."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def put(key: str, value: str, ntp64: int | None, clock: str | None = "1", **more: object) -> Row:
    timestamp = {"timestamp_ntp64": ntp64, "timestamp_id": clock}
    return {"key": key, "kind": "PUT", "payload": value.encode(), "received_at": NOW} | timestamp | more


def delete(key: str, ntp64: int | None, clock: str | None = "1", **more: object) -> Row:
    return put(key, "", ntp64, clock) | {"kind": "DELETE", "payload": None} | more


def values(lake: Lake, spark: SparkSession) -> dict[str, str]:
    rows = plain(lake.read(spark, "latest"))
    found = {row["key"]: bytes(row["payload"]).decode() for row in rows}
    assert len(found) == len(rows)
    return found


def expected(rows: list[Row]) -> dict[str, str]:
    return {key: row["payload"].decode() for key, row in latest(rows).items()}


@pytest.mark.parametrize("seed", [1, 2])
def test_latest_equals_a_dictionary_after_refreshes_and_merges(spark: SparkSession, lake: Lake, seed: int) -> None:
    dice = random.Random(seed)
    keys = [f"{a}/{b}" for a in "xyz" for b in "12345"] + ["x/*", "**", "y/**"]
    weights = [20] * 15 + [2, 1, 2]
    timestamps = [*range(1, 60), -1, -2, -(2**63)]  # the last are the greatest: the bits are unsigned
    given: list[Row] = []
    for _ in range(160):
        key = dice.choices(keys, weights)[0]
        ntp64, clock = dice.choice(timestamps), dice.choice(["9", "a", "10"])
        given.append(delete(key, ntp64, clock) if dice.random() < 0.25 else put(key, str(len(given)), ntp64, clock))
    rows = numbered(given)
    with patch.object(levels, "MIN_FILES_TO_MERGE", 1):
        for start in range(0, 160, 40):
            put_in(lake, rows[start : start + 40])
            if start % 80 == 0:
                lake.refresh(spark)
                lake.publish(spark)
    assert values(lake, spark) == expected(rows)


def test_sample_without_timestamp_is_ordered_by_reception(spark: SparkSession, lake: Lake) -> None:
    def at(seconds: int) -> int:
        return seconds << 32

    rows = [
        put("a", "received at 100", None, None, received_at=100_000_000),
        put("a", "stamped 99", at(99)),
        put("b", "received at 100", None, None, received_at=100_000_000),
        put("b", "stamped 101", at(101)),
        put("c", "first of two at once", None, None, received_at=100_500_000),
        put("c", "second of two at once", None, None, received_at=100_500_000),
        put("d", "received at 100.5", None, None, received_at=100_500_000),
        put("d", "stamped 100.4", at(100) + 4 * 2**32 // 10),
    ]
    put_in(lake, numbered(rows))
    assert values(lake, spark) == {
        "a": "received at 100",
        "b": "stamped 101",
        "c": "second of two at once",
        "d": "received at 100.5",
    }


def test_late_delete_applies_after_merge_of_a_newer_wildcard_put(spark: SparkSession, lake: Lake) -> None:
    rows = numbered([put("k/1", "own", 1), put("k/2", "own", 5), put("k/*", "of all", 3)])
    put_in(lake, rows)
    lake.refresh(spark)
    lake.publish(spark)
    with patch.object(levels, "MIN_FILES_TO_MERGE", 1):
        lake.refresh(spark)
    assert values(lake, spark) == {"k/1": "of all", "k/2": "own"}
    put_in(lake, late := numbered([delete("k/1", 2)], start=3))
    assert values(lake, spark) == expected(rows + late) == {"k/2": "own"}
