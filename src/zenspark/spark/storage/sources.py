"""Where the rows of a storage come from: the tables of a lake, and of the journals what has not landed there yet.

A row is in exactly one of the two: a table is read as it is at one moment, and says up to which offset of each recorder
it reaches; from there on rows are taken from the journals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from zenspark.journal import Journal, NoJournal


class Snapshot(Protocol):
    """A table at one moment."""

    @property
    def dataset(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """As pyarrow reads it."""

    @property
    def offsets(self) -> dict[str, int]:
        """Up to where it has the rows of each recorder."""


class Tables(Protocol):
    """What a storage needs of a lake."""

    def snapshot(self, name: str) -> Snapshot:
        """A table as it is now."""

    def newest(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        """Rows that together decide the newest sample of every key, and where the journals go on behind them."""


class Landed(NamedTuple):
    """Rows from a lake, and where the journals go on behind them."""

    batches: Iterator[pa.RecordBatch]
    offsets: dict[str, int]


class Sources:
    """A lake, or none, and journals."""

    def __init__(self, lake: Tables | None, journals: Sequence[Journal]) -> None:
        self._lake = lake
        self._journals = list(journals)

    def newest(self) -> Landed:
        """Rows that decide what is newest."""
        return Landed(iter(()), {}) if self._lake is None else Landed(*self._lake.newest())

    def samples(self, columns: Sequence[str], only: Any) -> Landed:  # noqa: ANN401 - pyarrow has no types
        """All rows that fulfil an expression."""
        if self._lake is None:
            return Landed(iter(()), {})
        snapshot = self._lake.snapshot("samples")
        return Landed(snapshot.dataset.scanner(columns=list(columns), filter=only).to_batches(), snapshot.offsets)

    def ends(self) -> dict[str, int]:
        """Up to which offset each recorder has written."""
        return {name: journal.latest() for name, journal in self._written()}

    def tail(self, start: Mapping[str, int], received_after: int | None = None) -> Iterator[pa.RecordBatch]:
        """What the journals hold from these offsets on; of each only what was received after a time in microseconds."""
        for recorder, journal in self._written():
            first = max(start.get(recorder, 0), journal.earliest())
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
