"""Transactions of one table: all or nothing, and who moves a mark first."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.unit.spark.lake.tables import samples_at, written
from zenspark.errors import LakeError
from zenspark.spark.lake import table as table_module
from zenspark.spark.lake.files import KEPT_TEXT
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.shapes import SAMPLES, Shape
from zenspark.spark.lake.table import PROPERTIES, Change, Table, difference, partition_of

LONG = "k" * (KEPT_TEXT + 9)


def test_files_count_when_they_are_committed_with_what_the_log_says_of_them(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    at = datetime(2026, 11, 16, 1, 2, 3, 456789, UTC)
    rows = [{"key": LONG, "offset": 3, "recorder": "r", "received_at": at}, {"key": "b", "offset": 4, "recorder": "r"}]
    added = written(table, "batch=1", rows)
    assert table.files == []
    table.commit(Change(add=added, marks={"offset:r": 5, "query": 1}))
    for seen in (table, samples_at(tmp_path / "t")):
        (found,) = seen.files
        assert found.path == "batch=1/day=2026-11-16/prefix=a%3Ab/part.parquet"
        assert (found.rows, found.partition) == (2, {"day": "2026-11-16", "prefix": "a:b"})
        assert (found.least["key"], found.greatest["key"]) == ("b", LONG[:KEPT_TEXT] + chr(0x10FFFF))
        assert (found.least["offset"], found.greatest["offset"]) == (3, 4)
        assert found.greatest["received_at"] == at
        assert found.greatest["source_sn"] is None
        assert (seen.mark("offset:r"), seen.mark("query"), seen.mark("other")) == (5, 1, None)
    assert table.delta().to_pyarrow_dataset().count_rows() == 2


def test_files_come_and_go_in_one_transaction(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    old = written(table, "batch=1", [{"key": "a", "offset": 0}])
    table.commit(Change(add=old))
    new = written(table, "batch=2", [{"key": "a", "offset": 0}])
    table.commit(Change(add=new, remove=table.files, rearranges=True))
    assert [file.path for file in table.files] == [file.path for file in new]


def test_of_two_who_move_the_same_mark_one_fails_and_changes_nothing(tmp_path: Path) -> None:
    one, other = samples_at(tmp_path / "t"), samples_at(tmp_path / "t")
    one.commit(Change(marks={"mark": 1}))
    with pytest.raises(LakeError, match="somebody else writes it at the same time"):
        other.commit(Change(add=written(other, "batch=1", [{"key": "a"}]), marks={"mark": 2}))
    other.commit(Change(marks={"another": 1}))
    assert (other.mark("mark"), other.files) == (1, [])


def test_what_others_committed_is_seen_after_a_refresh(tmp_path: Path) -> None:
    one, other = samples_at(tmp_path / "t"), samples_at(tmp_path / "t")
    assert other.files == []
    one.commit(Change(add=written(one, "batch=1", [{"key": "a"}])))
    assert other.files == []
    assert [file.path for file in other.refresh().files] == [file.path for file in one.files]
    assert other.version == one.version == 1


def test_marks_are_those_of_the_snapshot_also_when_another_commits_in_between(tmp_path: Path) -> None:
    one, other = samples_at(tmp_path / "t"), samples_at(tmp_path / "t")
    assert (one.mark("a"), one.mark("b")) == (None, None)
    one.commit(Change(marks={"a": 1}))
    assert (one.mark("a"), one.mark("b")) == (1, None)
    other.refresh().commit(Change(marks={"b": 2}))
    assert one.mark("b") is None
    one.commit(Change(marks={"a": 3}))
    assert (one.mark("a"), one.mark("b")) == (3, 2)


def test_a_table_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples_at(tmp_path / "t")
    monkeypatch.setattr(table_module, "VERSION", "2")
    with pytest.raises(LakeError, match=r"t: its schema has version 1, and this zenspark reads version 2"):
        samples_at(tmp_path / "t")


def test_a_table_of_somebody_else_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"x": [1]}))
    with pytest.raises(LakeError, match="it was not made by zenspark"):
        samples_at(tmp_path / "t")


def test_a_table_with_other_columns_is_refused(tmp_path: Path) -> None:
    samples_at(tmp_path / "t")
    with pytest.raises(LakeError, match=r"columns are not those of this version: x is missing; key is unknown"):
        Table(Folder.at(tmp_path / "t"), Shape("samples", pa.schema([("x", pa.int64())]), SAMPLES.partitions))


def test_the_log_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PROPERTIES["delta.logRetentionDuration"] == "interval 1 hours"
    monkeypatch.setitem(PROPERTIES, "delta.logRetentionDuration", "interval 0 seconds")
    table = samples_at(tmp_path / "t")
    table.commit(Change(add=written(table, "batch=1", [{"key": "a"}])))
    for number in range(200):
        table.commit(Change(marks={"mark": number}))
    assert len(table.folder.files("_delta_log")) < 150
    again = samples_at(tmp_path / "t")
    assert (again.mark("mark"), len(again.files)) == (199, 1)


def test_rows_at_hand_are_written_without_spark(tmp_path: Path) -> None:
    table = Table(Folder.at(tmp_path / "t"), Shape("t", pa.schema([("x", pa.int64())]), described=("x",)))
    table.commit(Change(add=table.write(pa.table({"x": [3, 1]}), "batch=1")))
    assert (table.files[0].least, table.files[0].greatest) == ({"x": 1}, {"x": 3})
    assert table.delta().to_pyarrow_dataset().to_table().to_pydict() == {"x": [3, 1]}


def test_the_partition_stands_in_the_path() -> None:
    path = "batch=1/day=2026-11-16/prefix=x%3Dy%25/part=1.parquet"
    assert partition_of(path, ["day", "prefix"]) == {"day": "2026-11-16", "prefix": "x=y%"}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"a": "int", "b": "text"}, ""),
        ({"a": "int"}, "b is missing"),
        ({"a": "int", "b": "int", "c": "int"}, "c is unknown; b is int, not text"),
        ({"b": "text", "a": "int"}, "their order is b, a"),
    ],
)
def test_a_difference_is_said_in_words(found: dict[str, str], said: str) -> None:
    assert difference({"a": "int", "b": "text"}, found) == said
