"""The lake: tables of what was on the network, in Parquet with a Delta log, that many tools read.

    lake = Lake("./lake")
    lake.register(spark)
    spark.sql("select key, payload from latest where key like 'fleet/%'")

docs/lake.md says what each table holds and promises. Importing this loads no PySpark: what needs it imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from zenspark.errors import LakeError, UsageError
from zenspark.journal import Journal
from zenspark.spark.lake import maintenance, observed, quarantine
from zenspark.spark.lake.delta_log import DeltaLog
from zenspark.spark.lake.digests import SAMPLES_VERSION, Extent, find_pending
from zenspark.spark.lake.files import batches_of
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.maintenance import Compaction, Retention
from zenspark.spark.lake.offsets import offsets, recorders
from zenspark.spark.lake.quarantine import Quarantined
from zenspark.spark.lake.shapes import (
    GAPS,
    GAPS_STATE,
    JOURNAL,
    LATEST,
    LATEST_STATE,
    SAMPLES,
    TRAFFIC,
    TRAFFIC_STATE,
    VERSION,
    Shape,
)
from zenspark.spark.lake.table import DEFAULT_HISTORY, Table, log_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zenspark.spark.lake.derived import Derivation, Derived
    from zenspark.spark.lake.publication import Publication, Published

__all__ = ["Lake", "Retention", "Snapshot"]

STATE = "_state"
"""Where the internal tables are that the derived ones are made from."""
STATE_SHAPES: dict[str, Shape] = {"latest": LATEST_STATE, "gaps": GAPS_STATE, "traffic": TRAFFIC_STATE}
SHAPES: dict[str, Shape] = {
    "samples": SAMPLES,
    "latest": LATEST,
    "gaps": GAPS,
    "traffic": TRAFFIC,
    **observed.SHAPES,
}


class Snapshot(NamedTuple):
    """A table at one moment."""

    dataset: ds.Dataset
    offsets: dict[str, int]
    """Up to before which offset it has the rows of each recorder, or what follows from them."""


class Lake:
    """A directory of tables. Nothing is read before it is needed, and nothing made before something is written."""

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        """Take a path or a URI; `storage_options` are deltalake's, for what is not on this machine (docs/lake.md)."""
        self.folder = Folder.at(path, storage_options)
        self._logs: dict[str, DeltaLog] = {}
        self._compaction = Compaction()

    def __reduce__(self) -> tuple[type[Lake], tuple[str, Mapping[str, str]]]:
        return Lake, (self.folder.address, self.folder.options)  # what is known of its logs stays where it is

    def tables(self) -> list[str]:
        """The names of the tables."""
        return list(SHAPES)

    def table(self, name: str) -> Table:
        """The files of a table and its log, as they are now."""
        shape = SHAPES.get(name)
        if shape is None:
            raise UsageError(f"a lake has no table {name!r}; there are: {', '.join(SHAPES)}")
        return self._table(name, shape)

    def state_table(self, name: str) -> Table:
        """The internal table that a derived one is made from; in a lake of version 1 it has the place of that one."""
        return self._table(name, STATE_SHAPES[name]) if self.version == "1" else self.internal_table(name)

    def internal_table(self, name: str) -> Table:
        """The same in its place in a lake of the present version."""
        return self._table(f"{STATE}/{name}", STATE_SHAPES[name])

    def _table(self, place: str, shape: Shape) -> Table:
        folder = self._place / place
        log = self._logs.setdefault(place, log_of(folder, shape))
        return Table(folder, shape, log)

    def reopen(self) -> None:
        """Forget what is known of the logs of the tables: they were moved."""
        self._logs.clear()

    @cached_property
    def _place(self) -> Folder:
        """Where the tables are, once it is known that they can be there."""
        self.folder.check()
        return self.folder

    def exists(self) -> bool:
        """Whether there are tables."""
        return self.table("samples").exists

    @property
    def version(self) -> str:
        """The version of its format: that of its tables, or of those that will be made."""
        return self.table("samples").format or VERSION

    def check(self) -> None:
        """LakeError if there is no lake to read."""
        if not self.exists():
            raise LakeError(self.folder.address, "there is no lake here: no table `samples`")

    def create(self, history: timedelta = DEFAULT_HISTORY) -> None:
        """Make the tables that are not there; `history` is how far back other tools can read them as they were."""
        for name in SHAPES:
            table = self.table(name)
            if not table.exists:
                table.create(history)

    # --- with Spark

    def derived(self, name: str) -> Derived:
        """A table that follows from samples. Its state is read first: so it is never ahead of them."""
        from zenspark.spark.lake.derived import Derived

        table = self.state_table(name)
        return Derived(derivations()[name], table, self.table("samples"))

    def publication(self, name: str) -> Publication:
        """The public table of a derived one, beside its state."""
        from zenspark.spark.lake.publication import Publication

        return Publication(derivations()[name], self.table(name), self.state_table(name))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A table as it is now: what is added later, this DataFrame does not have."""
        from zenspark.spark.lake.reading import frame

        self.check()
        if name in STATE_SHAPES:
            return self.derived(name).read(spark)
        table = self.table(name)
        return frame(spark, table, table.files)

    def register(self, spark: SparkSession) -> None:
        """Make the tables known to SQL, under their names, as they are now."""
        for name in self.tables():
            self.read(spark, name).createOrReplaceTempView(name)

    # --- what keeps it in shape

    def refresh(self, spark: SparkSession) -> None:
        """Take what landed since the last time into the states of derived tables, so that reading them costs less."""
        from zenspark.spark.lake.publication import STATE_VERSION

        for name in STATE_SHAPES:
            derived = self.derived(name)
            derived.refresh(spark)
            derived.merge(spark, self.table(name).mark(STATE_VERSION))

    def publish(self, spark: SparkSession) -> Published:
        """Bring the public derived tables up to the last refresh; what it cost, all of them together."""
        from zenspark.spark.lake.publication import Published

        found = [self.publication(name).publish(spark) for name in STATE_SHAPES]
        return Published(sum(each.seconds for each in found), sum(each.rows for each in found))

    def rebuild(self, spark: SparkSession, name: str) -> Published:
        """Make a derived table anew from the rows that are in `samples` now, for all readers."""
        if name not in STATE_SHAPES:
            raise UsageError(f"{name!r} is not made from samples; these are: {', '.join(STATE_SHAPES)}")
        self.derived(name).rebuild(spark)
        return self.publication(name).publish(spark)

    def observe(self, journals: Iterable[Journal], reader: str) -> None:
        """Bring in what the recorders of these journals saw of sessions and declarations."""
        for journal in journals:
            for name in observed.SHAPES:
                observed.bring(self.table(name), journal, reader)

    def compact(self, spark: SparkSession) -> int:
        """Put small files of `samples` together; how many fewer there are."""
        return self._compaction.run(spark, self.table("samples"), datetime.now(UTC).date())

    def expire(self, retention: Retention, spark: SparkSession | None = None) -> int:
        """Take away from `samples` what is not to be kept any longer; how many files went or changed.

        Only what the derived tables have taken in: they keep what they made of it.
        """
        return maintenance.expire(spark, self.table("samples"), self._taken_in(), retention, datetime.now(UTC))

    def vacuum(self, retention: timedelta | None = None, *, full: bool = False) -> int:
        """Remove files from disk that have not counted for so long (None: the history of each table); how many."""
        return sum(maintenance.vacuum(table, retention, full=full) for table in self._all_tables())

    def set_history(self, history: timedelta) -> None:
        """Set how far back other tools can read the tables as they were."""
        for table in self._all_tables():
            table.set_history(history)

    def checkpoint(self, *, force: bool = False) -> int:
        """Sum up the logs of the tables where that is due; how many."""
        return sum(table.checkpoint(force=force) for table in self._all_tables())

    def quarantine(self) -> list[Quarantined]:
        """The rows that could not be landed and were put aside."""
        return quarantine.listing(self.folder, self.table("samples"))

    def retry_quarantine(self, spark: SparkSession | None = None) -> int:
        """Land what was put aside and can be read now; how many rows."""
        return quarantine.retry(self.folder, self.table("samples"), self.quarantine())

    def _all_tables(self) -> Iterator[Table]:
        yield from (self.table(name) for name in SHAPES)
        yield from (self.state_table(name) for name in STATE_SHAPES)

    def is_refreshed(self) -> bool:
        """Whether the derived tables have taken in all rows that have landed."""
        landed = self.landed()
        return all(reached.get(recorder, 0) >= end for reached in self._taken_in() for recorder, end in landed.items())

    def _taken_in(self) -> list[dict[str, int]]:
        """How far each derived table has come."""
        known = recorders(self.table("samples"))
        return [offsets(self.state_table(name), known) for name in STATE_SHAPES]

    # --- without Spark

    def dataset(self, name: str) -> ds.Dataset:
        """The files of a table for Arrow, without Spark; those of a derived table as of its last refresh."""
        return self.snapshot(name).dataset

    def snapshot(self, name: str) -> Snapshot:
        """The same, with the offsets up to which it has taken in the rows of each recorder."""
        self.check()
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
        stored = self.state_table("latest")
        samples = self.table("samples")
        pending = find_pending(stored, samples)
        return _decisive(stored, samples, pending), dict(pending.end)


def derivations() -> dict[str, Derivation]:
    """What makes each derived table out of samples."""
    from zenspark.spark.lake.gaps import Gaps
    from zenspark.spark.lake.latest import Latest
    from zenspark.spark.lake.traffic import Traffic

    return {"latest": Latest(), "gaps": Gaps(), "traffic": Traffic()}


def _snapshot(table: Table, samples: Table) -> Snapshot:
    if not table.exists:
        empty = ds.dataset(pa.table(table.shape.schema.empty_table()))
        return Snapshot(empty, {})
    return Snapshot(table.delta().to_pyarrow_dataset(), offsets(table, recorders(samples)))


def _decisive(stored: Table, samples: Table, pending: Extent) -> Iterator[pa.RecordBatch]:
    for file in stored.files:
        for batch in batches_of(stored.folder, file, stored.shape, JOURNAL.names):
            yield batch.cast(JOURNAL)
    for file in samples.files_since(stored.mark(SAMPLES_VERSION) or 0):
        if pending.may_hold(file):
            for batch in batches_of(samples.folder, file, SAMPLES):
                yield pending.rows_of(batch).cast(JOURNAL)
