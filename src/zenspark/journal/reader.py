"""Journal: reads the rows of a journal, in any process, while it is written.

Nothing is kept open between two calls, so a journal pickles, and works in threads and after a fork. What is kept is the
list of segments once found. A reader at the end goes on from there: the name of the next segment is the end of the
last, so nothing is listed again, however many segments there are.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.errors import CorruptJournal, OffsetOutOfRange
from zenspark.journal.block_codec import TEXT_TYPE, decode_columns
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
    """Rows of a journal from one offset up to before another: small, pickles, and gives the same rows anywhere."""

    path: str
    recorder: str
    rows: str
    """What they are: samples, sessions or declarations."""
    start: int
    end: int
    segment: int
    """Where to look first, so that nothing has to be searched."""

    @property
    def num_rows(self) -> int:
        return self.end - self.start

    def batches(self, texts: pa.DataType = TEXT_TYPE) -> Iterator[pa.RecordBatch]:
        """The rows, a record batch for each block; texts as WORDS cost least where they are only passed on."""
        segment, offset = self.segment, self.start
        while offset < self.end:
            path = segment_file(Path(self.path), segment)
            index, blocks = self._open(segment, offset)
            with index, blocks:
                for entry in iter_blocks(index, offset, self.end):
                    yield self.rows_of_block(path, entry, read_block(blocks, path, entry), texts)
                    segment = offset = entry.block.end

    def _open(self, segment: int, offset: int) -> tuple[SegmentIndex, BinaryIO]:
        """A segment and its index; raises `OffsetOutOfRange` if they were trimmed away."""
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
            if index_file(Path(self.path), segment).exists():  # which is what trimming removes first
                raise CorruptJournal(str(path), 0, "the blocks that its index names, found no file") from None
            journal = Journal(self.path)
            raise OffsetOutOfRange(self.path, offset, journal.earliest(), journal.latest()) from None

    def rows_of_block(self, path: Path, entry: IndexEntry, raw: bytes, texts: pa.DataType) -> pa.RecordBatch:
        """The rows of this part that a block has; `raw` are its bytes, and `path` where they are from."""
        block = entry.block
        try:
            packed = pa.ipc.open_stream(raw).read_next_batch()
            if packed.num_rows != block.rows:
                raise ValueError(f"the header says {block.rows}, there are {packed.num_rows}")
            rows = decode_columns(packed, read_schema(self.rows), self.recorder, block.first, texts)
        except (pa.ArrowException, OSError, StopIteration, ValueError, TypeError, LookupError, AttributeError) as error:
            # the bytes are in memory: OSError is what Arrow makes of some that are no Arrow
            expected = f"{block.rows} rows of {self.rows} ({error})"
            raise CorruptJournal(str(path), entry.position, expected, (block.first, block.end - 1)) from error
        start, end = max(self.start - block.first, 0), min(self.end - block.first, block.rows)
        return rows[start:end]


def iter_blocks(index: SegmentIndex, start: int, end: int) -> Iterator[IndexEntry]:
    """The blocks of a segment that have rows from one offset up to before another; there must be one.

    Raises `CorruptJournal` where one does not follow from the one before.
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
    """A journal to be read. Nothing is opened until it is needed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = journal_directory(path)
        self._segments: list[int] = []
        """First offsets of the segments seen so far, in order."""
        self._last_received: dict[int, int] = {}
        """Of segments that have ended, when their last row was received."""

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_segments": [], "_last_received": {}}

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r})"

    @cached_property
    def manifest(self) -> Manifest:
        """What `journal.json` says; raises `NoJournal` if this is not a journal."""
        return Manifest.read(self.path)

    @property
    def recorder(self) -> str:
        """The name of who writes it."""
        return self.manifest.recorder

    @property
    def rows(self) -> str:
        """What its rows are: samples, sessions or declarations."""
        return self.manifest.rows

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that are read."""
        return read_schema(self.rows)

    # --- where it begins and ends

    def earliest(self) -> int:
        """The offset of the first row that is kept."""
        known = self._known()
        if known and not self._has(known[0]):
            known = self._list()
        return known[0] if known else 0

    def latest(self) -> int:
        """The offset behind the last row that is acknowledged."""
        known = self._known()
        if not known:
            return 0
        while True:
            end = self._end(known[-1])
            if end is None:  # it was trimmed away while nobody looked
                known = self._list()
            elif end > known[-1] and self._has(end):
                known = self._segments = [*known, end]
            else:
                return end

    def offset_at(self, time_us: int) -> int:
        """The offset of the first row received at this time (microseconds since 1970) or later; `latest` if none is.

        No row received at that time or later has a lesser offset, also where the clock was set back.
        """
        self.earliest()  # looks again if the first segments known are gone
        latest = self.latest()
        for block in self._blocks_at(time_us):
            (batch,) = self._slice(block.first, block.end).batches()
            times = batch.column(TIME_COLUMNS[self.rows]).cast(pa.int64())
            place = pc.index(pc.greater_equal(times, time_us), True).as_py()
            if place >= 0:
                return int(block.first + place)
        return latest

    def received_at(self, offset: int) -> int:
        """About when a row was received, in microseconds since 1970: the earliest time in its block."""
        self._check(offset, offset + 1)
        _, entry = next(self._blocks(offset, offset + 1))
        return entry.block.received[0]

    def _blocks_at(self, time_us: int) -> Iterator[BlockHeader]:
        """The blocks whose header says that they have a row received at this time or later."""
        segments = list(self._segments)
        for segment in segments:
            if self._last_received.get(segment, time_us) < time_us:
                continue
            try:
                opened = SegmentIndex(self.path, segment)
            except FileNotFoundError:
                continue  # trimmed away meanwhile
            with opened as index:
                place = index.find_block_at(time_us)
                if place == index.count and segment != segments[-1]:  # nothing is appended to it any more
                    self._last_received[segment] = index.last_received
                while place < index.count:
                    yield index.entry(place).block
                    place = index.find_block_at(time_us, place + 1)

    # --- rows

    def read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Exactly the rows from one offset up to before another, as record batches."""
        self._check(start, end)
        return self._slice(start, end).batches()

    def size(self, start: int, end: int) -> int:
        """About how many bytes these rows take: those of all blocks that have some of them."""
        self._check(start, end)
        return sum(entry.block.length for _, entry in self._blocks(start, end))

    def slices(self, start: int, end: int, count: int) -> list[Slice]:
        """The same rows in at most so many parts of about equal size in bytes, cut between blocks."""
        self._check(start, end)
        blocks = list(self._blocks(start, end))
        aim = sum(entry.block.length for _, entry in blocks) / max(count, 1)
        found: list[Slice] = []
        size, begun = 0, start
        segment = blocks[0][0] if blocks else 0
        for number, (place, entry) in enumerate(blocks):
            size += entry.block.length
            if size >= aim * (len(found) + 1) or number == len(blocks) - 1:
                stop = min(entry.block.end, end)
                found.append(Slice(str(self.path), self.recorder, self.rows, begun, stop, segment))
                begun = stop
                segment = blocks[number + 1][0] if number + 1 < len(blocks) else place
        return found

    def _blocks(self, start: int, end: int) -> Iterator[tuple[int, IndexEntry]]:
        """The blocks that have these rows, each with the segment it is in."""
        offset = start
        while offset < end:
            segment = self._segment_of(offset)
            with self._open(segment) as index:
                for entry in iter_blocks(index, offset, end):
                    yield segment, entry
                    offset = entry.block.end

    def _slice(self, start: int, end: int) -> Slice:
        segment = self._segment_of(start) if start < end else 0
        return Slice(str(self.path), self.recorder, self.rows, start, end, segment)

    def _check(self, start: int, end: int) -> None:
        earliest, latest = self.earliest(), self.latest()
        for offset in (start, end):
            if not earliest <= offset <= latest:
                raise OffsetOutOfRange(str(self.path), offset, earliest, latest)

    # --- readers

    def commit(self, reader: str, offset: int, description: str | None = None) -> None:
        """Note that a reader needs nothing before this offset any more; it is attached from now on.

        What it is may be told to people in a description, which is kept when it commits again without one.
        """
        self.manifest  # noqa: B018 - nothing is written where there is no journal
        ReaderOffsets(self.path).write(reader, offset, description)

    def refresh(self, reader: str) -> None:
        """Note that a reader is still there, so that it does not expire while it has nothing to commit."""
        ReaderOffsets(self.path).refresh(reader)

    def committed(self, reader: str) -> int | None:
        """How far a reader has come; None if it is not attached."""
        return ReaderOffsets(self.path).read(reader)

    def readers(self) -> dict[str, int]:
        """All attached readers, and how far they have come."""
        return ReaderOffsets(self.path).offsets()

    def reader_names(self) -> list[str]:
        """The names of all attached readers, also of those whose file cannot be read."""
        return ReaderOffsets(self.path).names()

    def attached(self) -> list[AttachedReader]:
        """All attached readers with what is known of them, by name."""
        return ReaderOffsets(self.path).readers()

    def forget(self, reader: str) -> None:
        """Detach a reader: nothing is kept for it any more."""
        ReaderOffsets(self.path).remove(reader)

    # --- segments

    def _known(self) -> list[int]:
        """The segments, listed only if none has been seen yet."""
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
        """The first offset of the segment that has a row, which must be there."""
        place = bisect_right(self._segments, offset)
        if place == 0:
            raise OffsetOutOfRange(str(self.path), offset, self.earliest(), self.latest())
        return self._segments[place - 1]
