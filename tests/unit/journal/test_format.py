"""Headers, entries and names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.arrow import SCHEMA
from zenspark.errors import UsageError
from zenspark.journal.format import (
    EMPTY_TIME_RANGE,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_SUFFIX,
    LAST_RECEIVED_STRUCT,
    SCHEMAS,
    SEGMENT_SUFFIX,
    BlockHeader,
    IndexEntry,
    Manifest,
    index_file,
    journal_directory,
    parse_offset,
    read_schema,
    segment_file,
    write_file,
)

TIMES = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
BLOCKS = st.builds(BlockHeader, U32, U64, U64, TIMES, TIMES, U32)


@pytest.mark.slow
@given(BLOCKS, U64)
def test_headers_and_entries_round_trip(block: BlockHeader, position: int) -> None:
    assert len(block.to_bytes()) == HEADER_SIZE == 64
    assert BlockHeader.from_bytes(block.to_bytes()) == block
    entry = IndexEntry(position, block)
    assert len(entry.to_bytes()) == ENTRY_SIZE == 72
    assert IndexEntry.from_bytes(entry.to_bytes()) == entry


@given(st.binary(max_size=100))
def test_invalid_bytes_decode_to_none(raw: bytes) -> None:
    assert BlockHeader.from_bytes(raw) is None
    assert IndexEntry.from_bytes(raw) is None


def test_every_bit_flip_in_a_header_is_detected() -> None:
    raw = BlockHeader(1, 2, 3, (4, 5), EMPTY_TIME_RANGE, 6).to_bytes()
    for place in range(len(raw) * 8):
        changed = bytearray(raw)
        changed[place // 8] ^= 1 << place % 8
        assert BlockHeader.from_bytes(bytes(changed)) is None


def test_names_sort_as_offsets_do() -> None:
    offsets = [0, 9, 10, 2**63]
    names = [segment_file(Path(), offset).name for offset in offsets]
    assert sorted(names) == names
    assert [parse_offset(name, SEGMENT_SUFFIX) for name in names] == offsets
    assert parse_offset(index_file(Path(), 7).name, INDEX_SUFFIX) == 7


@pytest.mark.parametrize("name", ["journal.json", "7.index", "0000000000000000000x.index", f"{7:020}.segment"])
def test_other_file_names_have_no_offset(name: str) -> None:
    assert parse_offset(name, INDEX_SUFFIX) is None


def test_read_schema_ends_with_recorder_and_offset() -> None:
    assert read_schema("samples").names == [*SCHEMA.names, "recorder", "offset"]
    assert set(SCHEMAS) == {"samples", "sessions", "declarations", "counters"}


def test_manifest_round_trips(tmp_path: Path) -> None:
    made = Manifest.new("r", "sessions")
    (tmp_path / "journal.json").write_text(made.to_json())
    assert Manifest.read(tmp_path) == made


def test_journal_directory_must_be_local() -> None:
    for path in ("journal", "/a/journal", "a:b/c", "C:/journal"):
        assert journal_directory(path) == Path(path)
    for uri in ("s3://bucket/journal", Path("s3://bucket/journal")):
        with pytest.raises(UsageError, match=r"^s3://bucket/journal: a journal is a directory on this machine"):
            journal_directory(uri)
    with pytest.raises(UsageError, match="cannot contain a null character"):
        journal_directory("a\0b")


def test_last_received_struct_decodes_the_last_time() -> None:
    entry = IndexEntry(7, BlockHeader(1, 2, 3, (4, 5), (6, 7), 8))
    assert LAST_RECEIVED_STRUCT.unpack(entry.to_bytes()) == (5,)


@pytest.mark.skipif(os.name == "nt", reason="no permissions of this kind")
def test_file_is_written_completely_with_restricted_permissions(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_file(tmp_path / "file", "é" * 1000)
        write_file(tmp_path / "file", "é" * 10)
    finally:
        os.umask(before)
    assert (tmp_path / "file").read_text() == "é" * 10
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
