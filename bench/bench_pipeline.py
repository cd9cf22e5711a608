"""How many rows a second come from a publisher into the samples table, and how long after its put is a row there?

    make bench                                                  this and all others, compiled
    python bench/bench_pipeline.py --json new.json              this one alone; --only 8,lag runs some of it
    python bench/bench_pipeline.py --only 8 --scale 0.2         fewer rows, for a look
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good answer: a million rows a second at 8 bytes from the first put until the last row is in the table, with the
publisher on the same machine; a lag under 2 seconds at a tenth of that.

All of `zenspark up` (node, recorder, storage, Spark) runs in a process of its own with a lake of its own, and the
publisher, one `put_batch` after another that waits where a link is full, in another. "recorded" is until the journal
has the last row, "ingested" until the table has it; a turn before the measured ones warms Java up. "received" is the
same publisher with the same kind of node, a router, that only has a subscriber to record batches and drops them; both
take turns, so a busy machine disturbs both alike. "lag" is from before a put_batch of 10 ms until a transaction of the
table has all its rows, with rows put at a steady pace.
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
from bench.bench_session import Process, free_port, opened, tell, wait_matched
from bench.compare import Result
from bench.running import OURS, parser, report
from zenspark.spark.ingest.settings import IngestSettings
from zenspark.spark.lake import Lake
from zenspark.spark.pipeline.job import Job
from zenspark.storage.settings import StorageSettings

ROWS = {8: 4_000_000, 1024: 200_000, 65536: 4_000}
"""Payload sizes, and how many rows are put in a turn."""
AT_ONCE = 16_384
BYTES_AT_ONCE = 1 << 24
KEYS = 100
PREFIXES = 4
TURNS = 3
LAG_RATE = 100_000
LAG_SECONDS = 15
PUTS_A_SECOND = 100
LOOK_AGAIN = 0.005
PATIENCE = 170.0
WORD = "go\n"

Steps = list[tuple[float, int]]
"""Times, and how many rows there were then."""


# --- the processes ----------------------------------------------------------------------------------------------------


def has_word() -> bool:
    """Whether the parent process requests one more turn."""
    return sys.stdin.readline() == WORD


def role_up(locator: str, lake: str, count: int, master: str) -> None:
    """Run the whole pipeline; after every input line, print the progress of so many more rows."""
    config = zenspark.Config()
    config.insert_json5("mode", '"router"')
    config.insert_json5("listen/endpoints", f'["{locator}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    storage = StorageSettings(name="up", key_exprs=("**",), lake=lake, journal=Path(lake, "_journal"))
    with closing(Job(config, [storage])) as job:
        job.record()
        job.ingest({lake: IngestSettings(master=master)})
        while not job.supervisors[lake].has_spark_started:
            time.sleep(LOOK_AGAIN)
        tell(ready=True)
        target = 0
        while has_word():
            target += count
            tell(**watched(job, target))


def watched(job: Job, target: int) -> dict[str, object]:
    """Wait for ingestion. Returns when everything was recorded, and the times of the committed rows."""
    recorded, steps = 0.0, [(0.0, 0)]
    while steps[-1][1] < target:
        time.sleep(LOOK_AGAIN)
        job.check()
        now, ingested = time.time(), sum(supervisor.status().rows for supervisor in job.supervisors.values())
        if ingested > steps[-1][1]:
            steps.append((now, ingested))
        if not recorded and sum(each.status().rows for each in job.storages.recorders.values()) >= target:
            recorded = now
    return {"recorded": recorded, "steps": steps[1:]}


def role_plain(locator: str, count: int) -> None:
    """A router with a subscriber that drops samples; per input line, print when so many more rows were received."""
    with opened(zenspark, "router", [locator], []) as session:
        subscriber = session.declare_subscriber("**", zenspark.ArrowBatches())
        tell(ready=True)
        while has_word():
            seen = 0
            while seen < count:
                seen += subscriber.recv().num_rows
            tell(received=time.time())


def role_put(locator: str, size: int, count: int, rate: int) -> None:
    """Per input line, put so many rows, at a steady rate or as fast as possible, and print when they were put."""
    with opened(zenspark, "client", [], [locator]) as session:
        wait_matched(session.declare_publisher(key_of(0)))
        batches = list(batches_of(size, count, rate // PUTS_A_SECOND if rate else AT_ONCE))
        ends = list(accumulate(batch.num_rows for batch in batches))
        tell(ready=True)
        while has_word():
            began, times = time.time(), []
            for batch, end in zip(batches, ends, strict=True):
                if rate:
                    time.sleep(max(0.0, began + (end - batch.num_rows) / rate - time.time()))
                times.append(time.time())
                session.put_batch(batch, congestion_control=zenspark.CongestionControl.BLOCK)
            tell(puts=list(zip(times, ends, strict=True)))


def key_of(number: int) -> str:
    return f"fleet{number % PREFIXES}/robot{number % KEYS}/pose"


def batches_of(size: int, count: int, at_once: int) -> Iterator[pa.RecordBatch]:
    """The same batch again and again, and what is left."""
    rows = min(count, at_once, max(1, BYTES_AT_ONCE // size))
    keys = pa.array([key_of(number) for number in range(rows)])
    payload = pa.array([number.to_bytes(4, "big") * (size // 4) for number in range(rows)], pa.binary())
    batch = pa.record_batch({"key": keys, "payload": payload})
    for start in range(0, count, rows):
        yield batch.slice(0, min(rows, count - start))


ROLES: dict[str, Callable[..., None]] = {"up": role_up, "plain": role_plain, "put": role_put}


# --- what is measured -------------------------------------------------------------------------------------------------


class Player(Process):
    """A role in a child process that runs one turn per input line."""

    def __init__(self, role: str, *arguments: object) -> None:
        super().__init__(OURS, role, *arguments, module="bench.bench_pipeline", patience=PATIENCE)

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(WORD)
        self._process.stdin.flush()


class Pair:
    """A node, and a publisher that feeds it."""

    def __init__(self, size: int, count: int, rate: int, role: str, *arguments: object) -> None:
        locator = f"tcp/127.0.0.1:{free_port()}"
        self.count = count
        self._node = Player(role, locator, *arguments)
        self._node.hear()
        self._publisher = Player("put", locator, size, count, rate)
        self._publisher.hear()

    def turn(self) -> dict[str, Any]:
        """Return the reports of both processes for a turn."""
        self._node.go()
        self._publisher.go()
        return {**self._publisher.hear(), **self._node.hear()}

    def end(self) -> None:
        self._publisher.end()
        self._node.end()


def rates(size: int, count: int, turns: int, master: str) -> Iterator[Result]:
    """Rows a second from the first put until the last row was recorded, ingested, received."""
    found: dict[str, list[float]] = {"recorded": [], "ingested": [], "received": []}
    with tempfile.TemporaryDirectory() as root:
        up = Pair(size, count, 0, "up", root, count, master)
        plain = Pair(size, count, 0, "plain", count)
        for turn in range(turns + 1):
            told, other = up.turn(), plain.turn()
            if turn:
                began = told["puts"][0][0]
                found["recorded"].append(count / (told["recorded"] - began))
                found["ingested"].append(count / (told["steps"][-1][0] - began))
                found["received"].append(count / (other["received"] - other["puts"][0][0]))
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
    """How long after its put a row is in the table, with a steady load."""
    count = LAG_RATE * seconds
    middles, highs = [], []
    with tempfile.TemporaryDirectory() as root:
        up = Pair(8, count, LAG_RATE, "up", root, count, master)
        for turn in range(turns + 1):
            told = up.turn()
            lags = sorted(lags_of(told["puts"], told["steps"], turn * count))
            if turn:
                middles.append(statistics.median(lags))
                highs.append(lags[len(lags) * 95 // 100])
        up.end()
    yield Result.of(f"lag at {LAG_RATE} rows/s, p50", middles, "s")
    yield Result.of(f"lag at {LAG_RATE} rows/s, p95", highs, "s")


def lags_of(puts: Steps, steps: Steps, before: int) -> Iterator[float]:
    """Lag of each put, until its last row was ingested."""
    reached = [rows for _, rows in steps]
    for at, end in puts:
        yield steps[bisect.bisect_left(reached, before + end)][0] - at


# --- the whole --------------------------------------------------------------------------------------------------------


def of(part: str, scale: float, turns: int, master: str) -> Iterable[Result]:
    """What one part of this benchmark finds."""
    if part == "lag":
        return lag(turns, master, max(1, int(LAG_SECONDS * scale)))
    return rates(int(part), int(ROWS[int(part)] * scale), turns, master)


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--only", default="8,1024,65536,lag", help="which parts to run, with commas between")
    command.add_argument("--turns", type=int, default=TURNS)
    command.add_argument("--scale", type=float, default=1.0, help="with how many times as many rows")
    command.add_argument("--master", default="local[*]", help="the Spark that ingests them")
    command.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.role:
        role, _, *arguments = options.role
        ROLES[role](*(int(each) if each.isdigit() else each for each in arguments))
        return
    wanted = options.only.split(",")
    if unknown := set(wanted) - {*map(str, ROWS), "lag"}:
        command.error(f"--only knows the parts {command.get_default('only')}, not {', '.join(sorted(unknown))}")
    parts = (of(part, options.scale, options.turns, options.master) for part in wanted)
    report("pipeline", chain.from_iterable(parts), options.json)


if __name__ == "__main__":
    main()
