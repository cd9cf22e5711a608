"""Samples, replies and errors as JSON documents of zenohd's REST plugin."""

from __future__ import annotations

import base64
import contextlib
import zlib
from collections.abc import Iterable

import msgspec

from zenspark.types.encoding import Encoding
from zenspark.types.network_info import ReplyError
from zenspark.types.payload_text import DEFAULT_ENCODING, JSON_ENCODINGS
from zenspark.types.sample import Reply, Sample

JSON = "application/json"
OPENMETRICS = "application/openmetrics-text"
TEXT_TYPES = frozenset({"text/plain", "zenoh/string", OPENMETRICS})
BYTES_TYPE = "application/octet-stream"
GZIP_WINDOW_BITS = 31
"""The argument `wbits` of zlib for the largest window and the header of gzip."""
MAX_TEXT_BYTES = 16 << 20
"""Bytes of a compressed text that are decompressed."""
MAX_NTP64 = (1 << 64) - 1

Document = dict[str, object]


def sample_document(sample: Sample) -> Document:
    """Convert a sample to its document."""
    stamp = None if sample.timestamp is None else str(sample.timestamp)
    return _document(str(sample.key_expr), sample, stamp)


def row_document(
    key: str, kind: str, payload: bytes | None, encoding: str, ntp64: int | None, timestamp_id: str | None
) -> Document:
    """Convert a row of the sample schema to the document of its sample."""
    stamp = None if ntp64 is None else f"{ntp64 & MAX_NTP64}/{timestamp_id}"
    return {"key": key, "value": payload_value(payload or b"", encoding), "encoding": encoding, "timestamp": stamp}


def encode_replies(replies: Iterable[Reply]) -> bytes:
    """Encode all replies of a query as a JSON array."""
    return encode_json([_of_reply(reply) for reply in replies])


def encode_json(document: object) -> bytes:
    """Encode a document as one line of JSON."""
    return msgspec.json.encode(document)


def media_type(encoding: Encoding) -> str:
    """Convert an encoding to a Content-Type; application/octet-stream if a header cannot carry it."""
    text = str(encoding)
    return text if text.isascii() and text.isprintable() else BYTES_TYPE


def _of_reply(reply: Reply) -> Document:
    result = reply.result
    return sample_document(result) if isinstance(result, Sample) else _error_document(result)


def _error_document(error: ReplyError) -> Document:
    """Convert an error to its document; its reason is text, also without an encoding."""
    payload = error.payload.to_bytes()
    if str(error.encoding) == DEFAULT_ENCODING:
        with contextlib.suppress(UnicodeDecodeError):
            return {"key": "ERROR", "value": payload.decode(), "encoding": "text/plain", "timestamp": None}
    return _document("ERROR", error, None)


def _document(key: str, result: Sample | ReplyError, stamp: str | None) -> Document:
    value = payload_value(result.payload.to_bytes(), result.encoding)
    return {"key": key, "value": value, "encoding": str(result.encoding), "timestamp": stamp}


def payload_value(payload: bytes, encoding: Encoding | str) -> object:
    """Convert a payload to a JSON value by its encoding; base64 if it cannot be decoded."""
    kind, _, parameters = str(encoding).partition(";")
    if not payload:
        return None
    try:
        if kind == OPENMETRICS and "content-encoding=gzip" in parameters:
            return zlib.decompressobj(GZIP_WINDOW_BITS).decompress(payload, MAX_TEXT_BYTES).decode()
        if kind in JSON_ENCODINGS:
            return msgspec.json.decode(payload)
        if kind in TEXT_TYPES:
            return payload.decode()
    except (ValueError, RecursionError, zlib.error):
        pass
    return base64.b64encode(payload).decode()
