"""RunLoop: runs the job of `zenspark up` from start to summary, with a status line."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from zenspark.cli import http_flags, node_flags
from zenspark.cli.connection_watch import ConnectionWatch
from zenspark.cli.demo import open_page
from zenspark.cli.exit_codes import NOT_INGESTED
from zenspark.cli.http_flags import HttpPlan
from zenspark.cli.ingest_flags import RunTiming
from zenspark.cli.screen import Screen
from zenspark.cli.status_line import (
    LOG_STATUS_INTERVAL_SECONDS,
    STATUS_INTERVAL_SECONDS,
    Part,
    StatusLine,
    stamp_parts,
    write_line,
)
from zenspark.cli.units import format_quantity
from zenspark.errors import JournalError
from zenspark.journal.journal import Journal
from zenspark.lake.lake import Lake
from zenspark.spark.ingest.settings import IngestSettings
from zenspark.spark.ingest.supervisor_state import IngestState
from zenspark.spark.pipeline.job import Job, JobEnded
from zenspark.spark.pipeline.status import JobStatus
from zenspark.storage.settings import StorageSettings

if TYPE_CHECKING:
    from zenspark.cli.demo_story import Demo
    from zenspark.web.protocols import SqlEngine

SPARK_START_POLL_INTERVAL_SECONDS = 0.2
"""Seconds between two checks whether Spark has started."""
CATCH_UP_ROWS = 100_000
"""Rows in the backlog above which the status line shows the ingestion rate."""


class RunLoop:
    """Runs the job from start to summary, with status output."""

    def __init__(self, job: Job, args: Namespace, settings: Mapping[str, IngestSettings], http: HttpPlan) -> None:
        """`settings` are the ingestion settings of each lake."""
        self._job = job
        self._screen = Screen()
        self._args = args
        self._settings = settings
        self._http = http
        self._demo: Demo | None = None

    def run(self, timing: RunTiming) -> int:
        """Run the job. Returns the exit code."""
        started_at = time.monotonic()
        with ExitStack() as stack:
            session = self._job.session
            served = stack.enter_context(http_flags.serve_http(session, self._http, self._job, self._make_engine()))
            self._earlier = {storage.journal: count_earlier_rows(storage.journal) for storage in self._storages}
            self._watch_connections = stack.enter_context(ConnectionWatch(session))
            with node_flags.convert_link_error():
                if self._args.require_connection:  # without it, no journal is made
                    self._job.connect()
                    self._watch_connections.require(self._args.connect_timeout)
                self._job.record()
            self._print_banner(served)
            self._status = stack.enter_context(
                StatusLine(log_seconds=LOG_STATUS_INTERVAL_SECONDS, is_enabled=not self._args.quiet)
            )
            if self._args.open and served.url is not None:
                open_page(served.url)
            if self._args.demo:
                self._demo = stack.enter_context(self._start_demo(served.url))
            ended = self._run_until_stopped(timing)
            has_ingested = self._drain(timing.stop_seconds)
        self._print_summary(time.monotonic() - started_at)
        if ended is not None:
            raise ended
        return 0 if has_ingested else NOT_INGESTED

    def _start_demo(self, url: str | None) -> Demo:
        from zenspark.cli.demo_story import Demo

        return Demo(self._job, self._screen, url, sum(self._earlier.values()))

    def _make_engine(self) -> SqlEngine | None:
        """Return the SQL engine of the first lake."""
        from zenspark.sql.engine import Engine

        lake = next(iter(self._settings), None)
        return None if lake is None else Engine(Lake(lake))

    def _run_until_stopped(self, timing: RunTiming) -> JobEnded | None:
        """Ingest until stopped. Returns the error if recording ended."""
        try:
            self._start_ingest()
            self._watch(timing.run_seconds)
            self._show_late(timing.stop_seconds)
        except KeyboardInterrupt:
            return None
        except JobEnded as error:
            return error
        return None

    # --- banner

    @property
    def _storages(self) -> Sequence[StorageSettings]:
        return self._job.storages.settings

    def _print_banner(self, served: http_flags.HttpAddresses) -> None:
        """Print the URL of the page first, then the facts of the node."""
        if served.url is not None:
            write_line(self._screen.style(f"{served.url}  the page: keys, pictures, time, network, SQL", "bold"))
        facts = [fact for fact in served.facts if fact[1] != served.url]
        node_flags.print_node_banner(self._job.session, self._screen, [*facts, *self._banner_facts()])

    def _banner_facts(self) -> Iterator[tuple[str, str]]:
        for storage in self._storages:
            yield "keys", ", ".join(storage.key_exprs)
            rows = self._earlier[storage.journal]
            yield "journal", str(storage.journal) + (f", continued after {rows} rows of earlier runs" if rows else "")
            if storage.lake is not None:
                yield "lake", storage.lake

    # --- ingestion

    def _start_ingest(self) -> None:
        """Start Spark, and wait until it has started or failed."""
        masters = dict.fromkeys(settings.master for settings in self._settings.values())
        self._print(f"recording; starting Spark ({', '.join(masters)})")
        started_at = shown_at = time.monotonic()
        self._job.ingest(self._settings)
        for supervisor in self._job.supervisors.values():
            while not supervisor.wait_for_attempt(SPARK_START_POLL_INTERVAL_SECONDS):
                self._job.check()
                if time.monotonic() - shown_at >= STATUS_INTERVAL_SECONDS:
                    shown_at = time.monotonic()
                    self._show_status()
        if self._has_spark:
            self._print(f"Spark started in {time.monotonic() - started_at:.1f} s. Press Ctrl-C to stop.")
        for supervisor in self._job.supervisors.values():
            if supervisor.status().ui is not None:
                self._print(f"Spark web interface: {supervisor.status().ui}")

    @property
    def _has_spark(self) -> bool:
        """Whether Spark runs for all lakes."""
        return all(supervisor.has_spark_started for supervisor in self._job.supervisors.values())

    def _watch(self, limit: float | None) -> None:
        """Show the status until the time limit."""
        ends_at = None if limit is None else time.monotonic() + limit
        while ends_at is None or time.monotonic() < ends_at:
            left = (
                STATUS_INTERVAL_SECONDS if ends_at is None else min(STATUS_INTERVAL_SECONDS, ends_at - time.monotonic())
            )
            time.sleep(max(0.0, left))
            self._job.check()
            self._show_status()
            self._show_demo()

    def _show_status(self) -> None:
        parts = status_parts(self._job.status(), self._watch_connections.status(), has_spark=self._has_spark)
        self._status.show(*(parts if self._status.is_terminal else stamp_parts(parts)))

    def _show_demo(self) -> None:
        if self._demo is not None:
            self._demo.show()

    def _show_late(self, timeout: float) -> None:
        """Show the demo at the end, if the tables had too few rows before."""
        if self._demo is None:
            return
        deadline = time.monotonic() + timeout
        while not self._demo.show() and time.monotonic() < deadline:
            time.sleep(SPARK_START_POLL_INTERVAL_SECONDS)
        self._demo.show(is_last=True)

    def _drain(self, timeout: float) -> bool:
        """Ingest the received rows. Returns whether all of them are; another Ctrl-C ends at once."""
        self._print("stopping: ingesting the received rows")
        try:
            self._job.ingest(self._settings)  # Ctrl-C may have come before ingestion started
            return self._job.drain(timeout)
        except KeyboardInterrupt:
            return not self._job.status().waiting.rows

    # --- output

    def _print(self, text: str) -> None:
        write_line(self._screen.style(text, "dim"))

    def _print_summary(self, seconds: float) -> None:
        status = self._job.status()
        lines = [
            f"{status.recorded} rows recorded in {seconds:.0f} s, {status.ingested} rows ingested"
            f" ({format_quantity(status.bytes, 'B')}), {status.keys} keys",
        ]
        if status.waiting.rows:
            lines.append(f"{status.waiting.rows} rows wait in the journal; they are ingested at the next start")
        lines += [
            f"{ingestion.lake}: {ingestion.problem}" for ingestion in status.ingestions if ingestion.problem is not None
        ]
        for lake in self._job.supervisors:
            lines += format_query_hint(lake)
        self._screen.write(lines)
        sys.stdout.flush()


def format_query_hint(lake: str) -> list[str]:
    """Return lines with the path of the tables, and a command that queries them."""
    from zenspark.cli.demo_story import find_command  # imported here: only the end of a run needs it

    query = "select key, count(*) from samples group by key"
    return [f"the tables are in {lake}; query them:", f'  {find_command()} sql --lake {lake} "{query}"']


def count_earlier_rows(path: Path) -> int:
    """Count the rows that were recorded into a journal so far; 0 if there is none yet."""
    try:
        return Journal(path).latest()
    except JournalError:
        return 0


def status_parts(status: JobStatus, connections: Part | None = None, *, has_spark: bool = False) -> list[Part]:
    """Return the parts of the status line; problems come first, where a narrow terminal does not cut them off.

    Between the start of Spark (`has_spark`) and its first report, ingestion starts.
    """
    batch = status.batch_seconds
    is_starting = any(ingest.state is IngestState.STARTING for ingest in status.ingestions)
    starting = "starting ingestion" if has_spark else "starting Spark"
    parts = [
        (status.problem, "bold red") if status.problem else starting if is_starting else None,
        connections,
        f"{format_quantity(status.recorded_rate)} rows/s recorded",
        f"{status.ingested} rows ingested",
        f"{status.waiting.rows} waiting",
        f"lag {status.waiting.seconds:.1f} s",
        f"ingesting {format_quantity(status.ingested_rate)} rows/s" if status.waiting.rows > CATCH_UP_ROWS else None,
        "no batch yet" if batch is None else f"last batch {batch:.2f} s",
        f"{status.keys} keys",
        (f"{status.lost.total} lost", "red") if status.lost.total else None,
        (f"{status.quarantined} quarantined", "red") if status.quarantined else None,
    ]
    return [part for part in parts if part]
