"""`gaps` finds exactly what was dropped and what came twice, across batches, refreshes and the wrap-around."""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from zenoh.ext import Int64, z_serialize

from tests.lake_tables import put_in
from tests.spark.lakes import Row, numbered, plain
from zenspark.lake import levels
from zenspark.spark.ingest import derived
from zenspark.spark.ingest.read_files import dataframe_of_rows
from zenspark.spark.lake import Lake

pytestmark = pytest.mark.spark

WRAP = 2**32
GID = bytes(range(16))
NOTHING: Row = {"source_zid": None, "source_eid": None, "source_sn": None, "attachment": None}


def publication(zid: str, eid: int, number: int) -> Row:
    return {"source_zid": zid, "source_eid": eid, "source_sn": number % WRAP, "attachment": None}


def ros_publication(number: int) -> Row:
    """As rmw_zenoh publishes."""
    return NOTHING | {"attachment": bytes(z_serialize((Int64(number), Int64(10**18), GID)))}


def found(lake: Lake, spark: SparkSession) -> set[tuple[object, ...]]:
    rows = plain(lake.read(spark, "gaps"))
    return {
        (row["source_zid"], row["source_eid"], row["kind"], row["first_sn"], row["last_sn"], row["count"])
        for row in rows
    }


@pytest.mark.parametrize("driver_rows", [derived.MAX_DRIVER_ROWS, 0])
def test_dropped_numbers_are_missing_and_duplicates_repeated(
    spark: SparkSession, tmp_path: Path, driver_rows: int
) -> None:
    lake = Lake(tmp_path / "lake")
    dice = random.Random(5)
    start = WRAP - 150
    dropped = {("a", 1): {10, 11, 12, 99, 100, 101, 152}, ("a", 2): set(), ("b", 1): {149, 150}}
    sent = [
        publication(zid, eid, start + number)
        for number in range(200)
        for (zid, eid), lost in dropped.items()
        if number not in lost
    ]
    sent.insert(300, publication("a", 2, start + 7))
    sent.insert(400, publication("a", 2, start + 7))
    for number in (0, 1, 3, 5, 4, 5):
        sent.insert(dice.randrange(200, 300), ros_publication(WRAP))
        sent.insert(290 + number, ros_publication(WRAP + number))
    sent += [NOTHING] * 3
    late = [place for place in range(10, len(sent) - 10) if dice.random() < 0.05]
    for place in late:  # they overtake each other
        sent[place], sent[place + 5] = sent[place + 5], sent[place]
    rows = numbered(sent)
    expected = {
        ("a", 1, "MISSING", start + 10, start + 12, 3),
        ("a", 1, "MISSING", start + 99, start + 101, 3),
        ("a", 1, "MISSING", 2, 2, 1),
        ("b", 1, "MISSING", WRAP - 1, 0, 2),
        ("a", 2, "REPEATED", start + 7, start + 7, 2),
        (GID.hex(), None, "MISSING", WRAP + 2, WRAP + 2, 1),
        (GID.hex(), None, "REPEATED", WRAP, WRAP, 6),
        (GID.hex(), None, "REPEATED", WRAP + 5, WRAP + 5, 1),
    }
    with patch.object(derived, "MAX_DRIVER_ROWS", driver_rows), patch.object(levels, "MIN_FILES_TO_MERGE", 1):
        put_in(lake, rows[:310])
        lake.refresh(spark)
        put_in(lake, rows[310:])
        assert found(lake, spark) == expected  # the second part is judged while reading
        lake.refresh(spark)
        lake.publish(spark)
        lake.refresh(spark)
        assert found(lake, spark) == expected


def test_rows_in_memory_become_a_dataframe_also_after_an_empty_chunk(spark: SparkSession) -> None:
    rows = pa.concat_tables([pa.table({"n": pa.array(numbers, pa.int64())}) for numbers in ([1, 2], [], [3], [], [4])])
    assert sorted(row.n for row in dataframe_of_rows(spark, rows).collect()) == [1, 2, 3, 4]
