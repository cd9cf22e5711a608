from __future__ import annotations

import pyarrow as pa
import pytest

from zenspark.errors import UsageError
from zenspark.key.match import includes, intersects
from zenspark.spark.functions import FUNCTIONS, related, zenoh_ntp64_to_timestamp


def test_every_row_gets_the_answer_of_its_own_pair() -> None:
    lefts = ["a/*", "b", "a/*", None, "a/**/*", "b"]
    rights = ["a/x", "a/x", "b", "b", "a/x/y", None]
    assert related(pa.array(lefts), pa.array(rights), intersects).to_pylist() == [True, False, False, None, True, None]
    assert related(pa.array(rights), pa.array(lefts), includes).to_pylist() == [False, False, False, None, False, None]


def test_no_rows_and_only_nulls() -> None:
    nothing = pa.array([], pa.string())
    assert related(nothing, nothing, intersects).to_pylist() == []
    assert related(pa.nulls(2, pa.string()), pa.array(["a", "b"]), intersects).to_pylist() == [None, None]


def test_a_text_that_is_no_key_expression_is_named() -> None:
    with pytest.raises(UsageError, match="key expression 'a//b'"):
        related(pa.array(["a"]), pa.array(["a//b"]), intersects)


def test_readings_beyond_2038_are_not_negative() -> None:
    reading = (4_000_000_000 << 32) - (1 << 64)  # the bits of an unsigned number, as the schema has them
    (moment,) = zenoh_ntp64_to_timestamp.func(pa.array([reading], pa.int64())).to_pylist()
    assert moment.timestamp() == 4_000_000_000


def test_sql_names_are_those_of_python() -> None:
    assert [function.func.__name__ for function in FUNCTIONS] == [
        "zenoh_intersects",
        "zenoh_includes",
        "zenoh_key_match",
        "zenoh_decode_payload",
        "zenoh_ntp64_to_timestamp",
    ]
