"""The order of stamps; tests/spark/test_lake_latest.py tests the table."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tests.rows import sample
from zenspark.journal.packing import WORDS, spelled
from zenspark.spark.lake.derived import NEW
from zenspark.spark.lake.latest import SIGN, STAMP_ID_DIGITS, WILD, Latest
from zenspark.spark.lake.shapes import JOURNAL, LATEST


def test_with_the_sign_turned_round_signed_numbers_are_ordered_as_unsigned_ones() -> None:
    unsigned = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]
    signed = [number - 2**64 if number >= 2**63 else number for number in unsigned]
    turned = [number ^ SIGN for number in signed]
    assert turned == sorted(turned)


def test_the_longest_id_of_a_clock_fits() -> None:
    assert len(f"{2**128 - 1:x}") == STAMP_ID_DIGITS
    assert LATEST.partitions.names == ["part"]


def digested(given: Sequence[Mapping[str, object]]) -> list[tuple[int, str]]:
    """The numbers of the rows that a digest keeps, and their parts."""
    rows = [sample(number) | {"recorder": "r", "offset": number} | dict(row) for number, row in enumerate(given)]
    table = pa.Table.from_pylist(rows, schema=JOURNAL).cast(spelled(JOURNAL, WORDS)).combine_chunks()
    found = Latest().digest(table).cast(LATEST.schema)
    return sorted((row["offset"], row["part"]) for row in found.to_pylist())


def test_a_digest_keeps_the_newest_row_of_each_key() -> None:
    stamps = [("a", 5), ("b", 1), ("a", 7), ("a", 6), ("b", 2), ("c", -1)]
    assert digested([{"key": key, "timestamp_ntp64": stamp} for key, stamp in stamps]) == [(2, NEW), (4, NEW), (5, NEW)]
    assert digested([{"key": "a", "timestamp_ntp64": stamp} for stamp in (1, -1, 2)]) == [(1, NEW)]  # -1 is the largest


def test_where_stamps_are_equal_the_clock_decides_then_the_offset() -> None:
    clocks = ["b", "1a", None, "1a"]
    assert digested([{"key": "a", "timestamp_ntp64": 1, "timestamp_id": clock} for clock in clocks]) == [(3, NEW)]


def test_a_row_without_a_stamp_counts_as_stamped_when_it_was_received() -> None:
    second = 1_000_000
    unstamped = {"key": "a", "timestamp_ntp64": None, "timestamp_id": None, "received_at": 2 * second + 500_000}
    stamped = [{"key": "a", "timestamp_ntp64": (2 << 32) + (1 << 31) + more, "received_at": 0} for more in (-1, 1)]
    assert digested([unstamped, stamped[0]]) == [(0, NEW)]
    assert digested([unstamped, stamped[1]]) == [(1, NEW)]


def test_of_a_key_with_wildcards_the_newest_put_and_the_newest_delete_are_kept() -> None:
    given = [("a/*", "PUT", 1), ("a/*", "DELETE", 2), ("a/*", "PUT", 3), ("a/1", "PUT", 1), ("a/1", "DELETE", 2)]
    rows = [{"key": key, "kind": kind, "timestamp_ntp64": stamp} for key, kind, stamp in given]
    assert digested(rows) == [(1, WILD), (2, WILD), (4, NEW)]
