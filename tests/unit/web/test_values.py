"""Payloads as a page shows them."""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime

import cbor2
import pytest

from zenspark.types.payload_text import decode_text
from zenspark.web.values import (
    MAX_HEX_BYTES,
    MAX_LINE_CHARACTERS,
    MAX_VALUE_BYTES,
    decode_json,
    decode_number,
    iso,
    iso_from_us,
    short_text,
    value_document,
)


@pytest.mark.parametrize(
    ("payload", "encoding", "text", "value"),
    [
        (b'{"a":1}', "application/json", '{"a":1}', {"a": 1}),
        (b'{"a":1}', "application/vnd.x+json;v=1", '{"a":1}', {"a": 1}),
        (b'{"a":1}', "zenoh/bytes", '{"a":1}', {"a": 1}),
        (b"{broken", "application/json", "{broken", None),
        (b"hello", "text/plain", "hello", None),
        (b"12.5", "text/plain", "12.5", 12.5),
        (b"\xff\x00", "text/plain", None, None),
        (b"\x00\x01", "zenoh/bytes", None, None),
        (b"", "zenoh/bytes", "", None),
        (struct.pack("<d", 2.5), "zenoh/serialized", None, 2.5),
        (struct.pack("<i", 1_000_000_000), "zenoh/serialized;int32", None, 1_000_000_000),
        (b"\x02hi", "zenoh/serialized;string", None, "hi"),
        (cbor2.dumps({"a": [1]}), "application/cbor", None, {"a": [1]}),
        (b"\xff", "application/cbor", None, None),
        (b"\x89PNG", "image/png", None, None),
    ],
)
def test_payloads_are_decoded_to_text_and_json_by_encoding(
    payload: bytes, encoding: str, text: str | None, value: object
) -> None:
    assert decode_text(payload, encoding) == text
    assert decode_json(payload, encoding) == value


@pytest.mark.parametrize(
    ("payload", "number"),
    [
        (struct.pack("<d", -0.25), -0.25),
        (struct.pack("<q", 7), 7),
        (struct.pack("<f", 0.5), 0.5),
        (struct.pack("<i", -3), -3),
        (b"\xff", -1),
        (b"\x01\x01", 257),
        (bytes(8), 0),
        (b"abc", None),
        (struct.pack("<d", float("nan")), 0x7FF8 << 48),
    ],
)
def test_serialized_numbers(payload: bytes, number: float | None) -> None:
    assert decode_number(payload) == number


def test_large_values_are_not_sent_whole() -> None:
    small = value_document(b"\xff" * 1000, "zenoh/bytes")
    assert (small["size"], small["base64"]) == (1000, base64.b64encode(b"\xff" * 1000).decode())
    assert small["hex"] == "ff" * MAX_HEX_BYTES
    large = value_document(bytes(MAX_VALUE_BYTES + 1), "text/plain")
    assert (large["size"], large["text"], large["base64"]) == (MAX_VALUE_BYTES + 1, None, None)
    assert value_document(bytes(MAX_VALUE_BYTES + 1), "image/png")["base64"] is not None


@pytest.mark.parametrize(
    ("payload", "encoding", "line"),
    [
        (b"a\n  b", "text/plain", "a b"),
        (struct.pack("<d", 1 / 3), "zenoh/serialized", "0.333333"),
        (struct.pack("<q", 7), "zenoh/serialized", "7"),
        (struct.pack("<i", 1_000_000_000), "zenoh/serialized;int32", "1000000000"),
        (cbor2.dumps({"a": [1]}), "application/cbor", '{"a":[1]}'),
        (cbor2.dumps("x" * 1000), "application/cbor", "x" * MAX_LINE_CHARACTERS + "…"),
        (b"\x00\xff", "zenoh/bytes", "00 ff"),
        (bytes(100), "zenoh/bytes", " ".join(["00"] * 16) + " …"),
        (b"\xff\xd8" + bytes(5599), "image/jpeg", "JPEG picture, 5601 bytes"),
        (b"\x89PNG", "image/png;v=1", "PNG picture, 4 bytes"),
        (b"<svg/>", "image/svg+xml", "SVG picture, 6 bytes"),
        ("ä".encode() * 1000, "text/plain", "ä" * MAX_LINE_CHARACTERS + "…"),
        (b"x" + "€".encode() * 1000, "text/plain", "x" + "€" * (MAX_LINE_CHARACTERS - 1) + "…"),
    ],
)
def test_short_text_is_one_line_of_limited_length(payload: bytes, encoding: str, line: str) -> None:
    assert short_text(payload, encoding) == line


def test_times_are_formatted_in_iso_8601() -> None:
    assert iso(datetime(2024, 7, 1, 12, tzinfo=UTC)) == "2024-07-01T12:00:00Z"
    assert iso_from_us(1_500_000) == "1970-01-01T00:00:01.500000Z"
    assert (iso(None), iso_from_us(None)) == (None, None)
