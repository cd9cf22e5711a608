from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import zenspark
from tests.interop.reference import eventually, ours
from tests.optional import some
from tests.unit.storage.tables import FakeLake
from zenspark.api.session import Session
from zenspark.journal import Journal
from zenspark.storage.manager import StorageManager
from zenspark.storage.settings import StorageSettings

ROOT = "@/5/peer/status/plugins/storage_manager"


@pytest.fixture
def session() -> Iterator[Session]:
    with zenspark.open(ours(mode="peer", id="5")) as session:
        yield session


def got(session: Session, selector: str) -> dict[str, str]:
    return {
        str(some(reply.ok).key_expr): some(reply.ok).payload.to_string() for reply in session.get(selector, timeout=10)
    }


@pytest.mark.slow
def test_storages_that_share_a_journal_have_one_recorder(session: Session, tmp_path: Path) -> None:
    journal = tmp_path / "j"
    settings = [
        StorageSettings(name="a", key_exprs=("a/**",), journal=journal, lake=str(tmp_path / "lake")),
        StorageSettings(name="b", key_exprs=("b/**", "c"), journal=journal, complete=True),
        StorageSettings(name="old", key_exprs=("old/**",), strip_prefix="old", journal=journal, record=False),
    ]
    with StorageManager(session, settings, open_lake=FakeLake) as storages:
        assert list(storages.recorders) == [journal]
        for key in ("a/1", "b/1", "c", "d"):
            session.put(key, key)
        assert eventually(lambda: got(session, "c") == {"c": "c"})  # each storage reads the journal by itself
        assert eventually(lambda: got(session, "*/1") == {"a/1": "a/1", "b/1": "b/1"})
        assert eventually(lambda: got(session, "old/**") == {"old/a/1": "a/1", "old/b/1": "b/1", "old/c": "c"})
        documents = {key: json.loads(value) for key, value in got(session, f"{ROOT}/**").items()}
        assert set(documents) == {f"{ROOT}/version", f"{ROOT}/volumes/zenspark"} | {
            f"{ROOT}/storages/{name}" for name in ("a", "b", "old")
        }
        assert documents[f"{ROOT}/storages/a"]["volume"] == {
            "id": "zenspark",
            "lake": str(tmp_path / "lake"),
            "journal": str(journal),
        }
        assert documents[f"{ROOT}/storages/b"]["keys"] == 2
        assert got(session, f"{ROOT}/version") == {f"{ROOT}/version": f'"{zenspark.__version__}"'}
    assert Journal(journal).latest() == 3


def test_received_samples_are_flushed_on_close(session: Session, tmp_path: Path) -> None:
    settings = [StorageSettings(name="all", key_exprs=("**",), journal=tmp_path / "j")]
    with StorageManager(session, settings, open_lake=FakeLake) as storages:
        for at in range(100):
            session.put("k", str(at))
        storages.stop_recording()
        assert storages.storages["all"].caught_up()
        assert got(session, "k") == {"k": "99"}
    assert Journal(tmp_path / "j").latest() == 100
