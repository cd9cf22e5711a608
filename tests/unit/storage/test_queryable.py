from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import zenspark
from tests.interop.reference import ours
from tests.optional import some
from tests.unit.storage.made import row
from tests.unit.storage.tables import FakeLake, append
from zenspark.api.session import Session
from zenspark.errors import SessionClosed
from zenspark.journal import Journal, JournalWriter
from zenspark.storage import Storage, queryable


@pytest.fixture
def session() -> Iterator[Session]:
    with zenspark.open(ours(mode="peer")) as session:
        yield session


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[JournalWriter]:
    with JournalWriter(tmp_path / "j", recorder="r") as writer:
        yield writer


def got(session: Session, selector: str) -> list[tuple[str, str]]:
    return sorted(
        (str(some(reply.ok).key_expr), some(reply.ok).payload.to_string())
        for reply in session.get(selector, timeout=10)
    )


def test_storage_replies_with_latest_values_or_history(session: Session, writer: JournalWriter, tmp_path: Path) -> None:
    append(writer, [row("a/1", b"1", 1), row("a/2", b"2", 2), row("a/1", b"3", 3), row("b", b"4", 4)])
    with Storage(session, "a/**", FakeLake(tmp_path / "lake"), [Journal(tmp_path / "j")], complete=True) as stored:
        assert got(session, "a/1") == [("a/1", "3")]
        assert got(session, "a/9") == []
        assert got(session, "**") == [("a/1", "3"), ("a/2", "2")]
        assert got(session, "b") == []
        assert got(session, "a/1?_time=[..]") == [("a/1", "1"), ("a/1", "3")]
        assert got(session, "a/1?_time=[..];_limit=1") == [("a/1", "3")]
        assert got(session, "a/1?_time=[1970-01-01T00:00:00Z;2s]") == [("a/1", "1")]
        assert got(session, "a/1?other=1") == [("a/1", "3")]
        assert got(session, "a/1?_limit=1") == [("a/1", "3")]
        append(writer, [row("a/1", None, 5)])
        assert stored.caught_up()
        assert got(session, "a/*") == [("a/2", "2")]
        status = {"key_expr": "a/**", "complete": True, "keys": 1, "offsets": {"r": 5}}
        assert stored.status() == status
    assert got(session, "**") == []


def test_several_key_expressions_reply_once_per_key(session: Session, writer: JournalWriter, tmp_path: Path) -> None:
    append(writer, [row("a/1", b"1", 1), row("b/1", b"2", 2), row("c/1", b"3", 3)])
    with Storage(session, ["a/*", "*/1", "a/1"], None, [tmp_path / "j"]) as stored:
        none = zenspark.ConsolidationMode.NONE
        for selector in ("**", "**?_time=[..]"):
            replies = [str(some(reply.ok).key_expr) for reply in session.get(selector, consolidation=none, timeout=10)]
            assert sorted(replies) == ["a/1", "b/1", "c/1"]
        assert [str(some(reply.ok).key_expr) for reply in session.get("a/1", consolidation=none)] == ["a/1"]
        assert stored.status()["key_expr"] == ["a/*", "*/1", "a/1"]


def test_many_replies_run_in_the_thread_pool(
    session: Session, writer: JournalWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queryable, "MAX_INLINE_REPLIES", 3)
    append(writer, [row(f"k/{at}", b"%d" % at, 1) for at in range(10)])
    with Storage(session, "**", None, [tmp_path / "j"]):
        assert got(session, "k/*") == [(f"k/{at}", str(at)) for at in range(10)]


def test_strip_prefix_is_added_to_replies(session: Session, writer: JournalWriter, tmp_path: Path) -> None:
    append(writer, [row("a", b"1", 1)])
    with Storage(session, "old/**", None, [tmp_path / "j"], strip_prefix="old") as stored:
        assert got(session, "old/a") == [("old/a", "1")]
        assert got(session, "old/*?_time=[..]") == [("old/a", "1")]
        assert stored.status()["strip_prefix"] == "old"


def test_failed_query_replies_with_error(
    session: Session,
    writer: JournalWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    append(writer, [row("a", b"1", 1)])
    with Storage(session, "**", None, [tmp_path / "j"]) as stored:
        (refused,) = session.get("a?_time=[soon..]", timeout=10)
        assert "soon" in some(refused.err).payload.to_string()
        (refused,) = session.get("a?_time=[..];_limit=0", timeout=10)
        assert "_limit" in some(refused.err).payload.to_string()

        def fail(*_: object) -> None:
            raise OSError("the disk is gone")

        monkeypatch.setattr(stored._history, "samples", fail)
        (refused,) = session.get("a?_time=[..]", timeout=10)
        assert some(refused.err).payload.to_string() == "the history cannot be read"
        assert got(session, "a") == [("a", "1")]
        assert len(list(session.get("a?_time=[..]", timeout=10))) == 1
    (record,) = [record for record in caplog.records if record.name == "zenspark.storage"]  # one line per interval
    assert record.getMessage() == "storage of **: query a?_time=[..] from an unnamed sender failed; 1 in all"
    assert record.exc_info is not None


def test_storage_can_be_closed_after_its_session(writer: JournalWriter, tmp_path: Path) -> None:
    session = zenspark.open(ours(mode="peer"))
    stored = Storage(session, "**", None, [tmp_path / "j"]).start()
    session.close()
    stored.close()
    with pytest.raises(SessionClosed):
        session.get("a")
