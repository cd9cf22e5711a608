"""Reads chosen pages of Parquet column chunks as Arrow arrays, and no byte more than they need.

Arrow's reader decodes whole chunks only. So the pages that are wanted are put together, in memory, into a small
Parquet file of one column, with a footer of their own; Arrow reads that. Nothing is decoded here, and whatever
encodings and codecs Arrow knows are read.
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
    MAGIC,
    OPTIONAL,
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
"""How long the header of a page is, and may be: its statistics may have texts in them."""


class IoProfile(msgspec.Struct, frozen=True):
    """How to read a file so that it costs least where it is."""

    coalesce_gap_bytes: int
    """Bytes between two parts that are read along with them, as one more request would cost more."""
    tail_bytes: int
    """Bytes at the end of a file that are read before anything is known of it."""
    parallel_requests: int
    """Requests on their way at the same time."""


LOCAL_IO = IoProfile(coalesce_gap_bytes=2 << 10, tail_bytes=16 << 10, parallel_requests=1)
REMOTE_IO = IoProfile(coalesce_gap_bytes=256 << 10, tail_bytes=128 << 10, parallel_requests=8)


class RandomAccessFile(Protocol):
    """A file that is read anywhere, as `pyarrow.NativeFile` is."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """The bytes from a position on."""

    def close(self) -> None:
        """Let go of it."""


class ParquetFileReader:
    """An open file, of which the parts that are needed are read."""

    def __init__(self, file: RandomAccessFile, size: int, access: IoProfile = LOCAL_IO) -> None:
        self._file = file
        self._io = access
        self._size = size
        self._tail = memoryview(b"")
        """The last bytes, once they are read: the page index is often among them, or the whole of a small file."""

    def read(self, spans: Sequence[ByteRange]) -> list[memoryview]:
        """The bytes of some parts of the file, in their order; parts that are close together in one request."""
        merged = _coalesce_ranges(spans, self._io.coalesce_gap_bytes)
        if len(merged) > 1 and self._io.parallel_requests > 1:
            with ThreadPoolExecutor(min(self._io.parallel_requests, len(merged))) as pool:
                found = dict(zip(merged, pool.map(self._part, merged), strict=True))
        else:
            found = {span: self._part(span) for span in merged}
        return [_slice_range(found, span) for span in spans]

    def _part(self, span: ByteRange) -> memoryview:
        start, end = span
        if not 0 <= start <= end <= self._size:
            raise ThriftError(f"expected a part of the {self._size} bytes there are, found {start} to {end}")
        known = self._size - len(self._tail)
        if start >= known:
            return self._tail[start - known : end - known]
        data = self._file.read_at(end - start, start)
        if len(data) != end - start:
            raise ThriftError(f"expected {end - start} bytes from byte {start} on, found {len(data)}")
        return memoryview(data)

    def footer(self) -> Footer:
        """The footer of the file."""
        if self._size < TRAILER_BYTES + len(MAGIC):
            raise ThriftError(f"expected a Parquet file, found {self._size} bytes")
        self._tail = self._part((max(0, self._size - self._io.tail_bytes), self._size))
        end = self._size - TRAILER_BYTES
        length = parse_footer_size(bytes(self._tail[-TRAILER_BYTES:]))
        return read_footer(bytes(self._part((end - length, end))))

    def pages(self, chunks: Sequence[ColumnChunk]) -> list[PageIndex | None]:
        """Where the pages of chunks are; None of one without an index."""
        spans = [span for chunk in chunks for span in (chunk.offset_index, chunk.column_index) if span is not None]
        parts = dict(zip(spans, self.read(spans), strict=True)) if spans else {}
        found: list[PageIndex | None] = []
        for chunk in chunks:
            if chunk.offset_index is None:
                found.append(None)
                continue
            columns = None if chunk.column_index is None else bytes(parts[chunk.column_index])
            found.append(read_page_index(chunk.leaf, bytes(parts[chunk.offset_index]), columns))
        return found

    def columns(self, wanted: Sequence[RowSelection]) -> list[pa.Array]:
        """The values of chosen rows, of each column."""
        spans = [span for each in wanted for span in each.spans]
        parts = iter(self.read(spans))
        return [each.decode([next(parts) for _ in each.spans]) for each in wanted]

    def dictionary(self, chunk: ColumnChunk, pages: PageIndex | None) -> pa.Array:
        """The values of the dictionary of a chunk of texts."""
        span = (chunk.start, chunk.data if pages is None else pages.spans[0][0])
        (data,) = self.read([span])
        return decode_dictionary_page(chunk, data)


def _coalesce_ranges(spans: Iterable[ByteRange], gap: int) -> list[ByteRange]:
    """The parts to be read: overlapping and close ones put together."""
    found: list[ByteRange] = []
    for start, end in sorted(spans):
        if found and start - found[-1][1] <= gap:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _slice_range(parts: dict[ByteRange, memoryview], span: ByteRange) -> memoryview:
    for (start, end), data in parts.items():
        if start <= span[0] and span[1] <= end:
            return data[span[0] - start : span[1] - start]
    raise AssertionError(span)


class RowSelection:
    """Some rows of a chunk: which pages they are in, and where there."""

    def __init__(self, chunk: ColumnChunk, pages: PageIndex | None, rows: Numbers) -> None:
        """Takes the numbers of rows in their group, ascending; at least one."""
        self._chunk = chunk
        self._pages = pages
        self._rows = rows
        self._places: Numbers | None = None
        """Where the rows are among those of the pages; None if they are all of them."""
        if pages is None:
            self._values = chunk.values
            self.spans = [(chunk.start, chunk.end)]
            return
        counts = np.diff(np.searchsorted(rows, pages.starts), append=len(rows))
        used = np.flatnonzero(counts)
        lengths = np.diff(pages.starts, append=chunk.values)[used]
        self._values = int(lengths.sum())
        if self._values != len(rows):
            self._places = rows + np.repeat(np.cumsum(lengths) - lengths - pages.starts[used], counts[used])
        dictionary = [] if chunk.start == pages.spans[0][0] else [(chunk.start, pages.spans[0][0])]
        self.spans = dictionary + [pages.spans[number] for number in used.tolist()]

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(end - start for start, end in self.spans)

    def decode(self, parts: Sequence[memoryview]) -> pa.Array:
        """The values, from the bytes of `spans`; texts as a dictionary."""
        if self._pages is None and len(self._rows) < self._chunk.values:
            inner = RowSelection(self._chunk, scan_page_headers(self._chunk, parts[0]), self._rows)
            return inner.decode([_slice_range({self.spans[0]: parts[0]}, span) for span in inner.spans])
        values = decode_pages(self._chunk, parts, self._values)
        return values if self._places is None else values.take(pa.array(self._places))


def scan_page_headers(chunk: ColumnChunk, data: memoryview) -> PageIndex:
    """The pages of a chunk without an index, from the headers among its bytes; raises `ThriftError`."""
    starts, spans = [], []
    at = rows = 0
    while rows < chunk.values and at < len(data):
        header, length = read_page_header(data[at:])
        end = at + length + header[3]
        if header[1] in (DATA_PAGE, DATA_PAGE_V2):
            starts.append(rows)
            spans.append((chunk.start + at, chunk.start + end))
            rows += header[5 if header[1] == DATA_PAGE else 8][1]
        at = end
    if rows != chunk.values or at > len(data):
        raise ThriftError(f"expected pages with {chunk.values} values of column {chunk.leaf.name}, found {rows}")
    return PageIndex(np.array(starts, np.int64), spans, None)


def read_page_header(data: memoryview) -> tuple[Struct, int]:
    """The header of the page that these bytes begin with, and its length; raises `ThriftError`."""
    try:
        header, length = read_struct(bytes(data[:PAGE_HEADER_BYTES]))
    except ThriftError:  # long texts in its statistics
        header, length = read_struct(bytes(data[:MAX_PAGE_HEADER_BYTES]))
    is_known = isinstance(header.get(1), int) and isinstance(header.get(2), int) and isinstance(header.get(3), int)
    counts = header.get({DATA_PAGE: 5, DICTIONARY_PAGE: 7, DATA_PAGE_V2: 8}.get(header.get(1, -1), -1))
    if not is_known or not isinstance(counts, dict) or not isinstance(counts.get(1), int) or header[3] < 0:
        raise ThriftError(f"expected the header of a page, found {header}")
    return header, length


def decode_pages(chunk: ColumnChunk, pages: Sequence[memoryview | bytes], values: int) -> pa.Array:
    """The values of pages of a chunk, of which the first may be a dictionary; texts as a dictionary."""
    file = build_one_column_file(chunk, pages, values)
    texts = [COLUMN_NAME.decode()] if chunk.leaf.is_text and chunk.leaf.repetition == OPTIONAL else None
    with pq.ParquetFile(pa.BufferReader(file), read_dictionary=texts) as opened:
        found = opened.read(use_threads=False).column(0)
    return found.chunk(0) if found.num_chunks == 1 else found.unify_dictionaries().combine_chunks()


def build_one_column_file(chunk: ColumnChunk, pages: Sequence[memoryview | bytes], values: int) -> bytes:
    """A Parquet file with these pages only."""
    leaf, start, size = chunk.leaf, len(MAGIC), sum(map(len, pages))
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
    return b"".join((MAGIC, *pages, footer, len(footer).to_bytes(4, "little"), MAGIC))


def decode_dictionary_page(chunk: ColumnChunk, page: memoryview) -> pa.Array:
    """The values of a dictionary page: it is written like a page of values that are all there."""
    header, start = read_page_header(page)
    if header[1] != DICTIONARY_PAGE or start + header[3] != len(page):
        raise ThriftError(f"expected a dictionary page of column {chunk.leaf.name}, found {header}")
    count = header[7][1]
    levels = {1: I32(count), 2: I32(PLAIN), 3: I32(RLE), 4: I32(RLE)}
    plain = encode_struct({1: I32(DATA_PAGE), 2: I32(header[2]), 3: I32(header[3]), 5: levels})
    leaf = msgspec.structs.replace(chunk.leaf, repetition=REQUIRED)
    return decode_pages(msgspec.structs.replace(chunk, leaf=leaf), [plain, page[start:]], count)
