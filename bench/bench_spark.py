"""What does reading through Python cost Spark, and what does the key-expression join cost beside a cross join?

    make bench                                              this and all others
    python bench/bench_spark.py --json new.json             this one alone; --only source,match runs some of it
    python bench/bench_spark.py --rows 100000 --keys 10000  smaller, a quick run
    python bench/compare.py old.json new.json               two branches, each run with --json

A good result: journal to Parquet at least half as fast as Parquet to Parquet, which the same Spark does without Python;
`match_keys` for a million keys and ten thousand expressions many times faster than a cross join.

Sources: the same rows as a journal and as Parquet, read whole into Spark's `noop` sink and into Parquet, by turns, so a
busy machine disturbs both alike; a ratio is of one turn, and its value the median of turns. The cross join is one with
the same Arrow function, over a sample of the keys, `CROSS` of them, and all expressions: its time is scaled to all keys
("scaled").
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.command import parser, report
from bench.compare import Result
from zenspark.arrow import SCHEMA
from zenspark.journal import JournalWriter
from zenspark.spark.engine import spark_session
from zenspark.spark.functions import zenoh_key_match
from zenspark.spark.key_join import match_keys

TURNS = 3
SIZES = {8: 1, 1024: 8, 65536: 256}
"""Payload sizes, and the divisor of the number of rows of each."""
BLOCK = 65_536
BLOCK_BYTES = 1 << 24
CROSS = 500
ROW_KEYS = 1_000
"""Number of keys of the rows."""


def batch(first: int, rows: int, size: int) -> pa.RecordBatch:
    """Make rows as a recorder writes them: keys repeat, timestamps do not."""
    numbers = pa.array(range(first, first + rows), pa.int64())
    columns = {
        "key": pa.array([f"fleet/r{number % ROW_KEYS}/pose" for number in range(first, first + rows)]),
        "kind": pa.repeat("PUT", rows),
        "payload": pa.repeat(pa.scalar(b"x" * size, pa.binary()), rows),
        "encoding": pa.repeat("application/cdr", rows),
        "timestamp": numbers.cast(pa.timestamp("us", "UTC")),
        "source_sn": numbers,
        "priority": pa.repeat("DATA", rows),
        "congestion": pa.repeat("BLOCK", rows),
        "express": pa.repeat(False, rows),
        "reliable": pa.repeat(True, rows),
        "received_at": numbers.cast(pa.timestamp("us", "UTC")),
    }
    arrays = [columns.get(field.name, pa.nulls(rows, field.type)) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def record(path: Path, rows: int, size: int) -> None:
    block = min(BLOCK, max(1, BLOCK_BYTES // size))
    with JournalWriter(path) as writer:
        for first in range(0, rows, block):
            writer.append(batch(first, min(block, rows - first), size))
            writer.flush()


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# --- sources --------------------------------------------------------------------------------------------------------


def sources(spark: SparkSession, rows: int, place: Path) -> Iterator[Result]:
    for size, divisor in SIZES.items():
        yield from source(spark, max(rows // divisor, 1), size, place)


def source(spark: SparkSession, rows: int, size: int, place: Path) -> Iterator[Result]:
    journal, parquet, out = (str(place / f"{name}-{size}") for name in ("journal", "parquet", "out"))
    record(Path(journal), rows, size)
    spark.read.format("zenoh").load(journal).write.parquet(parquet)
    readers = {
        "journal": lambda: spark.read.format("zenoh").load(journal),
        "parquet": lambda: spark.read.parquet(parquet),
    }
    for name, sink in (("noop", noop), ("Parquet", lambda table: table.write.mode("overwrite").parquet(out))):
        took: dict[str, list[float]] = {reader: [] for reader in readers}
        for _ in range(TURNS):
            for reader, load in readers.items():
                took[reader].append(seconds(lambda load=load, sink=sink: sink(load())))  # type: ignore[misc]
        label = f"{size} B, journal to {name}"
        yield Result.of(label, [rows / each for each in took["journal"]], "rows/s")
        ratios = [other / own for own, other in zip(took["journal"], took["parquet"], strict=True)]
        yield Result.of(f"{size} B, against Parquet to {name}", ratios, "x")
    shutil.rmtree(place)


def noop(table: DataFrame) -> None:
    table.write.format("noop").mode("overwrite").save()


# --- the join -------------------------------------------------------------------------------------------------------


def keys_of(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("concat('fleet/r', id % 1000, '/s', id div 1000, '/v') key")


def expressions_of(spark: SparkSession, count: int, kind: str) -> DataFrame:
    """Make expressions with many prefixes, or all with one: a join by prefix alone would compare all pairs then."""
    by_kind = {
        "many prefixes": "concat('fleet/r', id % 1000, '/s', id div 1000, '/*')",
        "one prefix": "concat('fleet/*/s', id % 1000, '/', if(id < 1000, 'v', concat('w', id)))",
    }
    return spark.range(count).selectExpr(f"{by_kind[kind]} keyexpr")


def joins(spark: SparkSession, keys: int, expressions: int) -> Iterator[Result]:
    for kind in ("many prefixes", "one prefix"):
        left, right = keys_of(spark, keys).cache(), expressions_of(spark, expressions, kind).cache()
        left.count(), right.count()
        sample = left.limit(CROSS).cache()
        crossed = sample.count() * expressions
        own, cross = [], []
        for _ in range(TURNS):
            own.append(seconds(lambda left=left, right=right: match_keys(left, right).count()))  # type: ignore[misc]
            pairs = sample.crossJoin(F.broadcast(right)).where(zenoh_key_match("key", "keyexpr"))
            cross.append(seconds(pairs.count))
        shape = f"{keys:.0e} keys x {expressions:.0e} expressions, {kind}".replace("e+0", "e")
        scaled = keys * expressions / crossed
        yield Result.of(f"match_keys, {shape}", own, "s")
        yield Result.of(f"cross join of {CROSS} keys, scaled, {kind}", [each * scaled for each in cross], "s")
        ratios = [theirs * scaled / ours for ours, theirs in zip(own, cross, strict=True)]
        yield Result.of(f"match_keys against a cross join, {kind}", ratios, "x")
        for table in (left, right, sample):
            table.unpersist()


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--only", default="source,match", help="parts to run, of source and match")
    command.add_argument("--rows", type=int, default=4_000_000, help="rows of 8 bytes; fewer of larger ones")
    command.add_argument("--keys", type=int, default=1_000_000)
    command.add_argument("--expressions", type=int, default=10_000)
    options = command.parse_args()
    spark = spark_session("local[2]", "bench")
    try:
        with tempfile.TemporaryDirectory() as place:
            runs = {
                "source": lambda: sources(spark, options.rows, Path(place, "source")),
                "match": lambda: joins(spark, options.keys, options.expressions),
            }
            report("spark", (result for name in options.only.split(",") for result in runs[name]()), options.json)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
