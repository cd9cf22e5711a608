"""The journals a source reads, by recorder: where they begin and end, and how a range of them is divided into tasks.

A range is two dictionaries from recorder to offset. Every task costs Spark some 30 ms, so there are few: one for each
`MIN_TASK_ROWS` rows or `MIN_TASK_BYTES` bytes, and at most as many as run at once, unless more are asked for or a task
would get more than `MAX_TASK_ROWS` rows or `MAX_TASK_BYTES` bytes.
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
from zenspark.journal.reader import blocks_of
from zenspark.journal.segment import Index
from zenspark.spark.options import EARLIEST, LATEST, Names, Offsets, Time

logger = logging.getLogger("zenspark.spark")

Places: TypeAlias = dict[str, int]
"""An offset for each recorder."""
MIN_TASK_ROWS = 200_000
"""As many rows a task should have at least: it handles them in about the time that it costs to start."""
MIN_TASK_BYTES = 64 << 20
"""And as many bytes, where rows are large."""
MAX_TASK_ROWS = 4_000_000
"""More rows make a task that fails late dear to repeat."""
MAX_TASK_BYTES = 512 << 20
"""And more bytes, where rows are large."""


class Journals:
    """Journals of the same kind of rows. Nothing is opened until it is needed, and it pickles."""

    def __init__(self, paths: Names) -> None:
        self._paths = paths

    def __getstate__(self) -> dict[str, Any]:
        return {"_paths": self._paths}

    @cached_property
    def by_recorder(self) -> dict[str, Journal]:
        """Each journal under the name of its recorder."""
        found: dict[str, Journal] = {}
        for path in sorted(self._paths):
            journal = Journal(path)
            if journal.recorder in found:
                raise UsageError(
                    f"{path} and {found[journal.recorder].path} have the same recorder, {journal.recorder!r}"
                )
            found[journal.recorder] = journal
        kinds = {journal.rows: journal.path for journal in found.values()}
        if len(kinds) > 1:
            raise UsageError(f"journals of different rows cannot be read together: {kinds}")
        return dict(sorted(found.items()))

    @property
    def schema(self) -> pa.Schema:
        """The columns of their rows."""
        return next(iter(self.by_recorder.values())).schema

    def earliest(self) -> Places:
        return {name: journal.earliest() for name, journal in self.by_recorder.items()}

    def latest(self) -> Places:
        return {name: journal.latest() for name, journal in self.by_recorder.items()}

    def places(self, offsets: Offsets, time: Time | None = None) -> Places:
        """Where that is in each of them."""
        for name in offsets.named:
            if name not in self.by_recorder:
                known = ", ".join(self.by_recorder)
                raise UsageError(f"offsets name the recorder {name!r}, whose journal is not read; there are {known}")
        if time is not None:
            return {name: journal.offset_at(time.micros) for name, journal in self.by_recorder.items()}
        return {name: _place(journal, offsets.of(name)) for name, journal in self.by_recorder.items()}

    def kept(self, start: Mapping[str, int], fail: bool) -> Places:
        """A start, or where rows begin if those before are gone: they are lost, which is an error if told so."""
        return {name: self._kept(name, offset, fail) for name, offset in start.items() if self._knows(name, fail)}

    def _knows(self, name: str, fail: bool) -> bool:
        if name not in self.by_recorder:
            problem = f"the query has read from recorder {name!r}, whose journal is not among those it reads now"
            _lose(UsageError(f"{problem} ({', '.join(self._paths)})"), fail)
        return name in self.by_recorder

    def _kept(self, name: str, offset: int, fail: bool) -> int:
        journal = self.by_recorder[name]
        earliest, latest = journal.earliest(), journal.latest()
        if not earliest <= offset <= latest:
            _lose(OffsetOutOfRange(str(journal.path), offset, earliest, latest), fail)
        return min(max(offset, earliest), latest)

    def slices(
        self, start: Mapping[str, int], end: Mapping[str, int], least: int | None, parallelism: int | None = None
    ) -> list[Slice]:
        """The rows between two places as parts for tasks: as few as they need, but at least as many as asked for.

        `parallelism` is how many tasks run at once; without it, as many as this machine has processors.
        """
        ranges = _ranges(start, end)
        sizes = {name: self.by_recorder[name].size(*each) for name, each in ranges.items()}
        rows, size = sum(stop - begin for begin, stop in ranges.values()), sum(sizes.values())
        wanted = max(-(-rows // MIN_TASK_ROWS), -(-size // MIN_TASK_BYTES))
        needed = max(-(-rows // MAX_TASK_ROWS), -(-size // MAX_TASK_BYTES))
        tasks = max(min(wanted, parallelism or processors()), needed, least or 1)
        return [
            part
            for name, each in ranges.items()
            for part in self.by_recorder[name].slices(*each, max(1, round(tasks * sizes[name] / size)))
        ]

    def bounded(self, start: Mapping[str, int], end: Mapping[str, int], most: int) -> Places:
        """An end with at most so many bytes behind the start, but at least one block of each journal that has rows.

        Every journal gets the same share; what one does not need is divided among the others. Only as much of the
        journals' indexes is read as the bytes take, however much is waiting.
        """
        waiting, left = _ranges(start, end), most
        found = dict(end)
        while waiting:
            share = left // len(waiting)
            runs = {name: run_of(self.by_recorder[name], *each, share) for name, each in waiting.items()}
            whole = {name: size for name, (stop, size) in runs.items() if stop == waiting[name][1] and size <= share}
            if not whole:
                return found | {name: stop for name, (stop, _) in runs.items()}
            left -= sum(whole.values())
            waiting = {name: each for name, each in waiting.items() if name not in whole}
        return found


def _ranges(start: Mapping[str, int], end: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """From where to where, for each recorder that has rows there."""
    return {name: (offset, end[name]) for name, offset in start.items() if end.get(name, 0) > offset}


def run_of(journal: Journal, start: int, end: int, most: int) -> tuple[int, int]:
    """Where the longest run of blocks ends that begins here and has at most so many bytes, and how many it has.

    It has one block at least: a limit smaller than a block must not stop a query for ever.
    """
    (part,) = journal.slices(start, start + 1, 1)
    segment, offset, size = part.segment, start, 0
    while offset < end:
        with Index(journal.path, segment) as index:
            for entry in blocks_of(index, offset, end):
                if size and size + entry.block.length > most:
                    return offset, size
                size += entry.block.length
                segment = offset = entry.block.end
    return min(offset, end), size


def _place(journal: Journal, offset: int) -> int:
    if offset == EARLIEST:
        return journal.earliest()
    return journal.latest() if offset == LATEST else offset


def _lose(error: Exception, fail: bool) -> None:
    if fail:
        raise UsageError(f"{error}; with failOnDataLoss=false the query goes on without these rows") from error
    logger.warning("rows are lost: %s", error)


def processors() -> int:
    """How many tasks can run at once, as far as this process can tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
