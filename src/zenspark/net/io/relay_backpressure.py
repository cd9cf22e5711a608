"""Holding back: what happens when a node hears faster from one neighbour than another takes.

The loop cannot wait, so what it passes on would pile up. Where a link is behind, publications that may be dropped are
dropped and counted; for everything else (publications that may not, requests, responses, declarations, link states) the
neighbour it came from is not read any more until there is room, which slows it down in turn. Of the publications of a
neighbour with BlockFirst one is treated in this way, and the others are dropped as long as it waits.

A neighbour that takes nothing for `wait_before_close` although others wait for it, or much waits, is given up. Before
that, at half of the time, it is read again if it is itself held back: two neighbours may wait for each other, each for
the other to be read. All of this runs in the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from zenspark.errors import CloseReason
from zenspark.net.io.congestion import WriterSettings
from zenspark.net.io.counters import DropReason
from zenspark.net.io.driver import LinkDriver
from zenspark.net.io.writer import BACKLOG_LIMIT_BYTES
from zenspark.net.loop.event_loop import EventLoop, Timer
from zenspark.router.routing.forwarding import PeerPlan
from zenspark.transport.receiver import PushRun
from zenspark.wire.columns import NO_LANE
from zenspark.wire.messages import NetworkMessage, Push
from zenspark.wire.values import Congestion

MAX_STALLED_BACKLOG_BYTES = 2 * BACKLOG_LIMIT_BYTES
"""Bytes that may wait for a link that takes nothing, if nobody waits for it: a little more than droppable publications
fill it with, so that a subscriber that pauses for a while misses those, and keeps its session."""
MAX_TOTAL_BACKLOG_BYTES = 1 << 28
"""Bytes that may wait for all such links together: beyond, each that takes nothing is given up."""


RowRange = tuple[int, int, bytes]
"""Rows `start` to `stop`, and for each of their shapes the lane in which they go on."""


class RelayBackpressure:
    """Which links are behind with what was passed on to them, and which are not read because of that."""

    def __init__(self, loop: EventLoop, patience: WriterSettings) -> None:
        self._loop = loop
        self._settings = patience
        self._paused_sources: dict[LinkDriver, set[LinkDriver]] = {}
        """The links that are behind, and those that are not read until they have room."""
        self._block_first_sources: dict[LinkDriver, set[LinkDriver]] = {}
        """The links that are behind, and those from which a publication with BlockFirst waits there."""
        self._stall_timers: dict[LinkDriver, Timer] = {}
        """The links for which something waits, and when to look whether they took any of it."""
        self._exempt: set[LinkDriver] = set()
        """Links that are read although others are behind: perhaps they take nothing because they are not read."""

    def may_forward(self, source: LinkDriver | None, target: LinkDriver, message: NetworkMessage) -> bool:
        """Whether a message still goes to a link that is behind; its source is not read any more if it has one."""
        if source is None:
            return True
        if isinstance(message, Push) and self._may_drop(source, target, message.qos.congestion):
            target.drop(DropReason.CONGESTION)
            return False
        self.pause_source(source, target)
        return True

    def _may_drop(self, source: LinkDriver, target: LinkDriver, congestion: Congestion) -> bool:
        """Whether a publication for a link that is behind is dropped; the first with BlockFirst waits from now on."""
        if congestion is not Congestion.BLOCK_FIRST:
            return congestion is Congestion.DROP
        sources = self._block_first_sources.setdefault(target, set())
        is_second = source in sources
        sources.add(source)
        return is_second

    def select_rows(
        self, source: LinkDriver, target: LinkDriver, share: PeerPlan, pushes: PushRun
    ) -> Sequence[RowRange]:
        """Which rows may go on now of a neighbour's share of publications in columns."""
        if not target.is_backlogged:
            return ((pushes.start, pushes.stop, bytes(share.lanes)),)
        first = self._find_block_first_row(source, target, share, pushes)
        dropped = _count_droppable(share, pushes) - (first is not None)
        if dropped:
            target.drop(DropReason.CONGESTION, dropped)
        if first is not None or any(lane != NO_LANE for lane in share.blocking):
            self.pause_source(source, target)
        blocking = bytes(share.blocking)
        if first is None:
            return ((pushes.start, pushes.stop, blocking),)
        lanes = bytes(share.lanes[index] if index in share.block_first else lane for index, lane in enumerate(blocking))
        return ((pushes.start, first + 1, lanes), (first + 1, pushes.stop, blocking))

    def _find_block_first_row(
        self, source: LinkDriver, target: LinkDriver, share: PeerPlan, pushes: PushRun
    ) -> int | None:
        """The row with BlockFirst that waits from now on, if none does already."""
        shapes = pushes.columns.shape
        rows = range(pushes.start, pushes.stop) if share.block_first else ()
        first = next((row for row in rows if shapes[row] in share.block_first), None)
        if first is None or self._may_drop(source, target, Congestion.BLOCK_FIRST):
            return None
        return first

    def pause_source(self, source: LinkDriver, target: LinkDriver) -> None:
        """Read nothing more from one neighbour until another has taken what it was sent, or is given up."""
        sources = self._paused_sources.setdefault(target, set())
        self.start_stall_timer(target)
        if source not in self._exempt or target.backlog > self._settings.max_backlog // 2:
            sources.add(source)
            source.pause(target)

    def release_sources(self, target: LinkDriver) -> None:
        """A neighbour has room."""
        for source in self._paused_sources.pop(target, ()):
            source.resume(target)
        self._block_first_sources.pop(target, None)
        self._exempt.discard(target)

    def remove(self, pump: LinkDriver) -> None:
        """A link has ended: nobody waits for it, and nobody is held back on it."""
        self.release_sources(pump)
        look = self._stall_timers.pop(pump, None)
        if look is not None:
            look.cancel()
        for sources in (*self._paused_sources.values(), *self._block_first_sources.values()):
            sources.discard(pump)

    def start_stall_timer(self, target: LinkDriver) -> None:
        """See to it that a link takes what waits for it, or is given up."""
        if target not in self._stall_timers:
            self._check_stalled_later(target, halves=0)

    def _check_stalled_later(self, target: LinkDriver, halves: int) -> None:
        """Look after half of `wait_before_close`, at a link that has taken nothing for so many halves."""
        look = partial(self._check_stalled, target, target.bytes_sent, halves + 1)
        self._stall_timers[target] = self._loop.call_at(self._loop.now() + self._settings.block_wait / 2, look)

    def _check_stalled(self, target: LinkDriver, taken: int, halves: int) -> None:
        del self._stall_timers[target]
        target.retry_write()
        if not target.backlog:
            return
        if target.bytes_sent != taken:
            self._exempt.discard(target)
            halves = 0
        elif halves == 1:
            self._resume_reading(target)
        elif self._must_close(target):
            target.close(CloseReason.UNRESPONSIVE, f"took nothing for {self._settings.block_wait:g} s")
            return
        self._check_stalled_later(target, halves)

    def _resume_reading(self, pump: LinkDriver) -> None:
        """Read from a link that takes nothing: it may be waiting for that."""
        self._exempt.add(pump)
        for target, sources in self._paused_sources.items():
            if pump in sources:
                sources.discard(pump)
                pump.resume(target)

    def _must_close(self, target: LinkDriver) -> bool:
        total = target.backlog + sum(pump.backlog for pump in self._stall_timers)
        return (
            target in self._paused_sources
            or target.backlog > MAX_STALLED_BACKLOG_BYTES
            or total > MAX_TOTAL_BACKLOG_BYTES
        )


def _count_droppable(share: PeerPlan, pushes: PushRun) -> int:
    """How many rows of a share may be dropped."""
    shapes = {index for index, lane in enumerate(share.lanes) if lane != share.blocking[index]}
    if len(shapes) == len(share.lanes):
        return pushes.stop - pushes.start
    return sum(map(shapes.__contains__, pushes.columns.shape[pushes.start : pushes.stop])) if shapes else 0
