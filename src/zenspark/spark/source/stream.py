"""The stream source: at least once from the journal on, and exactly once with a checkpoint; best effort before.

An offset is a dictionary from recorder to row: between the same two offsets are the same rows, in any process, for as
long as the journal keeps them. One entry more, `@reader`, is a number that a new query draws and its checkpoint keeps:
the journals know the query by it, whatever its other options become.

Spark builds the reader in several processes. One of them lives as long as the query and asks where it is; only there a
recorder runs, if the stream records by itself. Others are built to be sent to workers, which read slices of journals
and need nothing else.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from zenspark.journal.format import SAMPLES, read_schema
from zenspark.spark.options import READER_ENTRY, StreamOptions
from zenspark.spark.source.journal_set import Journals, Places

if TYPE_CHECKING:
    from zenspark.spark.source.recorder import Recording


SLICES = pa.schema(
    [
        ("path", pa.string()),
        ("recorder", pa.string()),
        ("rows", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("segment", pa.int64()),
    ]
)
"""Parts of journals as rows: the fields of `zenspark.journal.Slice`."""
READER_BITS = 52
"""Bits of the number that stands for a reader in offsets: any tool that reads JSON keeps it exactly."""


def schema_of(options: StreamOptions) -> pa.Schema:
    """The columns of the rows; a journal that will be recorded need not exist yet."""
    if options.slices:
        return SLICES
    return read_schema(SAMPLES) if options.subscribe else Journals(options.journal).schema


class ZenohStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one or several journals as they grow."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self._target: Places | None = None
        """Up to where to read, if the query is to end by itself."""

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_target": None}

    @cached_property
    def recording(self) -> Recording | None:
        """Writes the journal, if this stream does; exists only where offsets are asked for."""
        if not self.options.subscribe:
            return None
        from zenspark.spark.source.recorder import Recording  # here, so that no worker that only reads loads a recorder

        return Recording(self.options)

    @cached_property
    def journals(self) -> Journals:
        if self.recording is not None:
            self.recording.check()
        return Journals(self.options.journal)

    @cached_property
    def _drawn(self) -> int:
        """Stands for a new query, which asks for its initial offset more than once."""
        return secrets.randbits(READER_BITS)

    def reader_of(self, offset: Mapping[str, int]) -> str:
        """The name under which the journals know the query that has this offset in its checkpoint.

        Tuning a query does not change it. Checkpoints of before there was an entry for it share one per journal.
        """
        if self.options.reader is not None:
            return self.options.reader
        if READER_ENTRY in offset:
            return _spelled(offset[READER_ENTRY])
        read = msgspec.json.encode([sorted(self.options.journal), sorted(self.options.subscribe)])
        return f"spark-{hashlib.sha256(read).hexdigest()[:16]}"

    # --- where it is

    def initialOffset(self) -> Places:
        """Where a new query begins. From now on the journals keep what it has not read."""
        options = self.options
        places = self.journals.places(options.starting_offsets, options.starting_timestamp)
        start = self.journals.kept(places, options.fail_on_data_loss)
        if options.reader is None:
            start[READER_ENTRY] = self._drawn
        self.commit(start)
        return start

    def getDefaultReadLimit(self) -> ReadLimit:
        """What bounds a batch: of rows and bytes Spark takes one, and the other is applied with it."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self.options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: Places, limit: ReadLimit) -> Places:
        """The end of the next batch."""
        if self.recording is not None:
            self.recording.check()
        named = {READER_ENTRY: start[READER_ENTRY]} if READER_ENTRY in start else {}
        begun = self._begun(start)
        end = self._end(begun, limit)
        if self._target is not None and end == begun:
            # Spark tells of a batch when it plans the next one, and there is none: what it begins with is done.
            self.commit(end | named)
        return end | named

    def _end(self, start: Places, limit: ReadLimit) -> Places:
        there = self._target or self.journals.latest()
        # a target that was set before the journal lost rows may lie behind the start
        end = {name: max(offset, there.get(name, offset)) for name, offset in start.items()}
        match limit:
            case ReadMaxRows():
                end, most = limited(start, end, limit.max_rows), self.options.max_bytes_per_trigger
                return end if most is None else self.journals.bounded(start, end, most)
            case ReadMaxBytes():
                return self.journals.bounded(start, end, limit.max_bytes)
            case ReadMinRows() if sum(end.values()) - sum(start.values()) < limit.min_rows and self._target is None:
                return start
            case _:
                return end

    def _begun(self, start: Mapping[str, int]) -> Places:
        """A start with all recorders of now: one that joined is read from its beginning."""
        places = {name: offset for name, offset in start.items() if name != READER_ENTRY}
        kept = self.journals.kept(places, self.options.fail_on_data_loss)
        known = self.journals.by_recorder
        return {name: kept[name] if name in kept else journal.earliest() for name, journal in known.items()}

    def reportLatestOffset(self) -> Places:
        """For the progress of the query: how far it could be."""
        return self.journals.latest()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.journals.latest()

    # --- rows

    def partitions(self, start: Places, end: Places) -> list[InputPartition]:
        """The parts of one batch, for a task each; where they are the rows themselves, one task has them all."""
        options = self.options
        begun = {name: offset for name, offset in self._begun(start).items() if name in end}
        parts = self.journals.slices(begun, end, options.min_partitions, options.parallelism)
        if options.slices:
            return [InputPartition(parts)] if parts else []
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part, or a row for each part."""
        if self.options.slices:
            rows = [msgspec.structs.asdict(part) for part in partition.value]
            return iter([pa.RecordBatch.from_pylist(rows, schema=SLICES)])
        batches: Iterator[pa.RecordBatch] = partition.value.batches()
        return batches

    def commit(self, end: Places) -> None:
        """Notes in the journals what is done, so that they may be trimmed up to there."""
        reader = self.reader_of(end)
        for name, journal in self.journals.by_recorder.items():
            if name in end:
                journal.commit(reader, end[name])
                if READER_ENTRY in end and reader != _spelled(end[READER_ENTRY]):
                    journal.forget(_spelled(end[READER_ENTRY]))  # the query was given a name since

    def stop(self) -> None:
        """Ends the recorder, if there is one."""
        if "recording" in self.__dict__ and self.recording is not None:
            self.recording.stop()


def _spelled(reader: int) -> str:
    return f"spark-{reader:013x}"


def limited(start: Places, end: Places, most: int) -> Places:
    """An end with at most so many rows behind the start, from each recorder in proportion to what it has."""
    rows = {name: offset - start[name] for name, offset in end.items()}
    total = sum(rows.values())
    if total <= most:
        return end
    found = {name: count * most // total for name, count in rows.items()}
    rest = most - sum(found.values())
    for name in sorted(rows, key=lambda each: rows[each] - found[each], reverse=True)[:rest]:
        found[name] += 1
    return {name: start[name] + count for name, count in found.items()}
