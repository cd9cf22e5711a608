"""Read coalescing: during bulk receive, delay the next read by 200 µs so that each read returns more data.

The cost of a read besides copying is nearly the same for two messages as for ten. A node that reads faster than its
peer writes would read every few messages one by one, and on a machine with few processors take time from the threads
that write or process them. So in bulk (one large read after the other while nothing is sent) the loop sleeps a moment
before it reads again. It never does so in request/reply traffic, nor while reads fill their buffer.
"""

from __future__ import annotations

READ_DELAY_SECONDS = 200e-6
"""Delay of the next read in bulk."""
BULK_READ_BYTES = 1 << 16
"""Size from which on a read counts as bulk."""
BULK_READS_TO_START = 8
"""Successive bulk reads after which the next one is delayed."""
BULK_GAP_SECONDS = 1e-3
"""Time between two reads that ends the bulk."""


class ReadCoalescer:
    """Detects bulk receive on one link."""

    __slots__ = ("_last_read", "_reads", "_sent")

    def __init__(self) -> None:
        self._reads = 0
        self._last_read = 0.0
        self._sent = 0

    def should_delay_next_read(self, count: int, capacity: int, sent: int, now: float) -> bool:
        """Return whether the next read should be delayed, after one of `count` bytes into a buffer of `capacity`.

        `sent` is the number of bytes sent so far on the link.
        """
        is_bulk = count >= BULK_READ_BYTES and sent == self._sent and now - self._last_read < BULK_GAP_SECONDS
        self._reads = self._reads + 1 if is_bulk else 0
        self._last_read, self._sent = now, sent
        return self._reads >= BULK_READS_TO_START and count < capacity
