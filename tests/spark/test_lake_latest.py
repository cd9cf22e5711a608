"""`latest` against a dictionary: the newest sample per key, in whatever order samples come."""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from tests.spark.lakes import Lander, Row, numbered, plain
from zenspark.key.match import includes
from zenspark.spark.lake import Lake, derived
from zenspark.spark.lake.latest import GRACE

pytestmark = pytest.mark.spark

A_DAY = 86_400_000_000
NOW = 4_000_000_000_000_000
"""In the future, so that nothing is old enough to be forgotten."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def put(key: str, value: str, ntp64: int | None, clock: str | None = "1", **more: object) -> Row:
    stamp = {"timestamp_ntp64": ntp64, "timestamp_id": clock}
    return {"key": key, "kind": "PUT", "payload": value.encode(), "received_at": NOW} | stamp | more


def delete(key: str, ntp64: int | None, clock: str | None = "1", **more: object) -> Row:
    return put(key, "", ntp64, clock) | {"kind": "DELETE", "payload": None} | more


def values(lake: Lake, spark: SparkSession) -> dict[str, str]:
    rows = plain(lake.read(spark, "latest"))
    found = {row["key"]: bytes(row["payload"]).decode() for row in rows}
    assert len(found) == len(rows)
    return found


def fold(lake: Lake, spark: SparkSession) -> None:
    assert lake.derived("latest").fold(spark)
    assert not lake.derived("latest").fold(spark)


def rank(row: Row) -> tuple[int, int, int]:
    return row["timestamp_ntp64"] % 2**64, int(row["timestamp_id"], 16), row["offset"]


def model(rows: list[Row]) -> dict[str, str]:
    """What must come out, key by key."""
    found = {}
    wild = [row for row in rows if "*" in row["key"]]
    for key in {row["key"] for row in rows if "*" not in row["key"]}:
        best = max((row for row in rows if row["key"] == key), key=rank)
        newer = [row for row in wild if includes(row["key"], key) and rank(row) > rank(best)]
        if best["kind"] == "PUT" and not any(row["kind"] == "DELETE" for row in newer):
            found[key] = max([best, *newer], key=rank)["payload"].decode()
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_it_equals_a_dictionary_in_any_order_and_after_any_fold_and_merge(
    spark: SparkSession, lake: Lake, seed: int
) -> None:
    dice = random.Random(seed)
    keys = [f"{a}/{b}" for a in "xyz" for b in "12345"] + ["x/*", "**", "y/**"]
    weights = [20] * 15 + [2, 1, 2]
    stamps = [*range(1, 60), -1, -2, -(2**63)]  # the last are the greatest: the bits are unsigned
    given: list[Row] = []
    for _ in range(160):
        key = dice.choices(keys, weights)[0]
        ntp64, clock = dice.choice(stamps), dice.choice(["9", "a", "10"])
        given.append(delete(key, ntp64, clock) if dice.random() < 0.25 else put(key, str(len(given)), ntp64, clock))
    rows = numbered(given)
    lander = Lander(spark, lake)
    for start in range(0, 160, 40):
        lander.land(rows[start : start + 40])
        if start % 80 == 0:
            fold(lake, spark)
    assert values(lake, spark) == model(rows)
    fold(lake, spark)
    assert values(lake, spark) == model(rows)
    with patch.object(derived, "FEW_FILES", 1):
        assert lake.derived("latest").merge(spark)
    assert values(lake, spark) == model(rows)


def test_a_sample_without_a_stamp_counts_as_stamped_when_it_was_received(spark: SparkSession, lake: Lake) -> None:
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
    Lander(spark, lake).land(numbered(rows))
    assert values(lake, spark) == {
        "a": "received at 100",
        "b": "stamped 101",
        "c": "second of two at once",
        "d": "received at 100.5",
    }


def test_a_delete_is_remembered_by_a_merge_until_nobody_can_be_late(spark: SparkSession, lake: Lake) -> None:
    assert GRACE == "INTERVAL 1 DAY"
    lander = Lander(spark, lake)
    lander.land(numbered([delete("late", 5), delete("long/ago", 5, received_at=A_DAY), delete("w/*", 5)]))
    fold(lake, spark)
    with patch.object(derived, "FEW_FILES", 1):
        assert lake.derived("latest").merge(spark)
    kept = lake.dataset("latest").to_table(columns=["key", "part"]).to_pylist()
    assert sorted((row["key"], row["part"]) for row in kept) == [("late", "merged"), ("w/*", "wild")]
    lander.land(numbered([put("late", "older", 4), put("long/ago", "older", 4), put("w/1", "older", 4)], start=3))
    assert values(lake, spark) == {"long/ago": "older"}


def test_the_same_is_there_without_spark(spark: SparkSession, lake: Lake) -> None:
    lander = Lander(spark, lake)
    lander.land(numbered([put("a", "1", 1), put("a", "2", 2), put("b", "1", 1)]))
    fold(lake, spark)
    lander.land(numbered([put("b", "2", 2)], start=3))
    batches, offsets = lake.newest()
    rows = [(row["key"], row["payload"]) for found in batches for row in found.to_pylist()]
    assert sorted(rows) == [("a", b"2"), ("b", b"1"), ("b", b"2")]
    assert offsets == {"robot": 4}
    assert lake.snapshot("latest").offsets == {"robot": 3}
