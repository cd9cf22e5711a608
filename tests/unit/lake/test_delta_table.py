"""Transactions of one table: atomicity and conflicts."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from tests.unit.lake.tables import samples_at, written
from zenspark.errors import LakeError
from zenspark.lake.delta_table import (
    COMMITS_PER_CHECKPOINT,
    VERSION_PROPERTY,
    LakeTable,
    Transaction,
    describe_difference,
)
from zenspark.lake.parquet_files import STATISTICS_CHARACTERS
from zenspark.lake.specs import SAMPLES, TableSpec
from zenspark.lake.storage_path import StoragePath

LONG = "k" * (STATISTICS_CHARACTERS + 9)


def test_committed_files_have_the_statistics_of_the_log(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    at = datetime(2026, 11, 16, 1, 2, 3, 456789, UTC)
    rows = [{"key": LONG, "offset": 3, "recorder": "r", "received_at": at}, {"key": "b", "offset": 4, "recorder": "r"}]
    added = written(table, "one", rows)
    assert table.files == []
    table.commit(Transaction(add=added, app_versions={"offset:r": 5, "query": 1}))
    for seen in (table, samples_at(tmp_path / "t")):
        (found,) = seen.files
        assert found.path.startswith("day=2026-11-16/prefix=a%3Ab/part-one-")
        assert (found.rows, found.partition) == (2, {"day": "2026-11-16", "prefix": "a:b"})
        assert (found.min_values["key"], found.max_values["key"]) == ("b", LONG[:STATISTICS_CHARACTERS] + chr(0x10FFFF))
        assert (found.min_values["offset"], found.max_values["offset"]) == (3, 4)
        assert found.max_values["received_at"] == at
        assert "source_sn" not in found.max_values
        assert (seen.app_version("offset:r"), seen.app_version("query"), seen.app_version("other")) == (5, 1, None)
        assert seen.app_versions == {"offset:r": 5, "query": 1}
    assert table.to_deltalake().to_pyarrow_dataset().count_rows() == 2


def test_missing_table_is_empty_and_created_by_first_commit(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    assert (table.exists, table.version, table.files, table.format) == (False, -1, [], None)
    assert not (tmp_path / "t").exists()
    with pytest.raises(LakeError, match="there is no table here"):
        table.to_deltalake()
    table.commit(Transaction(app_versions={"m": 1}))
    assert (table.exists, table.version, table.format) == (True, 1, "2")


def test_files_are_added_and_removed_in_one_transaction(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.commit(Transaction(add=written(table, "old", [{"key": "a", "offset": 0}])))
    new = written(table, "new", [{"key": "a", "offset": 0}])
    table.commit(Transaction(add=new, remove=table.files, is_optimize=True))
    assert [file.path for file in table.files] == [file.path for file in new]
    assert [str(each["operation"]) for each in table.to_deltalake().history()] == ["OPTIMIZE", "WRITE", "CREATE TABLE"]


def test_concurrent_set_of_same_app_version_conflicts(tmp_path: Path) -> None:
    samples_at(tmp_path / "t").create()
    one, other = samples_at(tmp_path / "t"), samples_at(tmp_path / "t")
    one.commit(Transaction(app_versions={"mark": 1}))
    with pytest.raises(LakeError, match="another writer set 'mark' at the same time"):
        other.commit(Transaction(add=written(other, "one", [{"key": "a"}]), app_versions={"mark": 2}))
    other.update().commit(Transaction(app_versions={"another": 1}))
    assert (other.app_version("mark"), other.files) == (1, [])


def test_concurrent_rewrite_of_same_file_conflicts(tmp_path: Path) -> None:
    one = samples_at(tmp_path / "t")
    one.commit(Transaction(add=written(one, "old", [{"key": "a"}])))
    other = samples_at(tmp_path / "t")
    one.commit(Transaction(add=written(one, "x", [{"key": "a"}]), remove=one.files, is_optimize=True))
    with pytest.raises(LakeError, match=r"another writer removed day=.* at the same time \(OPTIMIZE"):
        other.commit(Transaction(add=written(other, "y", [{"key": "a"}]), remove=other.files, is_optimize=True))


@pytest.mark.slow
def test_older_concurrent_compaction_of_another_tool_fails(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    for name in ("a", "b", "c"):
        table.commit(Transaction(add=written(table, name, [{"key": name}])))
    stale = [DeltaTable(tmp_path / "t") for _ in range(2)]
    together = written(table, "x", [{"key": name} for name in ("a", "b", "c")])
    table.commit(Transaction(add=together, remove=table.files, is_optimize=True))
    with pytest.raises(DeltaError):
        stale[0].optimize.compact()
    with pytest.raises(DeltaError):
        stale[1].optimize.z_order(["key"])
    assert DeltaTable(tmp_path / "t").to_pyarrow_dataset().count_rows() == 3
    assert table.foreign_changes(0) == []


def test_concurrent_appends_do_not_conflict(tmp_path: Path) -> None:
    samples_at(tmp_path / "t").create()
    one, other = samples_at(tmp_path / "t"), samples_at(tmp_path / "t")
    for number in range(3):
        one.commit(Transaction(add=written(one, "one", [{"key": "a"}]), app_versions={"one": number}))
        other.commit(Transaction(add=written(other, "other", [{"key": "a"}]), app_versions={"other": number}))
    assert len(one.update().files) == len(other.files) == 6
    assert DeltaTable(tmp_path / "t").to_pyarrow_dataset().count_rows() == 6


def test_update_reads_commits_of_other_writers(tmp_path: Path) -> None:
    one, other = samples_at(tmp_path / "t"), samples_at(tmp_path / "t")
    assert other.files == []
    one.commit(Transaction(add=written(one, "one", [{"key": "a"}])))
    assert other.files == []
    assert [file.path for file in other.update().files] == [file.path for file in one.files]
    assert other.version == one.version == 1


def test_newer_format_is_rejected_and_older_one_is_read_only(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.create()
    table.to_deltalake().alter.set_table_properties({VERSION_PROPERTY: "1"}, raise_if_not_exists=False)
    old = samples_at(tmp_path / "t")
    with pytest.raises(LakeError, match="format version 1, which is read-only: `zenspark lake upgrade` makes it 2"):
        old.commit(Transaction(app_versions={"m": 1}))
    table.to_deltalake().alter.set_table_properties({VERSION_PROPERTY: "3"}, raise_if_not_exists=False)
    with pytest.raises(LakeError, match=r"t: its schema has version 3, and this zenspark reads version 2"):
        samples_at(tmp_path / "t")


def test_table_of_another_tool_is_rejected(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"x": [1]}))
    with pytest.raises(LakeError, match="it was not made by zenspark"):
        samples_at(tmp_path / "t")


def test_table_with_missing_column_is_rejected(tmp_path: Path) -> None:
    samples_at(tmp_path / "t").create()
    with pytest.raises(LakeError, match=r"columns are not those of this version: x is missing"):
        LakeTable(
            StoragePath.at(tmp_path / "t"), TableSpec("samples", pa.schema([("x", pa.int64())]), SAMPLES.partitions)
        )


def test_column_added_by_another_tool_is_accepted(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.commit(Transaction(add=written(table, "one", [{"key": "a"}])))
    delta = table.to_deltalake()
    delta.alter.add_columns([_field("note")])
    table.update().commit(Transaction(add=written(table, "two", [{"key": "b"}])))
    assert table.extra_columns.names == ["note"]
    rows = DeltaTable(tmp_path / "t").to_pyarrow_dataset().to_table(columns=["key", "note"]).to_pylist()
    assert sorted((row["key"], row["note"]) for row in rows) == [("a", None), ("b", None)]


def _field(name: str) -> Field:
    return Field(name, PrimitiveType("string"))


def test_table_with_unsupported_protocol_is_rejected(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.create()
    table.to_deltalake().alter.set_table_properties({"delta.enableDeletionVectors": "true"}, raise_if_not_exists=False)
    with pytest.raises(LakeError, match=r"raised its protocol to reader version 3.*deletionVectors"):
        table.update()


def test_files_since_returns_live_files_added_after_a_version(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    for name in ("a", "b", "c"):
        table.commit(Transaction(add=written(table, name, [{"key": name}])))
    assert [_label(file.path) for file in table.files_since(1)] == ["b", "c"]
    assert table.files_since(table.version) == []
    table.commit(Transaction(remove=table.files_since(2)))
    assert [_label(file.path) for file in table.files_since(1)] == ["b"]
    again = samples_at(tmp_path / "t")
    assert [_label(file.path) for file in again.files_since(0)] == ["a", "b"]


def _label(path: str) -> str:
    return path.split("part-")[1].split("-")[0]


def test_prune_files_by_day_and_prefix(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    for day in ("2026-11-14", "2026-11-15", "2026-11-16"):
        table.commit(Transaction(add=written(table, day[-2:], [{"key": "a:b/x"}], day)))
    first, last = date(2026, 11, 15), date(2026, 11, 15)
    assert {_label(file.path) for file in table.prune_files(first, last, "a:b")} == {"15"}
    assert {_label(file.path) for file in table.prune_files(first, None, "a:b")} == {"15", "16"}
    assert {_label(file.path) for file in table.prune_files(None, last)} == {"14", "15"}
    assert table.prune_files(first, last, "other") == []


def test_checkpoint_is_written_and_log_cleaned_up(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.commit(Transaction(add=written(table, "one", [{"key": "a"}])))
    for number in range(COMMITS_PER_CHECKPOINT - 3):  # version 0 made the table, version 1 added the file
        table.commit(Transaction(app_versions={"mark": number}))
    assert not table.checkpoint()
    table.commit(Transaction(app_versions={"mark": 98}))
    assert table.checkpoint()
    table.commit(Transaction(app_versions={"mark": 99}))
    for version in range(COMMITS_PER_CHECKPOINT // 2):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    again = samples_at(tmp_path / "t")
    assert (again.app_version("mark"), len(again.files), again.version) == (99, 1, table.version)


def test_set_history_changes_retention_properties(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.set_history(timedelta(days=7))
    table.create()
    table.set_history(timedelta(days=7))
    version = table.version
    table.set_history(timedelta(days=7))
    assert table.version == version == 1
    assert (
        DeltaTable(tmp_path / "t").metadata().configuration["delta.logRetentionDuration"] == "interval 604800 seconds"
    )
    table.commit(Transaction(app_versions={"m": 1}))


def test_rows_are_written_without_spark(tmp_path: Path) -> None:
    table = LakeTable(
        StoragePath.at(tmp_path / "t"), TableSpec("t", pa.schema([("x", pa.int64())]), stats_columns=("x",))
    )
    table.commit(Transaction(add=table.write(pa.table({"x": [3, 1]}), "rows")))
    assert (table.files[0].min_values, table.files[0].max_values) == ({"x": 1}, {"x": 3})
    assert table.to_deltalake().to_pyarrow_dataset().to_table().to_pydict() == {"x": [3, 1]}


@pytest.mark.slow
def test_foreign_changes_lists_removals_by_other_tools(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.commit(Transaction(add=written(table, "one", [{"key": "a"}, {"key": "b"}])))
    before = table.version
    table.to_deltalake().delete("key = 'a'")
    table.to_deltalake().optimize.compact()
    table.commit(Transaction(app_versions={"m": 1}))
    changes = table.foreign_changes(before)
    assert changes is not None
    (change,) = changes
    assert (change.operation, len(change.removed), [file.rows for file in change.added]) == ("DELETE", 1, [1])
    assert table.foreign_changes(table.version) == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"a": "int", "b": "text"}, ""),
        ({"b": "text", "a": "int", "c": "int"}, ""),
        ({"a": "int"}, "b is missing"),
        ({"a": "int", "b": "int"}, "b is int, not text"),
    ],
)
def test_describe_difference_names_columns_and_types(found: dict[str, str], expected: str) -> None:
    assert describe_difference({"a": "int", "b": "text"}, found) == expected
