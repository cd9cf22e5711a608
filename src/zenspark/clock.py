"""Hybrid logical clock: physical time that is strictly monotonic.

A reading is an NTP64: 32 bits of seconds since the Unix epoch, 32 bits of fraction. The low four bits count events
within the same physical reading, so two timestamps of one clock are never equal. The current time is an argument; this
module never reads a system clock.
"""

from __future__ import annotations

NANOS_PER_SECOND = 1_000_000_000
NTP64_PER_SECOND = 1 << 32
"""Units of an NTP64 in a second."""
NTP64_MAX_SECONDS = 1 << 32
"""Seconds since 1970 from which on a time has no NTP64: it ends in 2106."""
COUNTER_MASK = 0xF
MAX_DRIFT_NS = 500_000_000
"""Timestamps further ahead than this are rejected: one wrong clock must not drag every other into the future."""


def ntp64_from_ns(nanoseconds: int) -> int:
    """Convert a Unix time in nanoseconds to NTP64, rounded down."""
    seconds, rest = divmod(nanoseconds, NANOS_PER_SECOND)
    return (seconds << 32) | ((rest << 32) // NANOS_PER_SECOND)


def ns_from_ntp64(ntp64: int) -> int:
    """Convert NTP64 to a Unix time in nanoseconds, rounded to the nearest, so that nanoseconds survive a round trip."""
    fraction = (ntp64 & 0xFFFF_FFFF) * NANOS_PER_SECOND
    return (ntp64 >> 32) * NANOS_PER_SECOND + ((fraction + (1 << 31)) >> 32)


class HybridClock:
    """Clock of one node: timestamps outgoing samples, and advances with received timestamps."""

    def __init__(self, max_drift_ns: int = MAX_DRIFT_NS) -> None:
        self._last = 0
        self._max_drift = ntp64_from_ns(max_drift_ns)

    def new_timestamp(self, now_ns: int) -> int:
        """Return a new timestamp, greater than every earlier one."""
        now = ntp64_from_ns(now_ns) & ~COUNTER_MASK
        self._last = now if now > self._last & ~COUNTER_MASK else self._last + 1
        return self._last

    def new_timestamps(self, count: int, now_ns: int) -> range:
        """Return `count` new timestamps, each greater than every earlier one."""
        first = self.new_timestamp(now_ns)
        self._last += count - 1
        return range(first, first + count)

    def observe(self, timestamp: int, now_ns: int) -> bool:
        """Advance the clock to a received timestamp; False, without effect, if it is too far in the future."""
        now = ntp64_from_ns(now_ns) & ~COUNTER_MASK
        if timestamp > now and timestamp - now > self._max_drift:
            return False
        newest = max(now, timestamp, self._last)
        self._last = newest if newest == now else newest + 1
        return True
