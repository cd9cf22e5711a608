"""Delete propagation: rows that other tools delete from `samples` are removed from `latest`.

A DELETE or an UPDATE replaces files, and the Delta log lists the partitions of the removed files. A row of the state is
removed if it was in one of the removed files (in one of their partitions, if vacuum has already removed the file) and
is no longer in these partitions with the same content. Its key falls back to the newest row that is still in `samples`
or in the state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from zenspark.lake.delta_table import ForeignCommit, LakeTable
from zenspark.lake.derived.partial_aggregates import IDENTITY_COLUMNS
from zenspark.lake.levels import NEW_PART, WILDCARD_PART
from zenspark.lake.parquet_files import DataFile, read_batches
from zenspark.lake.partitioning import EPOCH_DAY, MICROSECONDS_PER_DAY, partition_prefix
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.functions import zenoh_key_match
from zenspark.spark.ingest.latest import has_wildcards, select_newest
from zenspark.spark.ingest.read_files import dataframe, dataframe_of_rows

CONTENT_COLUMNS = [name for name in JOURNAL_SCHEMA.names if name != "key"]
"""Columns compared to recognise a row. Without the key: a PUT with wildcards is stored under the keys it updated."""


def remove_deleted(
    spark: SparkSession, stored: DataFrame, samples: LakeTable, changes: Collection[ForeignCommit]
) -> DataFrame | None:
    """Return the state of `latest` without rows deleted from `samples`; None if nothing changes."""
    deleted = _find_deleted(spark, stored, samples, changes)
    if not deleted.num_rows:
        return None
    deleted_rows = dataframe_of_rows(spark, deleted).select("key", *IDENTITY_COLUMNS)
    remaining = stored.join(deleted_rows, ["key", *IDENTITY_COLUMNS], "left_anti")
    return remaining.unionByName(_find_replacements(spark, samples, deleted))


def _find_deleted(
    spark: SparkSession, stored: DataFrame, samples: LakeTable, changes: Collection[ForeignCommit]
) -> pa.Table:
    """Find key, kind and identity of rows that were in removed files and are no longer in their partitions."""
    partitions = {partition or (None, None) for change in changes for partition in change.partitions}
    days, prefixes = {partition[0] for partition in partitions}, {partition[1] for partition in partitions}
    removed = _read_removed_identities(spark, samples, [path for change in changes for path in change.removed])
    affected = stored if removed is None else stored.join(removed, [*IDENTITY_COLUMNS], "left_semi")
    affected = affected if None in days else affected.where(_is_received_on(days))
    live = dataframe(spark, samples, _files_in_partitions(samples, days, prefixes)).select(
        *IDENTITY_COLUMNS, _content_hash()
    )
    missing = affected.withColumn("_content_hash", _content_hash()).join(
        live, [*IDENTITY_COLUMNS, "_content_hash"], "left_anti"
    )
    deleted = missing.select("key", "kind", *IDENTITY_COLUMNS).toArrow()
    return deleted.filter(pa.array([_is_in_partition(key, prefixes) for key in deleted["key"].to_pylist()], pa.bool_()))


def _read_removed_identities(spark: SparkSession, samples: LakeTable, paths: Sequence[str]) -> DataFrame | None:
    """Read the identities of the rows of removed files; None if vacuum has removed one of the files."""
    if not all(samples.location.exists(path) for path in paths):
        return None
    tasks = spark.range(0, len(paths), 1, len(paths))
    return tasks.mapInArrow(partial(_read_identities, samples.location, paths), "recorder string, offset long")


def _read_identities(
    folder: StoragePath, paths: Sequence[str], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield recorder and offset of the rows of files, given by index; runs as a Spark task."""
    schema = pa.schema([JOURNAL_SCHEMA.field(name) for name in IDENTITY_COLUMNS])
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            file = DataFile(paths[number], 0, 0, {})
            yield from (rows.cast(schema) for rows in read_batches(folder, file, SAMPLES, IDENTITY_COLUMNS))


def _files_in_partitions(
    samples: LakeTable, days: Collection[str | None], prefixes: Collection[str | None]
) -> list[DataFile]:
    """List the files of these partitions, and of the partitions with wildcards on the same days."""
    if None in days:
        return samples.files
    spans = [(date.fromisoformat(day), date.fromisoformat(day)) for day in days if day]
    if _has_wildcard_prefix(prefixes):
        return [file for span in spans for file in samples.prune_files(*span)]
    files = {
        file.path: file for span in spans for prefix in prefixes for file in samples.prune_files(*span, prefix=prefix)
    }
    return list(files.values())


def _has_wildcard_prefix(prefixes: Iterable[str | None]) -> bool:
    """Whether rows of a partition with one of these prefixes can apply to keys of other prefixes."""
    return any(prefix is None or "*" in prefix for prefix in prefixes)


def _is_received_on(days: Collection[str | None]) -> Column:
    """Whether a row was received on one of these days."""
    numbers = [(date.fromisoformat(day) - EPOCH_DAY).days for day in days if day]
    return F.floor(F.unix_micros("received_at") / F.lit(MICROSECONDS_PER_DAY)).isin(numbers)


def _is_in_partition(key: str, prefixes: Collection[str | None]) -> bool:
    """Whether the current row of a key may be in a partition with one of these prefixes."""
    return partition_prefix(key) in prefixes or _has_wildcard_prefix(prefixes)


def _content_hash() -> Column:
    return F.xxhash64(*CONTENT_COLUMNS).alias("_content_hash")


def _find_replacements(spark: SparkSession, samples: LakeTable, deleted: pa.Table) -> DataFrame:
    """Find the newest remaining rows of `samples` for keys that lost their newest row."""
    rows = deleted.select(["key", "kind"]).to_pylist()
    deletes = sorted({row["key"] for row in rows if "*" in row["key"] and row["kind"] == "DELETE"})
    keys = dataframe_of_rows(spark, deleted.select(["key"])).distinct().withColumn("_lost", F.lit(True))
    files = _files_of_keys(samples, {row["key"] for row in rows})
    candidates = dataframe(spark, samples, files).select(JOURNAL_SCHEMA.names).where(F.col("recorder").isNotNull())
    # keys that a deleted DELETE with wildcards had removed exist again
    is_restored = reduce(
        Column.__or__, [zenoh_key_match("key", F.lit(expression)) for expression in deletes], F.lit(False)
    )
    is_replacement = F.col("_lost").isNotNull() | has_wildcards("key") | is_restored
    replacements = select_newest(
        candidates.join(F.broadcast(keys), "key", "left").where(is_replacement).select(JOURNAL_SCHEMA.names)
    )
    return replacements.withColumn(
        "part", F.when(has_wildcards("key"), F.lit(WILDCARD_PART)).otherwise(F.lit(NEW_PART))
    )


def _files_of_keys(samples: LakeTable, keys: Iterable[str]) -> list[DataFile]:
    """List the files that can contain rows of these keys, or rows with wildcards that include them."""
    prefixes = {partition_prefix(key) for key in keys}
    if _has_wildcard_prefix(prefixes):
        return samples.files
    files = {file.path: file for prefix in prefixes for file in samples.prune_files(prefix=prefix)}
    return list(files.values())
