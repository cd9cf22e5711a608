"""`zenspark up --demo`: runs a simulated fleet in a child process, and shows tables and queries of it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from typing import Any, Self

from rich.table import Table

from zenspark.api.open import open as open_session
from zenspark.cli.fleet import ROBOTS, VISIT_TICKS
from zenspark.cli.screen import Screen
from zenspark.config.config import Config
from zenspark.errors import LakeError, UsageError
from zenspark.spark.ingest.supervisor import IngestSupervisor
from zenspark.spark.pipeline.job import Job
from zenspark.types.sample import Sample

MIN_DEMO_ROWS = 6 * VISIT_TICKS[1]
"""Rows after which the demo is shown: four robots publish fewer before the visitor leaves."""
SAMPLES = "select key, payload, encoding, timestamp from samples order by received_at desc, offset desc limit 5"
LATEST = "select key, payload, encoding, timestamp from latest order by key limit 12"
TRAFFIC = "select prefix, minute, messages, bytes, latency_avg_us from traffic order by minute limit 12"
READABLE = ("application/json", "text/plain")
SQL_TIMEOUT_SECONDS = 300.0
"""Timeout of a SQL query, for busy machines."""
HISTORY = "now(-10m)"
"""Start of the history query."""

SCRIPT = """\
import zenoh
session = zenoh.open(zenoh.Config.from_json5('{{mode: "client", connect: {{endpoints: ["{endpoint}"]}}}}'))
for reply in session.get("fleet/*/pose"): print(reply.ok.key_expr, reply.ok.payload.to_string())"""


class Demo:
    """Runs the fleet, and shows its tables and queries once."""

    def __init__(self, job: Job, screen: Screen) -> None:
        locators = job.session.info.locators()
        if not locators:
            raise UsageError("--demo: the fleet needs a node that listens; give --listen too")
        self._endpoint = locators[0]
        self._job = job
        self._screen = screen
        self._process: subprocess.Popen[bytes] | None = None
        self._was_shown = False

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "zenspark.cli.fleet", self._endpoint], stdin=subprocess.PIPE
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.communicate()

    def show(self) -> None:
        """Show rows of the tables, replies to queries, and next steps; only the first call does."""
        if self._was_shown:
            return
        self._was_shown = True
        for supervisor in self._job.supervisors.values():
            try:
                self._show_tables(supervisor)
            except LakeError as error:
                self._screen.write([f"tables cannot be shown: {error}"])
        self._show_queries()
        self._show_next()

    # -- tables

    def _show_tables(self, supervisor: IngestSupervisor) -> None:
        count = supervisor.run_sql("select count(*) as rows from samples", SQL_TIMEOUT_SECONDS)["rows"][0].as_py()
        for title, query in (
            (f"samples: every message, as it was published ({count} rows)", SAMPLES),
            ("latest: the newest of each key", LATEST),
            ("traffic: per prefix and minute", TRAFFIC),
        ):
            self._show(title, supervisor.run_sql(query, SQL_TIMEOUT_SECONDS).to_pylist())

    def _show(self, title: str, rows: list[dict[str, Any]]) -> None:
        table = Table(box=None, pad_edge=False, header_style="cyan")
        for name in rows[0] if rows else []:
            table.add_column(name, no_wrap=True, overflow="ellipsis")
        for row in rows:
            table.add_row(*(_format_cell(row, name) for name in row))
        self._screen.write(["", self._screen.style(title, "bold")])
        self._screen.print(table)

    # -- queries

    def _show_queries(self) -> None:
        config = Config.from_json5('{mode: "client", scouting: {multicast: {enabled: false}}}')
        config.insert_json5("connect/endpoints", json.dumps([self._endpoint]))
        robot = ROBOTS[0]
        with open_session(config) as session:
            for selector, replier in (
                ("fleet/*/pose", "the storage, from memory"),
                (
                    f"fleet/{robot}/pose?_time=[{HISTORY}..];_limit=4",
                    "the storage, from the tables and the journal",
                ),
                (f"fleet/{robot}/diagnosis", "the robot itself"),
            ):
                replies = [reply.ok for reply in session.get(selector, timeout=10) if reply.ok is not None]
                self._show_replies(selector, replier, replies)

    def _show_replies(self, selector: str, replier: str, replies: list[Sample]) -> None:
        rows = [
            {"key": str(each.key_expr), "payload": each.payload.to_bytes(), "encoding": str(each.encoding)}
            | {"timestamp": None if each.timestamp is None else each.timestamp.get_time()}
            for each in replies
        ]
        self._show(f'session.get("{selector}")\n  reply from {replier}', rows)

    # -- what next

    def _show_next(self) -> None:
        styled = self._screen.style
        lines = ["", styled("Try next, from another terminal, while this runs:", "bold")]
        for lake in self._job.supervisors:
            query = "select key, count(*) from samples group by key order by key"
            lines.append(f'  {sys.argv[0]} sql --lake {lake} "{query}"')
        script = SCRIPT.format(endpoint=self._endpoint)
        lines += [
            styled("or from a plain eclipse-zenoh script:", "bold"),
            *(f"  {line}" for line in script.splitlines()),
            "",
        ]
        self._screen.write(lines)
        sys.stdout.flush()


def _format_cell(row: dict[str, Any], name: str) -> str:
    """Format a cell of a table."""
    value = row[name]
    match value:
        case None:
            return ""
        case bytes() | bytearray():
            return value.decode() if row["encoding"] in READABLE else f"{len(value)} bytes"
        case datetime():
            return f"{value:%H:%M}" if name == "minute" else f"{value:%H:%M:%S.%f}"[:-3]
        case float():
            return f"{value:.0f}"
    return str(value)
