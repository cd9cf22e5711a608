from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.unit.storage.made import recorded, row
from tests.unit.storage.tables import FakeLake
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.parquet_files import DataFile
from zenspark.storage.partition_index import PartitionIndex

DAY = 86_400.0
SECOND_DAY = date(1970, 1, 2)


def partitions(files: list[DataFile]) -> list[tuple[str | None, str | None]]:
    return sorted((file.partition["day"], file.partition["prefix"]) for file in files)


def logged(table: LakeTable, day: str | None, prefix: str | None) -> None:
    """A file that is in the log only."""
    values = {"day": day, "prefix": prefix}
    table.commit(Transaction(add=[DataFile(f"{day}-{prefix}", 1, 1, values)]))


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    lake = FakeLake(tmp_path)
    lake.ingest(recorded([row(key, b"", second) for second in (1, DAY) for key in ("a/1", "b/1", "*/1", "a$*")]))
    return lake.table("samples")


def test_files_are_selected_by_day_and_prefix(table: LakeTable) -> None:
    index = PartitionIndex()
    days = ("1970-01-01", "1970-01-02")
    assert partitions(index.files(table)) == [(day, each) for day in days for each in ("*", "a", "a$*", "b")]
    assert partitions(index.files(table, prefix="a")) == [(day, each) for day in days for each in ("*", "a", "a$*")]
    assert partitions(index.files(table, SECOND_DAY, "b")) == [(days[1], each) for each in ("*", "a$*", "b")]
    assert partitions(index.files(table, SECOND_DAY, "a$*")) == [(days[1], each) for each in ("*", "a$*")]
    assert partitions(index.files(table, SECOND_DAY, "c")) == [(days[1], each) for each in ("*", "a$*")]
    assert index.files(table, date(1970, 1, 3)) == []


def test_new_partitions_are_indexed(table: LakeTable) -> None:
    index = PartitionIndex()
    assert index.files(table, SECOND_DAY, "new") == index.files(table, SECOND_DAY, "other")
    logged(table, "1970-01-02", "new")
    logged(table, "1970-02-02", "new")
    assert partitions(index.files(table, SECOND_DAY, "new"))[-2:] == [("1970-01-02", "new"), ("1970-02-02", "new")]
    table.commit(Transaction(remove=[file for file in table.files if file.partition["prefix"] == "new"]))
    assert index.files(table, SECOND_DAY, "new") == index.files(table, SECOND_DAY, "other")


def test_older_snapshot_returns_its_files(tmp_path: Path) -> None:
    lake = FakeLake(tmp_path)
    lake.ingest(recorded([row("a", b"", 1)]))
    before = lake.table("samples")
    lake.ingest(recorded([row("b", b"", 1)]))
    index = PartitionIndex()
    assert partitions(index.files(lake.table("samples"))) == [("1970-01-01", "a"), ("1970-01-01", "b")]
    assert partitions(index.files(before)) == [("1970-01-01", "a")]


def test_null_partition_matches_any_key_and_day(tmp_path: Path) -> None:
    table = FakeLake(tmp_path).table("samples")
    logged(table, None, None)
    logged(table, None, "a")
    logged(table, "1970-01-02", None)
    found = PartitionIndex().files(table, SECOND_DAY, "a")
    assert {(file.partition["day"], file.partition["prefix"]) for file in found} == {
        (None, None),
        (None, "a"),
        ("1970-01-02", None),
    }


def test_partitions_are_not_filtered_for_every_query(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    index = PartitionIndex()
    index.files(table)
    read_versions: list[int] = []
    since = table.files_since

    def files_since(version: int) -> list[DataFile]:
        read_versions.append(version)
        return since(version)

    monkeypatch.setattr(table, "files_since", files_since)
    version = table.version
    index.files(table, prefix="a")
    logged(table, "1970-01-02", "new")
    index.files(table, prefix="a")
    index.files(table, prefix="a")
    assert read_versions == [version]
