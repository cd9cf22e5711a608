"""Payloads as text, by their encoding, a column at a time.

| encoding | text |
|---|---|
| `zenoh/string`, `text/*`, `application/json` and other types whose content is text | as it is |
| `application/cbor` | as JSON: byte strings in base64url, times in ISO 8601, keys of maps as texts, and `"NaN"`, `"Infinity"`, `"-Infinity"`, which `from_json` takes for a double |
| `zenoh/serialized;<type>` | the number; `<type>` is one of `int8` to `int128`, `uint8` to `uint128`, `float32`, `float64`, `bool`, `string` |
| any other | null |

A payload that is not what its encoding says is null as well. Zenoh's serialization does not say what it holds; whoever
knows names the type in the place of the schema: `zenoh_decode_payload('zenoh/serialized;int32', payload)`.
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

from zenspark.api.ext.serialization import Int128, UInt128, ZDeserializeError, z_deserialize, z_serialize
from zenspark.types.zbytes import ZBytes

Decoder: TypeAlias = Callable[[pa.Array], pa.Array]
"""From payloads to texts, null where there is none."""

TEXTS = frozenset(
    {
        "zenoh/string",
        "application/json",
        "application/json-patch+json",
        "application/json-seq",
        "application/jsonpath",
        "application/jwt",
        "application/openmetrics-text",
        "application/soap+xml",
        "application/sql",
        "application/x-www-form-urlencoded",
        "application/xml",
        "application/yaml",
        "application/yang",
    }
)
"""Types whose content is UTF-8; those that begin with `text/` are too."""

FIXED = {
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
"""Serialized as little-endian bytes, which is how Arrow has them in memory."""


def decoded(encodings: pa.Array, payloads: pa.Array) -> pa.Array:
    """The payloads as texts, each by the encoding in its row."""
    known = pc.dictionary_encode(encodings)
    if len(known.dictionary) == 1 and not encodings.null_count:
        return decoder_of(known.dictionary[0].as_py())(payloads)
    rows = pa.array(range(len(payloads)), pa.int64())
    parts, places = [pa.nulls(known.null_count, pa.string())], [rows.filter(pc.is_null(encodings))]
    for code, encoding in enumerate(known.dictionary.to_pylist()):
        mask = pc.fill_null(pc.equal(known.indices, code), False)
        parts.append(decoder_of(encoding)(payloads.filter(mask)))
        places.append(rows.filter(mask))
    return pa.concat_arrays(parts).take(pc.sort_indices(pa.concat_arrays(places)))


def decoder_of(encoding: str) -> Decoder:
    """What makes texts of payloads of an encoding."""
    name, _, schema = encoding.partition(";")
    if name in TEXTS or name.startswith("text/"):
        return _texts
    if name == "application/cbor":
        return _each(_from_cbor)
    if name == "zenoh/serialized":
        return _deserializer(schema.strip())
    return _nothing


def _nothing(payloads: pa.Array) -> pa.Array:
    return pa.nulls(len(payloads), pa.string())


def _each(one: Callable[[bytes], str]) -> Decoder:
    """Row by row; null where the bytes are refused."""

    def text_of(payload: bytes | None) -> str | None:
        try:
            return None if payload is None else one(payload)
        except (ValueError, OverflowError, RecursionError, ZDeserializeError):
            return None

    return lambda payloads: pa.array(map(text_of, payloads.to_pylist()), pa.string())


_texts_one_by_one = _each(bytes.decode)


def _texts(payloads: pa.Array) -> pa.Array:
    try:
        return payloads.cast(pa.string())
    except pa.ArrowInvalid:  # one of them is not UTF-8: which one, only a look at each tells
        return _texts_one_by_one(payloads)


# --- zenoh serialization ------------------------------------------------------------------------------------------


def _deserializer(name: str) -> Decoder:
    if name in FIXED:
        return lambda payloads: _numbers(payloads, FIXED[name])
    return _SERIALIZED.get(name, _nothing)


def _numbers(payloads: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers of one width, where they are in memory."""
    width = kind.bit_width // 8
    is_whole = pc.equal(pc.binary_length(payloads), width)
    if not pc.all(is_whole).as_py():
        payloads = pc.if_else(is_whole, payloads, pa.scalar(None, pa.binary()))
    return payloads.cast(pa.binary(width)).view(kind).cast(pa.string())


def _serialized(tp: type, spelled: Callable[[Any], str] = str) -> Decoder:
    def text_of(payload: bytes) -> str:
        value: Any = z_deserialize(tp, ZBytes(payload))
        if z_serialize(value).to_bytes() != payload:  # there is more behind it: it is something else
            raise ValueError
        return spelled(value)

    return _each(text_of)


_SERIALIZED = {
    "int128": _serialized(Int128),
    "uint128": _serialized(UInt128),
    "bool": _serialized(bool, json.dumps),
    "string": _serialized(str),
}


# --- CBOR ---------------------------------------------------------------------------------------------------------


def _from_cbor(payload: bytes) -> str:
    import cbor2  # only where it is needed: few payloads are CBOR

    try:
        value = cbor2.loads(payload)
    except (cbor2.CBORError, TypeError) as error:  # the latter for keys of maps that Python cannot have as such
        raise ValueError from error
    return json.dumps(_as_json(value), ensure_ascii=False, separators=(",", ":"))


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""Numbers that JSON has not: as texts, which any parser of JSON takes, and Spark's `from_json` as numbers again."""


def _as_json(value: Any) -> Any:  # noqa: ANN401 - whatever CBOR has; one case per kind of value
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
            inner = getattr(value, "value", None)  # of a tag, or of a simple value that has no name
            return str(value) if inner is None else _as_json(inner)


def _key(key: Any) -> str:  # noqa: ANN401 - as above
    plain = _as_json(key)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
