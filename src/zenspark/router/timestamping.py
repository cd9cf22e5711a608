"""Timestamps of forwarded publications: protocol section 1.4.

A PUT without a timestamp gets that of its PUSH (extension 0x2), or else one of this node; a plausible timestamp is kept
and advances the clock; a PUT with a timestamp too far in the future is timestamped anew or dropped. A DEL is left
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from zenspark.clock import HybridClock
from zenspark.wire.columns import PushColumns
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Push, Put
from zenspark.wire.values import Timestamp, ZenohId


class TimestampPolicy:
    """Adds timestamps to forwarded publications. `wall` returns the time in nanoseconds since the Unix epoch."""

    def __init__(self, zid: ZenohId, clock: HybridClock, wall: Callable[[], int], drops_future: bool = False) -> None:
        self.clock = clock
        self._zid = zid
        self._wall = wall
        self._drops_future = drops_future

    def timestamp(self, push: Push) -> Push | None:
        """The publication to forward, with a timestamp; None to drop it."""
        body = push.body
        if not isinstance(body, Put):
            return push
        now = self._wall()
        received = push.timestamp if body.timestamp is None else body.timestamp
        if received is not None:
            if self.clock.observe(received.ntp64, now):
                return push if received is body.timestamp else replace(push, body=replace(body, timestamp=received))
            if self._drops_future:
                return None
        timestamp = Timestamp(self.clock.new_timestamp(now), self._zid)
        return replace(push, body=replace(body, timestamp=timestamp))

    def timestamp_rows(self, columns: PushColumns, start: int, stop: int, selected: bytes) -> bool:
        """Add timestamps to the rows of `selected` templates; False, without effect, if one is too far ahead."""
        now = self._wall()
        newest, missing = columns.timestamp_summary(start, stop, selected)
        if newest and not self.clock.observe(newest, now):
            return False
        if missing:
            columns.assign_timestamps(start, stop, selected, self.clock.new_timestamps(missing, now).start)
        return True
