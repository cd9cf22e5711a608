"""Resting for a moment while much comes in, so that the next read brings more of it.

What a read costs besides copying is nearly the same for two messages as for ten. Whoever reads faster than the other
side writes would read every few messages by themselves, and on a machine with few processors take the time from
whoever writes or works on them. So in a flow, one large read after the other while nothing is said, the loop sleeps a
moment before it reads again. It never does so in an exchange, nor while reads find as much as they have room for.
"""

from __future__ import annotations

READ_DELAY_SECONDS = 200e-6
"""Seconds to rest."""
BULK_READ_BYTES = 1 << 16
"""Bytes of a read from which on it can be one of a flow;"""
BULK_READS_TO_START = 8
"""how many of them make one;"""
BULK_GAP_SECONDS = 1e-3
"""and seconds without one that end it."""


class ReadCoalescer:
    """What was read from one link lately."""

    __slots__ = ("_at", "_reads", "_said")

    def __init__(self) -> None:
        self._reads = 0
        self._at = 0.0
        self._said = 0

    def should_delay_next_read(self, count: int, room: int, said: int, now: float) -> bool:
        """After a read of so many bytes where there was room for more: whether the next had better come later.

        `said` is how much was written so far.
        """
        goes_on = count >= BULK_READ_BYTES and said == self._said and now - self._at < BULK_GAP_SECONDS
        self._reads = self._reads + 1 if goes_on else 0
        self._at, self._said = now, said
        return self._reads >= BULK_READS_TO_START and count < room
