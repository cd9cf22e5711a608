from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from tests.unit.spark.journaled import journal
from zenspark.errors import NoJournal, UsageError
from zenspark.journal import Journal
from zenspark.journal.format import SAMPLES, read_schema
from zenspark.spark.options import READER_ENTRY, StreamOptions
from zenspark.spark.source.stream import SLICES, ZenohStreamReader, limit_rows, schema_of

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
    number = start[READER_ENTRY]
    assert (start, end) == ({"robot": 0, READER_ENTRY: number}, {"robot": 100, READER_ENTRY: number})
    assert stream.latestOffset(end, ALL) == end
    assert stream.partitions(end, end) == []
    journal(tmp_path / "j", 50)
    assert stream.latestOffset(end, ALL) == {"robot": 150, READER_ENTRY: number}
    assert stream.reportLatestOffset() == {"robot": 150}
    assert rows(stream, end, {"robot": 150}) == list(range(100, 150))


def test_the_same_offsets_are_the_same_rows(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    assert rows(reader(path), {"robot": 10}, {"robot": 30}) == rows(reader(path), {"robot": 10}, {"robot": 30})
    batches = [batch for part in reader(path).partitions({"robot": 0}, {"robot": 9}) for batch in part.value.batches()]
    assert all(batch.schema.equals(schema_of(reader(path).options)) for batch in batches)


def test_read_limits_bound_the_rows_of_a_batch(tmp_path: Path) -> None:
    stream = reader(journal(tmp_path / "j", 100), maxOffsetsPerTrigger="30")
    assert stream.getDefaultReadLimit() == ReadMaxRows(30)
    assert reader(tmp_path / "j").getDefaultReadLimit() == ALL
    start = {"robot": 0}
    assert stream.latestOffset(start, ReadMaxRows(30)) == {"robot": 30}
    assert stream.latestOffset(start, ALL) == {"robot": 100}
    assert stream.latestOffset(start, ReadMinRows(101)) == start
    assert stream.latestOffset(start, ReadMinRows(100)) == {"robot": 100}


def test_max_bytes_per_trigger_bounds_the_batch(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 500)
    start, most = {"robot": 0}, Journal(path).size(0, 200)
    stream = reader(path, maxBytesPerTrigger=str(most))
    assert stream.getDefaultReadLimit() == ReadMaxBytes(most)
    assert stream.latestOffset(start, ReadMaxBytes(most)) == {"robot": 200}
    both = reader(path, maxBytesPerTrigger=str(most), maxOffsetsPerTrigger="150")
    assert both.getDefaultReadLimit() == ReadMaxRows(150)
    assert both.latestOffset(start, ReadMaxRows(150)) == {"robot": 150}
    assert both.latestOffset(start, ReadMaxRows(450)) == {"robot": 200}
    assert both.latestOffset(start, ALL) == {"robot": 500}


def test_limit_rows_is_shared_among_recorders_in_proportion() -> None:
    start, end = {"a": 0, "b": 10, "c": 5}, {"a": 300, "b": 110, "c": 5}
    assert limit_rows(start, end, 400) == end
    assert limit_rows(start, end, 40) == {"a": 30, "b": 20, "c": 5}
    assert limit_rows(start, end, 1) in ({"a": 1, "b": 10, "c": 5}, {"a": 0, "b": 11, "c": 5})
    assert sum(limit_rows(start, end, 39).values()) == 15 + 39


def test_available_now_stops_at_offsets_of_its_start(tmp_path: Path) -> None:
    stream = reader(journal(tmp_path / "j", 100))
    stream.prepareForTriggerAvailableNow()
    journal(tmp_path / "j", 50)
    assert stream.latestOffset({"robot": 0}, ALL) == {"robot": 100}
    assert stream.latestOffset({"robot": 100}, ReadMinRows(9)) == {"robot": 100}
    assert stream.latestOffset({"robot": 120}, ALL) == {"robot": 120}


def test_initial_offset_attaches_the_reader_to_the_journal(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    stream = reader(path, startingOffsets='{"robot": 40}')
    start = stream.initialOffset()
    assert stream.initialOffset() == start  # Spark calls it more than once
    assert Journal(path).readers() == {stream.reader_name_of(start): 40}
    stream.commit(start | {"robot": 70, "gone": 3})
    assert Journal(path).readers() == {stream.reader_name_of(start): 70}


def test_reader_of_a_checkpoint_is_independent_of_options(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    start = reader(path).initialOffset()
    tuned = reader(path, maxOffsetsPerTrigger="30", minPartitions="3", startingOffsets="latest")
    end = tuned.latestOffset(start, ReadMaxRows(30))
    tuned.commit(end)
    assert list(Journal(path).readers().values()) == [30]


def test_queries_with_equal_options_are_separate_readers(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    first, second = reader(path), reader(path)
    start = first.initialOffset()
    second.initialOffset()
    first.commit(start | {"robot": 50})
    assert sorted(Journal(path).readers().values()) == [0, 50]


def test_query_with_option_reader_forgets_its_random_name(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    start = reader(path).initialOffset()
    reader(path, reader="me").commit(start | {"robot": 50})
    assert Journal(path).readers() == {"me": 50}
    assert READER_ENTRY not in reader(path, reader="me").initialOffset()


def test_checkpoint_without_reader_entry_has_a_name_independent_of_limits(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 10)
    assert reader(path).reader_name_of({"robot": 0}) == reader(path, maxOffsetsPerTrigger="1").reader_name_of(
        {"robot": 5}
    )
    assert reader(path).reader_name_of({"robot": 0}) != reader(tmp_path / "other").reader_name_of({"robot": 0})


def test_last_batch_of_available_now_is_committed_to_the_journal(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    stream = reader(path)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    stream.latestOffset(end, ALL)  # a query that goes on may plan ahead of what its checkpoint has
    assert list(Journal(path).readers().values()) == [0]
    stream.prepareForTriggerAvailableNow()
    stream.latestOffset(start, ALL)
    assert list(Journal(path).readers().values()) == [0]
    assert stream.latestOffset(end, ALL) == end
    assert list(Journal(path).readers().values()) == [100]


def test_added_recorder_is_read_from_its_first_offset(tmp_path: Path) -> None:
    first, second = journal(tmp_path / "a", 10), journal(tmp_path / "b", 20, name="other")
    stream = reader(f'["{first}", "{second}"]')
    assert stream.latestOffset({"robot": 10}, ALL) == {"other": 20, "robot": 10}
    assert rows(stream, {"robot": 10}, {"other": 20, "robot": 10}) == list(range(20))


def test_missing_offsets_raise_unless_fail_on_data_loss_is_false(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 10)
    with pytest.raises(UsageError, match="offset 50 is not there"):
        reader(path).latestOffset({"robot": 50}, ALL)
    assert reader(path, failOnDataLoss="false").latestOffset({"robot": 50, "gone": 1}, ALL) == {"robot": 10}


def test_schema_is_available_before_the_journal_is_recorded(tmp_path: Path) -> None:
    given = {"journal": str(tmp_path / "new"), "subscribe": "a", "connect": "tcp/127.0.0.1:1"}
    assert schema_of(StreamOptions.of(given)).equals(read_schema(SAMPLES))
    with pytest.raises(NoJournal):
        schema_of(StreamOptions.of({"journal": str(tmp_path / "new")}))


def test_stop_without_recording_does_not_raise(tmp_path: Path) -> None:
    stream = reader(journal(tmp_path / "j", 1))
    stream.stop()
    assert stream.recording is None
    stream.stop()


def test_slices_option_returns_slices_as_rows_of_one_task(tmp_path: Path) -> None:
    stream = reader(journal(tmp_path / "j", 500), slices="true", minPartitions="5")
    (task,) = stream.partitions({"robot": 0}, {"robot": 500})
    (batch,) = stream.read(task)
    starts, ends = batch.column("start").to_pylist(), batch.column("end").to_pylist()
    assert len(starts) > 2
    assert [*starts, 500] == [0, *ends]
    assert batch.schema.equals(SLICES)
    assert stream.partitions({"robot": 500}, {"robot": 500}) == []
