"""Retention: removed segments, and those retained for readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.journal.rows import START, batch, counted, row
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.journal.format import segment_file
from zenspark.journal.retention import remove_orphans, segment_size, trim, trim_committed
from zenspark.journal.segment import list_segments

SECOND = 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Four segments of five rows, a second for each row."""
    with JournalWriter(tmp_path / "j", Policy(flush_rows=5, segment_bytes=1, fsync="never")) as writer:
        for start in range(0, 20, 5):
            writer.append(counted(start, start + 5))
    return tmp_path / "j"


def at(seconds: float) -> float:
    return START / 1e6 + seconds


def test_without_limits_nothing_is_removed(path: Path) -> None:
    assert trim(path, Policy(), at(10**9)) == 0
    assert list_segments(path) == [0, 5, 10, 15]


@pytest.mark.parametrize(("now", "kept"), [(10, 0), (14.5, 5), (19.5, 10), (24.5, 15), (1000, 15)])
def test_segments_older_than_retain_age_are_removed(path: Path, now: float, kept: int) -> None:
    assert trim(path, Policy(retain_age=10.0), at(now)) == kept
    assert Journal(path).earliest() == kept
    assert Journal(path).latest() == 20
    assert [segment_file(path, first).exists() for first in (0, 5, 10, 15)] == [
        first >= kept for first in (0, 5, 10, 15)
    ]


def test_clock_set_back_removes_no_recent_row(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1, fsync="never")) as writer:
        for number, second in enumerate([0, 100, 1]):
            writer.append(batch(row(number, received_at=START + second * SECOND)))
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1, segment_bytes=1, fsync="never")) as writer:
        writer.append(batch(row(3, received_at=START + 2 * SECOND)))
    assert trim(tmp_path / "j", Policy(retain_age=10.0), at(109)) == 0
    assert trim(tmp_path / "j", Policy(retain_age=10.0), at(111)) == 3


def test_oldest_segments_are_removed_above_retain_bytes(path: Path) -> None:
    size = sum(file.stat().st_size for file in path.glob("0*"))
    assert trim(path, Policy(retain_bytes=size), at(0)) == 0
    assert trim(path, Policy(retain_bytes=size - 1), at(0)) == 5
    assert trim(path, Policy(retain_bytes=1), at(0)) == 10
    assert list_segments(path) == [15]


@pytest.mark.parametrize(("committed", "kept"), [(0, 0), (4, 0), (5, 5), (14, 10), (20, 15)])
def test_uncommitted_rows_are_retained(path: Path, committed: int, kept: int) -> None:
    Journal(path).commit("quick", 20)
    Journal(path).commit("slow", committed)
    trim(path, Policy(retain_bytes=1), at(0))
    assert Journal(path).earliest() == kept


def test_uncommitted_rows_are_removed_with_trim_unread_or_after_detach(path: Path) -> None:
    Journal(path).commit("slow", 0)
    assert trim(path, Policy(retain_bytes=1), at(0)) == 0
    Journal(path).forget("slow")
    Journal(path).commit("slower", 0)
    assert trim(path, Policy(retain_bytes=1, trim_unread=True), at(0)) == 15


# --- what all readers have committed ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [Policy(retain_read_bytes=0), Policy(retain_read_age=0.0)])
def test_without_readers_nothing_is_committed(path: Path, policy: Policy) -> None:
    assert trim(path, policy, at(10**9)) == 0
    assert trim_committed(path) == 0
    assert list_segments(path) == [0, 5, 10, 15]


@pytest.mark.parametrize(("committed", "kept"), [(0, 0), (4, 0), (5, 5), (14, 10), (20, 15)])
@pytest.mark.parametrize("policy", [Policy(retain_read_bytes=0), Policy(retain_read_age=0.0), None])
def test_rows_committed_by_all_readers_are_removed(
    path: Path, policy: Policy | None, committed: int, kept: int
) -> None:
    Journal(path).commit("quick", 20)
    Journal(path).commit("slow", committed)
    assert (trim_committed(path) if policy is None else trim(path, policy, at(1000))) == kept
    assert Journal(path).earliest() == kept


@pytest.mark.parametrize(("now", "kept"), [(10, 0), (14.5, 5), (19.5, 10), (1000, 10)])
def test_committed_rows_are_retained_for_retain_read_age(path: Path, now: float, kept: int) -> None:
    Journal(path).commit("reader", 14)
    assert trim(path, Policy(retain_read_age=10.0), at(now)) == kept


def test_committed_rows_are_retained_up_to_retain_read_bytes(path: Path) -> None:
    sizes = [segment_size(path, first) for first in (0, 5, 10)]
    Journal(path).commit("reader", 19)
    assert trim(path, Policy(retain_read_bytes=sum(sizes)), at(0)) == 0
    assert trim(path, Policy(retain_read_bytes=sum(sizes) - 1), at(0)) == 5
    assert trim(path, Policy(retain_read_bytes=sizes[2]), at(0)) == 5
    assert trim(path, Policy(retain_read_bytes=sizes[2]), at(0)) == 0
    assert list_segments(path) == [10, 15]


def test_limits_of_all_and_of_committed_rows_are_combined(path: Path) -> None:
    Journal(path).commit("reader", 10)
    assert trim(path, Policy(retain_read_bytes=0, retain_bytes=1), at(0)) == 10
    assert trim(path, Policy(retain_read_bytes=0, retain_bytes=1, trim_unread=True), at(0)) == 5
    assert list_segments(path) == [15]


def test_concurrent_removal_is_no_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.journal.retention.list_segments", lambda _: [-5, 0, 5, 10, 15])
    assert trim(path, Policy(retain_age=10.0), at(14.5)) == 10


def test_orphaned_segments_are_removed(path: Path) -> None:
    (path / f"{0:020}.index").unlink()
    remove_orphans(path)
    assert not segment_file(path, 0).exists()
    assert Journal(path).earliest() == 5
