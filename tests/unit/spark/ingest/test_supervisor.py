"""The supervisor restarts the ingest process after every failure; here it runs a few lines of Python, not Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.wait import until
from zenspark.spark.ingest import supervisor as supervisor_module
from zenspark.spark.ingest.rotating_log import RotatingLog
from zenspark.spark.ingest.settings import IngestProcessConfig
from zenspark.spark.ingest.supervisor import IngestStatus, IngestSupervisor
from zenspark.spark.ingest.supervisor_state import IngestState

TIMEOUT_SECONDS = 60.0

CHILD = """
import json, sys

def send(**report):
    print(json.dumps(report), flush=True)

config = json.loads(sys.stdin.readline())
print("a stack of Java", file=sys.stderr, flush=True)
print("a library prints something", flush=True)
offset = 0
def ingest():
    global offset
    with open(config["journals"][0]) as file:
        words = file.read().split()
    if "java" in words:
        print('Exception in thread "main" org.apache.spark.SparkException: no such master', file=sys.stderr, flush=True)
        send(type="failed", cause="Java did not start")
        sys.exit(1)
    if "lease" in words:
        send(type="waiting", reason="process 7 ingests recorder robot")
        return
    if "start" in words:
        send(type="failed", cause="the disk is full")
        return
    send(type="started", ui="http://127.0.0.1:4040")
    offset += 10
    send(type="progress", committed_offsets={"robot": offset}, rows=10, batches=1)
ingest()
for line in sys.stdin:
    command = json.loads(line)
    if command["type"] == "restart":
        ingest()
    elif command["type"] == "drain":
        send(type="progress", committed_offsets={"robot": 100}, rows=100, batches=2)
        send(type="drained")
        break
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A file with the faults of the process."""
    file = tmp_path / "plan"
    file.write_text("")
    return file


@pytest.fixture
def supervisor(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IngestSupervisor]:
    """A supervisor that is stopped before anything a test has patched is restored."""
    config = IngestProcessConfig(lake="lake", journals=(str(plan),), instance="x")
    found = IngestSupervisor(config, RotatingLog(tmp_path / "ingest.log"), [sys.executable, "-c", CHILD])
    found.start()
    yield found
    found.stop()
    assert found.status().pid is None or not _exists(found.status().pid)


def _exists(pid: int | None) -> bool:
    try:
        os.kill(pid or 0, 0)
    except ProcessLookupError:
        return False
    return True


def in_state(supervisor: IngestSupervisor, state: IngestState) -> IngestStatus:
    until(lambda: supervisor.status().state is state)
    return supervisor.status()


def stop_process(supervisor: IngestSupervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the process hang; it is killed soon after the supervisor stops it."""
    monkeypatch.setattr(supervisor_module, "EXIT_TIMEOUT_SECONDS", 0.1)
    pid = in_state(supervisor, IngestState.INGESTING).pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)


def test_process_output_is_in_the_log(supervisor: IngestSupervisor, tmp_path: Path) -> None:
    status = in_state(supervisor, IngestState.INGESTING)
    assert (status.rows, status.committed_offsets, status.problem, status.ui) == (
        10,
        {"robot": 10},
        None,
        "http://127.0.0.1:4040",
    )
    assert supervisor.wait_for_attempt(0.0)
    assert supervisor.has_spark_started
    until(lambda: "a stack of Java" in (tmp_path / "ingest.log").read_text())
    assert "a library prints something" in (tmp_path / "ingest.log").read_text()


@pytest.mark.slow
def test_a_process_that_is_killed_is_started_again(supervisor: IngestSupervisor) -> None:
    first = in_state(supervisor, IngestState.INGESTING)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    failed = in_state(supervisor, IngestState.FAILED)
    assert failed.problem is not None
    assert failed.problem.startswith("ingestion failed: ingest process was killed by signal 9; retry in ")
    again = in_state(supervisor, IngestState.INGESTING)
    assert again.pid not in (None, first.pid)
    assert again.cause is None  # a batch was committed


def test_a_wait_for_a_lease_is_not_logged_as_a_failure(
    plan: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan.write_text("lease")
    config = IngestProcessConfig(lake="lake", journals=(str(plan),), instance="x")
    supervisor = IngestSupervisor(config, RotatingLog(tmp_path / "ingest.log"), [sys.executable, "-c", CHILD])
    supervisor.start()
    in_state(supervisor, IngestState.WAITING)
    supervisor.stop()
    assert caplog.messages == ["lake: ingestion waits: process 7 ingests recorder robot"]


@pytest.mark.slow
def test_a_failure_is_tried_again_in_the_same_process(supervisor: IngestSupervisor, plan: Path) -> None:
    first = in_state(supervisor, IngestState.INGESTING)
    plan.write_text("start")
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: supervisor.status().cause == "the disk is full")
    failed = supervisor.status()
    plan.write_text("")
    again = in_state(supervisor, IngestState.INGESTING)
    assert again.pid == failed.pid


@pytest.mark.slow
def test_java_output_is_the_cause_if_spark_does_not_start(plan: Path, supervisor: IngestSupervisor) -> None:
    first = in_state(supervisor, IngestState.INGESTING)
    plan.write_text("java")
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: supervisor.status().cause == "no such master")


def test_drain_ingests_everything_and_ends(supervisor: IngestSupervisor) -> None:
    in_state(supervisor, IngestState.INGESTING)
    assert supervisor.drain(30.0)
    assert supervisor.status().rows == 100
    assert supervisor.status().state is IngestState.ENDED


@pytest.mark.slow
def test_drain_times_out(supervisor: IngestSupervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_process(supervisor, monkeypatch)
    assert not supervisor.drain(0.2)


def test_waiting_for_spark_takes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that starts the process holds the lock: a signal while another one takes it would leave it locked."""
    is_starting, is_done = threading.Event(), threading.Event()

    def start_slowly(*_args: object, **_options: object) -> NoReturn:
        is_starting.set()
        is_done.wait(5)
        raise OSError("it was slow")

    monkeypatch.setattr(subprocess, "Popen", start_slowly)
    config = IngestProcessConfig(lake="lake", journals=("journal",), instance="x")
    slow = IngestSupervisor(config, RotatingLog(tmp_path / "ingest.log"))
    slow.start()
    assert is_starting.wait(TIMEOUT_SECONDS)
    assert not slow.wait_for_attempt(0.05)
    is_done.set()
    assert slow.wait_for_attempt(TIMEOUT_SECONDS)
    slow.stop()


def test_second_start_changes_nothing(supervisor: IngestSupervisor) -> None:
    pid = in_state(supervisor, IngestState.INGESTING).pid
    supervisor.start()
    assert supervisor.status().pid == pid


def test_failed_spawn_is_reported_in_the_status(tmp_path: Path) -> None:
    config = IngestProcessConfig(lake="lake", journals=(), instance="x")
    supervisor = IngestSupervisor(config, RotatingLog(tmp_path / "log"), [str(tmp_path / "nothing")])
    supervisor.start()
    status = in_state(supervisor, IngestState.FAILED)
    assert "could not be started" in (status.cause or "")
    assert supervisor.wait_for_attempt(0.0)
    assert not supervisor.has_spark_started
    supervisor.stop()
