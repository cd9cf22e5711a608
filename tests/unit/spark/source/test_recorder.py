from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.interop.reference import eventually, ours, unused
from zenspark.api.open import open as open_session
from zenspark.errors import JournalError, JournalLocked, LinkError
from zenspark.journal import Journal, JournalWriter
from zenspark.spark.options import StreamOptions
from zenspark.spark.source import recorder as recording
from zenspark.spark.source.recorder import StreamRecorder, open_writer
from zenspark.spark.source.stream import ZenohStreamReader


def options(path: Path, **more: str) -> StreamOptions:
    return StreamOptions.of({"journal": str(path), "subscribe": '["a/**", "b"]', **more})


@pytest.mark.slow
def test_publications_are_in_the_journal(tmp_path: Path) -> None:
    endpoint = unused()
    stream = ZenohStreamReader(options(tmp_path / "j", listen=endpoint, reader="me"))
    assert list(stream.initialOffset().values()) == [0]
    with open_session(ours(mode="client", connect__endpoints=[endpoint])) as session:
        for number in range(10):
            session.put(f"a/{number}", "x")
        session.put("c", "x")
        assert eventually(lambda: list(stream.reportLatestOffset().values()) == [10])
    stream.stop()
    assert Journal(tmp_path / "j").latest() == 10


def test_an_end_of_recording_ends_the_stream(tmp_path: Path) -> None:
    stream = ZenohStreamReader(options(tmp_path / "j", listen=unused()))
    start = stream.initialOffset()
    stream.stop()
    with pytest.raises(JournalError, match="recording has ended"):
        stream.latestOffset(start, stream.getDefaultReadLimit())


def test_failed_connection_releases_the_journal_lock(tmp_path: Path) -> None:
    with pytest.raises(LinkError):
        StreamRecorder(options(tmp_path / "j", connect=unused()))
    JournalWriter(tmp_path / "j").close()


@pytest.mark.slow
def test_open_writer_waits_for_the_lock_of_the_previous_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = JournalWriter(tmp_path / "j")
    threading.Timer(0.2, before.close).start()
    open_writer(str(tmp_path / "j")).close()
    monkeypatch.setattr(recording, "LOCK_TIMEOUT_SECONDS", 0.0)
    with JournalWriter(tmp_path / "j"), pytest.raises(JournalLocked):
        open_writer(str(tmp_path / "j"))
