"""`zenspark up` as users run it: a process beside real publishers, ended by time or by Ctrl-C, and started again."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import zenspark
from tests.interop.reference import eventually, ours, unused
from tests.optional import some
from tests.unit.journal.rows import batch, row
from tests.wait import until
from zenspark.cli.demo import DEMO_LAKE
from zenspark.journal import Journal, JournalWriter
from zenspark.spark.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.interop]

TIMEOUT_SECONDS = 300.0
PUBLISHER = """
import json, sys, zenoh
config = zenoh.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
session = zenoh.open(config)
block = zenoh.CongestionControl.BLOCK
publishers = [session.declare_publisher(f"up/{at}", congestion_control=block) for at in range(10)]
print("open", flush=True)
number = int(sys.argv[2])
for line in sys.stdin:
    for _ in range(int(line)):
        publishers[number % 10].put(str(number), attachment=str(number))
        number += 1
    print(number, flush=True)
session.close()
"""


class Up:
    """The command in a child process, and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._printed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._printed:
                self.lines.append(line.rstrip())
                self._printed.notify_all()
        with self._printed:
            self.lines.append("")
            self._printed.notify_all()

    def wait_for(self, text: str) -> None:
        with self._printed:
            assert self._printed.wait_for(lambda: any(text in line for line in self.lines), TIMEOUT_SECONDS), self.lines

    def ended(self) -> int:
        code = self.process.wait(TIMEOUT_SECONDS)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def up(endpoint: str, lake: Path | str, *flags: str) -> Iterator[Up]:
    command = [sys.executable, "-m", "zenspark", "up", "-l", endpoint, "--lake", str(lake), "--master", "local[2]"]
    process = subprocess.Popen(
        [*command, "--no-multicast-scouting", "--stop-timeout", f"{TIMEOUT_SECONDS}s", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    running = Up(process)
    try:
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        running.ended()


@contextlib.contextmanager
def publisher(endpoint: str, first: int = 0) -> Iterator[subprocess.Popen[str]]:
    settings = {
        "mode": "client",
        "connect/endpoints": [endpoint],
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
    }
    with subprocess.Popen(
        [sys.executable, "-c", PUBLISHER, json.dumps(settings), str(first)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            process.kill()


def publish(process: subprocess.Popen[str], count: int) -> int:
    """Have so many published; how many there are then."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{count}\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def got(endpoint: str, selector: str) -> list[tuple[str, str]]:
    with zenspark.open(ours(mode="client", connect__endpoints=[endpoint])) as session:
        replies = list(session.get(selector, timeout=60))
    assert all(reply.ok is not None for reply in replies)
    return [(str(some(reply.ok).key_expr), some(reply.ok).payload.to_string()) for reply in replies]


def samples(lake: Path) -> list[dict[str, Any]]:
    table: pa.Table = (
        Lake(lake).dataset("samples").to_table(columns=["key", "payload", "attachment", "offset", "recorder"])
    )
    rows: list[dict[str, Any]] = table.sort_by("offset").to_pylist()
    return rows


def newest(sent: int) -> dict[str, str]:
    """What is newest when so many were sent."""
    return {f"up/{number % 10}": str(number) for number in range(sent - 10, sent)}


def test_stop_before_spark_starts_reports_waiting_rows_and_next_start_ingests_them(tmp_path: Path) -> None:
    endpoint, lake = unused(), tmp_path / "lake"
    with up(endpoint, lake, "--stop-timeout", "0s") as first:
        first.wait_for("starting Spark")
        with publisher(endpoint) as process:
            sent = publish(process, 200)
            assert eventually(lambda: Journal(lake / "_journal").latest() == sent)
        os.kill(first.process.pid, signal.SIGTERM)
        assert first.ended() == 3, first.lines
    output = "\n".join(first.lines)
    assert f"{sent} rows recorded" in output
    assert f"{sent} rows wait in the journal; they are ingested at the next start" in output
    assert "Traceback" not in output

    with up(endpoint, lake) as second:
        second.wait_for("starting Spark")
        os.kill(second.process.pid, signal.SIGTERM)  # without --stop-timeout 0 it ingests what waits first
        assert second.ended() == 0, second.lines
    assert [int(row["payload"]) for row in samples(lake)] == list(range(sent))
    assert "Traceback" not in "\n".join(second.lines), "\n".join(second.lines)

    with up(endpoint, lake) as third:
        third.wait_for("starting Spark")
        os.kill(third.process.pid, signal.SIGTERM)
        assert third.ended() == 0, third.lines
    assert not [line for line in third.lines if "Spark started in" in line]  # nothing to ingest


def test_two_pipelines_fill_one_lake(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    places = {name: unused() for name in ("one", "other")}
    with contextlib.ExitStack() as stack:
        running = {
            name: stack.enter_context(up(place, lake, "--journal", str(tmp_path / name), "--refresh-interval", "1s"))
            for name, place in places.items()
        }
        publishers = {name: stack.enter_context(connected(running[name], place)) for name, place in places.items()}
        for _ in range(3):
            sent = {name: publish(process, 1000) for name, process in publishers.items()}
            journals = {name: Journal(tmp_path / name) for name in places}
            until(lambda: {name: journal.latest() for name, journal in journals.items()} == sent, TIMEOUT_SECONDS)  # noqa: B023
            wanted = {journal.recorder: sent[name] for name, journal in journals.items()}
            until(lambda: Lake(lake).exists() and Lake(lake).ingested() == wanted, TIMEOUT_SECONDS)  # noqa: B023
        for each in running.values():
            os.kill(each.process.pid, signal.SIGTERM)
        for each in running.values():
            assert each.ended() == 0, each.lines
    rows = samples(lake)
    assert len(rows) == 6000
    for recorder in wanted:
        own = [row for row in rows if row["recorder"] == recorder]
        assert [int(row["payload"]) for row in own] == list(range(3000))
        assert [row["offset"] for row in own] == list(range(3000))


@contextlib.contextmanager
def connected(running: Up, endpoint: str) -> Iterator[subprocess.Popen[str]]:
    """A publisher, as soon as there is a node for it."""
    running.wait_for("starting Spark")
    with publisher(endpoint) as process:
        yield process


def test_publications_are_in_tables_and_queryable_and_restart_continues(tmp_path: Path) -> None:
    endpoint, lake = unused(), tmp_path / "lake"
    with up(endpoint, lake) as first:
        first.wait_for("listens on")
        with publisher(endpoint) as process:
            publish(process, 5000)
            first.wait_for("Spark started in")
            sent = publish(process, 5000)
            assert eventually(lambda: dict(got(endpoint, "up/*")) == newest(sent))
            past = got(endpoint, "up/3?_time=[now(-1h)..];_limit=3")
            assert past == [("up/3", str(sent - 10 * back + 3)) for back in (3, 2, 1)]
            assert process.stdin is not None
            process.stdin.write("1000000\n")  # more than it can send before the end
            process.stdin.flush()
            assert eventually(lambda: int(dict(got(endpoint, "up/0")).get("up/0", "0")) > sent)
            os.killpg(first.process.pid, signal.SIGINT)  # as Ctrl-C in a terminal: Java and its workers get it too
            assert first.ended() == 0, first.lines
    rows = samples(lake)
    count = len(rows)
    assert sent < count < 1_000_000
    assert f"{count} rows recorded" in "\n".join(first.lines)
    assert [int(row["payload"]) for row in rows] == list(range(count))

    with up(endpoint, lake, "--for", "1s") as second:
        second.wait_for(f"continued after {count} rows of earlier runs")
        assert dict(got(endpoint, "up/*")) == {row["key"]: row["payload"].decode() for row in rows[-10:]}
        with publisher(endpoint, count) as process:
            sent = publish(process, 1000)
            assert eventually(lambda: dict(got(endpoint, "up/*")) == newest(sent))
            assert second.ended() == 0, second.lines
    rows = samples(lake)
    assert [int(row["payload"]) for row in rows] == list(range(sent))
    assert [row["offset"] for row in rows] == list(range(sent))
    assert all(row["payload"] == row["attachment"] for row in rows)


README = Path(__file__).resolve().parents[2] / "README.md"


def pattern(line: str) -> str:
    """A line without what differs from run to run: numbers, ids and how far columns are apart."""
    return re.sub(r"[0-9a-f]{16,32}|-?[0-9]+([.:][0-9]+)*", "#", " ".join(line.split()))


def test_the_demo_shows_what_the_readme_shows(tmp_path: Path) -> None:
    with up(unused(), tmp_path / "lake", "--demo", "--for", "10m") as shown:
        shown.wait_for("print(reply.ok.key_expr")
        os.kill(shown.process.pid, signal.SIGTERM)
        assert shown.ended() == 0
    block = README.read_text().split("$ zenspark demo\n")[1].split("```")[0]
    wanted = [
        line.replace(DEMO_LAKE, str(tmp_path / "lake"))
        for line in block.splitlines()
        if line.strip() not in ("", "...")
    ]
    found = [pattern(line).replace("local[#]", "local[*]") for line in shown.lines]
    missing = [line for line in wanted if pattern(line) not in found]
    assert len(wanted) > 15
    assert not missing, "\n".join(shown.lines)
    assert shown.lines[0].startswith("http://127.0.0.1:")  # the page comes first
    assert "all fine" in "\n".join(shown.lines)
    output = "\n".join(shown.lines)
    latest = output.split("latest:")[1].split("traffic:")[0]
    assert "fleet/cat/pose" in latest
    assert "visitor" not in latest  # it was there, and was deleted
    lines = [line.rstrip() for line in latest.splitlines() if line.startswith("fleet/")]
    assert len(lines) > 5
    assert all(re.search(r" \d\d:\d\d:\d\d$", line) for line in lines)  # at 80 columns values are cut, times never
    # the numbers are from one snapshot
    (rows,) = re.findall(r"as it was published \((\d+) rows\)", output)
    assert re.findall(r"\((\d+) messages in all\)", output) == [rows]


def test_killed_processes_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "zenspark", "demo", "--kill", "--lake", str(tmp_path / "demo")]
    ended = subprocess.run(
        [*command, "-l", unused(), "--http", "none", "--master", "local[2]"],
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counts = {line.split("  ")[0]: line.split()[-1] for line in ended.stdout.splitlines()}
    assert counts["rows in the table"] == counts["published by the robots"]
    assert (counts["lost"], counts["duplicates"]) == ("0", "0")
    assert ended.stdout.count("kill -9") == 3


def test_python_of_the_readme_prints_what_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    ((code, expected),) = [
        (text, blocks[index + 1][1])
        for index, (language, text) in enumerate(blocks)
        if language == "python" and "pyspark" in text
    ]
    with JournalWriter(tmp_path / "journal") as writer:
        for name, count in (("ant", 20), ("bee", 10)):
            writer.append(batch(*(row(at, key=f"fleet/{name}/pose") for at in range(count))))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):  # Java was started in another directory than the journal is in
        exec(compile(code.replace('"journal"', repr(str(tmp_path / "journal"))), "README.md", "exec"), {})
    assert printed.getvalue().strip() == expected.strip()
