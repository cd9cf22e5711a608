"""How far a table has come."""

from pathlib import Path

import pytest

from tests.unit.spark.lake.tables import file, samples_at
from zenspark.spark.lake.offsets import marks, offsets, reaches, recorders, remember
from zenspark.spark.lake.table import Change


def test_recorders_are_found_by_name_and_count_when_they_have_a_mark(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    remember(table, ["a/b", "ü %"])
    assert recorders(table) == ["a/b", "ü %"]
    assert offsets(table, recorders(table)) == {}
    table.commit(Change(marks=marks({"a/b": 7})))
    assert offsets(table, recorders(table)) == {"a/b": 7}


@pytest.mark.parametrize(
    ("start", "expected"),
    [({}, True), ({"robot": 4}, True), ({"robot": 5}, True), ({"robot": 6}, False), ({"x": 9}, True)],
)
def test_a_file_reaches_an_offset_if_its_last_row_does(start: dict[str, int], expected: bool) -> None:
    assert reaches(file("f", offset=5), start) is expected
