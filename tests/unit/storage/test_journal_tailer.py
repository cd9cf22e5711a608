from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import NoReturn

import pytest

from tests.unit.storage.made import recorded, row
from tests.unit.storage.tables import FakeLake, append
from tests.wait import until
from zenspark.errors import LakeError
from zenspark.journal import Journal, JournalError, JournalWriter, Policy
from zenspark.journal.retention import trim
from zenspark.storage import journal_tailer
from zenspark.storage.inputs import StorageInputs
from zenspark.storage.journal_tailer import JournalTailer
from zenspark.storage.key_scope import KeyScope
from zenspark.storage.latest_store import LatestValueStore


def followed(lake: FakeLake | None, path: Path) -> tuple[LatestValueStore, JournalTailer]:
    newest = LatestValueStore()
    return newest, JournalTailer(newest, KeyScope(["**"]), StorageInputs(lake, [Journal(path)]))


def value(newest: LatestValueStore, key: str) -> bytes | None:
    found = newest.find(key)
    return None if found is None else found.payload


def test_store_is_loaded_from_lake_and_journal(tmp_path: Path) -> None:
    lake = FakeLake(tmp_path / "lake")
    now = time.time()
    rows = [
        row("a", b"1", now),
        row("b", b"1", now),
        row("c", b"1", now),
        row("c", None, now + 1),
        row("b", b"2", now + 2),
    ]
    with JournalWriter(tmp_path / "j", recorder="r") as writer:
        append(writer, rows)
        lake.ingest(recorded(rows[:4]))
        newest, tailer = followed(lake, tmp_path / "j")
        tailer.start()
        assert [value(newest, key) for key in "abc"] == [b"1", b"2", None]
        append(writer, [row("c", b"older", now + 0.5), row("a", b"3", now + 3)])
        assert tailer.wait(10)
        assert [value(newest, key) for key in "abc"] == [b"3", b"2", None]
        assert tailer.offsets == {"r": 7}
        tailer.stop()


@pytest.mark.slow
def test_new_journal_rows_are_applied(tmp_path: Path) -> None:
    newest, tailer = followed(None, tmp_path / "j")
    tailer.start()
    with JournalWriter(tmp_path / "j", recorder="r") as writer:
        for second in range(1, 20):
            append(writer, [row("a", b"%d" % second, second)])
            assert tailer.wait(10)
            assert value(newest, "a") == b"%d" % second
    tailer.stop()


def test_rows_trimmed_before_poll_are_loaded_from_the_lake(tmp_path: Path) -> None:
    lake = FakeLake(tmp_path / "lake")
    newest, tailer = followed(lake, tmp_path / "j")
    rows = [row(key, b"1", 1) for key in "abc"]
    with JournalWriter(tmp_path / "j", Policy(segment_bytes=1), recorder="r") as writer:
        append(writer, rows[:1])
        assert tailer.poll() == 1
        for each in rows[1:]:
            append(writer, [each])
    lake.ingest(recorded(rows))
    trim(tmp_path / "j", Policy(retain_bytes=1), 0)
    tailer.poll()
    assert [value(newest, key) for key in "abc"] == [b"1"] * 3
    assert tailer.offsets == {"r": 3}


def test_unreadable_lake_is_retried_while_tailing_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_tailer, "LAKE_RETRY_INTERVAL_SECONDS", 0.01)
    lake = FakeLake(tmp_path / "lake")
    rows = [row(key, b"1", 1) for key in "abcd"]
    with JournalWriter(tmp_path / "j", Policy(segment_bytes=1), recorder="r") as writer:
        for each in rows[:3]:
            append(writer, [each])
        lake.ingest(recorded(rows[:2]))
        trim(tmp_path / "j", Policy(retain_bytes=1), 0)
        with monkeypatch.context() as gone:
            gone.setattr(lake, "newest", _cannot_be_read)
            newest, tailer = followed(lake, tmp_path / "j")
            tailer.start()
            append(writer, rows[3:])
            assert tailer.wait(10)
            assert [value(newest, key) for key in "abcd"] == [None, None, b"1", b"1"]
        until(lambda: [value(newest, key) for key in "abcd"] == [b"1"] * 4)
    tailer.stop()
    assert caplog.messages == [
        "storage of ** replies from the journal alone until the lake can be read: lake: cannot be reached",
        "storage of ** can read the lake again",
    ]


def _cannot_be_read() -> NoReturn:
    raise LakeError("lake", "cannot be reached")


def test_wait_times_out(tmp_path: Path) -> None:
    _, tailer = followed(None, tmp_path / "j")
    with JournalWriter(tmp_path / "j") as writer:
        append(writer, [row("a", b"1", 1)])
        assert not tailer.wait(0)
    tailer.stop()


def test_large_batches_are_applied_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_tailer, "MAX_TAILED_BATCH_ROWS", 3)
    with JournalWriter(tmp_path / "j") as writer:
        append(writer, [row(f"k/{at}", b"", 1) for at in range(10)])
        newest, tailer = followed(None, tmp_path / "j")
        assert tailer.poll() == 10
    assert len(newest) == 10


@pytest.mark.parametrize("failure", [JournalError("journal", "broken"), ValueError("broken")])
def test_unreadable_journal_is_retried(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_tailer, "READ_RETRY_INTERVAL_SECONDS", 0.01)
    newest, tailer = followed(None, tmp_path / "j")
    poll_once = tailer.poll
    failures = [failure, failure]

    def poll() -> int:
        if failures:
            raise failures.pop()
        return poll_once()

    tailer.start()
    monkeypatch.setattr(tailer, "poll", poll)
    with caplog.at_level(logging.WARNING), JournalWriter(tmp_path / "j") as writer:
        append(writer, [row("a", b"1", 1)])
        assert tailer.wait(10)
    tailer.stop()
    assert caplog.messages == [  # the second failure is the same
        f"storage of ** cannot read the journal, replies may be out of date: {failure}",
        "storage of ** can read the journal again",
    ]
    assert (caplog.records[0].exc_info is None) == isinstance(failure, JournalError)
    assert value(newest, "a") == b"1"


def test_tombstones_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_tailer, "EXPIRE_INTERVAL_SECONDS", 0.0)
    newest = LatestValueStore(lifespan=0.0)
    tailer = JournalTailer(newest, KeyScope(["**"]), StorageInputs(None, [Journal(tmp_path / "j")]))
    with JournalWriter(tmp_path / "j") as writer:
        append(writer, [row("a", None, 1)])
        tailer.start()
        assert tailer.wait(10)
        deadline = time.monotonic() + 10
        while newest.matching_keys("**") and time.monotonic() < deadline:
            time.sleep(0.01)
    tailer.stop()
    assert newest.matching_keys("**") == []
