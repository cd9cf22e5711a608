"""Reading a journal while it grows and is trimmed."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.journal.rows import START, batch, counted, payloads, read, row
from zenspark.arrow import SCHEMA
from zenspark.errors import CorruptJournal, JournalError, NoJournal, OffsetOutOfRange
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.journal.format import HEADER_SIZE, index_file, segment_file
from zenspark.journal.retention import remove_segment
from zenspark.journal.segment import SegmentIndex, list_segments

SMALL = Policy(flush_rows=5, segment_bytes=1, fsync="never")
"""A block for every five rows, and a segment for every block."""


def written(path: Path, rows: int = 20, policy: Policy = SMALL) -> Journal:
    with JournalWriter(path, policy, recorder="r") as writer:
        for start in range(0, rows, 5):
            writer.append(counted(start, min(start + 5, rows)))
    return Journal(path)


def test_rows_round_trip(tmp_path: Path) -> None:
    journal = written(tmp_path / "j")
    table = read(journal)
    assert table.schema.equals(journal.schema)
    assert journal.schema.names == [*SCHEMA.names, "recorder", "offset"]
    assert table.drop_columns(["recorder", "offset"]).equals(pa.Table.from_batches([counted(0, 20)]))
    assert table["offset"].to_pylist() == list(range(20))
    assert set(table["recorder"].to_pylist()) == {"r"} == {journal.recorder}


def test_an_empty_journal_begins_and_ends_at_0(tmp_path: Path) -> None:
    JournalWriter(tmp_path / "j").close()
    journal = Journal(tmp_path / "j")
    assert (journal.earliest(), journal.latest(), journal.offset_at(0)) == (0, 0, 0)
    assert list(journal.read(0, 0)) == []
    assert journal.slices(0, 0, 3) == []


@pytest.mark.parametrize(("start", "end"), [(0, 20), (0, 1), (4, 6), (5, 10), (7, 19), (19, 20), (3, 3), (20, 20)])
def test_any_range_reads_exactly_its_rows(tmp_path: Path, start: int, end: int) -> None:
    journal = written(tmp_path / "j")
    assert payloads(journal, start, end) == [b"%d" % number for number in range(start, end)]
    for count in (1, 2, 3, 100):
        parts = journal.slices(start, end, count)
        assert len(parts) <= count
        rows = [number for part in parts for number in _payloads(part.batches())]
        assert rows == [b"%d" % number for number in range(start, end)]


def _payloads(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [value for one in batches for value in one.column("payload").to_pylist()]


def test_slices_are_balanced_and_can_be_pickled(tmp_path: Path) -> None:
    journal = written(tmp_path / "j", 60)
    parts = journal.slices(0, 60, 4)
    assert len(parts) == 4
    assert all(10 <= part.num_rows <= 20 for part in parts)
    raw = pickle.dumps(parts[2])
    assert len(raw) < 1000
    expected = [b"%d" % number for number in range(parts[2].start, parts[2].end)]
    assert _payloads(pickle.loads(raw).batches()) == expected


def test_size_is_the_bytes_of_the_blocks(tmp_path: Path) -> None:
    journal = written(tmp_path / "j", 60)
    whole = journal.size(0, 60)
    assert 0 < journal.size(0, 1) < whole
    assert journal.size(0, 30) + journal.size(30, 60) == whole
    assert journal.size(7, 7) == 0


def test_journal_can_be_pickled(tmp_path: Path) -> None:
    journal = written(tmp_path / "j")
    assert journal.latest() == 20
    copy = pickle.loads(pickle.dumps(journal))
    assert (copy.recorder, copy.latest()) == ("r", 20)
    assert str(tmp_path) in repr(copy)


def test_offset_at_finds_rows_by_reception_time(tmp_path: Path) -> None:
    journal = written(tmp_path / "j")
    for number in (0, 3, 5, 19):
        assert journal.offset_at(START + number * 1_000_000) == number
        assert journal.offset_at(START + number * 1_000_000 - 1) == number
    assert journal.offset_at(0) == 0
    assert journal.offset_at(START + 19_000_001) == 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_offset_at_finds_rows_after_clock_was_set_back(tmp_path: Path, seed: int) -> None:
    """Compared with a scan of every row, for a clock that steps back and forth within and between segments."""
    dice = random.Random(seed)
    times, now = [], START
    for _ in range(dice.randrange(1, 80)):
        now += dice.choice([0, 1, 1, 2, 5, -3, -20, 40])
        times.append(now)
    policy = Policy(flush_rows=dice.choice([1, 2, 5]), segment_bytes=dice.choice([1, 10_000, 1 << 30]), fsync="never")
    journal = Journal(tmp_path / "j")
    with JournalWriter(tmp_path / "j", policy) as writer:
        for start in range(0, len(times), 3):
            numbers = range(start, min(start + 3, len(times)))
            writer.append(batch(*(row(number, received_at=times[number]) for number in numbers)))
            writer.flush()
            check_times(journal, times[: writer.end], dice)
    for time in range(min(times) - 1, max(times) + 2):
        assert journal.offset_at(time) == first_since(times, time)


def check_times(journal: Journal, times: list[int], dice: random.Random) -> None:
    for time in dice.choices(times, k=3):
        assert journal.offset_at(time) == first_since(times, time)


def first_since(times: list[int], time: int) -> int:
    return next((offset for offset, each in enumerate(times) if each >= time), len(times))


def test_clock_set_back_by_an_hour_hides_no_row(tmp_path: Path) -> None:
    hour = 3_600_000_000
    with JournalWriter(tmp_path / "j", Policy(flush_rows=1)) as writer:
        for number, time in enumerate([0, 1, -hour, -hour + 1, -hour + 2]):
            writer.append(batch(row(number, received_at=START + time)))
    journal = Journal(tmp_path / "j")
    assert journal.offset_at(START) == 0
    assert journal.offset_at(START + 1) == 1
    assert journal.offset_at(START - hour + 1) == 0
    assert journal.offset_at(START + 2) == 5


@pytest.mark.slow
def test_reader_at_the_end_does_not_list_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = written(tmp_path / "j", 5)
    assert journal.latest() == 5
    opened: list[str] = []
    real = open

    def counting(file: str, *args: object, **options: object) -> object:
        opened.append(str(file))
        return real(file, *args, **options)  # type: ignore[call-overload]

    def refuse(_: object) -> None:
        raise AssertionError("the directory was listed")

    with JournalWriter(tmp_path / "j", SMALL) as writer:
        monkeypatch.setattr("builtins.open", counting)
        costs = []
        for start in range(5, 200, 5):
            writer.append(counted(start, start + 5))
            with monkeypatch.context() as patched:
                patched.setattr(os, "scandir", refuse)
                patched.setattr(os, "listdir", refuse)
                opened.clear()
                assert journal.latest() == start + 5
                assert payloads(journal, start, start + 5)[0] == b"%d" % start
                costs.append(len(opened))
    assert len(set(costs)) == 1, costs


def test_trimmed_rows_raise_offset_out_of_range(tmp_path: Path) -> None:
    journal = written(tmp_path / "j")
    part = journal.slices(0, 20, 1)[0]
    remove_segment(tmp_path / "j", 0)
    assert journal.earliest() == 5
    with pytest.raises(OffsetOutOfRange, match=r"offset 3 was trimmed away: .* from 5 up to before 20"):
        journal.read(3, 8)
    with pytest.raises(OffsetOutOfRange, match="offset 0 was trimmed"):
        list(part.batches())
    with pytest.raises(OffsetOutOfRange, match="offset 21 is not there"):
        journal.slices(20, 21, 1)
    assert journal.offset_at(0) == 5


def test_latest_is_found_after_known_segments_were_trimmed(tmp_path: Path) -> None:
    journal = written(tmp_path / "j", 5)
    assert journal.latest() == 5
    written_more = JournalWriter(tmp_path / "j", SMALL)
    for start in range(5, 20, 5):
        written_more.append(counted(start, start + 5))
    written_more.close()
    for first in list_segments(tmp_path / "j")[:-1]:
        remove_segment(tmp_path / "j", first)
    assert (journal.earliest(), journal.latest()) == (15, 20)


def test_missing_journal_raises_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(NoJournal, match="no such directory"):
        Journal(tmp_path / "nothing").latest()
    with pytest.raises(NoJournal, match=r"no journal\.json"):
        Journal(tmp_path).earliest()
    (tmp_path / "file").touch()
    with pytest.raises(NoJournal, match="found a file"):
        Journal(tmp_path / "file").latest()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"version": 2}, "has format version 2, and this zenspark reads version 1"),
        ({"format": "other"}, "this is not a journal"),
        ({"rows": "cows"}, "rows: expected one of samples, sessions, declarations, counters, found 'cows'"),
        ({"columns": {"key": "string"}}, "columns: expected"),
        ({"recorder": 3}, "recorder"),
    ],
)
def test_unsupported_journal_is_rejected(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    written(tmp_path / "j")
    manifest = tmp_path / "j" / "journal.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
    with pytest.raises(NoJournal, match=complaint):
        Journal(tmp_path / "j").latest()
    with pytest.raises(NoJournal, match=complaint):
        JournalWriter(tmp_path / "j")


def test_invalid_json_manifest_is_rejected(tmp_path: Path) -> None:
    written(tmp_path / "j")
    (tmp_path / "j" / "journal.json").write_text("{")
    with pytest.raises(NoJournal, match="expected JSON"):
        Journal(tmp_path / "j").latest()


def nested(depth: int) -> str:
    return '{"format": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize("text", [nested(900), nested(100_000), "\udcff"], ids=["deep", "deeper", "no text"])
def test_random_manifest_content_is_rejected(tmp_path: Path, text: str) -> None:
    written(tmp_path / "j")
    (tmp_path / "j" / "journal.json").write_bytes(text.encode(errors="surrogateescape"))
    for opened in (lambda: Journal(tmp_path / "j").latest(), lambda: JournalWriter(tmp_path / "j")):
        with pytest.raises(NoJournal, match=r"journal\.json: expected"):
            opened()


@pytest.mark.parametrize("name", ["journal.json", f"{0:020}.index", f"{0:020}.segment", "writer.lock", "readers"])
def test_wrong_file_types_raise_with_their_path(tmp_path: Path, name: str) -> None:
    written(tmp_path / "j", 5)
    place = tmp_path / "j" / name
    if name == "readers":
        place.touch()
    else:
        place.unlink()
        place.mkdir()

    def use() -> None:
        Journal(tmp_path / "j").readers()
        payloads(Journal(tmp_path / "j"))
        JournalWriter(tmp_path / "j")

    with pytest.raises(JournalError, match=f"{name}: cannot be (read|written): (Is|Not) a directory"):
        use()


@pytest.mark.parametrize("name", ["journal.json", f"{0:020}.index", f"{0:020}.segment"])
def test_unreadable_files_raise_with_their_path(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "j", 5)
    real = open

    def refuse(file: str, *args: object, **options: object) -> object:
        if Path(file).name == name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return real(file, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(JournalError, match=f"{name}: cannot be read: Permission denied"):
        payloads(Journal(tmp_path / "j"))


def test_disk_error_raises_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "j", 5)
    monkeypatch.setattr("builtins.open", lambda *_, **__: Failing())
    with pytest.raises(JournalError, match=r"cannot be read: Input/output error"):
        SegmentIndex(tmp_path / "j", 0).entry(0)


class Failing(io.BytesIO):
    """A file on a disk that cannot be read any more."""

    def fileno(self) -> int:
        return 0  # of any file: only its size is read

    def read(self, _: int | None = None) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_missing_segment_file_is_corrupt_not_trimmed(tmp_path: Path) -> None:
    journal = written(tmp_path / "j", 5)
    segment_file(tmp_path / "j", 0).unlink()
    with pytest.raises(CorruptJournal, match="the blocks that its index names, found no file"):
        payloads(journal)


def test_journal_removed_while_reading_raises_no_journal(tmp_path: Path) -> None:
    journal = written(tmp_path / "j", 5)
    assert journal.latest() == 5
    shutil.rmtree(tmp_path / "j")
    with pytest.raises(NoJournal, match="no such directory"):
        journal.latest()


@pytest.mark.parametrize("claimed", [4, 6, 2**32 - 1])
def test_wrong_row_count_in_header_is_corrupt(tmp_path: Path, claimed: int) -> None:
    written(tmp_path / "j", 5)
    with SegmentIndex(tmp_path / "j", 0) as index:
        entry = index.entry(0)
    false = entry._replace(block=entry.block._replace(rows=claimed))
    raw = segment_file(tmp_path / "j", 0).read_bytes()
    segment_file(tmp_path / "j", 0).write_bytes(false.block.to_bytes() + raw[HEADER_SIZE:])
    index_file(tmp_path / "j", 0).write_bytes(false.to_bytes())
    journal = Journal(tmp_path / "j")
    with pytest.raises(CorruptJournal, match=f"{claimed} rows of samples .* the block 5"):
        payloads(journal)


@pytest.mark.parametrize("place", [0, 10, 64, 100, -1])
def test_changed_byte_is_detected_and_other_blocks_are_readable(tmp_path: Path, place: int) -> None:
    journal = written(tmp_path / "j", 15, Policy(flush_rows=5, fsync="never"))
    file = segment_file(tmp_path / "j", 0)
    raw = bytearray(file.read_bytes())
    with SegmentIndex(tmp_path / "j", 0) as index:
        second = index.entry(1)
    raw[second.position + place if place >= 0 else second.stop - 1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(CorruptJournal, match=r"rows from offset 5 to 9 cannot be read") as caught:
        payloads(journal)
    assert caught.value.rows == (5, 9)
    assert payloads(journal, 0, 5) == [b"0", b"1", b"2", b"3", b"4"]
    assert payloads(journal, 10, 15)[0] == b"10"


def test_truncated_segment_is_detected(tmp_path: Path) -> None:
    journal = written(tmp_path / "j", 10, Policy(flush_rows=5, fsync="never"))
    os.truncate(segment_file(tmp_path / "j", 0), 100)
    with pytest.raises(CorruptJournal, match="expected a block of"):
        payloads(journal)


def test_changed_index_is_detected(tmp_path: Path) -> None:
    journal = written(tmp_path / "j", 10, Policy(flush_rows=5, fsync="never"))
    file = index_file(tmp_path / "j", 0)
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(CorruptJournal, match="expected an entry of the index at byte 72"):
        journal.latest()


def test_readers_commit_and_are_detached(tmp_path: Path) -> None:
    journal = written(tmp_path / "j")
    assert journal.committed("spark/1") is None
    journal.commit("spark/1", 7)
    journal.commit("other", 3)
    assert journal.committed("spark/1") == 7
    assert journal.readers() == {"spark/1": 7, "other": 3}
    journal.forget("other")
    assert journal.readers() == {"spark/1": 7}
    journal.commit("spark/1", 8, "a query")
    before = journal.attached()
    journal.refresh("spark/1")
    assert [(one.name, one.offset, one.description) for one in journal.attached()] == [("spark/1", 8, "a query")]
    assert journal.attached()[0].updated >= before[0].updated
    with pytest.raises(NoJournal):
        Journal(tmp_path / "nothing").commit("a", 1)


def test_rows_of_one_block_are_a_batch_of_the_declared_schema(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j") as writer:
        writer.append(batch(row(0), row(1, payload=None, kind="DELETE")))
    (found,) = Journal(tmp_path / "j").read(0, 2)
    assert found.schema.equals(Journal(tmp_path / "j").schema)
    assert all(not pa.types.is_dictionary(field.type) for field in found.schema)
