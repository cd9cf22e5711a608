"""Reads selected pages of Parquet column chunks as Arrow arrays, and only the bytes they need.

Arrow's reader decodes whole column chunks only. So the selected pages are assembled in memory into a small Parquet file
of one column, which Arrow reads. No page is decoded here, so all encodings and codecs of Arrow are supported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zenspark.lake.parquet_footer import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    OPTIONAL,
    PARQUET_MAGIC,
    PLAIN,
    REQUIRED,
    RLE,
    TRAILER_BYTES,
    UTF8,
    ByteRange,
    ColumnChunk,
    Footer,
    Numbers,
    PageIndex,
    parse_footer_size,
    read_footer,
    read_page_index,
)
from zenspark.lake.thrift import I32, Struct, ThriftError, encode_struct, read_struct

PARQUET_FORMAT_VERSION = 2
COLUMN_NAME = b"c"
PAGE_HEADER_BYTES, MAX_PAGE_HEADER_BYTES = 256, 1 << 20
"""Usual and maximum bytes of a page header: its statistics may have long texts."""


class IoProfile(msgspec.Struct, frozen=True):
    """Read sizes and parallelism for a kind of storage."""

    coalesce_gap_bytes: int
    """Two ranges are read in one request if no more bytes than this are between them."""
    tail_bytes: int
    """Bytes at the end of a file that the first request reads."""
    parallel_requests: int
    """Maximum of concurrent requests."""


LOCAL_IO = IoProfile(coalesce_gap_bytes=2 << 10, tail_bytes=16 << 10, parallel_requests=1)
REMOTE_IO = IoProfile(coalesce_gap_bytes=256 << 10, tail_bytes=128 << 10, parallel_requests=8)


class RandomAccessFile(Protocol):
    """A file with random access, such as a `pyarrow.NativeFile`."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Read `nbytes` from an offset on."""

    def close(self) -> None:
        """Close the file."""


class ParquetFileReader:
    """Reads footer, page indexes and selected pages of an open file."""

    def __init__(self, file: RandomAccessFile, size: int, access: IoProfile = LOCAL_IO) -> None:
        self._file = file
        self._io = access
        self._size = size
        self._tail = memoryview(b"")
        """Last bytes of the file, once they are read: often they include the page index, or all of a small file."""

    def read(self, ranges: Sequence[ByteRange]) -> list[memoryview]:
        """Read byte ranges, in the order given; neighbouring ranges are coalesced into one request."""
        merged = _coalesce_ranges(ranges, self._io.coalesce_gap_bytes)
        if len(merged) > 1 and self._io.parallel_requests > 1:
            with ThreadPoolExecutor(min(self._io.parallel_requests, len(merged))) as pool:
                data_by_range = dict(zip(merged, pool.map(self._read_range, merged), strict=True))
        else:
            data_by_range = {part: self._read_range(part) for part in merged}
        return [_slice_range(data_by_range, byte_range) for byte_range in ranges]

    def _read_range(self, byte_range: ByteRange) -> memoryview:
        start, end = byte_range
        if not 0 <= start <= end <= self._size:
            raise ThriftError(f"expected a part of the {self._size} bytes there are, found {start} to {end}")
        tail_start = self._size - len(self._tail)
        if start >= tail_start:
            return self._tail[start - tail_start : end - tail_start]
        data = self._file.read_at(end - start, start)
        if len(data) != end - start:
            raise ThriftError(f"expected {end - start} bytes from byte {start} on, found {len(data)}")
        return memoryview(data)

    def footer(self) -> Footer:
        """Read the footer; raises `ThriftError`."""
        if self._size < TRAILER_BYTES + len(PARQUET_MAGIC):
            raise ThriftError(f"expected a Parquet file, found {self._size} bytes")
        self._tail = self._read_range((max(0, self._size - self._io.tail_bytes), self._size))
        end = self._size - TRAILER_BYTES
        length = parse_footer_size(bytes(self._tail[-TRAILER_BYTES:]))
        return read_footer(bytes(self._read_range((end - length, end))))

    def page_indexes(self, chunks: Sequence[ColumnChunk]) -> list[PageIndex | None]:
        """Read the page indexes of column chunks; None for a chunk without one."""
        ranges = [part for chunk in chunks for part in (chunk.offset_index, chunk.column_index) if part is not None]
        parts = dict(zip(ranges, self.read(ranges), strict=True)) if ranges else {}
        indexes: list[PageIndex | None] = []
        for chunk in chunks:
            if chunk.offset_index is None:
                indexes.append(None)
                continue
            columns = None if chunk.column_index is None else bytes(parts[chunk.column_index])
            indexes.append(read_page_index(chunk.leaf, bytes(parts[chunk.offset_index]), columns))
        return indexes

    def columns(self, selections: Sequence[RowSelection]) -> list[pa.Array]:
        """Read the selected rows of each column."""
        parts = iter(self.read([part for selection in selections for part in selection.ranges]))
        return [selection.decode([next(parts) for _ in selection.ranges]) for selection in selections]

    def dictionary(self, chunk: ColumnChunk, pages: PageIndex | None) -> pa.Array:
        """Read the dictionary of a column chunk of texts."""
        byte_range = (chunk.start, chunk.data_start if pages is None else pages.ranges[0][0])
        (data,) = self.read([byte_range])
        return decode_dictionary_page(chunk, data)


def _coalesce_ranges(ranges: Iterable[ByteRange], gap: int) -> list[ByteRange]:
    """Merge ranges that overlap or have at most `gap` bytes between them."""
    merged: list[ByteRange] = []
    for start, end in sorted(ranges):
        if merged and start - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _slice_range(parts: dict[ByteRange, memoryview], byte_range: ByteRange) -> memoryview:
    for (start, end), data in parts.items():
        if start <= byte_range[0] and byte_range[1] <= end:
            return data[byte_range[0] - start : byte_range[1] - start]
    raise AssertionError(byte_range)


class RowSelection:
    """Selected rows of a column chunk: the pages that have them, and their positions in these."""

    def __init__(self, chunk: ColumnChunk, pages: PageIndex | None, rows: Numbers) -> None:
        """Take row numbers within the row group, ascending; at least one."""
        self._chunk = chunk
        self._pages = pages
        self._rows = rows
        self._indices: Numbers | None = None
        """Positions of the rows among those of the pages; None if all rows of the pages are selected."""
        if pages is None:
            self._values = chunk.values
            self.ranges = [(chunk.start, chunk.end)]
            return
        counts = np.diff(np.searchsorted(rows, pages.starts), append=len(rows))
        used = np.flatnonzero(counts)
        lengths = np.diff(pages.starts, append=chunk.values)[used]
        self._values = int(lengths.sum())
        if self._values != len(rows):
            self._indices = rows + np.repeat(np.cumsum(lengths) - lengths - pages.starts[used], counts[used])
        dictionary = [] if chunk.start == pages.ranges[0][0] else [(chunk.start, pages.ranges[0][0])]
        self.ranges = dictionary + [pages.ranges[number] for number in used.tolist()]

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(end - start for start, end in self.ranges)

    def decode(self, parts: Sequence[memoryview]) -> pa.Array:
        """Decode the rows from the bytes of `ranges`; texts as a dictionary array."""
        if self._pages is None and len(self._rows) < self._chunk.values:
            inner = RowSelection(self._chunk, scan_page_headers(self._chunk, parts[0]), self._rows)
            return inner.decode([_slice_range({self.ranges[0]: parts[0]}, part) for part in inner.ranges])
        values = decode_pages(self._chunk, parts, self._values)
        return values if self._indices is None else values.take(pa.array(self._indices))


def scan_page_headers(chunk: ColumnChunk, data: memoryview) -> PageIndex:
    """Build the page index of a chunk that has none from its page headers; raises `ThriftError`."""
    starts, ranges = [], []
    at = rows = 0
    while rows < chunk.values and at < len(data):
        header, length = read_page_header(data[at:])
        end = at + length + header[3]
        if header[1] in (DATA_PAGE, DATA_PAGE_V2):
            starts.append(rows)
            ranges.append((chunk.start + at, chunk.start + end))
            rows += header[5 if header[1] == DATA_PAGE else 8][1]
        at = end
    if rows != chunk.values or at > len(data):
        raise ThriftError(f"expected pages with {chunk.values} values of column {chunk.leaf.name}, found {rows}")
    return PageIndex(np.array(starts, np.int64), ranges, None)


def read_page_header(data: memoryview) -> tuple[Struct, int]:
    """Decode the page header at the start of these bytes, and its length; raises `ThriftError`."""
    try:
        header, length = read_struct(bytes(data[:PAGE_HEADER_BYTES]))
    except ThriftError:  # long texts in its statistics
        header, length = read_struct(bytes(data[:MAX_PAGE_HEADER_BYTES]))
    is_valid = isinstance(header.get(1), int) and isinstance(header.get(2), int) and isinstance(header.get(3), int)
    counts = header.get({DATA_PAGE: 5, DICTIONARY_PAGE: 7, DATA_PAGE_V2: 8}.get(header.get(1, -1), -1))
    if not is_valid or not isinstance(counts, dict) or not isinstance(counts.get(1), int) or header[3] < 0:
        raise ThriftError(f"expected the header of a page, found {header}")
    return header, length


def decode_pages(chunk: ColumnChunk, pages: Sequence[memoryview | bytes], values: int) -> pa.Array:
    """Decode pages of a chunk, the first of which may be a dictionary page; texts as a dictionary array."""
    file = build_one_column_file(chunk, pages, values)
    texts = [COLUMN_NAME.decode()] if chunk.leaf.is_text and chunk.leaf.repetition == OPTIONAL else None
    with pq.ParquetFile(pa.BufferReader(file), read_dictionary=texts) as opened:
        column = opened.read(use_threads=False).column(0)
    return column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()


def build_one_column_file(chunk: ColumnChunk, pages: Sequence[memoryview | bytes], values: int) -> bytes:
    """Build a Parquet file of one column that has only these pages."""
    leaf, start, size = chunk.leaf, len(PARQUET_MAGIC), sum(map(len, pages))
    column: Struct = {
        1: I32(leaf.physical),
        3: I32(leaf.repetition),
        4: COLUMN_NAME,
        6: I32(UTF8) if leaf.is_text else None,
    }
    encodings = [I32(encoding) for encoding in chunk.encodings]
    metadata: Struct = {1: I32(leaf.physical), 2: encodings, 3: [COLUMN_NAME], 4: I32(chunk.codec), 5: values}
    metadata |= {6: size, 7: size, 9: start}
    group: Struct = {1: [{2: start, 3: metadata}], 2: size, 3: values}
    footer = encode_struct(
        {1: I32(PARQUET_FORMAT_VERSION), 2: [{4: b"schema", 5: I32(1)}, column], 3: values, 4: [group]}
    )
    return b"".join((PARQUET_MAGIC, *pages, footer, len(footer).to_bytes(4, "little"), PARQUET_MAGIC))


def decode_dictionary_page(chunk: ColumnChunk, page: memoryview) -> pa.Array:
    """Decode a dictionary page: its values are encoded like a plain data page without nulls."""
    header, start = read_page_header(page)
    if header[1] != DICTIONARY_PAGE or start + header[3] != len(page):
        raise ThriftError(f"expected a dictionary page of column {chunk.leaf.name}, found {header}")
    count = header[7][1]
    levels = {1: I32(count), 2: I32(PLAIN), 3: I32(RLE), 4: I32(RLE)}
    plain = encode_struct({1: I32(DATA_PAGE), 2: I32(header[2]), 3: I32(header[3]), 5: levels})
    leaf = msgspec.structs.replace(chunk.leaf, repetition=REQUIRED)
    return decode_pages(msgspec.structs.replace(chunk, leaf=leaf), [plain, page[start:]], count)
