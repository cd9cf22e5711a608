"""Digests: what some samples mean for a derived table, computed by tasks of Spark with Arrow.

A digest is much smaller than the samples it is made from: the newest row of each key, sums per minute, the sequence
numbers of each source. Samples are chosen row by row, by recorder and offset, whatever file they are in: another tool
may have put rows of several recorders into one file, and rows of no recorder beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.spark.lake.files import CLUSTERED, ROWS, File, Files, batches_of, grouped
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.offsets import offsets, recorders
from zenspark.spark.lake.quarantine import MARK, RETRIED, parse_mark
from zenspark.spark.lake.ranges import sort
from zenspark.spark.lake.shapes import JOURNAL, SAMPLES, Shape
from zenspark.spark.lake.table import Table
from zenspark.spark.lake.writing import by_partition

SAMPLES_VERSION = "samples-version"
"""The mark of a state: the version of `samples` up to which it has all rows."""
IDENTITY = ("recorder", "offset")
"""The columns that name a sample; both are null in rows that another tool inserted."""

Span = tuple[int, int]
"""From an offset up to before another."""
Share = list[File]
"""The files that one task reads."""


@dataclass(frozen=True)
class Extent:
    """Rows of `samples`: of every recorder those from `start` up to before `end`, and late ones before `start`."""

    start: Mapping[str, int]
    end: Mapping[str, int]
    late: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)
    """Offsets of rows that have landed after others behind them: they had been in quarantine."""

    @property
    def empty(self) -> bool:
        return not self.late and all(end <= self.start.get(recorder, 0) for recorder, end in self.end.items())

    def limited(self, rows: int) -> Extent:
        """The first rows of it: at most so many of each recorder, and all that are late."""
        end = {recorder: min(end, self.start.get(recorder, 0) + rows) for recorder, end in self.end.items()}
        return replace(self, end=end)

    def may_hold(self, file: File) -> bool:
        """Whether a file can have such rows, by its statistics; without any, it can."""
        recorder = file.least.get("recorder")
        if recorder is None or recorder != file.greatest.get("recorder"):
            return True
        first, last = file.least.get("offset"), file.greatest.get("offset")
        spans = self._spans(recorder)
        if first is None or last is None:
            return any(start < end for start, end in spans)
        return any(first < end and last >= start for start, end in spans)

    def rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that belong to it; `recorder` is a dictionary."""
        recorders, offset = batch["recorder"], pc.fill_null(batch["offset"], -1).to_numpy()
        names = recorders.dictionary.to_pylist()
        index = pc.fill_null(recorders.indices, len(names)).to_numpy()  # rows without a recorder have none of these
        within = np.zeros(len(offset), np.bool_)
        for place, name in enumerate(names):
            for start, end in self._spans(name):
                within |= (index == place) & (offset >= start) & (offset < end)
        return batch if within.all() else batch.filter(pa.array(within))

    def _spans(self, recorder: str) -> list[Span]:
        start = self.start.get(recorder, 0)
        late = [(first, min(end, start)) for first, end in self.late.get(recorder, ())]
        return [(start, self.end.get(recorder, 0)), *late]


def find_pending(state: Table, samples: Table) -> Extent:
    """The rows that are in `samples` and not taken into a state yet."""
    known = recorders(samples)
    late: dict[str, tuple[Span, ...]] = {}
    for name in find_late(state, samples):
        recorder, start, end = parse_mark(name)
        late[recorder] = (*late.get(recorder, ()), (start, end))
    return Extent(offsets(state, known), offsets(samples, known), late)


def find_late(state: Table, samples: Table) -> list[str]:
    """The marks of rows that have left quarantine since a state took in samples."""
    retried = [name for name, mark in samples.marks.items() if name.startswith(MARK) and mark == RETRIED]
    return [name for name in retried if state.mark(name) != RETRIED]


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
