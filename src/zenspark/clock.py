"""The hybrid logical clock: physical time that never runs backwards and never repeats.

A reading is an NTP64: 32 bits of seconds since the Unix epoch, 32 bits of fraction. The low four bits count
events that fall into the same physical reading, so two stamps of one clock are never equal. The time source is
passed in; this module never asks what time it is.
"""

from __future__ import annotations

NANOS_PER_SECOND = 1_000_000_000
COUNTER_MASK = 0xF
MAX_DRIFT_NS = 500_000_000
"""Stamps further ahead than this are refused: one wrong clock must not drag every other into the future."""


def ntp64_from_ns(nanoseconds: int) -> int:
    """The NTP64 of a Unix time in nanoseconds, rounded down."""
    seconds, rest = divmod(nanoseconds, NANOS_PER_SECOND)
    return (seconds << 32) | ((rest << 32) // NANOS_PER_SECOND)


def ns_from_ntp64(ntp64: int) -> int:
    """The Unix time in nanoseconds of an NTP64, rounded to the nearest, so that nanoseconds survive a round trip."""
    fraction = (ntp64 & 0xFFFF_FFFF) * NANOS_PER_SECOND
    return (ntp64 >> 32) * NANOS_PER_SECOND + ((fraction + (1 << 31)) >> 32)


class HybridClock:
    """One node's clock: stamps what it sends, learns from what it receives."""

    def __init__(self, max_drift_ns: int = MAX_DRIFT_NS) -> None:
        self._last = 0
        self._max_drift = ntp64_from_ns(max_drift_ns)

    def stamp(self, now_ns: int) -> int:
        """A reading greater than every earlier one."""
        now = ntp64_from_ns(now_ns) & ~COUNTER_MASK
        self._last = now if now > self._last & ~COUNTER_MASK else self._last + 1
        return self._last

    def stamps(self, count: int, now_ns: int) -> range:
        """Many readings, each greater than every earlier one."""
        first = self.stamp(now_ns)
        self._last += count - 1
        return range(first, first + count)

    def observe(self, stamp: int, now_ns: int) -> bool:
        """Learn of a stamp made elsewhere; False, and nothing learned, if it is too far in the future."""
        now = ntp64_from_ns(now_ns) & ~COUNTER_MASK
        if stamp > now and stamp - now > self._max_drift:
            return False
        newest = max(now, stamp, self._last)
        self._last = newest if newest == now else newest + 1
        return True
