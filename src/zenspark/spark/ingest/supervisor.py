"""IngestSupervisor: runs the ingest process of one lake and restarts it when it fails.

The child process drives Spark (process.py); the supervisor neither imports PySpark nor starts Java. A thread reads the
reports of the child and restarts it when supervisor_state.py decides so. Standard error of Java and Python goes to a
log file of bounded size, never to the terminal.
"""

from __future__ import annotations

import contextlib
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

from zenspark.lake.error_cause import start_cause
from zenspark.spark.ingest.process_protocol import (
    Command,
    Drain,
    Failed,
    MaintenanceRun,
    Report,
    RestartQuery,
    Started,
    decode_report,
    encode_line,
)
from zenspark.spark.ingest.rotating_log import RotatingLog
from zenspark.spark.ingest.settings import IngestProcessConfig
from zenspark.spark.ingest.supervisor_state import IngestState, ProcessAction, SupervisorState
from zenspark.wait_queue import WaitQueue

logger = logging.getLogger("zenspark.spark")

COMMAND = (sys.executable, "-m", "zenspark.spark.ingest.process")
EXIT_TIMEOUT_SECONDS = 5.0
"""Seconds for the process to exit by itself before it is killed."""


class IngestStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of the ingestion into one lake; counts are since the supervisor started."""

    lake: str
    state: IngestState
    cause: str | None
    """Reason of the failure, or of the wait; None once a batch is committed."""
    retry_seconds: float | None
    """Seconds until the next attempt, if ingestion failed."""
    rows: int
    bytes: int
    batch_seconds: float | None
    running_seconds: float | None
    """Seconds since the current batch started."""
    committed_offsets: dict[str, int]
    quarantined: int
    duplicates: int
    lost: int
    maintenance: str | None
    """Error of the last table maintenance; ingestion continues."""
    maintenance_runs: tuple[MaintenanceRun, ...] = ()
    """The last run of each maintenance task, and the time of the next."""
    pid: int | None
    ui: str | None
    log: str

    @property
    def problem(self) -> str | None:
        """Reason why ingestion or the refresh of tables does not run, in one line; None if they run."""
        match self.state:
            case IngestState.FAILED:
                return f"ingestion failed: {self.cause}; retry in {self.retry_seconds:.0f} s"
            case IngestState.WAITING:
                return self.cause
            case IngestState.STARTING if self.cause is not None:
                return f"ingestion restarts after: {self.cause}"
        return None if self.maintenance is None else f"table maintenance failed: {self.maintenance}"


class IngestSupervisor:
    """Keeps an ingest process running, from `start` until `drain` or `stop`."""

    def __init__(self, config: IngestProcessConfig, log_file: RotatingLog, command: Sequence[str] = COMMAND) -> None:
        self.config = config
        self._log = log_file
        self._command = list(command)
        self._state = SupervisorState(time.monotonic())
        self._process: subprocess.Popen[bytes] | None = None
        self._events: queue.SimpleQueue[tuple[subprocess.Popen[bytes], Report | int] | None] = queue.SimpleQueue()
        self._lock = threading.RLock()
        """Guards the fields of this object; held while a process is started."""
        self._changed = WaitQueue()
        """Notified on every change; waits without the lock, which Ctrl-C could leave locked."""
        self._is_draining = False
        self._is_stopping = False
        self._started: Started | None = None
        self._has_spark = False
        """Whether the current process has started Spark."""
        self._logged: str | None = None
        self._thread = threading.Thread(target=self._run, name="zenspark-ingest-supervisor", daemon=True)

    # --- lifecycle

    def start(self) -> None:
        """Start the process, unless it was started before; it is restarted whenever it fails."""
        if self._thread.ident is None:  # Ctrl-C may have come between two calls
            self._thread.start()

    def drain(self, timeout: float) -> bool:
        """Ingest everything in the journals and end. Returns whether it finished within `timeout` seconds."""
        with self._lock:
            self._is_draining = True
            self._state.retry_now(time.monotonic())
            self._send(Drain())
        self._events.put(None)
        return self._changed.wait_for(lambda: self._state.ingest_state is IngestState.ENDED, timeout)

    def stop(self) -> None:
        """End the process at once; rows that are not ingested stay in the journals."""
        with self._lock:
            self._is_stopping = True
            process = self._process
            has_ended = self._state.ingest_state is IngestState.ENDED
        self._events.put(None)
        if self._thread.is_alive():
            self._thread.join()
        if process is not None:
            _stop_process(process, by_itself=has_ended)

    # --- status

    def status(self) -> IngestStatus:
        """Return the current status."""
        with self._lock:
            state, totals = self._state, self._state.totals
            is_failed = state.ingest_state is IngestState.FAILED
            return IngestStatus(
                lake=self.config.lake,
                state=state.ingest_state,
                cause=state.cause,
                retry_seconds=state.retry_in(time.monotonic()) if is_failed else None,
                rows=totals.rows,
                bytes=totals.bytes,
                batch_seconds=totals.last.batch_seconds,
                running_seconds=totals.last.running_seconds,
                committed_offsets=dict(totals.committed_offsets),
                quarantined=totals.quarantined,
                duplicates=totals.duplicates,
                lost=totals.lost,
                maintenance=state.maintenance_error,
                maintenance_runs=totals.last.maintenance_runs,
                pid=None if self._process is None else self._process.pid,
                ui=None if self._started is None else self._started.ui,
                log=str(self._log.path),
            )

    def wait_for_attempt(self, timeout: float) -> bool:
        """Wait until Spark has started or failed to start. Returns False after `timeout` seconds."""
        return self._changed.wait_for(lambda: self._started is not None or self._has_failed, timeout)

    @property
    def _has_failed(self) -> bool:
        return self._state.cause is not None

    @property
    def has_spark_started(self) -> bool:
        return self._started is not None

    # --- the thread

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._is_stopping:
                    return
                action = self._state.due(time.monotonic())
                if action is not None:
                    self._act(action)
                wait = max(0.0, self._state.next_due() - time.monotonic())
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=None if wait == math.inf else wait)
                if event is not None:
                    self._on_event(*event)

    def _on_event(self, process: subprocess.Popen[bytes], event: Report | int) -> None:
        with self._lock:
            if process is not self._process:
                return  # event of a process that was replaced
            now = time.monotonic()
            match event:
                case int():
                    self._process = None
                    self._write_log_line(f"ingest process {process.pid} exited with code {event}")
                    self._state.on_exited(event, now)
                case Failed() if not self._has_spark:
                    # the output of Java names the cause better than the Python exception
                    self._state.receive(Failed(start_cause(self._log.tail) or event.cause), now)
                case _:
                    if isinstance(event, Started):
                        self._started, self._has_spark = event, True
                    self._state.receive(event, now)
            self._log_state_change()
            self._changed.notify_all()

    def _log_state_change(self) -> None:
        """Log a failure or a wait once, not for every retry, and the recovery."""
        state, cause = self._state.ingest_state, self._state.cause
        if cause == self._logged or (cause is None and state is not IngestState.INGESTING):
            return
        if cause is None:
            logger.warning("%s: ingestion resumed", self.config.lake)
        elif state is IngestState.WAITING:
            logger.warning("%s: ingestion waits: %s", self.config.lake, cause)
        else:
            logger.warning("%s: ingestion failed: %s (details in %s)", self.config.lake, cause, self._log.path)
        self._logged = cause

    def _act(self, action: ProcessAction) -> None:
        match action:
            case ProcessAction.SPAWN:
                self._spawn()
            case ProcessAction.RESTART_QUERY:
                self._send(Drain() if self._is_draining else RestartQuery())
                self._state.on_query_restarted()
            case ProcessAction.KILL:
                assert self._process is not None
                self._write_log_line(f"killing ingest process {self._process.pid}")
                _kill(self._process)
                self._state.on_killed(time.monotonic())

    # --- the process

    def _spawn(self) -> None:
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C is handled by the parent, which ends this process in order
                start_new_session=True,
            )
        except OSError as error:
            self._state.on_spawn_failed(str(error), time.monotonic())
            self._log_state_change()
            self._changed.notify_all()
            return
        self._process, self._has_spark = process, False
        self._write_log_line(f"started ingest process {process.pid}")
        self._state.on_spawned(time.monotonic())
        assert process.stderr is not None
        _start_thread("zenspark-ingest-log", self._log.copy, process.stderr)
        _start_thread("zenspark-ingest-reports", self._read_reports, process)
        self._send(self.config)
        if self._is_draining:
            self._send(Drain())

    def _read_reports(self, process: subprocess.Popen[bytes]) -> None:
        """Queue the reports of a process, then its exit code."""
        assert process.stdout is not None
        with process.stdout as reports:
            for line in reports:
                report = decode_report(line)
                if report is None:
                    self._log.write(line)
                else:
                    self._events.put((process, report))
        code = process.wait()
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        self._events.put((process, code))

    def _send(self, message: Command | IngestProcessConfig) -> None:
        """Write a line to the process, if it runs; errors of a process that just exited are ignored."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(encode_line(message))
                self._process.stdin.flush()

    def _write_log_line(self, text: str) -> None:
        self._log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}\n".encode())


def _start_thread(name: str, function: object, *arguments: object) -> None:
    assert callable(function)
    threading.Thread(target=function, args=arguments, name=name, daemon=True).start()


def _stop_process(process: subprocess.Popen[bytes], *, by_itself: bool) -> None:
    """End a process by closing its standard input, then by SIGKILL; `by_itself` if it is already exiting."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(EXIT_TIMEOUT_SECONDS if by_itself else 0.0)
    with contextlib.suppress(OSError):
        assert process.stdin is not None
        process.stdin.close()
    try:
        process.wait(EXIT_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its Java; the Python workers of Java exit by themselves."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
