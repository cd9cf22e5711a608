"""Values of the page's API: payloads as documents that a page can show, by their encoding."""

from __future__ import annotations

import base64
import math
import struct
from datetime import UTC, datetime

import msgspec

from zenspark.sql.payloads import decode_payload
from zenspark.types.payload_text import JSON_ENCODINGS, SERIALIZED_ENCODINGS, decode_text, media_type

MAX_HEX_BYTES = 256
"""Bytes of a payload that are also shown as hexadecimal digits."""
MAX_VALUE_BYTES = 256 << 10
"""Bytes of a payload up to which it is sent to the page whole."""
MAX_IMAGE_BYTES = 2 << 20
"""Bytes of an image up to which it is sent to the page whole."""
MAX_LINE_CHARACTERS = 120
"""Characters of a value in a list of keys."""
SERIALIZED = "zenoh/serialized"
MIN_FLOAT_MAGNITUDE, MAX_FLOAT_MAGNITUDE = 1e-12, 1e15
"""Magnitudes between which eight bytes are taken for a float, not for an integer."""

Document = dict[str, object]


def iso(when: datetime | None) -> str | None:
    """Format a time in ISO 8601 and UTC."""
    return None if when is None else when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def iso_from_us(microseconds: int | None) -> str | None:
    """Format microseconds since 1970 in ISO 8601 and UTC."""
    return None if microseconds is None else iso(datetime.fromtimestamp(microseconds / 1e6, UTC))


def decode_json(payload: bytes, encoding: str) -> object:
    """Decode a payload as JSON; CBOR and serialized numbers are decoded, too. None if it is none of them."""
    kind = media_type(encoding)
    if kind in SERIALIZED_ENCODINGS:
        return _decode_serialized(payload, encoding)
    if kind not in JSON_ENCODINGS and not kind.endswith("+json") and payload[:1] not in b"{[0123456789-tfn":
        return None
    try:
        return msgspec.json.decode(payload) if payload else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _decode_serialized(payload: bytes, encoding: str) -> object:
    """Decode CBOR, or the type that the encoding names; a number is guessed where it names none."""
    text = decode_payload(payload, encoding)
    if text is None:
        return decode_number(payload) if media_type(encoding) == SERIALIZED else None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text


def decode_number(payload: bytes) -> float | int | None:
    """Decode a serialized number, whose type is not in the payload: a float if that is plausible, else an integer."""
    match len(payload):
        case 8:
            number: float = struct.unpack("<d", payload)[0]
        case 4:
            number = struct.unpack("<f", payload)[0]
        case 1 | 2:
            return int.from_bytes(payload, "little", signed=True)
        case _:
            return None
    is_plausible = number == 0 or (math.isfinite(number) and MIN_FLOAT_MAGNITUDE <= abs(number) <= MAX_FLOAT_MAGNITUDE)
    return number if is_plausible else int.from_bytes(payload, "little", signed=True)


def value_document(payload: bytes, encoding: str) -> Document:
    """Convert a payload to the document that a page shows."""
    max_bytes = MAX_IMAGE_BYTES if media_type(encoding).startswith("image/") else MAX_VALUE_BYTES
    is_small = len(payload) <= max_bytes
    return {
        "encoding": encoding,
        "size": len(payload),
        "text": decode_text(payload, encoding) if is_small else None,
        "json": decode_json(payload, encoding) if is_small else None,
        "hex": payload[:MAX_HEX_BYTES].hex(),
        "base64": base64.b64encode(payload).decode() if is_small else None,
    }


def short_text(payload: bytes, encoding: str) -> str:
    """Convert a payload to one short line, for lists."""
    picture = picture_text(encoding, len(payload))
    if picture is not None:
        return picture
    part = payload[: 4 * MAX_LINE_CHARACTERS]
    if media_type(encoding) in SERIALIZED_ENCODINGS and len(payload) <= MAX_VALUE_BYTES:
        text = _format_json(decode_json(payload, encoding))
    else:
        text = decode_text(part, encoding)
    if text is None and len(part) < len(payload):
        text = decode_text(_cut_utf8(part), encoding)
    if text is None:
        return f"{payload[:16].hex(' ')}{' …' if len(payload) > 16 else ''}"
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE_CHARACTERS and len(part) == len(payload) else f"{line[:MAX_LINE_CHARACTERS]}…"


def picture_text(encoding: str, size: int) -> str | None:
    """Describe a picture by its encoding and its size in bytes; None if the encoding is not one of pictures."""
    group, _, name = media_type(encoding).partition("/")
    return f"{name.partition('+')[0].upper()} picture, {size} bytes" if group == "image" else None


def _format_json(value: object) -> str | None:
    match value:
        case None | str():
            return value
        case float():
            return f"{value:.6g}"
    return msgspec.json.encode(value).decode()


def _cut_utf8(part: bytes) -> bytes:
    """Cut an incomplete character off the end."""
    return part.decode(errors="ignore").encode() if len(part) >= 4 else part
