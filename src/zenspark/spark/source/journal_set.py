"""JournalSet: the journals of a source by recorder, their offsets, and the split of a range into tasks.

A range is two dictionaries from recorder to offset. Every task costs Spark about 30 ms, so there are few: one per
`MIN_TASK_ROWS` rows or `MIN_TASK_BYTES` bytes, and at most as many as run concurrently, unless more are requested or a
task would get more than `MAX_TASK_ROWS` rows or `MAX_TASK_BYTES` bytes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from zenspark.errors import OffsetOutOfRange, UsageError
from zenspark.journal import Journal, Slice
from zenspark.journal.journal import iter_blocks
from zenspark.journal.segment import SegmentIndex
from zenspark.spark.options import EARLIEST, LATEST, Names, Offsets, Time

logger = logging.getLogger("zenspark.spark")

RecorderOffsets: TypeAlias = dict[str, int]
"""An offset for each recorder."""
MIN_TASK_ROWS = 200_000
"""Target minimum of rows per task: processing them takes about as long as starting the task."""
MIN_TASK_BYTES = 64 << 20
"""Target minimum of bytes per task, for large rows."""
MAX_TASK_ROWS = 4_000_000
"""Maximum rows per task: repeating a failed task with more rows is expensive."""
MAX_TASK_BYTES = 512 << 20
"""Maximum bytes per task, for large rows."""


class JournalSet:
    """Journals with the same row type; opened lazily, can be pickled."""

    def __init__(self, paths: Names) -> None:
        self._paths = paths

    def __getstate__(self) -> dict[str, Any]:
        return {"_paths": self._paths}

    @cached_property
    def by_recorder(self) -> dict[str, Journal]:
        """Journals by recorder name."""
        journals: dict[str, Journal] = {}
        for path in sorted(self._paths):
            journal = Journal(path)
            if journal.recorder in journals:
                raise UsageError(
                    f"{path} and {journals[journal.recorder].path} have the same recorder, {journal.recorder!r}"
                )
            journals[journal.recorder] = journal
        kinds = {journal.row_type: journal.path for journal in journals.values()}
        if len(kinds) > 1:
            raise UsageError(f"journals of different rows cannot be read together: {kinds}")
        return dict(sorted(journals.items()))

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return next(iter(self.by_recorder.values())).schema

    def earliest(self) -> RecorderOffsets:
        return {name: journal.earliest() for name, journal in self.by_recorder.items()}

    def latest(self) -> RecorderOffsets:
        return {name: journal.latest() for name, journal in self.by_recorder.items()}

    def resolve_offsets(self, offsets: Offsets, time: Time | None = None) -> RecorderOffsets:
        """Resolve symbolic offsets, or a time, to an offset per recorder."""
        for name in offsets.named:
            if name not in self.by_recorder:
                names = ", ".join(self.by_recorder)
                raise UsageError(f"offsets name the recorder {name!r}, whose journal is not read; there are {names}")
        if time is not None:
            return {name: journal.offset_at(time.micros) for name, journal in self.by_recorder.items()}
        return {name: _resolve_offset(journal, offsets.of(name)) for name, journal in self.by_recorder.items()}

    def available_offsets(self, start: Mapping[str, int], fail: bool) -> RecorderOffsets:
        """Clamp offsets to the rows that the journals still have; lost rows are an error if `fail`."""
        return {
            name: self._available_offset(name, offset, fail)
            for name, offset in start.items()
            if self._is_read(name, fail)
        }

    def _is_read(self, name: str, fail: bool) -> bool:
        if name not in self.by_recorder:
            problem = f"the query has read from recorder {name!r}, whose journal is not among those it reads now"
            error = UsageError(f"{problem} ({', '.join(self._paths)})")
            _report_loss(error, f"recorder {name}: lost the rows after those that were read", fail)
        return name in self.by_recorder

    def _available_offset(self, name: str, offset: int, fail: bool) -> int:
        journal = self.by_recorder[name]
        earliest, latest = journal.earliest(), journal.latest()
        if not earliest <= offset <= latest:
            error = OffsetOutOfRange(str(journal.path), offset, earliest, latest)
            is_trimmed = offset < earliest
            loss = f"lost {earliest - offset} rows" if is_trimmed else "the journal ends before rows that were read"
            _report_loss(error, f"recorder {name}: {loss}", fail)
        return min(max(offset, earliest), latest)

    def slices(
        self, start: Mapping[str, int], end: Mapping[str, int], min_tasks: int | None, parallelism: int | None = None
    ) -> list[Slice]:
        """Split the rows between two offsets into slices for tasks: as few as needed, but at least `min_tasks`.

        `parallelism` is the number of concurrent tasks; default: the number of processors of this machine.
        """
        ranges = _ranges(start, end)
        sizes = {name: self.by_recorder[name].size(*offsets) for name, offsets in ranges.items()}
        rows, size = sum(stop - begin for begin, stop in ranges.values()), sum(sizes.values())
        preferred = max(-(-rows // MIN_TASK_ROWS), -(-size // MIN_TASK_BYTES))
        required = max(-(-rows // MAX_TASK_ROWS), -(-size // MAX_TASK_BYTES))
        tasks = max(min(preferred, parallelism or available_cores()), required, min_tasks or 1)
        return [
            part
            for name, offsets in ranges.items()
            for part in self.by_recorder[name].slices(*offsets, max(1, round(tasks * sizes[name] / size)))
        ]

    def limit_bytes(self, start: Mapping[str, int], end: Mapping[str, int], max_bytes: int) -> RecorderOffsets:
        """Limit the end to `max_bytes` bytes after the start, but at least one block of each journal that has rows.

        Every journal gets the same share; unused bytes are divided among the others. Only as much of the journal
        indexes is read as the bytes need, however large the backlog is.
        """
        remaining, bytes_left = _ranges(start, end), max_bytes
        limited = dict(end)
        while remaining:
            share = bytes_left // len(remaining)
            runs = {
                name: measure_blocks(self.by_recorder[name], *offsets, share) for name, offsets in remaining.items()
            }
            complete = {
                name: size for name, (stop, size) in runs.items() if stop == remaining[name][1] and size <= share
            }
            if not complete:
                return limited | {name: stop for name, (stop, _) in runs.items()}
            bytes_left -= sum(complete.values())
            remaining = {name: offsets for name, offsets in remaining.items() if name not in complete}
        return limited


def _ranges(start: Mapping[str, int], end: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return start and end of each recorder that has rows in the range."""
    return {name: (offset, end[name]) for name, offset in start.items() if end.get(name, 0) > offset}


def measure_blocks(journal: Journal, start: int, end: int, max_bytes: int) -> tuple[int, int]:
    """Return end offset and size of the longest run of blocks from `start` with at most `max_bytes` bytes.

    The run has at least one block: a limit smaller than a block must not stop a query forever.
    """
    (part,) = journal.slices(start, start + 1, 1)
    segment, offset, size = part.segment, start, 0
    while offset < end:
        with SegmentIndex(journal.path, segment) as index:
            for entry in iter_blocks(index, offset, end):
                if size and size + entry.block.length > max_bytes:
                    return offset, size
                size += entry.block.length
                segment = offset = entry.block.end
    return min(offset, end), size


def _resolve_offset(journal: Journal, offset: int) -> int:
    if offset == EARLIEST:
        return journal.earliest()
    return journal.latest() if offset == LATEST else offset


def _report_loss(error: Exception, loss: str, fail: bool) -> None:
    """Raise an error about lost rows, or log it as the reason of the loss, which names recorder and rows."""
    if fail:
        raise UsageError(f"{error}; with failOnDataLoss=false the query continues without these rows") from error
    logger.warning("%s: %s; the query continues because of failOnDataLoss=false", loss, error)


def available_cores() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
