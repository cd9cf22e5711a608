"""Content of a journal, measured again and again while it grows and is trimmed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.unit.journal.rows import START, counted
from zenspark.journal import JournalWriter, Policy
from zenspark.journal.retention import segment_size, trim
from zenspark.journal.segment import list_segments
from zenspark.journal.usage import JournalMeter, JournalUsage

POLICY = Policy(flush_rows=5, segment_bytes=1, fsync="never")


def test_usage_counts_rows_bytes_segments_and_times(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with JournalWriter(path, POLICY) as writer:
        meter = JournalMeter(path)
        empty = meter.measure(0, 0)
        assert (empty.rows, empty.oldest, empty.newest) == (0, None, None)
        for start in range(0, 20, 5):
            writer.append(counted(start, start + 5))
            writer.flush()
            found = meter.measure(2, start)
            assert (found.rows, found.backlog, found.lost, found.path) == (start + 5, 2, start, str(path))
            assert found.segments == len(list_segments(path))
            assert found.bytes == sum(segment_size(path, first) for first in list_segments(path))
    assert found.oldest == START / 1e6
    assert found.newest == START / 1e6 + 15  # that of its block
    assert (found.free_bytes or 0) > 0
    assert trim(path, Policy(retain_age=10.0), START / 1e6 + 24.5) == 15
    found = meter.measure(0, 0)
    assert (found.rows, found.segments, found.oldest) == (5, 1, START / 1e6 + 15)


def test_usage_of_missing_journal_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "none"
    assert JournalMeter(path).measure(2, 3) == JournalUsage(path=str(path), backlog=2, lost=3)


def test_lost_rows_are_called_refused_in_the_status_document() -> None:
    assert msgspec.to_builtins(JournalUsage(path="j", lost=3))["refused"] == 3
