"""Stream source: at least once from the journal on, exactly once with a checkpoint; best effort before the journal.

An offset is a dictionary from recorder to row number: the same two offsets denote the same rows in any process, as long
as the journal keeps them. One additional entry, `@reader`, is a random number that a new query draws and its checkpoint
keeps: it identifies the query to the journals, whatever its other options become.

Spark creates the reader in several Python processes. One of them lives as long as the query: there Spark calls
`initialOffset`, `latestOffset`, `partitions` and `commit`, and only there the recorder of a stream that records runs.
Those in other processes are sent to workers, which only read slices of journals.
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
from zenspark.spark.source.journal_set import JournalSet, RecorderOffsets

if TYPE_CHECKING:
    from zenspark.spark.source.recorder import StreamRecorder


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
"""Schema of journal slices as rows: the fields of `zenspark.journal.Slice`."""
READER_BITS = 52
"""Bits of the reader id in offsets: every JSON parser represents it exactly."""


def schema_of(options: StreamOptions) -> pa.Schema:
    """Return the columns of the rows; a journal that the stream records need not exist yet."""
    if options.slices:
        return SLICES
    return read_schema(SAMPLES) if options.subscribe else JournalSet(options.journal).schema


class ZenohStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one or several journals as they grow; see the module for offsets and processes."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self._target: RecorderOffsets | None = None
        """End of an availableNow query."""

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_target": None}

    @cached_property
    def recording(self) -> StreamRecorder | None:
        """The recorder of a stream that records; only in the Python process in which Spark calls `latestOffset`."""
        if not self.options.subscribe:
            return None
        from zenspark.spark.source.recorder import (
            StreamRecorder,  # imported here: workers that only read need no recorder
        )

        return StreamRecorder(self.options)

    @cached_property
    def journals(self) -> JournalSet:
        if self.recording is not None:
            self.recording.check()
        return JournalSet(self.options.journal)

    @cached_property
    def _new_reader_id(self) -> int:
        """Reader id of a new query; cached, because Spark requests the initial offset more than once."""
        return secrets.randbits(READER_BITS)

    def reader_name_of(self, offset: Mapping[str, int]) -> str:
        """Return the reader name under which the journals store the progress of the query with this offset.

        Tuning a query does not change it. Old checkpoints without a reader id share one name per journal.
        """
        if self.options.reader is not None:
            return self.options.reader
        if READER_ENTRY in offset:
            return _reader_name(offset[READER_ENTRY])
        sources = msgspec.json.encode([sorted(self.options.journal), sorted(self.options.subscribe)])
        return f"spark-{hashlib.sha256(sources).hexdigest()[:16]}"

    # --- offsets

    def initialOffset(self) -> RecorderOffsets:
        """Return the start of a new query, and attach it to the journals, which keep unread rows from now on."""
        options = self.options
        offsets = self.journals.resolve_offsets(options.starting_offsets, options.starting_timestamp)
        start = self.journals.available_offsets(offsets, options.fail_on_data_loss)
        if options.reader is None:
            start[READER_ENTRY] = self._new_reader_id
        self.commit(start)
        return start

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch: Spark accepts one of rows and bytes, the other is applied with it."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self.options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: RecorderOffsets, limit: ReadLimit) -> RecorderOffsets:
        """Return the end of the next batch."""
        if self.recording is not None:
            self.recording.check()
        reader_entry = {READER_ENTRY: start[READER_ENTRY]} if READER_ENTRY in start else {}
        begin = self._available_start(start)
        end = self._end(begin, limit)
        if self._target is not None and end == begin:
            # Spark commits a batch when it plans the next one, and there is none: commit the last one here.
            self.commit(end | reader_entry)
        return end | reader_entry

    def _end(self, start: RecorderOffsets, limit: ReadLimit) -> RecorderOffsets:
        target = self._target or self.journals.latest()
        # a target set before the journal lost rows may be before the start
        end = {name: max(offset, target.get(name, offset)) for name, offset in start.items()}
        match limit:
            case ReadMaxRows():
                end, max_bytes = limit_rows(start, end, limit.max_rows), self.options.max_bytes_per_trigger
                return end if max_bytes is None else self.journals.limit_bytes(start, end, max_bytes)
            case ReadMaxBytes():
                return self.journals.limit_bytes(start, end, limit.max_bytes)
            case ReadMinRows() if sum(end.values()) - sum(start.values()) < limit.min_rows and self._target is None:
                return start
            case _:
                return end

    def _available_start(self, start: Mapping[str, int]) -> RecorderOffsets:
        """Return the start with all current recorders: a new one is read from its beginning."""
        offsets = {name: offset for name, offset in start.items() if name != READER_ENTRY}
        available = self.journals.available_offsets(offsets, self.options.fail_on_data_loss)
        journals = self.journals.by_recorder
        return {
            name: available[name] if name in available else journal.earliest() for name, journal in journals.items()
        }

    def reportLatestOffset(self) -> RecorderOffsets:
        """Return the latest offsets, for the progress of the query."""
        return self.journals.latest()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.journals.latest()

    # --- rows

    def partitions(self, start: RecorderOffsets, end: RecorderOffsets) -> list[InputPartition]:
        """Return the slices of one batch, one per task; with option slices, one task returns all of them as rows."""
        options = self.options
        begin = {name: offset for name, offset in self._available_start(start).items() if name in end}
        parts = self.journals.slices(begin, end, options.min_partitions, options.parallelism)
        if options.slices:
            return [InputPartition(parts)] if parts else []
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one slice, or with option slices a row for each slice."""
        if self.options.slices:
            rows = [msgspec.structs.asdict(part) for part in partition.value]
            return iter([pa.RecordBatch.from_pylist(rows, schema=SLICES)])
        batches: Iterator[pa.RecordBatch] = partition.value.batches()
        return batches

    def commit(self, end: RecorderOffsets) -> None:
        """Commit the offsets to the journals, so that they can be trimmed."""
        reader = self.reader_name_of(end)
        for name, journal in self.journals.by_recorder.items():
            if name in end:
                journal.commit(reader, end[name])
                if READER_ENTRY in end and reader != _reader_name(end[READER_ENTRY]):
                    journal.forget(_reader_name(end[READER_ENTRY]))  # option reader was set since

    def stop(self) -> None:
        """Stop the recorder, if there is one."""
        if "recording" in self.__dict__ and self.recording is not None:
            self.recording.stop()


def _reader_name(reader: int) -> str:
    return f"spark-{reader:013x}"


def limit_rows(start: RecorderOffsets, end: RecorderOffsets, max_rows: int) -> RecorderOffsets:
    """Limit the end to `max_rows` rows after the start, from each recorder in proportion to its backlog."""
    rows = {name: offset - start[name] for name, offset in end.items()}
    total = sum(rows.values())
    if total <= max_rows:
        return end
    limited = {name: count * max_rows // total for name, count in rows.items()}
    rest = max_rows - sum(limited.values())
    for name in sorted(rows, key=lambda recorder: rows[recorder] - limited[recorder], reverse=True)[:rest]:
        limited[name] += 1
    return {name: start[name] + count for name, count in limited.items()}
