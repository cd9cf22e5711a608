"""Logs refusals: one line per limit and interval, with a count."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager

from zenspark.net.io.counters import Timers
from zenspark.router.limits import Limit, Refusals

logger = logging.getLogger("zenspark.net")

REPORT_SECONDS = 10.0
"""Seconds between two log lines: short enough to see when refusals began, long enough to leave a log readable."""
UNLOGGED = frozenset({Limit.ACCESS_EGRESS})
"""Refusals that are counted but not logged: that access control keeps samples from a subscriber is normal."""


class RefusalLog:
    """Logs the refusals of one node. The first after a quiet interval is logged at once.

    `lock` guards the refusals; they may be counted in any thread, timers run in the loop.
    """

    def __init__(self, refusals: Refusals, loop: Timers, lock: AbstractContextManager[object]) -> None:
        self._refusals = refusals
        self._loop = loop
        self._lock = lock
        self._logged: dict[Limit, int] = {}
        self._is_quiet = True
        refusals.on_count = self._on_count

    def _on_count(self) -> None:
        if self._is_quiet:
            self._is_quiet = False
            self._report()

    def _on_time(self) -> None:
        with self._lock:
            if self._refusals.counts == self._logged:
                self._is_quiet = True
            else:
                self._report()

    def _report(self) -> None:
        """Log the refusals since the last report, and schedule the next report."""
        for limit, count in self._refusals.counts.items():
            new = count - self._logged.get(limit, 0)
            if new and limit not in UNLOGGED:
                latest = self._refusals.latest[limit]
                logger.warning("refused %d by %s, %d in all; the latest from %s", new, limit, count, latest)
        self._logged = dict(self._refusals.counts)
        self._loop.call_at(self._loop.now() + REPORT_SECONDS, self._on_time)
