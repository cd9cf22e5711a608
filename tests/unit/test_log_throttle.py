"""LogThrottle: one line of each kind per interval, with the total."""

from __future__ import annotations

from zenspark.log_throttle import LOG_INTERVAL_SECONDS, LogThrottle


def test_the_first_event_of_each_kind_per_interval_is_logged_with_the_total() -> None:
    now = 0.0
    throttle = LogThrottle(lambda: now)
    assert [throttle.count(kind) for kind in ("put", "put", "delete", "put")] == [1, None, 1, None]
    now = LOG_INTERVAL_SECONDS
    assert [throttle.count(kind) for kind in ("put", "put")] == [4, None]
