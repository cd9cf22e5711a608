"""A lake that commit c2c7e20 wrote, with batches, refreshes and two recorders: read as it is, upgraded, written to."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import polars
import pyarrow as pa
import pytest

from zenspark.errors import LakeError
from zenspark.lake.delta_table import Transaction
from zenspark.spark.ingest import upgrade as module
from zenspark.spark.ingest.upgrade import upgrade
from zenspark.spark.lake import Lake

ARCHIVE = Path(__file__).with_name("data") / "version-1.tar.gz"


@pytest.fixture
def old(tmp_path: Path) -> Lake:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return Lake(tmp_path / "lake")


@pytest.fixture
def expected(tmp_path: Path, old: Lake) -> list[tuple[str, int, str]]:
    rows = json.loads((tmp_path / "expected.json").read_text())["samples"]
    return sorted((row["recorder"], row["offset"], row["key"]) for row in rows)


def samples(table: pa.Table) -> list[tuple[str, int, str]]:
    return sorted(zip(*(table[name].to_pylist() for name in ("recorder", "offset", "key")), strict=True))


@pytest.mark.slow
def test_an_old_lake_is_read_and_not_written(old: Lake, expected: list[tuple[str, int, str]]) -> None:
    assert old.version == "1"
    assert old.ingested() == {"robot": 60, "rover": 60}
    assert samples(old.dataset("samples").to_table()) == expected
    batches, offsets = old.newest()
    assert {key for batch in batches for key in batch.column("key").to_pylist()} >= {"fleet/a/pose", "other/x"}
    assert offsets == old.ingested()
    with pytest.raises(LakeError, match="zenspark lake upgrade"):
        old.table("samples").commit(Transaction(app_versions={"x": 1}))


@pytest.mark.slow
def test_an_upgraded_lake_has_the_same_rows_for_every_reader(old: Lake, expected: list[tuple[str, int, str]]) -> None:
    assert old.state_table("latest").files  # what was read before is not in the way
    done = upgrade(old)
    assert done.files > 10
    assert old.table("latest").files == []
    place = f"{old.location.address}/samples"
    assert samples(polars.read_delta(place).to_arrow()) == expected
    for lake in (old, Lake(old.location.address)):
        assert lake.version == "2"
        assert samples(lake.dataset("samples").to_table()) == expected
        assert lake.ingested() == {"robot": 60, "rover": 60}
        assert lake.state_table("latest").app_versions == {"offset:robot": 60, "offset:rover": 60}
        lake.table("samples").commit(Transaction(app_versions={"x": 1}))
    assert {file.path.split("/")[0][:4] for file in old.table("samples").files} == {"day="}
    assert upgrade(old).files == 0


@pytest.mark.slow
@pytest.mark.parametrize("fails_at", range(1, 12))
def test_interrupted_upgrade_continues(
    old: Lake, expected: list[tuple[str, int, str]], monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    calls = 0

    def counted(name: str) -> None:
        real = getattr(module, name)

        def call(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            if calls == fails_at:
                raise KeyboardInterrupt
            return real(*arguments)

        monkeypatch.setattr(module, name, call)

    with monkeypatch.context():
        for name in ("_move_state", "_move_files", "_set_version"):
            counted(name)
        try:
            upgrade(old)
        except KeyboardInterrupt:
            assert samples(Lake(old.location.address).dataset("samples").to_table()) == expected
    monkeypatch.undo()
    lake = Lake(old.location.address)
    upgrade(lake)
    assert lake.version == "2"
    assert samples(lake.dataset("samples").to_table()) == expected
    assert {lake.state_table(name).format for name in ("latest", "gaps", "traffic")} == {"2"}
