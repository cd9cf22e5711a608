"""Rows and state of some sources in, new state and rows to tell out."""

import numpy as np
import pyarrow as pa

from zenspark.arrow import UTC
from zenspark.journal.packing import WORDS, spelled
from zenspark.spark.lake.gaps import NUMBERS, SILENCE, Gaps, by_source, judged
from zenspark.spark.lake.shapes import GAPS

ROWS = pa.schema(
    [
        ("source_zid", pa.string()),
        ("source_eid", pa.int64()),
        ("source_sn", pa.int64()),
        ("received_at", UTC),
        ("recorder", pa.string()),
        ("offset", pa.int64()),
    ]
)
Told = list[tuple[str, str, int, int, int, str]]


def rows(zid: str, numbers: list[int], time: int = 0) -> pa.Table:
    """A digest of samples with these numbers, one after the other."""
    given = [(zid, 1, number, time + offset, "r", offset) for offset, number in enumerate(numbers)]
    found = pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in given], schema=ROWS)
    return Gaps().digest(found.cast(spelled(ROWS, WORDS)))


def state_in(told: pa.Table) -> pa.Table:
    return told.filter(pa.compute.equal(told["part"], "state"))


def plain(told: pa.Table) -> Told:
    names = ("source_zid", "kind", "first_sn", "last_sn", "count", "part")
    return sorted(tuple(row[name] for name in names) for row in told.to_pylist())


def test_sources_are_told_apart_and_remembered() -> None:
    first = judged(pa.concat_tables([rows("b", [5, 7]), rows("a", [1, 2, 2])]), GAPS.schema.empty_table())
    assert plain(first) == [
        ("a", "REPEATED", 2, 2, 1, "new"),
        ("a", "SOURCE", 1, 2, 2, "state"),
        ("b", "MISSING", 6, 6, 1, "state"),
        ("b", "SOURCE", 5, 7, 3, "state"),
    ]
    second = judged(rows("b", [6, 7]), state_in(first))
    assert plain(second) == [
        ("a", "SOURCE", 1, 2, 2, "state"),
        ("b", "REPEATED", 7, 7, 1, "new"),
        ("b", "SOURCE", 5, 7, 3, "state"),
    ]
    assert plain(judged(NUMBERS.empty_table(), state_in(second))) == plain(state_in(second))


def test_a_source_that_is_silent_for_long_is_forgotten_but_not_what_it_lost() -> None:
    first = judged(rows("a", [1, 3]), GAPS.schema.empty_table())
    later = int(SILENCE.total_seconds() * 1_000_000) + 10
    assert plain(judged(rows("b", [1], later), state_in(first))) == [
        ("a", "MISSING", 2, 2, 1, "new"),
        ("b", "SOURCE", 1, 1, 1, "state"),
    ]


def test_nothing_is_told_of_nothing() -> None:
    assert judged(NUMBERS.empty_table(), GAPS.schema.empty_table()).num_rows == 0


def test_a_digest_has_the_numbers_of_each_source_and_recorder_apart() -> None:
    given: list[tuple[object, ...]] = [
        ("a", 1, 5, 50, "r", 0),
        ("b", 1, 7, 51, "r", 1),
        ("a", 1, 6, 52, "r", 2),
        ("a", 2, 6, 53, "r", 3),
    ]
    given += [("a", 1, 8, 54, "s", 0), (None, None, None, 55, "s", 1)]
    found = pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in given], schema=ROWS)
    digest = Gaps().digest(found.cast(spelled(ROWS, WORDS)))
    assert digest.schema == NUMBERS
    names = ("source_zid", "source_eid", "recorder")
    numbers = [
        [np.frombuffer(row[name], np.int64).tolist() for name in NUMBERS.names[3:]] for row in digest.to_pylist()
    ]
    told = zip([tuple(row[name] for name in names) for row in digest.to_pylist()], numbers, strict=True)
    assert sorted(told) == [
        (("a", 1, "r"), [[5, 6], [50, 52], [0, 2]]),
        (("a", 1, "s"), [[8], [54], [0]]),
        (("a", 2, "r"), [[6], [53], [3]]),
        (("b", 1, "r"), [[7], [51], [1]]),
    ]
    assert Gaps().digest(found[5:].cast(spelled(ROWS, WORDS))).num_rows == 0


def test_numbers_are_judged_in_the_order_of_offsets_whatever_file_they_were_in() -> None:
    one, other = rows("a", [1, 9, 3]), rows("a", [1, 9, 3])
    late = one.set_column(5, "offsets", pa.array([np.array([3, 5, 4]).tobytes()], pa.binary()))
    (found,) = by_source(pa.concat_tables([late, other]))
    assert found[1].tolist() == [1, 9, 3, 1, 3, 9]
