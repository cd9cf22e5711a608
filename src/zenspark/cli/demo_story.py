"""The demo of `zenspark up`: a simulated fleet in a child process, tables and queries of it, and commands to try."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table
from rich.text import Text

from zenspark.api.ext.serialization import Float32, z_deserialize
from zenspark.api.open import open as open_session
from zenspark.cli.demo_fleet import BATTERY_ENCODING, ROBOTS, VISIT_TICKS
from zenspark.cli.screen import Screen
from zenspark.config.config import Config
from zenspark.errors import LakeError, UsageError
from zenspark.lake.lake import Lake
from zenspark.spark.pipeline.job import Job
from zenspark.types.sample import Sample
from zenspark.types.zbytes import ZBytes

MIN_DEMO_ROWS = 6 * VISIT_TICKS[1]
"""Rows after which tables and queries are shown: the three robots and the visitor (`fleet.py`) publish fewer before it
leaves."""
SHOWN_COLUMNS = ["key", "payload", "encoding", "timestamp"]
HEADINGS = {"payload": "value", "timestamp": "time"}
TRAFFIC_COLUMNS = ["prefix", "minute", "messages", "bytes", "latency_avg_us"]
SHOWN_SAMPLES = 4
SNAPSHOT_ATTEMPTS, SNAPSHOT_PAUSE_SECONDS = 20, 0.25
"""Attempts to read all derived tables as of the same offsets: they are refreshed one after the other."""
STORY_QUERY_TIMEOUT_SECONDS = 60.0
"""Timeout of a query, for busy machines."""
HISTORY_START = "now(-10m)"
"""Start of the history query."""


class TableSnapshot(NamedTuple):
    """Rows of the tables of a lake as of the same offsets, so that their numbers agree."""

    rows: int
    """Number of rows of `samples` that `latest` and `traffic` were computed from."""
    samples: list[dict[str, Any]]
    """The last of these rows."""
    latest: list[dict[str, Any]]
    traffic: list[dict[str, Any]]


def read_snapshot(lake: Lake) -> TableSnapshot:
    """Read samples, latest and traffic as of the same offsets; raises LakeError if there is no lake yet."""
    latest, traffic = lake.snapshot("latest"), lake.snapshot("traffic")
    for _ in range(SNAPSHOT_ATTEMPTS):
        if latest.offsets == traffic.offsets:
            break
        time.sleep(SNAPSHOT_PAUSE_SECONDS)
        lake.reopen()
        latest, traffic = lake.snapshot("latest"), lake.snapshot("traffic")
    rows = lake.dataset("samples").filter(_rows_before(traffic.offsets))
    newest = rows.to_table(columns=[*SHOWN_COLUMNS, "offset"]).sort_by([("offset", "descending")])
    return TableSnapshot(
        rows.count_rows(),
        newest.slice(0, SHOWN_SAMPLES).select(SHOWN_COLUMNS).to_pylist(),
        latest.dataset.to_table(columns=SHOWN_COLUMNS).sort_by("key").to_pylist(),
        traffic.dataset.to_table(columns=TRAFFIC_COLUMNS).sort_by("minute").to_pylist(),
    )


def _try_snapshot(lake: str) -> TableSnapshot | None:
    """Read a snapshot; None if there is no lake yet."""
    try:
        return read_snapshot(Lake(lake))
    except LakeError:
        return None


def _rows_before(offsets: Mapping[str, int]) -> pc.Expression:
    """Return the condition of the rows before the offset of their recorder."""
    condition = pc.scalar(False)
    for recorder, end in offsets.items():
        condition = condition | ((pc.field("recorder") == recorder) & (pc.field("offset") < pa.scalar(end, pa.int64())))
    return condition


class Demo:
    """Runs the fleet, and shows its tables and queries once."""

    def __init__(self, job: Job, screen: Screen, url: str | None = None, earlier_rows: int = 0) -> None:
        """`url` is that of the page, if it is served; `earlier_rows` counts the rows of earlier runs in the lake."""
        locators = job.session.info.locators()
        if not locators:
            raise UsageError("--demo: the fleet needs a node that listens; give --listen too")
        self._endpoint = locators[0]
        self._job = job
        self._screen = screen
        self._url = url
        self._earlier_rows = earlier_rows
        self._process: subprocess.Popen[bytes] | None = None
        self._was_shown = False

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "zenspark.cli.demo_fleet", self._endpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.communicate()

    def show(self, *, is_last: bool = False) -> bool:
        """Show tables, queries and commands to try once, when the tables have enough rows, or in any case if `is_last`.

        Returns whether they have been shown.
        """
        if self._was_shown:
            return True
        snapshots = [snapshot for snapshot in map(_try_snapshot, self._job.supervisors) if snapshot is not None]
        if (
            not is_last
            and min((snapshot.rows for snapshot in snapshots), default=0) < self._earlier_rows + MIN_DEMO_ROWS
        ):
            return False
        self._was_shown = True
        for snapshot in snapshots:
            self._show_tables(snapshot)
        self._show_queries()
        self._show_next_steps()
        return True

    # -- tables

    def _show_tables(self, snapshot: TableSnapshot) -> None:
        self._show(format_samples_title(snapshot.rows, self._earlier_rows), snapshot.samples)
        self._show(f"latest: the newest of each of {len(snapshot.latest)} keys", snapshot.latest)
        total = sum(row["messages"] for row in snapshot.traffic)
        self._show(f"traffic: per prefix and minute ({total} messages in all)", snapshot.traffic)

    def _show(self, title: str, rows: list[dict[str, Any]]) -> None:
        self._screen.write(["", self._screen.style(title, "bold")])
        self._screen.print(make_table(rows))

    # -- queries

    def _show_queries(self) -> None:
        config = Config.from_json5('{mode: "client", scouting: {multicast: {enabled: false}}}')
        config.insert_json5("connect/endpoints", json.dumps([self._endpoint]))
        robot = ROBOTS[0]
        with open_session(config) as session:
            for selector, replier in (
                ("fleet/*/pose", "the storage, from memory"),
                (
                    f"fleet/{robot}/pose?_time=[{HISTORY_START}..];_limit=4",
                    "the storage, from the tables and the journal",
                ),
                (f"fleet/{robot}/diagnosis", "the robot itself"),
            ):
                replies = [
                    reply.ok
                    for reply in session.get(selector, timeout=STORY_QUERY_TIMEOUT_SECONDS)
                    if reply.ok is not None
                ]
                self._show_replies(selector, replier, replies)

    def _show_replies(self, selector: str, replier: str, replies: list[Sample]) -> None:
        rows = [
            {"key": str(sample.key_expr), "payload": sample.payload.to_bytes(), "encoding": str(sample.encoding)}
            | {"timestamp": None if sample.timestamp is None else sample.timestamp.get_time()}
            for sample in replies
        ]
        self._show(f'session.get("{selector}")\n  reply from {replier}', rows)

    # -- commands to try

    def _show_next_steps(self) -> None:
        style = self._screen.style
        lines = ["", style("Your turn, in another terminal, while this runs:", "bold")]
        for title, *commands in format_next_steps(
            self._endpoint, next(iter(self._job.supervisors), ""), self._url, find_command()
        ):
            lines += [style(f"# {title}", "cyan"), *commands]
        self._screen.write([*lines, ""])
        sys.stdout.flush()


def format_samples_title(rows: int, earlier_rows: int) -> str:
    """Return the title of `samples`; rows of earlier runs are counted separately."""
    count = f"{rows} rows, {rows - earlier_rows} of this run" if 0 < earlier_rows <= rows else f"{rows} rows"
    return f"samples: every message, as it was published ({count})"


def format_next_steps(endpoint: str, lake: str, url: str | None, zenspark: str = "zenspark") -> list[tuple[str, ...]]:
    """Return commands to try: a title, and lines to paste; `zenspark` is the name or path of the command."""
    steps: list[tuple[str, ...]] = [
        ("in the browser: keys, pictures, time, network, SQL", str(url)),
        ("watch the robots", f"{zenspark} sub -m client -e {endpoint} 'fleet/*/pose'"),
        ("any HTTP client", f"curl '{str(url).rstrip('/')}/fleet/*/pose'"),
        ("SQL", f'{zenspark} sql --lake {lake} "select key, count(*) from samples group by key"'),
        (
            "DuckDB, not installed by zenspark: duckdb.org (downloads its delta extension)",
            f"duckdb -c \"select key, timestamp from delta_scan('{lake}/latest')\"",
        ),
        (
            "eclipse-zenoh, in Python (pip install eclipse-zenoh)",
            "import zenoh",
            "config = zenoh.Config()",
            f'config.insert_json5("connect/endpoints", \'["{endpoint}"]\')',
            "session = zenoh.open(config)",
            'for reply in session.get("fleet/*/pose"):',
            "    print(reply.ok.key_expr, reply.ok.payload.to_string())",
        ),
    ]
    return [step for step in steps if url is not None or step[0] not in (steps[0][0], steps[2][0])]


def find_command() -> str:
    """Return the name of zenspark for a shell in this directory, or its path in a virtual environment."""
    path = Path(sys.executable).with_name("zenspark")
    if shutil.which("zenspark") or not path.exists():
        return "zenspark"
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def make_table(rows: list[dict[str, Any]]) -> Table:
    """Make a table of rows; only the values are cut where the screen is too narrow."""
    table = Table(box=None, pad_edge=False, header_style="cyan")
    names = [name for name in (rows[0] if rows else []) if name != "encoding"]  # it is used to decode the values
    for name in names:
        table.add_column(HEADINGS.get(name, name), no_wrap=name != "payload")  # a column that may wrap is narrowed
    for row in rows:
        table.add_row(*(Text(_format_cell(row, name), no_wrap=True, overflow="ellipsis") for name in names))
    return table


def _format_cell(row: dict[str, Any], name: str) -> str:
    """Format a cell of a table."""
    value = row[name]
    match value:
        case None:
            return ""
        case bytes() | bytearray():
            return format_value(bytes(value), row["encoding"])
        case datetime():
            return f"{value:%H:%M}" if name == "minute" else f"{value:%H:%M:%S}"
        case float():
            return f"{value:.0f}"
    return str(value)


def format_value(payload: bytes, encoding: str) -> str:
    """Format a value of the fleet by its encoding."""
    if encoding in ("application/json", "text/plain"):
        return payload.decode()
    if encoding == str(BATTERY_ENCODING):
        return f"{z_deserialize(Float32, ZBytes(payload)):.2f}"
    return f"{encoding.partition('/')[2].upper()} picture, {len(payload)} bytes"
