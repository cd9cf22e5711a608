"""Outages of a journal: pause, discard, counters and log lines."""

from __future__ import annotations

import logging

import pytest

from tests.unit.journal.rows import piece
from zenspark.errors import JournalFull
from zenspark.journal.outage import RETRY_SECONDS, Outage, WriteFailure

FULL = JournalFull("j", "the disk is full")


def test_outage_pauses_first_and_discards_after_timeout(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(4.0)
    assert outage.failure is None
    assert outage.may_try(0.0)
    assert [outage.fail(FULL, now) for now in (10.0, 11.0, 13.99)] == [True, True, True]
    assert outage.failure == WriteFailure(10.0, "j: the disk is full", is_discarding=False)
    assert outage.may_try(13.99)
    assert outage.pause(11.0) == RETRY_SECONDS
    assert outage.pause(13.9) == pytest.approx(0.1)
    assert not outage.fail(FULL, 14.0)
    assert outage.failure == WriteFailure(10.0, "j: the disk is full", is_discarding=True)
    assert not outage.fail(FULL, 15.0)
    assert outage.pause(15.0) == RETRY_SECONDS
    assert [record.getMessage() for record in caplog.records] == [
        "recording paused: j: the disk is full",
        "recording discards received rows after 4.0 s: j: the disk is full",
    ]


def test_writes_are_retried_while_discarding() -> None:
    outage = Outage(0.0)
    assert not outage.fail(FULL, 10.0)
    assert not outage.may_try(10.0 + RETRY_SECONDS / 2)
    assert outage.may_try(10.0 + RETRY_SECONDS)


def test_without_block_timeout_outage_never_discards() -> None:
    outage = Outage(None)
    assert all(outage.fail(FULL, float(now)) for now in range(0, 10**6, 1000))
    assert outage.pause(1e6) == RETRY_SECONDS


def test_discarded_rows_are_counted_by_neighbour_and_logged_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(0.0)
    outage.end(0)
    for turn in range(2):
        outage.fail(FULL, 10.0)
        outage.discard([piece(0, 3, via="a"), piece(0, 2, via="b"), piece(0, 4, via=None)], "own")
        outage.discard([piece(0, 1, via="a")], "own")
        outage.end(100 + turn)
        outage.end(100 + turn)
    assert outage.dropped == {"a": 8, "b": 4, "own": 8}
    assert outage.total == 20
    assert outage.failure is None
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == [f"recording resumed at offset {offset}: 10 rows were discarded" for offset in (100, 101)]
