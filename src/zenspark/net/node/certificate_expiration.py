"""ExpirationTimers: close links when the peer's certificate expires (`close_link_on_expiration`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from zenspark.errors import CloseReason
from zenspark.net.io.link_driver import ConnectionDriver
from zenspark.net.loop.event_loop import EventLoop, Timer

logger = logging.getLogger("zenspark.net")

MAX_CHECK_SECONDS = 60.0
"""Longest time between two reads of the wall clock: it may be set, which a monotonic timer does not see."""


class ExpirationTimers:
    """One timer for each link whose certificate expires; all methods are called in the loop."""

    def __init__(self, loop: EventLoop, wall_clock: Callable[[], float] = time.time) -> None:
        self._loop = loop
        self._wall_clock = wall_clock
        self._timers: dict[ConnectionDriver, Timer] = {}

    def watch(self, driver: ConnectionDriver) -> None:
        """Close a link when its certificate expires, if that is configured."""
        expires_at = driver.link.expires_at
        if expires_at is not None:
            self._check(driver, expires_at)

    def cancel(self, driver: ConnectionDriver) -> None:
        """Cancel the timer of a link that has ended."""
        timer = self._timers.pop(driver, None)
        if timer is not None:
            timer.cancel()

    def _check(self, driver: ConnectionDriver, expires_at: float) -> None:
        left = expires_at - self._wall_clock()
        if left > 0:
            when = self._loop.now() + min(left, MAX_CHECK_SECONDS)
            self._timers[driver] = self._loop.call_at(when, lambda: self._check(driver, expires_at))
            return
        self._timers.pop(driver, None)
        name = driver.link.auth_identifier or "none"
        logger.warning(
            "closing session with %s: its certificate has expired (common name %s); renew it", driver.neighbour, name
        )
        driver.end_session(CloseReason.EXPIRED, "the certificate has expired")
