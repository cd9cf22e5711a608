"""Backlog of journals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rows import EPOCH
from tests.unit.spark.journaled import journal
from zenspark.errors import OffsetOutOfRange
from zenspark.journal import Journal
from zenspark.spark.pipeline.backlog import Backlog, measure_backlog

NOW = EPOCH / 1e6 + 10


def test_backlog_counts_rows_after_offset_and_age_of_their_oldest_block(tmp_path: Path) -> None:
    one, other = Journal(journal(tmp_path / "a", 300)), Journal(journal(tmp_path / "b", 200, name="b"))
    found = measure_backlog([(one, 150), (other, 200)], NOW)
    assert found.rows == 150
    assert found.seconds == pytest.approx(9.9)  # row 100 begins the block of row 150
    assert measure_backlog([(one, 300), (other, 200)], NOW) == Backlog(0, 0.0)


def test_a_clock_that_was_set_back_makes_no_negative_age(tmp_path: Path) -> None:
    assert measure_backlog([(Journal(journal(tmp_path / "a", 10)), 0)], EPOCH / 1e6 - 3600) == Backlog(10, 0.0)


def test_missing_journal_has_no_backlog(tmp_path: Path) -> None:
    assert measure_backlog([(Journal(tmp_path / "none"), 0)], NOW) == Backlog()


def test_received_at_is_the_reception_time_of_the_block(tmp_path: Path) -> None:
    found = Journal(journal(tmp_path / "a", 300))
    assert (found.received_at(0), found.received_at(299)) == (EPOCH, EPOCH + 200_000)
    with pytest.raises(OffsetOutOfRange):
        found.received_at(300)
