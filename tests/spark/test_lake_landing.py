"""From journals into a lake by a streaming query: all rows, once, across stops, crashes and lost checkpoints."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import Recorded
from tests.spark.lakes import everything, expected, rows_from
from zenspark.errors import LakeError, NoJournal, UsageError
from zenspark.journal import JournalWriter
from zenspark.journal.layout import SCHEMAS, SESSIONS
from zenspark.spark.lake import Lake
from zenspark.spark.lake.landing import CHECKPOINT, Landing
from zenspark.spark.lake.table import Table
from zenspark.spark.lake.upkeep import Care

pytestmark = pytest.mark.spark

BOUND = 120.0


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def landed(spark: SparkSession, lake: Lake, *journals: Path) -> Landing:
    """Lands what there is."""
    landing = Landing(spark, journals, lake, trigger=None)
    landing.start()
    try:
        assert landing.wait(BOUND)
    finally:
        landing.stop()  # also one that failed: its upkeep would go on beside the next
    return landing


def test_rows_land_as_they_come_and_stop_lands_the_rest(spark: SparkSession, lake: Lake, recorded: Recorded) -> None:
    journal = recorded(100)
    landing = Landing(spark, [journal], lake, trigger="0 seconds", care=Care(fold_every=0.2, compact_every=0.5))
    landing.start()
    deadline = time.monotonic() + BOUND
    while landing.progress().rows < 100 and time.monotonic() < deadline:
        time.sleep(0.05)
    recorded(50, first=100)
    landing.stop(BOUND)
    progress = landing.progress()
    assert (progress.rows, progress.waiting, progress.problem) == (150, 0, None)
    assert progress.newest is not None
    assert everything(lake) == expected(rows_from(0, 150))


def test_a_landing_goes_on_where_the_lake_ends_even_without_its_checkpoint(
    spark: SparkSession, lake: Lake, recorded: Recorded
) -> None:
    one, other = recorded(30, name="one"), recorded(20, name="other")
    landed(spark, lake, one, other)
    recorded(10, name="one", first=30)
    landed(spark, lake, one, other)
    assert lake.landed() == {"one": 40, "other": 20}
    shutil.rmtree(Path(lake.folder.address) / CHECKPOINT)
    recorded(5, name="other", first=20)
    landed(spark, lake, one, other)
    assert everything(lake) == expected(rows_from(0, 40, "one") + rows_from(0, 25, "other"))
    assert lake.snapshot("latest").offsets == {"one": 40, "other": 25}


def test_a_batch_that_was_not_committed_is_done_again(spark: SparkSession, lake: Lake, recorded: Recorded) -> None:
    journal = recorded(30)
    commit = Table.commit

    def fail(table: Table, change: object) -> None:
        commit(table, change)  # type: ignore[arg-type]
        if table.files:
            raise LakeError("samples", "the machine is gone")  # committed, but Spark does not know

    with patch.object(Table, "commit", fail), pytest.raises(LakeError, match="the machine is gone"):
        landed(spark, lake, journal)
    recorded(10, first=30)
    landed(spark, lake, journal)
    assert everything(lake) == expected(rows_from(0, 40))


def test_what_recorders_observe_lands_once(spark: SparkSession, lake: Lake, recorded: Recorded) -> None:
    journal = recorded(1)
    row = {"time": 1, "event": "OPENED", "zid": "a1", "whatami": "peer", "source": "tcp/a", "destination": "tcp/b"}
    for _ in range(2):
        with JournalWriter(journal / SESSIONS, recorder="robot", rows=SESSIONS) as writer:
            writer.append(pa.RecordBatch.from_pylist([row], schema=SCHEMAS[SESSIONS]))
        landed(spark, lake, journal)
    found = lake.read(spark, "sessions").orderBy("offset").collect()
    assert [(row.zid, row.event, row.recorder, row.offset) for row in found] == [
        ("a1", "OPENED", "robot", 0),
        ("a1", "OPENED", "robot", 1),
    ]
    assert lake.read(spark, "declarations").count() == 0


def test_what_is_wrong_is_said_before_anything_starts(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a journal"):
        Landing(spark, [], lake)
    landing = Landing(spark, [tmp_path / "none"], lake)
    with pytest.raises(NoJournal, match="none: there is no such directory"):
        landing.start()
    with pytest.raises(UsageError, match="not started"):
        landing.wait()
