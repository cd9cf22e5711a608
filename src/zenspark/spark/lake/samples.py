"""How rows of a journal become rows of `samples`, exactly once.

One batch: Spark writes its rows as Parquet into a directory that is this attempt's own; the driver reads the footers
of these files, and commits one transaction that adds them, says which batch of which query this was, and up to which
offset of every recorder the table now reaches. Until the transaction nobody sees the files, and whatever happens
before it leaves nothing but a directory, which the next attempt removes. After it the batch is found to be done, by
its number, and not done again.

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
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from zenspark.errors import LakeError
from zenspark.spark.lake.offsets import mark_of, marks, remember
from zenspark.spark.lake.reading import frame, spark_columns
from zenspark.spark.lake.shapes import JOURNAL
from zenspark.spark.lake.table import Change, File, Table, difference
from zenspark.spark.lake.writing import write

log = logging.getLogger("zenspark.spark")

ATTEMPT = "_attempt.json"
TURN = "landing"
"""The mark that whoever begins to land moves: a transaction of somebody who began before fails."""
MICROSECONDS_PER_DAY = 86_400_000_000


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


def day_of(received_at: str) -> Column:
    """The UTC day of a time, whatever the session's time zone is."""
    days = F.floor(F.unix_micros(received_at) / F.lit(MICROSECONDS_PER_DAY)).cast("int")
    return F.date_from_unix_date(days)


def prefix_of(key: str) -> Column:
    """The first chunk of a key."""
    return F.substring_index(key, "/", 1)


def partitioned(rows: DataFrame) -> DataFrame:
    """Rows of a journal with the partition each belongs to."""
    return rows.withColumns({"day": day_of("received_at"), "prefix": prefix_of("key")})


class Samples:
    """Lands the batches of one query; `query` names it, and stays the same as long as its numbering goes on."""

    def __init__(self, table: Table, query: str) -> None:
        self.table = table
        self._query_mark = f"query:{query}"
        self._turn = (table.mark(TURN) or 0) + 1
        # from here on nobody who landed before can commit any more, so what they left undone can be removed
        table.commit(Change(marks={TURN: self._turn}))
        self._clear_leftovers()

    def land(self, rows: DataFrame, batch: int) -> Landed | None:
        """Brings one batch into the table; None if it is there already. The rows are computed once."""
        if self.done(batch):
            return None
        _check_schema(rows)
        directory = self._begin(batch)
        write(partitioned(rows), self.table, directory)
        files = self.table.described(directory)
        spans = self._spans(rows.sparkSession, files)
        self._check_spans(spans, batch)
        reached = {recorder: span.end for recorder, span in spans.items()}
        if files:
            remember(self.table, spans)
            self.table.commit(Change(add=files, marks={self._query_mark: batch, TURN: self._turn} | marks(reached)))
        newest: datetime = max((file.greatest["received_at"] for file in files), default=None)  # type: ignore[type-var, assignment]
        return Landed(batch, sum(file.rows for file in files), sum(file.size for file in files), newest, reached)

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

    def _spans(self, spark: SparkSession, files: list[File]) -> dict[str, Span]:
        """Which rows of which recorder are in these files: by their footers, unless a file has several recorders."""
        spans: dict[str, Span] = {}
        mixed = []
        for file in files:
            if file.least["recorder"] == file.greatest["recorder"]:
                recorder = str(file.least["recorder"])
                span = Span(int(file.least["offset"]), int(file.greatest["offset"]) + 1, file.rows)  # type: ignore[call-overload]
                spans[recorder] = spans[recorder] | span if recorder in spans else span
            else:
                mixed.append(file)
        for recorder, span in _counted(spark, self.table, mixed):
            spans[recorder] = spans[recorder] | span if recorder in spans else span
        return spans

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


def _counted(spark: SparkSession, table: Table, files: list[File]) -> Iterable[tuple[str, Span]]:
    if not files:
        return []
    found = frame(spark, table, files).groupBy("recorder").agg(F.min("offset"), F.max("offset"), F.count("*")).collect()
    return [(recorder, Span(least, greatest + 1, rows)) for recorder, least, greatest, rows in found]


def _check_schema(rows: DataFrame) -> None:
    wrong = difference(dict(spark_columns(JOURNAL)), dict(rows.dtypes))
    if wrong:
        raise LakeError("samples", f"these rows are not those of a journal: {wrong}")
