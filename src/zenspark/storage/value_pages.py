"""What samples carry besides their stamps, in pages: record batches of which some rows are still the newest of a key.

A page lives as long as a key refers to one of its rows. Rows that are needed no more are given back when they are
more than those that are needed, or when there are too many small pages: then what is left of them moves to a new one.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa

from zenspark.storage.ordering import Numbers
from zenspark.wire.messages import Put
from zenspark.wire.values import Encoding, Timestamp

VALUE_COLUMNS = ["payload", "encoding", "attachment"]
NO_PAGE = 0xFFFF_FFFF
"""The page of a key that has no value."""

MAX_DEAD_BYTES = 16 << 20
"""So many bytes that are needed no more are kept in any case: moving rows for less costs more than it frees."""
SMALL_PAGE_BYTES = 4 << 20
MAX_SMALL_PAGES = 256
"""More pages smaller than this are not kept: each costs memory of its own."""


class ValuePage(msgspec.Struct):
    """Some rows."""

    rows: pa.RecordBatch
    references: int

    def put(self, row: int, timestamp: Timestamp | None) -> Put:
        """One of them as a message."""
        payload, encoding, attachment = self.rows.columns
        return Put(
            timestamp=timestamp,
            encoding=parse_encoding(encoding[row].as_py()),
            attachment=attachment[row].as_py(),
            payload=payload[row].as_py() or b"",
        )

    @property
    def dead_bytes(self) -> float:
        """About how many bytes are needed no more."""
        return float(self.rows.nbytes * max(0.0, 1 - self.references / self.rows.num_rows))


@lru_cache(maxsize=4096)
def parse_encoding(text: str | None) -> Encoding:
    """The encoding that a column says."""
    return Encoding.BYTES if text is None else Encoding.parse(text)


class ValuePages:
    """The pages there are, by number."""

    def __init__(self) -> None:
        self._pages: dict[int, ValuePage] = {}
        self._free: list[int] = []

    def __getitem__(self, number: int) -> ValuePage:
        return self._pages[number]

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def nbytes(self) -> int:
        """How much memory the rows take."""
        return sum(page.rows.nbytes for page in self._pages.values())

    def add(self, rows: pa.RecordBatch, references: int | None = None) -> int:
        """Keep rows, each referred to once unless it is said how often all of them are; the number of their page."""
        number = self._free.pop() if self._free else len(self._pages)
        selected = rows.select(VALUE_COLUMNS)
        self._pages[number] = ValuePage(selected, selected.num_rows if references is None else references)
        return number

    def release(self, numbers: Numbers) -> None:
        """Rows of these pages are referred to no more: once for each number."""
        for number, count in zip(*np.unique(numbers, return_counts=True), strict=True):
            if number == NO_PAGE:
                continue
            page = self._pages[int(number)]
            page.references -= int(count)
            if not page.references:
                self._drop(int(number))

    def _drop(self, number: int) -> pa.RecordBatch:
        self._free.append(number)
        return self._pages.pop(number).rows

    def select_for_compaction(self) -> list[int]:
        """The pages to make one new page of, if it is time for that."""
        small = [number for number, page in self._pages.items() if page.rows.nbytes < SMALL_PAGE_BYTES]
        if len(small) > MAX_SMALL_PAGES:
            return small
        waste = {number: page.dead_bytes for number, page in self._pages.items()}
        total = self.nbytes
        if sum(waste.values()) <= max(MAX_DEAD_BYTES, total / 2):
            return []
        worst = max(waste, key=waste.__getitem__)
        return [worst]

    def compact(self, numbers: list[int], places: Numbers, rows: Numbers) -> tuple[int, Numbers]:
        """One page of what is referred to: of each reference its page among `numbers`, and its row.

        Returns the number of the new page, and for each reference its row there.
        """
        pages = [self._drop(number) for number in numbers]
        first = np.cumsum([0] + [page.num_rows for page in pages])[:-1]
        wanted, back = np.unique(first[places] + rows, return_inverse=True)
        kept = pa.Table.from_batches(pages).take(pa.array(wanted)).combine_chunks().to_batches()
        return self.add(kept[0], len(rows)), back
