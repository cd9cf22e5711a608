"""Command line and status line of `zenspark up`. `tests/spark` runs it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.unit.spark.pipeline.test_status import ingest_status
from zenspark.cli import main, up
from zenspark.spark.ingest.supervision import IngestState
from zenspark.spark.pipeline.backlog import Backlog
from zenspark.spark.pipeline.status import JobStatus, Losses


def meant(*arguments: str) -> dict[str, object]:
    config = up._configuration(up._parser().parse_args(arguments))
    keys = ("mode", "listen/endpoints", "connect/endpoints", "adminspace/enabled", "scouting/multicast/enabled")
    return {key: json.loads(config.get_json(key)) for key in keys}


def test_without_flags_it_is_a_router_on_the_usual_port() -> None:
    assert meant()["mode"] == "router"
    config = up._configuration(up._parser().parse_args([]))
    assert config.settings().listen.endpoints == ("tcp/[::]:7447",)
    assert meant()["adminspace/enabled"] is True


def test_to_connect_is_to_be_a_client_unless_it_listens_or_says_otherwise() -> None:
    assert meant("-e", "tcp/127.0.0.1:1")["mode"] == "client"
    assert meant("-e", "tcp/127.0.0.1:1", "-l", "tcp/127.0.0.1:2")["mode"] == "router"
    assert meant("-e", "tcp/127.0.0.1:1", "-m", "peer")["mode"] == "peer"


def test_the_demo_stays_on_loopback_and_takes_another_port_if_it_must(capsys: pytest.CaptureFixture[str]) -> None:
    found = meant("--demo")
    assert found["scouting/multicast/enabled"] is False
    assert str(found["listen/endpoints"]).startswith("['tcp/127.0.0.1:")
    assert meant("--demo", "-l", "tcp/127.0.0.1:5")["listen/endpoints"] == ["tcp/127.0.0.1:5"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        capsys.readouterr()
        assert up.pick_demo_endpoint(port) == "tcp/127.0.0.1:0"
        assert f"port {port} is in use" in capsys.readouterr().out
    assert up.pick_demo_endpoint(port) == f"tcp/127.0.0.1:{port}"


def test_keys_lake_and_journal() -> None:
    given = up._parser().parse_args(["--key", "a/**", "--key", "a/b", "--key", "c", "--lake", "l", "--complete"])
    (own,) = up._default_storage(given, has_others=True)
    assert (own.key_exprs, own.complete) == (("a/**", "c"), True)
    assert (own.lake, own.journal) == ("l", Path("l/_journal"))
    given = up._parser().parse_args(["--journal", "j"])
    (own,) = up._default_storage(given, has_others=False)
    assert (own.key_exprs, own.lake, own.journal) == (("**",), "lake", Path("j"))
    given = up._parser().parse_args(["--lake", "s3://bucket/lake"])
    (own,) = up._default_storage(given, has_others=False)
    assert (own.lake, own.journal) == ("s3://bucket/lake", Path("journal"))
    given = up._parser().parse_args(["--journal", "j"])
    assert up._default_storage(given, has_others=True) == []


def test_a_line_of_status() -> None:
    assert (
        up.format_status(JobStatus())
        == "0 messages/s | 0 rows ingested | 0 waiting | lag 0.0 s | no batch yet | 0 keys"
    )
    some = JobStatus(
        recorded_rate=12_345.6,
        landed=4,
        waiting=Backlog(1, 0.84),
        keys=3,
        lost=Losses({"interrupted": 2}),
        quarantined=100,
        landings=(ingest_status(batch_seconds=0.25),),
    )
    assert up.format_status(some) == (
        "12.3 k messages/s | 4 rows ingested | 1 waiting | lag 0.8 s | last batch 0.25 s | 3 keys | 2 lost"
        " | 100 quarantined"
    )


def test_problem_comes_first_in_the_status_line() -> None:
    failed = ingest_status(state=IngestState.FAILED, cause="the disk is full", retry_seconds=8.0)
    line = up.format_status(JobStatus(landings=(failed,)))
    assert line.startswith("ingestion failed: the disk is full; retry in 8 s | 0 messages/s | ")
    assert up.format_status(JobStatus(landings=(ingest_status(state=IngestState.STARTING),))).startswith(
        "starting Spark | 0 messages/s"
    )


def test_ingestion_rate_is_shown_with_a_large_backlog() -> None:
    line = up.format_status(JobStatus(landed_rate=450_000.0, waiting=Backlog(12_000_000, 60.0)))
    assert "12000000 waiting | lag 60.0 s | ingesting 450 k rows/s" in line


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--key", "a//b"], "a//b"),
        (["--for", "soon"], "soon"),
        (["--fsync", "maybe"], "maybe"),
        (["--conf", "x"], "--conf"),
        (["--stop-timeout", "soon"], "--stop-timeout"),
        (["--demo", "-e", "tcp/127.0.0.1:1", "-m", "peer", "--cfg", "listen/endpoints:[]"], "--demo"),
        (["-c", "none.json5"], "none.json5"),
        (["-l", "tcp/127.0.0.1"], "tcp/127.0.0.1"),
    ],
)
def test_usage_error_is_reported_in_one_line(
    arguments: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--no-multicast-scouting", "--lake", str(tmp_path / "lake"), *arguments]) == 2
    told = capsys.readouterr().err
    assert told.startswith("zenspark up: ")
    assert problem in told
    assert told.count("\n") == 1


def test_port_in_use_is_reported_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        assert main(["up", "--no-multicast-scouting", "--lake", str(tmp_path / "lake"), "-l", endpoint]) == 2
    told = capsys.readouterr().err
    assert endpoint in told
    assert told.count("\n") == 1
