"""What a Parquet file says of itself: the footer, with the page index that pyarrow does not give to its users.

Only what a reader of flat columns needs is kept. Everything that is not there is None, and prunes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from zenspark.lake.thrift import Struct, ThriftError, read_struct

MAGIC = b"PAR1"
TRAILER_BYTES = 8
"""Length of the footer and magic bytes, at the very end."""

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY = range(7)
REQUIRED, OPTIONAL, REPEATED = range(3)
DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
UTF8, TIMESTAMP_MILLIS, TIMESTAMP_MICROS = 0, 9, 10
STRING, TIMESTAMP = 1, 8
"""The fields of a logical type that say it is a text or a time."""
TIME_UNITS = {1: "ms", 2: "us", 3: "ns"}
MICROSECONDS_PER_UNIT = {"ms": 1000, "us": 1}
"""Microseconds in one; of nanoseconds no statistics are used."""

ByteRange = tuple[int, int]
"""From one byte of a file up to before another."""
Numbers = npt.NDArray[np.int64]


class LeafColumn(msgspec.Struct, frozen=True):
    """A column as the schema of a file has it."""

    name: str
    physical: int
    repetition: int
    unit: str | None = None
    """Of a time: ms, us or ns."""
    is_text: bool = False


class ColumnStats(msgspec.Struct, frozen=True):
    """Statistics of a column in a row group or a page: texts as UTF-8, times in microseconds."""

    min_value: Any = None
    max_value: Any = None
    null_count: int | None = None
    is_all_null: bool = False
    """There are no values at all."""


class ColumnChunk(msgspec.Struct, frozen=True):
    """A column in a row group."""

    leaf: LeafColumn
    codec: int
    encodings: list[int]
    values: int
    start: int
    """Of the first page, be it a dictionary."""
    data: int
    """Of the first page with data, as far as the footer says."""
    size: int
    stats: ColumnStats
    is_dictionary_encoded: bool
    """All values are in the dictionary."""
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
    """The footer of a file."""

    groups: Sequence[RowGroup]
    size: int
    """In bytes, as it stands in the file."""


class PageIndex(msgspec.Struct, frozen=True):
    """Where the pages of a chunk are, and what they hold; `limits` has one entry for each, or is None."""

    starts: Numbers
    """The first row of each."""
    spans: Sequence[ByteRange]
    stats: Sequence[ColumnStats] | None


def parse_footer_size(trailer: bytes) -> int:
    """The length of the footer that ends with these bytes; raises `ThriftError`."""
    if trailer[4:] != MAGIC:
        raise ThriftError(f"expected the last four bytes of a Parquet file, {MAGIC!r}, found {trailer[4:]!r}")
    return int.from_bytes(trailer[:4], "little")


def read_footer(data: bytes) -> Footer:
    """A footer from its bytes; raises `ThriftError`."""
    metadata, _ = read_struct(data)
    try:
        leaves = _parse_leaf_columns(metadata[2])
        groups = [_parse_row_group(number, group, leaves) for number, group in enumerate(metadata.get(4, ()))]
    except (LookupError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ThriftError(f"expected the metadata of a Parquet file ({error!r})") from error
    return Footer(groups, len(data))


def _parse_leaf_columns(elements: list[Struct]) -> dict[str, LeafColumn]:
    """The columns that are not inside others."""
    found = {}
    inside = 0
    for element in elements[1:]:
        children = element.get(5, 0)
        if inside:
            inside += children - 1
        elif children:
            inside = children
        elif element.get(3) != REPEATED:
            name = element[4].decode()
            repetition = _require_integer(element.get(3, REQUIRED))
            found[name] = LeafColumn(
                name, _require_integer(element[1]), repetition, _time_unit(element), _is_text(element)
            )
    return found


def _require_integer(value: object) -> int:
    """A value of a structure that must be an integer; TypeError if it is not."""
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
        if leaf is not None and 1 not in column:  # a column may be in another file
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
        data=data,
        size=_require_integer(metadata[7]),
        stats=_parse_column_stats(leaf, metadata.get(12) or {}, metadata[5]),
        is_dictionary_encoded=_is_dictionary_encoded(metadata.get(13) or []),
        offset_index=_parse_byte_range(column, 4, 5),
        column_index=_parse_byte_range(column, 6, 7),
    )


def _parse_byte_range(column: Struct, offset: int, length: int) -> ByteRange | None:
    """Of a part of the page index, by the two fields that say where it is."""
    if offset not in column or length not in column:
        return None
    start = _require_integer(column[offset])
    return start, start + _require_integer(column[length])


def _parse_column_stats(leaf: LeafColumn, statistics: Struct, values: int) -> ColumnStats:
    greatest, least = statistics.get(5), statistics.get(6)
    if leaf.physical == INT64 and greatest is None and least is None:
        greatest, least = statistics.get(1), statistics.get(2)  # of texts these are in an order of their own
    nulls = statistics.get(3)
    return ColumnStats(_decode_plain_value(leaf, least), _decode_plain_value(leaf, greatest), nulls, nulls == values)


def _decode_plain_value(leaf: LeafColumn, raw: bytes | None) -> Any:  # noqa: ANN401 - bytes or a number, or None if it says nothing
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
    """Whether all data pages refer to the dictionary; if nothing is said of them, one may not."""
    pages = [page for page in stats if page[1] in (DATA_PAGE, DATA_PAGE_V2)]
    return bool(pages) and all(page[2] in (PLAIN_DICTIONARY, RLE_DICTIONARY) for page in pages)


def read_page_index(leaf: LeafColumn, offsets: bytes, columns: bytes | None) -> PageIndex:
    """The pages of a chunk, from the two parts of its index; raises `ThriftError`."""
    try:
        locations = read_struct(offsets)[0][1]
        starts = np.array([location.get(3, 0) for location in locations], np.int64)
        spans = [(_require_integer(each[1]), each[1] + _require_integer(each[2])) for each in locations]
        limits = None if columns is None else _parse_page_stats(leaf, read_struct(columns)[0])
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ThriftError(f"expected the page index of column {leaf.name} ({error!r})") from error
    is_whole = bool(spans) and starts[0] == 0 and bool((np.diff(starts) > 0).all())
    if not is_whole or (limits is not None and len(limits) != len(spans)):
        raise ThriftError(f"expected a page index of column {leaf.name} that has all its rows in order")
    return PageIndex(starts, spans, limits)


def _parse_page_stats(leaf: LeafColumn, index: Struct) -> list[ColumnStats]:
    counts = index.get(5) or [None] * len(index[1])
    return [
        ColumnStats(None, None, nulls, True)
        if is_null
        else ColumnStats(_decode_plain_value(leaf, least), _decode_plain_value(leaf, greatest), nulls)
        for is_null, least, greatest, nulls in zip(index[1], index[2], index[3], counts, strict=True)
    ]
