"""Room: which receivers of a session have none left, which links are not read because of that, and who waits for it.

A receiver that is full answers no when something is delivered. What came from a neighbour is slowed down by not
reading that link until the receiver has room again. What this session published, asked or answered itself is slowed
down by making that thread wait, as eclipse-zenoh does; but never without end, because the thread that waits may be the
very one that is to receive, now or later. When nothing was taken for a while it goes on, and what comes on top is
kept up to a limit and then dropped with a warning.

Replies come over the same links as publications. So while this session waits for replies, receivers may borrow: links
are read although somebody is full, up to a limit. Otherwise a callback that asks something would wait for a reply
behind what it has not received yet. A receiver of replies borrows only for other questions than its own. The same goes
for a callback that waits for room on a link: its peer may be waiting for us to read.

All of this is guarded by the node's lock, except that nobody waits with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any, TypeAlias

from zenspark.handlers.channel import CallbackRunner, Channel
from zenspark.handlers.handler import DeliverySink
from zenspark.net.io.driver import LinkDriver
from zenspark.net.io.writer import nonblocking
from zenspark.net.node.node import Node
from zenspark.router.face import Face

logger = logging.getLogger("zenspark")

BoundedSink: TypeAlias = Channel | CallbackRunner
"""The receivers that may be full."""

STALL_TIMEOUT_SECONDS = 1.0
"""Seconds in which nothing is taken, after which nobody waits for that any more."""
MAX_BACKLOG_FACTOR = 64
"""How many times what it has room for a receiver may hold where the alternative is that nothing goes on."""
MAX_EXCESS_ITEMS = 1 << 14
"""How many items more than it has room for a receiver may hold at most: a query that waits takes about 1 kB."""
READ_CREDIT_BYTES = 1 << 25
"""Bytes that are read at most from a link for somebody who is full."""
RECHECK_SECONDS = 0.01
"""Seconds between looks at whether anything was taken: only much room is announced."""


class ReceiveBackpressure:
    """The room that the receivers of one session have."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._full: dict[BoundedSink, set[LinkDriver]] = {}
        """Who has no room, and the links that are not read for that."""
        self._credits: dict[BoundedSink, dict[LinkDriver, int]] = {}
        """Who borrows, and how much each link had brought before."""
        self._pending_queries = 0
        node.on_block = self._blocked

    # -- what comes from neighbours

    def on_full(self, sink: DeliverySink[Any], face: Face, own_questions: int = 0) -> None:
        """A receiver is full of what a neighbour said; `own_queries` are those whose replies it receives."""
        driver = self._node.driver(face)
        if driver is None or not isinstance(sink, Channel | CallbackRunner):
            return
        if self._pending_queries > own_questions and self._grant_credit(sink, driver):
            return
        self._full.setdefault(sink, set()).add(driver)
        driver.pause(sink)

    def _grant_credit(self, sink: BoundedSink, driver: LinkDriver) -> bool:
        """Whether a link may be read although a receiver is full."""
        before = self._credits.setdefault(sink, {}).setdefault(driver, driver.received)
        return not _is_over_backlog_limit(sink) and driver.received - before < READ_CREDIT_BYTES

    def on_drained(self, sink: BoundedSink) -> None:
        """A receiver has room again, or is gone."""
        with self._node.lock:
            for driver in self._full.pop(sink, ()):
                driver.resume(sink)
            self._credits.pop(sink, None)
            sink.is_stalled = False
            self._node.wake()

    def remove(self, sink: DeliverySink[Any]) -> None:
        """Nothing more is delivered there."""
        if isinstance(sink, Channel | CallbackRunner) and (sink in self._full or sink in self._credits):
            self.on_drained(sink)

    def query_started(self) -> None:
        """A question is in flight, or something else for which links must be read."""
        self._pending_queries += 1
        for sink, drivers in self._full.items():
            for driver in [one for one in drivers if self._grant_credit(sink, one)]:
                drivers.discard(driver)
                driver.resume(sink)

    def query_finished(self) -> None:
        """It is over."""
        self._pending_queries -= 1

    def _blocked(self, waits: bool) -> None:
        """A callback begins or ends to wait for room on a link."""
        with self._node.lock:
            if waits:
                self.query_started()
            else:
                self.query_finished()

    # -- what this session says to itself

    def should_drop(self, sink: DeliverySink[Any]) -> bool:
        """Whether a receiver is to get no more, because nobody takes what it has."""
        return isinstance(sink, Channel | CallbackRunner) and sink.is_stalled and _is_over_backlog_limit(sink)

    def wait(self, sinks: Iterable[DeliverySink[Any]]) -> None:
        """Wait until each of these has got rid of something; never with the lock."""
        is_busy = nonblocking.on or self._node.loop.is_loop_internal
        for sink in sinks:
            if not isinstance(sink, Channel | CallbackRunner) or sink.is_stalled:
                continue
            if not (is_busy or sink.is_consumed_by_this_thread):
                self._wait(sink)
            elif _is_over_backlog_limit(sink):
                self._mark_stalled(sink)

    def _wait(self, sink: BoundedSink) -> None:
        # All may have been taken since it was full: then there is nothing left that could become less.
        limit, deadline = max(sink.backlog, sink.capacity, 1), time.monotonic() + STALL_TIMEOUT_SECONDS
        while sink.backlog >= limit and not self._node.is_closed:
            self._node.wait(lambda: sink.backlog < limit, RECHECK_SECONDS)
            if sink.backlog >= limit and time.monotonic() > deadline:
                self._mark_stalled(sink)
                return

    def _mark_stalled(self, sink: BoundedSink) -> None:
        """Wait for somebody no more, until they receive again."""
        sink.is_stalled = True
        logger.warning("nobody receives what this session says to itself: it goes on, and drops what becomes too much")


def _is_over_backlog_limit(sink: BoundedSink) -> bool:
    """Whether it holds so much more than it has room for that nothing is a reason for more."""
    return sink.backlog >= min(sink.capacity * MAX_BACKLOG_FACTOR, sink.capacity + MAX_EXCESS_ITEMS)
