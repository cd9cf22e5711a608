"""How fast does a storage reply with the newest values of a million keys, beside a plain queryable in the same run?

    make bench                                                  this and all others, compiled
    python bench/bench_storage.py --json new.json               this one alone; --keys 100000 with fewer keys
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good result: the median latency of a get for one key is at most twice that of a plain queryable (ratio 2.0), and a
million keys take some hundred bytes each.

The node with both is one process, the querier another, on loopback TCP. The plain queryable replies with one value
on the key of the query; both are queried by the same session, with the same random keys, by turns, so a busy machine
disturbs both alike. `take in` is how many rows a second are applied to the latest values: rows of a million different
keys, and of a hundred.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import zenspark
from bench.command import parser, report
from bench.compare import Result
from zenspark.arrow import SCHEMA
from zenspark.storage.key_scope import KeyScope
from zenspark.storage.latest_store import LatestValueStore

TURNS = 7
GETS = 400
WILD = 1000
"""Number of keys that a wildcard query matches."""
ROWS = 65_536
NTP64 = 1_700_000_000 << 32
RECORDED = pa.schema([*SCHEMA, ("recorder", pa.string()), ("offset", pa.int64())])


# --- rows -------------------------------------------------------------------------------------------------------------


def key(number: int, first: str = "fleet") -> str:
    return f"{first}/{number // WILD}/sensor/{number % WILD}"


def batch(first: int, keys: list[str]) -> pa.RecordBatch:
    """Make rows as a journal has them: 8-byte payloads, ascending timestamps."""
    rows = len(keys)
    numbers = np.arange(first, first + rows)
    columns = {
        "key": pa.array(keys),
        "kind": pa.repeat("PUT", rows),
        "payload": pa.array([b"%08d" % (number % 10**8) for number in numbers.tolist()]),
        "encoding": pa.repeat("zenoh/bytes", rows),
        "timestamp_ntp64": pa.array(NTP64 + numbers),
        "timestamp_id": pa.repeat("a1b2c3", rows),
        "received_at": pa.array(1_700_000_000_000_000 + numbers, pa.timestamp("us", tz="UTC")),
        "recorder": pa.repeat("bench", rows),
        "offset": pa.array(numbers),
    }
    arrays = [columns.get(field.name, pa.nulls(rows, field.type)) for field in RECORDED]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDED)


def batches(first: int, keys: list[str]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(keys), ROWS):
        yield batch(first + start, keys[start : start + ROWS])


def measure_apply(latest: LatestValueStore, rows: list[pa.RecordBatch]) -> float:
    """Apply rows to the latest values. Returns the rows per second."""
    scope, began = KeyScope(["**"]), time.perf_counter()
    for each in rows:
        latest.apply(*scope.select_rows(each))
    return float(sum(each.num_rows for each in rows) / (time.perf_counter() - began))


# --- the node that replies --------------------------------------------------------------------------------------------


def serve(count: int) -> None:
    """Fill a storage, print a report, and reply to queries until standard input ends."""
    from zenspark.storage import Storage

    keys = [key(number) for number in range(count)]
    first = list(batches(0, keys))
    memory = psutil.Process().memory_info().rss
    with open_session("router", listen=["tcp/127.0.0.1:0"]) as session:
        storage = Storage(session, "fleet/**")
        filling: dict[str, Any] = {"first": measure_apply(storage.latest, first)}
        filling["memory"] = (psutil.Process().memory_info().rss - memory) / count
        filling["different"] = measure_apply(storage.latest, list(batches(count, keys)))
        few = [key(number % 100) for number in range(count)]
        filling["few"] = measure_apply(storage.latest, list(batches(2 * count, few)))
        with storage:
            value = b"12345678"

            def reply(query: zenspark.Query) -> None:
                with query:
                    query.reply(query.key_expr, value)

            queryable = session.declare_queryable("plain/**", reply)
            filling["endpoint"] = session.info.locators()[0]
            print(json.dumps(filling), flush=True)
            sys.stdin.read()
            queryable.undeclare()


def open_session(mode: str, listen: list[str] | None = None, connect: list[str] | None = None) -> zenspark.Session:
    config = zenspark.Config()
    settings = {"mode": mode, "listen/endpoints": listen or [], "connect/endpoints": connect or []}
    for name, value in (settings | {"scouting/multicast/enabled": False}).items():
        config.insert_json5(name, json.dumps(value))
    return zenspark.open(config)


# --- the querier ------------------------------------------------------------------------------------------------------


def latencies(session: zenspark.Session, selectors: list[str], replies: int = 1) -> list[float]:
    """Run one get after the other. Returns the microseconds of each."""
    times = []
    for selector in selectors:
        began = time.perf_counter()
        count = sum(1 for _ in session.get(selector))
        times.append((time.perf_counter() - began) * 1e6)
        assert count == replies, (selector, count)
    return times


def measure_queries(endpoint: str, count: int) -> list[Result]:
    """Query the storage and the plain queryable in turns."""
    pick = random.Random(0)
    ours: list[float] = []
    plain: list[float] = []
    rates: list[float] = []
    wild: list[float] = []
    with open_session("client", connect=[endpoint]) as session:
        latencies(session, ["plain/first"] * GETS)
        for _ in range(TURNS):
            numbers = [pick.randrange(count) for _ in range(GETS)]
            took = latencies(session, [key(number) for number in numbers])
            ours.append(statistics.median(took))
            rates.append(len(took) / sum(took) * 1e6)
            plain.append(statistics.median(latencies(session, [key(number, "plain") for number in numbers])))
            robots = [f"fleet/{pick.randrange(count // WILD)}/**" for _ in range(5)]
            wild.append(statistics.median(latencies(session, robots, WILD)) / 1000)
    ratios = [one / other for one, other in zip(ours, plain, strict=True)]
    return [
        Result.of("storage: get p50", ours, "us"),
        Result.of("plain queryable: get p50", plain, "us"),
        Result.of("storage / plain: get p50", ratios, "x"),
        Result.of("storage: gets, one after the other", rates, "1/s"),
        Result.of(f"storage: get of {WILD} keys by wildcard", wild, "ms"),
    ]


def measure(count: int) -> list[Result]:
    command = [sys.executable, __file__, "--serve", "--keys", str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            filling = json.loads(process.stdout.readline())
            results = measure_queries(filling["endpoint"], count)
        finally:
            process.communicate()
    single = {
        "take in: first rows of keys": (filling["first"], "rows/s"),
        "take in: rows of different keys": (filling["different"], "rows/s"),
        "take in: rows of 100 keys": (filling["few"], "rows/s"),
        "memory": (filling["memory"], "B/key"),
    }
    return results + [Result(name, value, unit, (value, value)) for name, (value, unit) in single.items()]


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--keys", type=int, default=1_000_000, help="how many keys the storage has")
    command.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = command.parse_args()
    if args.serve:
        serve(args.keys)
        return
    report("storage", measure(args.keys), args.json)


if __name__ == "__main__":
    main()
