"""The tables of a lake, read and maintained without Spark.

    lake = Lake("./lake")
    lake.dataset("samples").to_table()

docs/lake.md documents each table. `zenspark.spark.lake.Lake` adds what needs Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.dataset as ds

from zenspark.errors import LakeError, UsageError
from zenspark.lake import network_tables, quarantine
from zenspark.lake.delta_log import DeltaLog
from zenspark.lake.delta_table import DEFAULT_HISTORY, LakeTable, open_log
from zenspark.lake.offset_marks import list_recorders, read_offsets
from zenspark.lake.parquet_files import read_batches
from zenspark.lake.pending import SAMPLES_VERSION, OffsetRanges, find_pending
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

STATE_DIRECTORY = "_state"
"""Where the internal tables are that the derived ones are made from."""
STATE_TABLE_SPECS: dict[str, TableSpec] = {"latest": LATEST_STATE, "gaps": GAPS_STATE, "traffic": TRAFFIC_STATE}
TABLE_SPECS: dict[str, TableSpec] = {
    "samples": SAMPLES,
    "latest": LATEST,
    "gaps": GAPS,
    "traffic": TRAFFIC,
    **network_tables.NETWORK_TABLE_SPECS,
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
        self.location = StoragePath.at(path, storage_options)
        self._logs: dict[str, DeltaLog] = {}

    def __reduce__(self) -> tuple[type[Self], tuple[str, Mapping[str, str]]]:
        return type(self), (self.location.address, self.location.options)  # what is known of its logs stays where it is

    def tables(self) -> list[str]:
        """The names of the tables."""
        return list(TABLE_SPECS)

    def table(self, name: str) -> LakeTable:
        """The files of a table and its log, as they are now."""
        spec = TABLE_SPECS.get(name)
        if spec is None:
            raise UsageError(f"a lake has no table {name!r}; there are: {', '.join(TABLE_SPECS)}")
        return self._table(name, spec)

    def state_table(self, name: str) -> LakeTable:
        """The internal table that a derived one is made from; in a lake of version 1 it has the place of that one."""
        return self._table(name, STATE_TABLE_SPECS[name]) if self.version == "1" else self.internal_table(name)

    def internal_table(self, name: str) -> LakeTable:
        """The same in its place in a lake of the present version."""
        return self._table(f"{STATE_DIRECTORY}/{name}", STATE_TABLE_SPECS[name])

    def _table(self, place: str, spec: TableSpec) -> LakeTable:
        location = self._place / place
        log = self._logs.setdefault(place, open_log(location, spec))
        return LakeTable(location, spec, log)

    def reopen(self) -> None:
        """Forget what is known of the logs of the tables: they were moved."""
        self._logs.clear()

    @cached_property
    def _place(self) -> StoragePath:
        """Where the tables are, once it is known that they can be there."""
        self.location.check()
        return self.location

    def exists(self) -> bool:
        """Whether there are tables."""
        return self.table("samples").exists

    @property
    def version(self) -> str:
        """The version of its format: that of its tables, or of those that will be made."""
        return self.table("samples").format or FORMAT_VERSION

    def check(self) -> None:
        """LakeError if there is no lake to read."""
        if not self.exists():
            raise LakeError(self.location.address, "there is no lake here: no table `samples`")

    def create(self, history: timedelta = DEFAULT_HISTORY) -> None:
        """Make the tables that are not there; `history` is how far back other tools can read them as they were."""
        for name in TABLE_SPECS:
            table = self.table(name)
            if not table.exists:
                table.create(history)

    # --- reading

    def dataset(self, name: str) -> ds.Dataset:
        """The files of a table for Arrow, without Spark; those of a derived table as of its last refresh."""
        return self.snapshot(name).dataset

    def snapshot(self, name: str) -> Snapshot:
        """The same, with the offsets up to which it has taken in the rows of each recorder."""
        self.check()
        return _read_snapshot(self.table(name), self.table("samples"))

    def landed(self) -> dict[str, int]:
        """Up to before which offset the rows of each recorder are in `samples`."""
        table = self.table("samples")
        return read_offsets(table, list_recorders(table))

    def newest(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        """Rows that decide the newest sample of every key, without Spark; and where the journals go on behind them.

        First those that `latest` has stored, DELETEs and keys with wildcards among them, then those of `samples` that
        it has not taken in yet. A key may come several times: `zenspark.spark.ingest.latest` says which row counts.
        """
        stored = self.state_table("latest")
        samples = self.table("samples")
        pending = find_pending(stored, samples)
        return _read_latest_candidates(stored, samples, pending), dict(pending.end)

    # --- maintenance

    def vacuum(self, retention: timedelta | None = None, *, full: bool = False) -> int:
        """Remove files from disk that have not counted for so long (None: the history of each table); how many."""
        return sum(vacuum(table, retention, full=full) for table in self._all_tables())

    def set_history(self, history: timedelta) -> None:
        """Set how far back other tools can read the tables as they were."""
        for table in self._all_tables():
            table.set_history(history)

    def checkpoint(self, *, force: bool = False) -> int:
        """Sum up the logs of the tables where that is due; how many."""
        return sum(table.checkpoint(force=force) for table in self._all_tables())

    def quarantine(self) -> list[QuarantinedBlock]:
        """The rows that could not be landed and were put aside."""
        return quarantine.list_quarantined(self.location, self.table("samples"))

    def _all_tables(self) -> Iterator[LakeTable]:
        yield from (self.table(name) for name in TABLE_SPECS)
        yield from (self.state_table(name) for name in STATE_TABLE_SPECS)

    def is_refreshed(self) -> bool:
        """Whether the derived tables have taken in all rows that have landed."""
        landed = self.landed()
        return all(reached.get(recorder, 0) >= end for reached in self._taken_in() for recorder, end in landed.items())

    def _taken_in(self) -> list[dict[str, int]]:
        """How far each derived table has come."""
        known = list_recorders(self.table("samples"))
        return [read_offsets(self.state_table(name), known) for name in STATE_TABLE_SPECS]


def _read_snapshot(table: LakeTable, samples: LakeTable) -> Snapshot:
    if not table.exists:
        empty = ds.dataset(pa.table(table.spec.schema.empty_table()))
        return Snapshot(empty, {})
    return Snapshot(table.delta().to_pyarrow_dataset(), read_offsets(table, list_recorders(samples)))


def _read_latest_candidates(stored: LakeTable, samples: LakeTable, pending: OffsetRanges) -> Iterator[pa.RecordBatch]:
    for file in stored.files:
        for batch in read_batches(stored.location, file, stored.spec, JOURNAL_SCHEMA.names):
            yield batch.cast(JOURNAL_SCHEMA)
    for file in samples.files_since(stored.app_version(SAMPLES_VERSION) or 0):
        if pending.may_have_rows_in(file):
            for batch in read_batches(samples.location, file, SAMPLES):
                yield pending.filter_batch(batch).cast(JOURNAL_SCHEMA)
