"""Lake with Spark: reads tables as DataFrames, refreshes derived tables, compacts files.

    lake = Lake("./lake")
    lake.register(spark)
    spark.sql("select key, payload from latest where key like 'fleet/%'")

docs/lake.md documents each table. Importing this module does not import PySpark; methods that need it do.
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
from zenspark.lake.lake import STATE_TABLE_SPECS, Snapshot
from zenspark.lake.pending_rows import STATE_VERSION_APP_ID
from zenspark.spark.ingest import maintenance
from zenspark.spark.ingest.maintenance import Compaction, Retention

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zenspark.spark.ingest.derived import DerivedTable, DerivedTableSpec
    from zenspark.spark.ingest.public_table import PublicTableWriter, PublishResult

__all__ = ["Lake", "Retention", "Snapshot"]


class Lake(tables.Lake):
    """A directory of Delta tables, opened lazily and created with the first write.

    Example:
        >>> lake = Lake("lake")
        >>> lake.read(spark, "samples").groupBy("key").count().show()
    """

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        """Open a lake. Nothing is read before the first use.

        Args:
            path: Directory, or URI such as "s3://bucket/lake".
            storage_options: Options of deltalake for object stores (docs/lake.md); none by default.

        Raises:
            UsageError: The options do not fit the path.
        """
        super().__init__(path, storage_options)
        self._compaction = Compaction()

    def derived(self, name: str) -> DerivedTable:
        """Return a derived table. Its state is opened before `samples`, so it is never ahead of them.

        Args:
            name: Name of the derived table: latest, gaps or traffic.

        Returns:
            The derived table.

        Raises:
            KeyError: There is no derived table of that name.
            LakeError: A table cannot be read.

        Example:
            >>> latest = lake.derived("latest").read(spark)
        """
        from zenspark.spark.ingest.derived import DerivedTable

        table = self.state_table(name)
        return DerivedTable(derived_table_specs()[name], table, self.table("samples"))

    def public_table_writer(self, name: str) -> PublicTableWriter:
        """Return the writer of the public table of a derived table, which reads its state.

        Args:
            name: Name of the derived table: latest, gaps or traffic.

        Returns:
            The writer.

        Raises:
            KeyError: There is no derived table of that name.
            LakeError: A table cannot be read.

        Example:
            >>> rows = lake.public_table_writer("latest").write(spark).rows
        """
        from zenspark.spark.ingest.public_table import PublicTableWriter

        return PublicTableWriter(derived_table_specs()[name], self.table(name), self.state_table(name))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """Return a table as a DataFrame of its current snapshot; rows added later are not included.

        Args:
            spark: The Spark session.
            name: Name of the table: samples, latest, gaps, traffic, sessions, declarations or counters.

        Returns:
            The rows of the snapshot; of a derived table including those that are not refreshed yet.

        Raises:
            UsageError: There is no table of that name.
            LakeError: The lake or table cannot be read.

        Example:
            >>> samples = lake.read(spark, "samples")
        """
        from zenspark.spark.ingest.read_files import dataframe

        self.check()
        if name in STATE_TABLE_SPECS:
            return self.derived(name).read(spark)
        table = self.table(name)
        return dataframe(spark, table, table.files)

    def register(self, spark: SparkSession) -> None:
        """Register the current snapshots of the tables as temporary views under their names.

        Args:
            spark: The Spark session.

        Raises:
            LakeError: The lake or table cannot be read.

        Example:
            >>> lake.register(spark)
            >>> spark.sql("select key, payload from latest").show()
        """
        for name in self.tables():
            self.read(spark, name).createOrReplaceTempView(name)

    # --- maintenance

    def refresh(self, spark: SparkSession) -> None:
        """Update the states of the derived tables with the rows ingested since the last refresh.

        Args:
            spark: The Spark session.

        Raises:
            LakeError: A table cannot be read or written.

        Example:
            >>> lake.refresh(spark)
        """
        for name in STATE_TABLE_SPECS:
            derived = self.derived(name)
            derived.refresh(spark)
            derived.merge(spark, self.table(name).app_version(STATE_VERSION_APP_ID))

    def publish(self, spark: SparkSession) -> PublishResult:
        """Update the public derived tables to their states.

        Args:
            spark: The Spark session.

        Returns:
            The total duration and rows.

        Raises:
            LakeError: A table cannot be read or written.

        Example:
            >>> rows = lake.publish(spark).rows
        """
        from zenspark.spark.ingest.public_table import PublishResult

        results = [self.public_table_writer(name).write(spark) for name in STATE_TABLE_SPECS]
        return PublishResult(sum(result.seconds for result in results), sum(result.rows for result in results))

    def rebuild(self, spark: SparkSession, name: str) -> PublishResult:
        """Rebuild a derived table from the rows that are in `samples` now, and write its public table.

        Args:
            spark: The Spark session.
            name: Name of the table: latest, gaps or traffic.

        Returns:
            The duration and rows of the write.

        Raises:
            UsageError: The table is not derived from `samples`.
            LakeError: A table cannot be read or written.

        Example:
            >>> result = lake.rebuild(spark, "latest")
        """
        if name not in STATE_TABLE_SPECS:
            raise UsageError(f"{name!r} is not made from samples; these are: {', '.join(STATE_TABLE_SPECS)}")
        self.derived(name).rebuild(spark)
        return self.public_table_writer(name).write(spark)

    def observe(self, journals: Iterable[Journal], reader: str) -> None:
        """Import the network events of the recorders of these journals: sessions, declarations and counters.

        Args:
            journals: Journals of samples; each has those of the network events beside it.
            reader: Name of the reader under which the journals of the network events store what was imported.

        Raises:
            LakeError: A table cannot be read or written.
            JournalError: A journal cannot be read.

        Example:
            >>> lake.observe([Journal("journal")], "import")
        """
        for journal in journals:
            for name in network_tables.NETWORK_TABLE_SPECS:
                network_tables.import_events(self.table(name), journal, reader)

    def compact(self, spark: SparkSession) -> int:
        """Compact small files of `samples`.

        Args:
            spark: The Spark session.

        Returns:
            The decrease of the number of files.

        Raises:
            LakeError: The table cannot be read or written.

        Example:
            >>> decrease = lake.compact(spark)
        """
        return self._compaction.run(spark, self.table("samples"), datetime.now(UTC).date())

    def expire(self, retention: Retention, spark: SparkSession | None = None) -> int:
        """Remove expired rows from `samples`.

        Only rows that the derived tables include are removed; their aggregates are kept.

        Args:
            retention: Which rows are kept.
            spark: Session that rewrites files which have rows to keep; None removes only whole files.

        Returns:
            The number of files removed or rewritten.

        Raises:
            LakeError: A table cannot be read or written.

        Example:
            >>> files = lake.expire(Retention(age=timedelta(days=30)), spark)
        """
        return maintenance.expire(spark, self.table("samples"), self._derived_offsets(), retention, datetime.now(UTC))

    def retry_quarantine(self, spark: SparkSession | None = None) -> int:
        """Ingest quarantined rows that can be read now.

        Args:
            spark: Not used; accepted for callers of earlier versions.

        Returns:
            The number of rows.

        Raises:
            LakeError: The table cannot be written.

        Example:
            >>> rows = lake.retry_quarantine()
        """
        return quarantine.retry(self.location, self.table("samples"), self.quarantine())


def derived_table_specs() -> dict[str, DerivedTableSpec]:
    """Return the definitions of the derived tables by name."""
    from zenspark.spark.ingest.gaps import Gaps
    from zenspark.spark.ingest.latest import Latest
    from zenspark.spark.ingest.traffic import Traffic

    return {"latest": Latest(), "gaps": Gaps(), "traffic": Traffic()}
