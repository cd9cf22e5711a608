"""Timestamps of publications that pass a node: protocol.md section 1.4.

A PUT without a timestamp gets that of its PUSH (extension 0x2), or else one of this node; one with a plausible
timestamp keeps it, and the clock learns from it; one stamped too far in the future is stamped anew or dropped. A DEL is
left as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from zenspark.clock import HybridClock
from zenspark.wire.columns import Columns
from zenspark.wire.declare import replace
from zenspark.wire.messages import Push, Put
from zenspark.wire.values import Timestamp, ZenohId


class TimestampPolicy:
    """A node's clock, where publications pass. `wall` tells the time in nanoseconds since the Unix epoch."""

    def __init__(self, zid: ZenohId, clock: HybridClock, wall: Callable[[], int], drops_future: bool = False) -> None:
        self.clock = clock
        self._zid = zid
        self._wall = wall
        self._drops_future = drops_future

    def timestamp(self, push: Push) -> Push | None:
        """A publication as it goes on from here; None if it does not."""
        body = push.body
        if not isinstance(body, Put):
            return push
        now = self._wall()
        given = push.timestamp if body.timestamp is None else body.timestamp
        if given is not None:
            if self.clock.observe(given.ntp64, now):
                return push if given is body.timestamp else replace(push, body=replace(body, timestamp=given))
            if self._drops_future:
                return None
        stamp = Timestamp(self.clock.stamp(now), self._zid)
        return replace(push, body=replace(body, timestamp=stamp))

    def timestamp_rows(self, columns: Columns, start: int, stop: int, wanted: bytes) -> bool:
        """The same for the rows of `wanted` shapes, all at once; False, and nothing done, if one is of the future."""
        now = self._wall()
        newest, missing = columns.stamps(start, stop, wanted)
        if newest and not self.clock.observe(newest, now):
            return False
        if missing:
            columns.stamp(start, stop, wanted, self.clock.stamps(missing, now).start)
        return True
