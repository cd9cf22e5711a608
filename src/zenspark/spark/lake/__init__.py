"""The lake: tables of what was on the network, in Parquet with a Delta log, that many tools read.

    lake = Lake("./lake")
    lake.register(spark)
    spark.sql("select key, payload from latest where key like 'fleet/%'")

docs/lake.md says what each table holds and promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from zenspark.errors import UsageError
from zenspark.journal import Journal
from zenspark.spark.lake import maintenance, observed
from zenspark.spark.lake.derived import Derivation, Derived
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.gaps import Gaps
from zenspark.spark.lake.latest import Latest
from zenspark.spark.lake.offsets import offsets, recorders
from zenspark.spark.lake.reading import frame
from zenspark.spark.lake.shapes import JOURNAL, SAMPLES, Shape
from zenspark.spark.lake.table import Table
from zenspark.spark.lake.traffic import Traffic

__all__ = ["Lake", "Snapshot"]

DERIVATIONS: dict[str, Derivation] = {"latest": Latest(), "gaps": Gaps(), "traffic": Traffic()}
SHAPES: dict[str, Shape] = (
    {"samples": SAMPLES} | {name: found.shape for name, found in DERIVATIONS.items()} | observed.SHAPES
)
GRACE = timedelta(hours=1)
"""How long files that no longer count stay on disk for those who still read them."""


class Snapshot(NamedTuple):
    """A table at one moment."""

    dataset: ds.Dataset
    offsets: dict[str, int]
    """Up to before which offset it has the rows of each recorder, or what follows from them."""


class Lake:
    """A directory of tables. Nothing is read or made before it is needed."""

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        """Takes a path or a URI; `storage_options` are deltalake's, for what is not on this machine (docs/lake.md)."""
        self.folder = Folder.at(path, storage_options)

    def tables(self) -> list[str]:
        """The names of the tables."""
        return list(SHAPES)

    def table(self, name: str) -> Table:
        """The files of a table and its log, as they are now."""
        shape = SHAPES.get(name)
        if shape is None:
            raise UsageError(f"a lake has no table {name!r}; there are: {', '.join(SHAPES)}")
        return Table(self._place / name, shape)

    @cached_property
    def _place(self) -> Folder:
        """Where the tables are, once it is known that they can be there."""
        self.folder.check()
        return self.folder

    def exists(self) -> bool:
        """Whether there are tables: whoever reads one that is not there makes it."""
        return (self._place / "samples").exists()

    def derived(self, name: str) -> Derived:
        """A table that follows from samples. Itself it is read first: so it is never ahead of them."""
        table = self.table(name)
        return Derived(DERIVATIONS[name], table, self.table("samples"))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A table as it is now: what is added later, this DataFrame does not have."""
        if name in DERIVATIONS:
            return self.derived(name).read(spark)
        table = self.table(name)
        return frame(spark, table, table.files)

    def register(self, spark: SparkSession) -> None:
        """Makes the tables known to SQL, under their names, as they are now."""
        for name in self.tables():
            self.read(spark, name).createOrReplaceTempView(name)

    # --- what keeps it in shape

    def fold(self, spark: SparkSession) -> None:
        """Lets the derived tables take in what landed since the last time, so that reading them costs less."""
        for name in DERIVATIONS:
            derived = self.derived(name)
            derived.fold(spark)
            derived.merge(spark)

    def observe(self, journals: Iterable[Journal], reader: str) -> None:
        """Brings in what the recorders of these journals saw of sessions and declarations."""
        for journal in journals:
            for name in observed.SHAPES:
                observed.bring(self.table(name), journal, reader)

    def compact(self, spark: SparkSession) -> int:
        """Puts small files of `samples` together; how many fewer there are."""
        return maintenance.compact(spark, self.table("samples"), self._taken_in(), datetime.now(UTC).date())

    def retain(self, age: timedelta | None = None, most: int | None = None) -> int:
        """Takes days from `samples` that are older than an age, and the oldest while it has more than `most` bytes.

        Says how many files that were. Only what the derived tables have taken in: they keep what they made of it.
        """
        return maintenance.retain(self.table("samples"), self._taken_in(), age, most, datetime.now(UTC))

    def sweep(self, grace: timedelta = GRACE) -> int:
        """Removes files from disk that no longer count, and did not at a sweep a grace before; how many."""
        return sum(maintenance.sweep(self.table(name), grace, datetime.now(UTC)) for name in SHAPES)

    def _taken_in(self) -> list[dict[str, int]]:
        """How far each derived table has come."""
        known = recorders(self.table("samples"))
        return [offsets(self.table(name), known) for name in DERIVATIONS]

    # --- without Spark

    def dataset(self, name: str) -> ds.Dataset:
        """The files of a table for Arrow, without Spark; those of a derived table as they are stored, not resolved."""
        return self.snapshot(name).dataset

    def snapshot(self, name: str) -> Snapshot:
        """The same, with the offsets up to which it has taken in the rows of each recorder."""
        return _snapshot(self.table(name), self.table("samples"))

    def landed(self) -> dict[str, int]:
        """Up to before which offset the rows of each recorder are in `samples`."""
        table = self.table("samples")
        return offsets(table, recorders(table))

    def newest(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        """Rows that decide the newest sample of every key, without Spark; and where the journals go on behind them.

        First those that `latest` has stored, DELETEs and keys with wildcards among them, then those of `samples` that
        it has not taken in yet. A key may come several times: `zenspark.spark.lake.latest` says which row counts.
        """
        table = self.table("latest")
        samples = self.table("samples")
        stored, landed = _snapshot(table, samples), _snapshot(samples, samples)
        return _decisive(stored, landed), landed.offsets


def _snapshot(table: Table, samples: Table) -> Snapshot:
    return Snapshot(table.delta().to_pyarrow_dataset(), offsets(table, recorders(samples)))


def _decisive(stored: Snapshot, landed: Snapshot) -> Iterator[pa.RecordBatch]:
    yield from stored.dataset.to_batches(columns=JOURNAL.names)
    behind = ds.scalar(False)
    for recorder, offset in landed.offsets.items():
        start = stored.offsets.get(recorder, 0)
        if start < offset:
            behind |= (ds.field("recorder") == recorder) & (ds.field("offset") >= start)
    if stored.offsets != landed.offsets:
        yield from landed.dataset.to_batches(columns=JOURNAL.names, filter=behind)
