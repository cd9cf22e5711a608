"""Digests: what some samples mean for a derived table, computed by tasks of Spark with Arrow.

A digest is much smaller than the samples it is made from: the newest row of each key, sums per minute, the sequence
numbers of each source. Samples are chosen row by row, by recorder and offset, whatever file they are in: another tool
may have put rows of several recorders into one file, and rows of no recorder beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import pyarrow as pa

from zenspark.lake.key_ranges import sort
from zenspark.lake.parquet_files import CLUSTERED, ROWS, File, Files, batches_of, grouped
from zenspark.lake.pending import Extent
from zenspark.lake.specs import JOURNAL, SAMPLES, Shape
from zenspark.lake.storage_path import Folder
from zenspark.spark.ingest.write_files import by_partition

IDENTITY = ("recorder", "offset")
"""The columns that name a sample; both are null in rows that another tool inserted."""

Share = list[File]
"""The files that one task reads."""


class Digestion(Protocol):
    """How a derived table makes digests."""

    state: Shape
    order: tuple[str, ...]
    """Columns that its rows are ordered by."""
    columns: tuple[str, ...]
    """Columns of `samples` that it reads."""

    def digest(self, rows: pa.Table) -> pa.Table:
        """What some samples mean; their texts are dictionaries, and their columns in one piece."""


def share_files(files: Iterable[File]) -> list[Share]:
    """Splits files into shares of about `ROWS` rows, one for each task."""
    found: list[Share] = []
    rows = ROWS
    for file in files:
        if rows >= ROWS:
            found.append([])
            rows = 0
        found[-1].append(file)
        rows += file.rows
    return found


def read_digests(digestion: Digestion, samples: Folder, extent: Extent, share: Share) -> list[pa.Table]:
    """Makes the digests of a share: what a task of Spark does."""
    return list(iterate_digests(digestion, samples, extent, share))


def iterate_digests(digestion: Digestion, samples: Folder, extent: Extent, share: Share) -> Iterator[pa.Table]:
    """The same, one at a time."""
    columns = [name for name in JOURNAL.names if name in digestion.columns or name in IDENTITY]
    found = (extent.rows_of(batch) for file in share for batch in batches_of(samples, file, SAMPLES, columns))
    for rows in grouped(batch for batch in found if batch.num_rows):
        digest = digestion.digest(rows)
        if digest.num_rows:
            yield digest


def write_digests(
    digestion: Digestion, folder: Folder, label: str, samples: Folder, extent: Extent, share: Share
) -> list[File]:
    """Writes the digests of a share into files of the table, by part: what a task of Spark does."""
    files = Files(folder, digestion.state, label, CLUSTERED)
    for digest in iterate_digests(digestion, samples, extent, share):
        for own, partition in by_partition(digest, digestion.state):
            # in order, so that who reads some of the rows can leave out others
            files.write(sort(own, digestion.order), partition)
        files.end_group()
    return files.close()
