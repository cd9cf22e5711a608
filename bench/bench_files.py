"""Does a batch, a refresh or the opening of a DataFrame cost more when a lake has many files?

    make bench                                                  this and all others
    python bench/bench_files.py --json new.json                 this one alone; --files 100,10000 with other numbers
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good result: "of 100 files" at most 1.5 for a batch and a refresh with 100,000 files. What a `_time` query costs with
as many is in bench_history.py.

The files are entries of the log of `samples` only: neither a batch nor a refresh may read files that are not new, so
they need not exist. A batch of a thousand rows is ingested and refreshed into the derived tables, by turns; what counts
is the processor time of the driver, and the elapsed time. Spark jobs account for most of both.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from msgspec.structs import asdict
from pyspark.sql import SparkSession

from bench.bench_lake import samples
from bench.command import parser, report
from bench.compare import Result
from zenspark.journal import Journal, JournalWriter
from zenspark.lake.delta_table import Transaction
from zenspark.lake.lake import STATE_TABLE_SPECS
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.pending_rows import SAMPLES_VERSION_APP_ID
from zenspark.spark.engine import spark_session
from zenspark.spark.ingest.commit_samples import SamplesWriter
from zenspark.spark.lake import Lake
from zenspark.spark.source.stream import SLICES

FILES = "100,10000,100000"
PREFIXES = 50
FILES_PER_COMMIT = 5_000
BATCH_ROWS = 1_000
TURNS = 12
WARM_UP = 3
TASKS = 2


def make_lake(path: Path, files: int) -> Lake:
    """Make a lake whose log has so many files of another recorder, all of them included in the derived tables."""
    lake = Lake(path)
    lake.create()
    table = lake.table("samples")
    for start in range(0, files, FILES_PER_COMMIT):
        table.commit(Transaction(add=[_file(number) for number in range(start, min(start + FILES_PER_COMMIT, files))]))
    table.commit(Transaction(app_versions={"offset:old": files}))
    table.checkpoint(force=True)
    for name in STATE_TABLE_SPECS:
        lake.state_table(name).commit(
            Transaction(app_versions={"offset:old": files, SAMPLES_VERSION_APP_ID: table.version})
        )
    return lake


def _file(number: int) -> DataFile:
    at = datetime(2026, 11, 15, tzinfo=UTC)
    limits = {"key": f"p{number}", "received_at": at, "timestamp": at, "recorder": "old", "offset": number}
    prefix = f"p{number % PREFIXES}"
    path = f"day=2026-11-15/prefix={prefix}/part-old-{number:08}.parquet"
    return DataFile(path, 1 << 20, 1, {"day": "2026-11-15", "prefix": prefix}, limits, limits)


class Turns:
    """Batches ingested into one lake, each followed by a refresh."""

    def __init__(self, spark: SparkSession, path: Path, files: int) -> None:
        self.spark = spark
        self.lake = make_lake(path / "lake", files)
        self.journal = path / "journal"
        self.target = SamplesWriter(self.lake.location, self.lake.table("samples"))
        self.cpu: dict[str, list[float]] = {"batch": [], "refresh": []}
        self.wall: dict[str, list[float]] = {"batch": [], "refresh": []}

    def turn(self, number: int) -> None:
        with JournalWriter(self.journal, recorder="bench") as writer:
            writer.append(samples(number * BATCH_ROWS, BATCH_ROWS, 8))
        parts = Journal(self.journal).slices(number * BATCH_ROWS, (number + 1) * BATCH_ROWS, TASKS)
        given = self.spark.createDataFrame(pa.Table.from_pylist([asdict(part) for part in parts], schema=SLICES))
        with self._clock("batch"):
            self.target.commit_batch(given, number)
        with self._clock("refresh"):
            self.lake.refresh(self.spark)

    def _clock(self, name: str) -> _Clock:
        return _Clock(self.cpu[name], self.wall[name])


class _Clock:
    def __init__(self, cpu: list[float], wall: list[float]) -> None:
        self._cpu, self._wall = cpu, wall

    def __enter__(self) -> None:
        self._began = time.process_time(), time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._cpu.append((time.process_time() - self._began[0]) * 1e3)
        self._wall.append((time.perf_counter() - self._began[1]) * 1e3)


def measure(spark: SparkSession, counts: list[int]) -> Iterator[Result]:
    """Measure lakes with each number of files, in turns."""
    with tempfile.TemporaryDirectory() as root:
        all_turns = {files: Turns(spark, Path(root) / str(files), files) for files in counts}
        for number in range(TURNS + WARM_UP):
            for turns in all_turns.values():
                turns.turn(number)
    for operation in ("batch", "refresh"):
        for kind in ("cpu", "wall"):
            first = getattr(all_turns[counts[0]], kind)[operation][WARM_UP:]
            for files, turns in all_turns.items():
                times = getattr(turns, kind)[operation][WARM_UP:]
                yield Result.of(f"{operation}, {files} files, {kind}", times, "ms")
                if files != counts[0]:
                    ratio = statistics.median(times) / statistics.median(first)
                    yield Result(
                        f"{operation}, {files} files, {kind}, of {counts[0]} files", ratio, "x", (ratio, ratio)
                    )


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--files", default=FILES, help="numbers of files, with commas between")
    options = command.parse_args()
    spark = spark_session(f"local[{TASKS}]", "bench files")
    report("files", measure(spark, [int(each) for each in options.files.split(",")]), options.json)
    spark.stop()


if __name__ == "__main__":
    main()
