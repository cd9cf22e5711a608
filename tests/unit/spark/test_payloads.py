from __future__ import annotations

import datetime
import json
from decimal import Decimal

import cbor2
import pyarrow as pa
import pytest

from zenspark.api.ext.serialization import Float32, Int8, Int64, Int128, UInt16, UInt64, UInt128, z_serialize
from zenspark.spark.payloads import FIXED_WIDTH_TYPES, decode_payloads


def texts(*rows: tuple[str | None, bytes | None]) -> list[str | None]:
    encodings, payloads = zip(*rows, strict=True)
    found: list[str | None] = decode_payloads(
        pa.array(encodings, pa.string()), pa.array(payloads, pa.binary())
    ).to_pylist()
    return found


def test_each_row_is_decoded_by_its_own_encoding() -> None:
    rows = [("text/plain", b"a"), (None, b"b"), ("zenoh/bytes", b"c"), ("zenoh/string", b"d"), ("text/plain", None)]
    assert texts(*rows) == ["a", None, None, "d", None]
    assert decode_payloads(pa.array([], pa.string()), pa.array([], pa.binary())).to_pylist() == []


def test_text_with_a_schema_or_of_another_kind() -> None:
    rows = [("text/json;schema", b"{}"), ("application/yaml", b"a: 1"), ("text/whatever", b"x")]
    assert texts(*rows) == ["{}", "a: 1", "x"]


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
    assert texts(("zenoh/serialized", b"\x01"), ("zenoh/serialized;struct", b"\x01")) == [None, None]
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
