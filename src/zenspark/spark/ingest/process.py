"""The ingest process, which drives Spark for `zenspark up`: `python -m zenspark.spark.ingest.process`.

It reads an `IngestProcessConfig` and then commands from standard input and ends at end of file, because the parent
process is gone then. Standard output carries reports only: output of Java, Spark workers and libraries goes to standard
error (process_protocol.py). The process ignores Ctrl-C. An error is reported in one line, with its stack trace on
standard error. If Java still runs, the process waits for the command to restart the query; otherwise it ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import sys
import threading
from typing import IO, TYPE_CHECKING, NoReturn

import msgspec

from zenspark.api.log_filter import LOG_FORMAT
from zenspark.errors import ZError
from zenspark.lake.error_cause import error_cause
from zenspark.spark.ingest.commit_samples import WriterFenced
from zenspark.spark.ingest.ingest_query import IngestQuery
from zenspark.spark.ingest.process_protocol import (
    Command,
    Drain,
    Drained,
    Failed,
    IngestHeartbeat,
    ProgressReport,
    Report,
    Started,
    Waiting,
    decode_command,
    encode_line,
)
from zenspark.spark.ingest.settings import IngestProcessConfig
from zenspark.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("zenspark.spark")

INGEST_REPORT_INTERVAL_SECONDS = 1.0
"""Seconds between two reports."""
DRAIN_POLL_INTERVAL_SECONDS = 0.2
"""Seconds between two checks whether the query has ended or must drain."""
UNLIMITED_DRAIN_SECONDS = 24 * 3600.0
"""Effectively unlimited: the parent process decides how long to wait."""


class IngestProcess:
    """Ingests journals until it receives `Drain`; after a failure it waits for `RestartQuery`."""

    def __init__(self, config: IngestProcessConfig, commands: IO[bytes], reports: IO[bytes]) -> None:
        self._config = config
        self._commands = commands
        self._reports = reports
        self._report_lock = threading.Lock()
        self._query: IngestQuery | None = None
        """The running query, whose progress is reported."""
        self._is_draining = threading.Event()
        self._restarts: queue.SimpleQueue[Command] = queue.SimpleQueue()
        """`RestartQuery` or `Drain` commands, for a process whose query has failed."""
        self._spark: SparkSession | None = None
        self._ended = threading.Event()
        self._report_now = threading.Event()
        """Set to report progress before the next interval."""
        self._reporter = threading.Thread(target=self._report_periodically, name="zenspark-reports", daemon=True)

    def run(self) -> None:
        """Start Spark and ingest until drained, or until Java has ended."""
        try:
            self._run()
        except Exception as error:
            self._report_failure(error)
            _exit(1)
        finally:
            self._ended.set()
            self._report_now.set()
            self._reporter.join()

    def _run(self) -> None:
        threading.Thread(target=self._read_commands, name="zenspark-commands", daemon=True).start()
        self._reporter.start()
        self._spark = self._start_spark()
        self._report(Started(self._spark.sparkContext.uiWebUrl))
        while not self._run_query():
            pass
        self._spark.stop()

    def _start_spark(self) -> SparkSession:
        # imported here, so that import errors are reported, too
        from zenspark.spark.engine import DRIVER_JAVA_OPTIONS, spark_session, with_task_retries

        settings = self._config.settings
        spark = spark_session(
            with_task_retries(settings.master), config=settings.conf, java_options=DRIVER_JAVA_OPTIONS
        )
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Spark installs its own handler
        return spark

    def _run_query(self) -> bool:
        """Run one streaming query until it drains or fails. Returns whether everything is ingested."""
        assert self._spark is not None
        query = self._make_query()
        try:
            return self._ingest_until_drained(query)
        except WriterFenced as error:
            logger.warning("%s: ingestion ended, another process continues it: %s", self._config.lake, error)
            self._abandon(query)
            return False
        except Exception as error:
            self._abandon(query)
            self._report_failure(error)
            if not self._has_java():
                _exit(1)
            self._restarts.get()
            return False

    def _make_query(self) -> IngestQuery:
        assert self._spark is not None
        settings = self._config.settings
        options = {
            "maxOffsetsPerTrigger": str(settings.max_batch_rows),
            "maxBytesPerTrigger": str(settings.max_batch_bytes),
        }
        return IngestQuery(
            self._spark,
            self._config.journals,
            Lake(self._config.lake),
            trigger=settings.trigger,
            options=options,
            maintenance=settings.maintenance,
            instance=self._config.instance,
            deduplicate=settings.deduplicate,
        )

    def _ingest_until_drained(self, query: IngestQuery) -> bool:
        query.start(lambda reason: self._report(Waiting(reason)), self._report_now.set)
        with self._report_lock:
            self._query = query
        while not self._is_draining.is_set():
            if query.wait(DRAIN_POLL_INTERVAL_SECONDS):
                raise RuntimeError("Spark ended the query")
        query.stop(UNLIMITED_DRAIN_SECONDS)
        self._report(make_progress_report(query))
        self._report(Drained(query.progress().problem))
        return True

    def _abandon(self, query: IngestQuery) -> None:
        with self._report_lock:
            self._query = None
        query.abandon()

    def _has_java(self) -> bool:
        """Whether the Java process runs."""
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        process = getattr(gateway, "proc", None)
        return process is not None and process.poll() is None and SparkContext._active_spark_context is not None

    # --- reports

    def _report(self, report: Report) -> None:
        with self._report_lock:
            self._write(report)

    def _write(self, report: Report) -> None:
        with contextlib.suppress(OSError):  # the parent is gone: detected by end of file on standard input
            self._reports.write(encode_line(report))
            self._reports.flush()

    def _report_failure(self, error: Exception) -> None:
        logger.error("%s: ingestion failed: %s", self._config.lake, error, exc_info=error)
        self._report(Failed(error_cause(error)))

    def _report_periodically(self) -> None:
        while True:
            self._report_now.wait(INGEST_REPORT_INTERVAL_SECONDS)
            self._report_now.clear()
            if self._ended.is_set():
                return
            with self._report_lock:
                self._write(self._progress())

    def _progress(self) -> Report:
        if self._query is not None:
            with contextlib.suppress(ZError, OSError):  # a journal that cannot be read now
                return make_progress_report(self._query)
        return IngestHeartbeat()

    # --- commands

    def _read_commands(self) -> None:
        """Execute commands until end of file: the parent process is gone then."""
        with self._commands as lines:
            for line in lines:
                try:
                    self._on_command(decode_command(line))
                except msgspec.DecodeError:
                    logger.exception("%s: invalid command from the parent process: %r", self._config.lake, line)
        _exit(0)

    def _on_command(self, command: Command) -> None:
        if isinstance(command, Drain):
            self._is_draining.set()
        self._restarts.put(command)


def make_progress_report(query: IngestQuery) -> ProgressReport:
    """Make the progress report of a query."""
    progress = query.progress()
    return ProgressReport(
        committed_offsets=dict(progress.committed_offsets),
        rows=progress.rows,
        bytes=progress.bytes,
        batches=progress.batches,
        batch_seconds=progress.batch_seconds,
        running_seconds=progress.running_seconds,
        quarantined=progress.quarantined,
        duplicates=progress.duplicates,
        lost=progress.lost,
        maintenance_error=progress.problem,
        maintenance_runs=progress.maintenance_runs,
    )


def _exit(code: int) -> NoReturn:
    """End at once without waiting for threads; Java ends when its standard input closes."""
    sys.stderr.flush()
    os._exit(code)


def _redirect_stdout() -> IO[bytes]:
    """Return standard output for reports, and redirect everything else that is printed to standard error."""
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return reports


def main() -> None:
    """Run the ingest process for the `IngestProcessConfig` in the first line of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reports = _redirect_stdout()
    logging.basicConfig(format=LOG_FORMAT, level=logging.WARNING)
    logging.getLogger("zenspark").setLevel(logging.INFO)
    commands = sys.stdin.buffer
    config = msgspec.json.decode(commands.readline(), type=IngestProcessConfig)
    IngestProcess(config, commands, reports).run()
    _exit(0)


if __name__ == "__main__":
    main()
