"""How does `zenspark up` catch up with a long journal: how fast, in which batches, with how much memory?

    make bench                                                  this and all others, with 10 million rows
    python bench/bench_catchup.py --rows 100000000              as many as a busy fleet leaves in a day
    python bench/bench_catchup.py --json new.json

A good result: batches of at most 2,000,000 rows, memory that does not depend on the number of rows, and, though the
ingest process is killed when half of the rows are ingested, at most one batch that is ingested again. The rate is that
of the whole run from the start of the command to the last row, with that interruption and the refreshes of the tables.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.compute as pc

from bench.bench_lake import samples
from bench.command import parser, report
from bench.compare import Result
from zenspark.journal import JournalWriter
from zenspark.spark.lake import Lake

MIB = 1 << 20
BLOCK_ROWS = 100_000
PAYLOAD_BYTES = 8
DISTINCT_BLOCKS = 16
"""Blocks with different rows; they are appended in turn."""
POLL_SECONDS = 0.2
INGEST_MODULE = "zenspark.spark.ingest.process"


class Run:
    """The `zenspark up` that catches up, in a process that is watched from outside."""

    def __init__(self, journal: Path, lake: Path, rows: int) -> None:
        self.rows = rows
        self.lake = Lake(lake)
        self.batches: list[int] = []
        """Rows of each batch, in commit order."""
        self.memory = {"recorder": 0.0, "ingest": 0.0, "java": 0.0, "worker": 0.0}
        """The greatest resident memory of each kind of process, in MiB."""
        self.rows_at_kill = 0
        self.rows_kept = 0
        command = [sys.executable, "-m", "zenspark", "up", "--no-multicast-scouting", "-l", "tcp/127.0.0.1:0"]
        where = ["--lake", str(lake), "--journal", str(journal)]
        with open(lake.parent / "output", "wb") as output:
            self.process = psutil.Popen([*command, *where], stdout=output, stderr=subprocess.STDOUT)

    def watch(self) -> float:
        """Wait until all rows are ingested, and kill the ingest process once. Returns the seconds that it took."""
        began, before = time.perf_counter(), 0
        while before < self.rows:
            time.sleep(POLL_SECONDS)
            assert self.process.is_running(), "the command has ended"
            ingested = sum(self.lake.ingested().values())
            if ingested > before:
                self.batches.append(ingested - before)
                before = ingested
            self._sample_memory()
            if not self.rows_at_kill and ingested >= self.rows // 2:
                self._kill(ingested)
        return time.perf_counter() - began

    def _kill(self, ingested: int) -> None:
        next(child for child in self.process.children() if INGEST_MODULE in child.cmdline()).kill()
        self.rows_at_kill = ingested
        self.rows_kept = sum(self.lake.ingested().values())

    def _sample_memory(self) -> None:
        for process in [self.process, *self.process.children(recursive=True)]:
            try:
                role, resident = self._role(process), process.memory_info().rss / MIB
            except psutil.NoSuchProcess:
                continue
            self.memory[role] = max(self.memory[role], resident)

    def _role(self, process: psutil.Process) -> str:
        if process.pid == self.process.pid:
            return "recorder"
        words = process.cmdline()
        if INGEST_MODULE in words:
            return "ingest"
        return "java" if words and Path(words[0]).name == "java" else "worker"

    def stop(self) -> None:
        """Stop the command as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(300) == 0


def fill(path: Path, rows: int) -> None:
    """Write a journal of so many rows."""
    blocks = [samples(number * BLOCK_ROWS, BLOCK_ROWS, PAYLOAD_BYTES) for number in range(DISTINCT_BLOCKS)]
    with JournalWriter(path, recorder="bench") as writer:
        for number in range(rows // BLOCK_ROWS):
            writer.append(blocks[number % DISTINCT_BLOCKS])
            writer.flush()


def measure(rows: int) -> Iterator[Result]:
    """Run the command once, and yield its results."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("ZENSPARK_BENCH_DIR")) as path:
        journal, lake = Path(path, "journal"), Path(path, "lake")
        fill(journal, rows)
        run = Run(journal, lake, rows)
        try:
            seconds = run.watch()
            run.stop()
        finally:
            if run.process.is_running():
                run.process.kill()
        offsets = run.lake.dataset("samples").to_table(columns=["offset"])["offset"]
        assert len(offsets) == rows, f"{len(offsets)} rows of {rows}"
        assert pc.count_distinct(offsets).as_py() == rows, "rows ingested twice"
    yield _figure("catch-up", rows / seconds, "rows/s")
    yield Result.of("a batch", [float(count) for count in run.batches], "rows")
    yield _figure("the largest batch", max(run.batches), "rows")
    yield _figure("ingested when killed, and kept", run.rows_kept / run.rows_at_kill, "x")
    for role, resident in run.memory.items():
        yield _figure(f"RSS of {role}, greatest", resident, "MiB")


def _figure(name: str, value: float, unit: str) -> Result:
    return Result(name, value, unit, (value, value))


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--rows", type=int, default=10_000_000, help="rows of the journal (default: 10000000)")
    options = command.parse_args()
    report("catchup", measure(options.rows // BLOCK_ROWS * BLOCK_ROWS), options.json)


if __name__ == "__main__":
    main()
