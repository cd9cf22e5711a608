"""Block merge: reads many small consecutive blocks as one record batch.

Slow traffic is flushed a few rows at a time, and decoding a block of one row costs nearly as much as one of a thousand.
So small blocks are verified one by one, and decoded together: blocks with the same Arrow schema are joined to one IPC
stream, which has the schema once. Blocks whose schemas differ are put in order of their offsets afterwards.

`decode_group` returns None if blocks cannot be merged, for whatever reason. Then they are read one by one, which gives
the same rows, or the error that names the corrupt block.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow.decode import ntp64_to_microseconds
from zenspark.errors import JournalError
from zenspark.journal.block_codec import decode_columns
from zenspark.journal.format import HEADER_SIZE, IndexEntry

SMALL_BLOCK_BYTES = 1 << 15
"""Blocks up to this size are merged: copying the bytes of larger ones costs more than it saves."""
MAX_GROUP_BYTES = 1 << 20
"""Maximum size of the blocks of a group in the file."""
MAX_DECODED_BYTES = 1 << 24
"""Maximum size of the decoded rows of a group: a row has at most the bytes of its block, because no compressed block
is merged."""

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
CONTINUATION = 0xFFFF_FFFF
IPC_PREFIX_BYTES = 8
"""Bytes in front of the metadata of an Arrow IPC message: continuation and length."""
DICTIONARY_MESSAGE, ROWS_MESSAGE = 2, 3
"""Message types of the IPC metadata."""
_PREFIX = struct.Struct("<II")
_OFFSET = struct.Struct("<I")
_VTABLE_DISTANCE = struct.Struct("<i")
_SHORT = struct.Struct("<H")
_LENGTH = struct.Struct("<q")


# --- groups -----------------------------------------------------------------------------------------------------------


def group_blocks(entries: Iterable[IndexEntry]) -> Iterator[list[IndexEntry]]:
    """Group small blocks that follow one another in offsets and in their file; any other block is a group of its own.

    If reading an entry raises a `JournalError`, the blocks before it are yielded first.
    """
    group: list[IndexEntry] = []
    size = decoded = 0
    failure: JournalError | None = None
    try:
        for entry in entries:
            length, rows = entry.block.length, entry.block.rows
            size += length
            decoded += rows * length
            is_full = size > MAX_GROUP_BYTES or decoded > MAX_DECODED_BYTES or length > SMALL_BLOCK_BYTES
            if group and (is_full or not _is_next(group[-1], entry)):
                yield group
                group, size, decoded = [], length, rows * length
            group.append(entry)
    except JournalError as error:
        failure = error
    if group:
        yield group
    if failure is not None:
        raise failure


def _is_next(before: IndexEntry, entry: IndexEntry) -> bool:
    is_contiguous = before.stop == entry.position and before.block.end == entry.block.first
    return is_contiguous and before.block.length <= SMALL_BLOCK_BYTES


def decode_group(
    file: FileIO, group: Sequence[IndexEntry], schema: pa.Schema, recorder: str, text_type: pa.DataType
) -> pa.RecordBatch | None:
    """Read, verify and decode a group of blocks; None if they must be read one by one."""
    if len(group) == 1:
        return None
    try:
        rows = _concat_streams(_read_streams(file, group), [entry.block.rows for entry in group])
        return decode_columns(rows, schema, recorder, group[0].block.first, text_type)
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, AttributeError, struct.error):
        return None


def _read_streams(file: FileIO, group: Sequence[IndexEntry]) -> list[bytes]:
    """Read the IPC streams of the blocks at once; raises ValueError if one of them contradicts the index."""
    begin = group[0].position
    file.seek(begin)
    raw = file.read(group[-1].stop - begin)
    if len(raw) != group[-1].stop - begin:
        raise ValueError("the file ends before the blocks do")
    streams = []
    for position, block in group:
        start = position - begin + HEADER_SIZE
        stream = raw[start : start + block.length]
        if raw[start - HEADER_SIZE : start] != block.to_bytes() or zlib.crc32(stream) != block.checksum:
            raise ValueError("the header or the checksum differs")
        streams.append(stream)
    return streams


# --- streams ----------------------------------------------------------------------------------------------------------


def _concat_streams(streams: Sequence[bytes], rows: Sequence[int]) -> pa.RecordBatch:
    """Concatenate the rows of IPC streams of one batch each; `rows` has the number of each."""
    by_schema: dict[bytes, list[int]] = {}
    bodies = []
    for number, stream in enumerate(streams):
        schema_size = IPC_PREFIX_BYTES + _PREFIX.unpack_from(stream)[1]
        _check_messages(stream, schema_size)
        bodies.append(stream[schema_size : -len(END_OF_STREAM)])
        by_schema.setdefault(stream[:schema_size], []).append(number)
    merged = []
    for schema, numbers in by_schema.items():
        batches = list(pa.ipc.open_stream(b"".join([schema, *(bodies[number] for number in numbers)])))
        if [batch.num_rows for batch in batches] != [rows[number] for number in numbers]:
            raise ValueError("the number of rows differs from that of the header")
        merged.append(_concat_batches(batches))
    if len(merged) == 1:
        return merged[0]
    table = pa.concat_tables([_decode_batch(batch) for batch in merged], promote_options="default").combine_chunks()
    (batch,) = table.take(_order_of_rows(list(by_schema.values()), rows)).combine_chunks().to_batches()
    return batch


def _concat_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches of one schema; dictionaries become plain, because one for all may have too many values."""
    schema = batches[0].schema
    if not any(map(pa.types.is_dictionary, schema.types)):
        return pa.concat_batches(batches)
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in pa.Table.from_batches(batches).columns
    ]
    (batch,) = pa.table(columns, schema.names).combine_chunks().to_batches()
    return batch


def _decode_batch(batch: pa.RecordBatch) -> pa.Table:
    """Decode the columns to plain ones, as all batches have them."""
    decoded = {
        name: pc.run_end_decode(column) if isinstance(column, pa.RunEndEncodedArray) else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    if "timestamp_ntp64" in decoded and "timestamp" not in decoded:
        decoded["timestamp"] = ntp64_to_microseconds(decoded["timestamp_ntp64"].view(pa.uint64()))
    return pa.table(decoded)


def _order_of_rows(groups: Sequence[Sequence[int]], rows: Sequence[int]) -> pa.Array:
    """Return the positions of rows in the order of blocks, for rows that are in the order of groups of blocks."""
    starts, position = [0] * len(rows), 0
    for group in groups:
        for number in group:
            starts[number] = position
            position += rows[number]
    return pa.array(
        [index for start, count in zip(starts, rows, strict=True) for index in range(start, start + count)], pa.int64()
    )


# --- IPC metadata -----------------------------------------------------------------------------------------------------


def _check_messages(stream: bytes, position: int) -> None:
    """Check that dictionaries and one batch follow the schema, without compression; raises ValueError if not."""
    kind = DICTIONARY_MESSAGE
    while kind == DICTIONARY_MESSAGE:
        kind, is_compressed, position = _parse_message(stream, position)
        if is_compressed or kind not in (DICTIONARY_MESSAGE, ROWS_MESSAGE):
            raise ValueError("a block with compression, or with other messages")
    if stream[position:] != END_OF_STREAM:
        raise ValueError("more than one batch")


def _parse_message(stream: bytes, position: int) -> tuple[int, bool, int]:
    """Parse the metadata of an IPC message: its type, whether its body is compressed, and its end position."""
    continuation, size = _PREFIX.unpack_from(stream, position)
    if continuation != CONTINUATION:
        raise ValueError("a message in the format before Arrow 0.15")
    start = position + IPC_PREFIX_BYTES
    message = _follow(stream, start)
    kind = stream[_field(stream, message, 1)]
    batch = _follow(stream, _field(stream, message, 2))
    if kind == DICTIONARY_MESSAGE:
        batch = _follow(stream, _field(stream, batch, 1))
    length = _field(stream, message, 3)
    body = _LENGTH.unpack_from(stream, length)[0] if length else 0
    if body < 0:
        raise ValueError("a body of negative length")
    return kind, bool(_field(stream, batch, 3)), start + size + body


def _follow(stream: bytes, position: int) -> int:
    """Return the position of the table that an offset refers to."""
    return int(position + _OFFSET.unpack_from(stream, position)[0])


def _field(stream: bytes, table: int, number: int) -> int:
    """Return the position of a field of a flatbuffers table; 0 if the table does not have it."""
    vtable = table - _VTABLE_DISTANCE.unpack_from(stream, table)[0]
    if 4 + 2 * number >= _SHORT.unpack_from(stream, vtable)[0]:
        return 0
    distance = _SHORT.unpack_from(stream, vtable + 4 + 2 * number)[0]
    return table + distance if distance else 0
