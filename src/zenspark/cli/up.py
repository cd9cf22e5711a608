"""`zenspark up`: from Zenoh to tables and back in one command."""

from __future__ import annotations

import argparse
import contextlib
import socket
import sys
import time
from collections.abc import Iterator

from zenspark.api.config import Config
from zenspark.api.logs import init_log_from_env_or
from zenspark.cli import Parser, measures, node
from zenspark.cli.demo import ENOUGH, Demo
from zenspark.cli.measures import shown
from zenspark.cli.record import add_policy_flags, policy_of
from zenspark.cli.screen import Screen
from zenspark.journal.recorder import reduced
from zenspark.spark.job import Job, Progress
from zenspark.spark.storage.settings import JOURNAL, StorageSettings, journal_of, lake_at, storages_of

DESCRIPTION = f"""\
Run a Zenoh node that records what is published, lands it in tables with Spark, and answers queries from them: the
newest value of a key, and with ?_time=[now(-1h)..] its history. It runs until it is interrupted (Ctrl-C) or terminated:
then what was received lands. Started again with the same lake, it continues.

It is a router and listens on tcp/[::]:7447. With --connect and without --listen it is a client of that node instead.

{node.CONFIGURATION}
Storages in the file (plugins/storage_manager) run as well, instead of --key if that is not given."""

PORT = 7447
EVERY = 1.0
"""Seconds between two status lines on a terminal,"""
SELDOM = 10.0
"""and elsewhere."""


def run(arguments: list[str]) -> int:
    """Run the command; the exit code."""
    given = _parser().parse_args(arguments)
    storages, config = storages_of(_configuration(given))
    storages += _own_storage(given, has_others=bool(storages))
    policy = policy_of(given)
    limit = None if given.seconds is None else measures.duration(given.seconds)
    init_log_from_env_or("warn")
    node.end_by_signals()
    job = Job(config, storages, policy)
    try:
        with contextlib.closing(job):
            return Run(job, Screen(), given).through(limit)
    except KeyboardInterrupt:
        return 130


def _parser() -> Parser:
    parser = Parser(prog="zenspark up", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--key", metavar="KEYEXPR", action="append", help="what to record and answer for; repeatable (default: **)")
    add("--lake", metavar="PLACE", default="lake", help="directory or URI of the tables (default: ./lake)")
    add("--journal", metavar="DIR", help=f"where rows wait to land (default: {JOURNAL} in the lake, if that is no URI)")
    add("--master", metavar="URL", default="local[*]", help="the Spark that lands them (default: local[*], in here)")
    add("--complete", action="store_true", help="declare that the storage has everything under its keys")
    add("--for", metavar="DURATION", dest="seconds", help="end by itself so long after Spark is there, e.g. 90s or 1h")
    add("--demo", action="store_true", help="run a small simulated fleet against it, and show what becomes of it")
    node.add_node_flags(parser, mode="router; with --connect alone, client")
    add_policy_flags(parser)
    return parser


# --- what the flags mean ----------------------------------------------------------------------------------------------


def _configuration(given: argparse.Namespace) -> Config:
    if given.connect and not given.listen:
        return node.configuration(given, [("adminspace/enabled", True)], mode="client")
    settings: list[tuple[str, object]] = [("adminspace/enabled", True)]
    if given.demo:
        if not given.listen:
            settings.append(("listen/endpoints", [demo_endpoint()]))
        settings.append(("scouting/multicast/enabled", False))
    return node.configuration(given, settings, mode="router")


def demo_endpoint(port: int = PORT) -> str:
    """The usual port on loopback if nobody has it, otherwise any."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was just closed is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            print(f"port {port} is in use: the demo takes another one", flush=True)
            return "tcp/127.0.0.1:0"
    return f"tcp/127.0.0.1:{port}"


def _own_storage(given: argparse.Namespace, *, has_others: bool) -> list[StorageSettings]:
    if has_others and not given.key:
        return []
    journal = journal_of(given.lake, given.journal)
    assert journal is not None
    return [
        StorageSettings(
            name="up",
            key_exprs=tuple(str(key) for key in reduced(given.key or ["**"])),
            complete=given.complete,
            lake=lake_at(given.lake),
            journal=journal,
        )
    ]


# --- what happens -----------------------------------------------------------------------------------------------------


class Run:
    """One run of the job, told on a screen."""

    def __init__(self, job: Job, screen: Screen, given: argparse.Namespace) -> None:
        self._job = job
        self._screen = screen
        self._given = given
        self._demo: Demo | None = None
        self._is_terminal = sys.stdout.isatty()

    def through(self, limit: float | None) -> int:
        """From the first line to the summary; the exit code."""
        began = time.monotonic()
        self._job.record()
        node.announce(self._job.session, self._screen, self._facts())
        with contextlib.ExitStack() as stack:
            if self._given.demo:
                self._demo = stack.enter_context(Demo(self._job, self._screen))
            try:
                self._land()
                self._watch(limit)
                is_over = True
            except KeyboardInterrupt:
                is_over = False
            self._say("ending: what was received lands")
            self._job.drain()
            if self._demo is not None and is_over:
                self._demo.show()  # on a busy machine nothing may have landed before
        self._summarise(time.monotonic() - began)
        return 0

    def _facts(self) -> Iterator[tuple[str, str]]:
        for each in self._job.storages.settings:
            yield "keys", ", ".join(each.key_exprs)
            yield "journal", str(each.journal)
            if each.lake is not None:
                yield "lake", each.lake

    def _land(self) -> None:
        self._say(f"recording; Spark starts ({self._given.master})")
        began = time.monotonic()
        try:
            self._job.land(self._given.master)
        finally:
            node.end_by_signals()  # Spark's own handler would cancel the batch that is landing
        self._say(f"Spark is there after {time.monotonic() - began:.1f} s; Ctrl-C ends")

    def _watch(self, limit: float | None) -> None:
        """Until the time is over."""
        ends_at = None if limit is None else time.monotonic() + limit
        pause = EVERY if self._is_terminal or self._demo is not None else SELDOM
        while ends_at is None or time.monotonic() < ends_at:
            time.sleep(pause if ends_at is None else max(0.0, min(pause, ends_at - time.monotonic())))
            self._job.check()
            progress = self._job.progress()
            if self._is_terminal:
                line = line_of(progress)[: self._screen.width - 1]  # a longer one would not be overwritten
                print(f"\r\x1b[K{line}", end="", flush=True)
            elif self._demo is None:
                print(line_of(progress), flush=True)
            if self._demo is not None and progress.landed >= ENOUGH:
                self._clear()
                self._demo.show()

    def _clear(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", flush=True)

    def _say(self, text: str) -> None:
        self._clear()
        self._screen.write([self._screen.styled(text, "dim")])
        sys.stdout.flush()

    def _summarise(self, seconds: float) -> None:
        progress = self._job.progress()
        lines = [
            f"{progress.recorded} messages recorded in {seconds:.0f} s, {progress.landed} rows landed"
            f" ({shown(progress.bytes, 'B')}), {progress.keys} keys",
        ]
        if progress.waiting:
            lines.append(f"{progress.waiting} rows wait in the journal and land the next time")
        lines += [
            f"tables are in {each}: zenspark sql --lake {each} 'select * from latest'" for each in self._job.landings
        ]
        self._screen.write(lines)
        sys.stdout.flush()


def line_of(progress: Progress) -> str:
    """One line on how it gets on."""
    parts = [
        f"{shown(progress.rate)} messages/s",
        f"{progress.landed} rows landed",
        f"{progress.waiting} waiting",
        "lag -" if progress.lag is None else f"lag {progress.lag:.1f} s",
        "no batch yet" if progress.batch_seconds is None else f"last batch {progress.batch_seconds:.2f} s",
        f"{progress.keys} keys",
    ]
    return " | ".join([*parts, progress.problem] if progress.problem else parts)
