from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest

from tests.unit.spark.journaled import journal
from zenspark.errors import UsageError
from zenspark.journal import JournalWriter
from zenspark.spark import journals as module
from zenspark.spark.journals import Journals
from zenspark.spark.options import EARLIEST, LATEST, Offsets, Time


@pytest.fixture
def two(tmp_path: Path) -> Journals:
    paths = (journal(tmp_path / "b", 300, block=50), journal(tmp_path / "a", 100, name="other", block=50))
    return Journals(paths)


def test_they_are_known_by_recorder_in_a_fixed_order(two: Journals) -> None:
    assert list(two.by_recorder) == ["other", "robot"]
    assert two.latest() == {"other": 100, "robot": 300}
    assert pickle.loads(pickle.dumps(two)).earliest() == {"other": 0, "robot": 0}
    assert two.schema.names[-2:] == ["recorder", "offset"]


def test_places(two: Journals) -> None:
    assert two.places(Offsets(LATEST)) == {"other": 100, "robot": 300}
    assert two.places(Offsets(EARLIEST, {"robot": 7, "other": LATEST})) == {"other": 100, "robot": 7}
    assert two.places(Offsets(EARLIEST), Time(1_700_000_000_150_000)) == {"other": 100, "robot": 150}
    with pytest.raises(UsageError, match="offsets name the recorder 'nobody', whose journal is not read"):
        two.places(Offsets(EARLIEST, {"nobody": 1}))


def test_journals_that_cannot_be_read_together(tmp_path: Path) -> None:
    first = journal(tmp_path / "a", 1)
    with pytest.raises(UsageError, match="have the same recorder, 'robot'"):
        _ = Journals((first, journal(tmp_path / "b", 1))).by_recorder
    JournalWriter(tmp_path / "c", rows="sessions").close()
    with pytest.raises(UsageError, match="journals of different rows cannot be read together"):
        _ = Journals((first, str(tmp_path / "c"))).by_recorder


def test_what_is_lost_is_an_error_or_a_warning(two: Journals, caplog: pytest.LogCaptureFixture) -> None:
    assert two.kept({"robot": 300, "other": 0}, fail=True) == {"robot": 300, "other": 0}
    for start in ({"robot": 301}, {"gone": 1}):
        with pytest.raises(UsageError, match="with failOnDataLoss=false the query goes on without these rows"):
            two.kept(start, fail=True)
    with caplog.at_level(logging.WARNING):
        assert two.kept({"robot": 301, "gone": 1}, fail=False) == {"robot": 300}
    assert len(caplog.records) == 2


def test_few_rows_are_one_task_for_each_journal(two: Journals) -> None:
    parts = two.slices({"other": 0, "robot": 100}, {"other": 100, "robot": 300}, None)
    assert [(part.recorder, part.start, part.end) for part in parts] == [("other", 0, 100), ("robot", 100, 300)]
    assert two.slices({"other": 100, "robot": 300}, {"other": 100, "robot": 300}, None) == []


def test_as_many_tasks_as_asked_for_or_as_the_rows_need(two: Journals, monkeypatch: pytest.MonkeyPatch) -> None:
    start, end = {"robot": 0}, {"robot": 300}
    assert len(two.slices(start, end, 4)) == 4
    monkeypatch.setattr(module, "ROWS", 100)
    monkeypatch.setattr(module, "processors", lambda: 2)
    assert len(two.slices(start, end, None)) == 2
    monkeypatch.setattr(module, "ROWS", 1000)
    assert len(two.slices(start, end, None)) == 1
    monkeypatch.setattr(module, "BYTES", 1000)
    assert len(two.slices(start, end, None)) == 2
    assert module.processors() == 2
