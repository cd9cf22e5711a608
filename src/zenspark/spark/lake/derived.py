"""Tables that follow from `samples`: how they keep up with it, and why they are never behind it.

A derived table has marks like `samples`: up to which offsets it has taken the rows in. Now and then, off the way of
the rows that land, it takes in what came since (*fold*): one transaction adds what these rows mean for the table and
moves the marks, so every row counts exactly once. Whoever reads it in between gets the same result, because what was
not taken in yet, the *tail*, is computed while reading. How often folds happen decides what reading costs, not what
it gives.

Files are in parts. A fold appends to one part, or writes a part anew that is a small state. When many folds have left
many files, they are *merged* into one part again; the more there is, the more must have come first, so that a row is
rewritten only as often as the logarithm of their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Protocol
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from zenspark.spark.lake.files import File
from zenspark.spark.lake.offsets import marks, offsets, reaches, recorders
from zenspark.spark.lake.reading import frame
from zenspark.spark.lake.shapes import Shape
from zenspark.spark.lake.table import Change, Table
from zenspark.spark.lake.writing import write

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

    def step(self, rows: DataFrame, state: DataFrame) -> DataFrame:
        """What new samples mean for the table, in its columns and parts; the state they meet is replaced by the new."""

    def merge(self, stored: DataFrame) -> DataFrame:
        """The same content in fewer rows, without the state."""

    def view(self, stored: DataFrame) -> DataFrame:
        """What a reader sees of all that is stored."""


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
        tail = self._tail(spark, start)
        if tail is not None:
            stepped = self.derivation.step(tail, frame(spark, self.table, self._state))
            self.table.commit(Change(add=self._written(stepped), remove=self._state, marks=marks(end)))
        else:
            self.table.commit(Change(marks=marks(end)))
        return True

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
        stored, state = frame(spark, self.table, self._kept), frame(spark, self.table, self._state)
        tail = self._tail(spark, start) if start != end else None
        return self.derivation.view(stored.unionByName(state if tail is None else self.derivation.step(tail, state)))

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

    def _tail(self, spark: SparkSession, start: Mapping[str, int]) -> DataFrame | None:
        """The samples from these offsets on that mean something to this table; None if no file has any."""
        needed = self.derivation.needs
        files = [file for file in self.samples.files if reaches(file, start) and file.greatest[needed] is not None]
        if not files:
            return None
        rows = frame(spark, self.samples, files)
        return rows.where(F.col("offset") >= _by_recorder(start)) if start else rows

    def _written(self, rows: DataFrame) -> list[File]:
        directory = f"batch=fold-{uuid4().hex}"
        write(rows.select(self.table.shape.schema.names), self.table, directory)
        return self.table.described(directory)


def merge_is_due(files: list[File]) -> bool:
    """Whether enough has come since the last merge."""
    new = [file for file in files if file.partition["part"] == NEW]
    merged = [file for file in files if file.partition["part"] == MERGED]
    worth = sum(file.rows for file in new) * WORTH_MERGING >= sum(file.rows for file in merged)
    return len(new) >= MANY_FILES or (len(new) >= FEW_FILES and worth)


def _by_recorder(start: Mapping[str, int]) -> Column:
    """For each row, the offset from which on its recorder's rows are wanted."""
    cases = ((F.col("recorder") == recorder, offset) for recorder, offset in start.items())
    chain = reduce(lambda so_far, case: so_far.when(case[0], F.lit(case[1])), cases, F.when(F.lit(False), F.lit(0)))
    return chain.otherwise(F.lit(0))
