"""ValuePages: payload, encoding and attachment of the latest samples, in pages (record batches).

A page lives as long as a key refers to one of its rows. Pages are compacted when dead rows outweigh live ones, or when
there are too many small pages: their live rows move to a new page.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa

from zenspark.storage.sample_order import Numbers
from zenspark.wire.messages import Put
from zenspark.wire.values import Encoding, Timestamp

VALUE_COLUMNS = ["payload", "encoding", "attachment"]
NO_PAGE = 0xFFFF_FFFF
"""Page number of a key without value."""

MAX_DEAD_BYTES = 16 << 20
"""Dead bytes that never trigger a compaction: moving rows for less costs more than it frees."""
SMALL_PAGE_BYTES = 4 << 20
MAX_SMALL_PAGES = 256
"""More small pages than this are compacted: each has a fixed memory cost."""


class ValuePage(msgspec.Struct):
    """A record batch, and the number of references to its rows."""

    rows: pa.RecordBatch
    references: int

    def put(self, row: int, timestamp: Timestamp | None) -> Put:
        """Make the PUT message of a row."""
        payload, encoding, attachment = self.rows.columns
        return Put(
            timestamp=timestamp,
            encoding=parse_encoding(encoding[row].as_py()),
            attachment=attachment[row].as_py(),
            payload=payload[row].as_py() or b"",
        )

    @property
    def dead_bytes(self) -> float:
        """Approximate bytes of rows without references."""
        return float(self.rows.nbytes * max(0.0, 1 - self.references / self.rows.num_rows))


@lru_cache(maxsize=4096)
def parse_encoding(text: str | None) -> Encoding:
    """Parse the text of an encoding column; null is the default encoding."""
    return Encoding.BYTES if text is None else Encoding.parse(text)


class ValuePages:
    """All pages, by number."""

    def __init__(self) -> None:
        self._pages: dict[int, ValuePage] = {}
        self._free: list[int] = []

    def __getitem__(self, number: int) -> ValuePage:
        return self._pages[number]

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def nbytes(self) -> int:
        """Bytes in memory of all pages."""
        return sum(page.rows.nbytes for page in self._pages.values())

    def add(self, rows: pa.RecordBatch, references: int | None = None) -> int:
        """Add a page; by default each row has one reference. Returns its number."""
        number = self._free.pop() if self._free else len(self._pages)
        selected = rows.select(VALUE_COLUMNS)
        self._pages[number] = ValuePage(selected, selected.num_rows if references is None else references)
        return number

    def release(self, numbers: Numbers) -> None:
        """Drop one reference to a row of each of these pages."""
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
        """Numbers of the pages to be compacted; empty if none is due."""
        small = [number for number, page in self._pages.items() if page.rows.nbytes < SMALL_PAGE_BYTES]
        if len(small) > MAX_SMALL_PAGES:
            return small
        dead_bytes = {number: page.dead_bytes for number, page in self._pages.items()}
        total = self.nbytes
        if sum(dead_bytes.values()) <= max(MAX_DEAD_BYTES, total / 2):
            return []
        worst = max(dead_bytes, key=dead_bytes.__getitem__)
        return [worst]

    def compact(self, numbers: list[int], page_indices: Numbers, rows: Numbers) -> tuple[int, Numbers]:
        """Move referenced rows to a new page; each reference is given by its index in `numbers` and its row.

        Returns the number of the new page, and for each reference its row there.
        """
        pages = [self._drop(number) for number in numbers]
        first = np.cumsum([0] + [page.num_rows for page in pages])[:-1]
        distinct_rows, new_rows = np.unique(first[page_indices] + rows, return_inverse=True)
        kept = pa.Table.from_batches(pages).take(pa.array(distinct_rows)).combine_chunks().to_batches()
        return self.add(kept[0], len(rows)), new_rows
