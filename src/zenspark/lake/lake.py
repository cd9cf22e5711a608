"""The tables of a lake, read and maintained without Spark.

    lake = Lake("./lake")
    lake.dataset("samples").to_table()

docs/lake.md documents each table. `zenspark.spark.lake.Lake` adds what needs Spark.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import pyarrow as pa

from zenspark.errors import LakeError, UsageError
from zenspark.lake import network_tables, quarantine
from zenspark.lake.delta_log import DeltaLog
from zenspark.lake.delta_table import DEFAULT_HISTORY, LakeTable, open_log
from zenspark.lake.ingested_offsets import list_recorders, read_offsets
from zenspark.lake.parquet_files import read_batches
from zenspark.lake.pending_rows import SAMPLES_VERSION_APP_ID, OffsetRanges, find_pending
from zenspark.lake.quarantine import QuarantinedBlock
from zenspark.lake.specs import (
    GAPS,
    GAPS_STATE,
    JOURNAL_SCHEMA,
    LAKE_FORMAT_VERSION,
    LATEST,
    LATEST_STATE,
    SAMPLES,
    TRAFFIC,
    TRAFFIC_STATE,
    TableSpec,
)
from zenspark.lake.storage_path import StoragePath
from zenspark.lake.vacuum import vacuum

if TYPE_CHECKING:
    import pyarrow.dataset as ds

STATE_DIRECTORY = "_state"
"""Directory of the internal state tables from which the public derived tables are written."""
STATE_TABLE_SPECS: dict[str, TableSpec] = {"latest": LATEST_STATE, "gaps": GAPS_STATE, "traffic": TRAFFIC_STATE}
TABLE_SPECS: dict[str, TableSpec] = {
    "samples": SAMPLES,
    "latest": LATEST,
    "gaps": GAPS,
    "traffic": TRAFFIC,
    **network_tables.NETWORK_TABLE_SPECS,
}


class Snapshot(NamedTuple):
    """Dataset of a table at one version, and the journal offsets that it contains by recorder.

    Attributes:
        dataset: The rows of the table.
        offsets: End offset (exclusive) by recorder of the journal rows that it has, or was computed from.

    Example:
        >>> snapshot = lake.snapshot("samples")
        >>> snapshot.dataset.count_rows(), snapshot.offsets
        (30, {'robot': 30})
    """

    dataset: ds.Dataset
    offsets: dict[str, int]


class Lake:
    """A directory of Delta tables. Tables are read lazily, and created by the first write.

    Example:
        >>> lake = Lake("lake")
        >>> table = lake.dataset("samples").to_table()
    """

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        """Open a lake. Nothing is read before the first use.

        Args:
            path: Directory, or URI such as "s3://bucket/lake".
            storage_options: Options of deltalake for object stores (docs/lake.md); none by default.

        Raises:
            UsageError: The options do not fit the path.
        """
        self.location = StoragePath.at(path, storage_options)
        self._logs: dict[str, DeltaLog] = {}

    def __reduce__(self) -> tuple[type[Self], tuple[str, Mapping[str, str]]]:
        return type(self), (self.location.address, self.location.options)  # cached logs are not pickled

    def tables(self) -> list[str]:
        """Names of the public tables.

        Returns:
            The names, in the order of docs/lake.md.

        Example:
            >>> Lake("lake").tables()[:2]
            ['samples', 'latest']
        """
        return list(TABLE_SPECS)

    def table(self, name: str) -> LakeTable:
        """Open a public table at its current version.

        Args:
            name: Name of the table: samples, latest, gaps, traffic, sessions, declarations or counters.

        Returns:
            The table, which may not exist yet.

        Raises:
            UsageError: There is no table of that name.

        Example:
            >>> exists = lake.table("samples").exists
        """
        spec = TABLE_SPECS.get(name)
        if spec is None:
            raise UsageError(f"a lake has no table {name!r}; there are: {', '.join(TABLE_SPECS)}")
        return self._table(name, spec)

    def state_table(self, name: str) -> LakeTable:
        """Open the state table of a derived table; in a lake of format version 1 the two are the same.

        Args:
            name: Name of the derived table: latest, gaps or traffic.

        Returns:
            The table, which may not exist yet.

        Raises:
            KeyError: There is no derived table of that name.
            LakeError: The lake or table cannot be read.

        Example:
            >>> exists = lake.state_table("latest").exists
        """
        return self._table(name, STATE_TABLE_SPECS[name]) if self.version == "1" else self.internal_table(name)

    def internal_table(self, name: str) -> LakeTable:
        """Open the state table of a derived table where lakes of the current format version have it.

        Args:
            name: Name of the derived table: latest, gaps or traffic.

        Returns:
            The table, which may not exist yet.

        Raises:
            KeyError: There is no derived table of that name.
            LakeError: The lake or table cannot be read.

        Example:
            >>> exists = lake.internal_table("latest").exists
        """
        return self._table(f"{STATE_DIRECTORY}/{name}", STATE_TABLE_SPECS[name])

    def _table(self, path: str, spec: TableSpec) -> LakeTable:
        location = self._checked_location / path
        log = self._logs.setdefault(path, open_log(location, spec))
        return LakeTable(location, spec, log)

    def reopen(self) -> None:
        """Discard the cached logs, after the tables were moved.

        Example:
            >>> lake.reopen()
        """
        self._logs.clear()

    @cached_property
    def _checked_location(self) -> StoragePath:
        """The location, checked once for access."""
        self.location.check()
        return self.location

    def exists(self) -> bool:
        """Return whether the lake has a table `samples`.

        Returns:
            True if it has one: then there is a lake.

        Raises:
            LakeError: The lake cannot be read.

        Example:
            >>> Lake("lake").exists()
            True
        """
        return self.table("samples").exists

    @property
    def version(self) -> str:
        """Format version of its tables, or of those that would be created."""
        return self.table("samples").format or LAKE_FORMAT_VERSION

    def check(self) -> None:
        """Check that the lake exists.

        Raises:
            LakeError: There is no lake, or it cannot be read.

        Example:
            >>> lake.check()
        """
        if not self.exists():
            raise LakeError(self.location.address, "there is no lake here: no table `samples`")

    def create(self, history: timedelta = DEFAULT_HISTORY) -> None:
        """Create missing tables.

        Args:
            history: Time for which other tools can read older versions of the tables.

        Raises:
            LakeError: A table cannot be created.

        Example:
            >>> Lake("lake").create()
        """
        for name in TABLE_SPECS:
            table = self.table(name)
            if not table.exists:
                table.create(history)

    # --- reading

    def dataset(self, name: str) -> ds.Dataset:
        """Read a table as an Arrow dataset; a derived table as of its last publication.

        Args:
            name: Name of the table: samples, latest, gaps, traffic, sessions, declarations or counters.

        Returns:
            The dataset; empty if the table does not exist yet.

        Raises:
            UsageError: There is no table of that name.
            LakeError: The lake or table cannot be read.

        Example:
            >>> keys = lake.dataset("latest").to_table(["key"])
        """
        return self.snapshot(name).dataset

    def snapshot(self, name: str) -> Snapshot:
        """Read a table as an Arrow dataset, with the offsets up to which it has the rows of each recorder.

        Args:
            name: Name of the table: samples, latest, gaps, traffic, sessions, declarations or counters.

        Returns:
            Dataset and offsets, of one version of the table.

        Raises:
            UsageError: There is no table of that name.
            LakeError: The lake or table cannot be read.

        Example:
            >>> dataset, offsets = lake.snapshot("samples")
        """
        self.check()
        return _read_snapshot(self.table(name), self.table("samples"))

    def ingested(self) -> dict[str, int]:
        """End offset (exclusive) by recorder of the rows that have been ingested into `samples`.

        Returns:
            The offsets by recorder.

        Raises:
            LakeError: The lake or table cannot be read.

        Example:
            >>> offset = lake.ingested().get(journal.recorder, 0)
        """
        table = self.table("samples")
        return read_offsets(table, list_recorders(table))

    def landed(self) -> dict[str, int]:
        """Return `ingested()`; the deprecated name of that method.

        Returns:
            The offsets by recorder.

        Raises:
            LakeError: The lake or table cannot be read.

        Example:
            >>> offsets = lake.ingested()
        """
        warnings.warn("Lake.landed() is deprecated: call Lake.ingested()", DeprecationWarning, stacklevel=2)
        return self.ingested()

    def newest(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        """Rows that contain the newest sample of every key, and the journal offsets that follow them.

        First the state of `latest`, which includes DELETEs and keys with wildcards, then the rows of `samples` that it
        has not processed yet. A key may occur several times: `zenspark.spark.ingest.latest` defines the newest row.

        Returns:
            The rows, as record batches, and the offsets by recorder.

        Raises:
            LakeError: The lake or table cannot be read.

        Example:
            >>> batches, offsets = lake.newest()
            >>> rows = sum(batch.num_rows for batch in batches)
        """
        state = self.state_table("latest")
        samples = self.table("samples")
        pending = find_pending(state, samples)
        return _read_latest_candidates(state, samples, pending), dict(pending.end)

    # --- maintenance

    def vacuum(self, retention: timedelta | None = None, *, full: bool = False) -> int:
        """Delete files that were removed from their table some time ago.

        Args:
            retention: Time since the removal; the history of each table by default.
            full: Whether files that no log names are deleted too; False by default.

        Returns:
            The number of deleted files.

        Raises:
            LakeError: A table cannot be vacuumed.

        Example:
            >>> deleted = lake.vacuum()
        """
        return sum(vacuum(table, retention, full=full) for table in self._all_tables())

    def set_history(self, history: timedelta) -> None:
        """Set the time for which other tools can read older versions of the tables.

        Args:
            history: Time for which the log and removed files of the tables are kept.

        Raises:
            LakeError: A table cannot be read or written.

        Example:
            >>> lake.set_history(timedelta(days=7))
        """
        for table in self._all_tables():
            table.set_history(history)

    def checkpoint(self, *, force: bool = False) -> int:
        """Write checkpoints of the table logs where they are due, and remove log files that are older than the history.

        Args:
            force: Whether those are written that are not due yet; False by default.

        Returns:
            The number of checkpoints.

        Raises:
            LakeError: A table cannot be read or written.

        Example:
            >>> checkpoints = lake.checkpoint()
        """
        return sum(table.checkpoint(force=force) for table in self._all_tables())

    def quarantine(self) -> list[QuarantinedBlock]:
        """Blocks that could not be ingested and are in quarantine.

        Returns:
            The blocks, with the reason of each.

        Raises:
            LakeError: The lake or table cannot be read.

        Example:
            >>> for block in lake.quarantine():
            ...     print(block.recorder, block.start, block.end)
        """
        return quarantine.list_quarantined(self.location, self.table("samples"))

    def _all_tables(self) -> Iterator[LakeTable]:
        yield from (self.table(name) for name in TABLE_SPECS)
        yield from (self.state_table(name) for name in STATE_TABLE_SPECS)

    def is_refreshed(self) -> bool:
        """Return whether the derived tables have processed all ingested rows.

        Returns:
            True if they have.

        Raises:
            LakeError: A table cannot be read.

        Example:
            >>> lake.is_refreshed()
            False
        """
        ingested = self.ingested()
        return all(
            offsets.get(recorder, 0) >= end for offsets in self._derived_offsets() for recorder, end in ingested.items()
        )

    def _derived_offsets(self) -> list[dict[str, int]]:
        """Offsets up to which each derived table has processed the rows of each recorder."""
        recorders = list_recorders(self.table("samples"))
        return [read_offsets(self.state_table(name), recorders) for name in STATE_TABLE_SPECS]


def _read_snapshot(table: LakeTable, samples: LakeTable) -> Snapshot:
    import pyarrow.dataset as ds  # imported here: it imports pandas, which takes longer than most readers of a lake run

    if not table.exists:
        empty = ds.dataset(pa.table(table.spec.schema.empty_table()))
        return Snapshot(empty, {})
    return Snapshot(table.to_deltalake().to_pyarrow_dataset(), read_offsets(table, list_recorders(samples)))


def _read_latest_candidates(state: LakeTable, samples: LakeTable, pending: OffsetRanges) -> Iterator[pa.RecordBatch]:
    for file in state.files:
        for batch in read_batches(state.location, file, state.spec, JOURNAL_SCHEMA.names):
            yield batch.cast(JOURNAL_SCHEMA)
    for file in samples.files_since(state.app_version(SAMPLES_VERSION_APP_ID) or 0):
        if pending.may_have_rows_in(file):
            for batch in read_batches(samples.location, file, SAMPLES):
                yield pending.filter_batch(batch).cast(JOURNAL_SCHEMA)
