"""How rows of a journal become rows of `samples`, exactly once.

One batch is some parts of journals. Tasks of Spark read them, each one part, and write its rows with Arrow as Parquet
into a directory that is this attempt's own; the driver commits one transaction that adds these files, says which batch
of which query this was, and up to which offset of every recorder the table now reaches. Until the transaction nobody
sees the files, and whatever happens before it leaves nothing but a directory, which the next attempt removes. After it
the batch is found to be done, by its number, and not done again.

The offsets are the second guard: a batch that does not start where the table ends is refused, so a checkpoint that
belongs to another lake puts nothing in twice. And only who began last can land: a driver that was thought dead and
wakes up cannot commit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from zenspark.errors import LakeError
from zenspark.journal import Slice
from zenspark.journal.packing import WORDS
from zenspark.spark.lake.files import File, Files, grouped
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.offsets import mark_of, marks, remember
from zenspark.spark.lake.partitions import parted
from zenspark.spark.lake.reading import spark_columns
from zenspark.spark.lake.shapes import SAMPLES
from zenspark.spark.lake.table import Change, Table, difference
from zenspark.spark.lake.writing import on_workers
from zenspark.spark.stream import SLICES

log = logging.getLogger("zenspark.spark")

ATTEMPT = "_attempt.json"
TURN = "landing"
"""The mark that whoever begins to land moves: a transaction of somebody who began before fails."""


@dataclass(frozen=True)
class Span:
    """The rows of one recorder in a batch: from an offset up to before another."""

    start: int
    end: int
    rows: int

    def __or__(self, other: Span) -> Span:
        return Span(min(self.start, other.start), max(self.end, other.end), self.rows + other.rows)


@dataclass(frozen=True)
class Landed:
    """What one batch brought."""

    batch: int
    rows: int
    bytes: int
    newest: datetime | None
    """When the last of its rows was received."""
    reached: Mapping[str, int]
    """Up to before which offset of its recorders the table has come."""


def write_part(folder: Folder, directory: str, part: Slice) -> list[File]:
    """Writes the rows of a part of a journal into files by day and prefix: what a task of Spark does."""
    files = Files(folder, SAMPLES, directory)
    for rows in grouped(part.batches(WORDS)):
        for partition, own in parted(rows):
            files.write(own, partition)
        files.end_group()
    return files.close()


class Samples:
    """Lands the batches of one query; `query` names it, and stays the same as long as its numbering goes on."""

    def __init__(self, table: Table, query: str) -> None:
        self.table = table
        self._query_mark = f"query:{query}"
        self._turn = (table.mark(TURN) or 0) + 1
        # from here on nobody who landed before can commit any more, so what they left undone can be removed
        table.commit(Change(marks={TURN: self._turn}))
        self._clear_leftovers()

    def land(self, parts: DataFrame, batch: int) -> Landed | None:
        """Brings one batch into the table, given as parts of journals; None if it is there already."""
        if self.done(batch):
            return None
        _check_columns(parts)
        slices = [_checked(Slice(**row.asDict())) for row in parts.collect()]
        spans = _spans(slices)
        self._check_spans(spans, batch)
        files = self._written(parts.sparkSession, slices, batch)
        reached = {recorder: span.end for recorder, span in spans.items()}
        if files:
            remember(self.table, spans)
            self.table.commit(Change(add=files, marks={self._query_mark: batch, TURN: self._turn} | marks(reached)))
        newest: datetime = max((file.greatest["received_at"] for file in files), default=None)  # type: ignore[type-var, assignment]
        return Landed(batch, sum(file.rows for file in files), sum(file.size for file in files), newest, reached)

    def _written(self, spark: SparkSession, slices: list[Slice], batch: int) -> list[File]:
        """Lets tasks write the rows, each one part."""
        directory = self._begin(batch)
        write = partial(write_part, self.table.folder, directory)
        return [file for files in on_workers(spark, write, slices) for file in files]

    def done(self, batch: int) -> bool:
        """Whether a batch is in the table."""
        last = self.table.mark(self._query_mark)
        return last is not None and batch <= last

    def _begin(self, batch: int) -> str:
        """Names the directory of a new attempt where the next one will find the name."""
        directory = f"batch={batch:012}-{uuid4().hex[:12]}"
        self._clear_leftovers()
        self.table.folder.write(ATTEMPT, json.dumps({"directory": directory}).encode())
        return directory

    def _clear_leftovers(self) -> None:
        content = self.table.folder.read(ATTEMPT)
        if content is None:
            return
        directory = json.loads(content)["directory"]
        if not any(file.path.startswith(f"{directory}/") for file in self.table.files):
            self.table.folder.remove(directory)

    def _check_spans(self, spans: Mapping[str, Span], batch: int) -> None:
        for recorder, span in spans.items():
            end = self.table.mark(mark_of(recorder))
            if end is not None and span.start < end:
                raise LakeError(
                    self.table.folder.address,
                    f"batch {batch} brings rows of recorder {recorder!r} from offset {span.start} on, but up to {end}"
                    " they are there: is this the checkpoint of another lake, or does another job land in this one?",
                )
            if span.rows != span.end - span.start or (end is not None and span.start > end):
                log.warning("recorder %s: rows before offset %d were not in the journal", recorder, span.end)


def _spans(slices: Iterable[Slice]) -> dict[str, Span]:
    """Which rows of which recorder these parts have."""
    spans: dict[str, Span] = {}
    for part in slices:
        span = Span(part.start, part.end, part.num_rows)
        spans[part.recorder] = spans[part.recorder] | span if part.recorder in spans else span
    return spans


def _check_columns(parts: DataFrame) -> None:
    wrong = difference(dict(spark_columns(SLICES)), dict(parts.dtypes))
    if wrong:
        raise LakeError("samples", f"these are not parts of journals: {wrong}")


def _checked(part: Slice) -> Slice:
    if part.rows != SAMPLES.name:
        raise LakeError("samples", f"a part with rows of {part.rows} cannot land here: {part.path}")
    return part
