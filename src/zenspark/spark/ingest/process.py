"""The process that drives Spark for `zenspark up`: `python -m zenspark.spark.ingest.process`.

Its standard input brings a `LandingTask` and then orders; when it ends, so does the process, because the process that
started it is gone. Its standard output takes reports, and nothing else: what Java, Spark's workers and libraries print
goes to standard error (landing_protocol.py). It ignores Ctrl-C. An error is reported in one line, with its stack on
standard error; if Java still runs the process waits for the order to try again, otherwise it ends.
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
import pyarrow as pa

from zenspark.api.log_filter import FORMAT
from zenspark.errors import ZError
from zenspark.lake.error_cause import error_cause
from zenspark.spark.ingest.process_protocol import (
    Alive,
    Answer,
    Ask,
    Drain,
    Drained,
    Failed,
    Landed,
    Order,
    Report,
    Started,
    Waiting,
    line_of,
    order_in,
)
from zenspark.spark.ingest.samples import Superseded
from zenspark.spark.ingest.settings import LandingTask
from zenspark.spark.ingest.streaming import Landing
from zenspark.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("zenspark.spark")

REPORT_SECONDS = 1.0
POLL_SECONDS = 0.2
"""Between two looks at whether the query has ended, or is to."""
DRAIN_SECONDS = 24 * 3600.0
"""The process that started this one decides how long to wait."""


class LandingProcess:
    """Lands until it is told to drain, whatever fails in between."""

    def __init__(self, task: LandingTask, orders: IO[bytes], reports: IO[bytes]) -> None:
        self._task = task
        self._orders = orders
        self._reports = reports
        self._reporting = threading.Lock()
        self._landing: Landing | None = None
        """While it lands: then its progress is reported."""
        self._is_draining = threading.Event()
        self._attempts: queue.SimpleQueue[Order] = queue.SimpleQueue()
        """Orders to land, or to drain, for a process whose query has failed."""
        self._spark: SparkSession | None = None
        self._ended = threading.Event()
        self._has_news = threading.Event()
        """Set when there is something to report before the next time."""
        self._reporter = threading.Thread(target=self._report_often, name="zenspark-reports", daemon=True)

    def run(self) -> None:
        """Start Spark, and land until everything has, or Java is gone."""
        try:
            self._run()
        except Exception as error:
            self._fail(error)
            _exit(1)
        finally:
            self._ended.set()
            self._has_news.set()
            self._reporter.join()

    def _run(self) -> None:
        threading.Thread(target=self._follow_orders, name="zenspark-orders", daemon=True).start()
        self._reporter.start()
        self._spark = self._started()
        self._report(Started(self._spark.sparkContext.uiWebUrl))
        while not self._has_drained():
            pass
        self._spark.stop()

    def _started(self) -> SparkSession:
        # here, as what is wrong with it is reported
        from zenspark.spark.engine import DRIVING_JAVA_OPTIONS, retrying_master, spark_session

        settings = self._task.settings
        spark = spark_session(retrying_master(settings.master), config=settings.conf, java_options=DRIVING_JAVA_OPTIONS)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Spark has a handler of its own
        return spark

    def _has_drained(self) -> bool:
        """Land until it is time to end, or fails; whether everything has landed."""
        assert self._spark is not None
        landing = self._new_landing()
        try:
            return self._landed(landing)
        except Superseded as error:
            log.warning("%s", error)
            self._abandon(landing)
            return False
        except Exception as error:
            self._abandon(landing)
            self._fail(error)
            if not self._has_java():
                _exit(1)
            self._attempts.get()
            return False

    def _new_landing(self) -> Landing:
        assert self._spark is not None
        settings = self._task.settings
        options = {
            "maxOffsetsPerTrigger": str(settings.max_batch_rows),
            "maxBytesPerTrigger": str(settings.max_batch_bytes),
        }
        return Landing(
            self._spark,
            self._task.journals,
            Lake(self._task.lake),
            trigger=settings.trigger,
            options=options,
            maintenance=settings.maintenance,
            instance=self._task.instance,
            deduplicate=settings.deduplicate,
        )

    def _landed(self, landing: Landing) -> bool:
        landing.start(lambda reason: self._report(Waiting(reason)), self._has_news.set)
        with self._reporting:
            self._landing = landing
        while not self._is_draining.is_set():
            if landing.wait(POLL_SECONDS):
                raise RuntimeError("Spark has ended the query")
        landing.stop(DRAIN_SECONDS)
        self._report(progress_of(landing))
        self._report(Drained(landing.progress().problem))
        return True

    def _abandon(self, landing: Landing) -> None:
        with self._reporting:
            self._landing = None
        landing.abandon()

    def _has_java(self) -> bool:
        """Whether the process of Java is there."""
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        process = getattr(gateway, "proc", None)
        return process is not None and process.poll() is None and SparkContext._active_spark_context is not None

    # --- reports

    def _report(self, report: Report) -> None:
        with self._reporting:
            self._write(report)

    def _write(self, report: Report) -> None:
        with contextlib.suppress(OSError):  # the end of the orders says that there is no reader any more
            self._reports.write(line_of(report))
            self._reports.flush()

    def _fail(self, error: Exception) -> None:
        log.error("landing has failed", exc_info=error)
        self._report(Failed(error_cause(error)))

    def _report_often(self) -> None:
        while True:
            self._has_news.wait(REPORT_SECONDS)
            self._has_news.clear()
            if self._ended.is_set():
                return
            with self._reporting:
                self._write(self._progress())

    def _progress(self) -> Report:
        if self._landing is not None:
            with contextlib.suppress(ZError, OSError):  # a journal that cannot be read now
                return progress_of(self._landing)
        return Alive()

    # --- orders

    def _follow_orders(self) -> None:
        """Do what is ordered until the process that gives orders is gone."""
        with self._orders as lines:
            for line in lines:
                try:
                    self._on_order(order_in(line))
                except msgspec.DecodeError:
                    log.exception("an order cannot be read: %r", line)
        _exit(0)

    def _on_order(self, order: Order) -> None:
        if isinstance(order, Ask):
            threading.Thread(target=self._answer, args=(order,), name="zenspark-answer", daemon=True).start()
            return
        if isinstance(order, Drain):
            self._is_draining.set()
        self._attempts.put(order)

    def _answer(self, ask: Ask) -> None:
        try:
            assert self._spark is not None, "Spark is not there yet"
            Lake(self._task.lake).register(self._spark)
            self._report(Answer(ask.number, _encoded(self._spark.sql(ask.query).toArrow())))
        except Exception as error:
            log.info("a query has failed", exc_info=error)
            self._report(Answer(ask.number, error=error_cause(error)))


def progress_of(landing: Landing) -> Landed:
    """What is reported of a landing."""
    progress = landing.progress()
    return Landed(
        reached=dict(progress.reached),
        rows=progress.rows,
        bytes=progress.bytes,
        batches=progress.batches,
        batch_seconds=progress.batch_seconds,
        running_seconds=progress.running_seconds,
        quarantined=progress.quarantined,
        duplicates=progress.duplicates,
        lost=progress.lost,
        maintenance=progress.problem,
    )


def _encoded(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _exit(code: int) -> NoReturn:
    """End at once, whatever threads do: Java ends with its input, and nothing here is worth waiting for."""
    sys.stderr.flush()
    os._exit(code)


def _own_output() -> IO[bytes]:
    """Standard output for reports alone: everything else that is printed goes to standard error."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own


def main() -> None:
    """Land as the first line of the input says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reports = _own_output()
    logging.basicConfig(format=FORMAT, level=logging.WARNING)
    logging.getLogger("zenspark").setLevel(logging.INFO)
    orders = sys.stdin.buffer
    task = msgspec.json.decode(orders.readline(), type=LandingTask)
    LandingProcess(task, orders, reports).run()
    _exit(0)


if __name__ == "__main__":
    main()
