from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from tests.unit.spark.journaled import journal
from zenspark.errors import NoJournal, UsageError
from zenspark.journal import Journal
from zenspark.journal.layout import SAMPLES, read_schema
from zenspark.spark.options import StreamOptions
from zenspark.spark.stream import ZenohStreamReader, limited, schema_of

ALL = ReadAllAvailable()


def reader(path: object, **more: str) -> ZenohStreamReader:
    return ZenohStreamReader(StreamOptions.of({"journal": str(path), **more}))


def rows(of: ZenohStreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    """The rows between two offsets, as a worker reads them."""
    worker = pickle.loads(pickle.dumps(of))
    parts = pickle.loads(pickle.dumps(of.partitions(start, end)))
    return [row for part in parts for batch in worker.read(part) for row in batch.column("offset").to_pylist()]


def test_offsets_follow_the_journal(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    stream = reader(path)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert (start, end) == ({"robot": 0}, {"robot": 100})
    assert stream.latestOffset(end, ALL) == end
    assert stream.partitions(end, end) == []
    journal(tmp_path / "j", 50)
    assert stream.latestOffset(end, ALL) == stream.reportLatestOffset() == {"robot": 150}
    assert rows(stream, end, {"robot": 150}) == list(range(100, 150))


def test_the_same_offsets_are_the_same_rows(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    assert rows(reader(path), {"robot": 10}, {"robot": 30}) == rows(reader(path), {"robot": 10}, {"robot": 30})
    batches = [batch for part in reader(path).partitions({"robot": 0}, {"robot": 9}) for batch in part.value.batches()]
    assert all(batch.schema.equals(schema_of(reader(path).options)) for batch in batches)


def test_limits(tmp_path: Path) -> None:
    stream = reader(journal(tmp_path / "j", 100), maxOffsetsPerTrigger="30")
    assert stream.getDefaultReadLimit() == ReadMaxRows(30)
    assert reader(tmp_path / "j").getDefaultReadLimit() == ALL
    start = {"robot": 0}
    assert stream.latestOffset(start, ReadMaxRows(30)) == {"robot": 30}
    assert stream.latestOffset(start, ALL) == {"robot": 100}
    assert stream.latestOffset(start, ReadMinRows(101)) == start
    assert stream.latestOffset(start, ReadMinRows(100)) == {"robot": 100}


def test_a_limit_is_shared_in_proportion() -> None:
    start, end = {"a": 0, "b": 10, "c": 5}, {"a": 300, "b": 110, "c": 5}
    assert limited(start, end, 400) == end
    assert limited(start, end, 40) == {"a": 30, "b": 20, "c": 5}
    assert limited(start, end, 1) in ({"a": 1, "b": 10, "c": 5}, {"a": 0, "b": 11, "c": 5})
    assert sum(limited(start, end, 39).values()) == 15 + 39


def test_available_now_stops_at_what_was_there(tmp_path: Path) -> None:
    stream = reader(journal(tmp_path / "j", 100))
    stream.prepareForTriggerAvailableNow()
    journal(tmp_path / "j", 50)
    assert stream.latestOffset({"robot": 0}, ALL) == {"robot": 100}
    assert stream.latestOffset({"robot": 100}, ReadMinRows(9)) == {"robot": 100}
    assert stream.latestOffset({"robot": 120}, ALL) == {"robot": 120}


def test_a_query_is_attached_from_its_first_moment(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    stream = reader(path, startingOffsets='{"robot": 40}')
    stream.initialOffset()
    assert Journal(path).readers() == {stream.reader: 40}
    stream.commit({"robot": 70, "gone": 3})
    assert Journal(path).readers() == {stream.reader: 70}
    assert reader(path, startingOffsets='{"robot": 40}').reader == stream.reader
    assert reader(path).reader != stream.reader
    assert reader(path, reader="me").reader == "me"


def test_a_recorder_that_joined_begins_at_its_beginning(tmp_path: Path) -> None:
    first, second = journal(tmp_path / "a", 10), journal(tmp_path / "b", 20, name="other")
    stream = reader(f'["{first}", "{second}"]')
    assert stream.latestOffset({"robot": 10}, ALL) == {"other": 20, "robot": 10}
    assert rows(stream, {"robot": 10}, {"other": 20, "robot": 10}) == list(range(20))


def test_losses(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 10)
    with pytest.raises(UsageError, match="offset 50 is not there"):
        reader(path).latestOffset({"robot": 50}, ALL)
    assert reader(path, failOnDataLoss="false").latestOffset({"robot": 50, "gone": 1}, ALL) == {"robot": 10}


def test_the_schema_of_a_journal_that_will_be_recorded_is_known_before(tmp_path: Path) -> None:
    given = {"journal": str(tmp_path / "new"), "subscribe": "a", "connect": "tcp/127.0.0.1:1"}
    assert schema_of(StreamOptions.of(given)).equals(read_schema(SAMPLES))
    with pytest.raises(NoJournal):
        schema_of(StreamOptions.of({"journal": str(tmp_path / "new")}))


def test_stopping_a_reader_that_never_recorded(tmp_path: Path) -> None:
    stream = reader(journal(tmp_path / "j", 1))
    stream.stop()
    assert stream.recording is None
    stream.stop()
