"""Payloads as text."""

from __future__ import annotations

import pytest

from zenspark.types.encoding import Encoding
from zenspark.types.payload_text import (
    MAX_LOG_TEXT_CHARACTERS,
    decode_text,
    is_text_encoding,
    log_text,
    media_type,
)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", ""),
        (b"no space left", "no space left"),
        (b"two\r\n lines\n", "two lines"),
        (b"\x1b[31mred\x07\x00", "[31mred"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 200, "x" * 200),
        (b"x" * 201, "x" * 199 + "…"),
        ("ü".encode() * 1_000_000, "ü" * 199 + "…"),
    ],
)
def test_log_text_is_one_short_printable_line(payload: bytes, text: str) -> None:
    assert log_text(payload) == text
    assert len(text) <= MAX_LOG_TEXT_CHARACTERS


@pytest.mark.parametrize(
    ("payload", "encoding", "text"),
    [
        (b"21.5", "zenoh/bytes", "21.5"),
        (b'{"a": 1}', "zenoh/bytes", '{"a": 1}'),
        (b"two\r\n\tlines", "zenoh/bytes", "two\r\n\tlines"),
        ("grün".encode(), "application/octet-stream", "grün"),
        (b"x", "lab/own-format", "x"),
        (b"", "zenoh/bytes", ""),
        (b"\x00\x01", "zenoh/bytes", None),
        (b"\x1b[31mred", "zenoh/bytes", None),
        (b"\xff", "zenoh/bytes", None),
        (b"\x1b[31mred", "text/plain", "\x1b[31mred"),
        (b"\xff", "text/plain", None),
        (b"\x89PNG", "image/png", None),
        (b"AB", "zenoh/serialized", None),
        (b"AB", "zenoh/serialized;int16", None),
        (b"a", "application/cbor", None),
        (b"<a/>", "image/svg+xml", "<a/>"),
    ],
)
def test_text_by_encoding_and_content(payload: bytes, encoding: str, text: str | None) -> None:
    assert decode_text(payload, encoding) == text
    assert decode_text(payload, Encoding(encoding)) == text


def test_payload_without_encoding_is_treated_as_published_without_one() -> None:
    assert (decode_text(b"a"), decode_text(b"\x00")) == ("a", None)


@pytest.mark.parametrize("encoding", ["zenoh/string", "text/csv;v1", "application/vnd.x+json;v=1", "application/yaml"])
def test_encodings_of_text(encoding: str) -> None:
    assert is_text_encoding(encoding)
    assert ";" not in media_type(encoding)


@pytest.mark.parametrize("encoding", ["zenoh/bytes", "image/png", "application/cbor", ""])
def test_encodings_that_are_not_of_text(encoding: str) -> None:
    assert not is_text_encoding(encoding)
