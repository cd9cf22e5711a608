"""What is wrong before Spark is needed; tests/spark/test_lake_ingest.py tests the rest."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.spark.journaled import journal
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import LakeError, UsageError
from zenspark.journal import Journal
from zenspark.lake.lease import LeaseKeeper
from zenspark.spark.ingest import ingest_query
from zenspark.spark.ingest.commit_samples import BatchResult
from zenspark.spark.ingest.ingest_query import IngestQuery
from zenspark.spark.lake import Lake

NO_SPARK: Any = None


class Connected:
    """A session that looks like one of Spark Connect."""


Connected.__module__ = "pyspark.sql.connect.session"


def test_ingest_query_needs_a_journal_and_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs at least one journal"):
        IngestQuery(NO_SPARK, [], Lake(tmp_path))
    with pytest.raises(UsageError, match="not started"):
        IngestQuery(NO_SPARK, [tmp_path / "journal"], Lake(tmp_path)).wait()
    assert not IngestQuery(NO_SPARK, [tmp_path / "journal"], Lake(tmp_path)).stop()


def test_spark_connect_is_refused_in_one_sentence(tmp_path: Path) -> None:
    connected: Any = Connected()
    with pytest.raises(UsageError, match=r"needs a driver with a JVM.*spark://host:7077"):
        IngestQuery(connected, [tmp_path / "journal"], Lake(tmp_path))


def test_second_ingest_query_of_a_journal_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_query, "LEASE_RETRY_INTERVAL_SECONDS", 0.01)
    lake = Lake(tmp_path / "lake")
    other = LeaseKeeper(lake.location, ["robot"], "other")
    assert other.acquire() is None
    query = IngestQuery(NO_SPARK, [journal(tmp_path / "j", 1)], lake)
    is_waiting = threading.Event()
    reasons: list[str] = []

    def on_wait(reason: str) -> None:
        reasons.append(reason)
        is_waiting.set()

    waiting = threading.Thread(target=query.start, args=(on_wait,))
    waiting.start()
    assert is_waiting.wait(30)
    assert not query.stop()
    waiting.join(30)
    assert not waiting.is_alive()
    assert len(reasons) == 1
    assert reasons[0].startswith("recorder robot is being ingested by pid ")
    assert reasons[0].endswith("; waiting")


def test_start_offsets_are_the_committed_offsets_of_the_lake(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    query = IngestQuery(NO_SPARK, [path], Lake(tmp_path / "lake"))
    query._counts.offsets = {"robot": 40}
    assert query._start_offsets() == {"robot": 40}
    query._counts.offsets = {"robot": 101}
    with pytest.raises(LakeError, match=r"below offset 101, but its journal .* ends at 100"):
        query._start_offsets()


def test_committed_batch_is_committed_to_the_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = journal(tmp_path / "j", 100)
    query = IngestQuery(NO_SPARK, [path], Lake(tmp_path / "lake"))
    query._add_result(BatchResult(0, 50, 10, None, {"robot": 60}, quarantined=7, lost={"robot": 3}), 0.5)
    assert Journal(path).committed(query._reader) == 60
    counts = query._counts
    assert (counts.rows, counts.quarantined, counts.lost, counts.offsets) == (50, 7, 3, {"robot": 60})
    lost = "lost 3 rows of recorder robot: its journal trimmed them before ingestion; let it retain more"
    assert caplog.messages == [f"{tmp_path / 'lake'}: {lost}"]


def test_trigger_is_given_in_seconds_or_as_spark_interval(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert IngestQuery(NO_SPARK, ["j"], lake, trigger=0.25)._trigger == "250 milliseconds"
    assert IngestQuery(NO_SPARK, ["j"], lake, trigger="1 minute")._trigger == "1 minute"
    assert IngestQuery(NO_SPARK, ["j"], lake, trigger=None)._trigger is None


class StoppedDuringABatch:
    """A streaming query that begins a batch while it is stopped; like that of Spark, `stop` waits for the batch."""

    def __init__(self, ingestion: IngestQuery) -> None:
        self._ingestion = ingestion
        self._batch = threading.Thread(target=self._run, daemon=True)
        self.error: Exception | None = None
        self.has_stopped = False

    def _run(self) -> None:
        no_rows: Any = None
        try:
            self._ingestion._ingest_batch(no_rows, 0)
        except LakeError as error:
            self.error = error

    def stop(self) -> None:
        self._batch.start()
        self._batch.join(TIMEOUT_SECONDS)
        self.has_stopped = not self._batch.is_alive()

    def awaitTermination(self, timeout: float | None = None) -> bool:
        assert self.error is not None
        raise RuntimeError(str(self.error))

    def exception(self) -> Exception | None:
        return None if self.error is None else RuntimeError(str(self.error))


def test_a_batch_that_begins_while_the_query_is_stopped_fails_so_that_spark_does_not_commit_it(tmp_path: Path) -> None:
    ingestion = IngestQuery(NO_SPARK, [journal(tmp_path / "j", 1)], Lake(tmp_path / "lake"))
    query: Any = StoppedDuringABatch(ingestion)
    ingestion._query = query
    ingestion.abandon()
    assert query.has_stopped
    assert "is being stopped" in str(query.error)
    assert (ingestion._failure, ingestion.progress().batches) == (None, 0)


def test_a_stop_that_refuses_a_batch_is_no_failure_of_the_query(tmp_path: Path) -> None:
    """Neither for another thread that waits for the query, nor for a second stop."""
    ingestion = IngestQuery(NO_SPARK, [journal(tmp_path / "j", 1)], Lake(tmp_path / "lake"))
    query: Any = StoppedDuringABatch(ingestion)
    ingestion._query = query
    ingestion.abandon()
    assert ingestion.wait()
    ingestion._check_failure()


def test_a_failed_query_raises_its_error_also_when_it_was_stopped(tmp_path: Path) -> None:
    ingestion = IngestQuery(NO_SPARK, [journal(tmp_path / "j", 1)], Lake(tmp_path / "lake"))
    query: Any = StoppedDuringABatch(ingestion)
    ingestion._query = query
    ingestion._failure = LakeError("lake", "no space")
    ingestion.abandon()
    for check in (ingestion.wait, ingestion._check_failure):
        with pytest.raises(LakeError, match="no space"):
            check()
