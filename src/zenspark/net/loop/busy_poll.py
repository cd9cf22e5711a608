"""Looking at the network for a moment instead of falling asleep, while two sides answer each other.

On a machine with nothing else to do, being woken takes longer than most answers: a processor that has gone to sleep
must wake up first. So in an exchange of small messages the loop does not sleep at once, but looks again and again,
without Python's lock, and gives way to every other thread that could run on its processor. It does so only as long as
most looks find something; otherwise it tries again now and then, which costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
    from cython.cimports.zenspark.net.loop.busy_poll import look_until

MAX_BUSY_POLL_SECONDS = 250e-6
"""Seconds to look: longer than an answer takes if both sides have to be woken, so that an exchange can become quick."""
MISSES_BEFORE_DISABLE = 8
"""So many looks in vain more than others end it,"""
PROBE_INTERVAL_EXCHANGES = 32
"""and with every so many exchanges it is tried again."""


def poll_for(descriptor: cython.int, seconds: cython.double) -> bool:
    """Whether something happens, within so many seconds, on what an epoll descriptor watches.

    Interpreted it says no at once: whoever looked would keep the lock from those it waits for.
    """
    found: cython.int = 0
    if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
        with cython.nogil:
            found = look_until(descriptor, seconds)
    return bool(found)


class BusyPoller:
    """Decides whether to look, by what that brought lately."""

    def __init__(self, poll: Callable[[int, float], bool] = poll_for) -> None:
        self._poll = poll
        self._hits = 0
        self._exchanges = 0
        self.should_poll = False
        """Whether to look before falling asleep."""

    def note_reply(self) -> None:
        """Somebody answered, and may soon say more."""
        self._exchanges += 1
        self.should_poll = self._hits > 0 or self._exchanges % PROBE_INTERVAL_EXCHANGES == 0

    def poll(self, descriptor: int, timeout: float) -> bool:
        """Look, for no longer than a timeout, negative if there is none; whether there is something to do."""
        self.should_poll = False
        found = self._poll(descriptor, MAX_BUSY_POLL_SECONDS if timeout < 0 else min(MAX_BUSY_POLL_SECONDS, timeout))
        self._hits = min(self._hits + 1, MISSES_BEFORE_DISABLE) if found else max(self._hits - 1, 0)
        return found
