"""LandingSupervisor: the landing of one lake, in a process of its own that may fail without anything else noticing.

The process drives Spark (landing_process.py); this one imports neither PySpark nor starts a Java. A thread follows what
the process reports, and starts it again when it must (supervision.py decides when). What Java and Python write to
standard error goes into a log file of bounded size, never to the terminal.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pyarrow as pa

from zenspark.errors import LakeError
from zenspark.lake.error_cause import start_cause
from zenspark.spark.ingest.process_protocol import (
    Answer,
    Ask,
    Drain,
    Failed,
    Land,
    Order,
    Report,
    Started,
    line_of,
    report_in,
)
from zenspark.spark.ingest.settings import LandingTask
from zenspark.spark.ingest.supervision import Action, State, Supervision
from zenspark.spark.pipeline.rotating_log import RotatingLog

log = logging.getLogger("zenspark.spark")

COMMAND = (sys.executable, "-m", "zenspark.spark.ingest.process")
END_SECONDS = 5.0
"""A process that was told to end may take so long; then it is killed."""
ASK_SECONDS = 60.0


class LandingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the landing of one lake is doing; counts are since it was started."""

    lake: str
    state: State
    cause: str | None
    """Why it failed the last time, or what it waits for; None once a batch has landed."""
    retry_seconds: float | None
    """Until the next attempt, if it has failed."""
    rows: int
    bytes: int
    batch_seconds: float | None
    running_seconds: float | None
    """How long the batch that is under way has taken so far."""
    reached: dict[str, int]
    quarantined: int
    duplicates: int
    lost: int
    maintenance: str | None
    """What is wrong with the maintenance of the tables; rows land all the same."""
    pid: int | None
    ui: str | None
    log: str

    @property
    def problem(self) -> str | None:
        """What keeps rows from landing, or tables from being up to date, in one line."""
        match self.state:
            case State.FAILED:
                return f"landing failed: {self.cause}; retry in {self.retry_seconds:.0f} s"
            case State.WAITING:
                return self.cause
            case State.STARTING if self.cause is not None:
                return f"landing starts again after: {self.cause}"
        return None if self.maintenance is None else f"tables are not refreshed: {self.maintenance}"


class LandingSupervisor:
    """Keeps a landing process running, from `start` until `drain` or `stop`."""

    def __init__(self, task: LandingTask, log_file: RotatingLog, command: Sequence[str] = COMMAND) -> None:
        self.task = task
        self._log = log_file
        self._command = list(command)
        self._supervision = Supervision(time.monotonic())
        self._process: subprocess.Popen[bytes] | None = None
        self._events: queue.SimpleQueue[tuple[subprocess.Popen[bytes], Report | int] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        """Held while the fields of this object are read or changed; notified of every change."""
        self._is_draining = False
        self._is_stopping = False
        self._started: Started | None = None
        self._has_spark = False
        """Whether the process that runs now has started Spark."""
        self._numbers = itertools.count()
        self._answers: dict[int, queue.SimpleQueue[Answer]] = {}
        self._logged: str | None = None
        self._thread = threading.Thread(target=self._run, name="zenspark-landing-supervisor", daemon=True)

    # --- life

    def start(self) -> None:
        """Start the process, and again whenever it fails."""
        self._thread.start()

    def drain(self, timeout: float) -> bool:
        """Land everything the journals have, and end; whether that was done in so many seconds."""
        with self._changed:
            self._is_draining = True
            self._supervision.hurry(time.monotonic())
            self._send(Drain())
            self._events.put(None)
            done = self._changed.wait_for(lambda: self._supervision.state is State.ENDED, timeout)
        return done

    def stop(self) -> None:
        """End the process at once: what has not landed is in the journals."""
        with self._changed:
            self._is_stopping = True
            process = self._process
            has_ended = self._supervision.state is State.ENDED
        self._events.put(None)
        if self._thread.is_alive():
            self._thread.join()
        if process is not None:
            _end(process, by_itself=has_ended)

    # --- what others want to know

    def status(self) -> LandingStatus:
        """How it is doing now."""
        with self._changed:
            found, tally = self._supervision, self._supervision.tally
            is_failed = found.state is State.FAILED
            return LandingStatus(
                lake=self.task.lake,
                state=found.state,
                cause=found.cause,
                retry_seconds=found.retry_in(time.monotonic()) if is_failed else None,
                rows=tally.rows,
                bytes=tally.bytes,
                batch_seconds=tally.last.batch_seconds,
                running_seconds=tally.last.running_seconds,
                reached=dict(tally.reached),
                quarantined=tally.quarantined,
                duplicates=tally.duplicates,
                lost=tally.lost,
                maintenance=found.maintenance,
                pid=None if self._process is None else self._process.pid,
                ui=None if self._started is None else self._started.ui,
                log=str(self._log.path),
            )

    def wait_for_attempt(self, timeout: float) -> bool:
        """Wait until Spark is there, or could not be started; whether that was in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._started is not None or self._has_failed, timeout)

    @property
    def _has_failed(self) -> bool:
        return self._supervision.cause is not None

    @property
    def is_spark_there(self) -> bool:
        return self._started is not None

    def ask(self, query: str, timeout: float = ASK_SECONDS) -> pa.Table:
        """The result of a SQL query on the tables of the lake; LakeError if there is none."""
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        with self._changed:
            number = next(self._numbers)
            self._answers[number] = answers
            self._send(Ask(number, query))
        try:
            answer = answers.get(timeout=timeout)
        except queue.Empty:
            raise LakeError(self.task.lake, f"no answer within {timeout:.0f} s to: {query}") from None
        finally:
            self._answers.pop(number, None)
        if answer.error is not None:
            raise LakeError(self.task.lake, answer.error)
        return pa.ipc.open_stream(answer.rows).read_all()

    # --- the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._is_stopping:
                    return
                action = self._supervision.due(time.monotonic())
                if action is not None:
                    self._act(action)
                wait = max(0.0, self._supervision.next_due() - time.monotonic())
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=None if wait == math.inf else wait)
                if event is not None:
                    self._on_event(*event)

    def _on_event(self, process: subprocess.Popen[bytes], event: Report | int) -> None:
        with self._changed:
            if process is not self._process:
                return  # of a process that was replaced
            now = time.monotonic()
            match event:
                case int():
                    self._process = None
                    self._note(f"the landing process {process.pid} has ended, code {event}")
                    self._supervision.exited(event, now)
                case Answer(number):
                    if number in self._answers:
                        self._answers[number].put(event)
                case Failed() if not self._has_spark:
                    # what Java wrote explains it better than what became of it in Python
                    self._supervision.receive(Failed(start_cause(self._log.tail) or event.cause), now)
                case _:
                    if isinstance(event, Started):
                        self._started, self._has_spark = event, True
                    self._supervision.receive(event, now)
            self._tell()
            self._changed.notify_all()

    def _tell(self) -> None:
        """Log what is wrong once, however often it is tried, and that it is over."""
        cause = self._supervision.cause
        if cause == self._logged or (cause is None and self._supervision.state is not State.LANDING):
            return
        if cause is not None:
            log.warning("%s: landing: %s (more in %s)", self.task.lake, cause, self._log.path)
        else:
            log.warning("%s: landing goes on", self.task.lake)
        self._logged = cause

    def _act(self, action: Action) -> None:
        match action:
            case Action.SPAWN:
                self._spawn()
            case Action.LAND:
                self._send(Drain() if self._is_draining else Land())
                self._supervision.ordered()
            case Action.KILL:
                assert self._process is not None
                self._note(f"the landing process {self._process.pid} is killed")
                _kill(self._process)
                self._supervision.killed(time.monotonic())

    # --- the process

    def _spawn(self) -> None:
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C is for the process that the user started: it says how this one is to end
                start_new_session=True,
            )
        except OSError as error:
            self._supervision.could_not_spawn(str(error), time.monotonic())
            self._tell()
            self._changed.notify_all()
            return
        self._process, self._has_spark = process, False
        self._note(f"the landing process {process.pid} was started")
        self._supervision.spawned(time.monotonic())
        assert process.stderr is not None
        _in_thread("zenspark-landing-log", self._log.copy, process.stderr)
        _in_thread("zenspark-landing-reports", self._follow, process)
        self._send(self.task)
        if self._is_draining:
            self._send(Drain())

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        """Pass on what a process reports until it has ended."""
        assert process.stdout is not None
        with process.stdout as reports:
            for line in reports:
                report = report_in(line)
                if report is None:
                    self._log.write(line)
                else:
                    self._events.put((process, report))
        code = process.wait()
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        self._events.put((process, code))

    def _send(self, message: Order | LandingTask) -> None:
        """Write a line to the process, if there is one; one that has just ended gets nothing."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(line_of(message))
                self._process.stdin.flush()

    def _note(self, text: str) -> None:
        self._log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}\n".encode())


def _in_thread(name: str, function: object, *arguments: object) -> None:
    assert callable(function)
    threading.Thread(target=function, args=arguments, name=name, daemon=True).start()


def _end(process: subprocess.Popen[bytes], *, by_itself: bool) -> None:
    """End a process by the end of its input, and by force if that does not do; `by_itself` if it is about to."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS if by_itself else 0.0)
    with contextlib.suppress(OSError):
        assert process.stdin is not None
        process.stdin.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its Java; the Python workers of Java end by themselves."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
