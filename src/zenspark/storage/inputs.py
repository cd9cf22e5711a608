"""Inputs of a storage: the tables of a lake, and the journal rows that are not ingested yet.

A row is read from exactly one of the two: a snapshot of a table has the offset of each recorder up to which it has the
rows; later rows are read from the journals. The log of the table is read incrementally, so the fixed cost of a query
does not depend on the number of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple, Protocol

import pyarrow as pa

from zenspark.journal import Journal, NoJournal
from zenspark.lake.delta_table import LakeTable
from zenspark.lake.ingested_offsets import list_recorders, read_offsets
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.scan import NewestTimes, Scanner, ScanRequest
from zenspark.storage.partition_index import PartitionIndex


class LakeTables(Protocol):
    """The part of `Lake` that a storage needs."""

    def table(self, name: str) -> LakeTable:
        """Open a table at its current version."""

    def newest(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        """Rows that contain the newest sample of every key, and the journal offsets that follow them."""


class LatestRows(NamedTuple):
    """Rows of a lake that contain the newest samples, and the journal offsets that follow them."""

    batches: Iterator[pa.RecordBatch]
    offsets: dict[str, int]


class SamplesSnapshot:
    """Files of one version of `samples` that may match a query, and the journal offsets that follow that version."""

    def __init__(self, files: Sequence[DataFile], offsets: dict[str, int], scanner: Scanner | None) -> None:
        self.files = files
        self.offsets = offsets
        self._scanner = scanner

    def rows(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Read all matching rows."""
        return iter(()) if self._scanner is None else self._scanner.rows(self.files, request)

    def newest(self, request: ScanRequest, newest: NewestTimes) -> Iterator[pa.RecordBatch]:
        """Read matching rows that may be among the newest of their key."""
        return iter(()) if self._scanner is None else self._scanner.newest(self.files, request, newest)


class StorageInputs:
    """An optional lake, and journals; thread-safe."""

    def __init__(self, lake: LakeTables | None, journals: Sequence[Journal]) -> None:
        self._lake = lake
        self._journals = list(journals)
        self._partitions = PartitionIndex()
        self._scanner: Scanner | None = None

    def latest_rows(self) -> LatestRows:
        """Rows of the lake that contain the newest sample of every key."""
        return LatestRows(iter(()), {}) if self._lake is None else LatestRows(*self._lake.newest())

    def snapshot(self, day_from: date | None = None, prefix: str | None = None) -> SamplesSnapshot:
        """Open a snapshot of ingested rows that were received from a day on, with a key prefix."""
        snapshot = self._open_snapshot(day_from, prefix)
        starts = self.start_offsets(snapshot.offsets)
        if any(start > snapshot.offsets.get(recorder, 0) for recorder, start in starts.items()):
            # rows missing in the snapshot were trimmed from the journal: they may have been ingested in between
            snapshot = self._open_snapshot(day_from, prefix)
            starts = self.start_offsets(snapshot.offsets)
        snapshot.offsets = starts
        return snapshot

    def _open_snapshot(self, day_from: date | None, prefix: str | None) -> SamplesSnapshot:
        if self._lake is None:
            return SamplesSnapshot([], {}, None)
        table = self._lake.table("samples")
        if self._scanner is None:
            self._scanner = Scanner(table.location)
        files = self._partitions.files(table, day_from, prefix)
        return SamplesSnapshot(files, read_offsets(table, list_recorders(table)), self._scanner)

    def end_offsets(self) -> dict[str, int]:
        """End offset of each journal."""
        return {name: journal.latest() for name, journal in self._existing_journals()}

    def start_offsets(self, offsets: Mapping[str, int]) -> dict[str, int]:
        """Offset from which to read each journal: the given one, or a later one if rows there were trimmed."""
        return {name: max(offsets.get(name, 0), journal.earliest()) for name, journal in self._existing_journals()}

    def read_tail(self, start: Mapping[str, int], received_after: int | None = None) -> Iterator[pa.RecordBatch]:
        """Read the journals from these offsets on; optionally only rows received after a time in microseconds.

        Raises `OffsetOutOfRange` if rows were trimmed concurrently.
        """
        for recorder, journal in self._existing_journals():
            first = start.get(recorder, 0)
            if received_after is not None:
                first = max(first, journal.offset_at(received_after))
            end = journal.latest()
            if first < end:
                yield from journal.read(first, end)

    def _existing_journals(self) -> Iterator[tuple[str, Journal]]:
        """Yield recorder and journal of those that exist; a recorder may not have created its journal yet."""
        for journal in self._journals:
            try:
                name = journal.recorder
            except NoJournal:
                continue
            yield name, journal
