"""Samples, replies and errors as JSON documents of zenohd's REST plugin."""

from __future__ import annotations

import base64
from collections.abc import Iterable

import msgspec

from zenspark.types.encoding import Encoding
from zenspark.types.network_info import ReplyError
from zenspark.types.sample import Reply, Sample

JSON = "application/json"
JSONS = frozenset({JSON, "text/json", "text/json5"})
TEXTS = frozenset({"text/plain", "zenoh/string"})
BYTES = "application/octet-stream"

Document = dict[str, object]


def sample_document(sample: Sample) -> Document:
    """Convert a sample to its document."""
    stamp = None if sample.timestamp is None else str(sample.timestamp)
    return _document(str(sample.key_expr), sample, stamp)


def encode_replies(replies: Iterable[Reply]) -> bytes:
    """Encode all replies of a query as a JSON array."""
    return encode_json([_of_reply(reply) for reply in replies])


def encode_json(document: object) -> bytes:
    """Encode a document as one line of JSON."""
    return msgspec.json.encode(document)


def media_type(encoding: Encoding) -> str:
    """Convert an encoding to a Content-Type; application/octet-stream if a header cannot carry it."""
    text = str(encoding)
    return text if text.isascii() and text.isprintable() else BYTES


def _of_reply(reply: Reply) -> Document:
    result = reply.result
    return sample_document(result) if isinstance(result, Sample) else _document("ERROR", result, None)


def _document(key: str, result: Sample | ReplyError, stamp: str | None) -> Document:
    value = payload_value(result.payload.to_bytes(), result.encoding)
    return {"key": key, "value": value, "encoding": str(result.encoding), "timestamp": stamp}


def payload_value(payload: bytes, encoding: Encoding) -> object:
    """Convert a payload to a JSON value by its encoding; base64 if it cannot be decoded."""
    kind = str(encoding).partition(";")[0]
    if not payload:
        return None
    try:
        if kind in JSONS:
            return msgspec.json.decode(payload)
        if kind in TEXTS:
            return payload.decode()
    except (ValueError, RecursionError):
        pass
    return base64.b64encode(payload).decode()
