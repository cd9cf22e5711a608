from __future__ import annotations

import datetime
import json
import sys
from decimal import Decimal

import cbor2
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.api.ext.serialization import Float32, Int8, Int64, Int128, UInt16, UInt64, UInt128, z_serialize
from zenspark.sql.payloads import FIXED_WIDTH_TYPES, decode_payload, decode_payloads
from zenspark.types.payload_text import decode_text


def texts(*rows: tuple[str | None, bytes | None]) -> list[str | None]:
    encodings, payloads = zip(*rows, strict=True)
    found: list[str | None] = decode_payloads(
        pa.array(encodings, pa.string()), pa.array(payloads, pa.binary())
    ).to_pylist()
    return found


def test_each_row_is_decoded_by_its_own_encoding() -> None:
    rows = [("text/plain", b"a"), (None, b"b"), ("zenoh/bytes", b"c"), ("zenoh/string", b"d"), ("text/plain", None)]
    assert texts(*rows) == ["a", None, "c", "d", None]
    assert decode_payloads(pa.array([], pa.string()), pa.array([], pa.binary())).to_pylist() == []


def test_text_encodings_with_schema_or_unknown_subtype_are_decoded() -> None:
    rows = [("text/json;schema", b"{}"), ("application/yaml", b"a: 1"), ("text/whatever", b"x")]
    assert texts(*rows) == ["{}", "a: 1", "x"]


@pytest.mark.parametrize("encoding", ["zenoh/bytes", "zenoh/bytes;schema", "application/octet-stream", "lab/own"])
def test_payload_of_an_encoding_without_meaning_is_text_if_it_is_printable(encoding: str) -> None:
    plain = [(encoding, b"21.5"), (encoding, b""), (encoding, None), (encoding, b'{"a":\r\n\t1}')]
    assert texts(*plain) == ["21.5", "", None, '{"a":\r\n\t1}']
    mixed = [*plain, (encoding, "grün".encode()), (encoding, b"\x00"), (encoding, b"\xff"), (encoding, b"a\x1b")]
    assert texts(*mixed) == [*texts(*plain), "grün", None, None, None]


@pytest.mark.slow
@given(st.lists(st.binary(max_size=8) | st.text(max_size=8).map(str.encode)))
def test_column_of_payloads_is_decoded_as_each_of_them(payloads: list[bytes]) -> None:
    assert [decode_payload(payload, "zenoh/bytes") for payload in payloads] == [decode_text(each) for each in payloads]
    if payloads:
        assert texts(*(("zenoh/bytes", each) for each in payloads)) == [decode_text(each) for each in payloads]


def test_payload_that_is_not_utf_8_is_null() -> None:
    assert texts(("text/plain", b"\xff"), ("text/plain", b"ok"), ("text/plain", None)) == [None, "ok", None]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("int8", Int8(-5), "-5"),
        ("uint16", UInt16(65535), "65535"),
        ("int32", 7, "7"),
        ("int64", Int64(-(2**63)), str(-(2**63))),
        ("uint64", UInt64(2**64 - 1), str(2**64 - 1)),
        ("int128", Int128(-(2**100)), str(-(2**100))),
        ("uint128", UInt128(2**127), str(2**127)),
        ("float32", Float32(1.5), "1.5"),
        ("float64", 0.1, "0.1"),
        ("bool", True, "true"),
        ("string", "héllo", "héllo"),
    ],
)
def test_zenoh_serialized_payload_is_decoded_by_the_schema_type(name: str, value: object, text: str) -> None:
    payload = z_serialize(value).to_bytes()
    encoding = f"zenoh/serialized;{name}"
    assert texts((encoding, payload), (encoding, payload + b"\x00"), (encoding, b""), (encoding, None)) == [
        text,
        None,
        None,
        None,
    ]


def test_serialized_without_a_type_is_null() -> None:
    assert texts(("zenoh/serialized", b"\x01"), ("zenoh/serialized;struct", b"A")) == [None, None]
    assert all(kind.bit_width in (8, 16, 32, 64) for kind in FIXED_WIDTH_TYPES.values())


def test_cbor_becomes_json() -> None:
    value = {
        "n": None,
        "list": [1, 2.5, True, "x"],
        "bytes": b"\xfb\xff",
        1: "number",
        "when": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "price": Decimal("1.5"),
        "nan": float("nan"),
        "tag": cbor2.CBORTag(6000, "inner"),
    }
    (text,) = texts(("application/cbor", cbor2.dumps(value)))
    assert text is not None
    assert json.loads(text) == {
        "n": None,
        "list": [1, 2.5, True, "x"],
        "bytes": "-_8",
        "1": "number",
        "when": "2026-01-02T00:00:00+00:00",
        "price": 1.5,
        "nan": "NaN",
        "tag": "inner",
    }


def test_broken_cbor_is_null() -> None:
    assert (
        texts(("application/cbor", b"\xff"), ("application/cbor", b""), ("application/cbor", b"\x82\x01")) == [None] * 3
    )


def test_cbor_without_its_package_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decode_payload(cbor2.dumps(1), "application/cbor") == "1"
    monkeypatch.setitem(sys.modules, "cbor2", None)
    assert decode_payload(cbor2.dumps(1), "application/cbor") is None
