"""Segments: the files of a journal with its rows, each with an index file.

A block is acknowledged when its entry is in the index. So the block is written first, then, depending on the policy,
synced to the disk (fsync), and then its entry is written. Incomplete data after a crash is truncated before the next
write.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa

from zenspark.errors import CorruptJournal, NoJournal
from zenspark.journal.failures import read_errors, write_failure
from zenspark.journal.format import (
    EMPTY_TIME_RANGE,
    ENTRY_SIZE,
    FILE_MODE,
    HEADER_SIZE,
    INDEX_SUFFIX,
    LAST_RECEIVED_STRUCT,
    BlockHeader,
    IndexEntry,
    index_file,
    parse_offset,
    segment_file,
)
from zenspark.journal.policy import Fsync

ENTRIES_PER_READ = 256
"""Entries that are read at once."""
SEGMENT_WRITE_BYTES = 1 << 19
"""Bytes per write: with more, Linux searches for large pages in vain, which was measured to take five times as long."""


def list_segments(path: Path, suffix: str = INDEX_SUFFIX) -> list[int]:
    """First offsets of the segments in a directory, ascending."""
    try:
        with read_errors(path), os.scandir(path) as entries:
            offsets = [parse_offset(entry.name, suffix) for entry in entries]
    except FileNotFoundError:
        raise NoJournal(str(path), "there is no such directory") from None
    return sorted(offset for offset in offsets if offset is not None)


# --- read -------------------------------------------------------------------------------------------------------------


class SegmentIndex:
    """The index entries of one segment at the time it was opened; read on demand."""

    def __init__(self, path: Path, first: int) -> None:
        self.path = index_file(path, first)
        self.first = first
        with read_errors(self.path):
            self._file: FileIO = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
        self.count = os.fstat(self._file.fileno()).st_size // ENTRY_SIZE
        """Number of complete entries; a partial one at the end is ignored."""
        self._chunk: tuple[int, bytes] = (0, b"")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def entry(self, number: int) -> IndexEntry:
        """Read an entry; raises `CorruptJournal` if it is invalid."""
        start, raw = self._chunk
        if not start <= number < start + len(raw) // ENTRY_SIZE:
            start, raw = self._chunk = (number, self._read(number))
        position = (number - start) * ENTRY_SIZE
        entry = IndexEntry.from_bytes(raw[position : position + ENTRY_SIZE])
        if entry is None:
            raise CorruptJournal(str(self.path), number * ENTRY_SIZE, "an entry of the index")
        return entry

    def _read(self, number: int) -> bytes:
        with read_errors(self.path):
            self._file.seek(number * ENTRY_SIZE)
            return self._file.read(min(ENTRIES_PER_READ, self.count - number) * ENTRY_SIZE)

    def entries(self, start: int = 0) -> Iterator[IndexEntry]:
        """Yield the entries from number `start` on."""
        return (self.entry(number) for number in range(start, self.count))

    @property
    def end(self) -> int:
        """Offset after the last row."""
        return self.entry(self.count - 1).block.end if self.count else self.first

    def find_block(self, offset: int) -> int:
        """Number of the block that has an offset; `count` if none has."""
        return self._bisect(lambda entry: entry.block.end > offset)

    def find_block_at(self, time_us: int, start: int = 0) -> int:
        """Number of the first block, from `start` on, with a row received at this time or later; `count` if none has.

        A linear search: after a clock was set back, later blocks are older than earlier ones.
        """
        for chunk_start in range(start, self.count, ENTRIES_PER_READ):
            for number, (last,) in enumerate(self._times(chunk_start)):
                if last >= time_us:
                    return chunk_start + number
        return self.count

    @property
    def last_received(self) -> int:
        """Maximum reception time of all blocks; the minimum of 64 bits if there are no rows."""
        times = (last for chunk_start in range(0, self.count, ENTRIES_PER_READ) for (last,) in self._times(chunk_start))
        return max(times, default=EMPTY_TIME_RANGE[1])

    def _times(self, number: int) -> Iterator[tuple[int]]:
        return LAST_RECEIVED_STRUCT.iter_unpack(self._read_complete(number))

    def _read_complete(self, number: int) -> bytes:
        """Read complete entries from one on."""
        raw = self._read(number)
        return raw[: len(raw) // ENTRY_SIZE * ENTRY_SIZE]

    def _bisect(self, is_reached: Callable[[IndexEntry], bool]) -> int:
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if is_reached(self.entry(middle)):
                high = middle
            else:
                low = middle + 1
        return low


def read_block(file: FileIO, path: Path, entry: IndexEntry) -> pa.Buffer:
    """Read and verify the bytes of a block after its header; raises `CorruptJournal`.

    The buffer is of Arrow's memory pool, which keeps freed pages for the next block; `malloc` returns them each time.
    """
    block = entry.block
    rows = (block.first, block.end - 1)
    if entry.stop > os.fstat(file.fileno()).st_size:  # checked before the memory is allocated
        raise CorruptJournal(str(path), entry.position, f"a block of {block.length} bytes", rows)
    with read_errors(path):
        file.seek(entry.position)
        header = file.read(HEADER_SIZE)
        raw = pa.allocate_buffer(block.length)
        length = file.readinto(memoryview(raw))
    if header != block.to_bytes():
        raise CorruptJournal(str(path), entry.position, "the header of a block as the index has it", rows)
    if length != block.length or zlib.crc32(raw) != block.checksum:
        expected = f"{block.length} bytes with the checksum {block.checksum:08x}"
        raise CorruptJournal(str(path), entry.position + HEADER_SIZE, expected, rows)
    return raw


# --- write ------------------------------------------------------------------------------------------------------------


class Truncation(NamedTuple):
    """Data truncated at the end of a segment: unacknowledged bytes, and invalid index entries.

    Attributes:
        file: Path of the segment.
        bytes: Number of bytes that were removed.
        entries: Number of index entries that were removed.

    Example:
        >>> if writer.cut is not None:
        ...     print(writer.cut.file, writer.cut.bytes)
    """

    file: str
    bytes: int
    entries: int


class ValidPrefix(NamedTuple):
    """The valid part of a segment: number of entries, end position, end offset, and first reception time."""

    entries: int = 0
    position: int = 0
    end: int = 0
    received: int = 0
    damaged: int = 0
    """Corrupt blocks within it. They are kept, because valid blocks follow them."""


def find_valid_prefix(path: Path, first: int) -> ValidPrefix:
    """Find the part of a segment up to its last valid block."""
    prefix, damaged = ValidPrefix(end=first), 0
    with SegmentIndex(path, first) as index, open(segment_file(path, first), "rb", buffering=0) as file:
        for number in range(index.count):
            try:
                entry = index.entry(number)
                read_block(file, Path(file.name), entry)
            except CorruptJournal:
                damaged += 1
                continue
            if entry.position < prefix.position or entry.block.first < prefix.end:
                damaged += 1  # valid, but not in sequence
                continue
            prefix = ValidPrefix(
                number + 1, entry.stop, entry.block.end, prefix.received or entry.block.received[0], damaged
            )
    return prefix


class SegmentWriter:
    """Writer of the active segment. Incomplete data at its end is truncated; `cut` describes it, or is None."""

    def __init__(self, path: Path, first: int, fsync: Fsync = "never") -> None:
        self.first = first
        self.path = segment_file(path, first)
        self._fsync = fsync
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        with ExitStack() as opened:
            self._blocks = os.open(self.path, flags, FILE_MODE)
            opened.callback(os.close, self._blocks)
            self._index = os.open(index_file(path, first), flags, FILE_MODE)
            opened.callback(os.close, self._index)
            self._recover(path, first)
            opened.pop_all()

    def _recover(self, path: Path, first: int) -> None:
        """Find the end of the valid part, and truncate the rest."""
        if self._fsync != "never":
            sync_directory(path)
        self.count, self.position, self.end, self._first_received, self.damaged = find_valid_prefix(path, first)
        bytes_more = os.fstat(self._blocks).st_size - self.position
        index_more = os.fstat(self._index).st_size - self.count * ENTRY_SIZE
        self.cut: Truncation | None = None
        if bytes_more or index_more:
            self.cut = Truncation(str(self.path), max(bytes_more, 0), -(-index_more // ENTRY_SIZE))
        self._truncate()

    def age(self, now: float) -> float:
        """Seconds since its first row was received."""
        if not self.count:
            return 0.0
        return max(now - self._first_received / 1e6, 0.0)

    def append(self, block: BlockHeader, payload: Sequence[memoryview]) -> None:
        """Write and acknowledge a block, given as a list of buffers; after an error nothing of it remains."""
        entry = IndexEntry(self.position, block)
        try:
            for part in (memoryview(block.to_bytes()), *payload):
                _write_all(self._blocks, part)
            if self._fsync == "flush":  # before it is acknowledged
                os.fsync(self._blocks)
            _write_all(self._index, memoryview(entry.to_bytes()))
        except OSError as error:
            self._truncate()
            raise write_failure(self.path, error) from error
        self.count, self.position, self.end = self.count + 1, entry.stop, block.end

    def sync(self) -> None:
        """Sync segment and index to the disk (fsync)."""
        try:
            os.fsync(self._blocks)
            os.fsync(self._index)
        except OSError as error:
            raise write_failure(self.path, error) from error

    def close(self) -> None:
        os.close(self._blocks)
        os.close(self._index)

    def _truncate(self) -> None:
        """Truncate to the acknowledged data; if that fails, the next write overwrites the rest."""
        for file, size in ((self._index, self.count * ENTRY_SIZE), (self._blocks, self.position)):
            os.lseek(file, size, os.SEEK_SET)
            with suppress(OSError):
                os.ftruncate(file, size)


def _write_all(file: int, data: memoryview) -> None:
    while data:
        data = data[os.write(file, data[:SEGMENT_WRITE_BYTES]) :]


def sync_directory(path: Path) -> None:
    """Sync a directory to the disk (fsync), where the operating system supports it."""
    if os.name == "nt":
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
