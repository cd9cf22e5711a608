"""From journals into a lake by a streaming query: all rows, once, across stops, crashes and lost checkpoints."""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import Recorded
from tests.spark.lakes import everything, expected, rows_from
from tests.unit.journal.captured import nulls_in_dictionaries
from tests.wait import until
from zenspark.errors import LakeError, NoJournal, UsageError
from zenspark.journal import Journal, JournalWriter
from zenspark.journal.format import SCHEMAS, SESSIONS
from zenspark.lake import lease
from zenspark.lake.delta_table import LakeTable
from zenspark.lake.ingested_offsets import read_offsets
from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.spark.ingest import commit_samples
from zenspark.spark.ingest.commit_samples import TaskFailure, WriterFenced
from zenspark.spark.ingest.ingest_query import IngestQuery
from zenspark.spark.lake import Lake

pytestmark = pytest.mark.spark

BOUND = 120.0


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def ingest_journals(spark: SparkSession, lake: Lake, *journals: Path, instance: str | None = None) -> IngestQuery:
    """Ingests what there is."""
    ingestion = IngestQuery(spark, journals, lake, trigger=None, instance=instance)
    ingestion.start()
    try:
        assert ingestion.wait(BOUND)
    finally:
        ingestion.stop()  # also one that failed: its maintenance thread would run beside the next
    return ingestion


def test_rows_are_ingested_and_stop_ingests_the_rest(spark: SparkSession, lake: Lake, recorded: Recorded) -> None:
    journal = recorded(100)
    ingestion = IngestQuery(
        spark,
        [journal],
        lake,
        trigger=0.0,
        maintenance=MaintenanceConfig(refresh_interval=0.2, compact_interval=0.5),
    )
    ingestion.start()
    deadline = time.monotonic() + BOUND
    while ingestion.progress().rows < 100 and time.monotonic() < deadline:
        time.sleep(0.05)
    recorded(50, first=100)
    ingestion.stop(BOUND)
    progress = ingestion.progress()
    assert (progress.rows, progress.waiting, progress.problem) == (150, 0, None)
    assert progress.newest is not None
    assert everything(lake) == expected(rows_from(0, 150))


def test_journal_with_nulls_in_dictionaries_is_ingested(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Earlier versions wrote such blocks when publishers with and without timestamps were mixed."""
    path = nulls_in_dictionaries(tmp_path)
    journal = Journal(path)
    ingest_journals(spark, lake, path)
    written = pa.Table.from_batches(journal.read(0, journal.latest()))
    found = lake.dataset("samples").to_table(columns=written.column_names).sort_by("offset")
    assert found.num_rows == 163
    assert found.to_pylist() == written.to_pylist()


def test_ingest_query_continues_at_committed_offsets_with_other_journals(
    spark: SparkSession, lake: Lake, recorded: Recorded
) -> None:
    one, other = recorded(30, name="one"), recorded(20, name="other")
    ingest_journals(spark, lake, one, other)
    recorded(10, name="one", first=30)
    ingest_journals(spark, lake, one)
    assert lake.ingested() == {"one": 40, "other": 20}
    recorded(5, name="other", first=20)
    ingest_journals(spark, lake, other)
    assert everything(lake) == expected(rows_from(0, 40, "one") + rows_from(0, 25, "other"))
    assert read_offsets(lake.state_table("latest"), ["one", "other"]) == {"one": 40, "other": 25}


def test_batch_committed_without_checkpoint_is_not_ingested_twice(
    spark: SparkSession, lake: Lake, recorded: Recorded
) -> None:
    journal = recorded(30)
    commit = LakeTable.commit

    def fail(table: LakeTable, change: object) -> None:
        commit(table, change)  # type: ignore[arg-type]
        if table.files:
            raise LakeError("samples", "the machine is gone")  # committed, but Spark does not know

    with patch.object(LakeTable, "commit", fail), pytest.raises(LakeError, match="the machine is gone"):
        ingest_journals(spark, lake, journal)
    recorded(10, first=30)
    ingest_journals(spark, lake, journal)
    assert everything(lake) == expected(rows_from(0, 40))


def test_rows_waiting_for_a_long_trigger_are_ingested_on_stop(
    spark: SparkSession, lake: Lake, recorded: Recorded
) -> None:
    ingestion = IngestQuery(spark, [recorded(30)], lake, trigger=3600.0)
    ingestion.start()
    recorded(20, first=30)
    assert ingestion.stop(BOUND)
    assert everything(lake) == expected(rows_from(0, 50))
    assert not Path(ingestion._checkpoint or "").exists()


def test_backlog_is_ingested_in_bounded_batches(spark: SparkSession, lake: Lake, recorded: Recorded) -> None:
    journal = recorded(500, block=50)
    ingestion = IngestQuery(spark, [journal], lake, trigger=None, options={"maxOffsetsPerTrigger": "100"})
    ingestion.start()
    assert ingestion.wait(BOUND)
    progress = ingestion.progress()
    ingestion.stop()
    assert (progress.batches, progress.rows, progress.waiting) == (5, 500, 0)
    assert Journal(journal).committed(ingestion._reader) == 500


def test_second_ingest_query_waits_until_the_first_ends(spark: SparkSession, lake: Lake, recorded: Recorded) -> None:
    journal = recorded(30)
    one, other = (IngestQuery(spark, [journal], Lake(lake.location.address), trigger=0.1) for _ in range(2))
    one.start()
    reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
    waiting = threading.Thread(target=other.start, args=(reasons.put,))
    waiting.start()
    assert reasons.get(timeout=BOUND).startswith("recorder robot is being ingested by pid ")
    one.stop(BOUND)
    waiting.join(BOUND)
    recorded(20, first=30)
    other.stop(BOUND)
    assert everything(lake) == expected(rows_from(0, 50))


def test_ingest_query_that_lost_its_lease_commits_nothing(
    spark: SparkSession, lake: Lake, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = recorded(30)
    monkeypatch.setattr(
        lease, "LEASE_RENEW_INTERVAL_SECONDS", 1.0
    )  # shorter ones may fall into the moment in which it is taken
    one = IngestQuery(spark, [journal], Lake(lake.location.address), trigger=0.1)
    one.start()
    until(lambda: one.progress().rows == 30, BOUND)
    monkeypatch.setattr(lease, "LEASE_EXPIRY_SECONDS", 0.0)  # as if it had not been renewed for long
    other = IngestQuery(spark, [journal], Lake(lake.location.address), trigger=0.1)
    other.start()
    monkeypatch.undo()
    with pytest.raises(WriterFenced, match="recorder 'robot'"):
        until(lambda: one.wait(0.1), BOUND)
    one.abandon()
    recorded(20, first=30)
    other.stop(BOUND)
    assert everything(lake) == expected(rows_from(0, 50))


def test_failure_is_reported_in_one_line_and_retried(
    spark: SparkSession, lake: Lake, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = recorded(30)
    with monkeypatch.context() as full:
        full.setattr(commit_samples, "run_task", full_disk)
        ingestion = IngestQuery(spark, [journal], lake, trigger=0.1, instance="pipeline")
        ingestion.start()
        with pytest.raises(LakeError) as raised:
            until(lambda: ingestion.wait(0.1), BOUND)
        ingestion.abandon()
    assert str(raised.value) == f"{lake.location.address}/samples: No space left on device"
    ingest_journals(spark, lake, journal, instance="pipeline")  # as the pipeline does: it takes over its own leases
    assert everything(lake) == expected(rows_from(0, 30))


def full_disk(*_: object) -> TaskFailure:
    return TaskFailure("No space left on device", False, "")


def test_network_events_are_imported_once(spark: SparkSession, lake: Lake, recorded: Recorded) -> None:
    journal = recorded(1)
    row = {"time": 1, "event": "OPENED", "zid": "a1", "whatami": "peer", "source": "tcp/a", "destination": "tcp/b"}
    for _ in range(2):
        with JournalWriter(journal / SESSIONS, recorder="robot", row_type=SESSIONS) as writer:
            writer.append(pa.RecordBatch.from_pylist([row], schema=SCHEMAS[SESSIONS]))
        ingest_journals(spark, lake, journal)
    found = lake.read(spark, "sessions").orderBy("offset").collect()
    assert [(row.zid, row.event, row.recorder, row.offset) for row in found] == [
        ("a1", "OPENED", "robot", 0),
        ("a1", "OPENED", "robot", 1),
    ]
    assert lake.read(spark, "declarations").count() == 0


def test_usage_error_is_reported_before_start(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs at least one journal"):
        IngestQuery(spark, [], lake)
    ingestion = IngestQuery(spark, [tmp_path / "none"], lake)
    with pytest.raises(NoJournal, match="none: there is no such directory"):
        ingestion.start()
    with pytest.raises(UsageError, match="not started"):
        ingestion.wait()
