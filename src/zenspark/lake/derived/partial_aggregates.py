"""Partial aggregates of samples for a derived table, computed with Arrow.

A partial aggregate is much smaller than the samples it is made from: the newest row of each key, sums per minute, the
sequence numbers of each source. Samples are selected row by row, by recorder and offset, because another tool may have
written rows of several recorders, or rows without a recorder, into one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from zenspark.lake.parquet_files import DataFile, group_batches, read_batches
from zenspark.lake.pending_rows import OffsetRanges
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES, TableSpec
from zenspark.lake.storage_path import StoragePath

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


def iterate_partials(
    aggregation: PartialAggregation, samples: StoragePath, extent: OffsetRanges, task_files: TaskFiles
) -> Iterator[pa.Table]:
    """Yield the partial aggregates of some files one at a time, to bound memory."""
    columns = [name for name in JOURNAL_SCHEMA.names if name in aggregation.columns or name in IDENTITY_COLUMNS]
    batches = (
        extent.filter_batch(batch) for file in task_files for batch in read_batches(samples, file, SAMPLES, columns)
    )
    for rows in group_batches(batch for batch in batches if batch.num_rows):
        aggregated = aggregation.aggregate_rows(rows)
        if aggregated.num_rows:
            yield aggregated
