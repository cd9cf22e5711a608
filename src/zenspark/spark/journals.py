"""The journals a source reads, by recorder: where they begin and end, and how a range of them is divided into tasks.

A range is two dictionaries from recorder to offset. Every task costs Spark some 30 ms, so there are few: one for each
`ROWS` rows or `BYTES` bytes, and at most one for each processor, unless more are asked for.
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
from zenspark.spark.options import EARLIEST, LATEST, Names, Offsets, Time

logger = logging.getLogger("zenspark.spark")

Places: TypeAlias = dict[str, int]
"""An offset for each recorder."""
ROWS = 200_000
"""As many rows a task should have at least: it handles them in about the time that it costs to start."""

BYTES = 64 << 20
"""And as many bytes, where rows are large."""


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

    def slices(self, start: Mapping[str, int], end: Mapping[str, int], least: int | None) -> list[Slice]:
        """The rows between two places as parts for tasks: as few as they need, but at least as many as asked for."""
        ranges = {name: (offset, end[name]) for name, offset in start.items() if end.get(name, 0) > offset}
        sizes = {name: self.by_recorder[name].size(*each) for name, each in ranges.items()}
        rows, size = sum(stop - begin for begin, stop in ranges.values()), sum(sizes.values())
        tasks = max(min(max(-(-rows // ROWS), -(-size // BYTES)), processors()), least or 1)
        return [
            part
            for name, each in ranges.items()
            for part in self.by_recorder[name].slices(*each, max(1, round(tasks * sizes[name] / size)))
        ]


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
