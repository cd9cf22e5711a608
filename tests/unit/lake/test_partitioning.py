"""Partitioning of rows by day and prefix."""

import pyarrow as pa

from tests.rows import sample
from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake.partitioning import (
    MAX_PREFIX_CHARACTERS,
    MICROSECONDS_PER_DAY,
    partition_prefix,
    partition_prefixes,
    split_by_partition,
)
from zenspark.lake.specs import JOURNAL_SCHEMA

LONG = "x" * (MAX_PREFIX_CHARACTERS + 1)


def rows(given: list[tuple[str, int]]) -> pa.Table:
    found = [
        sample(n) | {"key": key, "received_at": at, "offset": n, "recorder": "r"} for n, (key, at) in enumerate(given)
    ]
    return (
        pa.Table.from_pylist(found, schema=JOURNAL_SCHEMA)
        .cast(with_text_type(JOURNAL_SCHEMA, DICTIONARY_TYPE))
        .combine_chunks()
    )


def test_prefix_is_the_first_chunk_truncated_to_a_directory_name() -> None:
    keys = ["a/b/c", "a", "ü/1", f"{LONG}/k", f"{LONG}$*/k", "a$*/k", "__HIVE_DEFAULT_PARTITION__/k"]
    expected = ["a", "a", "ü", LONG[:MAX_PREFIX_CHARACTERS], "*", "a$*", "*"]
    assert [partition_prefix(key) for key in keys] == expected
    assert partition_prefixes(pa.array(keys)).to_pylist() == expected


def test_rows_are_split_by_day_and_prefix_in_order() -> None:
    day = MICROSECONDS_PER_DAY
    given = rows([("b/1", day), ("a/1", day - 1), ("b/2", day + 5), ("a/2", 0), ("a/1", day), ("b/1", -1)])
    found = [(part["day"], part["prefix"], own["offset"].to_pylist()) for part, own in split_by_partition(given)]
    assert sorted(found) == [
        ("1969-12-31", "b", [5]),
        ("1970-01-01", "a", [1, 3]),
        ("1970-01-02", "a", [4]),
        ("1970-01-02", "b", [0, 2]),
    ]
    whole = pa.concat_tables(own for _, own in split_by_partition(given)).sort_by("offset")
    assert whole.cast(JOURNAL_SCHEMA).equals(given.cast(JOURNAL_SCHEMA))


def test_rows_of_one_partition_are_not_copied() -> None:
    given = rows([("a/1", 1), ("a/2", 0)])
    ((part, own),) = split_by_partition(given)
    assert (part, own.equals(given)) == ({"day": "1970-01-01", "prefix": "a"}, True)
