from __future__ import annotations

import io
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.key.match import intersects
from zenspark.lake.parquet_files import File, limits
from zenspark.lake.parquet_footer import Limits
from zenspark.lake.predicates import (
    ALWAYS,
    NEVER,
    Flags,
    Keys,
    Times,
    key_limits,
    newest_time,
    time_limits,
)

TIME = pa.timestamp("us", tz="UTC")
CHUNKS = st.sampled_from(["a", "ab", "b", "z", "é", "*", "a$*", "$*b", "**", "x" * 70, "x" * 70 + "1"])
NAMES = st.lists(CHUNKS, min_size=1, max_size=3).map("/".join).filter(lambda name: "**/**" not in name)


def keys_of(question: str) -> Keys:
    def matching(names: pa.Array) -> Flags:
        return np.array([intersects(question, name) for name in names.to_pylist()], bool)

    chunks = question.split("/")
    literal = chunks[: next((at for at, chunk in enumerate(chunks) if "*" in chunk), len(chunks))]
    return Keys(matching, "/".join(literal) or None, is_exact=len(literal) == len(chunks))


@given(NAMES, st.lists(NAMES, min_size=1, max_size=5))
def test_statistics_never_rule_out_a_key_that_matches(question: str, names: list[str]) -> None:
    keys = keys_of(question)
    file = File("x", 1, 1, {}, *_limits_of(names))
    if any(intersects(question, name) for name in names):
        assert keys.may_be_within(Limits(min(names).encode(), max(names).encode()))
        assert keys.may_be_within(key_limits(file))


def _limits_of(names: list[str]) -> tuple[dict[str, object], dict[str, object]]:
    """As a writer tells them, long texts cut off."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"key": names}), sink)
    return limits(pq.read_metadata(sink), ["key"])


@pytest.mark.parametrize(
    ("question", "least", "greatest", "expected"),
    [
        ("a/b", "a/a", "a/c", True),
        ("a/b", "a/b", "a/b", True),
        ("a/b", "a/c", "a/d", False),
        ("a/b", "a/ba", "a/bb", False),
        ("a/b", "a/*", "a/*", True),
        ("a/b", "a/a$*", "a/a$*", False),
        ("a/b", "a/$*", "a/$*", True),
        ("a/b", "a/b/**", "a/b/**", True),
        ("a/b", "a/b/c", "a/b/d", False),
        ("a/b", "**", "**", True),
        ("a/b", "a/0", "a/a", False),
        ("a/*", "a/b", "a/b", True),
        ("a/*", "ab", "b", False),
        ("a/*", "*/x", "*/x", True),
        ("**", "z", "zz", True),
    ],
)
def test_what_statistics_rule_out(question: str, least: str, greatest: str, expected: bool) -> None:
    assert keys_of(question).may_be_within(Limits(least.encode(), greatest.encode())) is expected


def test_without_statistics_nothing_is_ruled_out_but_nulls() -> None:
    for question in ("a", "a/*", "**"):
        assert keys_of(question).may_be_within(Limits())
        assert keys_of(question).may_be_within(Limits(b"a"))
        assert not keys_of(question).may_be_within(Limits(is_null=True))


def test_a_text_that_was_cut_off_may_be_any_that_begins_so() -> None:
    cut = Limits(b"a", b"b\xf4\x8f\xbf\xbf")
    assert keys_of("b\U0010ffff\U0010ffff").may_be_within(cut)
    assert not keys_of("c").may_be_within(cut)


@pytest.mark.parametrize(
    ("stamped", "received", "expected"),
    [
        (Limits(5, 9, 0), Limits(0, 100), False),
        (Limits(5, 9, 1), Limits(0, 100), True),
        (Limits(5, 9), Limits(0, 100), True),
        (Limits(5, 9), Limits(21, 100), False),
        (Limits(5, 10, 0), Limits(21, 100), True),
        (Limits(20, 30, 0), Limits(), True),
        (Limits(is_null=True), Limits(0, 9), False),
        (Limits(is_null=True), Limits(0, 10), True),
        (Limits(), Limits(0, 9), True),
        (Limits(is_null=True), Limits(is_null=True), False),
    ],
)
def test_whether_rows_may_count_in_a_range(stamped: Limits, received: Limits, expected: bool) -> None:
    assert Times(10, 20).may_hold(stamped, received) is expected


def test_a_range_without_an_instant_holds_nothing() -> None:
    assert not Times(2, 1).may_hold(Limits(), Limits())


def test_which_times_are_in_a_range() -> None:
    times = pa.array([0, 1, None, 2, 3], TIME)
    assert Times(1, 2).contain(times).tolist() == [False, True, False, True, False]
    assert Times().contain(times).tolist() == [True, True, False, True, True]
    assert Times(1).contain(pa.array([0, 1], TIME)).tolist() == [False, True]


@pytest.mark.parametrize(
    ("stamped", "received", "expected"),
    [
        (Limits(1, 5, 0), Limits(1, 9), 5),
        (Limits(1, 5, 2), Limits(1, 9), 9),
        (Limits(1, 12), Limits(1, 9), 12),
        (Limits(is_null=True), Limits(1, 9), 9),
        (Limits(), Limits(1, 9), ALWAYS),
        (Limits(1, 5), Limits(), ALWAYS),
        (Limits(is_null=True), Limits(is_null=True), NEVER),
    ],
)
def test_no_row_is_newer(stamped: Limits, received: Limits, expected: int) -> None:
    assert newest_time(stamped, received) == expected


def test_what_the_log_says_of_a_file() -> None:
    second = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    least = {"key": "a", "timestamp": second, "received_at": second.replace(tzinfo=None)}
    file = File("x", 1, 5, {}, least, {**least, "key": "b"}, {"timestamp": 2, "other": 5})
    assert key_limits(file) == Limits(b"a", b"b")
    assert time_limits(file, "timestamp") == Limits(1_000_000, 1_000_999, 2)  # other tools cut times off
    assert time_limits(file, "received_at") == Limits(1_000_000, 1_000_999)
    assert time_limits(file, "other") == Limits(nulls=5, is_null=True)
    assert key_limits(File("x", 1, 0, {})) == Limits()
    assert time_limits(File("x", 1, 0, {}, nulls={"timestamp": 0}), "timestamp") == Limits(nulls=0)


def test_limits_of_another_type_rule_nothing_out() -> None:
    assert Keys(lambda _: np.array([]), "a").may_be_within(Limits(1, 2))
    assert Times(5, 6).may_meet(Limits(b"a", b"b"))
    assert newest_time(Limits(b"a", b"b"), Limits()) == ALWAYS
