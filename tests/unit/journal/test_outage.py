"""Outages of a journal: pause, discard, counters and log lines."""

from __future__ import annotations

import logging

import pytest

from tests.unit.journal.rows import row_chunk
from zenspark.errors import JournalFull
from zenspark.journal.outage import WRITE_RETRY_INTERVAL_SECONDS, Outage, WriteFailure

FULL = JournalFull("j", "the disk is full")


def test_outage_pauses_first_and_discards_after_timeout(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("j", 4.0)
    assert outage.failure is None
    assert outage.is_write_due(0.0)
    assert [outage.fail(FULL, now) for now in (10.0, 11.0, 13.99)] == [True, True, True]
    assert outage.failure == WriteFailure(10.0, "j: the disk is full", is_discarding=False)
    assert outage.is_write_due(13.99)
    assert outage.retry_delay(11.0) == WRITE_RETRY_INTERVAL_SECONDS
    assert outage.retry_delay(13.9) == pytest.approx(0.1)
    assert not outage.fail(FULL, 14.0)
    assert outage.failure == WriteFailure(10.0, "j: the disk is full", is_discarding=True)
    assert not outage.fail(FULL, 15.0)
    assert outage.retry_delay(15.0) == WRITE_RETRY_INTERVAL_SECONDS
    assert [record.getMessage() for record in caplog.records] == [
        "j: recording paused: j: the disk is full",
        "j: recording discards received rows after 4.0 s: j: the disk is full",
    ]


def test_writes_are_retried_while_discarding() -> None:
    outage = Outage("j", 0.0)
    assert not outage.fail(FULL, 10.0)
    assert not outage.is_write_due(10.0 + WRITE_RETRY_INTERVAL_SECONDS / 2)
    assert outage.is_write_due(10.0 + WRITE_RETRY_INTERVAL_SECONDS)


def test_without_block_timeout_outage_never_discards() -> None:
    outage = Outage("j", None)
    assert all(outage.fail(FULL, float(now)) for now in range(0, 10**6, 1000))
    assert outage.retry_delay(1e6) == WRITE_RETRY_INTERVAL_SECONDS


def test_discarded_rows_are_counted_by_neighbour_and_logged_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("j", 0.0)
    outage.end(0)
    for turn in range(2):
        outage.fail(FULL, 10.0)
        outage.count_discarded([row_chunk(0, 3, via="a"), row_chunk(0, 2, via="b"), row_chunk(0, 4, via=None)], "own")
        outage.count_discarded([row_chunk(0, 1, via="a")], "own")
        outage.end(100 + turn)
        outage.end(100 + turn)
    assert outage.discarded == {"a": 8, "b": 4, "own": 8}
    assert outage.total == 20
    assert outage.failure is None
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert messages == [f"j: recording resumed at offset {offset}: lost 10 received rows" for offset in (100, 101)]
