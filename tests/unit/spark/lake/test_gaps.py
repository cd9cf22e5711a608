"""Rows and state of some sources in, new state and rows to tell out."""

import pyarrow as pa

from zenspark.arrow import UTC
from zenspark.spark.lake.gaps import SILENCE, judged
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
    given = [(zid, 1, number, time + offset, "r", offset) for offset, number in enumerate(numbers)]
    return pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in given], schema=ROWS)


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
    assert plain(judged(ROWS.empty_table(), state_in(second))) == plain(state_in(second))


def test_a_source_that_is_silent_for_long_is_forgotten_but_not_what_it_lost() -> None:
    first = judged(rows("a", [1, 3]), GAPS.schema.empty_table())
    later = int(SILENCE.total_seconds() * 1_000_000) + 10
    assert plain(judged(rows("b", [1], later), state_in(first))) == [
        ("a", "MISSING", 2, 2, 1, "new"),
        ("b", "SOURCE", 1, 1, 1, "state"),
    ]


def test_nothing_is_told_of_nothing() -> None:
    assert judged(ROWS.empty_table(), GAPS.schema.empty_table()).num_rows == 0
