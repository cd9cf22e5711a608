"""How many rows a second does the pipeline ingest from a publisher, and how long after its put is a row in the table?

    make bench                                                  this and all others, compiled
    python bench/bench_pipeline.py --json new.json              this one alone; --only 8,lag runs some of it
    python bench/bench_pipeline.py --only 8 --scale 0.2         fewer rows, a quick run
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good result: a million rows a second at 8 bytes from the first put until the last row is in the table, with the
publisher on the same machine; a lag under 2 seconds at a tenth of that.

All of `zenspark up` (node, recorder, storage, Spark) runs in a process of its own with a lake of its own, and the
publisher, one blocking `put_batch` after another, in another. "recorded" is until the journal has the last row,
"ingested" until the table has it; a turn before the measured ones warms Java up. "received" is the same publisher with
the same kind of node, a router, that only has a subscriber to record batches and drops them; both take turns, so a busy
machine disturbs both alike. "lag" is from before a put_batch of 10 ms until a transaction of the table has all its
rows, with rows put at a steady pace.
"""

from __future__ import annotations

import argparse
import bisect
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import pyarrow as pa

import zenspark
from bench.bench_session import Process, free_port, open_session, send_report, wait_for_match
from bench.command import OURS, parser, report
from bench.compare import Result
from zenspark.spark.ingest.settings import IngestSettings
from zenspark.spark.lake import Lake
from zenspark.spark.pipeline.job import Job
from zenspark.storage.settings import StorageSettings

ROWS = {8: 4_000_000, 1024: 200_000, 65536: 4_000}
"""Rows that are put in a turn, by payload size in bytes."""
MAX_BATCH_ROWS = 16_384
MAX_BATCH_BYTES = 1 << 24
KEYS = 100
PREFIXES = 4
TURNS = 3
LAG_RATE = 100_000
LAG_SECONDS = 15
PUTS_A_SECOND = 100
POLL_SECONDS = 0.005
TIMEOUT_SECONDS = 170.0
TURN_LINE = "go\n"
"""Input line that starts a turn in a child process."""

Steps = list[tuple[float, int]]
"""Times, and the number of rows at each."""


# --- roles, each in a child process -----------------------------------------------------------------------------------


def has_turn() -> bool:
    """Wait for an input line. Returns whether the parent process requests one more turn."""
    return sys.stdin.readline() == TURN_LINE


def role_up(locator: str, lake: str, count: int, master: str) -> None:
    """Run the whole pipeline; after every input line, report the progress of so many more rows."""
    config = zenspark.Config()
    config.insert_json5("mode", '"router"')
    config.insert_json5("listen/endpoints", f'["{locator}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    storage = StorageSettings(name="up", key_exprs=("**",), lake=lake, journal=Path(lake, "_journal"))
    with closing(Job(config, [storage])) as job:
        job.record()
        job.ingest({lake: IngestSettings(master=master)})
        while not job.supervisors[lake].has_spark_started:
            time.sleep(POLL_SECONDS)
        send_report(ready=True)
        target = 0
        while has_turn():
            target += count
            send_report(**watch_ingestion(job, target))


def watch_ingestion(job: Job, target: int) -> dict[str, object]:
    """Wait until all rows are ingested. Returns when all were recorded, and the number of ingested rows over time."""
    recorded, steps = 0.0, [(0.0, 0)]
    while steps[-1][1] < target:
        time.sleep(POLL_SECONDS)
        job.check()
        now, ingested = time.time(), sum(supervisor.status().rows for supervisor in job.supervisors.values())
        if ingested > steps[-1][1]:
            steps.append((now, ingested))
        if not recorded and sum(each.status().rows for each in job.storages.recorders.values()) >= target:
            recorded = now
    return {"recorded": recorded, "steps": steps[1:]}


def role_plain(locator: str, count: int) -> None:
    """A router with a subscriber that drops samples; per input line, report when so many more rows were received."""
    with open_session(zenspark, "router", [locator], []) as session:
        subscriber = session.declare_subscriber("**", zenspark.ArrowBatches())
        send_report(ready=True)
        while has_turn():
            seen = 0
            while seen < count:
                seen += subscriber.recv().num_rows
            send_report(received=time.time())


def role_put(locator: str, size: int, count: int, rate: int) -> None:
    """Per input line, put so many rows, at a steady rate or as fast as possible, and report when they were put."""
    with open_session(zenspark, "client", [], [locator]) as session:
        wait_for_match(session.declare_publisher(key_of(0)))
        batches = list(batches_of(size, count, rate // PUTS_A_SECOND if rate else MAX_BATCH_ROWS))
        ends = list(accumulate(batch.num_rows for batch in batches))
        send_report(ready=True)
        while has_turn():
            began, times = time.time(), []
            for batch, end in zip(batches, ends, strict=True):
                if rate:
                    time.sleep(max(0.0, began + (end - batch.num_rows) / rate - time.time()))
                times.append(time.time())
                session.put_batch(batch, congestion_control=zenspark.CongestionControl.BLOCK)
            send_report(puts=list(zip(times, ends, strict=True)))


def key_of(number: int) -> str:
    return f"fleet{number % PREFIXES}/robot{number % KEYS}/pose"


def batches_of(size: int, count: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same batch repeatedly, and a shorter one at the end, with `count` rows in total."""
    rows = min(count, batch_rows, max(1, MAX_BATCH_BYTES // size))
    keys = pa.array([key_of(number) for number in range(rows)])
    payload = pa.array([number.to_bytes(4, "big") * (size // 4) for number in range(rows)], pa.binary())
    batch = pa.record_batch({"key": keys, "payload": payload})
    for start in range(0, count, rows):
        yield batch.slice(0, min(rows, count - start))


ROLES: dict[str, Callable[..., None]] = {"up": role_up, "plain": role_plain, "put": role_put}


# --- the parent process -----------------------------------------------------------------------------------------------


class TurnProcess(Process):
    """A role in a child process that runs one turn per input line."""

    def __init__(self, role: str, *arguments: object) -> None:
        super().__init__(OURS, role, *arguments, module="bench.bench_pipeline", timeout=TIMEOUT_SECONDS)

    def start_turn(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(TURN_LINE)
        self._process.stdin.flush()


class Pair:
    """The processes of a node and of a publisher that is connected to it."""

    def __init__(self, size: int, count: int, rate: int, role: str, *arguments: object) -> None:
        locator = f"tcp/127.0.0.1:{free_port()}"
        self.count = count
        self._node = TurnProcess(role, locator, *arguments)
        self._node.receive()
        self._publisher = TurnProcess("put", locator, size, count, rate)
        self._publisher.receive()

    def run_turn(self) -> dict[str, Any]:
        """Run a turn. Returns the fields of the reports of both processes."""
        self._node.start_turn()
        self._publisher.start_turn()
        return {**self._publisher.receive(), **self._node.receive()}

    def end(self) -> None:
        self._publisher.end()
        self._node.end()


def rates(size: int, count: int, turns: int, master: str) -> Iterator[Result]:
    """Measure rows per second from the first put until the last row was recorded, ingested, received."""
    found: dict[str, list[float]] = {"recorded": [], "ingested": [], "received": []}
    with tempfile.TemporaryDirectory() as root:
        up = Pair(size, count, 0, "up", root, count, master)
        plain = Pair(size, count, 0, "plain", count)
        for turn in range(turns + 1):
            up_report, plain_report = up.run_turn(), plain.run_turn()
            if turn:
                began = up_report["puts"][0][0]
                found["recorded"].append(count / (up_report["recorded"] - began))
                found["ingested"].append(count / (up_report["steps"][-1][0] - began))
                found["received"].append(count / (plain_report["received"] - plain_report["puts"][0][0]))
        plain.end()
        assert sum(Lake(root).ingested().values()) == count * (turns + 1)
        up.end()
    for name, values in found.items():
        yield Result.of(f"{size} B, {name}", values, "rows/s")
    yield Result.of(f"{size} B, ingested, payload", [rate * size / 1e6 for rate in found["ingested"]], "MB/s")
    for name in ("recorded", "ingested"):
        ratios = [one / other for one, other in zip(found[name], found["received"], strict=True)]
        yield Result.of(f"{size} B, {name} / received", ratios, "x")


def lag(turns: int, master: str, seconds: int) -> Iterator[Result]:
    """Measure how long after its put a row is ingested, with a steady load."""
    count = LAG_RATE * seconds
    middles, highs = [], []
    with tempfile.TemporaryDirectory() as root:
        up = Pair(8, count, LAG_RATE, "up", root, count, master)
        for turn in range(turns + 1):
            turn_report = up.run_turn()
            lags = sorted(lags_of(turn_report["puts"], turn_report["steps"], turn * count))
            if turn:
                middles.append(statistics.median(lags))
                highs.append(lags[len(lags) * 95 // 100])
        up.end()
    yield Result.of(f"lag at {LAG_RATE} rows/s, p50", middles, "s")
    yield Result.of(f"lag at {LAG_RATE} rows/s, p95", highs, "s")


def lags_of(puts: Steps, steps: Steps, before: int) -> Iterator[float]:
    """Yield the seconds from each put until its last row was ingested."""
    reached = [rows for _, rows in steps]
    for at, end in puts:
        yield steps[bisect.bisect_left(reached, before + end)][0] - at


# --- all parts --------------------------------------------------------------------------------------------------------


def run_part(part: str, scale: float, turns: int, master: str) -> Iterable[Result]:
    """Run one part of this benchmark."""
    if part == "lag":
        return lag(turns, master, max(1, int(LAG_SECONDS * scale)))
    return rates(int(part), int(ROWS[int(part)] * scale), turns, master)


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--only", default="8,1024,65536,lag", help="which parts to run, with commas between")
    command.add_argument("--turns", type=int, default=TURNS)
    command.add_argument("--scale", type=float, default=1.0, help="factor of the number of rows")
    command.add_argument("--master", default="local[*]", help="Spark master that runs the ingestion")
    command.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.role:
        role, _, *arguments = options.role
        ROLES[role](*(int(each) if each.isdigit() else each for each in arguments))
        return
    selected = options.only.split(",")
    if unknown := set(selected) - {*map(str, ROWS), "lag"}:
        command.error(f"--only takes the parts {command.get_default('only')}, not {', '.join(sorted(unknown))}")
    parts = (run_part(part, options.scale, options.turns, options.master) for part in selected)
    report("pipeline", chain.from_iterable(parts), options.json)


if __name__ == "__main__":
    main()
