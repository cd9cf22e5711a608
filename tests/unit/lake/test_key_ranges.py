"""Sorted tables, read and written by ranges."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake import key_ranges
from zenspark.lake.derived.gaps import GapsAggregation
from zenspark.lake.key_ranges import FULL_RANGE, KeyRange, SortedTable, select_range, sort_rows, write_sorted
from zenspark.lake.parquet_files import DataFile, DataFileWriter
from zenspark.lake.specs import GAPS, TRAFFIC
from zenspark.lake.storage_path import StoragePath

SCHEMA = GAPS.schema


def gaps(zids: list[str]) -> pa.Table:
    rows = [{"source_zid": zid, "source_eid": None, "first_sn": number} for number, zid in enumerate(zids)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> SortedTable:
    return SortedTable(StoragePath.at(tmp_path), GAPS, "source_zid")


def unreduced(rows: pa.Table) -> pa.Table:
    return rows


def zids(rows: pa.Table) -> list[str]:
    found: list[str] = rows["source_zid"].cast(pa.string()).to_pylist()
    return found


@pytest.mark.parametrize(
    ("wanted", "least", "greatest", "meets"),
    [
        (KeyRange("b", "d"), "a", "b", True),
        (KeyRange("b", "d"), "a", "a", False),
        (KeyRange("b", "d"), "c", "z", True),
        (KeyRange("b", "d"), "d", "z", False),
        (KeyRange("b", "d"), None, None, True),
        (KeyRange("b", None), "a", None, True),
        (KeyRange(None, "d"), "e", "f", False),
        (FULL_RANGE, "a", "b", True),
    ],
)
def test_range_overlaps_min_max(wanted: KeyRange, least: str | None, greatest: str | None, meets: bool) -> None:
    assert wanted.overlaps(least, greatest) is meets


def test_select_range_of_dictionary_and_time_columns() -> None:
    batch = gaps(["c", "a", "b", "c", "d"]).cast(with_text_type(SCHEMA, DICTIONARY_TYPE)).to_batches()[0]
    assert zids(pa.Table.from_batches([select_range(batch, "source_zid", KeyRange("b", "d"))])) == ["c", "b", "c"]
    assert select_range(batch, "source_zid", FULL_RANGE) is batch
    minutes = pa.RecordBatch.from_pylist([{"minute": number} for number in range(5)], schema=TRAFFIC.schema)
    start, end = (datetime.fromtimestamp(number / 1_000_000, UTC) for number in (1, 3))
    assert select_range(minutes, "minute", KeyRange(start, end))["minute"].cast(pa.int64()).to_pylist() == [1, 2]


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 3) | st.none())))
def test_rows_are_sorted_by_plain_and_dictionary_columns(given: list[tuple[str, int | None]]) -> None:
    rows = pa.Table.from_pylist([{"source_zid": zid, "source_eid": eid} for zid, eid in given], schema=SCHEMA)
    for table in (rows, rows.cast(with_text_type(SCHEMA, DICTIONARY_TYPE))):
        placed = sort_rows(table, ["source_zid", "source_eid"]).cast(SCHEMA).to_pylist()
        assert [(row["source_zid"], row["source_eid"]) for row in placed] == sorted(
            given, key=lambda each: (each[0].encode(), 99 if each[1] is None else each[1])
        )


def test_rows_are_written_sorted_and_equal_keys_share_a_file(table: SortedTable) -> None:
    rows = gaps([zid for zid in "dbac" for _ in range(100)])
    with patch.object(key_ranges, "SORTED_FILE_MEMORY_BYTES", rows.nbytes // 8):
        files = write_sorted(table, "test", rows, ("source_zid", "first_sn"), {})
    assert [(file.min_values["source_zid"], file.max_values["source_zid"], file.rows) for file in files] == [
        (zid, zid, 100) for zid in "abcd"
    ]
    assert zids(table.read(files, KeyRange("b", "d"), unreduced)) == ["b"] * 100 + ["c"] * 100
    assert write_sorted(table, "test", rows[:0], ("source_zid",), {}) == []


def test_empty_range_reads_no_rows(table: SortedTable) -> None:
    assert table.read([], FULL_RANGE, unreduced).num_rows == 0
    assert table.split([], KeyRange("a", "b")) == [KeyRange("a", "b")]


def written(table: SortedTable, groups: list[list[str]]) -> DataFile:
    """A file with these row groups."""
    files = DataFileWriter(table.location, table.spec, "test")
    for group in groups:
        files.write(gaps(group), {})
    return files.close()[0]


def test_range_is_split_by_row_groups(table: SortedTable) -> None:
    files = [written(table, [["a", "b"], ["c", "d"], ["e"]]), written(table, [["a"], ["d", "f"]])]
    with patch.object(key_ranges, "SORTED_FILE_MEMORY_BYTES", 1):
        parts = table.split(files, FULL_RANGE)
        assert parts == [KeyRange(None, "c"), KeyRange("c", "d"), KeyRange("d", "e"), KeyRange("e", None)]
        assert table.split(files, KeyRange("b", "d")) == [KeyRange("b", "c"), KeyRange("c", "d")]
    found = [zid for part in parts for zid in sorted(zids(table.read(files, part, unreduced)))]
    assert found == ["a", "a", "b", "c", "d", "d", "e", "f"]
    with patch.object(key_ranges, "SORTED_FILE_MEMORY_BYTES", 1 << 20):
        assert table.split(files, FULL_RANGE) == [FULL_RANGE]


def test_row_groups_outside_the_range_are_not_read(table: SortedTable) -> None:
    file = written(table, [["a"], ["b"], ["c"]])
    with patch.object(key_ranges, "select_range", lambda rows, *_: rows):  # what comes through was not left out before
        assert zids(table.read([file], KeyRange("b", "c"), unreduced)) == ["b"]


@pytest.mark.slow
def test_rows_are_reduced_while_reading(table: SortedTable) -> None:
    """The most rows that are there at once depend on what is left of them, not on how many files have them."""
    seen: list[int] = []

    def reduce(rows: pa.Table) -> pa.Table:
        assert all(column.num_chunks == 1 for column in rows.columns)
        seen.append(rows.num_rows)
        return GapsAggregation().reduce(rows)

    files = [file for _ in range(50) for file in write_sorted(table, "x", repeated(20), GapsAggregation.order, {})]
    with patch.object(key_ranges, "MIN_ROWS_TO_REDUCE", 30):
        found = table.read(files, FULL_RANGE, reduce)
    assert sorted(found["first_sn"].to_pylist()) == list(range(20))
    assert found["count"].to_pylist() == [50] * 20
    assert max(seen) <= 2 * 20 + 20


def repeated(count: int) -> pa.Table:
    """Numbers of a source that came again."""
    row = {"source_zid": "a", "kind": "REPEATED", "count": 1}
    return pa.Table.from_pylist([row | {"first_sn": each, "last_sn": each} for each in range(count)], schema=SCHEMA)
