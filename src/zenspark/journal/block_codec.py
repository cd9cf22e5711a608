"""Rows as the bytes of a block, and back: most columns say the same in row after row, and need not say it again.

A packed batch has the columns of the rows, each in the shortest of these forms, chosen block by block:

- not there: no row has anything in it; or it is `timestamp`, and follows from `timestamp_ntp64`;
- run-end encoded: all rows alike, or the times of reception, which change from read to read;
- a dictionary: few values, as keys are, each of them once; a null is a null of the index, because Arrow cannot unify
  dictionaries that have one among their values;
- as it is.

`unpacked` gives the plain columns again, exactly equal to those that were packed.
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
"""How many rows are looked at to tell whether a column has few values."""
MIN_REPEAT_FACTOR = 4
"""Values are few where there are so many times more rows."""
RUN_END_TYPE = pa.int32()
TEXT_TYPE = pa.string()
DICTIONARY_TYPE = pa.dictionary(pa.int32(), TEXT_TYPE)
"""Texts of which many are alike: each row says which one it has."""
ZERO_COPY_MIN_BYTES = 1 << 15
"""Bytes from which on a part of a block is written by itself: less is cheaper to copy than to write."""


# --- to packed --------------------------------------------------------------------------------------------------------


def encode_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Plain rows of any schema, packed."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    found = {name: _choose_encoding(array) for name, array in columns.items() if array.null_count < batch.num_rows}
    readings = columns.get("timestamp_ntp64")
    if "timestamp_ntp64" in found and readings is not None:
        if ntp64_to_microseconds(readings.view(pa.uint64())).equals(columns["timestamp"]):
            del found["timestamp"]
        else:
            found.setdefault("timestamp", _constant_run(columns["timestamp"].type, None, batch.num_rows))
    return _build_batch(found, batch.schema, batch.num_rows)


def _choose_encoding(array: pa.Array) -> pa.Array:
    kind, rows = array.type, len(array)
    if pa.types.is_binary(kind):
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


def encode_chunks(pieces: Sequence[RowChunk]) -> pa.RecordBatch:
    """Rows as they came from the network, packed without ever being plain columns."""
    rows = concat_columns(pieces)
    found = {name: _encode_shared(name, values, rows) for name, values in rows.values.items() if has_value(values)}
    found["payload"] = rows.payload
    found["attachment"] = rows.attachment
    ntp64 = rows.where_set("timestamp_id", rows.ntp64)
    found["timestamp_ntp64"] = None if ntp64 is None else ntp64.view(pa.int64())
    sn = rows.where_set("source_zid", rows.sn)
    found["source_sn"] = None if sn is None else sn.cast(pa.int64())
    found["received_at"] = rows.received_at
    there = {name: array for name, array in found.items() if array is not None and array.null_count < rows.rows}
    return _build_batch(there, SCHEMA, rows.rows)


def has_value(values: tuple[Value, ...]) -> bool:
    return any(value is not None for value in values)


def _encode_shared(name: str, values: tuple[Value, ...], rows: ConcatenatedColumns) -> pa.Array:
    """A column that has few values."""
    kind = SCHEMA.field(name).type
    distinct = len(set(values))
    if rows.index is None or distinct == 1:
        return _constant_run(kind, values[0], rows.rows)
    known = pa.array(values, kind)
    if not pa.types.is_string(kind) or distinct * MIN_REPEAT_FACTOR > rows.rows:
        return known.take(rows.index)
    words = known.dictionary_encode()
    return _narrow_dictionary(words.indices.take(rows.index), words.dictionary)


def _constant_run(kind: pa.DataType, value: Value, rows: int) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([rows], RUN_END_TYPE), pa.array([value], kind))


def _narrow_dictionary(index: pa.Array, values: pa.Array) -> pa.DictionaryArray:
    """With the narrowest index: one or two bytes for a row where that is enough."""
    widths = [kind for kind, limit in ((pa.int8(), 1 << 7), (pa.int16(), 1 << 15)) if len(values) <= limit]
    return pa.DictionaryArray.from_arrays(index.cast((widths or [pa.int32()])[0]), values)


def _build_batch(found: dict[str, pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """The columns that are there, in the order of the schema; the first of all says how many rows there are."""
    names = [name for name in schema.names if name in found]
    if not names:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["nothing"])
    return pa.RecordBatch.from_arrays([found[name] for name in names], names)


# --- to bytes ---------------------------------------------------------------------------------------------------------


class BufferList:
    """A file that keeps what is written to it: columns as they lie in memory, and what stands between them together."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[memoryview] = []
        self._small: list[memoryview] = []

    def write(self, data: bytes | pa.Buffer) -> int:
        part = memoryview(data)
        if len(part) >= ZERO_COPY_MIN_BYTES:
            self._join()
            self._parts.append(part)
        else:
            self._small.append(part)
        return len(part)

    def flush(self) -> None:
        """Nothing is to be done: Arrow asks for it."""

    def _join(self) -> None:
        if self._small:
            self._parts.append(memoryview(b"".join(self._small)))
            self._small = []

    def all(self) -> list[memoryview]:
        self._join()
        return self._parts


def serialize_batch(rows: pa.RecordBatch, compression: str) -> list[memoryview]:
    """One complete Arrow IPC stream, in parts, so that columns are not copied."""
    parts = BufferList()
    options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
    with pa.ipc.new_stream(pa.PythonFile(parts, mode="w"), rows.schema, options=options) as stream:
        stream.write_batch(rows)
    return parts.all()


# --- to plain ---------------------------------------------------------------------------------------------------------


def decode_columns(
    batch: pa.RecordBatch, schema: pa.Schema, recorder: str, first: int, texts: pa.DataType = TEXT_TYPE
) -> pa.RecordBatch:
    """Plain rows of a schema that ends with `recorder` and `offset`, from a packed batch; texts as WORDS if asked."""
    rows = batch.num_rows
    found = {name: _decode_array(array, texts) for name, array in zip(batch.schema.names, batch.columns, strict=True)}
    if "timestamp_ntp64" in found and "timestamp" not in found:
        found["timestamp"] = ntp64_to_microseconds(found["timestamp_ntp64"].view(pa.uint64()))
    found["recorder"] = _constant_column(TEXT_TYPE, recorder, rows, texts)
    found["offset"] = pc.add(_row_numbers(rows), first)
    columns = [
        found[each.name] if each.name in found else _constant_column(each.type, None, rows, texts) for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=with_text_type(schema, texts))


@lru_cache(maxsize=16)
def with_text_type(schema: pa.Schema, texts: pa.DataType) -> pa.Schema:
    """A schema whose texts are of this type, TEXT or WORDS."""
    return pa.schema([each.with_type(texts) if each.type == TEXT_TYPE else each for each in schema])


def _decode_array(array: pa.Array, texts: pa.DataType) -> pa.Array:
    if isinstance(array, pa.DictionaryArray):
        return _to_dictionary_type(array) if texts == DICTIONARY_TYPE else array.dictionary.take(array.indices)
    if isinstance(array, pa.RunEndEncodedArray):
        if len(array.values) == 1 and not pa.types.is_timestamp(array.type.value_type):
            return _constant_column(array.type.value_type, array.values[0].as_py(), len(array), texts)
        array = pc.run_end_decode(array)
    return array.dictionary_encode() if array.type == TEXT_TYPE and texts == DICTIONARY_TYPE else array


def _to_dictionary_type(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """A dictionary whose nulls are all in the index, as WORDS: in journals of earlier versions values may be null."""
    if array.dictionary.null_count:
        values = array.dictionary.dictionary_encode()
        array = pa.DictionaryArray.from_arrays(values.indices.take(array.indices), values.dictionary)
    return array.cast(DICTIONARY_TYPE)


def _constant_column(kind: pa.DataType, value: Value, rows: int, texts: pa.DataType) -> pa.Array:
    """A column in which all rows have this value."""
    if kind != TEXT_TYPE or texts == TEXT_TYPE:
        return constant_column(kind, value, rows)
    index = constant_column(DICTIONARY_TYPE.index_type, None if value is None else 0, rows)
    return pa.DictionaryArray.from_arrays(index, pa.array([] if value is None else [value], TEXT_TYPE))


def _row_numbers(rows: int) -> pa.Array:
    """0, 1, 2 and so on."""
    return _cached_row_numbers(1 << (rows - 1).bit_length() if rows else 0)[:rows]


@lru_cache(maxsize=32)
def _cached_row_numbers(rows: int) -> pa.Array:
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1)
