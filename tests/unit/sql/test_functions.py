from __future__ import annotations

import pyarrow as pa
import pytest

from zenspark.errors import UsageError
from zenspark.key.match import includes, intersects
from zenspark.sql.functions import (
    FUNCTION_NAMES,
    compare_key_exprs,
    try_zenoh_includes,
    try_zenoh_intersects,
    try_zenoh_key_match,
    zenoh_decode_payload,
    zenoh_ntp64_to_timestamp,
)


def test_key_expressions_are_compared_row_by_row() -> None:
    lefts = ["a/*", "b", "a/*", None, "a/**/*", "b"]
    rights = ["a/x", "a/x", "b", "b", "a/x/y", None]
    assert compare_key_exprs(pa.array(lefts), pa.array(rights), intersects).to_pylist() == [
        True,
        False,
        False,
        None,
        True,
        None,
    ]
    assert compare_key_exprs(pa.array(rights), pa.array(lefts), includes).to_pylist() == [
        False,
        False,
        False,
        None,
        False,
        None,
    ]


def test_empty_and_null_columns_compare_to_empty_and_null() -> None:
    nothing = pa.array([], pa.string())
    assert compare_key_exprs(nothing, nothing, intersects).to_pylist() == []
    assert compare_key_exprs(pa.nulls(2, pa.string()), pa.array(["a", "b"]), intersects).to_pylist() == [None, None]


def test_invalid_key_expression_is_named() -> None:
    with pytest.raises(UsageError, match="key expression 'a//b'"):
        compare_key_exprs(pa.array(["a"]), pa.array(["a//b"]), intersects)


def test_try_functions_return_null_for_invalid_key_expressions() -> None:
    keys, texts = pa.array(["a/x", "a//b", "a/y", None]), pa.array(["a/*", "a/*", "/", "a"])
    assert try_zenoh_key_match(keys, texts).to_pylist() == [True, None, None, None]
    assert try_zenoh_intersects(keys, texts).to_pylist() == [True, None, None, None]
    assert try_zenoh_includes(keys, texts).to_pylist() == [False, None, None, None]


def test_a_null_without_a_type_gives_a_null() -> None:
    nothing, texts = pa.nulls(2), pa.array(["a", "a"])
    assert compare_key_exprs(nothing, texts, intersects).to_pylist() == [None, None]
    assert compare_key_exprs(texts, nothing, intersects).to_pylist() == [None, None]
    assert zenoh_decode_payload(nothing, pa.array([b"x", b"y"])).to_pylist() == [None, None]
    assert zenoh_decode_payload(pa.array(["text/plain", "application/cbor"]), nothing).to_pylist() == [None, None]
    assert zenoh_ntp64_to_timestamp(nothing).to_pylist() == [None, None]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.decimal128(20, 0)])
def test_ntp64_of_any_number_type_is_converted(kind: pa.DataType) -> None:
    (moment,) = zenoh_ntp64_to_timestamp(pa.array([0], kind)).to_pylist()
    assert moment.timestamp() == 0


def test_ntp64_after_2038_as_decimal_is_converted() -> None:
    (moment,) = zenoh_ntp64_to_timestamp(pa.array([4_000_000_000 << 32], pa.decimal128(20, 0))).to_pylist()
    assert moment.timestamp() == 4_000_000_000


def test_ntp64_after_2038_as_signed_integer_is_converted() -> None:
    reading = (4_000_000_000 << 32) - (1 << 64)  # the bits of an unsigned number, as the schema has them
    (moment,) = zenoh_ntp64_to_timestamp(pa.array([reading], pa.int64())).to_pylist()
    assert moment.timestamp() == 4_000_000_000


def test_sql_names_are_those_of_python() -> None:
    assert list(FUNCTION_NAMES) == [
        "zenoh_intersects",
        "zenoh_includes",
        "zenoh_key_match",
        "try_zenoh_intersects",
        "try_zenoh_includes",
        "try_zenoh_key_match",
        "zenoh_decode_payload",
        "zenoh_ntp64_to_timestamp",
    ]
