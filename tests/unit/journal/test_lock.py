"""One writer at a time, even if the lock file is deleted."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zenspark.errors import JournalError, JournalLocked
from zenspark.journal.format import LOCK_FILE, MANIFEST
from zenspark.journal.lock import JournalLock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / MANIFEST).touch()
    return tmp_path


def held(path: Path) -> JournalLock:
    lock = JournalLock(path)
    lock.lock_manifest()
    return lock


def test_second_writer_gets_the_pid_of_the_first(path: Path) -> None:
    lock = held(path)
    with pytest.raises(JournalLocked, match=f"process {os.getpid()} writes this journal") as caught:
        JournalLock(path)
    assert caught.value.pid == os.getpid()
    lock.release()
    held(path).release()


def test_lock_file_without_pid_is_accepted(path: Path) -> None:
    lock = held(path)
    (path / LOCK_FILE).write_text("?")
    with pytest.raises(JournalLocked, match="another process"):
        JournalLock(path)
    lock.release()


@pytest.mark.slow
def test_lock_is_released_when_its_process_ends(path: Path) -> None:
    script = "import sys; from pathlib import Path; from zenspark.journal.lock import JournalLock\n"
    script += "lock = JournalLock(Path(sys.argv[1])); lock.lock_manifest(); print('held', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(JournalLocked, match=f"process {process.pid} "):
            JournalLock(path)
    finally:
        process.kill()
        process.communicate()
    held(path).release()


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed")
def test_removed_lock_file_keeps_the_lock_and_is_recreated(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lock = held(path)
    (path / LOCK_FILE).unlink()
    second = JournalLock(path)
    with pytest.raises(JournalLocked, match="another process writes this journal"):
        second.lock_manifest()
    second.release()
    (path / LOCK_FILE).unlink()
    with caplog.at_level(logging.WARNING):
        lock.check()
        lock.check()
    assert caplog.text.count(f"was removed while process {os.getpid()} writes the journal; created again") == 1
    assert (path / LOCK_FILE).read_text() == f"{os.getpid()}\n"
    with pytest.raises(JournalLocked, match=f"process {os.getpid()} "):
        JournalLock(path)
    lock.release()


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed")
def test_recreated_lock_file_held_by_another_process_raises_locked(path: Path) -> None:
    """As a version that locks nothing else would do."""
    lock = held(path)
    (path / LOCK_FILE).unlink()
    other = JournalLock(path)
    with pytest.raises(JournalLocked):
        lock.check()
    other.release()
    lock.check()
    lock.release()


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed")
def test_replaced_journal_fails_the_check(path: Path) -> None:
    lock = held(path)
    (path / MANIFEST).unlink()
    with pytest.raises(JournalError, match=r"journal\.json: was removed, moved or replaced"):
        lock.check()
    (path / MANIFEST).touch()
    with pytest.raises(JournalError, match=r"journal\.json: was removed, moved or replaced"):
        lock.check()
    lock.release()


def test_filesystem_without_locks_raises_journal_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("zenspark.journal.lock._lock_file", refuse)
    with pytest.raises(JournalError, match=r"writer\.lock: cannot be locked: No locks available"):
        JournalLock(path)
