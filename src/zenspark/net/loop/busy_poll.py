"""Adaptive busy polling: spin on epoll for up to 250 µs before sleeping, while request/reply traffic is detected.

On an idle machine the wake-up of a sleeping processor takes longer than most replies. So in an exchange of small
messages the loop does not sleep at once, but polls again and again, without the GIL, and yields its processor to every
other thread that can run. It does so only while most polls find something; otherwise it probes now and then, which
costs little.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
    from cython.cimports.zenspark.net.loop.busy_poll import busy_poll_until

MAX_BUSY_POLL_SECONDS = 250e-6
"""Longest busy poll: longer than a reply takes if both processors have to wake up, so that exchanges get faster."""
MAX_BUSY_POLL_SCORE = 8
"""Maximum of the score, which rises by one with a hit and falls by one with a miss; polling is disabled at 0."""
PROBE_INTERVAL_EXCHANGES = 32
"""Exchanges after which a disabled poller polls once, to see whether it succeeds again."""


def poll_for(descriptor: cython.int, seconds: cython.double) -> bool:
    """Return whether an epoll descriptor has an event within `seconds`.

    Interpreted it returns False at once: polling would keep the GIL from the threads it waits for.
    """
    count: cython.int = 0
    if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
        with cython.nogil:
            count = busy_poll_until(descriptor, seconds)
    return bool(count)


class BusyPoller:
    """Decides whether to poll before sleeping, by the results of recent polls."""

    def __init__(self, poll: Callable[[int, float], bool] = poll_for) -> None:
        self._poll = poll
        self._score = 0
        self._exchanges = 0
        self.should_poll = False
        """Whether to poll before the loop sleeps."""

    def count_exchange(self) -> None:
        """Count a small read after this node has sent: the peer's next message may follow soon."""
        self._exchanges += 1
        self.should_poll = self._score > 0 or self._exchanges % PROBE_INTERVAL_EXCHANGES == 0

    def poll(self, descriptor: int, timeout: float) -> bool:
        """Poll for at most `timeout` seconds, negative for no limit; returns whether there is an event."""
        self.should_poll = False
        seconds = MAX_BUSY_POLL_SECONDS if timeout < 0 else min(MAX_BUSY_POLL_SECONDS, timeout)
        is_hit = self._poll(descriptor, seconds)
        self._score = min(self._score + 1, MAX_BUSY_POLL_SCORE) if is_hit else max(self._score - 1, 0)
        return is_hit
