"""Payload arenas: memory that the payloads of many chunks share, so that they become one column without a copy."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.wire.columns import BinaryColumn, uninitialized_bytes

OFFSET_TYPE = pa.int32()
MIN_ARENA_BYTES, MAX_ARENA_BYTES = 1 << 16, 1 << 22
"""The size of a payload arena in bytes."""
GROW_BELOW_SECONDS, SHRINK_ABOVE_SECONDS = 0.1, 1.0
"""Seconds an arena lasted below which the next one is twice as large, and above which it is half as large."""


class PayloadArena:
    """Contiguous memory for the payloads of several chunks, so that they concatenate without a copy."""

    __slots__ = ("_data", "_offsets", "_views", "rows")

    def __init__(self, rows: int, size: int) -> None:
        offsets, data = uninitialized_bytes((rows + 1) * OFFSET_TYPE.byte_width), uninitialized_bytes(size)
        self._views = memoryview(offsets).cast("i"), memoryview(data)
        self._views[0][0] = 0
        self._offsets, self._data = pa.py_buffer(offsets), pa.py_buffer(data)
        self.rows = 0

    def add(self, payloads: BinaryColumn) -> int:
        """Append payloads; returns their bytes, a negative number if they do not fit."""
        offsets, data = self._views
        size: int = payloads.append_to(offsets[self.rows :], data)
        if size >= 0:
            self.rows += payloads.count
        return size

    def payload(self, first: int, count: int) -> pa.Array:
        """Return rows as a slice of the whole arena."""
        return pa.Array.from_buffers(pa.binary(), count, [None, self._offsets, self._data], 0, first)

    def column(self, first: int, count: int) -> pa.Array:
        """Return rows in place with offsets of their own: pickled, they do not include the other rows."""
        start, stop = self._views[0][first], self._views[0][first + count]
        absolute = pa.Array.from_buffers(
            OFFSET_TYPE, count + 1, [None, self._offsets.slice(first * OFFSET_TYPE.byte_width)], 0
        )
        offsets = pc.subtract(absolute, pa.scalar(start, OFFSET_TYPE)).buffers()[1]
        return pa.Array.from_buffers(pa.binary(), count, [None, offsets, self._data.slice(start, stop - start)], 0)


class ArenaPool:
    """Allocates arenas, each sized for the payloads of a fraction of a second.

    A reference to one chunk keeps its whole arena in memory, so arenas must not be larger.
    """

    def __init__(self) -> None:
        self.arena = PayloadArena(0, 0)
        self._size = MIN_ARENA_BYTES
        self._begun_at = 0.0

    def add(self, payloads: BinaryColumn) -> int:
        """Append payloads, none of them null, to the current arena or to a new one; returns their bytes."""
        size = self.arena.add(payloads)
        if size < 0:
            self._start_arena(payloads.count, payloads.measure())
            size = self.arena.add(payloads)
        return size

    def _start_arena(self, rows: int, size: int) -> None:
        """Allocate an arena for at least `rows` rows and `size` bytes, with capacity for more of the same size."""
        now = time.monotonic()
        lasted, self._begun_at = now - self._begun_at, now
        if lasted < GROW_BELOW_SECONDS:
            self._size = min(self._size * 2, MAX_ARENA_BYTES)
        elif lasted > SHRINK_ABOVE_SECONDS:
            self._size = max(self._size // 2, MIN_ARENA_BYTES)
        factor = max(self._size // max(size, rows), 1)
        self.arena = PayloadArena(rows * factor, max(size, self._size))
