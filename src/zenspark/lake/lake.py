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
from zenspark.lake.offset_marks import list_recorders, read_offsets
from zenspark.lake.parquet_files import read_batches
from zenspark.lake.pending_rows import SAMPLES_VERSION, OffsetRanges, find_pending
from zenspark.lake.quarantine import QuarantinedBlock
from zenspark.lake.specs import (
    FORMAT_VERSION,
    GAPS,
    GAPS_STATE,
    JOURNAL_SCHEMA,
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
"""Directory of the internal state tables from which the derived tables are published."""
STATE_TABLE_SPECS: dict[str, TableSpec] = {"latest": LATEST_STATE, "gaps": GAPS_STATE, "traffic": TRAFFIC_STATE}
TABLE_SPECS: dict[str, TableSpec] = {
    "samples": SAMPLES,
    "latest": LATEST,
    "gaps": GAPS,
    "traffic": TRAFFIC,
    **network_tables.NETWORK_TABLE_SPECS,
}


class Snapshot(NamedTuple):
    """A table at one version."""

    dataset: ds.Dataset
    offsets: dict[str, int]
    """End offset (exclusive) by recorder of the journal rows that it has, or was computed from."""


class Lake:
    """A directory of Delta tables. Tables are read lazily, and created by the first write."""

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        """Take a path or a URI; `storage_options` are those of deltalake, for object stores (docs/lake.md)."""
        self.location = StoragePath.at(path, storage_options)
        self._logs: dict[str, DeltaLog] = {}

    def __reduce__(self) -> tuple[type[Self], tuple[str, Mapping[str, str]]]:
        return type(self), (self.location.address, self.location.options)  # cached logs are not pickled

    def tables(self) -> list[str]:
        """Names of the public tables."""
        return list(TABLE_SPECS)

    def table(self, name: str) -> LakeTable:
        """Open a public table at its current version."""
        spec = TABLE_SPECS.get(name)
        if spec is None:
            raise UsageError(f"a lake has no table {name!r}; there are: {', '.join(TABLE_SPECS)}")
        return self._table(name, spec)

    def state_table(self, name: str) -> LakeTable:
        """Open the state table of a derived table; in a lake of format version 1 the two are the same."""
        return self._table(name, STATE_TABLE_SPECS[name]) if self.version == "1" else self.internal_table(name)

    def internal_table(self, name: str) -> LakeTable:
        """Open the state table of a derived table where lakes of the current format version have it."""
        return self._table(f"{STATE_DIRECTORY}/{name}", STATE_TABLE_SPECS[name])

    def _table(self, path: str, spec: TableSpec) -> LakeTable:
        location = self._checked_location / path
        log = self._logs.setdefault(path, open_log(location, spec))
        return LakeTable(location, spec, log)

    def reopen(self) -> None:
        """Discard the cached logs, after the tables were moved."""
        self._logs.clear()

    @cached_property
    def _checked_location(self) -> StoragePath:
        """The location, checked once for access."""
        self.location.check()
        return self.location

    def exists(self) -> bool:
        """Whether the lake has a table `samples`."""
        return self.table("samples").exists

    @property
    def version(self) -> str:
        """Format version of its tables, or of those that would be created."""
        return self.table("samples").format or FORMAT_VERSION

    def check(self) -> None:
        """Raise LakeError if the lake does not exist."""
        if not self.exists():
            raise LakeError(self.location.address, "there is no lake here: no table `samples`")

    def create(self, history: timedelta = DEFAULT_HISTORY) -> None:
        """Create missing tables; `history` is the time for which other tools can read older versions of them."""
        for name in TABLE_SPECS:
            table = self.table(name)
            if not table.exists:
                table.create(history)

    # --- reading

    def dataset(self, name: str) -> ds.Dataset:
        """Read a table as an Arrow dataset; a derived table as of its last publication."""
        return self.snapshot(name).dataset

    def snapshot(self, name: str) -> Snapshot:
        """Read a table as an Arrow dataset, with the offsets up to which it has the rows of each recorder."""
        self.check()
        return _read_snapshot(self.table(name), self.table("samples"))

    def ingested(self) -> dict[str, int]:
        """End offset (exclusive) by recorder of the rows that have been ingested into `samples`."""
        table = self.table("samples")
        return read_offsets(table, list_recorders(table))

    def landed(self) -> dict[str, int]:
        """Return `ingested()`; the deprecated name of that method."""
        warnings.warn("Lake.landed() is deprecated: call Lake.ingested()", DeprecationWarning, stacklevel=2)
        return self.ingested()

    def newest(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        """Rows that contain the newest sample of every key, and the journal offsets that follow them.

        First the state of `latest`, which includes DELETEs and keys with wildcards, then the rows of `samples` that it
        has not processed yet. A key may occur several times: `zenspark.spark.ingest.latest` defines the newest row.
        """
        state = self.state_table("latest")
        samples = self.table("samples")
        pending = find_pending(state, samples)
        return _read_latest_candidates(state, samples, pending), dict(pending.end)

    # --- maintenance

    def vacuum(self, retention: timedelta | None = None, *, full: bool = False) -> int:
        """Delete files that were removed from their table longer ago than `retention`. Returns their number.

        None is the history of each table.
        """
        return sum(vacuum(table, retention, full=full) for table in self._all_tables())

    def set_history(self, history: timedelta) -> None:
        """Set the time for which other tools can read older versions of the tables."""
        for table in self._all_tables():
            table.set_history(history)

    def checkpoint(self, *, force: bool = False) -> int:
        """Write checkpoints of the table logs where they are due. Returns their number."""
        return sum(table.checkpoint(force=force) for table in self._all_tables())

    def quarantine(self) -> list[QuarantinedBlock]:
        """Blocks that could not be ingested and are in quarantine."""
        return quarantine.list_quarantined(self.location, self.table("samples"))

    def _all_tables(self) -> Iterator[LakeTable]:
        yield from (self.table(name) for name in TABLE_SPECS)
        yield from (self.state_table(name) for name in STATE_TABLE_SPECS)

    def is_refreshed(self) -> bool:
        """Whether the derived tables have processed all ingested rows."""
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
    for file in samples.files_since(state.app_version(SAMPLES_VERSION) or 0):
        if pending.may_have_rows_in(file):
            for batch in read_batches(samples.location, file, SAMPLES):
                yield pending.filter_batch(batch).cast(JOURNAL_SCHEMA)
