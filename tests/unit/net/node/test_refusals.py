"""Refusals are logged at once, then once per interval with a count, however many there are."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from tests.unit.net.io.test_counters import Timers
from zenspark.log_throttle import LOG_INTERVAL_SECONDS
from zenspark.net.node.refusals import REFUSAL_TEXTS, RefusalLog
from zenspark.router.limits import RefusalReason, Refusals

LONG_KEYS = "keys (key_bytes): longer than limits/key/bytes"
QUERIES = "queries (queries): more in flight than limits/session/queries"


class CountsRefusal(logging.Handler):
    """A handler in which the first line causes a refusal, as one does that publishes log lines."""

    def __init__(self, refusals: Refusals) -> None:
        super().__init__()
        self.refusals = refusals

    def emit(self, record: logging.LogRecord) -> None:
        if RefusalReason.QUERIES not in self.refusals.counts:
            self.refusals.count(RefusalReason.QUERIES, "client a")


def test_refusals_are_logged_once_per_limit_and_interval(caplog: pytest.LogCaptureFixture) -> None:
    timers = Timers()
    refusals = Refusals(RefusalLog(timers))
    for number in range(1000):
        refusals.count(RefusalReason.KEY_BYTES, f"client {number}")
    refusals.count(RefusalReason.QUERIES, "client b")
    assert caplog.messages == [f"refused 1 {LONG_KEYS}; 1 in all, the latest from client 0"]
    timers.run_next()
    assert timers.time == LOG_INTERVAL_SECONDS
    assert caplog.messages[1:] == [
        f"refused 999 {LONG_KEYS}; 1000 in all, the latest from client 999",
        f"refused 1 {QUERIES}; 1 in all, the latest from client b",
    ]
    timers.run_next()
    assert len(caplog.messages) == 3
    assert not timers.due
    refusals.count(RefusalReason.QUERIES, "client c")
    assert caplog.messages[3:] == [f"refused 1 {QUERIES}; 2 in all, the latest from client c"]


def test_egress_denials_are_counted_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    timers = Timers()
    refusals = Refusals(RefusalLog(timers))
    refusals.count(RefusalReason.ACCESS_EGRESS, "client a")
    assert caplog.messages == []
    refusals.count(RefusalReason.ACCESS_INGRESS, "client b")
    timers.run_next()
    assert caplog.messages == [
        "refused 1 messages (access_ingress): denied by access_control; 1 in all, the latest from client b"
    ]


def test_every_limit_has_a_text_with_a_documented_setting() -> None:
    assert REFUSAL_TEXTS.keys() == set(RefusalReason)
    document = (Path(__file__).parents[4] / "docs" / "security.md").read_text()
    settings = {word for _, why in REFUSAL_TEXTS.values() for word in re.findall(r"[a-z]+(?:/[a-z_]+)+", why)}
    assert len(settings) > 15
    assert [name for name in sorted(settings - {"routing/router/accept"}) if f"`{name}`" not in document] == []


def test_refusals_by_a_handler_of_the_log_are_counted_and_logged_later(caplog: pytest.LogCaptureFixture) -> None:
    timers = Timers()
    refusals = Refusals(RefusalLog(timers))
    handler = CountsRefusal(refusals)
    logging.getLogger("zenspark.net").addHandler(handler)
    try:
        refusals.count(RefusalReason.KEY_BYTES, "client b")
    finally:
        logging.getLogger("zenspark.net").removeHandler(handler)
    timers.run_next()
    assert caplog.messages == [
        f"refused 1 {LONG_KEYS}; 1 in all, the latest from client b",
        f"refused 1 {QUERIES}; 1 in all, the latest from client a",
    ]
