"""Segments: the files of a journal that hold its rows, each with its index beside it.

A block counts when its entry is in the index. So a block is written first, then, if the policy wants that, made to stay
on the disk, and then its entry is written. Whatever a crash leaves behind that is less than this is cut away before
anything is written again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

from zenspark.errors import CorruptJournal, NoJournal
from zenspark.journal.failures import read_errors, write_failure
from zenspark.journal.format import (
    EMPTY_TIME_RANGE,
    ENTRY_SIZE,
    FILE_MODE,
    HEADER_SIZE,
    INDEX,
    LAST_RECEIVED_STRUCT,
    BlockHeader,
    IndexEntry,
    index_file,
    parse_offset,
    segment_file,
)
from zenspark.journal.policy import Fsync

ENTRIES_PER_READ = 256
"""How many entries are read at once."""
WRITE_CHUNK_BYTES = 1 << 19
"""Bytes written at once: of more, Linux looks for large pages in vain, which was seen to take five times as long."""


def list_segments(path: Path, suffix: str = INDEX) -> list[int]:
    """The first offsets of the segments in a directory, in order."""
    try:
        with read_errors(path), os.scandir(path) as entries:
            found = [parse_offset(entry.name, suffix) for entry in entries]
    except FileNotFoundError:
        raise NoJournal(str(path), "there is no such directory") from None
    return sorted(offset for offset in found if offset is not None)


# --- to read ----------------------------------------------------------------------------------------------------------


class SegmentIndex:
    """The entries of one segment, as many as there were when it was opened; read as they are needed."""

    def __init__(self, path: Path, first: int) -> None:
        self.path = index_file(path, first)
        self.first = first
        with read_errors(self.path):
            self._file: BinaryIO = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
        self.count = os.fstat(self._file.fileno()).st_size // ENTRY_SIZE
        """Half an entry at the end is not one yet."""
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
        """One of them; raises `CorruptJournal` if it is not what was written."""
        start, raw = self._chunk
        if not start <= number < start + len(raw) // ENTRY_SIZE:
            start, raw = self._chunk = (number, self._read(number))
        place = (number - start) * ENTRY_SIZE
        entry = IndexEntry.from_bytes(raw[place : place + ENTRY_SIZE])
        if entry is None:
            raise CorruptJournal(str(self.path), number * ENTRY_SIZE, "an entry of the index")
        return entry

    def _read(self, number: int) -> bytes:
        with read_errors(self.path):
            self._file.seek(number * ENTRY_SIZE)
            return self._file.read(min(ENTRIES_PER_READ, self.count - number) * ENTRY_SIZE)

    def entries(self, start: int = 0) -> Iterator[IndexEntry]:
        """All from one on."""
        return (self.entry(number) for number in range(start, self.count))

    @property
    def end(self) -> int:
        """The offset behind the last row."""
        return self.entry(self.count - 1).block.end if self.count else self.first

    def find_block(self, offset: int) -> int:
        """The number of the block that has a row; how many there are if none does."""
        return self._bisect(lambda entry: entry.block.end > offset)

    def find_block_at(self, time_us: int, start: int = 0) -> int:
        """The number of the first block, from one on, with a row received at this time or later; `count` if none has.

        Every block before it is looked at: a clock that was set back makes later blocks older than earlier ones.
        """
        for place in range(start, self.count, ENTRIES_PER_READ):
            for number, (last,) in enumerate(self._times(place)):
                if last >= time_us:
                    return place + number
        return self.count

    @property
    def last_received(self) -> int:
        """When the last row was received, by any block's clock; the least time there is if there are no rows."""
        found = (last for place in range(0, self.count, ENTRIES_PER_READ) for (last,) in self._times(place))
        return max(found, default=EMPTY_TIME_RANGE[1])

    def _times(self, number: int) -> Iterator[tuple[int]]:
        return LAST_RECEIVED_STRUCT.iter_unpack(self._whole(number))

    def _whole(self, number: int) -> bytes:
        """Entries from one on, none of them cut in two."""
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


def read_block(file: BinaryIO, path: Path, entry: IndexEntry) -> bytes:
    """The bytes of a block behind its header; raises `CorruptJournal` unless they are those that were written."""
    block = entry.block
    rows = (block.first, block.end - 1)
    if entry.stop > os.fstat(file.fileno()).st_size:  # looked at before so much memory is taken
        raise CorruptJournal(str(path), entry.position, f"a block of {block.length} bytes", rows)
    with read_errors(path):
        file.seek(entry.position)
        header = file.read(HEADER_SIZE)
        raw = file.read(block.length)
    if header != block.to_bytes():
        raise CorruptJournal(str(path), entry.position, "the header of a block as the index has it", rows)
    if len(raw) != block.length or zlib.crc32(raw) != block.checksum:
        expected = f"{block.length} bytes with the checksum {block.checksum:08x}"
        raise CorruptJournal(str(path), entry.position + HEADER_SIZE, expected, rows)
    return raw


# --- to write ---------------------------------------------------------------------------------------------------------


class Truncation(NamedTuple):
    """What was cut away at the end of a segment: bytes that were never acknowledged, and entries that did not fit."""

    file: str
    bytes: int
    entries: int


class ValidPrefix(NamedTuple):
    """How much of a segment is kept: so many entries, up to a position and an offset; when the first row came."""

    entries: int = 0
    position: int = 0
    end: int = 0
    received: int = 0
    damaged: int = 0
    """How many of its blocks are not as they were written. They stay where they are, with whole ones behind them."""


def find_valid_prefix(path: Path, first: int) -> ValidPrefix:
    """Everything in a segment up to its last whole block."""
    kept, damaged = ValidPrefix(end=first), 0
    with SegmentIndex(path, first) as index, open(segment_file(path, first), "rb", buffering=0) as file:
        for number in range(index.count):
            try:
                entry = index.entry(number)
                read_block(file, Path(file.name), entry)
            except CorruptJournal:
                damaged += 1
                continue
            if entry.position < kept.position or entry.block.first < kept.end:
                damaged += 1  # whole, but not where it belongs
                continue
            kept = ValidPrefix(
                number + 1, entry.stop, entry.block.end, kept.received or entry.block.received[0], damaged
            )
    return kept


class SegmentWriter:
    """The segment that is written. What a crash left at its end is cut away; `cut` says what, if anything."""

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
        """Find the end of what is whole, and cut away what follows it."""
        if self._fsync != "never":
            sync_directory(path)
        self.count, self.position, self.end, self._first_received, self.damaged = find_valid_prefix(path, first)
        bytes_more = os.fstat(self._blocks).st_size - self.position
        index_more = os.fstat(self._index).st_size - self.count * ENTRY_SIZE
        self.cut: Truncation | None = None
        if bytes_more or index_more:
            self.cut = Truncation(str(self.path), max(bytes_more, 0), -(-index_more // ENTRY_SIZE))
        self._cut_back()

    def age(self, now: float) -> float:
        """Seconds since its first row was received."""
        if not self.count:
            return 0.0
        return max(now - self._first_received / 1e6, 0.0)

    def append(self, block: BlockHeader, payload: Sequence[memoryview]) -> None:
        """Write a block, given in parts, and acknowledge it: all of it, or nothing and an error."""
        entry = IndexEntry(self.position, block)
        try:
            for part in (memoryview(block.to_bytes()), *payload):
                _write_all(self._blocks, part)
            if self._fsync == "flush":  # before it is acknowledged
                os.fsync(self._blocks)
            _write_all(self._index, memoryview(entry.to_bytes()))
        except OSError as error:
            self._cut_back()
            raise write_failure(self.path, error) from error
        self.count, self.position, self.end = self.count + 1, entry.stop, block.end

    def sync(self) -> None:
        """Make all of it stay on the disk."""
        try:
            os.fsync(self._blocks)
            os.fsync(self._index)
        except OSError as error:
            raise write_failure(self.path, error) from error

    def close(self) -> None:
        os.close(self._blocks)
        os.close(self._index)

    def _cut_back(self) -> None:
        """To what is acknowledged; what cannot be cut away now is written over."""
        for file, size in ((self._index, self.count * ENTRY_SIZE), (self._blocks, self.position)):
            os.lseek(file, size, os.SEEK_SET)
            with suppress(OSError):
                os.ftruncate(file, size)


def _write_all(file: int, data: memoryview) -> None:
    while data:
        data = data[os.write(file, data[:WRITE_CHUNK_BYTES]) :]


def sync_directory(path: Path) -> None:
    """Make the names in a directory stay on the disk, where the system can do that."""
    if os.name == "nt":
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
