"""JournalMeter: rows, bytes, segments and times of a journal, and free space on its disk, for status and metrics."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from zenspark.errors import JournalError
from zenspark.journal.journal import Journal
from zenspark.journal.retention import segment_size
from zenspark.journal.segment import list_segments


class JournalUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a journal at one moment; times are in seconds since 1970, None if there are no rows."""

    path: str
    rows: int = 0
    bytes: int = 0
    segments: int = 0
    oldest: float | None = None
    """Time of reception of the first retained row, approximately."""
    newest: float | None = None
    """Time of reception of the last row, approximately."""
    free_bytes: int | None = None
    """Free space on the disk; None if it cannot be read."""
    backlog: int = 0
    """Chunks of received rows that wait to be written."""
    lost: int = msgspec.field(default=0, name="refused")
    """Rows that its recorder has received and lost since it started; `refused` in the status document."""


class JournalMeter:
    """Measures one journal repeatedly: segments that are complete are measured once."""

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)
        self._sizes: dict[int, int] = {}
        """Bytes of the complete segments."""

    def measure(self, backlog: int, lost: int) -> JournalUsage:
        """Measure the journal; `backlog` is in chunks and `lost` in rows, as its recorder counts them."""
        journal = self._journal
        free = _free_bytes(journal.path)
        try:
            segments = list_segments(journal.path)
            size = self._size(segments)
            start, end = journal.earliest(), journal.latest()
            has_rows = start < end
            oldest = journal.received_at(start) / 1e6 if has_rows else None
            newest = journal.received_at(end - 1) / 1e6 if has_rows else None
        except JournalError:  # not created yet, or trimmed concurrently
            return JournalUsage(path=str(journal.path), free_bytes=free, backlog=backlog, lost=lost)
        return JournalUsage(
            path=str(journal.path),
            rows=end - start,
            bytes=size,
            segments=len(segments),
            oldest=oldest,
            newest=newest,
            free_bytes=free,
            backlog=backlog,
            lost=lost,
        )

    def _size(self, segments: list[int]) -> int:
        path = self._journal.path
        complete = segments[:-1]
        self._sizes = {
            first: self._sizes[first] if first in self._sizes else segment_size(path, first) for first in complete
        }
        return sum(self._sizes.values()) + sum(segment_size(path, first) for first in segments[-1:])


def _free_bytes(path: Path) -> int | None:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None
