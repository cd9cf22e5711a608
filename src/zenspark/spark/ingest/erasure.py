"""Erasure: rows that another tool deletes from `samples` vanish from `latest` too.

A DELETE, or an UPDATE, replaces files: the log has the partitions of those it removed. A row of the state that was in
one of the removed files (where vacuum was faster, in one of these partitions), and is not in the partitions any more
as it was, does not count. Its key falls back to the newest row that is still in `samples`, or that the state has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from zenspark.lake.delta_table import ForeignChange, Table
from zenspark.lake.levels import NEW, WILD
from zenspark.lake.parquet_files import File, batches_of
from zenspark.lake.partitioning import EPOCH, MICROSECONDS_PER_DAY, prefix_of
from zenspark.lake.specs import JOURNAL, SAMPLES
from zenspark.lake.storage_path import Folder
from zenspark.spark.functions import zenoh_key_match
from zenspark.spark.ingest.latest import is_wild, newest
from zenspark.spark.ingest.partial_aggregates import IDENTITY
from zenspark.spark.ingest.read_files import frame, frame_of_rows

CONTENT = [name for name in JOURNAL.names if name != "key"]
"""What is compared of a row: the key of a PUT with wildcards is not that of the rows it gave its value to."""


def erase(
    spark: SparkSession, stored: DataFrame, samples: Table, changes: Collection[ForeignChange]
) -> DataFrame | None:
    """The rows of a state of `latest` without what was deleted from `samples`; None if they stay as they are."""
    gone = _find_gone(spark, stored, samples, changes)
    if not gone.num_rows:
        return None
    lost = frame_of_rows(spark, gone).select("key", *IDENTITY)
    left = stored.join(lost, ["key", *IDENTITY], "left_anti")
    return left.unionByName(_fall_back(spark, samples, gone))


def _find_gone(spark: SparkSession, stored: DataFrame, samples: Table, changes: Collection[ForeignChange]) -> pa.Table:
    """Key, kind and identity of the rows that were in removed files, and are not in their partitions any more."""
    places = {place or (None, None) for change in changes for place in change.partitions}
    days, prefixes = {place[0] for place in places}, {place[1] for place in places}
    removed = _read_removed(spark, samples, [path for change in changes for path in change.removed])
    met = stored if removed is None else stored.join(removed, [*IDENTITY], "left_semi")
    met = met if None in days else met.where(_is_of(days))
    live = frame(spark, samples, _files_of(samples, days, prefixes)).select(*IDENTITY, _content())
    left = met.withColumn("_content", _content()).join(live, [*IDENTITY, "_content"], "left_anti")
    found = left.select("key", "kind", *IDENTITY).toArrow()
    return found.filter(pa.array([_is_in(key, prefixes) for key in found["key"].to_pylist()], pa.bool_()))


def _read_removed(spark: SparkSession, samples: Table, paths: Sequence[str]) -> DataFrame | None:
    """The identities of the rows of removed files; None if not all of these are on disk any more."""
    if not all(samples.folder.exists(path) for path in paths):
        return None
    tasks = spark.range(0, len(paths), 1, len(paths))
    return tasks.mapInArrow(partial(_identities, samples.folder, paths), "recorder string, offset long")


def _identities(folder: Folder, paths: Sequence[str], numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Recorder and offset of the rows of files, by their numbers: what a task of Spark does."""
    schema = pa.schema([JOURNAL.field(name) for name in IDENTITY])
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            file = File(paths[number], 0, 0, {})
            yield from (rows.cast(schema) for rows in batches_of(folder, file, SAMPLES, IDENTITY))


def _files_of(samples: Table, days: Collection[str | None], prefixes: Collection[str | None]) -> list[File]:
    """The files of these partitions, and of those with wildcards on the same days."""
    if None in days:
        return samples.files
    spans = [(date.fromisoformat(day), date.fromisoformat(day)) for day in days if day]
    if _are_any(prefixes):
        return [file for span in spans for file in samples.prune(*span)]
    found = {file.path: file for span in spans for prefix in prefixes for file in samples.prune(*span, prefix=prefix)}
    return list(found.values())


def _are_any(prefixes: Iterable[str | None]) -> bool:
    """Whether a partition with one of these prefixes can have rows that concern keys of any other."""
    return any(prefix is None or "*" in prefix for prefix in prefixes)


def _is_of(days: Collection[str | None]) -> Column:
    """Whether a row was received on one of these days."""
    numbers = [(date.fromisoformat(day) - EPOCH).days for day in days if day]
    return F.floor(F.unix_micros("received_at") / F.lit(MICROSECONDS_PER_DAY)).isin(numbers)


def _is_in(key: str, prefixes: Collection[str | None]) -> bool:
    """Whether the row that a key has may be in a partition with one of these prefixes."""
    return prefix_of(key) in prefixes or _are_any(prefixes)


def _content() -> Column:
    return F.xxhash64(*CONTENT).alias("_content")


def _fall_back(spark: SparkSession, samples: Table, gone: pa.Table) -> DataFrame:
    """The rows of `samples` that count for keys which lost their newest row."""
    rows = gone.select(["key", "kind"]).to_pylist()
    deletes = sorted({row["key"] for row in rows if "*" in row["key"] and row["kind"] == "DELETE"})
    keys = frame_of_rows(spark, gone.select(["key"])).distinct().withColumn("_lost", F.lit(True))
    files = _files_of_keys(samples, {row["key"] for row in rows})
    given = frame(spark, samples, files).select(JOURNAL.names).where(F.col("recorder").isNotNull())
    # keys that a lost DELETE with wildcards had removed are there again
    returned = reduce(Column.__or__, [zenoh_key_match("key", F.lit(each)) for each in deletes], F.lit(False))
    wanted = F.col("_lost").isNotNull() | is_wild("key") | returned
    found = newest(given.join(F.broadcast(keys), "key", "left").where(wanted).select(JOURNAL.names))
    return found.withColumn("part", F.when(is_wild("key"), F.lit(WILD)).otherwise(F.lit(NEW)))


def _files_of_keys(samples: Table, keys: Iterable[str]) -> list[File]:
    """The files that can have rows of these keys, or rows with wildcards that include them."""
    prefixes = {prefix_of(key) for key in keys}
    if _are_any(prefixes):
        return samples.files
    found = {file.path: file for prefix in prefixes for file in samples.prune(prefix=prefix)}
    return list(found.values())
