"""Thrift compact protocol: the subset that Parquet metadata uses.

A struct is a dict from field number to value. 32-bit and 64-bit integers have different wire types, and readers skip a
field of the wrong type: `I32` encodes as 32 bits, a plain `int` as 64 bits.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Struct: TypeAlias = dict[int, Any]

TRUE, FALSE, BYTE, I16, I32_TYPE, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
INTEGER_TYPES = frozenset((I16, I32_TYPE, I64))
DOUBLE_BYTES = 8
MAX_STRUCT_DEPTH = 16
"""Nesting depth of structs: Parquet metadata has at most six."""
MAX_VARINT_BITS = 64


class ThriftError(ValueError):
    """The bytes are not a valid struct of the compact protocol."""


class I32(int):
    """An integer that is encoded with 32 bits."""


# --- reading ----------------------------------------------------------------------------------------------------------


def read_struct(data: bytes, at: int = 0) -> tuple[Struct, int]:
    """Decode the struct at a position, and return the position after it; raises `ThriftError`."""
    try:
        return _read_fields(data, at, 0)
    except IndexError:
        raise ThriftError(f"expected a struct of {len(data) - at} bytes or less, found no end") from None


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift >= MAX_VARINT_BITS:
            raise ThriftError(f"expected an integer of 64 bits at byte {at}, found a longer one")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, at


def _read_fields(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    if depth > MAX_STRUCT_DEPTH:
        raise ThriftError(f"expected at most {MAX_STRUCT_DEPTH} structs inside each other at byte {at}")
    fields: Struct = {}
    field = 0
    while True:
        head = data[at]
        at += 1
        if not head:
            return fields, at
        if head > 0x0F:
            field += head >> 4
        else:
            number, at = _read_varint(data, at)
            field = (number >> 1) ^ -(number & 1)
        kind = head & 0x0F
        if kind in INTEGER_TYPES:  # most fields: a call for each would double the time
            byte = data[at]
            at += 1
            if byte > 0x7F:
                number, at = _read_varint(data, at - 1)
            else:
                number = byte
            fields[field] = (number >> 1) ^ -(number & 1)
        else:
            fields[field], at = _read_value(data, at, kind, depth)


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in INTEGER_TYPES:
        number, at = _read_varint(data, at)
        return (number >> 1) ^ -(number & 1), at
    if kind == BINARY:
        return _read_bytes(data, *_read_varint(data, at))
    if kind == STRUCT:
        return _read_fields(data, at, depth + 1)
    if kind in (LIST, SET):
        return _read_list(data, at, depth + 1)
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind == BYTE:
        return data[at], at + 1
    if kind == DOUBLE:
        return _read_bytes(data, DOUBLE_BYTES, at)
    raise ThriftError(f"expected the type of a field before byte {at}, found {kind}")


def _read_bytes(data: bytes, size: int, at: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(data):
        raise IndexError
    return data[at:end], end


def _read_list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head = data[at]
    at += 1
    size, kind = head >> 4, head & 0x0F
    if size == 0x0F:
        size, at = _read_varint(data, at)
    if size > len(data) - at:  # each element takes a byte at least
        raise IndexError
    if kind in (TRUE, FALSE):
        values, at = _read_bytes(data, size, at)
        return [value == TRUE for value in values], at
    items = []
    for _ in range(size):
        value, at = _read_value(data, at, kind, depth)
        items.append(value)
    return items, at


# --- writing ----------------------------------------------------------------------------------------------------------


def encode_struct(struct: Struct) -> bytes:
    """Encode a struct, fields in ascending order; None fields are omitted."""
    out = bytearray()
    last = 0
    for field, value in sorted(struct.items()):
        if value is None:
            continue
        kind = _type_of(value)
        if 0 < field - last <= 0x0F:
            out.append((field - last) << 4 | kind)
        else:
            out.append(kind)
            out += _encode_varint(_zigzag(field))
        if kind not in (TRUE, FALSE):
            out += _encode_value(value)
        last = field
    out.append(0)
    return bytes(out)


def _type_of(value: object) -> int:
    match value:
        case bool():
            return TRUE if value else FALSE
        case I32():
            return I32_TYPE
        case int():
            return I64
        case bytes():
            return BINARY
        case list():
            return LIST
        case dict():
            return STRUCT
    raise TypeError(f"expected a value that Thrift has, found {value!r}")


def _encode_value(value: Any) -> bytes:  # noqa: ANN401 - one of the types above
    match value:
        case int():
            return _encode_varint(_zigzag(value))
        case bytes():
            return _encode_varint(len(value)) + value
        case list():
            kind = _type_of(value[0]) if value else STRUCT
            head = (
                bytes([len(value) << 4 | kind])
                if len(value) < 0x0F
                else bytes([0xF0 | kind]) + _encode_varint(len(value))
            )
            return head + b"".join(map(_encode_value, value))
        case _:
            return encode_struct(value)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
