"""The order of timestamps; tests/spark/test_lake_latest.py tests the table."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tests.rows import sample
from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake.derived.latest import TIMESTAMP_ID_DIGITS, LatestAggregation, apply_wildcards, literal_prefix
from zenspark.lake.levels import NEW_PART, WILDCARD_PART
from zenspark.lake.specs import JOURNAL_SCHEMA, LATEST, LATEST_STATE


def test_the_longest_id_of_a_clock_fits() -> None:
    assert len(f"{2**128 - 1:x}") == TIMESTAMP_ID_DIGITS
    assert LATEST.schema == JOURNAL_SCHEMA


def kept_rows(given: Sequence[Mapping[str, object]]) -> list[tuple[int, str]]:
    """The numbers of the rows that a aggregated keeps, and their parts."""
    rows = [sample(number) | {"recorder": "r", "offset": number} | dict(row) for number, row in enumerate(given)]
    table = (
        pa.Table.from_pylist(rows, schema=JOURNAL_SCHEMA)
        .cast(with_text_type(JOURNAL_SCHEMA, DICTIONARY_TYPE))
        .combine_chunks()
    )
    found = LatestAggregation().aggregate_rows(table).cast(LATEST_STATE.schema)
    return sorted((row["offset"], row["part"]) for row in found.to_pylist())


def test_partial_aggregate_keeps_the_newest_row_of_each_key() -> None:
    timestamps = [("a", 5), ("b", 1), ("a", 7), ("a", 6), ("b", 2), ("c", -1)]
    assert kept_rows([{"key": key, "timestamp_ntp64": timestamp} for key, timestamp in timestamps]) == [
        (2, NEW_PART),
        (4, NEW_PART),
        (5, NEW_PART),
    ]
    assert kept_rows([{"key": "a", "timestamp_ntp64": timestamp} for timestamp in (1, -1, 2)]) == [
        (1, NEW_PART)
    ]  # -1 is the largest


def test_equal_timestamps_are_ordered_by_clock_id_then_offset() -> None:
    clocks = ["b", "1a", None, "1a"]
    assert kept_rows([{"key": "a", "timestamp_ntp64": 1, "timestamp_id": clock} for clock in clocks]) == [(3, NEW_PART)]


def test_row_without_timestamp_is_ordered_by_reception() -> None:
    second = 1_000_000
    without_timestamp = {"key": "a", "timestamp_ntp64": None, "timestamp_id": None, "received_at": 2 * second + 500_000}
    timestamped = [{"key": "a", "timestamp_ntp64": (2 << 32) + (1 << 31) + more, "received_at": 0} for more in (-1, 1)]
    assert kept_rows([without_timestamp, timestamped[0]]) == [(0, NEW_PART)]
    assert kept_rows([without_timestamp, timestamped[1]]) == [(1, NEW_PART)]


def test_partial_aggregate_keeps_newest_put_and_delete_of_a_wildcard_key() -> None:
    given = [("a/*", "PUT", 1), ("a/*", "DELETE", 2), ("a/*", "PUT", 3), ("a/1", "PUT", 1), ("a/1", "DELETE", 2)]
    rows = [{"key": key, "kind": kind, "timestamp_ntp64": timestamp} for key, kind, timestamp in given]
    assert kept_rows(rows) == [(1, WILDCARD_PART), (2, WILDCARD_PART), (4, NEW_PART)]


# --- rows with wildcards ----------------------------------------------------------------------------------------------


def rows(*given: tuple[str, str, int, str]) -> pa.Table:
    """Rows of (key, kind, timestamp, payload); their offsets are their places."""
    found = [
        sample(0)
        | {"key": key, "kind": kind, "timestamp_ntp64": timestamp, "payload": payload.encode()}
        | {"recorder": "r", "offset": offset}
        for offset, (key, kind, timestamp, payload) in enumerate(given)
    ]
    return pa.Table.from_pylist(found, schema=JOURNAL_SCHEMA)


def applied(exact: pa.Table, wild: pa.Table) -> dict[str, str]:
    return {row["key"]: row["payload"].decode() for row in apply_wildcards(exact, wild).to_pylist()}


EXACT = rows(("a", "PUT", 5, "a"), ("a/1", "PUT", 5, "a1"), ("a/2", "PUT", 9, "a2"), ("b/1", "PUT", 5, "b1"))


def test_a_newer_delete_removes_the_keys_it_includes() -> None:
    assert applied(EXACT, rows(("a/**", "DELETE", 7, ""))) == {"a/2": "a2", "b/1": "b1"}
    assert applied(EXACT, rows(("*/1", "DELETE", 6, ""))) == {"a": "a", "a/2": "a2"}
    assert applied(EXACT, rows(("**", "DELETE", 4, ""))) == applied(EXACT, rows()) != {}


def test_newer_wildcard_put_updates_existing_keys() -> None:
    assert applied(EXACT, rows(("a/*", "PUT", 7, "new"))) == {"a": "a", "a/1": "new", "a/2": "a2", "b/1": "b1"}
    newest = rows(("a/*", "PUT", 8, "newest"), ("a/$*", "PUT", 7, "new"))
    assert applied(EXACT, newest)["a/1"] == "newest"
    assert "a/1" not in applied(EXACT, rows(("a/*", "PUT", 8, "new"), ("a/*", "DELETE", 6, "")))


def test_wildcard_put_with_equal_timestamp_is_ordered_by_offset() -> None:
    first, second = rows(("k/1", "PUT", 5, "first"), ("k/2", "PUT", 5, "second")), rows(("k/*", "PUT", 5, "wild"))
    moved = second.set_column(second.schema.names.index("offset"), "offset", pa.array([1]))
    assert applied(first, moved) == {"k/1": "wild", "k/2": "second"}


def test_literal_prefix_ends_before_the_first_wildcard() -> None:
    assert [literal_prefix(each) for each in ("**", "a/**", "a/b$*c", "a/*/b", "*")] == ["", "a", "a/b", "a", ""]


def test_put_with_wildcards_is_applied_when_it_expires() -> None:
    latest, wild = LatestAggregation(), rows(("k/*", "PUT", 7, "wild"), ("k/*", "DELETE", 6, ""))
    limit = {"r": 10**18}
    exact = rows(("k/1", "PUT", 8, "newer"), ("k/2", "PUT", 5, "older"), ("l", "DELETE", 5, ""))
    kept = latest.drop_expired(exact, wild[:1], {})
    assert [row["payload"] for row in kept.to_pylist()] == [b"newer", b"older", b""]
    assert [row["payload"] for row in latest.drop_expired(exact, wild[:1], limit).to_pylist()] == [b"newer", b"wild"]
    assert [row["payload"] for row in latest.drop_expired(exact, wild, limit).to_pylist()] == [b"newer"]
