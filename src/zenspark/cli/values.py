"""Values of samples and replies: for people in one line, for scripts as JSON.

People see a payload as SQL decodes it: JSON compact, text as it is, CBOR and serialized numbers that name their type,
anything else as text if it is text, and in hexadecimal otherwise. Text from the network is escaped, so that it
cannot move the cursor or change colours.
"""

from __future__ import annotations

import base64
import sys
from datetime import datetime

import msgspec

from zenspark.cli.formatters import printable
from zenspark.types.encoding import Encoding
from zenspark.types.enums import SampleKind
from zenspark.types.network_info import ReplyError
from zenspark.types.payload_text import JSON_ENCODINGS, SERIALIZED_ENCODINGS, decode_text, media_type
from zenspark.types.sample import Sample
from zenspark.types.timestamps import Timestamp

PAYLOAD_PREVIEW_BYTES = 32
"""Number of bytes that are shown of a binary payload."""

JsonObject = dict[str, object]


def format_value(payload: bytes, encoding: Encoding | str, width: int | None = None) -> str:
    """Format a payload in one line; `width` is the maximum number of characters."""
    text = decode_value(payload, encoding)
    if text is None:
        ellipsis = "…" if len(payload) > PAYLOAD_PREVIEW_BYTES else ""
        text = f"<{len(payload)} bytes> {payload[:PAYLOAD_PREVIEW_BYTES].hex(' ')}{ellipsis}"
    elif media_type(encoding) in JSON_ENCODINGS:
        text = _compact_json(text)
    text = printable(text)
    return text if width is None or len(text) <= width else text[: max(width - 1, 0)] + "…"


def decode_value(payload: bytes, encoding: Encoding | str) -> str | None:
    """Return the payload as text; None if it is binary."""
    if media_type(encoding) not in SERIALIZED_ENCODINGS:
        return decode_text(payload, encoding)
    from zenspark.sql.payloads import decode_payload  # imported here: loading Arrow takes longer than most commands

    return decode_payload(payload, str(encoding))


def _compact_json(text: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).decode()
    except msgspec.DecodeError:
        return text


def value_object(payload: bytes, encoding: Encoding | str) -> JsonObject:
    """Return the payload for a script: `value` if it is JSON or text, `base64` otherwise."""
    text = decode_text(payload, encoding)
    if text is None:
        return {"base64": base64.b64encode(payload).decode()}
    if media_type(encoding) in JSON_ENCODINGS:
        try:
            return {"value": msgspec.json.decode(text)}
        except msgspec.DecodeError:
            pass
    return {"value": text}


def sample_object(sample: Sample, received: float | None = None) -> JsonObject:
    """Return a sample for a script; `received` is the time of reception in seconds since 1970."""
    document: JsonObject = {"key": str(sample.key_expr), "kind": sample.kind.name}
    if sample.kind is SampleKind.PUT:
        document |= value_object(sample.payload.to_bytes(), sample.encoding)
        document["encoding"] = str(sample.encoding)
    if sample.timestamp is not None:
        document["timestamp"] = str(sample.timestamp)
        document["time"] = sample.timestamp.get_time().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if received is not None:
        document["received"] = datetime.fromtimestamp(received).astimezone().isoformat()
    if sample.attachment is not None:
        document["attachment"] = value_object(sample.attachment.to_bytes(), "")
    return document


def error_object(error: ReplyError) -> JsonObject:
    """Return an error reply for a script."""
    return {"error": value_object(error.payload.to_bytes(), error.encoding), "encoding": str(error.encoding)}


def format_time(timestamp: Timestamp | None, received: float) -> str:
    """Format the time of a sample, local; the time of reception if it has no timestamp."""
    local_time = datetime.fromtimestamp(received) if timestamp is None else timestamp.get_time().astimezone()
    return local_time.strftime("%H:%M:%S.%f")[:-3]


def json_line(value: object) -> str:
    """Encode a value as one line of JSON."""
    return msgspec.json.encode(value).decode()


def read_value(text: str) -> bytes:
    """Return the payload that an argument names: a text, `@FILE`, or `-` for standard input."""
    if text == "-":
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        with open(text[1:], "rb") as file:
            return file.read()
    return text.encode()
