"""Load for a long time: whether disk, memory, files and lag of `zenspark up` stay as they are.

    python -m tests.world.soak --seconds 1800 --rate 5000

Two processes of eclipse-zenoh publish a steady mixture. Every second the journal, the lake and the processes are
measured from outside. What has a median in the last quarter of the time above that of the second quarter, by more than
a tolerance, grows: then the exit code is 1. A good result is a table in which all rows are `flat`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.growth import Measure, table, verdicts
from tests.interop.reference import unused
from tests.world.pipeline import INGEST_MODULE, Up, steady, up, wait_until
from zenspark.journal import Journal
from zenspark.spark.lake import Lake

MIB = 1 << 20
LOG = "_delta_log"
SAMPLE_SECONDS = 1.0
WARM_UP_MESSAGES = 10_000
"""Of each publisher; when they are ingested, everything that does so has been started."""

MEASURES = (
    Measure("RSS of recorder, router and storage", "MiB", 40),
    Measure("RSS of the ingest process", "MiB", 40),
    Measure("RSS of Java", "MiB", 256),
    Measure("RSS of the largest Python worker of Spark", "MiB", 64),
    Measure("Python processes of Spark", "processes", 6),
    Measure("journal on disk", "MiB", 16),
    Measure("lake on disk", "MiB", 32),
    Measure("files of the journal", "files", 4),
    Measure("files of the lake that count", "files", 64),
    Measure("files of the lake on disk", "files", 200),
    Measure("commits in the Delta logs", "files", 100),
    Measure("lag", "s", 5),
)


class Soak(NamedTuple):
    """How long, and how many messages a second."""

    seconds: float
    rate: float


class Outcome(NamedTuple):
    """What was measured, every second."""

    measured: dict[str, list[float]]
    sent: int
    ingested: int


def retention_flags(seconds: float) -> list[str]:
    """Flags by which everything that is kept for a while reaches its size in the first quarter of the time."""
    kept = max(5.0, seconds / 20)
    return [
        *("--retain-read-age", f"{kept:.0f}s", "--segment-age", f"{kept / 2:.0f}s", "--segment-bytes", "16MiB"),
        *("--lake-retain-bytes", f"{max(4, int(kept / 2))}MiB", "--lake-history", f"{kept:.0f}s"),
        *("--compact-interval", f"{max(3.0, seconds / 60):.0f}s", "--refresh-interval", "2s"),
    ]


def run(soak: Soak, place: Path) -> Outcome:
    """Publish and measure."""
    endpoint, lake, journal = unused(), place / "lake", place / "journal"
    found: dict[str, list[float]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        command = stack.enter_context(up(lake, journal, endpoint, *retention_flags(soak.seconds)))
        publishers = [stack.enter_context(steady(endpoint, seed)) for seed in (1, 2)]
        sent = sum(publisher.send(WARM_UP_MESSAGES) for publisher in publishers)
        wait_until(lambda: ingested_rows(lake) == sent, "what was sent first is not ingested")
        for publisher in publishers:
            publisher.begin(soak.rate / 2, soak.seconds)
        ends_at = time.monotonic() + soak.seconds
        while (left := ends_at - time.monotonic()) > 0:
            time.sleep(min(SAMPLE_SECONDS, left))
            for name, value in measured(command, lake, journal).items():
                found[name].append(value)
        sent += sum(publisher.end() for publisher in publishers)
        wait_until(lambda: Journal(journal).latest() >= sent, "not everything is recorded")
        assert command.interrupt() == 0, command.output
    return Outcome(found, sent, ingested_rows(lake))


def ingested_rows(lake: Path) -> int:
    return sum(Lake(lake).ingested().values())


def measured(command: Up, lake: Path, journal: Path) -> dict[str, float]:
    """All measures at this moment."""
    tables = Lake(lake)
    in_lake, in_journal = list(files_below(lake)), list(files_below(journal))
    values = [
        *memory(command),
        sum(size for _, size in in_journal) / MIB,
        sum(size for _, size in in_lake) / MIB,
        len(in_journal),
        sum(tables.table(name).file_count for name in tables.tables()),
        sum(path.suffix == ".parquet" and path.parent.name != LOG for path, _ in in_lake),
        sum(path.parent.name == LOG for path, _ in in_lake),
        lag(tables, Journal(journal)),
    ]
    return dict(zip((measure.name for measure in MEASURES), values, strict=True))


def lag(lake: Lake, journal: Journal) -> float:
    """How long ago the oldest row was received that is not ingested."""
    ingested = lake.ingested().get(journal.recorder, 0)
    return max(0.0, time.time() - journal.received_at(ingested) / 1e6) if ingested < journal.latest() else 0.0


def memory(command: Up) -> list[float]:
    """The resident memory of the command, its ingest process, Java and the largest worker in MiB; how many workers."""
    found: dict[str, list[float]] = defaultdict(list)
    for child in command.family():
        with contextlib.suppress(psutil.NoSuchProcess):
            found[role(child)].append(child.memory_info().rss / MIB)
    greatest = [max(found[name], default=0.0) for name in ("ingest", "java", "worker")]
    return [command.process.memory_info().rss / MIB, *greatest, len(found["worker"])]


def role(process: psutil.Process) -> str:
    words = process.cmdline()
    if any(INGEST_MODULE in word for word in words):
        return "ingest"
    return "java" if words and Path(words[0]).name == "java" else "worker"


def files_below(place: Path) -> Iterator[tuple[Path, int]]:
    """Files with their sizes; those that go meanwhile do not count."""
    for directory, _, names in os.walk(place):
        for name in names:
            path = Path(directory, name)
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat().st_size


def main(arguments: Sequence[str]) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800.0, help="how long (default: 1800)")
    parser.add_argument("--rate", type=float, default=5000.0, help="messages a second (default: 5000)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="zenspark-soak-") as place:
        outcome = run(Soak(given.seconds, given.rate), Path(place))
    found = verdicts(MEASURES, outcome.measured)
    print(f"{outcome.sent} messages in {given.seconds:.0f} s, {outcome.ingested} rows ingested")
    print(table(found))
    return int(outcome.sent != outcome.ingested or any(verdict.has_grown for verdict in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
