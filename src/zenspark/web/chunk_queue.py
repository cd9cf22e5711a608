"""ChunkQueue: received samples for HTTP clients, in a bounded queue that never makes a publisher wait.

It takes rows in columns, as a recorder does, so the reading thread makes no Python object per sample. When it is full,
rows are dropped and counted; for the session it is never full.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from zenspark.arrow.arena import ArenaPool
from zenspark.arrow.decode import RowChunk, TemplateCache, chunk_from_rows
from zenspark.handlers.arrow import chunk_from_samples
from zenspark.handlers.channel import Resume
from zenspark.handlers.handler import BoundHandler
from zenspark.wire.columns import PushRun

MAX_CLIENT_CHUNKS = 4096
"""Most chunks in a queue; further rows are dropped."""
MAX_CLIENT_ROWS = 65536
"""Most rows in a queue by default; further ones are dropped."""
MAX_CLIENT_BYTES = 32 << 20
"""Most bytes in a queue by default; further rows are dropped."""


class ChunkQueue:
    """A handler and sink of a subscriber; `take` returns the rows received since the last call."""

    def __init__(
        self,
        wake: Callable[[], None] | None = None,
        *,
        max_rows: int = MAX_CLIENT_ROWS,
        max_bytes: int = MAX_CLIENT_BYTES,
    ) -> None:
        self._wake = wake
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._chunks: list[RowChunk] = []
        self._rows = 0
        self._bytes = 0
        self._skipped = 0
        self._is_closed = False
        self._templates = TemplateCache()
        self._pool = ArenaPool()

    def bind(self, resume: Resume) -> BoundHandler:
        """Return itself as the sink of a session."""
        return BoundHandler(self, self)

    # -- for the session

    def push_columns(self, pushes: PushRun, keys: list[str | None], via: str) -> bool:
        """Add the rows that have a key. Always returns True: rows that do not fit are dropped."""
        if self._is_full:
            self._skip(pushes.stop - pushes.start)
            return True
        chunk = chunk_from_rows(pushes, keys, via, time.time_ns() // 1000, self._templates, self._pool)
        if chunk.num_rows:
            self._add(chunk)
        return True

    def push(self, item: Any) -> bool:  # noqa: ANN401 - a sample of this session itself
        """Add a sample."""
        return self.push_many([item])

    def push_many(self, items: Iterable[Any]) -> bool:
        """Add samples that were not received as rows."""
        samples = list(items)
        if self._is_full:
            self._skip(len(samples))
        elif samples:
            self._add(chunk_from_samples(samples, time.time_ns() // 1000))
        return True

    def close(self) -> None:
        """End the delivery."""
        self._is_closed = True
        if self._wake is not None:
            self._wake()

    @property
    def is_closed(self) -> bool:
        """Whether the subscriber was undeclared or its session closed."""
        return self._is_closed

    @property
    def _is_full(self) -> bool:
        return self._rows >= self._max_rows or self._bytes >= self._max_bytes or len(self._chunks) >= MAX_CLIENT_CHUNKS

    def _add(self, chunk: RowChunk) -> None:
        with self._lock:
            was_empty = not self._chunks
            self._chunks.append(chunk)
            self._rows += chunk.num_rows
            self._bytes += chunk.size
        if self._wake is not None and was_empty:
            self._wake()

    def _skip(self, rows: int) -> None:
        with self._lock:
            self._skipped += rows

    # -- for the server

    def take(self) -> tuple[list[RowChunk], int]:
        """Return the waiting chunks, and the number of rows dropped since the last call."""
        with self._lock:
            taken = self._chunks, self._skipped
            self._chunks, self._rows, self._bytes, self._skipped = [], 0, 0, 0
        return taken
