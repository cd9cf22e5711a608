"""What a node saw of its network, as rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.api.sessions import connected, listening
from tests.unit.journal.rows import read
from tests.waiting import until
from zenspark.api.session import Session
from zenspark.errors import JournalFull
from zenspark.journal import Journal, JournalWriter, Policy, Recorder, observing


@pytest.fixture
def node() -> Iterator[Session]:
    with listening("router") as session:
        yield session


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "EVERY", 0.01)


def rows(path: Path, *columns: str) -> list[tuple[str, ...]]:
    table = read(Journal(path))
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def test_neighbours_and_what_they_declare_over_time(node: Session, tmp_path: Path) -> None:
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


def test_what_is_there_begins_and_ends_with_the_recording(node: Session, tmp_path: Path) -> None:
    path = tmp_path / "j"
    with connected("client", node) as client, client.declare_queryable("q"):
        until(lambda: node.info.declarations())
        for _ in range(2):
            with JournalWriter(path) as writer, Recorder(node, ["a"], writer):
                pass
    assert [event for (event,) in rows(path / "sessions", "event")] == ["OPENED", "CLOSED"] * 2
    assert [event for (event,) in rows(path / "declarations", "event")] == ["DECLARED", "UNDECLARED"] * 2


def test_a_session_that_ends_first_is_no_trouble(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j") as writer:
        with listening("router") as session:
            recorder = Recorder(session, ["a"], writer).start()
        until(lambda: not recorder.is_running)
        recorder.stop()
    assert Journal(tmp_path / "j" / "declarations").latest() == 0


def test_what_cannot_be_written_is_told(
    node: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise JournalFull("j", "no room")

    with JournalWriter(tmp_path / "j") as writer, connected("client", node):
        recorder = Recorder(node, ["a"], writer)
        monkeypatch.setattr("zenspark.journal.segment.SegmentWriter.append", refuse)
        recorder.start()
        until(lambda: "what was observed waits: j: no room" in caplog.text)
        recorder.stop()
    assert "what was observed last is lost: j: no room" in caplog.text
