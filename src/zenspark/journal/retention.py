"""Retention of a journal: trims the oldest segments, never the active one."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

from zenspark.journal.failures import write_errors
from zenspark.journal.format import SEGMENT_SUFFIX, index_file, segment_file
from zenspark.journal.policy import Policy
from zenspark.journal.reader_offsets import ReaderOffsets
from zenspark.journal.segment import SegmentIndex, list_segments

logger = logging.getLogger("zenspark.journal")


def trim(path: Path, policy: Policy, now: float) -> int:
    """Trim segments by the retention policy, oldest first, until one is retained. Returns the number of rows."""
    limits = (policy.retain_age, policy.retain_bytes, policy.retain_read_age, policy.retain_read_bytes)
    if all(limit is None for limit in limits):
        return 0
    segments = list_segments(path)
    committed = ReaderOffsets(path).min_offset()
    retained = _RetainedSegments(path, policy, now, segments, committed)
    trimmed = 0
    for first, end in pairwise(segments):
        if not retained.is_removable(first, end):
            break
        remove_segment(path, first)
        retained.remove(first, end)
        trimmed += end - first
    if trimmed:
        logger.info("%s: trimmed %d rows up to offset %d", path, trimmed, segments[0] + trimmed)
    return trimmed


def trim_committed(path: Path) -> int:
    """Trim segments that all attached readers have committed, none without readers. Returns the number of rows."""
    committed = ReaderOffsets(path).min_offset()
    trimmed = 0
    for first, end in pairwise(list_segments(path)):
        if committed is None or end > committed:
            break
        remove_segment(path, first)
        trimmed += end - first
    return trimmed


class _RetainedSegments:
    """The remaining segments, and whether the next one can be removed."""

    def __init__(self, path: Path, policy: Policy, now: float, segments: list[int], committed: int | None) -> None:
        self._path = path
        self._policy = policy
        self._now = now
        self._committed = committed
        self._sizes = {first: segment_size(path, first) for first in segments}
        self._bytes = sum(self._sizes.values())
        self._committed_bytes = sum(self._sizes[first] for first, end in pairwise(segments) if self._is_committed(end))

    def is_removable(self, first: int, end: int) -> bool:
        """Whether a segment exceeds the limits of all rows, or of rows that all readers have committed."""
        policy, is_committed = self._policy, self._is_committed(end)
        if is_committed and self._exceeds(
            first, self._committed_bytes, policy.retain_read_bytes, policy.retain_read_age
        ):
            return True
        may_remove = is_committed or policy.trim_unread or self._committed is None
        return may_remove and self._exceeds(first, self._bytes, policy.retain_bytes, policy.retain_age)

    def _exceeds(self, first: int, size: int, max_bytes: int | None, age: float | None) -> bool:
        return (max_bytes is not None and size > max_bytes) or (
            age is not None and is_older(self._path, first, age, self._now)
        )

    def _is_committed(self, end: int) -> bool:
        return self._committed is not None and end <= self._committed

    def remove(self, first: int, end: int) -> None:
        size = self._sizes[first]
        self._bytes -= size
        if self._is_committed(end):
            self._committed_bytes -= size


def segment_size(path: Path, first: int) -> int:
    """Bytes of a segment and its index; 0 if it was removed concurrently."""
    try:
        return segment_file(path, first).stat().st_size + index_file(path, first).stat().st_size
    except FileNotFoundError:
        return 0


def is_older(path: Path, first: int, age: float, now: float) -> bool:
    """Return whether the newest row of a segment was received more than `age` seconds ago."""
    try:
        with SegmentIndex(path, first) as index:
            return index.last_received < (now - age) * 1e6
    except FileNotFoundError:
        return True  # removed concurrently


def remove_segment(path: Path, first: int) -> None:
    """Delete a segment; its index first, because no reader opens a segment without an index."""
    with write_errors(path):
        index_file(path, first).unlink(missing_ok=True)
        segment_file(path, first).unlink(missing_ok=True)


def remove_orphans(path: Path) -> None:
    """Delete segments without an index: their removal, or their creation, was interrupted."""
    for first in set(list_segments(path, SEGMENT_SUFFIX)) - set(list_segments(path)):
        segment_file(path, first).unlink(missing_ok=True)
