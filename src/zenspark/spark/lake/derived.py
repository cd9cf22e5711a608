"""Tables that follow from `samples`: how they keep up with it, and why they are never behind it.

A derived table has marks like `samples`: up to which offsets it has taken the rows in. Now and then, off the way of
the rows that land, it takes in what came since (*fold*): one transaction adds what these rows mean for the table and
moves the marks, so every row counts exactly once. Whoever reads it in between gets the same result, because what was
not taken in yet, the *tail*, is computed while reading. How often folds happen decides what reading costs, not what
it gives.

What rows mean is computed in two steps. Tasks make a *digest* of the files they are given, with Arrow, in Python: that
is much less than the rows were. Most tables store digests as they are, and whoever reads them puts them together; one
that has a *state* takes them in through Spark, and writes its state anew.

Files are in parts. When many folds have left many files, they are *merged* into one part again; the more there is, the
more must have come first, so that a row is rewritten only as often as the logarithm of their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from zenspark.spark.lake.files import ROWS, File, Files, batches_of, grouped
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.offsets import marks, offsets, reaches, recorders
from zenspark.spark.lake.reading import frame, spark_schema
from zenspark.spark.lake.shapes import JOURNAL, SAMPLES, Shape
from zenspark.spark.lake.table import Change, Table
from zenspark.spark.lake.writing import by_partition, on_workers, written

STATE = "state"
"""The part that a fold writes anew."""
NEW = "new"
"""The part that folds append to,"""
MERGED = "merged"
"""and the one that merges write."""

FEW_FILES = 16
"""Fewer are not worth a merge,"""
MANY_FILES = 128
"""and more are, whatever it costs: every one is opened by every reader."""
WORTH_MERGING = 4
"""Otherwise there must be a new row for every so many old ones."""


class Derivation(Protocol):
    """What makes one derived table out of samples."""

    shape: Shape
    needs: str
    """Rows without a value in this column mean nothing to it."""
    columns: tuple[str, ...]
    """What it looks at in samples."""
    digested: pa.Schema
    """The columns of a digest; those of the table, unless it has a state."""
    has_state: bool

    def digest(self, rows: pa.Table) -> pa.Table:
        """What some samples mean; their texts are dictionaries, and their columns in one piece."""

    def step(self, digests: DataFrame, state: DataFrame) -> DataFrame:
        """What digests mean for the table, in its columns and parts; the state they meet is replaced by the new."""

    def merge(self, stored: DataFrame) -> DataFrame:
        """The same content in fewer rows, without the state."""

    def view(self, stored: DataFrame) -> DataFrame:
        """What a reader sees of all that is stored."""


class Wanted(NamedTuple):
    """Rows of a file of samples: those from an offset on."""

    file: File
    start: int


Share = list[Wanted]
"""What one task has to take in."""


class Derived:
    """One derived table beside the samples it follows from."""

    def __init__(self, derivation: Derivation, table: Table, samples: Table) -> None:
        self.derivation = derivation
        self.table = table
        self.samples = samples

    def fold(self, spark: SparkSession) -> bool:
        """Takes in what landed since the last time; whether there was anything."""
        start, end = self._progress()
        if start == end:
            return False
        shares = self._shares(start)
        change = self._folded(spark, shares) if shares else Change()
        self.table.commit(replace(change, marks=marks(end)))
        return True

    def _folded(self, spark: SparkSession, shares: Sequence[Share]) -> Change:
        """What these rows change in the table."""
        if self.derivation.has_state:
            return Change(add=self._written(self._stepped(spark, shares)), remove=self._state)
        write_share = partial(write_digests, self.derivation, self.table.folder, directory(), self.samples.folder)
        return Change(add=[file for files in on_workers(spark, write_share, shares) for file in files])

    def merge(self, spark: SparkSession) -> bool:
        """Writes what many folds left as few files; whether it was worth it."""
        if not merge_is_due(self.table.files):
            return False
        added = self._written(self.derivation.merge(frame(spark, self.table, self._kept)))
        self.table.commit(Change(add=added, remove=self._kept, rearranges=True))
        return True

    def read(self, spark: SparkSession) -> DataFrame:
        """The table as it is now, with everything that is in `samples`."""
        start, end = self._progress()
        stored = frame(spark, self.table, self._kept)
        shares = self._shares(start) if start != end else []
        state = self._stepped(spark, shares) if shares else frame(spark, self.table, self._state)
        return self.derivation.view(stored.unionByName(state))

    def _stepped(self, spark: SparkSession, shares: Sequence[Share]) -> DataFrame:
        """The state when these rows have been taken in, and what there is to tell of them."""
        derivation, folder = self.derivation, self.samples.folder

        def digested(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    for digest in digests(derivation, folder, shares[number]):
                        yield from digest.cast(derivation.digested).to_batches()

        tasks = spark.range(0, len(shares), 1, len(shares)).mapInArrow(digested, spark_schema(derivation.digested))
        return derivation.step(tasks, frame(spark, self.table, self._state))

    @property
    def _state(self) -> list[File]:
        return [file for file in self.table.files if file.partition["part"] == STATE]

    @property
    def _kept(self) -> list[File]:
        return [file for file in self.table.files if file.partition["part"] != STATE]

    def _progress(self) -> tuple[dict[str, int], dict[str, int]]:
        """Up to where this table has taken in samples, and up to where there are any."""
        known = recorders(self.samples)
        return offsets(self.table, known), offsets(self.samples, known)

    def _shares(self, start: Mapping[str, int]) -> list[Share]:
        """The samples from these offsets on that mean something to this table, for a task each."""
        needed = self.derivation.needs
        files = [file for file in self.samples.files if reaches(file, start) and file.greatest[needed] is not None]
        return shared([Wanted(file, start.get(str(file.least["recorder"]), 0)) for file in files])

    def _written(self, rows: DataFrame) -> list[File]:
        return written(rows.select(self.table.shape.schema.names), self.table, directory())


def directory() -> str:
    """A new directory for what is written now."""
    return f"batch=fold-{uuid4().hex}"


def shared(wanted: Sequence[Wanted]) -> list[Share]:
    """The same in shares of some rows each, in order."""
    found: list[Share] = []
    rows = ROWS
    for each in sorted(wanted, key=lambda one: str(one.file.least["recorder"])):
        if rows >= ROWS:
            found.append([])
            rows = 0
        found[-1].append(each)
        rows += each.file.rows
    return found


def digests(derivation: Derivation, samples: Folder, share: Share) -> Iterator[pa.Table]:
    """What the rows of a share mean: what a task of Spark does."""
    for rows in grouped(batch for wanted in share for batch in _batches(derivation, samples, wanted)):
        digest = derivation.digest(rows)
        if digest.num_rows:
            yield digest


def _batches(derivation: Derivation, samples: Folder, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    columns = [name for name in JOURNAL.names if name in derivation.columns or name == "offset"]
    for batch in batches_of(samples, wanted.file, SAMPLES, columns):
        new = batch.filter(pc.greater_equal(batch["offset"], wanted.start))
        if new.num_rows:
            yield new


def write_digests(derivation: Derivation, folder: Folder, where: str, samples: Folder, share: Share) -> list[File]:
    """Writes what the rows of a share mean into files of the table, by part: what a task of Spark does."""
    files = Files(folder, derivation.shape, where)
    for digest in digests(derivation, samples, share):
        for own, partition in by_partition(digest, derivation.shape):
            files.write(own, partition)
    return files.close()


def merge_is_due(files: list[File]) -> bool:
    """Whether enough has come since the last merge."""
    new = [file for file in files if file.partition["part"] == NEW]
    merged = [file for file in files if file.partition["part"] == MERGED]
    worth = sum(file.rows for file in new) * WORTH_MERGING >= sum(file.rows for file in merged)
    return len(new) >= MANY_FILES or (len(new) >= FEW_FILES and worth)
