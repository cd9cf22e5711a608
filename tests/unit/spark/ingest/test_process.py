"""Reports and commands of the ingest process, without Spark; tests/spark runs it unchanged."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any, NoReturn

import msgspec
import pytest

from tests.wait import until
from zenspark.errors import LakeError
from zenspark.spark.ingest import process
from zenspark.spark.ingest.commit_samples import WriterFenced
from zenspark.spark.ingest.ingest_query import IngestProgress
from zenspark.spark.ingest.process import IngestProcess
from zenspark.spark.ingest.process_protocol import (
    Command,
    Drain,
    Drained,
    Failed,
    ProgressReport,
    Report,
    RestartQuery,
    Started,
    Waiting,
    decode_report,
    encode_line,
)
from zenspark.spark.ingest.settings import IngestProcessConfig

TIMEOUT_SECONDS = 30.0
EVENTS = (Started, Waiting, Failed, Drained)
"""Reports that are not sent again and again."""


class Exited(BaseException):
    """Instead of the end of the process."""


class Spark:
    """As much of Spark as the process itself uses."""

    def __init__(self) -> None:
        self.sparkContext: Any = self
        self.uiWebUrl = "http://127.0.0.1:4040"
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


class Plan:
    """The behaviour of successive ingest queries."""

    def __init__(self) -> None:
        self.starts: queue.SimpleQueue[Exception | str] = queue.SimpleQueue()
        """How each of them starts: with an error, by waiting for a reason, or at once."""
        self.failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        """What ends those that have started."""
        self.made: list[dict[str, Any]] = []
        self.abandoned = 0
        self.drained = 0

    def make_query(self, *_: object, **given: object) -> FakeQuery:
        self.made.append(given)
        return FakeQuery(self)


class FakeQuery:
    """A fake ingest query that follows the plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def start(self, on_wait: Callable[[str], None], on_batch: Callable[[], None]) -> None:
        act = self._plan.starts.get(timeout=TIMEOUT_SECONDS)
        if isinstance(act, Exception):
            raise act
        if act != "start":
            on_wait(act)
        on_batch()

    def wait(self, timeout: float) -> bool:
        try:
            failure = self._plan.failures.get(timeout=0.01)
        except queue.Empty:
            return False
        raise failure

    def stop(self, timeout: float) -> bool:
        self._plan.drained += 1
        return True

    def abandon(self) -> None:
        self._plan.abandoned += 1

    def progress(self) -> IngestProgress:
        return IngestProgress(7, 100, 2, 0.5, None, None, {"robot": 10}, 3, 1, 1, 1, None)


class Running:
    """The process in a thread, and both ends of its pipes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan = Plan()
        self.spark = Spark()
        self.code: int | None = None
        self.has_java = True
        commands, self.commands = os.pipe()
        reports, written = os.pipe()
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        monkeypatch.setattr(process, "IngestQuery", self.plan.make_query)
        monkeypatch.setattr(process, "_exit", self._exit)
        monkeypatch.setattr(IngestProcess, "_start_spark", lambda _: self.spark)
        monkeypatch.setattr(IngestProcess, "_has_java", lambda _: self.has_java)
        config = IngestProcessConfig(lake="lake", journals=("j",), instance="x")
        self._written: IO[bytes] = os.fdopen(written, "wb")
        self._command_pipe = os.fdopen(commands, "rb")
        self.process = IngestProcess(config, self._command_pipe, self._written)
        self._threads = [
            threading.Thread(target=self._run),
            threading.Thread(target=self._read, args=(os.fdopen(reports, "rb"),)),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _exit(self, code: int) -> NoReturn:
        self.code = code if self.code is None else self.code
        raise Exited

    def _run(self) -> None:
        with contextlib.suppress(Exited):
            self.process.run()

    def _read(self, reports: IO[bytes]) -> None:
        with reports:
            for line in reports:
                report = decode_report(line)
                assert report is not None
                self._reports.put(report)

    def send(self, command: Command) -> None:
        os.write(self.commands, encode_line(command))

    def report(self, *wanted: type[Report]) -> Report:
        """The next report of some kinds."""
        while not isinstance(found := self._reports.get(timeout=TIMEOUT_SECONDS), wanted or EVENTS):
            pass
        return found

    def join(self) -> None:
        self._threads[0].join(TIMEOUT_SECONDS)
        assert not self._threads[0].is_alive()

    def close(self) -> None:
        self.join()
        os.close(self.commands)
        until(lambda: self._command_pipe.closed)
        self._written.close()
        self._threads[1].join(TIMEOUT_SECONDS)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # the thread of commands ends as the process would
    monkeypatch.setattr(process, "INGEST_REPORT_INTERVAL_SECONDS", 0.01)
    found = Running(monkeypatch)
    found.start()
    assert found.report() == Started("http://127.0.0.1:4040")
    yield found
    found.send(Drain())
    found.plan.starts.put("start")
    found.close()


def test_process_ingests_reports_and_drains(running: Running) -> None:
    running.plan.starts.put("start")
    assert running.report(ProgressReport) == ProgressReport(
        committed_offsets={"robot": 10},
        rows=7,
        bytes=100,
        batches=2,
        batch_seconds=0.5,
        quarantined=1,
        duplicates=1,
        lost=1,
    )
    running.send(Drain())
    assert running.report() == Drained()
    running.join()
    assert running.plan.drained == 1
    assert running.spark.stopped
    (made,) = running.plan.made
    assert (made["trigger"], made["instance"]) == (1.0, "x")
    assert made["options"] == {"maxOffsetsPerTrigger": "2000000", "maxBytesPerTrigger": str(1 << 30)}


def test_failure_is_reported_and_query_restarts_on_command(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    running.plan.starts.put("start")
    running.report(ProgressReport)
    running.plan.failures.put(LakeError("lake", "No space left on device"))
    assert running.report() == Failed("lake: No space left on device")
    assert "lake: ingestion failed: lake: No space left on device" in caplog.messages
    assert running.plan.abandoned == 1
    running.plan.starts.put("start")
    running.send(RestartQuery())
    running.report(ProgressReport)
    assert len(running.plan.made) == 2


def test_a_failure_before_the_query_runs_is_reported_too(running: Running) -> None:
    running.plan.starts.put(OSError(30, "Read-only file system", "/lake/samples"))
    assert running.report() == Failed("/lake/samples: Read-only file system")
    running.plan.starts.put("start")
    running.send(Drain())  # the command to drain restarts it as well
    assert running.report() == Drained()


def test_process_ends_when_java_has_ended(running: Running) -> None:
    running.has_java = False
    running.plan.starts.put(ConnectionRefusedError(111, "Connection refused"))
    assert running.report() == Failed("Spark's Java process has ended")
    running.join()
    assert running.code == 1


def test_process_waits_for_the_lease_and_after_losing_it(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    running.plan.starts.put("recorder robot is being ingested by pid 7")
    assert running.report() == Waiting("recorder robot is being ingested by pid 7")
    running.report(ProgressReport)
    running.plan.failures.put(WriterFenced("lake", "another process ingests recorder 'robot'"))
    running.plan.starts.put("again")
    assert running.report() == Waiting("again")
    (line,) = caplog.messages
    assert line.startswith("lake: ingestion ended, another process continues it: ")
    assert running.plan.abandoned == 1


def test_invalid_command_is_ignored(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    os.write(running.commands, b"nonsense\n")
    running.plan.starts.put("start")
    running.send(Drain())
    assert running.report() == Drained()
    assert caplog.messages == [r"lake: invalid command from the parent process: b'nonsense\n'"]


def test_spark_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: IngestProcess) -> NoReturn:
        raise LakeError("Spark", "needs Java 17 or newer")

    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    running = Running(monkeypatch)
    monkeypatch.setattr(IngestProcess, "_start_spark", fail)
    running.start()
    assert running.report() == Failed("Spark: needs Java 17 or newer")
    running.close()
    assert running.code == 1


@pytest.mark.slow
def test_only_reports_are_written_to_standard_output() -> None:
    """Everything that is printed goes to standard error, also by processes that are started."""
    code = """
import os, sys
from zenspark.spark.ingest.process import _redirect_stdout
own = _redirect_stdout()
print("printed", flush=True)
os.system("echo by a child")
own.write(b"a report\\n"); own.flush()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "a report\n"
    assert done.stderr == "printed\nby a child\n"


def test_invalid_process_config_is_rejected() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b"{}", type=IngestProcessConfig)
