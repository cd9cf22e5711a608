"""`zenspark up`: the pipeline from Zenoh to tables and back in one command."""

from __future__ import annotations

import argparse
import contextlib
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime

from zenspark.api.log_filter import init_log_from_env_or
from zenspark.cli import INTERRUPTED, Parser, ingest_flags, node_flags
from zenspark.cli.demo import MIN_DEMO_ROWS, Demo
from zenspark.cli.ingest_flags import RunTiming
from zenspark.cli.record import add_policy_flags
from zenspark.cli.screen import Screen
from zenspark.cli.units import format_quantity
from zenspark.config.config import Config
from zenspark.journal.recorder import drop_included
from zenspark.spark.ingest.settings import IngestSettings
from zenspark.spark.ingest.supervision import IngestState
from zenspark.spark.pipeline.job import Job, JobEnded
from zenspark.spark.pipeline.status import JobStatus
from zenspark.storage.settings import (
    JOURNAL_DIRECTORY,
    StorageSettings,
    journal_path,
    normalize_lake_path,
    parse_storages,
)

DESCRIPTION = f"""\
Run a Zenoh node that records publications, ingests them into tables with Spark, and replies to queries from them: the
newest value of a key, and with ?_time=[now(-1h)..] its history. It runs until interrupted (Ctrl-C) or terminated, and
then ingests what it has received. Started again with the same lake, it continues.

It is a router and listens on tcp/[::]:7447. With --connect and without --listen it is a client of that node instead.

Failed ingestion is retried forever while recording continues; a log file beside the journal has the details.
The exit code is 0 if everything recorded is ingested, 3 if rows wait in the journal, and 2 if recording failed.

{node_flags.CONFIGURATION_HELP}
Storages of the file (plugins/storage_manager) run as well; without --key they replace the default storage."""

DEFAULT_PORT = 7447
STATUS_SECONDS = 1.0
"""Interval of the status line on a terminal."""
LOG_STATUS_SECONDS = 10.0
"""Interval of the status line in a log."""
WAIT_SECONDS = 0.2
"""Interval between checks whether Spark has started."""
CATCH_UP_ROWS = 100_000
"""With a larger backlog, the status line shows the ingestion rate."""
EXIT_NOT_INGESTED = 3
"""Exit code if rows wait in the journal."""


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    given = _parser().parse_args(arguments)
    storages, config = parse_storages(_configuration(given))
    storages += _default_storage(given, has_others=bool(storages))
    timing = ingest_flags.parse_timing(given)
    ingest_settings = {
        each.lake: ingest_flags.parse_ingest_settings(ingest_flags.merge_file_settings(given, each.landing))
        for each in reversed(storages)  # the settings of the first storage of a lake apply
        if each.lake is not None
    }
    file_settings = next((each.landing for each in storages if each.landing), {})
    policy = ingest_flags.parse_journal_policy(ingest_flags.merge_file_settings(given, file_settings))
    init_log_from_env_or("warn")
    node_flags.raise_interrupt_on_signals()
    job = Job(config, storages, policy)
    try:
        with contextlib.closing(job):
            return RunLoop(job, Screen(), given, ingest_settings).run(timing)
    except KeyboardInterrupt:  # before recording started, or while ending
        return INTERRUPTED


def _parser() -> Parser:
    parser = Parser(prog="zenspark up", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add(
        "--key",
        metavar="KEYEXPR",
        action="append",
        help="key expression to record and reply for; repeatable (default: **)",
    )
    add("--lake", metavar="PLACE", default="lake", help="directory or URI of the tables (default: ./lake)")
    add(
        "--journal",
        metavar="DIR",
        help=f"directory of the journal (default: {JOURNAL_DIRECTORY} in the lake, if that is not a URI)",
    )
    add("--complete", action="store_true", help="declare the storage as complete for its keys")
    add("--demo", action="store_true", help="run a small simulated fleet, and show tables and queries")
    node_flags.add_node_flags(parser, mode="router; with --connect alone, client")
    ingest_flags.add_ingest_flags(parser)
    add_policy_flags(parser, ingest_flags.JOURNAL_DEFAULTS)
    return parser


# --- configuration --------------------------------------------------------------------------------------------------


def _configuration(given: argparse.Namespace) -> Config:
    if given.connect and not given.listen:
        return node_flags.build_config(given, [("adminspace/enabled", True)], mode="client")
    settings: list[tuple[str, object]] = [("adminspace/enabled", True)]
    if given.demo:
        if not given.listen:
            settings.append(("listen/endpoints", [pick_demo_endpoint()]))
        settings.append(("scouting/multicast/enabled", False))
    return node_flags.build_config(given, settings, mode="router")


def pick_demo_endpoint(port: int = DEFAULT_PORT) -> str:
    """Return the default port on loopback if it is free, otherwise any port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just closed is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            print(f"port {port} is in use: the demo uses another one", flush=True)
            return "tcp/127.0.0.1:0"
    return f"tcp/127.0.0.1:{port}"


def _default_storage(given: argparse.Namespace, *, has_others: bool) -> list[StorageSettings]:
    if has_others and not given.key:
        return []
    journal = journal_path(given.lake, given.journal)
    assert journal is not None
    return [
        StorageSettings(
            name="up",
            key_exprs=tuple(str(key) for key in drop_included(given.key or ["**"])),
            complete=given.complete,
            lake=normalize_lake_path(given.lake),
            journal=journal,
        )
    ]


# --- run --------------------------------------------------------------------------------------------------------------


class RunLoop:
    """Runs the job from start to summary, with status output."""

    def __init__(
        self, job: Job, screen: Screen, given: argparse.Namespace, settings: Mapping[str, IngestSettings]
    ) -> None:
        """`settings` are the ingestion settings of each lake."""
        self._job = job
        self._screen = screen
        self._given = given
        self._settings = settings
        self._demo: Demo | None = None
        self._is_terminal = sys.stdout.isatty()

    def run(self, timing: RunTiming) -> int:
        """Run the job. Returns the exit code."""
        started_at = time.monotonic()
        self._job.record()
        node_flags.print_node_banner(self._job.session, self._screen, self._facts())
        with contextlib.ExitStack() as stack:
            if self._given.demo:
                self._demo = stack.enter_context(Demo(self._job, self._screen))
            ended = self._run_until_stopped(timing)
            has_ingested = self._drain(timing.stop_seconds)
        self._print_summary(time.monotonic() - started_at)
        if ended is not None:
            raise ended
        return 0 if has_ingested else EXIT_NOT_INGESTED

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

    def _facts(self) -> Iterator[tuple[str, str]]:
        for each in self._job.storages.settings:
            yield "keys", ", ".join(each.key_exprs)
            yield "journal", str(each.journal)
            if each.lake is not None:
                yield "lake", each.lake

    def _start_ingest(self) -> None:
        """Start Spark, and wait until it has started or failed."""
        masters = dict.fromkeys(settings.master for settings in self._settings.values())
        self._print(f"recording; starting Spark ({', '.join(masters)})")
        started_at = time.monotonic()
        self._job.ingest(self._settings)
        for supervisor in self._job.supervisors.values():
            while not supervisor.wait_for_attempt(WAIT_SECONDS):
                self._job.check()
        if all(supervisor.has_spark_started for supervisor in self._job.supervisors.values()):
            self._print(f"Spark started in {time.monotonic() - started_at:.1f} s. Press Ctrl-C to stop.")
        for supervisor in self._job.supervisors.values():
            if supervisor.status().ui is not None:
                self._print(f"Spark web interface: {supervisor.status().ui}")

    def _watch(self, limit: float | None) -> None:
        """Show the status until the time limit."""
        ends_at = None if limit is None else time.monotonic() + limit
        pause = STATUS_SECONDS if self._is_terminal or self._demo is not None else LOG_STATUS_SECONDS
        while ends_at is None or time.monotonic() < ends_at:
            time.sleep(pause if ends_at is None else max(0.0, min(pause, ends_at - time.monotonic())))
            self._job.check()
            self._show_status()

    def _show_status(self) -> None:
        status = self._job.status()
        if self._is_terminal:
            line = format_status(status)[: self._screen.width - 1]  # a longer line would wrap and not be overwritten
            print(f"\r\x1b[K{line}", end="", flush=True)
        elif self._demo is None:
            print(f"{datetime.now():%Y-%m-%d %H:%M:%S} {format_status(status)}", flush=True)
        if self._demo is not None and status.landed >= MIN_DEMO_ROWS:
            self._clear()
            self._demo.show()

    def _show_late(self, timeout: float) -> None:
        """Show the demo at the end, if too few rows were ingested before."""
        if self._demo is not None and self._job.settle(timeout):
            self._clear()
            self._demo.show()

    def _drain(self, timeout: float) -> bool:
        """Ingest the received rows. Returns whether all of them are; another Ctrl-C ends at once."""
        self._print("stopping: ingesting what was received")
        try:
            self._job.ingest(self._settings)  # Ctrl-C may have come before ingestion started
            return self._job.drain(timeout)
        except KeyboardInterrupt:
            return not self._job.status().waiting.rows

    def _clear(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", flush=True)

    def _print(self, text: str) -> None:
        self._clear()
        self._screen.write([self._screen.style(text, "dim")])
        sys.stdout.flush()

    def _print_summary(self, seconds: float) -> None:
        status = self._job.status()
        lines = [
            f"{status.recorded} messages recorded in {seconds:.0f} s, {status.landed} rows ingested"
            f" ({format_quantity(status.bytes, 'B')}), {status.keys} keys",
        ]
        if status.waiting.rows:
            lines.append(f"{status.waiting.rows} rows wait in the journal; they are ingested at the next start")
        lines += [f"{each.lake}: {each.problem}" for each in status.landings if each.problem is not None]
        lines += [
            f"tables are in {each}: zenspark sql --lake {each} 'select * from latest'" for each in self._job.supervisors
        ]
        self._screen.write(lines)
        sys.stdout.flush()


def format_status(status: JobStatus) -> str:
    """Format the status as one line; problems come first, where a narrow terminal does not cut them off."""
    batch = status.batch_seconds
    is_starting = any(ingest.state is IngestState.STARTING for ingest in status.landings)
    parts = [
        status.problem or ("starting Spark" if is_starting else None),
        f"{format_quantity(status.recorded_rate)} messages/s",
        f"{status.landed} rows ingested",
        f"{status.waiting.rows} waiting",
        f"lag {status.waiting.seconds:.1f} s",
        f"ingesting {format_quantity(status.landed_rate)} rows/s" if status.waiting.rows > CATCH_UP_ROWS else None,
        "no batch yet" if batch is None else f"last batch {batch:.2f} s",
        f"{status.keys} keys",
        f"{status.lost.total} lost" if status.lost.total else None,
        f"{status.quarantined} quarantined" if status.quarantined else None,
    ]
    return " | ".join(part for part in parts if part)
