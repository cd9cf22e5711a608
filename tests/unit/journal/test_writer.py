"""JournalWriter: appending, acknowledgement, crashes and full disks."""

from __future__ import annotations

import errno
import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.journal.rows import START, batch, counted, payloads, read, row, row_chunk
from zenspark.arrow import SCHEMA
from zenspark.arrow.decode import concat_chunks
from zenspark.errors import JournalError, JournalFull, JournalLocked, NoJournal, UsageError
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.journal.format import EMPTY_TIME_RANGE, LOCK_FILE, index_file, segment_file
from zenspark.journal.policy import Fsync
from zenspark.journal.segment import SegmentIndex, SegmentWriter, list_segments


def entries(path: Path, first: int = 0) -> list[Any]:
    with SegmentIndex(path, first) as index:
        return [entry.block for entry in index.entries()]


def numbers(stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(stop)]


# --- when ---------------------------------------------------------------------------------------------------------


def test_rows_are_acknowledged_by_flush(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    with JournalWriter(tmp_path / "j", Policy(flush_interval=1e9)) as writer:
        assert [writer.append(counted(0, 3)), writer.append(counted(3, 5))] == [0, 3]
        assert (writer.acknowledged, writer.end, journal.latest()) == (0, 5, 0)
        assert writer.waiting_bytes > 0
        writer.flush()
        assert (writer.acknowledged, writer.waiting_bytes, journal.latest()) == (5, 0, 5)
    assert payloads(journal) == numbers(5)
    assert len(entries(tmp_path / "j")) == 1


@pytest.mark.parametrize(
    "policy", [Policy(flush_rows=2, flush_interval=1e9), Policy(flush_bytes=200, flush_interval=1e9)]
)
def test_full_block_is_flushed_automatically(tmp_path: Path, policy: Policy) -> None:
    with JournalWriter(tmp_path / "j", policy) as writer:
        writer.append(counted(0, 3))
        assert writer.acknowledged == 3


def test_buffered_rows_are_due_after_the_flush_interval(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", Policy(flush_interval=0.0)) as writer:
        assert not writer.is_due
        writer.append(counted(0, 1))
        assert writer.acknowledged == 1
    with JournalWriter(tmp_path / "j", Policy(flush_interval=1e9)) as writer:
        writer.append(counted(1, 2))
        assert not writer.is_due


def test_small_batches_are_one_block_and_large_ones_several(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", Policy(flush_bytes=1000, flush_interval=1e9)) as writer:
        for number in range(20):
            writer.append(batch(row(number, payload=b"x" * 100)))
    blocks = entries(tmp_path / "j")
    assert 2 <= len(blocks) <= 10
    assert sum(block.rows for block in blocks) == 20


def test_empty_batch_writes_no_block(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j") as writer:
        assert writer.append(counted(0, 0)) == 0
        writer.flush()
    assert entries(tmp_path / "j") == []


# --- what ---------------------------------------------------------------------------------------------------------


def test_chunks_and_batches_are_written_in_order(tmp_path: Path) -> None:
    pieces = [row_chunk(0), row_chunk(3, timestamp_id="clock")]
    with JournalWriter(tmp_path / "j", Policy(flush_interval=1e9)) as writer:
        assert writer.append_chunks(pieces) == 0
        assert writer.append(counted(6, 8)) == 6
        assert writer.append_chunks([row_chunk(8)]) == 8
    table = read(Journal(tmp_path / "j")).drop_columns(["recorder", "offset"])
    expected = pa.Table.from_batches([concat_chunks(pieces), counted(6, 8), concat_chunks([row_chunk(8)])])
    assert table.equals(expected)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_rows_round_trip_in_fewer_bytes(tmp_path: Path, compression: Any) -> None:  # noqa: ANN401
    rows = batch(*(row(number, payload=b"x" * 1000) for number in range(100)))
    sizes = {}
    for name in ("none", compression):
        with JournalWriter(tmp_path / name, Policy(compression=name)) as writer:
            writer.append(rows)
        sizes[name] = segment_file(tmp_path / name, 0).stat().st_size
        assert read(Journal(tmp_path / name)).drop_columns(["recorder", "offset"]).to_batches()[0].equals(rows)
    assert sizes[compression] < sizes["none"] / 10


def test_block_header_has_the_time_ranges(tmp_path: Path) -> None:
    stamp = {"timestamp_id": "a"}
    early, late = 1_600_000_000, 1_800_000_000
    with JournalWriter(tmp_path / "j") as writer:
        writer.append(counted(3, 7))
        writer.flush()
        ntp64 = [{"timestamp_ntp64": at << 32, "timestamp": at * 10**6} for at in (late, early)]
        writer.append(batch(row(0, **stamp, **ntp64[0]), row(1, **stamp, **ntp64[1]), row(2)))
        writer.flush()
        writer.append(batch(row(0, timestamp=early * 10**6)))
        writer.flush()
        writer.append_chunks([row_chunk(5), row_chunk(2, timestamp_id="clock")])
    plain, timestamped, odd, pieces = entries(tmp_path / "j")
    assert plain.received == (START + 3_000_000, START + 6_000_000)
    assert plain.timestamped == EMPTY_TIME_RANGE
    assert timestamped.timestamped == (early * 10**6, late * 10**6)
    assert odd.timestamped == (early * 10**6, early * 10**6)
    assert pieces.received == (START + 2, START + 5)
    assert pieces.timestamped == (1_700_000_000 * 10**6, 1_700_000_002 * 10**6)


def test_wrong_columns_are_rejected(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j") as writer:
        with pytest.raises(UsageError, match="column 'payload': expected binary, found nothing"):
            writer.append(pa.RecordBatch.from_pydict({"key": ["a"], "kind": ["PUT"]}))
        changed = SCHEMA.set(0, pa.field("key", pa.large_string()))
        with pytest.raises(UsageError, match="column 'key': expected string, found large_string"):
            writer.append(pa.RecordBatch.from_pylist([], changed))
        with pytest.raises(UsageError, match="expected the columns key, kind"):
            writer.append(pa.RecordBatch.from_pylist([], SCHEMA.append(pa.field("more", pa.string()))))
        assert writer.end == 0
    with (
        JournalWriter(tmp_path / "s", row_type="sessions") as writer,
        pytest.raises(UsageError, match="not for samples"),
    ):
        writer.append_chunks([row_chunk(0)])


# --- where --------------------------------------------------------------------------------------------------------


def test_second_writer_is_rejected(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j"), pytest.raises(JournalLocked, match=f"process {os.getpid()}"):
        JournalWriter(tmp_path / "j")
    JournalWriter(tmp_path / "j").close()


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed")
def test_writers_never_interleave_without_lock_file(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1)) as first:
        first.append(counted(0, 1))
        (tmp_path / "j" / LOCK_FILE).unlink()
        with pytest.raises(JournalLocked, match="another process writes this journal"):
            JournalWriter(tmp_path / "j")
        first.append(counted(1, 2))
        assert first.acknowledged == 2
        with pytest.raises(JournalLocked, match=f"process {os.getpid()}"):
            JournalWriter(tmp_path / "j")
    assert payloads(Journal(tmp_path / "j")) == numbers(2)


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed")
def test_writer_of_replaced_journal_raises(tmp_path: Path) -> None:
    first = JournalWriter(tmp_path / "j", Policy(flush_rows=1))
    first.append(counted(0, 1))
    (tmp_path / "j").rename(tmp_path / "moved")
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1)) as second:
        first.append(counted(1, 2))
        with pytest.raises(JournalError, match="was removed, moved or replaced while this process writes the journal"):
            first.flush()
        second.append(counted(5, 6))
    assert payloads(Journal(tmp_path / "moved")) == [b"0"]
    assert payloads(Journal(tmp_path / "j")) == [b"5"]
    with pytest.raises(JournalError, match="was removed"):
        first.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no permissions of this kind")
def test_files_are_not_readable_by_other_users(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with JournalWriter(tmp_path / "j", Policy(flush_rows=1, segment_bytes=1)) as writer:
            writer.append(counted(0, 1))
            writer.append(counted(1, 2))
        Journal(tmp_path / "j").commit("reader", 1)
    finally:
        os.umask(before)
    found = {file: file.stat().st_mode & 0o777 for file in [tmp_path / "j", *(tmp_path / "j").rglob("*")]}
    assert len(found) == 9
    assert {mode for file, mode in found.items() if file.is_dir()} == {0o750}
    assert {mode for file, mode in found.items() if file.is_file()} == {0o640}


CALLS = ("open", "write", "fsync", "replace", "mkdir", "scandir")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be counted")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_failed_open_leaves_the_journal_usable(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of the operating system fails once, in a new journal and in one with rows."""
    for name in ("new", "old"):
        refused = 0
        for failing in range(100):
            path = tmp_path / name / str(failing)
            if name == "old":
                with JournalWriter(path, Policy(fsync="flush")) as writer:
                    writer.append(counted(0, 1))
            files = len(os.listdir("/proc/self/fd"))
            with monkeypatch.context() as patched:
                calls = failing_call(patched, failing, number)
                try:
                    JournalWriter(path, Policy(fsync="flush")).close()
                except JournalError:
                    refused += 1
            assert len(os.listdir("/proc/self/fd")) == files
            with JournalWriter(path, Policy(fsync="flush")) as writer:
                assert writer.end == (name == "old")
            if next(calls) <= failing:
                break
        assert refused > len(CALLS)


def failing_call(patched: pytest.MonkeyPatch, failing: int, number: int) -> Iterator[int]:
    """Have one call of the operating system fail, counted from 0; how many there were is the next number."""
    calls = count()

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            if next(calls) == failing:
                raise OSError(number, os.strerror(number))
            return real(*arguments, **options)

        return call

    for name in CALLS:
        patched.setattr(os, name, wrapped(getattr(os, name)))
    return calls


def test_directory_with_other_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    with pytest.raises(NoJournal, match="files in it that are no journal"):
        JournalWriter(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(NoJournal, match="cannot be made"):
        JournalWriter(tmp_path / "letter.txt" / "j")


def test_recorder_name_and_row_type_are_fixed(tmp_path: Path) -> None:
    JournalWriter(tmp_path / "j", recorder="one").close()
    JournalWriter(tmp_path / "j").close()
    assert Journal(tmp_path / "j").recorder == "one"
    with pytest.raises(NoJournal, match="the recorder of this journal is 'one', not 'two'"):
        JournalWriter(tmp_path / "j", recorder="two")
    with pytest.raises(NoJournal, match="expected a journal of sessions, found one of samples"):
        JournalWriter(tmp_path / "j", row_type="sessions")
    with pytest.raises(UsageError, match="row_type: expected one of samples"):
        JournalWriter(tmp_path / "k", row_type="cows")
    assert not (tmp_path / "k").exists()


def test_default_recorder_names_are_unique(tmp_path: Path) -> None:
    for name in ("a", "b"):
        JournalWriter(tmp_path / name / "journal").close()
    names = {Journal(tmp_path / name / "journal").recorder for name in ("a", "b")}
    assert len(names) == 2


def test_closed_writer_rejects_rows(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "j")
    writer.close()
    writer.close()
    with pytest.raises(UsageError, match="was closed"):
        writer.append(counted(0, 1))


# --- segments -----------------------------------------------------------------------------------------------------


def test_segment_is_rotated_at_segment_bytes(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1, segment_bytes=4000)) as writer:
        for number in range(12):
            writer.append(batch(row(number, payload=b"%d" % number)))
    firsts = list_segments(tmp_path / "j")
    assert len(firsts) > 2
    for first, end in pairwise(firsts):
        assert entries(tmp_path / "j", first)[-1].end == end
    assert payloads(Journal(tmp_path / "j")) == numbers(12)


def test_segment_is_rotated_at_segment_age_after_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("zenspark.journal.writer.time.monotonic", lambda: now)
    monkeypatch.setattr("zenspark.journal.writer.time.time", lambda: START / 1e6 + now)
    policy = Policy(flush_rows=1, segment_age=100.0, retain_age=50.0)
    with JournalWriter(tmp_path / "j", policy) as writer:
        writer.append(batch(row(0, received_at=START + int(now * 1e6))))
        now += 99
        writer.append(batch(row(1, received_at=START + int(now * 1e6))))
        assert list_segments(tmp_path / "j") == [0]
    now += 1
    with JournalWriter(tmp_path / "j", policy) as writer:
        writer.append(batch(row(2, received_at=START + int(now * 1e6))))
        assert list_segments(tmp_path / "j") == [0, 2]
        now += 200
        writer.flush()  # expired rows are removed without new ones
        assert list_segments(tmp_path / "j") == [3]
    assert Journal(tmp_path / "j").earliest() == Journal(tmp_path / "j").latest() == 3


def test_failed_trimming_does_not_stop_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EACCES, "not allowed")

    monkeypatch.setattr("zenspark.journal.writer.trim", refuse)
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1, segment_bytes=1)) as writer:
        writer.append(counted(0, 1))
        writer.append(counted(1, 2))
    assert "trimming failed" in caplog.text


@pytest.mark.parametrize(("fsync", "flushed", "least"), [("never", 0, 0), ("flush", 3, 3), (1e9, 0, 1), (0.0, 1, 3)])
def test_fsync_is_called_as_the_policy_requires(
    tmp_path: Path,
    fsync: Fsync,
    flushed: int,
    least: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    JournalWriter(tmp_path / "j").close()
    synced: list[int] = []
    real = os.fsync

    def counting(file: int) -> None:
        synced.append(file)
        real(file)

    with JournalWriter(tmp_path / "j", Policy(fsync=fsync, flush_interval=1e9)) as writer:
        monkeypatch.setattr(os, "fsync", counting)
        for number in range(3):
            writer.append(counted(number, number + 1))
            writer.flush()
        assert len(synced) >= flushed
        if fsync in ("never", 1e9):
            assert synced == []
    assert len(synced) >= least


def test_fsync_precedes_the_acknowledgement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with JournalWriter(tmp_path / "j", Policy(fsync="flush")) as writer:
        sizes: list[int] = []
        real = os.fsync

        def watching(file: int) -> None:
            sizes.append(index_file(tmp_path / "j", 0).stat().st_size)
            real(file)

        monkeypatch.setattr(os, "fsync", watching)
        writer.append(counted(0, 1))
        writer.flush()
    assert sizes[0] == 0
    assert sizes[1] > 0


# --- crashes ------------------------------------------------------------------------------------------------------


def test_torn_tail_is_truncated_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1)) as writer:
        writer.append(counted(0, 1))
        assert writer.cut is None
    with open(segment_file(tmp_path / "j", 0), "ab") as file:
        file.write(b"half a block")
    with caplog.at_level(logging.WARNING), JournalWriter(tmp_path / "j", Policy(flush_rows=1)) as writer:
        assert writer.cut is not None
        assert writer.cut.bytes == 12
        assert writer.append(counted(1, 2)) == 1
    assert "truncated to offset 1: 12 bytes" in caplog.text
    assert payloads(Journal(tmp_path / "j")) == numbers(2)


def test_corrupt_blocks_before_the_end_are_logged_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1)) as writer:
        for number in range(3):
            writer.append(counted(number, number + 1))
    raw = bytearray(segment_file(tmp_path / "j", 0).read_bytes())
    raw[len(raw) // 2] ^= 1
    segment_file(tmp_path / "j", 0).write_bytes(raw)
    with JournalWriter(tmp_path / "j") as writer:
        assert writer.append(counted(3, 4)) == 3
    path = segment_file(tmp_path / "j", 0)
    assert caplog.messages == [f"{path}: lost the rows of 1 blocks: they are corrupt"]
    assert payloads(Journal(tmp_path / "j"), 2, 4) == [b"2", b"3"]


WRITING = """
import sys
from pathlib import Path
from tests.unit.journal.rows import counted
from zenspark.journal import JournalWriter, Policy
with JournalWriter(sys.argv[1], Policy(fsync="never", flush_interval=1e9, segment_bytes=20000)) as writer:
    while True:
        start = writer.end
        writer.append(counted(start, start + 7))
        writer.append(counted(start + 7, start + 9))
        writer.flush()
        print(writer.acknowledged, flush=True)
"""


@pytest.mark.slow
def test_acknowledged_rows_survive_a_killed_process(tmp_path: Path) -> None:
    """At random moments, several times, each time going on with the same journal."""
    chance = random.Random(5)
    acknowledged = 0
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITING, str(tmp_path / "j")], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        )
        try:
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 60)):
                process.stdout.readline()
        finally:
            process.send_signal(signal.SIGKILL)
            output, _ = process.communicate()
        lines = [line for line in output.splitlines(keepends=True) if line.endswith("\n")]
        acknowledged = int(lines[-1]) if lines else acknowledged
        journal = Journal(tmp_path / "j")
        assert journal.latest() >= acknowledged
        assert payloads(journal) == numbers(journal.latest())
    with JournalWriter(tmp_path / "j") as writer:
        assert writer.end == journal.latest()


# --- a full disk --------------------------------------------------------------------------------------------------


def test_rows_stay_buffered_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_full = True
    real = SegmentWriter.append

    def append(self: SegmentWriter, *arguments: Any) -> None:  # noqa: ANN401
        if is_full:
            raise JournalFull("j", "no room")
        real(self, *arguments)

    monkeypatch.setattr(SegmentWriter, "append", append)
    with JournalWriter(tmp_path / "j", Policy(flush_rows=5, flush_interval=1e9)) as writer:
        assert writer.append(counted(0, 5)) == 0
        with pytest.raises(JournalFull):
            writer.append(counted(5, 10))
        with pytest.raises(JournalFull):
            writer.flush()
        assert (writer.acknowledged, writer.end) == (0, 5)
        is_full = False
        assert writer.append(counted(5, 10)) == 5
    assert payloads(Journal(tmp_path / "j")) == numbers(10)


def test_failed_rotation_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with JournalWriter(tmp_path / "j", Policy(flush_rows=1, segment_bytes=1)) as writer:
        writer.append(counted(0, 1))
        writer.append(counted(1, 2))
        with monkeypatch.context() as patched:
            patched.setattr("zenspark.journal.segment.find_valid_prefix", refuse)
            writer.append(counted(2, 3))
            with pytest.raises(JournalFull):
                writer.flush()
    assert payloads(Journal(tmp_path / "j")) == numbers(3)


# --- what all readers have committed ----------------------------------------------------------------------------------


def test_committed_active_segment_is_rotated_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("zenspark.journal.writer.time.monotonic", lambda: now)
    monkeypatch.setattr("zenspark.journal.writer.time.time", lambda: START / 1e6 + now)
    journal = Journal(tmp_path / "j")
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1, retain_read_age=60.0)) as writer:
        writer.append(batch(row(0, received_at=START + int(now * 1e6))))
        journal.commit("reader", 0)
        now += 61
        writer.flush()
        assert list_segments(tmp_path / "j") == [0]
        journal.commit("reader", 1)
        now += 11
        writer.flush()
        assert list_segments(tmp_path / "j") == [1]
        now += 100
        writer.flush()  # nothing is in it
        assert list_segments(tmp_path / "j") == [1]
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1, retain_read_bytes=10)) as writer:
        writer.append(batch(row(1)))
        journal.commit("reader", 2)
        now += 11
        writer.flush()
        assert list_segments(tmp_path / "j") == [2]


def test_expired_reader_does_not_prevent_trimming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    monkeypatch.setattr("zenspark.journal.writer.time.monotonic", lambda: now)
    monkeypatch.setattr("zenspark.journal.writer.time.time", lambda: 1e10 + now)
    policy = Policy(flush_rows=1, segment_bytes=1, retain_read_bytes=0, reader_expiry=3600.0)
    with JournalWriter(tmp_path / "j", policy) as writer:
        for number in range(3):
            writer.append(counted(number, number + 1))
        Journal(tmp_path / "j").commit("gone", 1)
        Journal(tmp_path / "j").commit("there", 3)
        for now in (20.0, 3599.0, 3610.0):  # noqa: B007 - the clocks read it
            assert Journal(tmp_path / "j").readers() == {"gone": 1, "there": 3}
            writer.flush()
    assert Journal(tmp_path / "j").readers() == {"there": 3}
    assert list_segments(tmp_path / "j") == [3]
    assert "detached reader gone at offset 1: no commit for" in caplog.text


class FullDisk:
    """A disk that has space for so many bytes of blocks in all segments of a journal."""

    def __init__(self, path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self.size = size
        self._real = os.write
        monkeypatch.setattr(os, "write", self._write)

    def _write(self, file: int, data: bytes) -> int:
        used = sum(each.stat().st_size for each in self._path.glob("*.segment"))
        if used + len(data) > self.size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._real(file, data)


@pytest.mark.slow
def test_full_disk_trims_committed_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path / "j")
    policy = Policy(flush_rows=1, flush_interval=1e9, segment_bytes=20_000, retain_read_bytes=1 << 40, fsync="never")
    with JournalWriter(tmp_path / "j", policy) as writer:
        FullDisk(tmp_path / "j", 50_000, monkeypatch)
        for number in range(100):
            writer.append(batch(row(number, payload=b"%d" % number + bytes(1000))))
            assert writer.acknowledged == number + 1
            journal.commit("reader", number + 1)
    assert journal.earliest() > 50
    assert [int(payload.rstrip(b"\0")) for payload in payloads(journal)] == list(range(journal.earliest(), 100))
    lines = [record.getMessage() for record in caplog.records]
    assert lines
    assert all("the disk is full: trimmed" in line for line in lines)


def test_full_disk_rotates_the_active_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j")
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1, retain_read_age=1e9, fsync="never")) as writer:
        disk = FullDisk(tmp_path / "j", 10_000, monkeypatch)
        while writer.acknowledged == writer.end:
            writer.append(counted(writer.end, writer.end + 1))
        journal.commit("reader", writer.acknowledged - 1)
        with pytest.raises(JournalFull):
            writer.flush()
        journal.commit("reader", writer.acknowledged)
        writer.flush()
        assert list_segments(tmp_path / "j") == [writer.end - 1]
        disk.size = 1 << 40


def test_full_disk_keeps_retained_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Policy(flush_rows=1, segment_bytes=1, fsync="never")
    with JournalWriter(tmp_path / "j", policy) as writer:
        writer.append(counted(0, 1))
        disk = FullDisk(tmp_path / "j", 1, monkeypatch)
        disk.size = 1 << 40
        Journal(tmp_path / "j").commit("reader", 1)
        disk.size = 1
        writer.append(counted(1, 2))
        with pytest.raises(JournalFull):
            writer.flush()
        assert Journal(tmp_path / "j").earliest() == 0
        disk.size = 1 << 40


def test_trim_committed_removes_committed_rows(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1)) as writer:
        writer.append(counted(0, 1))
        assert writer.trim_committed() == 0
        Journal(tmp_path / "j").commit("reader", 1)
        assert writer.trim_committed() == 1
        assert writer.append(counted(1, 2)) == 1
    assert payloads(Journal(tmp_path / "j")) == [b"1"]
