"""Status line of `zenspark up`. `tests/spark` runs the loop."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.interop.reference import ours
from tests.unit.journal.rows import counted
from tests.unit.spark.pipeline.test_status import ingest_status
from zenspark.cli import up, up_run
from zenspark.cli.http_flags import parse_http
from zenspark.cli.ingest_flags import RunTiming
from zenspark.cli.up_run import RunLoop, count_earlier_rows, format_query_hint, status_parts
from zenspark.journal import JournalWriter
from zenspark.spark.ingest.supervisor_state import IngestState
from zenspark.spark.pipeline.backlog import Backlog
from zenspark.spark.pipeline.job import Job
from zenspark.spark.pipeline.status import JobStatus, Losses
from zenspark.storage.settings import StorageSettings


def format_status(status: JobStatus) -> str:
    return " | ".join(part if isinstance(part, str) else part[0] for part in status_parts(status))


def test_rows_of_earlier_runs_are_counted(tmp_path: Path) -> None:
    assert count_earlier_rows(tmp_path / "j") == 0
    with JournalWriter(tmp_path / "j") as writer:
        writer.append(counted(0, 20))
    assert count_earlier_rows(tmp_path / "j") == 20


def test_status_line_has_rates_backlog_lag_and_losses() -> None:
    assert (
        format_status(JobStatus())
        == "0 rows/s recorded | 0 rows ingested | 0 waiting | lag 0.0 s | no batch yet | 0 keys"
    )
    some = JobStatus(
        recorded_rate=12_345.6,
        ingested=4,
        waiting=Backlog(1, 0.84),
        keys=3,
        lost=Losses({"interrupted": 2}),
        quarantined=100,
        ingestions=(ingest_status(batch_seconds=0.25),),
    )
    assert format_status(some) == (
        "12.3 k rows/s recorded | 4 rows ingested | 1 waiting | lag 0.8 s | last batch 0.25 s | 3 keys | 2 lost"
        " | 100 quarantined"
    )


def test_problem_comes_first_in_the_status_line() -> None:
    failed = ingest_status(state=IngestState.FAILED, cause="the disk is full", retry_seconds=8.0)
    line = format_status(JobStatus(ingestions=(failed,)))
    assert line.startswith("ingestion failed: the disk is full; retry in 8 s | 0 rows/s recorded | ")
    assert format_status(JobStatus(ingestions=(ingest_status(state=IngestState.STARTING),))).startswith(
        "starting Spark | 0 rows/s recorded"
    )


def test_status_is_starting_ingestion_if_spark_has_started() -> None:
    status = JobStatus(ingestions=(ingest_status(state=IngestState.STARTING),))
    parts = status_parts(status, has_spark=True)
    assert parts[0] == "starting ingestion"


def test_query_hint_has_the_path_of_a_command_outside_of_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "zenspark").touch()
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    (line,) = [line for line in format_query_hint("demo") if "sql" in line]
    assert line == '  bin/zenspark sql --lake demo "select key, count(*) from samples group by key"'


def test_ingestion_rate_is_shown_with_a_large_backlog() -> None:
    line = format_status(JobStatus(ingested_rate=450_000.0, waiting=Backlog(12_000_000, 60.0)))
    assert "12000000 waiting | lag 60.0 s | ingesting 450 k rows/s" in line


def test_connections_are_behind_the_problem_and_red_if_one_is_missing() -> None:
    failed = ingest_status(state=IngestState.FAILED, cause="the disk is full", retry_seconds=8.0)
    parts = status_parts(JobStatus(ingestions=(failed,)), ("connected 0 of 1", "bold red"))
    assert [part[1] for part in parts[:2]] == ["bold red", "bold red"]
    assert parts[1] == ("connected 0 of 1", "bold red")


@pytest.mark.slow
def test_open_shows_the_page_without_the_demo_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(up_run, "open_page", opened.append)
    storage = StorageSettings(name="a", key_exprs=("a/**",), journal=tmp_path / "j")
    args = up.parser().parse_args(["--open", "--http", "127.0.0.1:0", "--quiet"])
    with closing(Job(ours(mode="peer"), [storage])) as job:
        loop = RunLoop(job, args, {}, parse_http(args, default=None))
        assert loop.run(RunTiming(run_seconds=0.0, stop_seconds=0.0)) == 0
    assert [url.startswith("http://127.0.0.1:") for url in opened] == [True]
