"""Decoder of Parquet footers and page indexes, which pyarrow does not expose.

Only metadata of flat columns is decoded. Missing metadata is None, and prunes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from zenspark.lake.thrift import Struct, ThriftError, read_struct

PARQUET_MAGIC = b"PAR1"
TRAILER_BYTES = 8
"""Footer length and magic bytes at the end of a file."""

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY = range(7)
REQUIRED, OPTIONAL, REPEATED = range(3)
DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
UTF8, TIMESTAMP_MILLIS, TIMESTAMP_MICROS = 0, 9, 10
STRING, TIMESTAMP = 1, 8
"""Field numbers of the logical types string and timestamp."""
TIME_UNITS = {1: "ms", 2: "us", 3: "ns"}
MICROSECONDS_PER_UNIT = {"ms": 1000, "us": 1}
"""Statistics of nanosecond times are not used."""

ByteRange = tuple[int, int]
"""First byte, and end byte (exclusive), in a file."""
Numbers = npt.NDArray[np.int64]


class LeafColumn(msgspec.Struct, frozen=True):
    """A leaf column in the schema of a file."""

    name: str
    physical: int
    repetition: int
    unit: str | None = None
    """Unit of a timestamp column: ms, us or ns."""
    is_text: bool = False


class ColumnStats(msgspec.Struct, frozen=True):
    """Statistics of a column chunk or a page: texts as UTF-8, times in microseconds."""

    min_value: Any = None
    max_value: Any = None
    null_count: int | None = None
    is_all_null: bool = False
    """Whether all values are null."""


class ColumnChunk(msgspec.Struct, frozen=True):
    """A column chunk: one column of a row group."""

    leaf: LeafColumn
    codec: int
    encodings: list[int]
    values: int
    start: int
    """Byte offset of the first page, which may be a dictionary page."""
    data_start: int
    """Byte offset of the first data page, according to the footer."""
    size: int
    stats: ColumnStats
    is_dictionary_encoded: bool
    """Whether all data pages are dictionary-encoded."""
    offset_index: ByteRange | None
    column_index: ByteRange | None

    @property
    def end(self) -> int:
        return self.start + self.size


class RowGroup(msgspec.Struct, frozen=True):
    """A row group."""

    number: int
    rows: int
    chunks: Mapping[str, ColumnChunk]


class Footer(msgspec.Struct, frozen=True):
    """The decoded footer of a file."""

    groups: Sequence[RowGroup]
    size: int
    """Bytes of the encoded footer."""


class PageIndex(msgspec.Struct, frozen=True):
    """Page index of a column chunk; `stats` has one entry per data page, or is None."""

    starts: Numbers
    """First row of each page."""
    ranges: Sequence[ByteRange]
    """Byte range of each page."""
    stats: Sequence[ColumnStats] | None


def parse_footer_size(trailer: bytes) -> int:
    """Read the footer length from the trailer of a file; raises `ThriftError`."""
    if trailer[4:] != PARQUET_MAGIC:
        raise ThriftError(f"expected the last four bytes of a Parquet file, {PARQUET_MAGIC!r}, found {trailer[4:]!r}")
    return int.from_bytes(trailer[:4], "little")


def read_footer(data: bytes) -> Footer:
    """Decode a footer; raises `ThriftError`."""
    metadata, _ = read_struct(data)
    try:
        leaves = _parse_leaf_columns(metadata[2])
        groups = [_parse_row_group(number, group, leaves) for number, group in enumerate(metadata.get(4, ()))]
    except (LookupError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ThriftError(f"expected the metadata of a Parquet file ({error!r})") from error
    return Footer(groups, len(data))


def _parse_leaf_columns(elements: list[Struct]) -> dict[str, LeafColumn]:
    """Top-level leaf columns by name; nested columns are skipped."""
    columns = {}
    nested = 0
    for element in elements[1:]:
        children = element.get(5, 0)
        if nested:
            nested += children - 1
        elif children:
            nested = children
        elif element.get(3) != REPEATED:
            name = element[4].decode()
            repetition = _require_integer(element.get(3, REQUIRED))
            columns[name] = LeafColumn(
                name, _require_integer(element[1]), repetition, _time_unit(element), _is_text(element)
            )
    return columns


def _require_integer(value: object) -> int:
    """Return the value if it is an integer; raises TypeError otherwise."""
    if type(value) is not int:
        raise TypeError(f"expected an integer, found {value!r}")
    return value


def _time_unit(element: Struct) -> str | None:
    logical = element.get(10) or {}
    if TIMESTAMP in logical:
        return TIME_UNITS.get(next(iter(logical[TIMESTAMP].get(2, {})), 0))
    return {TIMESTAMP_MILLIS: "ms", TIMESTAMP_MICROS: "us"}.get(element.get(6, -1))


def _is_text(element: Struct) -> bool:
    return element[1] == BYTE_ARRAY and (element.get(6) == UTF8 or STRING in (element.get(10) or {}))


def _parse_row_group(number: int, group: Struct, leaves: Mapping[str, LeafColumn]) -> RowGroup:
    chunks = {}
    for column in group[1]:
        path = column[3][3]
        leaf = leaves.get(path[0].decode()) if len(path) == 1 else None
        if leaf is not None and 1 not in column:  # field 1: the column chunk is in another file
            chunks[leaf.name] = _parse_column_chunk(column, leaf)
    if any(chunk.values != group[3] for chunk in chunks.values()):
        raise ThriftError(f"expected {group[3]} values of each column in row group {number}")
    return RowGroup(number, group[3], chunks)


def _parse_column_chunk(column: Struct, leaf: LeafColumn) -> ColumnChunk:
    metadata = column[3]
    data = _require_integer(metadata[9])
    return ColumnChunk(
        leaf=leaf,
        codec=_require_integer(metadata[4]),
        encodings=[_require_integer(encoding) for encoding in metadata[2]],
        values=_require_integer(metadata[5]),
        start=min(_require_integer(metadata.get(11) or data), data),
        data_start=data,
        size=_require_integer(metadata[7]),
        stats=_parse_column_stats(leaf, metadata.get(12) or {}, metadata[5]),
        is_dictionary_encoded=_is_dictionary_encoded(metadata.get(13) or []),
        offset_index=_parse_byte_range(column, 4, 5),
        column_index=_parse_byte_range(column, 6, 7),
    )


def _parse_byte_range(column: Struct, offset: int, length: int) -> ByteRange | None:
    """Byte range of a part of the page index, from its offset and length fields; None if they are missing."""
    if offset not in column or length not in column:
        return None
    start = _require_integer(column[offset])
    return start, start + _require_integer(column[length])


def _parse_column_stats(leaf: LeafColumn, statistics: Struct, values: int) -> ColumnStats:
    max_value, min_value = statistics.get(5), statistics.get(6)
    if leaf.physical == INT64 and max_value is None and min_value is None:
        max_value, min_value = statistics.get(1), statistics.get(2)  # deprecated: undefined sort order for texts
    null_count = statistics.get(3)
    return ColumnStats(
        _decode_plain_value(leaf, min_value), _decode_plain_value(leaf, max_value), null_count, null_count == values
    )


def _decode_plain_value(leaf: LeafColumn, raw: bytes | None) -> Any:  # noqa: ANN401 - bytes, a number or None
    if raw is None:
        return None
    if not isinstance(raw, bytes):
        raise TypeError(f"a limit of column {leaf.name} is {raw!r}, not bytes")
    if leaf.physical == BYTE_ARRAY:
        return raw
    if leaf.physical == INT64 and len(raw) == 8:
        value = int.from_bytes(raw, "little", signed=True)
        if leaf.unit is None:
            return value
        factor = MICROSECONDS_PER_UNIT.get(leaf.unit)
        return None if factor is None else value * factor
    return None


def _is_dictionary_encoded(stats: list[Struct]) -> bool:
    """Whether all data pages are dictionary-encoded; False if there are no encoding statistics."""
    pages = [page for page in stats if page[1] in (DATA_PAGE, DATA_PAGE_V2)]
    return bool(pages) and all(page[2] in (PLAIN_DICTIONARY, RLE_DICTIONARY) for page in pages)


def read_page_index(leaf: LeafColumn, offsets: bytes, columns: bytes | None) -> PageIndex:
    """Decode a page index from its offset index and its column index; raises `ThriftError`."""
    try:
        locations = read_struct(offsets)[0][1]
        starts = np.array([location.get(3, 0) for location in locations], np.int64)
        ranges = [(_require_integer(page[1]), page[1] + _require_integer(page[2])) for page in locations]
        stats = None if columns is None else _parse_page_stats(leaf, read_struct(columns)[0])
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ThriftError(f"expected the page index of column {leaf.name} ({error!r})") from error
    is_complete = bool(ranges) and starts[0] == 0 and bool((np.diff(starts) > 0).all())
    if not is_complete or (stats is not None and len(stats) != len(ranges)):
        raise ThriftError(f"expected a page index of column {leaf.name} that has all its rows in order")
    return PageIndex(starts, ranges, stats)


def _parse_page_stats(leaf: LeafColumn, index: Struct) -> list[ColumnStats]:
    counts = index.get(5) or [None] * len(index[1])
    return [
        ColumnStats(None, None, null_count, True)
        if is_null
        else ColumnStats(_decode_plain_value(leaf, min_value), _decode_plain_value(leaf, max_value), null_count)
        for is_null, min_value, max_value, null_count in zip(index[1], index[2], index[3], counts, strict=True)
    ]
