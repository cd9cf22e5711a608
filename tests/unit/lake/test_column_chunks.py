from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.lake.column_chunks import (
    LOCAL_IO,
    IoProfile,
    ParquetFileReader,
    RowSelection,
    decode_dictionary_page,
    read_page_header,
    scan_page_headers,
)
from zenspark.lake.parquet_footer import ColumnChunk, RowGroup
from zenspark.lake.thrift import I32, ThriftError, encode_struct

TABLE = pa.table(
    {
        "text": [None if at % 7 == 3 else f"word {at % 5}" for at in range(50)],
        "long": ["x" * (300 + at) for at in range(50)],
        "number": [None if at % 5 == 2 else at * 1000 for at in range(50)],
        "flag": [at % 3 == 0 for at in range(50)],
        "blob": [bytes([at]) * at for at in range(50)],
    }
)
OPTIONS: list[dict[str, Any]] = [
    {"write_page_index": True},
    {"write_page_index": True, "data_page_version": "2.0", "compression": "snappy"},
    {"write_page_index": True, "use_dictionary": False, "compression": "none"},
    {"write_page_index": False},
    {"write_page_index": False, "data_page_version": "2.0", "use_dictionary": False},
    {"write_page_index": True, "dictionary_pagesize_limit": 30},
]


class Recorded:
    """A file that remembers what was read of it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.parts: list[tuple[int, int]] = []

    def read_at(self, nbytes: int, offset: int) -> bytes:
        self.parts.append((offset, offset + nbytes))
        return self.content[offset : offset + nbytes]

    def close(self) -> None:
        pass


def written_as(path: Path, options: dict[str, Any]) -> tuple[ParquetFileReader, RowGroup, Recorded]:
    pq.write_table(TABLE, path / "x", max_rows_per_page=7, write_batch_size=1, **options)
    file = Recorded((path / "x").read_bytes())
    group = ParquetFileReader(file, len(file.content)).footer().groups[0]
    return ParquetFileReader(file, len(file.content)), group, file  # one that has not read anything yet


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[ParquetFileReader, RowGroup, Recorded]]:
    return [written_as(tmp_path_factory.mktemp("files"), options) for options in OPTIONS]


@pytest.mark.slow
@given(st.sampled_from(range(len(OPTIONS))), st.sets(st.integers(0, 49), min_size=1))
def test_selected_rows_of_every_column_are_decoded(
    files: list[tuple[ParquetFileReader, RowGroup, Recorded]], number: int, chosen: set[int]
) -> None:
    source, group, _ = files[number]
    rows = np.array(sorted(chosen), np.int64)
    chunks = list(group.chunks.values())
    pages = source.page_indexes(chunks)
    selections = [RowSelection(chunk, own, rows) for chunk, own in zip(chunks, pages, strict=True)]
    for name, found in zip(group.chunks, source.columns(selections), strict=True):
        wanted = TABLE[name].take(pa.array(rows)).combine_chunks()
        assert found.cast(wanted.type).equals(wanted), name


def test_only_pages_with_selected_rows_are_read(tmp_path: Path) -> None:
    source, group, file = written_as(tmp_path, {"write_page_index": True, "use_dictionary": False})
    chunk = group.chunks["long"]
    (pages,) = source.page_indexes([chunk])
    assert pages is not None
    selection = RowSelection(chunk, pages, np.array([15], np.int64))
    file.parts.clear()
    source.columns([selection])
    assert file.parts == [pages.ranges[2]]
    assert selection.size == pages.ranges[2][1] - pages.ranges[2][0]


def test_without_page_index_pages_are_found_by_headers(tmp_path: Path) -> None:
    source, group, file = written_as(tmp_path, {"write_page_index": True})
    for chunk in group.chunks.values():
        (indexed,) = source.page_indexes([chunk])
        assert indexed is not None
        found = scan_page_headers(chunk, memoryview(file.content)[chunk.start : chunk.end])
        assert (found.starts.tolist(), found.ranges) == (indexed.starts.tolist(), indexed.ranges)


def test_dictionary_of_column_chunk_is_decoded(tmp_path: Path) -> None:
    for has_index in (True, False):
        source, group, _ = written_as(tmp_path, {"write_page_index": has_index})
        chunk = group.chunks["text"]
        (pages,) = source.page_indexes([chunk])
        assert sorted(source.dictionary(chunk, pages).to_pylist()) == [f"word {at}" for at in range(5)]


def test_neighbouring_ranges_are_coalesced() -> None:
    file = Recorded(bytes(range(100)))
    source = ParquetFileReader(file, 100, IoProfile(coalesce_gap_bytes=5, tail_bytes=10, parallel_requests=1))
    assert [bytes(part) for part in source.read([(50, 52), (0, 3), (8, 9), (1, 4)])] == [
        bytes([50, 51]),
        bytes([0, 1, 2]),
        bytes([8]),
        bytes([1, 2, 3]),
    ]
    assert file.parts == [(0, 9), (50, 52)]


def test_remote_ranges_are_requested_concurrently() -> None:
    file = Recorded(bytes(range(100)))
    source = ParquetFileReader(file, 100, IoProfile(coalesce_gap_bytes=0, tail_bytes=10, parallel_requests=4))
    assert [bytes(part) for part in source.read([(50, 52), (0, 2)])] == [bytes([50, 51]), bytes([0, 1])]
    assert sorted(file.parts) == [(0, 2), (50, 52)]


def test_footer_longer_than_tail_is_read_completely(tmp_path: Path) -> None:
    _, group, file = written_as(tmp_path, {})
    file.parts.clear()
    source = ParquetFileReader(
        file, len(file.content), IoProfile(coalesce_gap_bytes=0, tail_bytes=20, parallel_requests=1)
    )
    assert source.footer().groups[0] == group
    assert len(file.parts) == 2


def test_page_index_in_the_tail_is_not_read_again(tmp_path: Path) -> None:
    _, group, file = written_as(tmp_path, {"write_page_index": True})
    file.parts.clear()
    source = ParquetFileReader(
        file, len(file.content), IoProfile(coalesce_gap_bytes=0, tail_bytes=1 << 20, parallel_requests=1)
    )
    source.footer()
    chunk = group.chunks["long"]
    (pages,) = source.page_indexes([chunk])
    source.columns([RowSelection(chunk, pages, np.array([3], np.int64))])
    assert file.parts == [(0, len(file.content))]


def test_range_outside_the_file_is_rejected() -> None:
    with pytest.raises(ThriftError, match="a part of the 10 bytes there are, found 5 to 11"):
        ParquetFileReader(Recorded(bytes(10)), 10, LOCAL_IO).read([(5, 11)])
    with pytest.raises(ThriftError, match="20 bytes from byte 0 on, found 10"):
        ParquetFileReader(Recorded(bytes(10)), 20, LOCAL_IO).read([(0, 20)])


def test_invalid_page_headers_are_rejected(tmp_path: Path) -> None:
    for header in ({}, {1: I32(0), 2: I32(1), 3: I32(1)}, {1: I32(0), 2: I32(1), 3: I32(-1), 5: {1: I32(1)}}):
        with pytest.raises(ThriftError, match="the header of a page"):
            read_page_header(memoryview(encode_struct(header)))


def test_pages_with_too_few_values_are_rejected(tmp_path: Path) -> None:
    _, group, file = written_as(tmp_path, {"write_page_index": False})
    chunk = group.chunks["number"]
    data = memoryview(file.content)[chunk.start : chunk.end]
    with pytest.raises(ThriftError, match="pages with 50 values of column number"):
        scan_page_headers(chunk, data[: chunk.data_start - chunk.start])


def test_invalid_dictionary_page_is_rejected(tmp_path: Path) -> None:
    _, group, file = written_as(tmp_path, {"use_dictionary": False})
    chunk: ColumnChunk = group.chunks["text"]
    with pytest.raises(ThriftError, match="a dictionary page of column text"):
        decode_dictionary_page(chunk, memoryview(file.content)[chunk.start : chunk.end])
