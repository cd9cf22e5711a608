"""Update of the state of sources by new sequence numbers."""

import numpy as np
import pyarrow as pa
from zenoh.ext import Int64, z_serialize

from zenspark.arrow import UTC
from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake.derived.gaps import NUMBERS_SCHEMA, SOURCE_RESET_AFTER, GapsAggregation, group_by_source
from zenspark.lake.specs import GAPS, GAPS_STATE

ROWS = pa.schema(
    [
        ("attachment", pa.binary()),
        ("source_zid", pa.string()),
        ("source_eid", pa.int64()),
        ("source_sn", pa.int64()),
        ("received_at", UTC),
        ("recorder", pa.string()),
        ("offset", pa.int64()),
    ]
)
GapRows = list[tuple[str, str, int, int, int, str]]
A_TIME = 1_763_300_000_000_000_000


def rows(zid: str, numbers: list[int], time: int = 0) -> pa.Table:
    """A aggregated of samples with these numbers, one after the other."""
    given = [(None, zid, 1, number, time + offset, "r", offset) for offset, number in enumerate(numbers)]
    found = pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in given], schema=ROWS)
    return GapsAggregation().aggregate_rows(found.cast(with_text_type(ROWS, DICTIONARY_TYPE)))


EMPTY = GAPS_STATE.schema.empty_table()


def combine(partials: pa.Table, state: pa.Table) -> pa.Table:
    return GapsAggregation().combine_rows(partials, state)


def state_in(combined: pa.Table) -> pa.Table:
    return combined.filter(pa.compute.equal(combined["part"], "state"))


def plain(combined: pa.Table) -> GapRows:
    names = ("source_zid", "kind", "first_sn", "last_sn", "count", "part")
    return sorted(tuple(row[name] for name in names) for row in combined.to_pylist())


def test_sources_are_distinguished_and_stored() -> None:
    first = combine(pa.concat_tables([rows("b", [5, 7]), rows("a", [1, 2, 2])]), EMPTY)
    assert plain(first) == [
        ("a", "REPEATED", 2, 2, 1, "new"),
        ("a", "SOURCE", 1, 2, 2, "state"),
        ("b", "CHANGED", 0, 0, 0, "new"),
        ("b", "MISSING", 6, 6, 1, "state"),
        ("b", "SOURCE", 5, 7, 3, "state"),
    ]
    second = combine(rows("b", [6, 7]), state_in(first))
    assert plain(second) == [
        ("a", "SOURCE", 1, 2, 2, "state"),
        ("b", "CHANGED", 0, 0, 0, "new"),
        ("b", "REPEATED", 7, 7, 1, "new"),
        ("b", "SOURCE", 5, 7, 3, "state"),
    ]
    assert plain(combine(NUMBERS_SCHEMA.empty_table(), state_in(second))) == plain(state_in(second))


def test_silent_source_is_dropped_but_its_gaps_are_kept() -> None:
    first = combine(rows("a", [1, 3]), EMPTY)
    later = int(SOURCE_RESET_AFTER.total_seconds() * 1_000_000) + 10
    assert plain(combine(rows("b", [1], later), state_in(first))) == [
        ("a", "MISSING", 2, 2, 1, "new"),
        ("b", "SOURCE", 1, 1, 1, "state"),
    ]


def test_no_numbers_and_no_state_give_no_rows() -> None:
    assert combine(NUMBERS_SCHEMA.empty_table(), EMPTY).num_rows == 0


def test_partial_aggregate_groups_numbers_by_source_and_recorder() -> None:
    numbered = [
        ("a", 1, 5, 50, "r", 0),
        ("b", 1, 7, 51, "r", 1),
        ("a", 1, 6, 52, "r", 2),
        ("a", 2, 6, 53, "r", 3),
    ]
    given = [(None, *row) for row in [*numbered, ("a", 1, 8, 54, "s", 0), (None, None, None, 55, "s", 1)]]
    found = pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in given], schema=ROWS)
    aggregated = GapsAggregation().aggregate_rows(found.cast(with_text_type(ROWS, DICTIONARY_TYPE)))
    assert aggregated.schema == NUMBERS_SCHEMA
    names = ("source_zid", "source_eid", "recorder")
    numbers = [
        [np.frombuffer(row[name], np.int64).tolist() for name in NUMBERS_SCHEMA.names[3:]]
        for row in aggregated.to_pylist()
    ]
    actual = zip([tuple(row[name] for name in names) for row in aggregated.to_pylist()], numbers, strict=True)
    assert sorted(actual) == [
        (("a", 1, "r"), [[5, 6], [50, 52], [0, 2]]),
        (("a", 1, "s"), [[8], [54], [0]]),
        (("a", 2, "r"), [[6], [53], [3]]),
        (("b", 1, "r"), [[7], [51], [1]]),
    ]
    assert GapsAggregation().aggregate_rows(found[5:].cast(with_text_type(ROWS, DICTIONARY_TYPE))).num_rows == 0


def test_numbers_of_several_files_are_ordered_by_offset() -> None:
    one, other = rows("a", [1, 9, 3]), rows("a", [1, 9, 3])
    late = one.set_column(5, "offsets", pa.array([np.array([3, 5, 4]).tobytes()], pa.binary()))
    (found,) = group_by_source(pa.concat_tables([late, other]))
    assert found[1].tolist() == [1, 9, 3, 1, 3, 9]


def attached(*given: tuple[bytes | None, int | None]) -> pa.Table:
    """A aggregated of samples with these attachments and numbers of SourceInfo."""
    rows = [
        (attachment, None if number is None else "a", None if number is None else 1, number, offset, "r", offset)
        for offset, (attachment, number) in enumerate(given)
    ]
    found = pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in rows], schema=ROWS)
    return GapsAggregation().aggregate_rows(found.cast(with_text_type(ROWS, DICTIONARY_TYPE)))


def rmw(number: int, gid: bytes = bytes(16)) -> bytes:
    return bytes(z_serialize((Int64(number), Int64(A_TIME), gid)))


def test_a_sample_without_source_info_has_the_number_of_its_attachment() -> None:
    aggregated = attached(
        (rmw(7), None), (b"note", None), (rmw(2**33), None), (rmw(9), 5), (None, 6), (rmw(1, b"g" * 16), None)
    )
    actual = [(row["source_zid"], row["source_eid"], row["numbers"]) for row in aggregated.to_pylist()]
    assert sorted((zid, eid, np.frombuffer(numbers, np.int64).tolist()) for zid, eid, numbers in actual) == [
        ("00" * 16, None, [7, 2**33]),
        ("67" * 16, None, [1]),
        ("a", 1, [5, 6]),
    ]


def test_numbers_of_attachments_do_not_wrap_around() -> None:
    before = combine(attached((rmw(2**32 - 1), None), (rmw(2**32 + 2), None)), EMPTY)
    assert plain(state_in(before)) == [
        ("00" * 16, "MISSING", 2**32, 2**32 + 1, 2, "state"),
        ("00" * 16, "SOURCE", 2**32 - 1, 2**32 + 2, 4, "state"),
    ]
    after = combine(attached((rmw(2**32 + 1), None), (rmw(2**32 + 1), None)), state_in(before))
    assert ("00" * 16, "MISSING", 2**32, 2**32, 1, "state") in plain(after)
    assert ("00" * 16, "REPEATED", 2**32 + 1, 2**32 + 1, 1, "new") in plain(after)
    published = GapsAggregation().to_public_rows(GapsAggregation().reduce(after.drop_columns("part")), after[:0])
    assert {(row["kind"], row["first_sn"]) for row in published.to_pylist()} == {
        ("MISSING", 2**32),
        ("REPEATED", 2**32 + 1),
    }


def test_the_public_table_has_numbers_as_they_were_on_the_wire_and_no_state() -> None:
    combined = combine(rows("a", [2**32 - 2, 1, 1]), EMPTY).drop_columns("part")
    found = GapsAggregation().to_public_rows(GapsAggregation().reduce(combined), combined[:0])
    assert found.schema == GAPS.schema
    assert [
        (row["kind"], row["first_sn"], row["last_sn"], row["count"]) for row in found.sort_by("kind").to_pylist()
    ] == [
        ("MISSING", 2**32 - 1, 0, 2),
        ("REPEATED", 1, 1, 1),
    ]
    assert set(GapsAggregation().drop_expired(combined, combined[:0], {})["kind"].to_pylist()) == {
        "MISSING",
        "REPEATED",
        "SOURCE",
    }
