"""Receive backpressure: tracks full sinks, the links paused because of them, and local senders that wait.

A sink that is full returns False from `push`. Traffic of a neighbour is slowed down by pausing reads from its link
until the sink has drained. Publications, queries and replies within this session are slowed down by blocking the
sending thread, as eclipse-zenoh does; but never without a limit, because that thread may be the very one that consumes
the sink, now or later. After `STALL_TIMEOUT_SECONDS` without any item consumed the sink counts as stalled: senders no
longer wait, and further items are queued up to a limit and then dropped, with a warning. A sender that must not wait
(the loop, an asyncio task, the only thread that consumes the sink) marks it as stalled once its backlog has reached
that limit. A `put_batch` queues all of its rows before that. Where publishers wait for links with unsent bytes:
`net/io/congestion_control.py`.

Replies arrive on the same links as publications. So while this session has pending queries, a full sink gets read
credit: its links are read on, up to a limit. Otherwise a callback that queries would wait for a reply queued behind
samples it has not received yet. A sink of replies gets credit only for queries other than its own. A callback that
waits for buffer space on a link has the same effect: the neighbour may be waiting for this node to read.

All of this is guarded by the node's lock, except that no thread waits with the lock held.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any, TypeAlias

from zenspark.handlers.callback import CallbackRunner
from zenspark.handlers.channel import Channel
from zenspark.handlers.handler import DeliverySink
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.io.writer import nonblocking
from zenspark.net.node.node import Node
from zenspark.router.face import Face

logger = logging.getLogger("zenspark")

BoundedSink: TypeAlias = Channel | CallbackRunner
"""The sinks with a capacity."""

STALL_TIMEOUT_SECONDS = 1.0
"""Seconds without any item consumed after which a full sink counts as stalled."""
MAX_BACKLOG_FACTOR = 64
"""Maximum backlog of a sink, in multiples of its capacity, while its links are read on credit or it is stalled."""
MAX_EXCESS_ITEMS = 1 << 14
"""Maximum items of the backlog of a sink beyond its capacity: a waiting query takes about 1 kB."""
READ_CREDIT_BYTES = 1 << 25
"""Bytes read at most from one link for a full sink."""
RECHECK_INTERVAL_SECONDS = 0.01
"""Seconds between checks of a backlog that is waited for: a sink notifies only when it is half empty."""


class ReceiveBackpressure:
    """The receive backpressure of one session."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._full: dict[BoundedSink, set[LinkDriver]] = {}
        """The links paused for each full sink."""
        self._credits: dict[BoundedSink, dict[LinkDriver, int]] = {}
        """The bytes each link had received when a sink got read credit for it."""
        self._receivers: dict[BoundedSink, str] = {}
        """The subscriber or queryable of a sink, for log lines; sinks of replies are not among them."""
        self._credit_reasons = 0
        """Pending queries, and callbacks that wait for buffer space on a link."""

    def add(self, sink: DeliverySink[Any], receiver: str) -> None:
        """Remember the subscriber or queryable that a sink belongs to, until the sink is removed."""
        if isinstance(sink, Channel | CallbackRunner):
            self._receivers[sink] = receiver

    # -- receiving from neighbours

    def on_full(self, sink: DeliverySink[Any], face: Face, sink_queries: int = 0) -> None:
        """Pause the link of a neighbour, or grant read credit; `sink_queries` are those whose replies it gets."""
        driver = self._node.driver(face)
        if driver is None or not isinstance(sink, Channel | CallbackRunner):
            return
        if self._credit_reasons > sink_queries and self._grant_credit(sink, driver):
            return
        self._full.setdefault(sink, set()).add(driver)
        driver.pause(sink)

    def _grant_credit(self, sink: BoundedSink, driver: LinkDriver) -> bool:
        """Return whether a link may be read although a sink is full."""
        start = self._credits.setdefault(sink, {}).setdefault(driver, driver.bytes_received)
        return not _is_over_backlog_limit(sink) and driver.bytes_received - start < READ_CREDIT_BYTES

    def on_drained(self, sink: BoundedSink) -> None:
        """Resume the links paused for a sink that has drained or was removed."""
        with self._node.lock:
            for driver in self._full.pop(sink, ()):
                driver.resume(sink)
            self._credits.pop(sink, None)
            sink.is_stalled = False
            self._node.wake()

    def remove(self, sink: DeliverySink[Any]) -> None:
        """Resume the links paused for a sink to which nothing more is delivered."""
        if not isinstance(sink, Channel | CallbackRunner):
            return
        self._receivers.pop(sink, None)
        if sink in self._full or sink in self._credits:
            self.on_drained(sink)

    def begin_read_credit(self) -> None:
        """Grant read credit to all full sinks from now on: a query is pending, or a callback waits for a link."""
        self._credit_reasons += 1
        for sink, drivers in self._full.items():
            for driver in [driver for driver in drivers if self._grant_credit(sink, driver)]:
                drivers.discard(driver)
                driver.resume(sink)

    def end_read_credit(self) -> None:
        """Grant no more read credit for one query that has finished, or one callback that waits no longer."""
        self._credit_reasons -= 1

    def on_callback_waiting(self, is_waiting: bool) -> None:
        """Grant read credit while a callback waits for buffer space on a link."""
        with self._node.lock:
            if is_waiting:
                self.begin_read_credit()
            else:
                self.end_read_credit()

    # -- delivery within this session

    def should_drop(self, sink: DeliverySink[Any]) -> bool:
        """Return whether items for a sink are dropped: it is stalled, and over the backlog limit."""
        return isinstance(sink, Channel | CallbackRunner) and sink.is_stalled and _is_over_backlog_limit(sink)

    def wait(self, sinks: Iterable[DeliverySink[Any]]) -> None:
        """Make a publisher of this session wait until each full sink has capacity, or is stalled.

        Never called with the lock held.
        """
        for sink in sinks:
            if not self.wait_for_capacity(sink):
                self.mark_stalled(sink)

    def wait_for_capacity(self, sink: DeliverySink[Any]) -> bool:
        """Wait until a sink has capacity, unless it is stalled already; False if it takes no items, or if the calling
        thread must not wait for it.

        Never called with the lock held.
        """
        if not isinstance(sink, Channel | CallbackRunner) or sink.is_stalled:
            return True
        return self._may_wait(sink) and self._wait(sink)

    def mark_stalled(self, sink: DeliverySink[Any]) -> None:
        """Mark a full sink as stalled until it drains, so that senders stop waiting for it.

        Where the calling thread must not wait, only a sink over its backlog limit is marked.
        """
        if not isinstance(sink, Channel | CallbackRunner) or sink.is_stalled:
            return
        if self._may_wait(sink):
            limit, reason = sink.capacity, f"took no item for {STALL_TIMEOUT_SECONDS:g} s"
        else:
            limit, reason = _backlog_limit(sink), "its backlog is at the limit for senders that must not wait"
        if sink.backlog < limit:
            return
        sink.is_stalled = True
        logger.warning(
            "local receiver of session %s is stalled (%s): %s, %d items queued (capacity %d);"
            " further items may be dropped until it takes some",
            self._node.identity.zid,
            self._receivers.get(sink, "replies to a query"),
            reason,
            sink.backlog,
            sink.capacity,
        )

    def _may_wait(self, sink: BoundedSink) -> bool:
        """Return whether the calling thread may wait for a sink: not the loop, nor the only thread that consumes it."""
        return not (nonblocking.on or self._node.loop.is_in_loop_task or sink.is_consumed_by_this_thread)

    def _wait(self, sink: BoundedSink) -> bool:
        """Wait until a sink has capacity or is removed; False if its backlog has not shrunk between two checks for
        `STALL_TIMEOUT_SECONDS`."""
        limit = max(sink.capacity, 1)
        was_declared = sink in self._receivers
        previous, deadline = sink.backlog, time.monotonic() + STALL_TIMEOUT_SECONDS
        while (backlog := sink.backlog) >= limit and not self._node.is_closed:
            if was_declared and sink not in self._receivers:
                return True
            if backlog < previous:
                deadline = time.monotonic() + STALL_TIMEOUT_SECONDS
            elif time.monotonic() > deadline:
                return False
            previous = backlog
            self._node.wait(lambda: sink.backlog < limit, RECHECK_INTERVAL_SECONDS)
        return True


def _is_over_backlog_limit(sink: BoundedSink) -> bool:
    return sink.backlog >= _backlog_limit(sink)


def _backlog_limit(sink: BoundedSink) -> int:
    return min(sink.capacity * MAX_BACKLOG_FACTOR, sink.capacity + MAX_EXCESS_ITEMS)
