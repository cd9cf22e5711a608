"""Journal: reads the rows of a journal, in any process, while it is written.

No file is kept open between two calls, so a journal can be pickled, and used in threads and after a fork. The list of
segments is cached. A reader at the end continues from there: the name of the next segment is the end offset of the
last, so the directory is not listed again, however many segments there are.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.errors import CorruptJournal, OffsetOutOfRange
from zenspark.journal.block_codec import TEXT_TYPE, decode_columns
from zenspark.journal.block_merge import decode_group, group_blocks
from zenspark.journal.failures import read_errors
from zenspark.journal.format import (
    ENTRY_SIZE,
    TIME_COLUMNS,
    BlockHeader,
    IndexEntry,
    Manifest,
    index_file,
    journal_directory,
    read_schema,
    segment_file,
)
from zenspark.journal.reader_offsets import AttachedReader, ReaderOffsets
from zenspark.journal.segment import SegmentIndex, list_segments, read_block


class Slice(msgspec.Struct, frozen=True):
    """A half-open range of rows of a journal: small, can be pickled, and reads the same rows in any process.

    Attributes:
        path: Directory of the journal.
        recorder: Name of its recorder.
        rows: Row type: samples, sessions, declarations or counters. It is also a column of the Spark source with
            `slices`, and therefore keeps this name; elsewhere it is `row_type`.
        start: Offset of the first row.
        end: Offset after the last row.
        segment: First offset of the segment that has the first row, so that no search is needed.

    Example:
        >>> for part in journal.slices(journal.earliest(), journal.latest(), 8):
        ...     print(part.start, part.num_rows)
    """

    path: str
    recorder: str
    rows: str
    start: int
    end: int
    segment: int

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.end - self.start

    def batches(self, text_type: pa.DataType = TEXT_TYPE) -> Iterator[pa.RecordBatch]:
        """Read the rows, a record batch per block, or per group of small consecutive blocks.

        DICTIONARY_TYPE is cheapest for texts that are only copied.

        Args:
            text_type: Type of the columns of text; plain text by default.

        Returns:
            The record batches, in the order of their offsets.

        Raises:
            CorruptJournal: A block is damaged.
            OffsetOutOfRange: A row was trimmed already, or is not written yet.

        Example:
            >>> (slice,) = journal.slices(journal.earliest(), journal.latest(), 1)
            >>> rows = sum(batch.num_rows for batch in slice.batches())
        """
        segment, offset = self.segment, self.start
        while offset < self.end:
            path = segment_file(Path(self.path), segment)
            index, blocks = self._open(segment, offset)
            with index, blocks:
                for group in group_blocks(iter_blocks(index, offset, self.end)):
                    yield from self._rows_of_group(path, blocks, group, text_type)
                    segment = offset = group[-1].block.end

    def _rows_of_group(
        self, path: Path, file: FileIO, group: list[IndexEntry], text_type: pa.DataType
    ) -> Iterator[pa.RecordBatch]:
        """Read blocks as one record batch; block by block if they cannot be merged."""
        merged = decode_group(file, group, read_schema(self.rows), self.recorder, text_type)
        if merged is not None:
            yield self._clip(merged, group[0].block.first)
            return
        for entry in group:
            yield self.rows_of_block(path, entry, read_block(file, path, entry), text_type)

    def _open(self, segment: int, offset: int) -> tuple[SegmentIndex, FileIO]:
        """Open a segment and its index; raises `OffsetOutOfRange` if they were trimmed."""
        path = segment_file(Path(self.path), segment)
        try:
            index = SegmentIndex(Path(self.path), segment)
            try:
                with read_errors(path):
                    return index, open(path, "rb", buffering=0)
            except BaseException:
                index.close()
                raise
        except FileNotFoundError:
            if index_file(Path(self.path), segment).exists():  # trimming removes the index first
                raise CorruptJournal(str(path), 0, "the blocks that its index names, found no file") from None
            journal = Journal(self.path)
            raise OffsetOutOfRange(self.path, offset, journal.earliest(), journal.latest()) from None

    def rows_of_block(self, path: Path, entry: IndexEntry, raw: pa.Buffer, text_type: pa.DataType) -> pa.RecordBatch:
        """Decode the rows of a block that are in this slice.

        Args:
            path: File of the block, for error messages.
            entry: Index entry of the block.
            raw: Bytes of the block, without its header.
            text_type: Type of the columns of text.

        Returns:
            The rows of the slice.

        Raises:
            CorruptJournal: The block is damaged.

        Example:
            >>> rows = part.rows_of_block(path, entry, raw, pa.string())
        """
        block = entry.block
        try:
            encoded = pa.ipc.open_stream(raw).read_next_batch()
            if encoded.num_rows != block.rows:
                raise ValueError(f"the header has {block.rows} rows, the block {encoded.num_rows}")
            rows = decode_columns(encoded, read_schema(self.rows), self.recorder, block.first, text_type)
        except (pa.ArrowException, OSError, StopIteration, ValueError, TypeError, LookupError, AttributeError) as error:
            # the bytes are in memory: Arrow raises OSError for some invalid data
            expected = f"{block.rows} rows of {self.rows} ({error})"
            raise CorruptJournal(str(path), entry.position, expected, (block.first, block.end - 1)) from error
        return self._clip(rows, block.first)

    def _clip(self, rows: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Select the rows that are in this slice; `first` is the offset of the first row."""
        return rows[max(self.start - first, 0) : min(self.end - first, rows.num_rows)]


def iter_blocks(index: SegmentIndex, start: int, end: int) -> Iterator[IndexEntry]:
    """Yield the index entries of the blocks with rows of a half-open range; there must be one.

    Raises `CorruptJournal` if the blocks are not contiguous.
    """
    offset = start
    for number in range(index.find_block(start), index.count):
        entry = index.entry(number)
        if not entry.block.first <= offset < entry.block.end:
            raise CorruptJournal(str(index.path), number * ENTRY_SIZE, f"the block that has offset {offset}")
        yield entry
        offset = entry.block.end
        if offset >= end:
            return
    if offset == start:
        raise CorruptJournal(str(index.path), index.count * ENTRY_SIZE, f"the block that has offset {offset}")


class Journal:
    """Reader of a journal. Files are opened on demand, so it can be made before the journal exists, and pickled.

    Args:
        path: Directory of the journal.

    Raises:
        UsageError: The path is a URI, or cannot be one of a directory.

    Example:
        >>> journal = Journal("journal")
        >>> for batch in journal.read(journal.earliest(), journal.latest()):
        ...     print(batch.num_rows)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = journal_directory(path)
        self._segments: list[int] = []
        """First offsets of the cached segments, ascending."""
        self._last_received: dict[int, int] = {}
        """Last reception time of completed segments."""

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_segments": [], "_last_received": {}}

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r})"

    @cached_property
    def manifest(self) -> Manifest:
        """The content of `journal.json`; raises `NoJournal` if this is not a journal."""
        return Manifest.read(self.path)

    @property
    def recorder(self) -> str:
        """Name of its recorder."""
        return self.manifest.recorder

    @property
    def row_type(self) -> str:
        """Row type: samples, sessions, declarations or counters."""
        return self.manifest.row_type

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows that are read."""
        return read_schema(self.row_type)

    # --- offsets

    def earliest(self) -> int:
        """Offset of the first retained row.

        Returns:
            The offset; 0 if there are no rows.

        Raises:
            NoJournal: There is no journal at the path, or one that this version cannot use.

        Example:
            >>> start = journal.earliest()
        """
        segments = self._cached_segments()
        if segments and not self._has(segments[0]):
            segments = self._list()
        return segments[0] if segments else 0

    def latest(self) -> int:
        """Offset after the last acknowledged row.

        Returns:
            The offset; 0 if there are no rows.

        Raises:
            NoJournal: There is no journal at the path, or one that this version cannot use.

        Example:
            >>> rows = journal.latest() - journal.earliest()
        """
        segments = self._cached_segments()
        if not segments:
            return 0
        while True:
            end = self._end(segments[-1])
            if end is None:  # it was trimmed since the last call
                segments = self._list()
            elif end > segments[-1] and self._has(end):
                segments = self._segments = [*segments, end]
            else:
                return end

    def offset_at(self, time_us: int) -> int:
        """Return the offset of the first row received at a time or later.

        No row received at that time or later has a lower offset, even if the clock was set back.

        Args:
            time_us: The time, in microseconds since 1970.

        Returns:
            The offset; `latest()` if no row was received since.

        Raises:
            NoJournal: There is no journal at the path, or one that this version cannot use.
            CorruptJournal: A block is damaged.

        Example:
            >>> hour_ago = time.time_ns() // 1000 - 3_600_000_000
            >>> start = journal.offset_at(hour_ago)
        """
        self.earliest()  # refreshes the list if the first cached segments are gone
        latest = self.latest()
        for block in self._blocks_at(time_us):
            (batch,) = self._slice(block.first, block.end).batches()
            times = batch.column(TIME_COLUMNS[self.row_type]).cast(pa.int64())
            row = pc.index(pc.greater_equal(times, time_us), True).as_py()
            if row >= 0:
                return int(block.first + row)
        return latest

    def received_at(self, offset: int) -> int:
        """Approximate reception time of a row, in microseconds since 1970: the earliest in its block.

        Args:
            offset: Offset of the row.

        Returns:
            The time, in microseconds since 1970.

        Raises:
            OffsetOutOfRange: A row was trimmed already, or is not written yet.

        Example:
            >>> time_us = journal.received_at(journal.earliest())
        """
        self._check(offset, offset + 1)
        _, entry = next(self._blocks(offset, offset + 1))
        return entry.block.received[0]

    def _blocks_at(self, time_us: int) -> Iterator[BlockHeader]:
        """Yield the blocks that have a row received at this time or later, by their headers."""
        segments = list(self._segments)
        for segment in segments:
            if self._last_received.get(segment, time_us) < time_us:
                continue
            try:
                opened = SegmentIndex(self.path, segment)
            except FileNotFoundError:
                continue  # trimmed concurrently
            with opened as index:
                number = index.find_block_at(time_us)
                if number == index.count and segment != segments[-1]:  # the segment is complete
                    self._last_received[segment] = index.last_received
                while number < index.count:
                    yield index.entry(number).block
                    number = index.find_block_at(time_us, number + 1)

    # --- rows

    def read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Read the rows of a half-open range of offsets, as record batches.

        Args:
            start: Offset of the first row.
            end: Offset after the last row.

        Returns:
            The record batches, read one by one as they are iterated over.

        Raises:
            OffsetOutOfRange: A row was trimmed already, or is not written yet.
            CorruptJournal: A block is damaged.

        Example:
            >>> for batch in journal.read(journal.earliest(), journal.latest()):
            ...     print(batch.num_rows)
        """
        self._check(start, end)
        return self._slice(start, end).batches()

    def size(self, start: int, end: int) -> int:
        """Estimate the size of a range of rows.

        Args:
            start: Offset of the first row.
            end: Offset after the last row.

        Returns:
            The bytes of all blocks that have some of these rows.

        Raises:
            OffsetOutOfRange: A row was trimmed already, or is not written yet.

        Example:
            >>> size = journal.size(journal.earliest(), journal.latest())
        """
        self._check(start, end)
        return sum(entry.block.length for _, entry in self._blocks(start, end))

    def slices(self, start: int, end: int, count: int) -> list[Slice]:
        """Split a range of rows into slices of about equal size in bytes, at block boundaries.

        Args:
            start: Offset of the first row.
            end: Offset after the last row.
            count: Maximum number of slices.

        Returns:
            The slices, in the order of their offsets; none for an empty range.

        Raises:
            OffsetOutOfRange: A row was trimmed already, or is not written yet.

        Example:
            >>> slices = journal.slices(journal.earliest(), journal.latest(), 8)
        """
        self._check(start, end)
        blocks = list(self._blocks(start, end))
        target_size = sum(entry.block.length for _, entry in blocks) / max(count, 1)
        slices: list[Slice] = []
        size, begun = 0, start
        segment = blocks[0][0] if blocks else 0
        for number, (own_segment, entry) in enumerate(blocks):
            size += entry.block.length
            if size >= target_size * (len(slices) + 1) or number == len(blocks) - 1:
                stop = min(entry.block.end, end)
                slices.append(Slice(str(self.path), self.recorder, self.row_type, begun, stop, segment))
                begun = stop
                segment = blocks[number + 1][0] if number + 1 < len(blocks) else own_segment
        return slices

    def _blocks(self, start: int, end: int) -> Iterator[tuple[int, IndexEntry]]:
        """Yield segment and index entry of the blocks with these rows."""
        offset = start
        while offset < end:
            segment = self._segment_of(offset)
            with self._open(segment) as index:
                for entry in iter_blocks(index, offset, end):
                    yield segment, entry
                    offset = entry.block.end

    def _slice(self, start: int, end: int) -> Slice:
        segment = self._segment_of(start) if start < end else 0
        return Slice(str(self.path), self.recorder, self.row_type, start, end, segment)

    def _check(self, start: int, end: int) -> None:
        earliest, latest = self.earliest(), self.latest()
        for offset in (start, end):
            if not earliest <= offset <= latest:
                raise OffsetOutOfRange(str(self.path), offset, earliest, latest)

    # --- readers

    def commit(self, reader: str, offset: int, description: str | None = None) -> None:
        """Commit the offset of a reader: it needs no rows before it. The first commit attaches the reader.

        Args:
            reader: Name of the reader.
            offset: Offset of the first row that the reader still needs.
            description: Text for operators; that of an earlier commit by default.

        Raises:
            UsageError: The name is empty, or the offset is negative.
            NoJournal: There is no journal at the path, or one that this version cannot use.

        Example:
            >>> journal.commit("export", journal.latest())
        """
        self.manifest  # noqa: B018 - raises if there is no journal
        ReaderOffsets(self.path).write(reader, offset, description)

    def refresh(self, reader: str) -> None:
        """Renew the registration of a reader, so that it does not expire while it has nothing to commit.

        Args:
            reader: Name of the reader.

        Example:
            >>> journal.refresh("export")
        """
        ReaderOffsets(self.path).touch(reader)

    def committed(self, reader: str) -> int | None:
        """Committed offset of a reader; None if it is not attached.

        Args:
            reader: Name of the reader.

        Returns:
            The offset; None if the reader is not attached.

        Raises:
            JournalError: The journal cannot be read.

        Example:
            >>> start = journal.committed("export") or journal.earliest()
        """
        return ReaderOffsets(self.path).read(reader)

    def readers(self) -> dict[str, int]:
        """Committed offsets of all attached readers.

        Returns:
            The offsets by the names of the readers.

        Raises:
            JournalError: The journal cannot be read.

        Example:
            >>> for reader, offset in journal.readers().items():
            ...     print(reader, journal.latest() - offset)
        """
        return ReaderOffsets(self.path).offsets()

    def reader_names(self) -> list[str]:
        """Return the names of all attached readers, including those whose file cannot be read.

        Returns:
            The names, sorted.

        Raises:
            JournalError: The journal cannot be read.

        Example:
            >>> journal.commit("export", 0)
            >>> journal.reader_names()
            ['export']
        """
        return ReaderOffsets(self.path).names()

    def attached(self) -> list[AttachedReader]:
        """Return all attached readers with offset, time and description.

        Returns:
            The readers, sorted by name.

        Raises:
            JournalError: The journal cannot be read.

        Example:
            >>> for reader in journal.attached():
            ...     print(reader.name, journal.latest() - reader.offset)
        """
        return ReaderOffsets(self.path).readers()

    def forget(self, reader: str) -> None:
        """Detach a reader: rows are no longer retained for it.

        Args:
            reader: Name of the reader.

        Example:
            >>> journal.forget("export")
        """
        ReaderOffsets(self.path).detach(reader)

    # --- segments

    def _cached_segments(self) -> list[int]:
        """Return the cached segments; lists the directory if there are none."""
        self.manifest  # noqa: B018 - raises if there is no journal
        return self._segments or self._list()

    def _list(self) -> list[int]:
        self._segments = list_segments(self.path)
        self._last_received = {}
        return self._segments

    def _has(self, segment: int) -> bool:
        return self._end(segment) is not None

    def _end(self, segment: int) -> int | None:
        try:
            with SegmentIndex(self.path, segment) as index:
                return index.end
        except FileNotFoundError:
            return None

    def _open(self, segment: int) -> SegmentIndex:
        try:
            return SegmentIndex(self.path, segment)
        except FileNotFoundError:
            raise OffsetOutOfRange(str(self.path), segment, self.earliest(), self.latest()) from None

    def _segment_of(self, offset: int) -> int:
        """First offset of the segment that has a row; raises `OffsetOutOfRange` if there is none."""
        index = bisect_right(self._segments, offset)
        if index == 0:
            raise OffsetOutOfRange(str(self.path), offset, self.earliest(), self.latest())
        return self._segments[index - 1]
