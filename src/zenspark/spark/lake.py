"""The lake with Spark: its tables as DataFrames, derived tables refreshed, files compacted.

    lake = Lake("./lake")
    lake.register(spark)
    spark.sql("select key, payload from latest where key like 'fleet/%'")

docs/lake.md documents each table. Importing this loads no PySpark: what needs it imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from zenspark.errors import UsageError
from zenspark.journal import Journal
from zenspark.lake import lake as tables
from zenspark.lake import network_tables, quarantine
from zenspark.lake.lake import STATE_SHAPES, Snapshot
from zenspark.spark.ingest import maintenance
from zenspark.spark.ingest.maintenance import Compaction, Retention

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zenspark.spark.ingest.derived import Derivation, Derived
    from zenspark.spark.ingest.publication import Publication, Published

__all__ = ["Lake", "Retention", "Snapshot"]


class Lake(tables.Lake):
    """A directory of tables. Nothing is read before it is needed, and nothing made before something is written."""

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        """Take a path or a URI; `storage_options` are deltalake's, for what is not on this machine (docs/lake.md)."""
        super().__init__(path, storage_options)
        self._compaction = Compaction()

    def derived(self, name: str) -> Derived:
        """A table that follows from samples. Its state is read first: so it is never ahead of them."""
        from zenspark.spark.ingest.derived import Derived

        table = self.state_table(name)
        return Derived(derivations()[name], table, self.table("samples"))

    def publication(self, name: str) -> Publication:
        """The public table of a derived one, beside its state."""
        from zenspark.spark.ingest.publication import Publication

        return Publication(derivations()[name], self.table(name), self.state_table(name))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A table as it is now: what is added later, this DataFrame does not have."""
        from zenspark.spark.ingest.read_files import frame

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
        from zenspark.spark.ingest.publication import STATE_VERSION

        for name in STATE_SHAPES:
            derived = self.derived(name)
            derived.refresh(spark)
            derived.merge(spark, self.table(name).mark(STATE_VERSION))

    def publish(self, spark: SparkSession) -> Published:
        """Bring the public derived tables up to the last refresh; what it cost, all of them together."""
        from zenspark.spark.ingest.publication import Published

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
            for name in network_tables.SHAPES:
                network_tables.bring(self.table(name), journal, reader)

    def compact(self, spark: SparkSession) -> int:
        """Put small files of `samples` together; how many fewer there are."""
        return self._compaction.run(spark, self.table("samples"), datetime.now(UTC).date())

    def expire(self, retention: Retention, spark: SparkSession | None = None) -> int:
        """Take away from `samples` what is not to be kept any longer; how many files went or changed.

        Only what the derived tables have taken in: they keep what they made of it.
        """
        return maintenance.expire(spark, self.table("samples"), self._taken_in(), retention, datetime.now(UTC))

    def retry_quarantine(self, spark: SparkSession | None = None) -> int:
        """Land what was put aside and can be read now; how many rows."""
        return quarantine.retry(self.folder, self.table("samples"), self.quarantine())


def derivations() -> dict[str, Derivation]:
    """What makes each derived table out of samples."""
    from zenspark.spark.ingest.gaps import Gaps
    from zenspark.spark.ingest.latest import Latest
    from zenspark.spark.ingest.traffic import Traffic

    return {"latest": Latest(), "gaps": Gaps(), "traffic": Traffic()}
