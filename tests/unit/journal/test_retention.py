"""What is removed, and what is kept for those who have not read it."""

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


def test_without_limits_everything_is_kept(path: Path) -> None:
    assert trim(path, Policy(), at(10**9)) == 0
    assert list_segments(path) == [0, 5, 10, 15]


@pytest.mark.parametrize(("now", "kept"), [(10, 0), (14.5, 5), (19.5, 10), (24.5, 15), (1000, 15)])
def test_segments_go_when_their_newest_row_is_old(path: Path, now: float, kept: int) -> None:
    assert trim(path, Policy(retain_age=10.0), at(now)) == kept
    assert Journal(path).earliest() == kept
    assert Journal(path).latest() == 20
    assert [segment_file(path, first).exists() for first in (0, 5, 10, 15)] == [
        first >= kept for first in (0, 5, 10, 15)
    ]


def test_a_clock_that_was_set_back_makes_nothing_old(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1, fsync="never")) as writer:
        for number, second in enumerate([0, 100, 1]):
            writer.append(batch(row(number, received_at=START + second * SECOND)))
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1, segment_bytes=1, fsync="never")) as writer:
        writer.append(batch(row(3, received_at=START + 2 * SECOND)))
    assert trim(tmp_path / "j", Policy(retain_age=10.0), at(109)) == 0
    assert trim(tmp_path / "j", Policy(retain_age=10.0), at(111)) == 3


def test_segments_go_while_there_are_too_many_bytes(path: Path) -> None:
    size = sum(file.stat().st_size for file in path.glob("0*"))
    assert trim(path, Policy(retain_bytes=size), at(0)) == 0
    assert trim(path, Policy(retain_bytes=size - 1), at(0)) == 5
    assert trim(path, Policy(retain_bytes=1), at(0)) == 10
    assert list_segments(path) == [15]


@pytest.mark.parametrize(("committed", "kept"), [(0, 0), (4, 0), (5, 5), (14, 10), (20, 15)])
def test_what_a_reader_has_not_committed_is_kept(path: Path, committed: int, kept: int) -> None:
    Journal(path).commit("quick", 20)
    Journal(path).commit("slow", committed)
    trim(path, Policy(retain_bytes=1), at(0))
    assert Journal(path).earliest() == kept


def test_unless_told_to_or_the_reader_is_forgotten(path: Path) -> None:
    Journal(path).commit("slow", 0)
    assert trim(path, Policy(retain_bytes=1), at(0)) == 0
    Journal(path).forget("slow")
    Journal(path).commit("slower", 0)
    assert trim(path, Policy(retain_bytes=1, trim_unread=True), at(0)) == 15


# --- what all readers have committed ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [Policy(retain_read_bytes=0), Policy(retain_read_age=0.0)])
def test_without_a_reader_nothing_counts_as_read(path: Path, policy: Policy) -> None:
    assert trim(path, policy, at(10**9)) == 0
    assert trim_committed(path) == 0
    assert list_segments(path) == [0, 5, 10, 15]


@pytest.mark.parametrize(("committed", "kept"), [(0, 0), (4, 0), (5, 5), (14, 10), (20, 15)])
@pytest.mark.parametrize("policy", [Policy(retain_read_bytes=0), Policy(retain_read_age=0.0), None])
def test_what_all_readers_have_committed_goes(path: Path, policy: Policy | None, committed: int, kept: int) -> None:
    Journal(path).commit("quick", 20)
    Journal(path).commit("slow", committed)
    assert (trim_committed(path) if policy is None else trim(path, policy, at(1000))) == kept
    assert Journal(path).earliest() == kept


@pytest.mark.parametrize(("now", "kept"), [(10, 0), (14.5, 5), (19.5, 10), (1000, 10)])
def test_of_what_was_read_so_much_time_is_kept(path: Path, now: float, kept: int) -> None:
    Journal(path).commit("reader", 14)
    assert trim(path, Policy(retain_read_age=10.0), at(now)) == kept


def test_of_what_was_read_so_many_bytes_are_kept(path: Path) -> None:
    sizes = [segment_size(path, first) for first in (0, 5, 10)]
    Journal(path).commit("reader", 19)
    assert trim(path, Policy(retain_read_bytes=sum(sizes)), at(0)) == 0
    assert trim(path, Policy(retain_read_bytes=sum(sizes) - 1), at(0)) == 5
    assert trim(path, Policy(retain_read_bytes=sizes[2]), at(0)) == 5
    assert trim(path, Policy(retain_read_bytes=sizes[2]), at(0)) == 0
    assert list_segments(path) == [10, 15]


def test_limits_of_all_rows_and_of_those_read_add_up(path: Path) -> None:
    Journal(path).commit("reader", 10)
    assert trim(path, Policy(retain_read_bytes=0, retain_bytes=1), at(0)) == 10
    assert trim(path, Policy(retain_read_bytes=0, retain_bytes=1, trim_unread=True), at(0)) == 5
    assert list_segments(path) == [15]


def test_what_another_process_removes_at_the_same_time_is_no_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.journal.retention.list_segments", lambda _: [-5, 0, 5, 10, 15])
    assert trim(path, Policy(retain_age=10.0), at(14.5)) == 10


def test_what_was_about_to_be_removed_is_removed(path: Path) -> None:
    (path / f"{0:020}.index").unlink()
    remove_orphans(path)
    assert not segment_file(path, 0).exists()
    assert Journal(path).earliest() == 5
