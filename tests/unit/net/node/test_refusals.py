"""Refusals are logged at once, then once per interval with a count, however many there are."""

from __future__ import annotations

import contextlib

import pytest

from tests.unit.net.io.test_counters import Timers
from zenspark.net.node.refusals import REPORT_SECONDS, RefusalLog
from zenspark.router.limits import Limit, Refusals


def test_one_line_per_limit_and_interval(caplog: pytest.LogCaptureFixture) -> None:
    timers, refusals = Timers(), Refusals()
    RefusalLog(refusals, timers, contextlib.nullcontext())
    for number in range(1000):
        refusals.count(Limit.KEY_BYTES, f"client {number}")
    refusals.count(Limit.QUERIES, "client b")
    assert caplog.messages == ["refused 1 by key_bytes, 1 in all; the latest from client 0"]
    timers.go_on()
    assert timers.time == REPORT_SECONDS
    assert caplog.messages[1:] == [
        "refused 999 by key_bytes, 1000 in all; the latest from client 999",
        "refused 1 by queries, 1 in all; the latest from client b",
    ]
    timers.go_on()
    assert len(caplog.messages) == 3
    assert not timers.due
    refusals.count(Limit.QUERIES, "client c")
    assert caplog.messages[3:] == ["refused 1 by queries, 2 in all; the latest from client c"]


def test_egress_denials_are_counted_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    timers, refusals = Timers(), Refusals()
    RefusalLog(refusals, timers, contextlib.nullcontext())
    refusals.count(Limit.ACCESS_EGRESS, "client a")
    assert caplog.messages == []
    refusals.count(Limit.ACCESS_INGRESS, "client b")
    timers.go_on()
    assert caplog.messages == ["refused 1 by access_ingress, 1 in all; the latest from client b"]
