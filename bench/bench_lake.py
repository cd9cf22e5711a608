"""How fast does Spark ingest a journal into a lake, beside Parquet into the same table, and does a batch stay cheap?

    make bench                                                  this and all others
    python bench/bench_lake.py --json new.json                  this one alone; --only 8,batches runs some of it
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good result: "of parquet" at least 0.5 for `samples` at every size of payload: a journal is ingested at half the rate,
at least, at which Spark reads the same rows from Parquet and writes them. "later / early" about 1: a batch costs as
much when the lake has two hundred batches as when it has ten.

Both write the same layout: partitions by day and prefix, zstd. A journal is ingested as usual, in one batch; Parquet is
read and written by Spark alone, without a transaction. The Parquet files have the same rows, as many of them as there
are tasks. They take turns, so a busy machine disturbs both alike. "tables" is a whole ingestion by a streaming query,
followed by a refresh of the derived tables.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import asdict
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.command import parser, report
from bench.compare import Result
from zenspark.arrow import SCHEMA, UTC
from zenspark.journal import Journal, JournalWriter
from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.spark.engine import spark_session
from zenspark.spark.ingest.commit_samples import SamplesWriter
from zenspark.spark.ingest.ingest_query import IngestQuery
from zenspark.spark.lake import Lake
from zenspark.spark.source.stream import SLICES

ROWS = {8: 1_000_000, 1024: 100_000, 65536: 2_000}
BLOCKS = 32
KEYS = 1_000
PREFIXES = 4
TURNS = 3
TASKS = 2
BATCHES = 200
EARLY, LATE = slice(5, 25), slice(BATCHES - 20, BATCHES)
BATCH_ROWS = 1_000
START_US = 1_794_787_200_000_000
TIMEOUT_SECONDS = 120.0
PARQUET_WRITE_OPTIONS = {
    "compression": "zstd",
    # without the checksum file beside each file: for each of both, Hadoop starts a `chmod`
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""Options with which Spark alone writes fastest."""
CONFIGURATION = {
    "spark.driver.memory": "4g",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # without this, each task sorts its rows, payloads and all, only to write one partition after the other
    "spark.sql.maxConcurrentOutputFileWriters": "64",
}


def samples(start: int, count: int, size: int) -> pa.RecordBatch:
    """Make timestamped publications of a small fleet, with payloads that do not compress."""
    numbers = np.arange(start, start + count)
    keys = pa.array([f"fleet{key % PREFIXES}/robot{key}/pose" for key in range(KEYS)])
    at = START_US + numbers * 10
    seconds, rest = at // 1_000_000, at % 1_000_000
    noise = np.random.default_rng(start).bytes(count * size)
    given = {
        "key": keys.take(pa.array(numbers % KEYS)),
        "kind": _constant("PUT", count),
        "payload": pa.Array.from_buffers(
            pa.binary(),
            count,
            [None, pa.py_buffer(np.arange(0, count * size + 1, size, dtype=np.int32)), pa.py_buffer(noise)],
        ),
        "encoding": _constant("zenoh/bytes", count),
        "timestamp": pa.array(at - 300, UTC),
        "timestamp_ntp64": pa.array((seconds << 32) + rest * 4294),
        "timestamp_id": _constant("a0a1a2a3a4a5a6a7a8a9aaabacadaeaf", count),
        "source_zid": _constant("b0b1b2b3b4b5b6b7b8b9babbbcbdbebf", count),
        "source_eid": pa.array(np.ones(count, np.int64)),
        "source_sn": pa.array(numbers),
        "priority": _constant("DATA", count),
        "congestion": _constant("DROP", count),
        "express": pa.array(np.zeros(count, bool)),
        "reliable": pa.array(np.ones(count, bool)),
        "received_at": pa.array(at, UTC),
        "via": _constant("c0c1c2c3c4c5c6c7c8c9cacbcccdcecf", count),
    }
    arrays = [given.get(field.name, pa.nulls(count, field.type)) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, SCHEMA, strict=True)], schema=SCHEMA
    )


def _constant(text: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text])).dictionary_decode()


class Inputs:
    """A journal and the same rows as Parquet, and lakes to ingest them into."""

    def __init__(self, spark: SparkSession, path: Path, size: int, scale: float) -> None:
        self.spark = spark
        self.size = size
        self.rows = int(ROWS[size] * scale) // BLOCKS * BLOCKS
        self.journal, self.parquet = path / "journal", path / "parquet"
        self._lakes = (path / f"lake{number}" for number in range(1_000_000))
        with JournalWriter(self.journal, recorder="bench") as writer:
            for block in range(BLOCKS):
                writer.append(samples(block * self.rows // BLOCKS, self.rows // BLOCKS, size))
                writer.flush()
        self._write_parquet()

    def _write_parquet(self) -> None:
        """Write the rows of the journal as Parquet files, one for each task."""
        self.parquet.mkdir()
        journal = Journal(self.journal)
        for number, part in enumerate(journal.slices(0, journal.latest(), TASKS)):
            with pq.ParquetWriter(self.parquet / f"{number}.parquet", journal.schema, compression="zstd") as writer:
                for batch in part.batches():
                    writer.write_batch(batch)

    def measure_ingestion(self) -> float:
        """Return the rows per second of one large batch of the journal into an empty table."""
        path = next(self._lakes)
        parts = Journal(self.journal).slices(0, self.rows, TASKS)
        given = self.spark.createDataFrame(pa.Table.from_pylist([asdict(part) for part in parts], schema=SLICES))
        target = SamplesWriter(Lake(path).location, Lake(path).table("samples"))
        began = time.perf_counter()
        ingested = target.commit_batch(given, 0)
        seconds = time.perf_counter() - began
        assert ingested is not None
        assert ingested.rows == self.rows
        shutil.rmtree(path)
        return self.rows / seconds

    def measure_parquet(self) -> float:
        """Return the rows per second of Spark alone, from Parquet to Parquet in the same partitions."""
        path = next(self._lakes)
        began = time.perf_counter()
        rows = self.spark.read.parquet(str(self.parquet))
        prefix, day = F.substring_index("key", "/", 1), F.to_date("received_at")
        writer = rows.withColumns({"day": day, "prefix": prefix}).write.options(**PARQUET_WRITE_OPTIONS)
        writer.partitionBy("day", "prefix").parquet(path.as_uri())
        seconds = time.perf_counter() - began
        files = [file for file in path.rglob("*.parquet") if file.is_file()]
        assert sum(pq.read_metadata(file).num_rows for file in files) == self.rows
        shutil.rmtree(path)
        return self.rows / seconds

    def measure_tables(self) -> float:
        """Return the rows per second from the journal into all tables."""
        path = next(self._lakes)
        ingestion = IngestQuery(
            self.spark, [self.journal], Lake(path), trigger=None, options={"minPartitions": str(TASKS)}
        )
        began = time.perf_counter()
        ingestion.start()
        assert ingestion.wait(TIMEOUT_SECONDS)
        ingestion.stop()
        seconds = time.perf_counter() - began
        shutil.rmtree(path)
        return self.rows / seconds


def measure(inputs: Inputs) -> Iterator[Result]:
    """Measure one size of payload."""
    journal: list[float] = []
    parquet: list[float] = []
    tables: list[float] = []
    for turn in range(TURNS + 1):
        rates = inputs.measure_ingestion(), inputs.measure_parquet(), inputs.measure_tables()
        if turn:  # the first one warms up
            for turns, value in zip((journal, parquet, tables), rates, strict=True):
                turns.append(value)
    size = f"{inputs.size} B"
    yield Result.of(f"{size} journal to samples", journal, "rows/s")
    yield Result.of(f"{size} journal to samples, payload", [rate * inputs.size / 1e6 for rate in journal], "MB/s")
    yield Result.of(f"{size} parquet to samples", parquet, "rows/s")
    yield Result.of(f"{size} journal to samples, of parquet", _ratios(journal, parquet), "x")
    yield Result.of(f"{size} journal to tables", tables, "rows/s")
    yield Result.of(f"{size} journal to tables, of parquet", _ratios(tables, parquet), "x")


def _ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def batches(spark: SparkSession, path: Path) -> Iterator[Result]:
    """Measure a small batch early and late, while the maintenance thread runs."""
    lake = Lake(path / "lake")
    seconds: list[float] = []
    with JournalWriter(path / "journal", recorder="bench") as writer:
        ingestion = IngestQuery(
            spark, [path / "journal"], lake, trigger="0 seconds", maintenance=MaintenanceConfig(compact_interval=10.0)
        )
        ingestion.start()
        for number in range(BATCHES):
            writer.append(samples(number * BATCH_ROWS, BATCH_ROWS, 8))
            writer.flush()
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while ingestion.progress().waiting and time.monotonic() < deadline:
                time.sleep(0.005)
            seconds.append(ingestion.progress().batch_seconds or 0.0)
        ingestion.stop()
    assert lake.ingested() == {"bench": BATCHES * BATCH_ROWS}
    early, late = ([each * 1e3 for each in seconds[part]] for part in (EARLY, LATE))
    yield Result.of("a batch, early", early, "ms")
    yield Result.of("a batch, 200 later", late, "ms")
    ratio = statistics.median(late) / statistics.median(early)
    yield Result("a batch, later / early", ratio, "x", (ratio, ratio))


def run_part(spark: SparkSession, part: str, scale: float) -> Iterator[Result]:
    """Run one part of this benchmark."""
    with tempfile.TemporaryDirectory() as path:
        if part == "batches":
            yield from batches(spark, Path(path))
        else:
            yield from measure(Inputs(spark, Path(path), int(part), scale))


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--scale", type=float, default=1.0, help="factor of the number of rows")
    command.add_argument("--only", default="8,1024,65536,batches", help="which parts to run, with commas between")
    options = command.parse_args()
    spark = spark_session(f"local[{TASKS}]", "bench lake", CONFIGURATION)
    parts = (run_part(spark, part, options.scale) for part in options.only.split(","))
    report("lake", chain.from_iterable(parts), options.json)
    spark.stop()


if __name__ == "__main__":
    main()
