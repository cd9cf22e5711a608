from __future__ import annotations

import json

import msgspec
import pytest

from zenspark.spark.ingest.supervisor import IngestStatus
from zenspark.spark.ingest.supervisor_state import IngestState
from zenspark.spark.pipeline.backlog import Backlog
from zenspark.spark.pipeline.status import JobStatus, Losses, RateMeter, format_metrics, to_document


def ingest_status(**given: object) -> IngestStatus:
    """Make an ingest status without problems, except for the given fields."""
    usual = IngestStatus(
        lake="lake",
        state=IngestState.INGESTING,
        cause=None,
        retry_seconds=None,
        rows=7,
        bytes=100,
        batch_seconds=0.5,
        running_seconds=None,
        committed_offsets={"robot": 7},
        quarantined=0,
        duplicates=0,
        lost=0,
        maintenance=None,
        pid=1,
        ui=None,
        log="log",
    )
    return msgspec.structs.replace(usual, **given)


def test_rate_is_averaged_over_the_window_and_0_after_a_window_without_rows() -> None:
    meter = RateMeter(5.0)
    assert meter.rate() == 0.0
    for second in range(20):
        meter.add(float(second), 100 * second)
    assert meter.rate() == pytest.approx(100.0)
    for second in range(20, 26):
        meter.add(float(second), 1900)
    assert meter.rate() == 0.0


def test_rate_before_the_window_is_full_is_averaged_over_elapsed_seconds() -> None:
    meter = RateMeter(5.0)
    meter.add(0.0, 0)
    meter.add(0.5, 100)
    assert meter.rate() == pytest.approx(200.0)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, None),
        (
            {"state": IngestState.FAILED, "cause": "no space", "retry_seconds": 7.6},
            "ingestion failed: no space; retry in 8 s",
        ),
        ({"state": IngestState.WAITING, "cause": "recorder x is being ingested"}, "recorder x is being ingested"),
        ({"state": IngestState.STARTING}, None),
        ({"state": IngestState.STARTING, "cause": "no space"}, "ingestion restarts after: no space"),
        ({"maintenance": "refresh: no space"}, "table maintenance failed: refresh: no space"),
    ],
)
def test_ingest_status_formats_its_problem(given: dict[str, object], problem: str | None) -> None:
    assert ingest_status(**given).problem == problem
    assert JobStatus(ingestions=(ingest_status(), ingest_status(**given))).problem == problem


def test_recording_problem_comes_first() -> None:
    failed = ingest_status(state=IngestState.FAILED, cause="x", retry_seconds=1.0)
    assert (
        JobStatus(recording="the disk is full", ingestions=(failed,)).problem == f"the disk is full; {failed.problem}"
    )


def test_running_batch_counts_in_batch_seconds() -> None:
    assert JobStatus().batch_seconds is None
    assert JobStatus(ingestions=(ingest_status(), ingest_status(running_seconds=90.0))).batch_seconds == 90.0


def test_losses_are_added_up() -> None:
    assert Losses({"interrupted": 3, "sequence_gap": 2}, 5, 1).total == 11


def test_status_document_is_json_with_backlog_problem_and_ingestions() -> None:
    status = JobStatus(recorded=5, waiting=Backlog(3, 1.5), ingestions=(ingest_status(),))
    found = json.loads(json.dumps(to_document(status)))
    assert (found["recorded"], found["waiting"], found["problem"]) == (5, {"rows": 3, "seconds": 1.5}, None)
    assert found["ingestions"][0]["state"] == "ingesting"


def test_metrics_are_openmetrics_text() -> None:
    status = JobStatus(
        recorded=5,
        waiting=Backlog(3, 1.5),
        lost=Losses({"interrupted": 3}),
        ingestions=(ingest_status(lake='a"b'), ingest_status(lake="c", state=IngestState.FAILED)),
    )
    lines = list(format_metrics(status))
    assert "zenspark_recorded_rows_total 5" in lines
    assert "zenspark_lag_seconds 1.5" in lines
    assert 'zenspark_ingested_rows_total{lake="a\\"b"} 7' in lines
    assert 'zenspark_ingestion_up{lake="c"} 0' in lines
    assert 'zenspark_lost_rows_total{reason="interrupted"} 3' in lines
    assert lines.count("# TYPE zenspark_lag_seconds gauge") == 1
    assert lines[-1] == "# EOF"
