"""Ingested offsets of a table."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.lake.tables import file, samples_at
from zenspark.lake.delta_table import Transaction
from zenspark.lake.ingested_offsets import (
    list_recorders,
    mask_rows_from,
    may_have_rows_from,
    offset_app_versions,
    read_offsets,
)
from zenspark.lake.parquet_files import DataFile


def test_recorders_and_offsets_are_read_from_app_versions(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    assert list_recorders(table) == []
    table.commit(Transaction(app_versions=offset_app_versions({"a/b": 7, "ü %": 0}) | {"query": 3}))
    assert list_recorders(table) == ["a/b", "ü %"]
    assert read_offsets(table, ["a/b", "other"]) == {"a/b": 7}


@pytest.mark.parametrize(
    ("start", "expected"),
    [({}, True), ({"robot": 4}, True), ({"robot": 5}, True), ({"robot": 6}, False), ({"x": 9}, True)],
)
def test_file_may_have_rows_from_offset_by_max_offset(start: dict[str, int], expected: bool) -> None:
    assert may_have_rows_from(file("f", offset=5), start) is expected


def test_file_of_several_recorders_or_without_statistics_is_not_pruned() -> None:
    mixed = DataFile("f", 1, 2, {}, {"recorder": "a", "offset": 0}, {"recorder": "b", "offset": 3})
    assert may_have_rows_from(mixed, {"a": 9, "b": 9})
    assert may_have_rows_from(DataFile("f", 1, 2, {}), {"a": 9})


def test_rows_from_offsets_are_masked() -> None:
    rows = pa.table({"recorder": ["a", "a", "b", "c", None, "a"], "offset": [4, 5, 1, 0, 7, None]})
    start = {"a": 5, "b": 2}
    expected = [False, True, False, True, False, False]
    assert mask_rows_from(rows, start).to_pylist() == expected
    words = rows.set_column(0, "recorder", rows["recorder"].dictionary_encode())
    assert mask_rows_from(words, start).to_pylist() == expected
