from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.lake.thrift import I32, MAX_STRUCT_DEPTH, ThriftError, encode_struct, read_struct

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
SIMPLE = NUMBERS | st.booleans() | st.binary(max_size=20) | st.integers(-(1 << 31), (1 << 31) - 1).map(I32)
FIELDS = st.integers(1, 40)


def structs(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[int, Any]]:
    return st.dictionaries(FIELDS, values, max_size=6)


VALUES = st.recursive(
    SIMPLE,
    lambda inner: structs(inner) | st.lists(NUMBERS, max_size=20) | st.lists(structs(SIMPLE), max_size=3),
    max_leaves=12,
)


@pytest.mark.slow
@given(structs(VALUES))
def test_structs_round_trip(struct: dict[int, Any]) -> None:
    content = encode_struct(struct)
    assert read_struct(b"x" + content + b"y", 1) == (struct, len(content) + 1)


@pytest.mark.slow
@given(structs(VALUES), st.data())
def test_truncated_struct_is_rejected(struct: dict[int, Any], data: st.DataObject) -> None:
    content = encode_struct(struct)
    with pytest.raises(ThriftError):
        read_struct(content[: data.draw(st.integers(0, len(content) - 1))])


@pytest.mark.slow
@given(st.binary(max_size=60))
def test_random_bytes_are_decoded_or_rejected(content: bytes) -> None:
    try:
        _, end = read_struct(content)
    except ThriftError:
        return
    assert end <= len(content)


def test_fields_are_encoded_as_specified() -> None:
    # field 1, 32 bits: zigzag of 1; field 2: -1; field 20 has its number behind its type
    assert encode_struct({1: I32(1), 2: -1, 20: b"ab", 21: True, 22: None}) == b"\x15\x02\x16\x01\x08\x28\x02ab\x11\x00"
    assert read_struct(b"\x15\x02\x16\x01\x08\x28\x02ab\x12\x13\x07\x17" + bytes(8) + b"\x00")[0] == {
        1: 1,
        2: -1,
        20: b"ab",
        21: False,
        22: 7,
        23: bytes(8),
    }
    assert read_struct(b"\x19\x31\x01\x02\x00\x00")[0] == {1: [True, False, False]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x1c" * (MAX_STRUCT_DEPTH + 2), "structs inside each other"),
        (b"\x1f\x00", "the type of a field"),
        (b"\x16" + b"\xff" * 11 + b"\x00", "an integer of 64 bits"),
        (b"\x19\xfc\xff\xff\xff\xff\x0f", "found no end"),
        (b"\x18\x70ab", "found no end"),
    ],
)
def test_errors_describe_expected_and_found(content: bytes, problem: str) -> None:
    with pytest.raises(ThriftError, match=problem):
        read_struct(content)


def test_unsupported_value_types_are_rejected() -> None:
    with pytest.raises(TypeError, match="a value that Thrift has"):
        encode_struct({1: 1.5})
