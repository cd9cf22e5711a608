from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.s3 import serving
from tests.unit.storage.made import recorded, row
from tests.unit.storage.tables import FakeLake, append
from zenspark.errors import OffsetOutOfRange
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.journal.retention import trim
from zenspark.lake.delta_table import LakeTable
from zenspark.lake.predicates import BoolMask, KeyPredicate, TimePredicate
from zenspark.lake.scan import NewestTimes, ScanRequest
from zenspark.storage.inputs import StorageInputs

DAY = 86_400.0


def everything(names: pa.Array) -> BoolMask:
    return np.ones(len(names), bool)


ALL = ScanRequest(KeyPredicate(everything), TimePredicate(), ("key", "payload"))


def test_without_lake_snapshot_is_empty() -> None:
    sources = StorageInputs(None, [])
    latest, past = sources.latest_rows(), sources.snapshot()
    assert (list(latest.batches), latest.offsets) == ([], {})
    assert (list(past.rows(ALL)), list(past.newest(ALL, NewestTimes(1))), past.offsets) == ([], [], {})
    assert list(sources.read_tail({})) == []


def test_missing_lake_is_empty_until_created(tmp_path: Path) -> None:
    lake = FakeLake(tmp_path)
    sources = StorageInputs(lake, [])
    assert list(sources.snapshot().rows(ALL)) == []
    lake.ingest(recorded([row("a", b"1", 1)]))
    assert [batch.to_pylist() for batch in sources.snapshot().rows(ALL)] == [[{"key": "a", "payload": b"1"}]]


@pytest.mark.slow
def test_snapshot_filters_lake_rows_by_day_and_prefix(tmp_path: Path) -> None:
    lake = FakeLake(tmp_path)
    lake.ingest(recorded([row("a", b"1", 1), row("b", b"2", 1), row("a", b"3", DAY)]))
    sources = StorageInputs(lake, [])
    assert sorted(each["payload"] for batch in sources.snapshot().rows(ALL) for each in batch.to_pylist()) == [
        b"1",
        b"2",
        b"3",
    ]
    (found,) = sources.snapshot(date(1970, 1, 2)).rows(ALL)
    assert found.to_pylist() == [{"key": "a", "payload": b"3"}]
    (found,) = sources.snapshot(prefix="b").rows(ALL)
    assert found.to_pylist() == [{"key": "b", "payload": b"2"}]
    newest = sources.latest_rows()
    assert [each["payload"] for batch in newest.batches for each in batch.to_pylist()] == [b"1", b"2", b"3"]
    assert newest.offsets == {"r": 3}


def test_missing_journal_is_empty_until_created(tmp_path: Path) -> None:
    sources = StorageInputs(None, [Journal(tmp_path / "j")])
    assert list(sources.read_tail({})) == []
    assert sources.end_offsets() == {}
    with JournalWriter(tmp_path / "j", recorder="r") as writer:
        append(writer, [row("a", b"1", 1), row("a", b"2", 9), row("a", b"3", 10)])
        assert sources.end_offsets() == {"r": 3}
        assert [batch.column("offset").to_pylist() for batch in sources.read_tail({"r": 1})] == [[1, 2]]
        assert list(sources.read_tail({"r": 3})) == []
        assert list(sources.read_tail({}, received_after=11_000_000)) == []


class ConcurrentlyTrimmedLake(FakeLake):
    """A lake into which rows are ingested, and trimmed from the journal, right after it was read."""

    def __init__(self, path: Path, journal: Path) -> None:
        super().__init__(path)
        self.journal = journal
        self.is_due = False

    def table(self, name: str) -> LakeTable:
        found = super().table(name)
        if self.is_due:
            self.is_due = False
            self.ingest(recorded([row("a", b"%d" % at, at) for at in range(2)]))
            trim(self.journal, Policy(retain_bytes=1), 0)
        return found


def segments(path: Path, count: int) -> None:
    with JournalWriter(path, Policy(segment_bytes=1), recorder="r") as writer:
        for at in range(count):
            append(writer, [row("a", b"%d" % at, at)])


def test_rows_ingested_and_trimmed_concurrently_are_not_missed(tmp_path: Path) -> None:
    segments(tmp_path / "j", 3)
    lake = ConcurrentlyTrimmedLake(tmp_path / "lake", tmp_path / "j")
    sources = StorageInputs(lake, [Journal(tmp_path / "j")])
    lake.is_due = True
    past = sources.snapshot()
    found = [each["payload"] for batch in past.rows(ALL) for each in batch.to_pylist()]
    found += [each["payload"] for batch in sources.read_tail(past.offsets) for each in batch.to_pylist()]
    assert found == [b"0", b"1", b"2"]


def test_rows_trimmed_while_reading_raise_offset_out_of_range(tmp_path: Path) -> None:
    segments(tmp_path / "j", 3)
    sources = StorageInputs(None, [Journal(tmp_path / "j")])
    past = sources.snapshot()
    trim(tmp_path / "j", Policy(retain_bytes=1), 0)
    with pytest.raises(OffsetOutOfRange):
        list(sources.read_tail(past.offsets))
    assert sources.snapshot().offsets == {"r": 2}


@pytest.mark.slow
def test_lake_on_s3_is_read() -> None:
    with serving() as server:
        lake = FakeLake(f"s3://{server.bucket()}/lake", server.options)
        for hour in range(3):
            lake.ingest(recorded([row("a", b"%d" % (10 * hour + at), 3600 * hour + at) for at in range(10)], 10 * hour))
        sources = StorageInputs(lake, [])
        past = sources.snapshot(prefix="a")
        found = [each["payload"] for batch in past.rows(ALL) for each in batch.to_pylist()]
        assert sorted(found, key=int) == [b"%d" % at for at in range(30)]
        newest = [each["payload"] for batch in past.newest(ALL, NewestTimes(2)) for each in batch.to_pylist()]
        assert newest == [b"28", b"29"]
        lake.table("samples").location.remove(past.files[0].path)
        with pytest.raises(FileNotFoundError):
            list(past.rows(ALL))
