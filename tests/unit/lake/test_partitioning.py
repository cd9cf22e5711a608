"""Days and prefixes of rows."""

import pyarrow as pa

from tests.rows import sample
from zenspark.journal.block_codec import WORDS, spelled
from zenspark.lake.partitioning import LONGEST, MICROSECONDS_PER_DAY, parted, prefix_of, prefixes_of
from zenspark.lake.specs import JOURNAL

LONG = "x" * (LONGEST + 1)


def rows(given: list[tuple[str, int]]) -> pa.Table:
    found = [
        sample(n) | {"key": key, "received_at": at, "offset": n, "recorder": "r"} for n, (key, at) in enumerate(given)
    ]
    return pa.Table.from_pylist(found, schema=JOURNAL).cast(spelled(JOURNAL, WORDS)).combine_chunks()


def test_a_prefix_is_the_first_chunk_as_far_as_it_fits_in_the_name_of_a_directory() -> None:
    keys = ["a/b/c", "a", "ü/1", f"{LONG}/k", f"{LONG}$*/k", "a$*/k", "__HIVE_DEFAULT_PARTITION__/k"]
    expected = ["a", "a", "ü", LONG[:LONGEST], "*", "a$*", "*"]
    assert [prefix_of(key) for key in keys] == expected
    assert prefixes_of(pa.array(keys)).to_pylist() == expected


def test_rows_are_parted_by_day_and_prefix_and_stay_in_order() -> None:
    day = MICROSECONDS_PER_DAY
    given = rows([("b/1", day), ("a/1", day - 1), ("b/2", day + 5), ("a/2", 0), ("a/1", day), ("b/1", -1)])
    found = [(part["day"], part["prefix"], own["offset"].to_pylist()) for part, own in parted(given)]
    assert sorted(found) == [
        ("1969-12-31", "b", [5]),
        ("1970-01-01", "a", [1, 3]),
        ("1970-01-02", "a", [4]),
        ("1970-01-02", "b", [0, 2]),
    ]
    whole = pa.concat_tables(own for _, own in parted(given)).sort_by("offset")
    assert whole.cast(JOURNAL).equals(given.cast(JOURNAL))


def test_rows_of_one_partition_are_not_touched() -> None:
    given = rows([("a/1", 1), ("a/2", 0)])
    ((part, own),) = parted(given)
    assert (part, own.equals(given)) == ({"day": "1970-01-01", "prefix": "a"}, True)
