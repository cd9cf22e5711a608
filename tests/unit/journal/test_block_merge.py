"""Block merge: small blocks that are read together give the rows that they give one by one."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.journal.captured import nulls_in_dictionaries
from tests.unit.journal.rows import START, batch, payloads, row
from zenspark.errors import CorruptJournal
from zenspark.journal import Journal, JournalWriter, Policy, Slice
from zenspark.journal.block_codec import DICTIONARY_TYPE, TEXT_TYPE, serialize_batch
from zenspark.journal.block_merge import (
    MAX_DECODED_BYTES,
    MAX_GROUP_BYTES,
    SMALL_BLOCK_BYTES,
    decode_group,
    group_blocks,
)
from zenspark.journal.format import EMPTY_TIME_RANGE, HEADER_SIZE, BlockHeader, IndexEntry, read_schema, segment_file
from zenspark.journal.segment import SegmentIndex, SegmentWriter, read_block

NEVER = Policy(fsync="never")


def write_blocks(path: Path, blocks: list[list[dict[str, Any]]], policy: Policy = NEVER) -> Journal:
    with JournalWriter(path, policy) as writer:
        for rows in blocks:
            writer.append(batch(*rows))
            writer.flush()
    return Journal(path)


def read_each_block(part: Slice, text_type: pa.DataType) -> Iterator[pa.RecordBatch]:
    """Read a slice of one segment block by block."""
    path = segment_file(Path(part.path), part.segment)
    with SegmentIndex(Path(part.path), part.segment) as index, open(path, "rb", buffering=0) as file:
        for entry in index.entries():
            if entry.block.end > part.start and entry.block.first < part.end:
                yield part.rows_of_block(path, entry, read_block(file, path, entry), text_type)


def as_table(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches).cast(read_schema("samples")).combine_chunks()


def drawn_row(random_: random.Random, number: int, keys: int) -> dict[str, Any]:
    """A row with nulls, and with few or many distinct texts."""
    text = f"robot/{random_.randrange(keys)}/state"
    stamped = random_.random() < 0.5
    return row(
        number,
        key=text * (1 + random_.randrange(2)),
        payload=random_.choice([None, b"", random_.randbytes(30)]),
        via=random_.choice([None, "a", text]),
        attachment=random_.choice([None, b"x"]),
        timestamp_id="clock" if stamped else None,
        timestamp_ntp64=(1_700_000_000 + number) << 32 if stamped else None,
        timestamp=START + number * 1_000_000 + random_.randrange(2) if stamped else None,
        source_zid=random_.choice([None, "z"]),
        express=random_.random() < 0.1,
    )


@pytest.mark.slow
@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 4) | st.integers(1, 90), min_size=1, max_size=25),
    keys=st.sampled_from([1, 3, 300]),
    seed=st.integers(0, 2**32),
    compression=st.sampled_from(["none", "none", "lz4", "zstd"]),
    text_type=st.sampled_from([TEXT_TYPE, DICTIONARY_TYPE]),
    data=st.data(),
)
def test_merged_blocks_equal_blocks_read_one_by_one(
    sizes: list[int],
    keys: int,
    seed: int,
    compression: Literal["none", "lz4", "zstd"],
    text_type: pa.DataType,
    data: st.DataObject,
) -> None:
    random_ = random.Random(seed)
    blocks = [[drawn_row(random_, number, keys) for number in range(size)] for size in sizes]
    start = data.draw(st.integers(0, sum(sizes) - 1), "start")
    end = data.draw(st.integers(start + 1, sum(sizes)), "end")
    with TemporaryDirectory() as root:
        journal = write_blocks(Path(root), blocks, Policy(fsync="never", compression=compression))
        (part,) = journal.slices(start, end, 1)
        merged = list(part.batches(text_type))
        each = as_table(read_each_block(part, text_type))
    assert as_table(iter(merged)).equals(each)
    assert each["offset"].to_pylist() == list(range(start, end))
    assert compression != "none" or len(merged) == 1


def test_dictionaries_with_null_values_are_merged(tmp_path: Path) -> None:
    journal = Journal(nulls_in_dictionaries(tmp_path))
    (part,) = journal.slices(0, journal.latest(), 1)
    assert as_table(part.batches()).equals(as_table(read_each_block(part, TEXT_TYPE)))


@pytest.mark.slow
def test_blocks_of_one_row_are_read_as_one_batch(tmp_path: Path) -> None:
    journal = write_blocks(tmp_path, [[row(number)] for number in range(300)])
    (found,) = journal.read(10, 290)
    assert found.column("offset").to_pylist() == list(range(10, 290))
    assert found.column("payload").to_pylist() == [b"%d" % number for number in range(10, 290)]
    assert found.schema.equals(journal.schema)


def test_blocks_of_several_segments_are_all_read(tmp_path: Path) -> None:
    journal = write_blocks(tmp_path, [[row(number)] for number in range(40)], Policy(fsync="never", segment_bytes=9000))
    assert len(list(tmp_path.glob("*.segment"))) > 2
    assert payloads(journal) == [b"%d" % number for number in range(40)]


# --- groups -----------------------------------------------------------------------------------------------------------


def entries(*blocks: tuple[int, int]) -> Iterator[IndexEntry]:
    """Index entries of contiguous blocks, given as rows and bytes."""
    position = first = 0
    for rows, length in blocks:
        entry = IndexEntry(position, BlockHeader(rows, length, first, EMPTY_TIME_RANGE, EMPTY_TIME_RANGE, 0))
        position, first = entry.stop, entry.block.end
        yield entry


@pytest.mark.parametrize("block", [(1, 1000), (1, SMALL_BLOCK_BYTES), (400, 20_000), (3, 1400)])
def test_groups_are_bounded_in_bytes_and_decoded_bytes(block: tuple[int, int]) -> None:
    rows, length = block
    groups = list(group_blocks(entries(*[block] * 2000)))
    assert sum(len(group) for group in groups) == 2000
    assert len(groups[0]) == min(MAX_GROUP_BYTES // length, MAX_DECODED_BYTES // (rows * length))


def test_large_blocks_are_groups_of_their_own() -> None:
    large = (1, SMALL_BLOCK_BYTES + 1)
    groups = group_blocks(entries((1, 9), (1, 9), large, large, (1, 9), (1, 9)))
    assert [len(group) for group in groups] == [2, 1, 1, 2]


def test_blocks_that_are_not_contiguous_are_not_grouped() -> None:
    one, two, three, four = entries((1, 9), (1, 9), (1, 9), (1, 9))
    assert list(group_blocks([one, three, four])) == [[one], [three, four]]
    elsewhere = two._replace(position=two.position + 8)
    assert list(group_blocks([one, elsewhere])) == [[one], [elsewhere]]


def test_blocks_before_a_damaged_entry_are_yielded_first() -> None:
    def damaged() -> Iterator[IndexEntry]:
        yield from entries((1, 9), (1, 9))
        raise CorruptJournal("x.index", 144, "an entry of the index")

    groups = group_blocks(damaged())
    assert len(next(groups)) == 2
    with pytest.raises(CorruptJournal, match="an entry of the index"):
        next(groups)


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 20, HEADER_SIZE, HEADER_SIZE + 300, -1])
def test_rows_before_a_damaged_block_are_read_and_the_error_names_it(tmp_path: Path, place: int) -> None:
    journal = write_blocks(tmp_path, [[row(number)] for number in range(9)])
    with SegmentIndex(tmp_path, 0) as index:
        entry, after = index.entry(5), index.entry(6)
    file = segment_file(tmp_path, 0)
    raw = bytearray(file.read_bytes())
    raw[entry.position + place if place >= 0 else after.position + place] ^= 1
    file.write_bytes(raw)
    found = journal.read(0, 9)
    assert [next(found).column("payload").to_pylist() for _ in range(5)] == [[b"%d" % number] for number in range(5)]
    with pytest.raises(CorruptJournal) as caught:
        next(found)
    assert "5" in str(caught.value)
    assert payloads(journal, 6) == [b"6", b"7", b"8"]


def test_rows_before_the_end_of_a_truncated_segment_are_read(tmp_path: Path) -> None:
    journal = write_blocks(tmp_path, [[row(number)] for number in range(4)])
    file = segment_file(tmp_path, 0)
    file.write_bytes(file.read_bytes()[:-1])
    found = journal.read(0, 4)
    assert [next(found).num_rows for _ in range(3)] == [1, 1, 1]
    with pytest.raises(CorruptJournal):
        next(found)


def write_streams(path: Path, streams: list[bytes], rows: int) -> list[IndexEntry]:
    """Write blocks of any bytes, with valid checksums."""
    writer = SegmentWriter(path, 0)
    for number, raw in enumerate(streams):
        times = (EMPTY_TIME_RANGE, EMPTY_TIME_RANGE)
        writer.append(BlockHeader(rows, len(raw), number * rows, *times, zlib.crc32(raw)), [memoryview(raw)])
    writer.close()
    with SegmentIndex(path, 0) as index:
        return list(index.entries())


def stream_of(batches: int, compression: str = "none") -> bytes:
    rows = pa.RecordBatch.from_pydict({"key": ["a", "b"]})
    if batches == 1:
        return b"".join(serialize_batch(rows, compression))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        for _ in range(batches):
            stream.write_batch(rows)
    return bytes(sink.getvalue())


GOOD = stream_of(1)


@pytest.mark.parametrize(
    ("streams", "rows", "is_merged"),
    [
        ([GOOD, GOOD], 2, True),
        ([GOOD], 2, False),
        ([GOOD, GOOD], 3, False),
        ([stream_of(2), stream_of(0)], 2, False),
        ([GOOD, stream_of(1, "zstd")], 2, False),
        ([GOOD, GOOD[:-8]], 2, False),
        ([GOOD, b""], 2, False),
        ([GOOD, b"\xff" * 200], 2, False),
        ([GOOD, GOOD[:8] + b"\xff" * (len(GOOD) - 8)], 2, False),
    ],
    ids=["two", "one", "rows", "batches", "compressed", "no end", "empty", "no stream", "no schema"],
)
def test_only_streams_of_one_uncompressed_batch_are_merged(
    tmp_path: Path, streams: list[bytes], rows: int, is_merged: bool
) -> None:
    group = write_streams(tmp_path, streams, rows)
    with open(segment_file(tmp_path, 0), "rb", buffering=0) as file:
        found = decode_group(file, group, read_schema("samples"), "r", TEXT_TYPE)
    assert (found is not None) is is_merged
    if found is not None:
        assert found.column("key").to_pylist() == ["a", "b", "a", "b"]
        assert found.column("offset").to_pylist() == [0, 1, 2, 3]
