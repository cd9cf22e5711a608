from __future__ import annotations

import json

import msgspec
import pytest

from zenspark.spark.ingest.supervision import State
from zenspark.spark.ingest.supervisor import LandingStatus
from zenspark.spark.pipeline.backlog import Backlog
from zenspark.spark.pipeline.status import JobStatus, Losses, RateMeter, as_document, metric_lines


def landing(**given: object) -> LandingStatus:
    """A landing that is fine, but for what is given."""
    usual = LandingStatus(
        lake="lake",
        state=State.LANDING,
        cause=None,
        retry_seconds=None,
        rows=7,
        bytes=100,
        batch_seconds=0.5,
        running_seconds=None,
        reached={"robot": 7},
        quarantined=0,
        duplicates=0,
        lost=0,
        maintenance=None,
        pid=1,
        ui=None,
        log="log",
    )
    return msgspec.structs.replace(usual, **given)


def test_a_rate_is_that_of_the_last_seconds_and_falls_to_nothing_in_silence() -> None:
    meter = RateMeter(5.0)
    assert meter.rate() == 0.0
    for second in range(20):
        meter.add(float(second), 100 * second)
    assert meter.rate() == pytest.approx(100.0)
    for second in range(20, 26):
        meter.add(float(second), 1900)
    assert meter.rate() == 0.0


def test_a_rate_over_fewer_seconds_is_that_of_these() -> None:
    meter = RateMeter(5.0)
    meter.add(0.0, 0)
    meter.add(0.5, 100)
    assert meter.rate() == pytest.approx(200.0)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, None),
        (
            {"state": State.FAILED, "cause": "no space", "retry_seconds": 7.6},
            "landing failed: no space; retry in 8 s",
        ),
        ({"state": State.WAITING, "cause": "recorder x is being landed"}, "recorder x is being landed"),
        ({"state": State.STARTING}, None),
        ({"state": State.STARTING, "cause": "no space"}, "landing starts again after: no space"),
        ({"maintenance": "refresh: no space"}, "tables are not refreshed: refresh: no space"),
    ],
)
def test_a_landing_says_what_is_wrong(given: dict[str, object], problem: str | None) -> None:
    assert landing(**given).problem == problem
    assert JobStatus(landings=(landing(), landing(**given))).problem == problem


def test_recording_is_more_important_than_landing() -> None:
    failed = landing(state=State.FAILED, cause="x", retry_seconds=1.0)
    assert JobStatus(recording="the disk is full", landings=(failed,)).problem == f"the disk is full; {failed.problem}"


def test_a_batch_that_takes_long_is_seen_before_it_ends() -> None:
    assert JobStatus().batch_seconds is None
    assert JobStatus(landings=(landing(), landing(running_seconds=90.0))).batch_seconds == 90.0


def test_losses_are_added_up() -> None:
    assert Losses({"interrupted": 3, "sequence_gap": 2}, 5, 1).total == 11


def test_the_document_is_json_and_has_all_of_it() -> None:
    status = JobStatus(recorded=5, waiting=Backlog(3, 1.5), landings=(landing(),))
    found = json.loads(json.dumps(as_document(status)))
    assert (found["recorded"], found["waiting"], found["problem"]) == (5, {"rows": 3, "seconds": 1.5}, None)
    assert found["landings"][0]["state"] == "landing"


def test_metrics_are_openmetrics_text() -> None:
    status = JobStatus(
        recorded=5,
        waiting=Backlog(3, 1.5),
        lost=Losses({"interrupted": 3}),
        landings=(landing(lake='a"b'), landing(lake="c", state=State.FAILED)),
    )
    lines = list(metric_lines(status))
    assert "zenspark_recorded_rows_total 5" in lines
    assert "zenspark_lag_seconds 1.5" in lines
    assert 'zenspark_landed_rows_total{lake="a\\"b"} 7' in lines
    assert 'zenspark_landing_up{lake="c"} 0' in lines
    assert 'zenspark_lost_rows_total{reason="interrupted"} 3' in lines
    assert lines.count("# TYPE zenspark_lag_seconds gauge") == 1
    assert lines[-1] == "# EOF"
