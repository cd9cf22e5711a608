from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import zenspark
from tests.interop.reference import eventually, ours, unused
from tests.unit.spark.pipeline.test_status import ingest_status
from tests.wait import TIMEOUT_SECONDS
from zenspark.journal import Journal
from zenspark.lake.reader_name import reader_name
from zenspark.spark.ingest.supervisor import IngestStatus
from zenspark.spark.ingest.supervisor_state import IngestState
from zenspark.spark.pipeline.job import Job, JobEnded
from zenspark.storage.settings import StorageSettings


class FakeSupervisor:
    """An ingest supervisor with a given status."""

    def __init__(self, status: IngestStatus, drains: bool = True) -> None:
        self.reported = status
        self.drains = drains
        self.drained = self.stopped = 0

    def status(self) -> IngestStatus:
        return self.reported

    def drain(self, timeout: float) -> bool:
        self.drained += 1
        if self.drains:
            self.reported = msgspec.structs.replace(
                self.reported, committed_offsets=dict.fromkeys(self.reported.committed_offsets, 100)
            )
        return self.drains

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    lake, other = str(tmp_path / "lake"), str(tmp_path / "other")
    settings = [
        StorageSettings(name="a", key_exprs=("a/**",), journal=tmp_path / "j", lake=lake),
        StorageSettings(name="b", key_exprs=("b/**",), journal=tmp_path / "j", lake=lake),
        StorageSettings(name="c", key_exprs=("c/**",), journal=tmp_path / "k"),
        StorageSettings(name="d", key_exprs=("d/**",), journal=tmp_path / "l", lake=other, record=False),
    ]
    made = Job(ours(mode="peer"), settings)
    yield made
    made.close()


def recorded(job: Job, rows: int) -> str:
    """Wait for so many rows. Returns the recorder name of the journal that is ingested."""
    job.record()
    for number in range(rows):
        job.session.put(f"a/{number % 10}", str(number))
    journal = Journal(job.storages.settings[0].journal)
    assert eventually(lambda: journal.latest() == rows)
    return journal.recorder


def test_each_lake_gets_the_journals_that_are_recorded_for_it(job: Job, tmp_path: Path) -> None:
    assert job._journals() == {str(tmp_path / "lake"): [tmp_path / "j"]}


@pytest.mark.slow
def test_job_records_replies_and_drains(job: Job) -> None:
    recorded(job, 100)
    job.check()
    assert eventually(lambda: job.status().keys == 10)
    assert len(list(job.session.get("a/*"))) == 10
    assert not job.drain(0.0)  # nothing ingests it
    assert job.status().recorded == job.status().waiting.rows == 100
    with pytest.raises(JobEnded, match="recording"):
        job.check()


@pytest.mark.slow
def test_client_connecting_before_recording_starts_loses_no_publications(tmp_path: Path) -> None:
    endpoint = unused()
    settings = [StorageSettings(name="a", key_exprs=("**",), journal=tmp_path / "j")]
    with (
        closing(Job(ours(mode="router", listen__endpoints=[endpoint]), settings)) as job,
        ThreadPoolExecutor() as threads,
    ):
        early = threads.submit(zenspark.open, ours(mode="client", connect__endpoints=[endpoint]))
        wait([early], 0.5)  # long enough to connect, if the job accepted it
        publishing = threads.submit(publish_ten, early)
        job.record()
        publishing.result(TIMEOUT_SECONDS)
        assert eventually(lambda: Journal(tmp_path / "j").latest() == 10)


def publish_ten(opening: Future[zenspark.Session]) -> None:
    with opening.result(TIMEOUT_SECONDS) as session:
        for number in range(10):
            session.put(f"a/{number}", str(number))


@pytest.mark.slow
def test_journal_keeps_rows_not_ingested(job: Job, tmp_path: Path) -> None:
    recorded(job, 10)
    reader = reader_name(str(tmp_path / "lake"))
    assert Journal(tmp_path / "j").committed(reader) == 0
    Journal(tmp_path / "j").commit(reader, 7)
    job._attach()
    assert Journal(tmp_path / "j").committed(reader) == 7


@pytest.mark.slow
def test_status_backlog_follows_committed_offsets_and_lag_grows(job: Job, tmp_path: Path) -> None:
    name = recorded(job, 100)
    lake = str(tmp_path / "lake")
    job.supervisors = {lake: FakeSupervisor(ingest_status(lake=lake, state=IngestState.STARTING, committed_offsets={}))}  # type: ignore[dict-item]
    waiting = job.status().waiting
    assert waiting.rows == 100
    assert eventually(lambda: job.status().waiting.seconds > waiting.seconds)
    job.supervisors = {lake: FakeSupervisor(ingest_status(lake=lake, committed_offsets={name: 60}))}  # type: ignore[dict-item]
    assert job.status().waiting.rows == 40
    job.supervisors = {lake: FakeSupervisor(ingest_status(lake=lake, committed_offsets={name: 100}))}  # type: ignore[dict-item]
    assert (job.status().waiting.rows, job.status().waiting.seconds) == (0, 0.0)


@pytest.mark.slow
def test_failed_ingestion_does_not_end_the_job(job: Job, tmp_path: Path) -> None:
    name = recorded(job, 100)
    lake = str(tmp_path / "lake")
    failed = ingest_status(
        lake=lake, state=IngestState.FAILED, cause="no space", retry_seconds=5.0, committed_offsets={name: 60}, lost=3
    )
    found = FakeSupervisor(failed, drains=False)
    job.supervisors = {lake: found}  # type: ignore[dict-item]
    job.check()
    status = job.status()
    assert (status.problem, status.lost.trimmed) == ("ingestion failed: no space; retry in 5 s", 3)
    assert not job.drain(0.0)
    assert found.drained == 1


@pytest.mark.slow
def test_drain_ends_when_everything_is_ingested(job: Job, tmp_path: Path) -> None:
    name = recorded(job, 100)
    lake = str(tmp_path / "lake")
    found = FakeSupervisor(ingest_status(lake=lake, committed_offsets={name: 60}))
    job.supervisors = {lake: found}  # type: ignore[dict-item]
    assert job.drain(1.0)
    assert found.drained == 1


def test_drain_does_not_wait_for_spark_without_backlog(job: Job, tmp_path: Path) -> None:
    recorded(job, 0)
    lake = str(tmp_path / "lake")
    found = FakeSupervisor(ingest_status(lake=lake, state=IngestState.STARTING, committed_offsets={}))
    job.supervisors = {lake: found}  # type: ignore[dict-item]
    assert job.drain(60.0)
    assert found.drained == 0


def test_ingest_log_is_beside_the_journal(job: Job, tmp_path: Path) -> None:
    assert job._log_file(tmp_path / "j") == tmp_path / "j" / "_logs" / "ingest.log"
    first = str(tmp_path / "j" / "_logs" / "ingest.log")
    job.supervisors = {"x": FakeSupervisor(ingest_status(log=first))}  # type: ignore[dict-item]
    assert job._log_file(tmp_path / "j") == tmp_path / "j" / "_logs" / "ingest-2.log"


@pytest.mark.slow
def test_the_status_is_in_the_admin_space(job: Job) -> None:
    recorded(job, 10)
    root = f"@/{job.session.zid()}/peer/zenspark"
    (reply,) = job.session.get(f"{root}/status")
    assert reply.ok is not None
    assert json.loads(reply.ok.payload.to_bytes())["recorded"] == 10


@pytest.mark.slow
def test_importing_up_command_loads_neither_pyspark_nor_py4j() -> None:
    code = "import sys, zenspark.cli.up; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
