"""Samples and replies as JSON."""

from __future__ import annotations

import base64

import pytest

from zenspark.types.encoding import Encoding
from zenspark.web.documents import media_type, payload_value


@pytest.mark.parametrize(
    ("payload", "encoding", "value"),
    [
        (b'{"a": [1, null]}', "application/json", {"a": [1, None]}),
        (b"1.5", "application/json;charset=utf-8", 1.5),
        (b"[]", "text/json", []),
        (b"true", "text/json5", True),
        (b'say "\xc3\xa4"', "text/plain", 'say "ä"'),
        (b"text", "zenoh/string", "text"),
        (b"text", "zenoh/bytes", "dGV4dA=="),
        (b"<p>", "text/html", "PHA+"),
        (b"", "text/plain", None),
        (b"", "application/json", None),
        (b"NaN", "application/json", "TmFO"),
        (b"\xff", "text/plain", "/w=="),
    ],
)
def test_payload_value_depends_on_the_encoding(payload: bytes, encoding: str, value: object) -> None:
    assert payload_value(payload, Encoding(encoding)) == value


def test_json_that_is_too_deep_is_bytes() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert payload_value(deep, Encoding("application/json")) == base64.b64encode(deep).decode()


def test_encoding_that_is_no_valid_header_becomes_octet_stream() -> None:
    assert media_type(Encoding("text/plain;utf-8")) == "text/plain;utf-8"
    assert media_type(Encoding("text/plain;a\r\nSet-Cookie: b")) == "application/octet-stream"
    assert media_type(Encoding("text/ä")) == "application/octet-stream"
