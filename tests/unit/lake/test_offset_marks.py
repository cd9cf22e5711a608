"""How far a table has come."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.unit.lake.tables import file, samples_at
from zenspark.lake.delta_table import Change
from zenspark.lake.offset_marks import behind, is_behind, marks, offsets, reaches, recorders
from zenspark.lake.parquet_files import File


def test_recorders_are_those_that_have_a_mark(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    assert recorders(table) == []
    table.commit(Change(marks=marks({"a/b": 7, "ü %": 0}) | {"query": 3}))
    assert recorders(table) == ["a/b", "ü %"]
    assert offsets(table, ["a/b", "other"]) == {"a/b": 7}


@pytest.mark.parametrize(
    ("start", "expected"),
    [({}, True), ({"robot": 4}, True), ({"robot": 5}, True), ({"robot": 6}, False), ({"x": 9}, True)],
)
def test_a_file_reaches_an_offset_if_its_last_row_does(start: dict[str, int], expected: bool) -> None:
    assert reaches(file("f", offset=5), start) is expected


def test_a_file_of_several_recorders_or_without_statistics_may_have_anything() -> None:
    mixed = File("f", 1, 2, {}, {"recorder": "a", "offset": 0}, {"recorder": "b", "offset": 3})
    assert reaches(mixed, {"a": 9, "b": 9})
    assert reaches(File("f", 1, 2, {}), {"a": 9})


def test_rows_behind_offsets_are_told_one_by_one() -> None:
    rows = pa.table({"recorder": ["a", "a", "b", "c", None, "a"], "offset": [4, 5, 1, 0, 7, None]})
    start = {"a": 5, "b": 2}
    expected = [False, True, False, True, False, False]
    assert is_behind(rows, start).to_pylist() == expected
    words = rows.set_column(0, "recorder", rows["recorder"].dictionary_encode())
    assert is_behind(words, start).to_pylist() == expected
    assert ds.dataset(rows).to_table(filter=behind(start)).to_pylist() == rows.filter(pa.array(expected)).to_pylist()
