"""Where the rows of a storage come from: the tables of a lake, and of the journals what has not landed there yet.

A row is in exactly one of the two: a table is read as it is at one moment, and says up to which offset of each recorder
it reaches; from there on rows are taken from the journals. The log of the table is followed, not read anew: what a
query costs before it reads rows does not depend on how many files there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple, Protocol

import pyarrow as pa

from zenspark.journal import Journal, NoJournal
from zenspark.lake.delta_table import LakeTable
from zenspark.lake.offset_marks import list_recorders, read_offsets
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.scan import NewestTimes, Scanner, ScanRequest
from zenspark.storage.partition_index import PartitionIndex


class LakeTables(Protocol):
    """What a storage needs of a lake."""

    def table(self, name: str) -> LakeTable:
        """A table as it is now."""

    def newest(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        """Rows that together decide the newest sample of every key, and where the journals go on behind them."""


class LatestRows(NamedTuple):
    """Rows from a lake, and where the journals go on behind them."""

    batches: Iterator[pa.RecordBatch]
    offsets: dict[str, int]


class SamplesSnapshot:
    """The files of `samples` at one moment that may have rows of a query, and where the journals go on behind them."""

    def __init__(self, files: Sequence[DataFile], offsets: dict[str, int], scanner: Scanner | None) -> None:
        self.files = files
        self.offsets = offsets
        self._scanner = scanner

    def rows(self, wanted: ScanRequest) -> Iterator[pa.RecordBatch]:
        """All rows that are wanted."""
        return iter(()) if self._scanner is None else self._scanner.rows(self.files, wanted)

    def newest(self, wanted: ScanRequest, newest: NewestTimes) -> Iterator[pa.RecordBatch]:
        """Rows that are wanted and may be among the newest."""
        return iter(()) if self._scanner is None else self._scanner.newest(self.files, wanted, newest)


class StorageInputs:
    """A lake, or none, and journals; any number of threads may read them at once."""

    def __init__(self, lake: LakeTables | None, journals: Sequence[Journal]) -> None:
        self._lake = lake
        self._journals = list(journals)
        self._partitions = PartitionIndex()
        self._scanner: Scanner | None = None

    def latest_rows(self) -> LatestRows:
        """Rows that decide what is newest."""
        return LatestRows(iter(()), {}) if self._lake is None else LatestRows(*self._lake.newest())

    def snapshot(self, day_from: date | None = None, prefix: str | None = None) -> SamplesSnapshot:
        """What has landed, of rows received from a day on, and of keys that begin with a prefix."""
        past = self._landed(day_from, prefix)
        starts = self.start_offsets(past.offsets)
        if any(start > past.offsets.get(recorder, 0) for recorder, start in starts.items()):
            # rows that were not in the lake are not in the journal any more: they may have landed in between
            past = self._landed(day_from, prefix)
            starts = self.start_offsets(past.offsets)
        past.offsets = starts
        return past

    def _landed(self, day_from: date | None, prefix: str | None) -> SamplesSnapshot:
        if self._lake is None:
            return SamplesSnapshot([], {}, None)
        table = self._lake.table("samples")
        if self._scanner is None:
            self._scanner = Scanner(table.location)
        files = self._partitions.files(table, day_from, prefix)
        return SamplesSnapshot(files, read_offsets(table, list_recorders(table)), self._scanner)

    def end_offsets(self) -> dict[str, int]:
        """Up to which offset each recorder has written."""
        return {name: journal.latest() for name, journal in self._written()}

    def start_offsets(self, offsets: Mapping[str, int]) -> dict[str, int]:
        """Where each journal goes on behind offsets: later than that if what follows there was trimmed away."""
        return {name: max(offsets.get(name, 0), journal.earliest()) for name, journal in self._written()}

    def read_tail(self, start: Mapping[str, int], received_after: int | None = None) -> Iterator[pa.RecordBatch]:
        """What the journals hold from these offsets on; of each only what was received after a time in microseconds.

        Raises `OffsetOutOfRange` where rows have been trimmed away meanwhile.
        """
        for recorder, journal in self._written():
            first = start.get(recorder, 0)
            if received_after is not None:
                first = max(first, journal.offset_at(received_after))
            end = journal.latest()
            if first < end:
                yield from journal.read(first, end)

    def _written(self) -> Iterator[tuple[str, Journal]]:
        """The journals that exist; one may be about to be made."""
        for journal in self._journals:
            try:
                name = journal.recorder
            except NoJournal:
                continue
            yield name, journal
