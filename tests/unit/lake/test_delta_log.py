"""Incremental reading of the Delta log gives the same state as `deltalake`, whatever tool wrote it."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.unit.lake.tables import samples_at, written
from zenspark.errors import LakeError
from zenspark.lake import delta_log as module
from zenspark.lake.delta_log import CommitConflict, DeltaLog, checkpoint_paths, commit_path
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES
from zenspark.lake.storage_path import StoragePath


def paths_by_deltalake(path: Path) -> list[str]:
    from urllib.parse import unquote

    actions = pa.table(DeltaTable(path).get_add_actions())
    return sorted(unquote(name) for name in actions["path"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_commits_of_several_writers_and_tools_give_the_same_state(tmp_path: Path, seed: int) -> None:
    rnd = random.Random(seed)
    writers = [samples_at(tmp_path / "t") for _ in range(3)]
    writers[0].create()
    rows = 0
    for step in range(40):
        writer = rnd.choice(writers).update()
        match rnd.choices(["append", "compact", "foreign compact", "foreign append", "checkpoint"], [8, 2, 1, 1, 1])[0]:
            case "append":
                writer.commit(
                    Transaction(add=written(writer, "x", [{"key": f"k{step}"}]), app_versions={f"m{seed}": step})
                )
                rows += 1
            case "compact" if len(writer.files) > 1:
                some = rnd.sample(writer.files, 2)
                count = sum(file.rows for file in some)
                added = written(writer, "y", [{"key": "k"}] * count)
                writer.commit(Transaction(add=added, remove=some, is_optimize=True))
            case "foreign compact":
                DeltaTable(tmp_path / "t").optimize.compact()
            case "foreign append":
                new = pa.Table.from_pylist([{"key": "f"}], schema=SAMPLES.schema)
                write_deltalake(tmp_path / "t", new, mode="append")
                rows += 1
            case "checkpoint":
                writer.checkpoint(force=True)
    expected = paths_by_deltalake(tmp_path / "t")
    for table in [*writers, samples_at(tmp_path / "t")]:
        table.update()
        assert sorted(file.path for file in table.files) == expected
        assert table.version == DeltaTable(tmp_path / "t").version()
        assert sum(file.rows for file in table.files) == rows
    assert DeltaTable(tmp_path / "t").to_pyarrow_dataset().count_rows() == rows


def test_cleaned_up_log_is_read_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, follower = samples_at(tmp_path / "t"), samples_at(tmp_path / "t")
    table.create()
    follower.update()
    for number in range(5):
        table.commit(Transaction(add=written(table, "x", [{"key": "a"}]), app_versions={"m": number}))
    table.checkpoint(force=True)
    for version in range(table.version + 1):
        (tmp_path / "t" / commit_path(version)).unlink()
    monkeypatch.setattr(module, "CHECKPOINT_RECHECK_SECONDS", 0.0)
    assert (follower.update().version, len(follower.files), follower.app_version("m")) == (5, 5, 4)
    (tmp_path / "t" / "_delta_log" / "_last_checkpoint").unlink()
    assert samples_at(tmp_path / "t").version == 5
    assert follower.files_since(2) == follower.files  # what came when is not known any more
    assert follower.foreign_changes(2) is None
    late = samples_at(tmp_path / "t")
    late._state = replace(late._state, version=2)
    with pytest.raises(CommitConflict, match="the log after version 2 was cleaned up"):
        late.commit(Transaction(app_versions={"other": 1}))


@pytest.mark.slow
def test_concurrent_writers_lose_no_commit(tmp_path: Path) -> None:
    samples_at(tmp_path / "t").create()

    def append(name: str) -> None:
        table = samples_at(tmp_path / "t")
        for number in range(10):
            table.commit(Transaction(add=written(table, name, [{"key": name}]), app_versions={name: number}))

    threads = [threading.Thread(target=append, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = samples_at(tmp_path / "t")
    assert (len(table.files), table.version) == (40, 40)
    assert dict(table.app_versions) == {f"w{number}": 9 for number in range(4)}


def test_commit_with_lost_response_is_detected_as_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = samples_at(tmp_path / "t")
    table.create()
    create = StoragePath.put_if_absent

    def lose_response(self: StoragePath, path: str, content: bytes) -> bool:
        assert create(self, path, content)
        return False

    monkeypatch.setattr(StoragePath, "put_if_absent", lose_response)
    table.commit(Transaction(add=written(table, "x", [{"key": "a"}]), app_versions={"m": 1}))
    assert (table.version, len(table.files)) == (1, 1)


def test_commit_fails_after_max_attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = samples_at(tmp_path / "t")
    table.create()
    monkeypatch.setattr(StoragePath, "put_if_absent", lambda *_: False)
    with pytest.raises(CommitConflict, match="100 commits of other writers came first"):
        table.commit(Transaction(app_versions={"m": 1}))


def test_invalid_json_commit_raises_with_its_path(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.create()
    (tmp_path / "t" / commit_path(1)).write_text('{"add": ')
    with pytest.raises(LakeError, match=r"0001.json: expected a commit of a Delta log"):
        table.update()


def test_missing_or_broken_statistics_are_accepted(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.create()
    action = {
        "add": {"path": "day=2026-11-16/prefix=a/x.parquet", "partitionValues": {}, "size": 1, "dataChange": True}
    }
    broken = {"add": action["add"] | {"path": "y.parquet", "stats": '{"numRecords": 3, "minValues": {"offset": '}}
    (tmp_path / "t" / commit_path(1)).write_text("\n".join(json.dumps(each) for each in (action, broken)))
    files = table.update().files
    assert [(file.rows, file.min_values, file.partition) for file in files] == [
        (0, {}, {"day": None, "prefix": None})
    ] * 2


def test_checkpoint_paths_of_one_or_several_parts() -> None:
    assert checkpoint_paths(7, None) == ["_delta_log/00000000000000000007.checkpoint.parquet"]
    assert checkpoint_paths(7, 2)[1] == "_delta_log/00000000000000000007.checkpoint.0000000002.0000000002.parquet"


def test_missing_checkpoint_raises_with_its_path(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.create()
    (tmp_path / "t" / "_delta_log" / "_last_checkpoint").write_text('{"version": 3}')
    with pytest.raises(LakeError, match=r"00003.checkpoint.parquet: the log names this checkpoint"):
        samples_at(tmp_path / "t")


def test_log_works_without_a_table_spec(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"x": [1]}))
    log = DeltaLog(StoragePath.at(tmp_path / "t"), [], {"x": pa.int64()})
    (file,) = log.update().files
    assert (file.rows, file.min_values, file.max_values) == (1, {"x": 1}, {"x": 1})


def test_journal_schema_equals_samples_columns(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.create()
    assert table.schema.names == [*JOURNAL_SCHEMA.names, "day", "prefix"]
    assert isinstance(table, LakeTable)
