"""Block codec: encodes rows as an Arrow record batch with compact columns, and decodes them again.

An encoded batch has the columns of the rows, each in the most compact of these encodings, chosen per block:

- omitted: all rows are null; or it is `timestamp`, and can be computed from `timestamp_ntp64`;
- run-end encoded: a constant, or reception times, which change from read to read;
- a dictionary: few distinct values, such as keys; a null is a null index, because Arrow cannot unify dictionaries that
  have a null value;
- plain; always if the values are few, because the metadata of any other encoding takes more bytes than it saves.

`decode_columns` returns plain columns, exactly equal to those that were encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow import SCHEMA
from zenspark.arrow.decode import (
    ConcatenatedColumns,
    RowChunk,
    Value,
    concat_columns,
    constant_column,
    ntp64_to_microseconds,
)

SAMPLE_ROWS = 8192
"""Rows that are sampled to estimate whether a column has few distinct values."""
MIN_REPEAT_FACTOR = 4
"""Minimum number of rows per distinct value or run for a dictionary or run-end encoding."""
ENCODING_BYTES = 192
"""Bytes that a run-end encoding or a dictionary adds to a block: shorter columns are plain."""
OFFSET_BYTES = 4
"""Bytes per text of a plain column, without the text."""
RUN_END_TYPE = pa.int32()
TEXT_TYPE = pa.string()
DICTIONARY_TYPE = pa.dictionary(pa.int32(), TEXT_TYPE)
"""Type of dictionary-encoded texts."""
ZERO_COPY_WRITE_MIN_BYTES = 1 << 15
"""Size from which a buffer is written without a copy: smaller ones are cheaper to copy than to write."""


# --- encode -----------------------------------------------------------------------------------------------------------


def encode_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Encode plain rows of any schema."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    encoded = {name: _choose_encoding(array) for name, array in columns.items() if array.null_count < batch.num_rows}
    readings = columns.get("timestamp_ntp64")
    if "timestamp_ntp64" in encoded and readings is not None:
        if ntp64_to_microseconds(readings.view(pa.uint64())).equals(columns["timestamp"]):
            del encoded["timestamp"]
        else:
            encoded.setdefault("timestamp", _constant_run(columns["timestamp"].type, None, batch.num_rows))
    return _build_batch(encoded, batch.schema, batch.num_rows)


def _choose_encoding(array: pa.Array) -> pa.Array:
    kind, rows = array.type, len(array)
    if pa.types.is_binary(kind) or array.nbytes < ENCODING_BYTES:
        return array
    if array[0] == array[rows - 1] and _is_constant(array):
        return _constant_run(
            kind, array[0].as_py() if not pa.types.is_timestamp(kind) else array[0].cast(pa.int64()).as_py(), rows
        )
    if pa.types.is_timestamp(kind):
        runs = pc.run_end_encode(array)
        return runs if len(runs.values) * MIN_REPEAT_FACTOR <= rows else array
    if pa.types.is_string(kind) and len(pc.unique(array[:SAMPLE_ROWS])) * MIN_REPEAT_FACTOR <= min(rows, SAMPLE_ROWS):
        values = pc.dictionary_encode(array)
        return (
            _narrow_dictionary(values.indices, values.dictionary)
            if len(values.dictionary) * MIN_REPEAT_FACTOR <= rows
            else array
        )
    return array


def _is_constant(array: pa.Array) -> bool:
    return not array.null_count and bool(pc.all(pc.equal(array, array[0])).as_py())


def encode_chunks(chunks: Sequence[RowChunk]) -> pa.RecordBatch:
    """Encode received row chunks without making plain columns of them first."""
    rows = concat_columns(chunks)
    encoded = {name: _encode_shared(name, values, rows) for name, values in rows.values.items() if has_value(values)}
    encoded["payload"] = rows.payload
    encoded["attachment"] = rows.attachment
    ntp64 = rows.null_where_unset("timestamp_id", rows.ntp64)
    encoded["timestamp_ntp64"] = None if ntp64 is None else ntp64.view(pa.int64())
    sn = rows.null_where_unset("source_zid", rows.sn)
    encoded["source_sn"] = None if sn is None else sn.cast(pa.int64())
    is_short = _is_short(SCHEMA.field("received_at").type, (), rows.rows)
    encoded["received_at"] = pc.run_end_decode(rows.received_at) if is_short else rows.received_at
    present = {name: array for name, array in encoded.items() if array is not None and array.null_count < rows.rows}
    return _build_batch(present, SCHEMA, rows.rows)


def has_value(values: tuple[Value, ...]) -> bool:
    return any(value is not None for value in values)


def _encode_shared(name: str, values: tuple[Value, ...], rows: ConcatenatedColumns) -> pa.Array:
    """Encode a column of shared header values, which has few distinct ones."""
    kind = SCHEMA.field(name).type
    distinct, is_short = len(set(values)), _is_short(kind, values, rows.rows)
    if rows.index is None or distinct == 1:
        return (constant_column if is_short else _constant_run)(kind, values[0], rows.rows)
    plain = pa.array(values, kind)
    if is_short or not pa.types.is_string(kind) or distinct * MIN_REPEAT_FACTOR > rows.rows:
        return plain.take(rows.index)
    encoded = plain.dictionary_encode()
    return _narrow_dictionary(encoded.indices.take(rows.index), encoded.dictionary)


def _is_short(kind: pa.DataType, values: tuple[Value, ...], rows: int) -> bool:
    """Return whether a plain column of these values takes fewer bytes than an encoding would add."""
    if pa.types.is_string(kind):
        if rows * OFFSET_BYTES >= ENCODING_BYTES:  # whatever the texts are: a block may have thousands of them
            return False
        return rows * (OFFSET_BYTES + max(len(value) for value in values if isinstance(value, str))) < ENCODING_BYTES
    return bool(rows * kind.bit_width < ENCODING_BYTES * 8)


def _constant_run(kind: pa.DataType, value: Value, rows: int) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([rows], RUN_END_TYPE), pa.array([value], kind))


def _narrow_dictionary(index: pa.Array, values: pa.Array) -> pa.DictionaryArray:
    """Make a dictionary with the narrowest index type: one or two bytes per row if possible."""
    widths = [kind for kind, limit in ((pa.int8(), 1 << 7), (pa.int16(), 1 << 15)) if len(values) <= limit]
    return pa.DictionaryArray.from_arrays(index.cast((widths or [pa.int32()])[0]), values)


def _build_batch(columns: dict[str, pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Make a batch of columns in schema order; if there are none, a null column keeps the number of rows."""
    names = [name for name in schema.names if name in columns]
    if not names:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["nothing"])
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names)


# --- serialize --------------------------------------------------------------------------------------------------------


class BufferList:
    """A file object that collects written buffers: large ones by reference, small ones joined."""

    closed = False

    def __init__(self) -> None:
        self._buffers: list[memoryview] = []
        self._small: list[memoryview] = []

    def write(self, data: bytes | pa.Buffer) -> int:
        buffer = memoryview(data)
        if len(buffer) >= ZERO_COPY_WRITE_MIN_BYTES:
            self._join_small()
            self._buffers.append(buffer)
        else:
            self._small.append(buffer)
        return len(buffer)

    def flush(self) -> None:
        """Do nothing; called by Arrow."""

    def _join_small(self) -> None:
        if self._small:
            self._buffers.append(memoryview(b"".join(self._small)))
            self._small = []

    def buffers(self) -> list[memoryview]:
        self._join_small()
        return self._buffers


def serialize_batch(rows: pa.RecordBatch, compression: str) -> list[memoryview]:
    """Serialize a batch as an Arrow IPC stream, as a list of buffers, so that columns are not copied."""
    buffers = BufferList()
    options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
    with pa.ipc.new_stream(pa.PythonFile(buffers, mode="w"), rows.schema, options=options) as stream:
        stream.write_batch(rows)
    return buffers.buffers()


# --- decode -----------------------------------------------------------------------------------------------------------


def decode_columns(
    batch: pa.RecordBatch, schema: pa.Schema, recorder: str, first: int, text_type: pa.DataType = TEXT_TYPE
) -> pa.RecordBatch:
    """Decode a batch to plain rows of a schema that ends with `recorder` and `offset`.

    `text_type` is the type of text columns, TEXT_TYPE or DICTIONARY_TYPE.
    """
    rows = batch.num_rows
    decoded = {
        name: _decode_array(array, text_type) for name, array in zip(batch.schema.names, batch.columns, strict=True)
    }
    if "timestamp_ntp64" in decoded and "timestamp" not in decoded:
        decoded["timestamp"] = ntp64_to_microseconds(decoded["timestamp_ntp64"].view(pa.uint64()))
    decoded["recorder"] = _constant_column(TEXT_TYPE, recorder, rows, text_type)
    decoded["offset"] = pc.add(_row_numbers(rows), first)
    columns = [
        decoded[field.name] if field.name in decoded else _constant_column(field.type, None, rows, text_type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=with_text_type(schema, text_type))


@lru_cache(maxsize=16)
def with_text_type(schema: pa.Schema, text_type: pa.DataType) -> pa.Schema:
    """Replace the type of text columns in a schema, by TEXT_TYPE or DICTIONARY_TYPE."""
    return pa.schema([field.with_type(text_type) if field.type == TEXT_TYPE else field for field in schema])


def _decode_array(array: pa.Array, text_type: pa.DataType) -> pa.Array:
    if isinstance(array, pa.DictionaryArray):
        return _to_dictionary_type(array) if text_type == DICTIONARY_TYPE else array.dictionary.take(array.indices)
    if isinstance(array, pa.RunEndEncodedArray):
        if len(array.values) == 1 and not pa.types.is_timestamp(array.type.value_type):
            return _constant_column(array.type.value_type, array.values[0].as_py(), len(array), text_type)
        array = pc.run_end_decode(array)
    return array.dictionary_encode() if array.type == TEXT_TYPE and text_type == DICTIONARY_TYPE else array


def _to_dictionary_type(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Convert to DICTIONARY_TYPE with nulls in the index only: earlier versions wrote null dictionary values."""
    if array.dictionary.null_count:
        values = array.dictionary.dictionary_encode()
        array = pa.DictionaryArray.from_arrays(values.indices.take(array.indices), values.dictionary)
    return array.cast(DICTIONARY_TYPE)


def _constant_column(kind: pa.DataType, value: Value, rows: int, text_type: pa.DataType) -> pa.Array:
    """Make a column with the same value in all rows."""
    if kind != TEXT_TYPE or text_type == TEXT_TYPE:
        return constant_column(kind, value, rows)
    index = constant_column(DICTIONARY_TYPE.index_type, None if value is None else 0, rows)
    return pa.DictionaryArray.from_arrays(index, pa.array([] if value is None else [value], TEXT_TYPE))


def _row_numbers(rows: int) -> pa.Array:
    """The numbers from 0 to `rows` - 1."""
    return _cached_row_numbers(1 << (rows - 1).bit_length() if rows else 0)[:rows]


@lru_cache(maxsize=32)
def _cached_row_numbers(rows: int) -> pa.Array:
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1)
