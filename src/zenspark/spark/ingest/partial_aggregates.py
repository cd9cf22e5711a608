"""Spark tasks that compute partial aggregates of a derived table (`zenspark.lake.derived.partial_aggregates`)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from zenspark.lake.derived.partial_aggregates import PartialAggregation, TaskFiles, iterate_partials
from zenspark.lake.key_ranges import sort_rows
from zenspark.lake.parquet_files import BUFFER_ROWS, KEY_ORDER_SIZES, DataFile, DataFileWriter
from zenspark.lake.pending_rows import OffsetRanges
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest.write_files import split_partition_columns


def split_into_tasks(files: Iterable[DataFile]) -> list[TaskFiles]:
    """Split files into groups of about `BUFFER_ROWS` rows, one group per task."""
    tasks: list[TaskFiles] = []
    rows = BUFFER_ROWS
    for file in files:
        if rows >= BUFFER_ROWS:
            tasks.append([])
            rows = 0
        tasks[-1].append(file)
        rows += file.rows
    return tasks


def read_partials(
    aggregation: PartialAggregation, samples: StoragePath, extent: OffsetRanges, task_files: TaskFiles
) -> list[pa.Table]:
    """Compute the partial aggregates of some files; runs as a Spark task."""
    return list(iterate_partials(aggregation, samples, extent, task_files))


def write_partials(
    aggregation: PartialAggregation,
    folder: StoragePath,
    label: str,
    samples: StoragePath,
    extent: OffsetRanges,
    task_files: TaskFiles,
) -> list[DataFile]:
    """Write the partial aggregates of some files into the state, by partition; runs as a Spark task."""
    files = DataFileWriter(folder, aggregation.state, label, KEY_ORDER_SIZES)
    for aggregated in iterate_partials(aggregation, samples, extent, task_files):
        for rows, partition in split_partition_columns(aggregated, aggregation.state):
            # sorted, so that readers can skip row groups
            files.write(sort_rows(rows, aggregation.order), partition)
        files.roll_over()
    return files.close()
