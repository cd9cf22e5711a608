"""Congestion control of one link: while the link has unsent bytes, a message waits or is dropped, by its QoS.

- Block: it waits as long as the neighbour takes any bytes; after `wait_before_close` seconds without progress the
  neighbour is a slow consumer, and `link_driver.py` closes its session.
- BlockFirst: one message waits like Block, and the others are dropped meanwhile.
- Drop: it waits `wait_before_drop` seconds, once; until the link has drained, the following messages are dropped
  without waiting.

The policy reads the state of the link through `LinkSendState`, and waits on its `WaitQueue`. A thread that waits offers
the unsent bytes to the link again from time to time, since the loop may be busy.

This is about links. A full receiver of this session blocks publishers in `engine/receive_backpressure.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from zenspark.net.loop.leader_follower import yield_leadership
from zenspark.wait_queue import WaitQueue
from zenspark.wire.values import Congestion

MAX_BACKLOG_BYTES = 1 << 25
"""Default limit of the unsent bytes of a link; beyond it the session is closed."""
WAIT_BEFORE_CLOSE_KEY = "transport/link/tx/queue/congestion_control/block/wait_before_close"
"""Configuration key of `wait_before_close`, for log lines."""
MAX_BACKLOG_KEY = "transport/link/tx/queue/max_backlog"
"""Configuration key of `max_backlog`, for log lines."""
DRAIN_RECHECK_INTERVAL_SECONDS = 0.05
"""Seconds after which a waiting thread offers the bytes to the link itself: the loop may be busy."""


class WriterSettings(msgspec.Struct, frozen=True):
    """Waits of a link's writer in seconds, and the limit of its backlog; protocol section 7.4."""

    wait_before_drop: float = 0.001
    """Seconds a message with Drop waits for a link with unsent bytes."""
    wait_before_close: float = 5.0
    """Seconds a neighbour may take no bytes at all while a message with Block waits, before it is closed."""
    idle_before_direct_write: float = 50e-6
    """Seconds without a write after which the next message is written at once, by the thread that sends it."""
    batch_fill_wait: float = 0.001
    """Seconds a batch may fill up while a publisher fills one batch after the other."""
    close_linger: float = 1.0
    """Seconds the neighbour may take no bytes after the session has ended, before the link is closed."""
    max_backlog: int = MAX_BACKLOG_BYTES
    """Unsent bytes of a link beyond which the session is closed."""


def describe_stall(seconds: float) -> str:
    """Describe why a session is closed whose neighbour took no bytes for `seconds`."""
    return f"slow consumer: took no bytes for {seconds:g} s ({WAIT_BEFORE_CLOSE_KEY})"


def describe_backlog(size: int) -> str:
    """Describe why a session is closed whose link has `size` unsent bytes."""
    return f"slow consumer: backlog of {size} bytes ({MAX_BACKLOG_KEY})"


class LinkSendState(Protocol):
    """The state of a link's writer that congestion control depends on, congested or not."""

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended."""

    @property
    def has_unsent(self) -> bool:
        """Whether bytes wait for the link."""

    @property
    def bytes_sent(self) -> int:
        """Bytes the link has taken so far."""

    def retry_from_thread(self) -> bool:
        """Offer the unsent bytes to the link again, in a thread that waits; whether the link took all."""

    def on_waiting(self, is_waiting: bool) -> None:
        """Report that a thread starts (True) or stops (False) waiting for the neighbour to take bytes."""

    def on_slow_consumer(self, seconds: float) -> None:
        """The neighbour has taken no bytes for `seconds` while a message waited."""


class CongestionPolicy:
    """Decides whether a message waits for one link, and waits: in any thread but the loop, with no lock held."""

    def __init__(
        self,
        link: LinkSendState,
        wait_queue: WaitQueue,
        settings: WriterSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._wait_queue = wait_queue
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self.drops_at_once = False
        """Whether a message was dropped and the link has not drained since: the next ones do not wait."""
        self.has_block_first = False
        """Whether a message with BlockFirst waits."""

    def may_wait(self, congestion: Congestion) -> bool:
        """Return whether a message would wait for a link with unsent bytes, instead of being dropped at once."""
        match congestion:
            case Congestion.BLOCK:
                return True
            case Congestion.BLOCK_FIRST:
                return not self.has_block_first
            case Congestion.DROP:
                return not self.drops_at_once

    def wait(self, congestion: Congestion) -> bool:
        """Wait until the link has taken its unsent bytes; False if the message has to be dropped.

        Other threads may send in between: each may add one message more than there was space for.
        """
        if congestion is Congestion.BLOCK:
            return self._block()
        with self._lock:
            if not self.may_wait(congestion):
                return self._has_space
            if congestion is Congestion.BLOCK_FIRST:
                self.has_block_first = True
        if congestion is Congestion.BLOCK_FIRST:
            try:
                return self._block()
            finally:
                self.has_block_first = False
        self._wait_queue.wait_for(self.is_drained, self._settings.wait_before_drop)
        self.drops_at_once = self._link.has_unsent
        return self._has_space

    def is_drained(self) -> bool:
        """Return whether no thread has to wait any longer: no byte is unsent, or the session has ended."""
        return not self._link.has_unsent or self._link.has_ended

    @property
    def _has_space(self) -> bool:
        return not self._link.has_unsent and not self._link.has_ended

    def _block(self) -> bool:
        self._link.on_waiting(True)
        try:
            return self._wait_while_progressing()
        finally:
            self._link.on_waiting(False)

    def _wait_while_progressing(self) -> bool:
        """Wait as long as the neighbour takes bytes."""
        yield_leadership()
        link, seconds = self._link, self._settings.wait_before_close
        bytes_sent, deadline = link.bytes_sent, self._clock() + seconds
        while not self.is_drained():
            self._wait_queue.wait_for(self.is_drained, min(DRAIN_RECHECK_INTERVAL_SECONDS, seconds))
            if self.is_drained() or link.retry_from_thread():
                break
            now = self._clock()
            if link.bytes_sent != bytes_sent:
                bytes_sent, deadline = link.bytes_sent, now + seconds
            elif now >= deadline:
                link.on_slow_consumer(seconds)
                return False
        return not link.has_ended
