"""Committed offsets and expiry of readers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from zenspark.errors import JournalError, JournalFull, UsageError
from zenspark.journal.reader_offsets import MIN_EXPIRY_WATCH_SECONDS, AttachedReader, ReaderExpiry, ReaderOffsets


@pytest.mark.parametrize("name", ["spark", "a/b", "..", ".hidden", "with space", "é", "x.json"])
def test_any_reader_name_is_supported(tmp_path: Path, name: str) -> None:
    commits = ReaderOffsets(tmp_path)
    assert commits.offsets() == {}
    commits.write(name, 3)
    commits.write(name, 5)
    assert commits.read(name) == 5
    assert commits.offsets() == {name: 5}
    assert [file.parent for file in (tmp_path / "readers").iterdir()] == [tmp_path / "readers"]
    commits.detach(name)
    commits.detach(name)
    assert commits.read(name) is None


def test_invalid_names_and_offsets_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must not be empty"):
        ReaderOffsets(tmp_path).write("", 1)
    with pytest.raises(UsageError, match="expected an offset, found -1"):
        ReaderOffsets(tmp_path).write("a", -1)
    with pytest.raises(UsageError, match="must be text"):
        ReaderOffsets(tmp_path).write("\udcff", 1)


@pytest.mark.parametrize("text", ["", "[]", '{"offset": "x"}', "[" * 100_000], ids=["none", "list", "text", "deep"])
def test_invalid_reader_file_raises_with_its_path(tmp_path: Path, text: str) -> None:
    ReaderOffsets(tmp_path).write("a", 1)
    (tmp_path / "readers" / "a.json").write_text(text)
    with pytest.raises(JournalError, match=r"a\.json: expected"):
        ReaderOffsets(tmp_path).offsets()


def test_failed_commit_raises_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    commits = ReaderOffsets(tmp_path)
    commits.write("a", 1)
    with pytest.raises(JournalError, match="cannot be written: File name too long"):
        commits.write("a" * 300, 1)
    for name in ("write", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, refuse)
            with pytest.raises(JournalFull, match="the disk is full"):
                commits.write("b", 2)
    assert [file.name for file in (tmp_path / "readers").iterdir()] == ["a.json"]
    assert commits.offsets() == {"a": 1}


@pytest.mark.parametrize("offsets", [(1, 12345), (12345, 6)])
def test_attached_reader_commits_on_a_full_disk(
    tmp_path: Path, offsets: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    commits = ReaderOffsets(tmp_path)
    commits.write("a", offsets[0], "a query")
    monkeypatch.setattr("zenspark.journal.reader_offsets.write_file", refuse)
    commits.write("a", offsets[1])
    (known,) = commits.readers()
    assert (known.offset, known.description) == (offsets[1], "a query")
    assert len(list((tmp_path / "readers").iterdir())) == 1


def test_directory_instead_of_reader_file_raises(tmp_path: Path) -> None:
    (tmp_path / "readers" / "a.json").mkdir(parents=True)
    with pytest.raises(JournalError, match=r"a\.json: cannot be read: Is a directory"):
        ReaderOffsets(tmp_path).offsets()
    with pytest.raises(JournalError, match=r"a\.json: cannot be written"):
        ReaderOffsets(tmp_path).detach("a")


# --- what is known of a reader ----------------------------------------------------------------------------------------


def test_readers_have_time_and_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("zenspark.journal.reader_offsets.time.time", lambda: now)
    commits = ReaderOffsets(tmp_path)
    commits.write("a", 1, "a query of the fleet")
    now = 2000.0
    commits.write("b", 2)
    assert commits.readers() == [AttachedReader("a", 1, 1000.0, "a query of the fleet"), AttachedReader("b", 2, 2000.0)]
    commits.write("a", 3)
    assert commits.get("a") == AttachedReader("a", 3, 2000.0, "a query of the fleet")
    now = 3000.0
    commits.touch("a")
    commits.touch("nobody")
    assert commits.get("a") == AttachedReader("a", 3, 3000.0, "a query of the fleet")
    assert commits.names() == ["a", "b"]
    assert commits.min_offset() == 2


def test_reader_file_without_time_uses_its_mtime(tmp_path: Path) -> None:
    (tmp_path / "readers").mkdir()
    file = tmp_path / "readers" / "old.json"
    file.write_text('{"offset": 7}\n')
    os.utime(file, (1234.0, 1234.0))
    assert ReaderOffsets(tmp_path).readers() == [AttachedReader("old", 7, 1234.0)]
    file.write_text('{"offset": 7, "updated": "x", "description": 3}\n')
    os.utime(file, (1234.0, 1234.0))
    assert ReaderOffsets(tmp_path).readers() == [AttachedReader("old", 7, 1234.0)]


# --- readers that are gone --------------------------------------------------------------------------------------------

WEEK = 7 * 86_400.0


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReaderOffsets:
    monkeypatch.setattr("zenspark.journal.reader_offsets.time.time", lambda: 1000.0)
    made = ReaderOffsets(tmp_path)
    made.write("slow", 5)
    made.write("done", 10)
    return made


def test_lagging_reader_without_commits_is_detached(
    tmp_path: Path, commits: ReaderOffsets, caplog: pytest.LogCaptureFixture
) -> None:
    expiry = ReaderExpiry(tmp_path, WEEK)
    for now, monotonic in ((1000.0, 0.0), (999.0 + WEEK, WEEK), (1000.0 + WEEK, WEEK + 1)):
        assert commits.names() == ["done", "slow"]
        expiry.expire(10, now, monotonic)
    assert commits.names() == ["done"]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        f"{tmp_path}: detached reader slow at offset 5: no commit for 604800 s, its unread rows may be trimmed"
    )


def test_active_or_caught_up_reader_stays_attached(
    tmp_path: Path, commits: ReaderOffsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    expiry = ReaderExpiry(tmp_path, WEEK)
    expiry.expire(10, 1000.0, 0.0)
    monkeypatch.setattr("zenspark.journal.reader_offsets.time.time", lambda: 5000.0)
    commits.touch("slow")
    expiry.expire(10, 1000.0 + WEEK, WEEK)
    expiry.expire(10, 4999.0 + WEEK, WEEK + 3999)
    assert commits.names() == ["done", "slow"]


def test_clock_set_forward_detaches_no_reader_at_once(tmp_path: Path, commits: ReaderOffsets) -> None:
    expiry = ReaderExpiry(tmp_path, WEEK)
    expiry.expire(20, 1000.0 + 10 * WEEK, 0.0)
    expiry.expire(20, 1000.0 + 10 * WEEK, MIN_EXPIRY_WATCH_SECONDS - 1)
    commits.write("slow", 6)  # as a reader that lives does
    expiry.expire(20, 1000.0 + 10 * WEEK, MIN_EXPIRY_WATCH_SECONDS)
    assert commits.names() == ["slow"]


def test_without_expiry_readers_stay_attached(tmp_path: Path, commits: ReaderOffsets) -> None:
    expiry = ReaderExpiry(tmp_path, None)
    for monotonic in (0.0, 1e9):
        expiry.expire(20, 1e12, monotonic)
    assert commits.names() == ["done", "slow"]
