"""How long does a query take as a whole process, embedded and on Spark, and how fast is a large table?

    make bench                                    this and all others
    python bench/bench_sql.py --json new.json     this one alone; --only process,scan runs some of it
    python bench/bench_sql.py --turns 1           a quick run

A good result: on a small lake `zenspark sql` is at least ten times as fast as with `--engine spark`, and well under a
second; what it takes beyond starting Python is little more than DataFusion in the `deltalake` package takes, which
has no functions in Python and cannot read the rows of derived tables that are not refreshed yet.

Process: the same query about the same lake, each time a new process, by turns; processor time is of the process
and its children. Scan: queries in one process about a table of `--rows` rows, with both libraries.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import QueryBuilder

from bench.bench_spark import batch
from bench.command import parser, report
from bench.compare import Result
from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake.delta_table import Transaction
from zenspark.lake.ingested_offsets import offset_app_versions
from zenspark.lake.lake import Lake
from zenspark.lake.parquet_files import DataFileWriter
from zenspark.lake.partitioning import split_by_partition
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES
from zenspark.sql import Engine

SMALL_ROWS = 10_000
FILE_ROWS = 250_000
PAYLOAD_BYTES = 100
SCAN_TURNS = 5
QUERIES = {
    "samples": "select key, count(*) as n from samples group by key order by n desc, key limit 5",
    "latest": "select key, received_at from latest order by key limit 5",
}
SCANS = {
    "count by key": "select key, count(*) as n from samples group by key order by n desc, key limit 5",
    "history of a key": "select received_at, payload from samples where key = 'fleet/r7/pose' order by received_at",
    "sums of a column": "select sum(source_sn) as total, max(received_at) as last from samples",
}
DATAFUSION = """
import sys
from deltalake import DeltaTable, QueryBuilder
print(QueryBuilder().register("samples", DeltaTable(sys.argv[1] + "/samples")).execute(sys.argv[2]).read_all())
"""


def make_lake(path: Path, rows: int) -> Lake:
    """Make a lake with so many samples, in files as ingestion writes them."""
    lake = Lake(path)
    lake.create()
    table = lake.table("samples")
    for first in range(0, rows, FILE_ROWS):
        files = DataFileWriter(table.location, SAMPLES, f"{first:09}")
        for partition, own in split_by_partition(make_rows(first, min(FILE_ROWS, rows - first))):
            files.write(own, partition)
        table.commit(Transaction(add=files.close(), app_versions=offset_app_versions({"bench": first + FILE_ROWS})))
    return lake


def make_rows(first: int, count: int) -> pa.Table:
    rows = pa.Table.from_batches([batch(first, count, PAYLOAD_BYTES)])
    rows = rows.append_column("recorder", pa.repeat("bench", count))
    rows = rows.append_column("offset", pa.array(range(first, first + count), pa.int64()))
    return rows.cast(JOURNAL_SCHEMA).cast(with_text_type(JOURNAL_SCHEMA, DICTIONARY_TYPE)).combine_chunks()


# --- whole processes --------------------------------------------------------------------------------------------------


def measure_processes(place: Path, turns: int) -> Iterator[Result]:
    lake = str(make_lake(place / "small", SMALL_ROWS).location.address)
    for table, query in QUERIES.items():
        command = [sys.executable, "-m", "zenspark", "sql", query, "--lake", lake, "--format", "csv"]
        embedded, spark, cpu = [], [], []
        for _ in range(turns):
            took, processor = run_process(command)
            embedded.append(took)
            cpu.append(processor)
            spark.append(run_process([*command, "--engine", "spark"])[0])
        yield Result.of(f"{table}: embedded, whole process", embedded, "s")
        yield Result.of(f"{table}: embedded, processor time", cpu, "s")
        yield Result.of(f"{table}: Spark, whole process", spark, "s")
        yield Result.of(f"{table}: Spark to embedded", [b / a for a, b in zip(embedded, spark, strict=True)], "times")
    start = [run_process([sys.executable, "-c", "pass"]) for _ in range(turns)]
    yield Result.of("Python alone, whole process", [took for took, _ in start], "s")
    other = [run_process([sys.executable, "-c", DATAFUSION, lake, QUERIES["samples"]]) for _ in range(turns)]
    yield Result.of("samples: DataFusion in deltalake, process", [took for took, _ in other], "s")
    yield Result.of("samples: DataFusion, processor time", [processor for _, processor in other], "s")


def run_process(command: list[str]) -> tuple[float, float]:
    """Run a process. Returns its elapsed and its processor time in seconds."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- scans ------------------------------------------------------------------------------------------------------------


def measure_scans(place: Path, rows: int) -> Iterator[Result]:
    lake = make_lake(place / "large", rows)
    engine = Engine(lake)
    for name, query in SCANS.items():
        ours, theirs = [], []
        for _ in range(SCAN_TURNS):
            ours.append(seconds(partial(engine.query, query)))
            theirs.append(seconds(partial(query_datafusion, lake, query)))
        yield Result.of(f"{name}: embedded", ours, "s")
        yield Result.of(f"{name}: DataFusion", theirs, "s")


def query_datafusion(lake: Lake, query: str) -> object:
    table = lake.table("samples").to_deltalake()
    return QueryBuilder().register("samples", table).execute(query).read_all()


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--only", default="", help="only process or scan")
    command.add_argument("--turns", type=int, default=3, help="turns of processes")
    command.add_argument("--rows", type=int, default=2_000_000, help="rows of the large table")
    options = command.parse_args()

    def results() -> Iterator[Result]:
        with tempfile.TemporaryDirectory(prefix="zenspark-bench-") as directory:
            if "scan" in options.only or not options.only:
                yield from measure_scans(Path(directory), options.rows)
            if "process" in options.only or not options.only:
                yield from measure_processes(Path(directory), options.turns)

    report("sql", results(), options.json)


if __name__ == "__main__":
    main()
