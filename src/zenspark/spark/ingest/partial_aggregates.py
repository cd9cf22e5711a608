"""Partial aggregates of samples for a derived table, computed with Arrow by Spark tasks.

A partial aggregate is much smaller than the samples it is made from: the newest row of each key, sums per minute, the
sequence numbers of each source. Samples are selected row by row, by recorder and offset, because another tool may have
written rows of several recorders, or rows without a recorder, into one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import pyarrow as pa

from zenspark.lake.key_ranges import sort_rows
from zenspark.lake.parquet_files import (
    BUFFER_ROWS,
    KEY_ORDER_SIZES,
    DataFile,
    DataFileWriter,
    group_batches,
    read_batches,
)
from zenspark.lake.pending_rows import OffsetRanges
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES, TableSpec
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest.write_files import split_partition_columns

IDENTITY_COLUMNS = ("recorder", "offset")
"""Columns that identify a sample; both are null in rows that another tool inserted."""

TaskFiles = list[DataFile]
"""The files that one task reads."""


class PartialAggregation(Protocol):
    """Computes the partial aggregates of a derived table."""

    state: TableSpec
    order: tuple[str, ...]
    """Columns that rows of the state are sorted by."""
    columns: tuple[str, ...]
    """Columns of `samples` that the aggregation reads."""

    def aggregate_rows(self, rows: pa.Table) -> pa.Table:
        """Aggregate samples; text columns are dictionary-encoded and every column is a single chunk."""


def split_into_tasks(files: Iterable[DataFile]) -> list[TaskFiles]:
    """Split files into groups of about `BUFFER_ROWS` rows, one group per task."""
    found: list[TaskFiles] = []
    rows = BUFFER_ROWS
    for file in files:
        if rows >= BUFFER_ROWS:
            found.append([])
            rows = 0
        found[-1].append(file)
        rows += file.rows
    return found


def read_partials(
    aggregation: PartialAggregation, samples: StoragePath, extent: OffsetRanges, task_files: TaskFiles
) -> list[pa.Table]:
    """Compute the partial aggregates of some files; runs as a Spark task."""
    return list(iterate_partials(aggregation, samples, extent, task_files))


def iterate_partials(
    aggregation: PartialAggregation, samples: StoragePath, extent: OffsetRanges, task_files: TaskFiles
) -> Iterator[pa.Table]:
    """Yield the partial aggregates of some files one at a time, to bound memory."""
    columns = [name for name in JOURNAL_SCHEMA.names if name in aggregation.columns or name in IDENTITY_COLUMNS]
    found = (
        extent.filter_batch(batch) for file in task_files for batch in read_batches(samples, file, SAMPLES, columns)
    )
    for rows in group_batches(batch for batch in found if batch.num_rows):
        aggregated = aggregation.aggregate_rows(rows)
        if aggregated.num_rows:
            yield aggregated


def write_partials(
    aggregation: PartialAggregation,
    folder: StoragePath,
    label: str,
    samples: StoragePath,
    extent: OffsetRanges,
    task_files: TaskFiles,
) -> list[DataFile]:
    """Write the partial aggregates of some files into the state, by part; runs as a Spark task."""
    files = DataFileWriter(folder, aggregation.state, label, KEY_ORDER_SIZES)
    for aggregated in iterate_partials(aggregation, samples, extent, task_files):
        for rows, partition in split_partition_columns(aggregated, aggregation.state):
            # sorted, so that readers can skip row groups
            files.write(sort_rows(rows, aggregation.order), partition)
        files.roll_over()
    return files.close()
