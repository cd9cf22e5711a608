"""`zenspark demo --kill`: kills recorders and driver while robots publish, and counts lost and duplicated samples.

Two recorders write a journal each, so that one of them records while the other is dead; Spark ingests both journals
and drops duplicates. Every sample has a source and a sequence number, by which lost and duplicated ones are counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow.compute as pc

from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.cli import http_flags, node_flags
from zenspark.cli.exit_codes import FAILED, INCOMPLETE, INTERRUPTED, CommandError
from zenspark.cli.screen import Screen
from zenspark.cli.status_line import LOG_STATUS_INTERVAL_SECONDS, STATUS_INTERVAL_SECONDS, StatusLine, write_line
from zenspark.cli.up import pick_demo_endpoint
from zenspark.config.config import Config
from zenspark.errors import JournalError, UsageError
from zenspark.journal import Journal
from zenspark.lake.lake import Lake
from zenspark.spark.ingest.rotating_log import RotatingLog
from zenspark.spark.ingest.settings import IngestProcessConfig, IngestSettings
from zenspark.spark.ingest.supervisor import IngestSupervisor
from zenspark.spark.ingest.supervisor_state import IngestState

RECORDERS = ("one", "two")
FLEET_KEYS = "fleet/**"
SAMPLES_PER_STEP = 150
"""Samples that are published between two kills or starts: about two seconds."""
STEP_TIMEOUT_SECONDS = 180.0
"""Timeout of a step, for busy machines: Spark starts in it."""
OUTPUT_POLL_INTERVAL_SECONDS = 0.1


class Counts(NamedTuple):
    """The result: samples published, recorded by each recorder, and in the table."""

    published: int
    recorded: tuple[int, ...]
    rows: int
    distinct: int

    @property
    def lost(self) -> int:
        """Samples that were published and are not in the table."""
        return self.published - self.distinct

    @property
    def duplicates(self) -> int:
        """Rows of the table that are there more than once."""
        return self.rows - self.distinct


def run(args: argparse.Namespace) -> int:
    """Run the command. Returns 0 if nothing was lost or duplicated, 1 otherwise."""
    home = Path(args.lake)
    if home.exists() and any(home.iterdir()):
        raise UsageError(f"{home}: expected a directory that is empty, as samples are counted; --lake names another")
    http = http_flags.parse_http(args, default=http_flags.DEFAULT_ADDRESS)
    node_flags.raise_interrupt_on_signals()
    config = Config.from_json5('{mode: "router", scouting: {multicast: {enabled: false}}, adminspace: {enabled: true}}')
    config.insert_json5("listen/endpoints", json.dumps([args.listen or pick_demo_endpoint()]))
    try:
        with open_session(config) as session, http_flags.serve_http(session, http) as served:
            node_flags.print_node_banner(session, Screen(), served.facts)
            master = args.master or IngestSettings().master
            with KillDemo(session, home, master) as demo:
                return print_result(demo.run())
    except KeyboardInterrupt:
        return INTERRUPTED


def print_result(counts: Counts) -> int:
    """Print the counts. Returns the exit code."""
    lines = [
        f"published by the robots     {counts.published:>8}",
        *(
            f"recorded by recorder {name:6} {rows:>8}  ({counts.published - rows} missed while it was dead)"
            for name, rows in zip(RECORDERS, counts.recorded, strict=True)
        ),
        f"rows in the table           {counts.rows:>8}",
        f"lost                        {counts.lost:>8}",
        f"duplicates                  {counts.duplicates:>8}",
    ]
    for line in lines:
        write_line(line)
    return 0 if counts.lost == counts.duplicates == 0 else INCOMPLETE


def format_counts(published: int, recorded: Mapping[str, int], rows: int) -> list[str]:
    """Format the number of samples published, recorded by each recorder, and in the table, while robots publish.

    The robots report once per second what they have published, so that a recorder may already have more: the larger
    number is shown.
    """
    return [
        f"published {max(published, *recorded.values())}",
        *(f"recorder {name} {count}" for name, count in recorded.items()),
        f"in the table {rows}",
    ]


class KillDemo:
    """Robots, two recorders and the ingestion, each in a process that can be killed."""

    def __init__(self, session: Session, home: Path, master: str) -> None:
        self._session = session
        self._endpoint = session.info.locators()[0]
        self._journals = {name: home / f"journal-{name}" for name in RECORDERS}
        self._lake = home / "lake"
        self._recorders: dict[str, subprocess.Popen[bytes]] = {}
        self._fleet: subprocess.Popen[str] | None = None
        self._published = 0
        self._supervisor = IngestSupervisor(
            IngestProcessConfig(
                lake=str(self._lake),
                journals=tuple(map(str, self._journals.values())),
                instance=uuid4().hex,
                settings=IngestSettings(master=master, deduplicate=True),
            ),
            RotatingLog(home / "ingest.log"),
        )
        self._status = StatusLine(log_seconds=LOG_STATUS_INTERVAL_SECONDS)
        self._shown_at = 0.0

    def __enter__(self) -> KillDemo:
        return self

    def __exit__(self, *_: object) -> None:
        self._status.end()
        for process in (*self._recorders.values(), self._fleet):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        if self._fleet is not None and self._fleet.stdout is not None:
            self._reader.join()
            self._fleet.stdout.close()
        self._supervisor.stop()

    def run(self) -> Counts:
        """Kill everything once. Returns the counts at the end."""
        for name in RECORDERS:
            self._start_recorder(name)
        self._wait("the recorders", lambda: self._count_subscribers() == len(RECORDERS))
        self._start_fleet()
        self._supervisor.start()
        self._print("three robots publish, two recorders record, Spark starts")
        self._wait("samples in the table", lambda: self._supervisor.status().rows > 0)
        self._kill_recorder("one")
        self._publish_more()
        self._restart_recorder("one")
        self._kill_driver()
        self._publish_more()
        self._wait("the driver again", lambda: self._supervisor.status().state is IngestState.INGESTING)
        self._kill_recorder("two")
        self._publish_more()
        self._restart_recorder("two")
        self._publish_more()
        published = self._stop_fleet()
        self._stop_recorders()
        self._print("recorders have ended; Spark ingests the remaining rows")
        if not self._supervisor.drain(STEP_TIMEOUT_SECONDS):
            raise CommandError(
                f"the rows were not ingested within {STEP_TIMEOUT_SECONDS:.0f} s: see {self._lake.parent}"
            )
        return self._count(published)

    # --- steps

    def _start_recorder(self, name: str) -> None:
        flags = ["-m", "client", "-e", self._endpoint, "--no-multicast-scouting", "--recorder", name]
        keys = ["--key", FLEET_KEYS, "--no-observe", "--journal", str(self._journals[name])]
        self._recorders[name] = subprocess.Popen(
            [sys.executable, "-m", "zenspark", "record", *flags, *keys, "--log-level", "error"],
            stdout=subprocess.DEVNULL,
        )

    def _count_subscribers(self) -> int:
        """Return the number of nodes that subscribe to the keys of the robots."""
        declarations = self._session.info.declarations()
        return sum(declaration.kind == "subscriber" and declaration.key == FLEET_KEYS for declaration in declarations)

    def _restart_recorder(self, name: str) -> None:
        old_offset = self._offset(name)
        self._start_recorder(name)
        self._wait(f"recorder {name}", lambda: self._offset(name) > old_offset)
        self._print(f"recorder {name} was started again and records", "green")

    def _kill_recorder(self, name: str) -> None:
        process = self._recorders[name]
        process.kill()
        process.wait()
        self._print(f"kill -9 {process.pid}: recorder {name} is dead", "bold red")

    def _kill_driver(self) -> None:
        pid = self._supervisor.status().pid
        assert pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        self._print(f"kill -9 {pid}: the Spark driver and its Java are dead", "bold red")

    def _start_fleet(self) -> None:
        self._fleet = subprocess.Popen(
            [sys.executable, "-m", "zenspark.cli.demo_fleet", self._endpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read_counts, name="zenspark-fleet", daemon=True)
        self._reader.start()

    def _read_counts(self) -> None:
        assert self._fleet is not None
        assert self._fleet.stdout is not None
        for line in self._fleet.stdout:
            self._published = int(line)

    def _publish_more(self) -> None:
        target = self._published + SAMPLES_PER_STEP
        self._wait("the robots", lambda: self._published >= target)

    def _stop_fleet(self) -> int:
        """End the robots, and wait until the recorders have everything. Returns the number of samples."""
        assert self._fleet is not None
        assert self._fleet.stdin is not None
        self._fleet.stdin.close()
        self._fleet.wait()
        self._reader.join()
        self._wait("the last sample", lambda: all(self._last_sn(name) == self._published - 1 for name in RECORDERS))
        self._print(f"the robots have stopped after {self._published} samples")
        return self._published

    def _stop_recorders(self) -> None:
        """End the recorders as Ctrl-C does: they write what they have received."""
        for process in self._recorders.values():
            process.terminate()
        for process in self._recorders.values():
            process.wait()

    # --- counts and output

    def _offset(self, name: str) -> int:
        try:
            return Journal(self._journals[name]).latest()
        except JournalError:
            return 0

    def _last_sn(self, name: str) -> int:
        """Return the sequence number of the last sample in a journal."""
        end = self._offset(name)
        rows = [batch for batch in Journal(self._journals[name]).read(end - 1, end) if batch.num_rows]
        last_sn: int = rows[-1]["source_sn"][-1].as_py()
        return last_sn

    def _count(self, published: int) -> Counts:
        rows = Lake(self._lake).dataset("samples").to_table(columns=["source_sn"])
        return Counts(
            published,
            tuple(self._offset(name) for name in RECORDERS),
            rows.num_rows,
            pc.count_distinct(rows["source_sn"]).as_py(),
        )

    def _wait(self, subject: str, is_done: Callable[[], bool]) -> None:
        """Wait for a condition with a status line; raises CommandError after the timeout."""
        deadline = time.monotonic() + STEP_TIMEOUT_SECONDS
        while not is_done():
            if time.monotonic() > deadline:
                raise CommandError(f"waited for {subject} for {STEP_TIMEOUT_SECONDS:.0f} s", FAILED)
            if time.monotonic() - self._shown_at >= STATUS_INTERVAL_SECONDS:
                self._shown_at = time.monotonic()
                self._status.show(*self._parts())
            time.sleep(OUTPUT_POLL_INTERVAL_SECONDS)

    def _parts(self) -> Iterator[str]:
        recorded = {name: self._offset(name) for name in RECORDERS}  # read before the number of published samples
        status = self._supervisor.status()
        yield from format_counts(self._published, recorded, status.rows)
        yield f"Spark: {status.state}"

    def _print(self, text: str, style: str = "") -> None:
        write_line(Screen().style(f"{time.strftime('%H:%M:%S')} {text}", style))
