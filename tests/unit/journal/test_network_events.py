"""Sessions, declarations and counters as journal rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.api.sessions import connected, listening
from tests.unit.journal.rows import read
from tests.wait import until
from zenspark.api.session import Session
from zenspark.errors import JournalFull, NoJournal
from zenspark.journal import Journal, JournalWriter, Policy, Recorder, network_events


@pytest.fixture
def node() -> Iterator[Session]:
    with listening("router") as session:
        yield session


@pytest.fixture(autouse=True)
def short_poll_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_events, "DECLARATIONS_POLL_INTERVAL_SECONDS", 0.01)


def rows(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    table = read(Journal(path))
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def test_sessions_and_declarations_are_recorded(node: Session, tmp_path: Path) -> None:
    path = tmp_path / "j"
    sessions, declarations = path / "sessions", path / "declarations"
    with JournalWriter(path, Policy(), recorder="r") as writer, Recorder(node, ["a"], writer):
        with connected("client", node) as client, client.declare_subscriber("b/*"):
            zid = str(client.zid())
            until(lambda: Journal(declarations).latest() == 1)
        until(lambda: Journal(declarations).latest() == 2)
        until(lambda: Journal(sessions).latest() == 2)
    assert rows(sessions, "event", "zid", "whatami", "recorder") == [
        ("OPENED", zid, "client", "r"),
        ("CLOSED", zid, "client", "r"),
    ]
    assert all(source.startswith("tcp/127.0.0.1:") for source, _ in rows(sessions, "source", "destination"))
    assert rows(declarations, "event", "kind", "key", "zid", "whatami") == [
        ("DECLARED", "subscriber", "b/*", zid, "client"),
        ("UNDECLARED", "subscriber", "b/*", zid, "client"),
    ]
    times = [time for (time,) in rows(declarations, "time")]
    assert times == sorted(times)


def test_current_state_is_opened_and_closed_with_the_recording(node: Session, tmp_path: Path) -> None:
    path = tmp_path / "j"
    with connected("client", node) as client, client.declare_queryable("q"):
        until(lambda: node.info.declarations())
        for _ in range(2):
            with JournalWriter(path) as writer, Recorder(node, ["a"], writer):
                pass
    assert [event for (event,) in rows(path / "sessions", "event")] == ["OPENED", "CLOSED"] * 2
    assert [event for (event,) in rows(path / "declarations", "event")] == ["DECLARED", "UNDECLARED"] * 2


def test_session_closed_before_stop_is_accepted(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j") as writer:
        with listening("router") as session:
            recorder = Recorder(session, ["a"], writer).start()
        until(lambda: not recorder.is_running)
        recorder.stop()
    assert Journal(tmp_path / "j" / "declarations").latest() == 0


@pytest.mark.slow
def test_changed_counters_are_written_periodically_and_at_the_end(
    node: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_events, "COUNTERS_POLL_INTERVAL_SECONDS", 0.01)
    path = tmp_path / "j"
    with JournalWriter(path, Policy(flush_interval=0.01), recorder="r") as writer, connected("client", node) as client:
        with Recorder(node, ["a"], writer):
            client.put("a", b"1")
            until(lambda: ("recorded", None, None, 1) in rows(path / "counters", "name", "zid", "reason", "value"))
            for _ in range(9):
                client.put("a", b"1")
            assert list(client.get("nobody/replies", timeout=1.0)) == []  # behind what was published
        found = rows(path / "counters", "name", "zid", "reason", "value")
        assert len(set(found)) == len(found)  # only what has changed
        newest = {(name, zid, reason): value for name, zid, reason, value in found}
        assert newest[("received", None, None)] == newest[("recorded", None, None)] == 10
        assert newest[("received", str(client.zid()), None)] >= 10
        assert set(rows(path / "counters", "recorder")) == {("r",)}


@pytest.mark.slow
def test_discarded_rows_are_counted_by_neighbour(
    node: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise JournalFull("j", "no room")

    policy = Policy(flush_interval=0.01, flush_rows=1, block_timeout=0.0)
    with JournalWriter(tmp_path / "j", policy) as writer, connected("client", node) as client:
        with Recorder(node, ["a"], writer) as recorder, monkeypatch.context() as patched:
            patched.setattr(writer, "append_chunks", refuse)
            client.put("a", b"1")
            until(lambda: recorder.status().lost == 1)
        found = rows(tmp_path / "j" / "counters", "name", "zid", "reason", "value")
        assert ("dropped", str(client.zid()), "journal full", 1) in found
        assert ("received", None, None, 1) in found


def test_failed_open_releases_all_locks(node: Session, tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j") as writer:
        (tmp_path / "j" / "declarations").touch()
        with pytest.raises(NoJournal, match="declarations: expected the directory of a journal, found a file"):
            Recorder(node, ["a"], writer)
        (tmp_path / "j" / "declarations").unlink()
        for _ in range(2):
            Recorder(node, ["a"], writer).stop()  # which was not started


def test_write_errors_are_logged(
    node: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise JournalFull("j", "no room")

    with JournalWriter(tmp_path / "j") as writer, connected("client", node):
        recorder = Recorder(node, ["a"], writer)
        monkeypatch.setattr("zenspark.journal.segment.SegmentWriter.append", refuse)
        recorder.start()
        until(lambda: f"{tmp_path / 'j'}: sessions rows cannot be written, retrying: j: no room" in caplog.text)
        recorder.stop()
    assert f"{tmp_path / 'j'}: sessions rows not written at the end: j: no room" in caplog.text
