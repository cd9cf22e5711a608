import math
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from zenspark.api.ext.serialization import (
    BYTES,
    COLLECTIONS,
    INTEGERS,
    MAX_EMPTY_ITEMS,
    Float32,
    Float64,
    Int8,
    Int32,
    Int128,
    OutOfRange,
    SizedInt,
    UInt8,
    UInt64,
    UInt128,
    ZDeserializeError,
    z_deserialize,
    z_serialize,
)
from zenspark.errors import ZError
from zenspark.types.zbytes import ZBytes

SIZED = SizedInt.__subclasses__()


@pytest.mark.parametrize(
    ("tp", "value", "raw"),
    [
        (int, -1, "ffffffff"),
        (bool, True, "01"),
        (float, 1.5, "000000000000f83f"),
        (Float64, Float64(1.5), "000000000000f83f"),
        (Float32, Float32(0.5), "0000003f"),
        (Int8, Int8(-1), "ff"),
        (Int128, Int128(-2), "fe" + "ff" * 15),
        (UInt64, UInt64(1), "0100000000000000"),
        (str, "é", "02c3a9"),
        (bytes, b"ab", "026162"),
        (bytearray, bytearray(b"ab"), "026162"),
        (ZBytes, ZBytes(b"ab"), "026162"),
        (list[int], [1, 2], "020100000002000000"),
        (list[int], [], "00"),
        (set[UInt8], {UInt8(1)}, "0101"),
        (frozenset[UInt8], frozenset([UInt8(1)]), "0101"),
        (dict[str, UInt8], {"a": UInt8(1)}, "01016101"),
        (tuple[int, str], (1, "a"), "010000000161"),
        (tuple[()], (), ""),
        (list[tuple[UInt8, list[bool]]], [(UInt8(1), [True]), (UInt8(2), [])], "020101010200"),
        (list[tuple[()]], [(), ()], "02"),
        (str, "a" * 200, "c801" + "61" * 200),
    ],
)
def test_values_serialize_to_bytes_and_deserialize_to_the_same_type(tp: Any, value: Any, raw: str) -> None:  # noqa: ANN401 - anything that can be written
    assert z_serialize(value).to_bytes().hex() == raw
    back = z_deserialize(tp, ZBytes(bytes.fromhex(raw)))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("tp", SIZED)
def test_integers_have_limits(tp: type[SizedInt]) -> None:
    low = -(1 << (tp.BITS - 1)) if tp.SIGNED else 0
    high = low + (1 << tp.BITS) - 1
    for limit in (low, high):
        assert z_deserialize(tp, z_serialize(tp(limit))) == limit
        assert type(tp(limit)) is tp
    for beyond in (low - 1, high + 1):
        with pytest.raises(OutOfRange, match=f"{beyond} too big for {tp.__name__}"):
            tp(beyond)
    assert INTEGERS[tp] == (tp.BITS // 8, tp.SIGNED)


def test_integer_out_of_range_is_an_assertion_error_and_a_zerror() -> None:
    with pytest.raises(AssertionError):
        UInt8(-1)
    with pytest.raises(ZError):
        UInt128(1 << 128)


def test_a_plain_int_has_32_bits() -> None:
    assert z_serialize(5) == z_serialize(Int32(5))
    with pytest.raises(OverflowError):
        z_serialize(1 << 31)


def test_float32_overflow_deserializes_to_infinity() -> None:
    assert z_deserialize(Float32, z_serialize(Float32(1e300))) == math.inf
    assert z_deserialize(Float32, z_serialize(Float32(-1e300))) == -math.inf
    assert math.isnan(z_deserialize(Float32, z_serialize(Float32(math.nan))))


@pytest.mark.parametrize("value", [None, object(), 1j, range(3), memoryview(b""), (None,), [None], {"a": None}, int])
def test_serializing_an_unsupported_type_raises(value: object) -> None:
    with pytest.raises(TypeError, match="is not supported"):
        z_serialize(value)


@pytest.mark.parametrize("value", [[1, "a"], [1, True], {1, "a"}, {1: 2, "a": 3}, {1: 2, 3: "a"}, [b"", bytearray()]])
def test_items_must_have_one_type(value: object) -> None:
    with pytest.raises(ValueError, match="must have the same type"):
        z_serialize(value)


@pytest.mark.parametrize("tp", [object, None, "int", memoryview, int | None, tuple[int, ...], type[int]])
def test_deserializing_an_unsupported_type_raises(tp: Any) -> None:  # noqa: ANN401 - anything but a type
    with pytest.raises(TypeError, match="not supported"):
        z_deserialize(tp, ZBytes(b"\0"))


@pytest.mark.parametrize("tp", [list, set, frozenset, dict, tuple])
def test_deserializing_a_collection_without_item_type_raises(tp: type) -> None:
    with pytest.raises(ValueError, match=rf"as in {tp.__name__}\[int\]"):
        z_deserialize(tp, ZBytes(b"\0"))


def test_types_of_the_typing_module_will_do() -> None:
    tp: Any = typing.Dict[str, typing.List[int]]  # noqa: UP006 - these on purpose
    assert z_deserialize(tp, z_serialize({"a": [1]})) == {"a": [1]}


@pytest.mark.parametrize(
    ("tp", "raw", "expected", "position"),
    [
        (int, b"\0\0\0", "an integer of 32 bits of 4 bytes", 0),
        (float, b"\0" * 7, "a float of 8 bytes", 0),
        (bool, b"", "a bool of 1 bytes", 0),
        (bool, b"\2", "a bool of 0 or 1 instead of 2", 0),
        (str, b"\5ab", "text of 5 bytes", 1),
        (str, b"\1\xff", "text in UTF-8", 0),
        (bytes, b"\xff" * 8 + b"\x7f", "bytes of 9223372036854775807 bytes", 9),
        (bytes, b"", "a count of 1 bytes", 0),
        (bytes, b"\x80" * 10 + b"\0", "a count of at most 10 bytes", 0),
        (bytes, b"\x80" * 9 + b"\2", "a count of at most 64 bits", 0),
        (list[int], b"\1", "1 items, more than there are bytes for,", 0),
        (list[int], b"\xff\xff\xff\xff\x0f", "4294967295 items, more than there are bytes for,", 0),
        (list[tuple[()]], b"\x81\x80\x04", f"{MAX_EMPTY_ITEMS + 1} items, more than there are bytes for,", 0),
        (tuple[UInt8, int], b"\1\2", "an integer of 32 bits of 4 bytes", 1),
    ],
)
def test_malformed_bytes_raise_with_expectation_and_position(tp: Any, raw: bytes, expected: str, position: int) -> None:  # noqa: ANN401 - a type
    with pytest.raises(ZDeserializeError) as caught:
        z_deserialize(tp, ZBytes(raw))
    assert (caught.value.expected, caught.value.position) == (expected, position)
    assert str(caught.value) == f"expected {expected} at byte {position}"


def test_trailing_bytes_and_overlong_counts_are_accepted() -> None:
    assert z_deserialize(UInt8, ZBytes(b"\1\2\3")) == 1
    assert z_deserialize(bytes, ZBytes(b"\x82\x00ab")) == b"ab"


def test_deserialize_accepts_only_zbytes() -> None:
    with pytest.raises(TypeError, match="expected a ZBytes, found 'bytes'"):
        z_deserialize(int, b"\0\0\0\0")  # type: ignore[arg-type]  # that is the point


@pytest.mark.slow
@examples(100)
@given(st.binary(), st.sampled_from([int, str, *BYTES, *(make[UInt8] for make in COLLECTIONS), dict[str, bool]]))  # type: ignore[index]  # all are generic
def test_random_bytes_round_trip_or_raise_deserialize_error(raw: bytes, tp: Any) -> None:  # noqa: ANN401 - a type
    try:
        value = z_deserialize(tp, ZBytes(raw))
    except ZDeserializeError:
        return
    assert z_deserialize(tp, z_serialize(value)) == value
