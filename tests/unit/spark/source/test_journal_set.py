from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest

from tests.unit.spark.journaled import journal
from zenspark.errors import UsageError
from zenspark.journal import JournalWriter, Policy
from zenspark.spark.options import EARLIEST, LATEST, Offsets, Time
from zenspark.spark.source import journal_set as module
from zenspark.spark.source.journal_set import JournalSet


@pytest.fixture
def two_journals(tmp_path: Path) -> JournalSet:
    paths = (journal(tmp_path / "b", 300, block=50), journal(tmp_path / "a", 100, name="other", block=50))
    return JournalSet(paths)


def test_journal_set_is_ordered_by_recorder_and_picklable(two_journals: JournalSet) -> None:
    assert list(two_journals.by_recorder) == ["other", "robot"]
    assert two_journals.latest() == {"other": 100, "robot": 300}
    assert pickle.loads(pickle.dumps(two_journals)).earliest() == {"other": 0, "robot": 0}
    assert two_journals.schema.names[-2:] == ["recorder", "offset"]


def test_offsets_and_times_are_resolved_by_recorder(two_journals: JournalSet) -> None:
    assert two_journals.resolve_offsets(Offsets(LATEST)) == {"other": 100, "robot": 300}
    assert two_journals.resolve_offsets(Offsets(EARLIEST, {"robot": 7, "other": LATEST})) == {"other": 100, "robot": 7}
    assert two_journals.resolve_offsets(Offsets(EARLIEST), Time(1_700_000_000_150_000)) == {"other": 100, "robot": 150}
    with pytest.raises(UsageError, match="offsets name the recorder 'nobody', whose journal is not read"):
        two_journals.resolve_offsets(Offsets(EARLIEST, {"nobody": 1}))


def test_journals_of_same_recorder_or_different_rows_are_rejected(tmp_path: Path) -> None:
    first = journal(tmp_path / "a", 1)
    with pytest.raises(UsageError, match="have the same recorder, 'robot'"):
        _ = JournalSet((first, journal(tmp_path / "b", 1))).by_recorder
    JournalWriter(tmp_path / "c", row_type="sessions").close()
    with pytest.raises(UsageError, match="journals of different rows cannot be read together"):
        _ = JournalSet((first, str(tmp_path / "c"))).by_recorder


def test_lost_rows_are_an_error_or_a_warning(two_journals: JournalSet, caplog: pytest.LogCaptureFixture) -> None:
    assert two_journals.available_offsets({"robot": 300, "other": 0}, fail=True) == {"robot": 300, "other": 0}
    for start in ({"robot": 301}, {"gone": 1}):
        with pytest.raises(UsageError, match="with failOnDataLoss=false the query continues without these rows"):
            two_journals.available_offsets(start, fail=True)
    with caplog.at_level(logging.WARNING):
        assert two_journals.available_offsets({"robot": 301, "gone": 1}, fail=False) == {"robot": 300}
    lines = [": ".join(message.split(": ")[:2]) for message in caplog.messages]
    assert lines == [
        "recorder robot: the journal ends before rows that were read",
        "recorder gone: lost the rows after those that were read",
    ]


def test_trimmed_rows_are_counted_in_the_warning(
    two_journals: JournalSet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(two_journals.by_recorder["robot"], "earliest", lambda: 50)
    assert two_journals.available_offsets({"robot": 20}, fail=False) == {"robot": 50}
    path = two_journals.by_recorder["robot"].path
    assert caplog.messages == [
        f"recorder robot: lost 30 rows: {path}: offset 20 was trimmed away: the journal has the rows from 50 up to"
        " before 300; the query continues because of failOnDataLoss=false"
    ]


def test_few_rows_are_one_task_for_each_journal(two_journals: JournalSet) -> None:
    parts = two_journals.slices({"other": 0, "robot": 100}, {"other": 100, "robot": 300}, None)
    assert [(part.recorder, part.start, part.end) for part in parts] == [("other", 0, 100), ("robot", 100, 300)]
    assert two_journals.slices({"other": 100, "robot": 300}, {"other": 100, "robot": 300}, None) == []


def test_task_count_is_min_partitions_or_follows_rows_bytes_and_cores(
    two_journals: JournalSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, end = {"robot": 0}, {"robot": 300}
    assert len(two_journals.slices(start, end, 4)) == 4
    monkeypatch.setattr(module, "MIN_TASK_ROWS", 100)
    monkeypatch.setattr(module, "available_cores", lambda: 2)
    assert len(two_journals.slices(start, end, None)) == 2
    monkeypatch.setattr(module, "MIN_TASK_ROWS", 1000)
    assert len(two_journals.slices(start, end, None)) == 1
    monkeypatch.setattr(module, "MIN_TASK_BYTES", 1000)
    assert len(two_journals.slices(start, end, None)) == 2
    assert module.available_cores() == 2


def test_task_count_is_limited_by_cluster_parallelism_not_local_cores(
    two_journals: JournalSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, end = {"robot": 0}, {"robot": 300}
    monkeypatch.setattr(module, "MIN_TASK_ROWS", 50)
    monkeypatch.setattr(module, "available_cores", lambda: 2)
    assert len(two_journals.slices(start, end, None, parallelism=100)) > 3
    assert len(two_journals.slices(start, end, None, parallelism=3)) == 3


@pytest.mark.parametrize(("limit", "tasks"), [("MAX_TASK_ROWS", 3), ("MAX_TASK_BYTES", 3)])
def test_tasks_are_bounded_by_max_rows_and_max_bytes(
    two_journals: JournalSet, monkeypatch: pytest.MonkeyPatch, limit: str, tasks: int
) -> None:
    start, end = {"robot": 0}, {"robot": 300}
    most = {"MAX_TASK_ROWS": 100, "MAX_TASK_BYTES": -(-two_journals.by_recorder["robot"].size(0, 300) // 3)}[limit]
    monkeypatch.setattr(module, limit, most)
    assert len(two_journals.slices(start, end, None, parallelism=1)) == tasks


def test_limit_bytes_ends_at_a_block_or_at_the_given_end(tmp_path: Path) -> None:
    path = journal(tmp_path / "a", 300, block=50, policy=Policy(segment_bytes=1))
    journals = JournalSet((path,))
    most = journals.by_recorder["robot"].size(0, 150)
    start, end = {"robot": 0}, {"robot": 290}
    assert journals.limit_bytes(start, end, most) == {"robot": 150}
    assert journals.limit_bytes(start, end, most - 1) == {"robot": 100}
    assert journals.limit_bytes(start, end, 1) == {"robot": 50}  # less than a block would be nothing, for ever
    assert journals.limit_bytes({"robot": 70}, end, 1) == {"robot": 100}
    assert journals.limit_bytes(start, end, 1 << 40) == end
    assert journals.limit_bytes(start, {"robot": 30}, 1) == {"robot": 30}
    assert journals.limit_bytes(end, end, 1) == end


def test_limit_bytes_is_divided_among_journals(two_journals: JournalSet) -> None:
    start, end = {"other": 0, "robot": 0}, {"other": 100, "robot": 300}
    sizes = {name: each.size(0, end[name]) for name, each in two_journals.by_recorder.items()}
    half = two_journals.by_recorder["robot"].size(0, 150)
    assert two_journals.limit_bytes(start, end, sizes["other"] + half) == {"other": 100, "robot": 150}
    assert two_journals.limit_bytes(start, end, sum(sizes.values())) == end
    assert two_journals.limit_bytes(start, end, 2 * two_journals.by_recorder["other"].size(0, 50)) == {
        "other": 50,
        "robot": 50,
    }
    assert two_journals.limit_bytes(start, end, 1) == {"other": 50, "robot": 50}
    assert two_journals.limit_bytes({"other": 100, "robot": 0}, end, half) == {"other": 100, "robot": 150}
