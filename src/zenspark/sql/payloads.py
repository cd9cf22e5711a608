"""Payloads as text, by their encoding, a column at a time.

| encoding | text |
|---|---|
| `zenoh/string`, `text/*`, `application/json` and other types whose content is text | as it is |
| `application/cbor` | as JSON: byte strings in base64url, times in ISO 8601, keys of maps as texts, and `"NaN"`, `"Infinity"`, `"-Infinity"`, which `from_json` takes for a double |
| `zenoh/serialized;<type>` | the number; `<type>` is one of `int8` to `int128`, `uint8` to `uint128`, `float32`, `float64`, `bool`, `string` |
| `zenoh/serialized` without a type | null |
| any other, such as `zenoh/bytes`, the default of `put` | as it is, if it is UTF-8 without control characters but tabs and line breaks; otherwise null |

A payload that does not match its encoding is null as well. `types/payload_text.py` decides which content is text. Zenoh's serialization is not self-describing; name the type
in column_index of the schema: `zenoh_decode_payload('zenoh/serialized;int32', payload)`.
"""  # noqa: E501 - a table

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.types.payload_text import DEFAULT_ENCODING, decode_text, is_text_encoding, media_type

Decoder: TypeAlias = Callable[[pa.Array], pa.Array]
"""Converts payloads to texts, null where that is not possible."""

FIXED_WIDTH_TYPES = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}
"""Types serialized as little-endian bytes, which is their Arrow memory layout."""


def decode_payloads(encodings: pa.Array, payloads: pa.Array) -> pa.Array:
    """Decode payloads to texts, each by the encoding of its row."""
    distinct = pc.dictionary_encode(encodings)
    if len(distinct.dictionary) == 1 and not encodings.null_count:
        return find_decoder(distinct.dictionary[0].as_py())(payloads)
    rows = pa.array(range(len(payloads)), pa.int64())
    parts, indices = [pa.nulls(distinct.null_count, pa.string())], [rows.filter(pc.is_null(encodings))]
    for code, encoding in enumerate(distinct.dictionary.to_pylist()):
        mask = pc.fill_null(pc.equal(distinct.indices, code), False)
        parts.append(find_decoder(encoding)(payloads.filter(mask)))
        indices.append(rows.filter(mask))
    return pa.concat_arrays(parts).take(pc.sort_indices(pa.concat_arrays(indices)))


def decode_payload(payload: bytes, encoding: str) -> str | None:
    """Decode one payload to text, as `decode_payloads` does; without the package `cbor2`, CBOR is None."""
    try:
        text: str | None = find_decoder(encoding)(pa.array([payload], pa.binary()))[0].as_py()
    except ImportError:
        return None
    return text


def decode_result_column(rows: pa.Table, column_index: int) -> list[str | None]:
    """Decode a column of bytes: payloads by the column `encoding`, if there is one, others if they are printable."""
    column, encodings = rows.column(column_index).combine_chunks().cast(pa.binary()), find_encodings(rows, column_index)
    if encodings is None:
        texts: list[str | None] = find_decoder(DEFAULT_ENCODING)(column).to_pylist()
    else:
        texts = decode_payloads(pc.fill_null(encodings.combine_chunks(), DEFAULT_ENCODING), column).to_pylist()
    return texts


def find_encodings(rows: pa.Table, column_index: int) -> pa.ChunkedArray | None:
    """Return the encodings of a column of payloads; None if it is another column, or they are not in the result."""
    names = rows.column_names
    if names[column_index] != "payload" or names.count("encoding") != 1:
        return None
    encodings = rows["encoding"]
    return encodings if pa.types.is_string(encodings.type) else None


def find_decoder(encoding: str) -> Decoder:
    """Return the decoder of an encoding."""
    if is_text_encoding(encoding):
        return _decode_texts
    name, schema = media_type(encoding), encoding.partition(";")[2]
    if name == "application/cbor":
        return _decode_each(_from_cbor)
    if name == "zenoh/serialized":
        return _find_deserializer(schema.strip())
    return _decode_printable


def _decode_nothing(payloads: pa.Array) -> pa.Array:
    return pa.nulls(len(payloads), pa.string())


def _decode_each(decode: Callable[[bytes], str | None]) -> Decoder:
    """Make a decoder that works row by row; null where `decode` fails."""

    def text_of(payload: bytes | None) -> str | None:
        try:
            return None if payload is None else decode(payload)
        except (ValueError, OverflowError, RecursionError):
            return None

    return lambda payloads: pa.array(map(text_of, payloads.to_pylist()), pa.string())


_decode_texts_by_row = _decode_each(bytes.decode)


def _decode_texts(payloads: pa.Array) -> pa.Array:
    try:
        return payloads.cast(pa.string())
    except pa.ArrowInvalid:  # one of them is not UTF-8: decode row by row
        return _decode_texts_by_row(payloads)


PRINTABLE_ASCII = r"\A[\t\r\n -~]*\z"
"""Pattern of payloads that are text without further checks."""

_decode_printable_by_row = _decode_each(decode_text)


def _decode_printable(payloads: pa.Array) -> pa.Array:
    """Decode payloads whose encoding does not define their content."""
    is_ascii = pc.all(pc.match_substring_regex(payloads, PRINTABLE_ASCII), min_count=0).as_py()
    return payloads.cast(pa.string()) if is_ascii else _decode_printable_by_row(payloads)


# --- zenoh serialization ------------------------------------------------------------------------------------------


def _find_deserializer(name: str) -> Decoder:
    if name in FIXED_WIDTH_TYPES:
        return lambda payloads: _decode_numbers(payloads, FIXED_WIDTH_TYPES[name])
    return _SERIALIZED.get(name, _decode_nothing)


def _decode_numbers(payloads: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decode numbers of one width without copying."""
    width = kind.bit_width // 8
    is_whole = pc.equal(pc.binary_length(payloads), width)
    if not pc.all(is_whole).as_py():
        payloads = pc.if_else(is_whole, payloads, pa.scalar(None, pa.binary()))
    return payloads.cast(pa.binary(width)).view(kind).cast(pa.string())


def _make_deserializer(name: str, to_text: Callable[[Any], str] = str) -> Decoder:
    """Make a decoder of a type that `zenspark.ext` deserializes; its import takes longer than most queries."""

    def text_of(payload: bytes) -> str:
        from zenspark.api.ext import serialization
        from zenspark.types.zbytes import ZBytes

        kinds: dict[str, type] = {
            "int128": serialization.Int128,
            "uint128": serialization.UInt128,
            "bool": bool,
            "string": str,
        }
        try:
            value: Any = serialization.z_deserialize(kinds[name], ZBytes(payload))
        except serialization.ZDeserializeError as error:
            raise ValueError from error
        if serialization.z_serialize(value).to_bytes() != payload:  # trailing bytes: another type
            raise ValueError
        return to_text(value)

    return _decode_each(text_of)


_SERIALIZED = {
    "int128": _make_deserializer("int128"),
    "uint128": _make_deserializer("uint128"),
    "bool": _make_deserializer("bool", json.dumps),
    "string": _make_deserializer("string"),
}


# --- CBOR ---------------------------------------------------------------------------------------------------------


def _from_cbor(payload: bytes) -> str:
    import cbor2  # imported here: few payloads are CBOR

    try:
        value = cbor2.loads(payload)
    except (cbor2.CBORError, TypeError) as error:  # TypeError: unhashable keys of maps
        raise ValueError from error
    return json.dumps(_as_json(value), ensure_ascii=False, separators=(",", ":"))


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""Numbers that JSON cannot represent, as strings; `from_json` of Spark reads them as numbers."""


def _as_json(value: Any) -> Any:  # noqa: ANN401 - any CBOR value; one case per type
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _NOT_FINITE[str(value)]
        case bytes():
            return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
        case datetime.datetime() | datetime.date():
            return value.isoformat()
        case Decimal():
            return _as_json(float(value))
        case list() | tuple() | set() | frozenset():
            return [_as_json(item) for item in value]
        case dict():
            return {_key(key): _as_json(item) for key, item in value.items()}
        case _:
            inner = getattr(value, "value", None)  # of a tag, or of an unassigned simple value
            return str(value) if inner is None else _as_json(inner)


def _key(key: Any) -> str:  # noqa: ANN401 - any CBOR value
    plain = _as_json(key)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
