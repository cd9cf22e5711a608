"""Segments: valid blocks, truncation after a crash, and corrupt blocks."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from zenspark.errors import CorruptJournal, JournalError, JournalFull
from zenspark.journal.format import (
    EMPTY_TIME_RANGE,
    ENTRY_SIZE,
    HEADER_SIZE,
    BlockHeader,
    IndexEntry,
    index_file,
    segment_file,
)
from zenspark.journal.segment import SegmentIndex, SegmentWriter, find_valid_prefix, list_segments, read_block

PAYLOAD = b"twelve bytes"


def block(first: int, payload: bytes = PAYLOAD, received: int = 0) -> BlockHeader:
    return BlockHeader(2, len(payload), first, (received, received), EMPTY_TIME_RANGE, zlib.crc32(payload))


def append(writer: SegmentWriter, received: int = 0) -> None:
    writer.append(block(writer.end, received=received), [memoryview(PAYLOAD)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three blocks of two rows."""
    writer = SegmentWriter(tmp_path, 0, "flush")
    for received in (10, 20, 30):
        append(writer, received)
    writer.close()
    return tmp_path


@pytest.fixture
def index(path: Path) -> Iterator[SegmentIndex]:
    with SegmentIndex(path, 0) as opened:
        yield opened


def test_index_finds_blocks_by_offset_and_time(index: SegmentIndex) -> None:
    assert (index.count, index.end) == (3, 6)
    assert [index.find_block(offset) for offset in range(7)] == [0, 0, 1, 1, 2, 2, 3]
    assert [index.find_block_at(time) for time in (0, 10, 11, 30, 31)] == [0, 0, 1, 2, 3]
    assert [entry.block.first for entry in index.entries(1)] == [2, 4]


def test_index_finds_blocks_by_time_after_clock_was_set_back(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, 0)
    times = [10, 30, 5, 40, 7] * 200
    for received in times:
        append(writer, received)
    writer.close()
    with SegmentIndex(tmp_path, 0) as index:
        assert [index.find_block_at(time) for time in (0, 10, 11, 31, 41)] == [0, 0, 1, 3, 1000]
        assert [index.find_block_at(31, start) for start in (3, 4, 700, 999)] == [3, 8, 703, 1000]
        assert index.last_received == 40


def test_blocks_round_trip(path: Path, index: SegmentIndex) -> None:
    with open(segment_file(path, 0), "rb", buffering=0) as file:
        assert [read_block(file, path, entry) for entry in index.entries()] == [PAYLOAD] * 3


def test_reopened_segment_continues_at_its_end(path: Path) -> None:
    writer = SegmentWriter(path, 0)
    assert (writer.count, writer.end, writer.cut, writer.damaged) == (3, 6, None, 0)
    assert writer.age(0.00003) == pytest.approx(0.00002)
    append(writer)
    writer.sync()
    writer.close()
    assert find_valid_prefix(path, 0)[:3] == (4, 4 * (HEADER_SIZE + len(PAYLOAD)), 8)
    assert list_segments(path) == [0]


@pytest.mark.slow
def test_segment_truncated_at_any_byte_is_recovered(path: Path) -> None:
    """However much a crash left of the last block, all blocks before it are kept, and the rest is truncated."""
    blocks, entries = segment_file(path, 0).read_bytes(), index_file(path, 0).read_bytes()
    whole = len(blocks) // 3
    for end in range(2 * whole, len(blocks)):
        for entries_end in (2 * ENTRY_SIZE, 2 * ENTRY_SIZE + 1, 3 * ENTRY_SIZE - 1, 3 * ENTRY_SIZE):
            segment_file(path, 0).write_bytes(blocks[:end])
            index_file(path, 0).write_bytes(entries[:entries_end])
            writer = SegmentWriter(path, 0)
            assert (writer.count, writer.end) == (2, 4)
            is_torn = end > 2 * whole or entries_end > 2 * ENTRY_SIZE
            assert (writer.cut is not None) is is_torn
            if writer.cut is not None:
                assert (writer.cut.bytes, writer.cut.entries) == (end - 2 * whole, entries_end > 2 * ENTRY_SIZE)
            writer.close()
            assert segment_file(path, 0).read_bytes() == blocks[: 2 * whole]
            assert index_file(path, 0).read_bytes() == entries[: 2 * ENTRY_SIZE]


@pytest.mark.slow
def test_index_truncated_at_any_byte_is_recovered(path: Path) -> None:
    blocks, entries = segment_file(path, 0).read_bytes(), index_file(path, 0).read_bytes()
    for end in range(len(entries)):
        segment_file(path, 0).write_bytes(blocks)
        index_file(path, 0).write_bytes(entries[:end])
        writer = SegmentWriter(path, 0)
        assert writer.end == end // ENTRY_SIZE * 2
        append(writer)
        writer.close()
        assert find_valid_prefix(path, 0).end == end // ENTRY_SIZE * 2 + 2


@pytest.mark.parametrize("what", [segment_file, index_file])
def test_corrupt_block_keeps_valid_blocks_after_it(path: Path, what: object) -> None:
    file: Path = what(path, 0)  # type: ignore[operator]
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    writer = SegmentWriter(path, 0)
    assert (writer.count, writer.end, writer.cut, writer.damaged) == (3, 6, None, 1)
    writer.close()
    assert file.read_bytes() == bytes(raw)


def test_valid_block_out_of_sequence_is_damaged(path: Path) -> None:
    stray = IndexEntry(0, block(0))
    with open(index_file(path, 0), "ab") as file:
        file.write(stray.to_bytes())
    writer = SegmentWriter(path, 0)
    assert (writer.count, writer.end) == (3, 6)
    writer.close()


def test_entry_with_excessive_length_allocates_no_memory(path: Path, index: SegmentIndex) -> None:
    huge = IndexEntry(0, block(0)._replace(length=1 << 60))
    with open(segment_file(path, 0), "rb", buffering=0) as file, pytest.raises(CorruptJournal):
        read_block(file, path, huge)


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_failed_write_is_truncated(path: Path, failing: int, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SegmentWriter(path, 0)
    real, calls = os.write, iter(range(1, 10))

    def write(file: int, data: memoryview) -> int:
        if next(calls) == failing:
            real(file, data[:3])
            raise OSError(number, os.strerror(number))
        return real(file, data)

    before = segment_file(path, 0).read_bytes(), index_file(path, 0).read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        with pytest.raises(JournalFull if number == errno.ENOSPC else JournalError, match=r"\.segment"):
            append(writer)
    assert (segment_file(path, 0).read_bytes(), index_file(path, 0).read_bytes()) == before
    append(writer)
    writer.close()
    assert find_valid_prefix(path, 0).end == 8


def test_failed_fsync_raises(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "nothing works")

    writer = SegmentWriter(path, 0)
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(JournalError, match="nothing works"):
        writer.sync()
    writer.close()
