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
from zenspark.lake.parquet_files import DataFile, read_min_max
from zenspark.lake.parquet_footer import ColumnStats
from zenspark.lake.predicates import (
    MAX_TIME_US,
    MIN_TIME_US,
    BoolMask,
    KeyPredicate,
    TimePredicate,
    key_stats,
    max_row_time,
    time_stats,
)

TIME = pa.timestamp("us", tz="UTC")
CHUNKS = st.sampled_from(["a", "ab", "b", "z", "é", "*", "a$*", "$*b", "**", "x" * 70, "x" * 70 + "1"])
NAMES = st.lists(CHUNKS, min_size=1, max_size=3).map("/".join).filter(lambda name: "**/**" not in name)


def keys_of(question: str) -> KeyPredicate:
    def matching(names: pa.Array) -> BoolMask:
        return np.array([intersects(question, name) for name in names.to_pylist()], bool)

    chunks = question.split("/")
    literal = chunks[: next((at for at, chunk in enumerate(chunks) if "*" in chunk), len(chunks))]
    return KeyPredicate(matching, "/".join(literal) or None, is_exact=len(literal) == len(chunks))


@pytest.mark.slow
@given(NAMES, st.lists(NAMES, min_size=1, max_size=5))
def test_statistics_never_exclude_a_matching_key(question: str, names: list[str]) -> None:
    keys = keys_of(question)
    file = DataFile("x", 1, 1, {}, *_limits_of(names))
    if any(intersects(question, name) for name in names):
        assert keys.may_match(ColumnStats(min(names).encode(), max(names).encode()))
        assert keys.may_match(key_stats(file))


def _limits_of(names: list[str]) -> tuple[dict[str, object], dict[str, object]]:
    """Statistics as a writer makes them, long texts cut off."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"key": names}), sink)
    return read_min_max(pq.read_metadata(sink), ["key"])


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
def test_statistics_exclude_keys_outside_min_max(question: str, least: str, greatest: str, expected: bool) -> None:
    assert keys_of(question).may_match(ColumnStats(least.encode(), greatest.encode())) is expected


def test_missing_statistics_exclude_only_all_null_columns() -> None:
    for question in ("a", "a/*", "**"):
        assert keys_of(question).may_match(ColumnStats())
        assert keys_of(question).may_match(ColumnStats(b"a"))
        assert not keys_of(question).may_match(ColumnStats(is_all_null=True))


def test_truncated_max_matches_any_text_with_its_prefix() -> None:
    cut = ColumnStats(b"a", b"b\xf4\x8f\xbf\xbf")
    assert keys_of("b\U0010ffff\U0010ffff").may_match(cut)
    assert not keys_of("c").may_match(cut)


@pytest.mark.parametrize(
    ("timestamp", "received", "expected"),
    [
        (ColumnStats(5, 9, 0), ColumnStats(0, 100), False),
        (ColumnStats(5, 9, 1), ColumnStats(0, 100), True),
        (ColumnStats(5, 9), ColumnStats(0, 100), True),
        (ColumnStats(5, 9), ColumnStats(21, 100), False),
        (ColumnStats(5, 10, 0), ColumnStats(21, 100), True),
        (ColumnStats(20, 30, 0), ColumnStats(), True),
        (ColumnStats(is_all_null=True), ColumnStats(0, 9), False),
        (ColumnStats(is_all_null=True), ColumnStats(0, 10), True),
        (ColumnStats(), ColumnStats(0, 9), True),
        (ColumnStats(is_all_null=True), ColumnStats(is_all_null=True), False),
    ],
)
def test_may_match_row_by_timestamp_or_reception_time(
    timestamp: ColumnStats, received: ColumnStats, expected: bool
) -> None:
    assert TimePredicate(10, 20).may_match_row(timestamp, received) is expected


def test_empty_time_range_matches_nothing() -> None:
    assert not TimePredicate(2, 1).may_match_row(ColumnStats(), ColumnStats())


def test_mask_of_times_in_range() -> None:
    times = pa.array([0, 1, None, 2, 3], TIME)
    assert TimePredicate(1, 2).mask(times).tolist() == [False, True, False, True, False]
    assert TimePredicate().mask(times).tolist() == [True, True, False, True, True]
    assert TimePredicate(1).mask(pa.array([0, 1], TIME)).tolist() == [False, True]


@pytest.mark.parametrize(
    ("timestamp", "received", "expected"),
    [
        (ColumnStats(1, 5, 0), ColumnStats(1, 9), 5),
        (ColumnStats(1, 5, 2), ColumnStats(1, 9), 9),
        (ColumnStats(1, 12), ColumnStats(1, 9), 12),
        (ColumnStats(is_all_null=True), ColumnStats(1, 9), 9),
        (ColumnStats(), ColumnStats(1, 9), MAX_TIME_US),
        (ColumnStats(1, 5), ColumnStats(), MAX_TIME_US),
        (ColumnStats(is_all_null=True), ColumnStats(is_all_null=True), MIN_TIME_US),
    ],
)
def test_max_row_time_is_an_upper_bound(timestamp: ColumnStats, received: ColumnStats, expected: int) -> None:
    assert max_row_time(timestamp, received) == expected


def test_stats_of_a_file_from_the_log() -> None:
    second = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    least = {"key": "a", "timestamp": second, "received_at": second.replace(tzinfo=None)}
    file = DataFile("x", 1, 5, {}, least, {**least, "key": "b"}, {"timestamp": 2, "other": 5})
    assert key_stats(file) == ColumnStats(b"a", b"b")
    assert time_stats(file, "timestamp") == ColumnStats(1_000_000, 1_000_999, 2)  # other tools cut times off
    assert time_stats(file, "received_at") == ColumnStats(1_000_000, 1_000_999)
    assert time_stats(file, "other") == ColumnStats(null_count=5, is_all_null=True)
    assert key_stats(DataFile("x", 1, 0, {})) == ColumnStats()
    assert time_stats(DataFile("x", 1, 0, {}, null_counts={"timestamp": 0}), "timestamp") == ColumnStats(null_count=0)


def test_statistics_of_another_type_exclude_nothing() -> None:
    assert KeyPredicate(lambda _: np.array([]), "a").may_match(ColumnStats(1, 2))
    assert TimePredicate(5, 6).may_overlap(ColumnStats(b"a", b"b"))
    assert max_row_time(ColumnStats(b"a", b"b"), ColumnStats()) == MAX_TIME_US
