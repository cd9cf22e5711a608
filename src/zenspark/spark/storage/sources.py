"""Where the rows of a storage come from: the tables of a lake, and of the journals what has not landed there yet.

A row is in exactly one of the two: up to where the lake says it reaches, rows are taken from there, from then on from
the journal. That is asked first; a table that is read a moment later may hold more, and what is more is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.journal import Journal, NoJournal


class Tables(Protocol):
    """What a storage needs of a lake."""

    def dataset(self, name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """A table as pyarrow reads it."""

    def landed(self) -> Mapping[str, int]:
        """Up to which offset the rows of each recorder are in `samples`."""


class Sources:
    """A lake, or none, and journals."""

    def __init__(self, lake: Tables | None, journals: Sequence[Journal]) -> None:
        self.lake = lake
        self.journals = list(journals)

    def landed(self) -> dict[str, int]:
        """Up to which offset the rows of each recorder are in the lake."""
        return {} if self.lake is None else dict(self.lake.landed())

    def table(self, name: str, columns: Sequence[str], only: Any = None) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
        """Rows of a table of the lake, if there is one; `only` is an expression that they fulfil."""
        if self.lake is None:
            return
        for batch in self.lake.dataset(name).scanner(columns=list(columns), filter=only).to_batches():
            if batch.num_rows:
                yield batch

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
        for journal in self.journals:
            try:
                name = journal.recorder
            except NoJournal:
                continue
            yield name, journal


def before(rows: pa.RecordBatch, ends: Mapping[str, int]) -> pa.RecordBatch:
    """The rows whose offset is before the end of their recorder."""
    recorders = pc.dictionary_encode(rows.column("recorder"))
    limits = np.array([ends.get(name, 0) for name in recorders.dictionary.to_pylist()], np.int64)
    is_before = rows.column("offset").to_numpy() < limits[recorders.indices.to_numpy()]
    return rows if is_before.all() else rows.filter(pa.array(is_before))
