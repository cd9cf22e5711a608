"""Forwarding backpressure of backlogged links: drops messages or pauses their sources, and closes slow consumers.

The loop cannot wait, so forwarded messages would pile up. While the link to a target is backlogged, publications that
may be dropped are dropped and counted, and so are responses with Drop; a response without a QoS is not dropped. For
everything else (other publications, requests, responses, declarations, link states) reading from the source is paused
until the link has drained, which slows the source down in turn. Of the publications of a source with BlockFirst one is
forwarded in this way, and the others are dropped until the link has drained.

Every link to one neighbour with unsent bytes has a stall timer (`_check_stalled`), also one that only this session
publishes to. If the neighbour takes no bytes for `wait_before_close` seconds, its session is closed, by
`LinkDriver.close_slow_consumer`, if sources are paused for it, its backlog is large, or the unsent bytes of all such
links exceed MAX_TOTAL_BACKLOG_BYTES. Before that, at half of the time, the link itself is read again if it was paused:
two neighbours may each wait for the other to be read. All of this runs in the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from zenspark.net.io.congestion_control import WriterSettings, describe_stall
from zenspark.net.io.counters import DropReason
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.io.writer import BACKLOG_HIGH_WATER_BYTES
from zenspark.net.loop.event_loop import EventLoop, Timer
from zenspark.router.forwarding.plans import NeighbourPlan
from zenspark.wire.columns import NO_LANE, PushRun
from zenspark.wire.messages import NetworkMessage, Push, Response
from zenspark.wire.values import Congestion

MAX_STALLED_BACKLOG_BYTES = 2 * BACKLOG_HIGH_WATER_BYTES
"""Unsent bytes of a link that takes nothing, beyond which it is closed although no source is paused for it. A little
more than what droppable publications fill it with: a subscriber that pauses loses those, and keeps its session."""
MAX_TOTAL_BACKLOG_BYTES = 1 << 28
"""Unsent bytes of all links with a stall timer together, beyond which each link that takes nothing is closed."""


RowRange = tuple[int, int, bytes]
"""Rows `start` to `stop`, and the lane of each of their templates."""


class ForwardingBackpressure:
    """The backlogged links of a node, and the sources that are paused for each."""

    def __init__(self, loop: EventLoop, settings: WriterSettings) -> None:
        self._loop = loop
        self._settings = settings
        self._paused_sources: dict[LinkDriver, set[LinkDriver]] = {}
        """The sources that are paused until a link has drained, by link."""
        self._block_first_sources: dict[LinkDriver, set[LinkDriver]] = {}
        """The sources of which a publication with BlockFirst was forwarded to a backlogged link, by link."""
        self._stall_timers: dict[LinkDriver, Timer] = {}
        """The timer of each link with unsent bytes that checks whether it has taken some of them."""
        self._exempt_from_pause: set[LinkDriver] = set()
        """Links that are read although they are sources of a backlogged link: two neighbours that each wait until the
        other reads would wait for ever."""

    def pause_source_or_drop(self, source: LinkDriver | None, target: LinkDriver, message: NetworkMessage) -> bool:
        """Pause the source of a message for a backlogged link, or drop the message; returns whether to send it.

        A message of the local session, which has waited itself, has no source.
        """
        if isinstance(message, Response) and message.qos is not None and message.qos.congestion is Congestion.DROP:
            target.count_dropped(DropReason.CONGESTION)
            return False
        if source is None:
            return True
        congestion = message.qos.congestion if isinstance(message, Push) else Congestion.BLOCK
        if congestion is Congestion.DROP or (
            congestion is Congestion.BLOCK_FIRST and not self._claim_block_first(source, target)
        ):
            target.count_dropped(DropReason.CONGESTION)
            return False
        self.pause_source(source, target)
        return True

    def _claim_block_first(self, source: LinkDriver, target: LinkDriver) -> bool:
        """Claim the one publication with BlockFirst of a source that is forwarded until a target has drained; False if
        it is claimed already."""
        sources = self._block_first_sources.setdefault(target, set())
        if source in sources:
            return False
        sources.add(source)
        return True

    def select_rows(
        self, source: LinkDriver, target: LinkDriver, plan: NeighbourPlan, pushes: PushRun
    ) -> Sequence[RowRange]:
        """Return the rows of a run that are forwarded to a target now."""
        if not target.is_backlogged:
            return ((pushes.start, pushes.stop, bytes(plan.lanes)),)
        first = self._claim_block_first_row(source, target, plan, pushes)
        dropped = _count_droppable(plan, pushes) - (first is not None)
        if dropped:
            target.count_dropped(DropReason.CONGESTION, dropped)
        if first is not None or any(lane != NO_LANE for lane in plan.undroppable_lanes):
            self.pause_source(source, target)
        undroppable = bytes(plan.undroppable_lanes)
        if first is None:
            return ((pushes.start, pushes.stop, undroppable),)
        lanes = bytes(
            plan.lanes[index] if index in plan.block_first else lane for index, lane in enumerate(undroppable)
        )
        return ((pushes.start, first + 1, lanes), (first + 1, pushes.stop, undroppable))

    def _claim_block_first_row(
        self, source: LinkDriver, target: LinkDriver, plan: NeighbourPlan, pushes: PushRun
    ) -> int | None:
        """Claim and return the first row with BlockFirst; None if one of this source was forwarded already."""
        template_index = pushes.columns.template_index
        rows = range(pushes.start, pushes.stop) if plan.block_first else ()
        first = next((row for row in rows if template_index[row] in plan.block_first), None)
        return first if first is not None and self._claim_block_first(source, target) else None

    def pause_source(self, source: LinkDriver, target: LinkDriver) -> None:
        """Pause reading from a source until a target has drained or is closed."""
        sources = self._paused_sources.setdefault(target, set())
        self.start_stall_timer(target)
        if source not in self._exempt_from_pause or target.backlog > self._settings.max_backlog // 2:
            sources.add(source)
            source.pause(target)

    def resume_sources(self, target: LinkDriver) -> None:
        """Resume the sources that were paused for a link that has drained."""
        for source in self._paused_sources.pop(target, ()):
            source.resume(target)
        self._block_first_sources.pop(target, None)
        self._exempt_from_pause.discard(target)

    def remove(self, driver: LinkDriver) -> None:
        """Remove a link that has ended, as target and as source."""
        self.resume_sources(driver)
        timer = self._stall_timers.pop(driver, None)
        if timer is not None:
            timer.cancel()
        for sources in (*self._paused_sources.values(), *self._block_first_sources.values()):
            sources.discard(driver)

    def start_stall_timer(self, target: LinkDriver) -> None:
        """Start to check whether a link takes its unsent bytes, to close it if it does not."""
        if target not in self._stall_timers:
            self._check_stalled_later(target, idle_checks=0)

    def _check_stalled_later(self, target: LinkDriver, idle_checks: int) -> None:
        """Check a link after half of `wait_before_close`; its last `idle_checks` checks found no progress."""
        check = partial(self._check_stalled, target, target.bytes_sent, idle_checks + 1)
        self._stall_timers[target] = self._loop.call_at(self._loop.now() + self._settings.wait_before_close / 2, check)

    def _check_stalled(self, target: LinkDriver, bytes_sent: int, idle_checks: int) -> None:
        del self._stall_timers[target]
        target.retry_from_loop()
        if not target.backlog:
            return
        if target.bytes_sent != bytes_sent:
            self._exempt_from_pause.discard(target)
            idle_checks = 0
        elif idle_checks == 1:
            self._resume_reading(target)
        elif self._must_close(target):
            target.close_slow_consumer(describe_stall(self._settings.wait_before_close))
            return
        self._check_stalled_later(target, idle_checks)

    def _resume_reading(self, driver: LinkDriver) -> None:
        """Resume reading from a link that takes nothing: it may be waiting for that."""
        self._exempt_from_pause.add(driver)
        for target, sources in self._paused_sources.items():
            if driver in sources:
                sources.discard(driver)
                driver.resume(target)

    def _must_close(self, target: LinkDriver) -> bool:
        """Return whether a neighbour that takes nothing is a slow consumer."""
        total = target.backlog + sum(driver.backlog for driver in self._stall_timers)
        return (
            target in self._paused_sources
            or target.backlog > MAX_STALLED_BACKLOG_BYTES
            or total > MAX_TOTAL_BACKLOG_BYTES
        )


def _count_droppable(plan: NeighbourPlan, pushes: PushRun) -> int:
    """Return the number of rows of a run that may be dropped."""
    droppable = {index for index, lane in enumerate(plan.lanes) if lane != plan.undroppable_lanes[index]}
    if len(droppable) == len(plan.lanes):
        return pushes.stop - pushes.start
    return (
        sum(map(droppable.__contains__, pushes.columns.template_index[pushes.start : pushes.stop])) if droppable else 0
    )
