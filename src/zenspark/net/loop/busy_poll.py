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

LONGEST = 250e-6
"""Seconds to look: longer than an answer takes if both sides have to be woken, so that an exchange can become quick."""
TRUST = 8
"""So many looks in vain more than others end it,"""
EVERY = 32
"""and with every so many exchanges it is tried again."""


def look(descriptor: cython.int, seconds: cython.double) -> bool:
    """Whether something happens, within so many seconds, on what an epoll descriptor watches.

    Interpreted it says no at once: whoever looked would keep the lock from those it waits for.
    """
    found: cython.int = 0
    if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
        with cython.nogil:
            found = look_until(descriptor, seconds)
    return bool(found)


class Looking:
    """Decides whether to look, by what that brought lately."""

    def __init__(self, look: Callable[[int, float], bool] = look) -> None:
        self._look = look
        self._trust = 0
        self._exchanges = 0
        self.is_due = False
        """Whether to look before falling asleep."""

    def expect(self) -> None:
        """Somebody answered, and may soon say more."""
        self._exchanges += 1
        self.is_due = self._trust > 0 or self._exchanges % EVERY == 0

    def finds(self, descriptor: int, timeout: float) -> bool:
        """Look, for no longer than a timeout, negative if there is none; whether there is something to do."""
        self.is_due = False
        found = self._look(descriptor, LONGEST if timeout < 0 else min(LONGEST, timeout))
        self._trust = min(self._trust + 1, TRUST) if found else max(self._trust - 1, 0)
        return found
