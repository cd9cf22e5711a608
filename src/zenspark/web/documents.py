"""Samples, replies and errors as the JSON documents of zenohd's REST plugin."""

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
    """One sample."""
    stamp = None if sample.timestamp is None else str(sample.timestamp)
    return _document(str(sample.key_expr), sample, stamp)


def encode_replies(replies: Iterable[Reply]) -> bytes:
    """All replies of a query, as text."""
    return encode_json([_of_reply(reply) for reply in replies])


def encode_json(document: object) -> bytes:
    """The JSON text of a document, in one line."""
    return msgspec.json.encode(document)


def media_type(encoding: Encoding) -> str:
    """An encoding as a Content-Type; one that no header can carry is just bytes."""
    text = str(encoding)
    return text if text.isascii() and text.isprintable() else BYTES


def _of_reply(reply: Reply) -> Document:
    result = reply.result
    return sample_document(result) if isinstance(result, Sample) else _document("ERROR", result, None)


def _document(key: str, said: Sample | ReplyError, stamp: str | None) -> Document:
    value = payload_value(said.payload.to_bytes(), said.encoding)
    return {"key": key, "value": value, "encoding": str(said.encoding), "timestamp": stamp}


def payload_value(payload: bytes, encoding: Encoding) -> object:
    """A payload inside a document: as what it says it is, and in base64 if it is not that."""
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
