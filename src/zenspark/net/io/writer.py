"""LinkWriter: the send half of a driver. Thread-safe; coalesces writes, and applies congestion control.

A message is appended to the outbox of the session, with the lock held. It is written

- after some idle time, at once, by the thread that sends it; an express message always, in a batch of its own;
- in bulk (one batch filled after the other), a full batch by the thread that filled it, and the rest by the loop a
  little later. The outbox then also takes messages without the lock (`Outbox.lockfree_append_allowed`).

Bytes that the link does not take stay in `_unsent` until the loop finds the link writable. Until then publishers wait
or drop their messages (`congestion_control.py`).

The loop never waits. It pauses reading from the sources of messages for a backlogged link
(`forwarding_backpressure.py`). The backlog of its messages has a limit, `max_backlog`, beyond which the session is
closed.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import chain, repeat
from typing import Protocol

from zenspark.errors import LinkError, ZError
from zenspark.net.io.congestion_control import CongestionPolicy, WriterSettings, describe_backlog, describe_stall
from zenspark.net.io.counters import DropReason, NeighbourCounters
from zenspark.net.io.link_observer import LinkObserver
from zenspark.net.links.base import Link
from zenspark.net.loop.event_loop import EventLoop
from zenspark.net.loop.leader_follower import in_callback
from zenspark.transport.outbox import GIL_ATOMIC, Outbox
from zenspark.wait_queue import WaitQueue
from zenspark.wire.codec import encode
from zenspark.wire.columns import LANE_EXPRESS, OutgoingRows, RowForwarder
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import Congestion, QoS

logger = logging.getLogger("zenspark.net")

BACKLOG_HIGH_WATER_BYTES = 1 << 22
"""High-water mark: with more unsent bytes a link is backlogged. Droppable messages for it are dropped, and the sources
of others are paused."""
WRITE_BUFFER_BYTES = 1 << 18
"""Size of the buffer for many batches: the kernel takes them faster in one write than one by one."""
MAX_FORWARDED_BATCHES_PER_WRITE = 16
"""Batches of forwarded rows that are filled before they are written: declarations of keys can make them many."""


class NonBlocking(threading.local):
    """`with nonblocking:` sends of this thread never block: it has checked for space before, or accepts a drop."""

    on = False

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_: object) -> None:
        self.on = False


nonblocking = NonBlocking()


class HasOutbox(Protocol):
    """The state machine that a writer sends for: a session with one neighbour, or with a multicast group."""

    @property
    def outbox(self) -> Outbox | None:
        """The outbox that messages are appended to; None while no session is open."""

    def restart_keep_alive(self, now: float) -> None:
        """Restart the interval until the next keep-alive, since bytes were written."""


class LinkWriter(ABC):
    """Writes messages to one link."""

    def __init__(
        self, loop: EventLoop, link: Link, connection: HasOutbox, settings: WriterSettings, observer: LinkObserver
    ) -> None:
        self.loop = loop
        self.link = link
        self.connection = connection
        self._settings = settings
        self._observer = observer
        self._stripped_prefix = 0 if link.is_streamed else 2
        """Bytes of the length in front of each batch that are not written: a datagram has its own length."""
        self._lock = threading.Lock()
        self._wait_queue = WaitQueue()
        """Publishers that wait until the link has taken the unsent bytes."""
        self.congestion = CongestionPolicy(self, self._wait_queue, settings)
        self._unsent: deque[memoryview] = deque()
        self._backlog = 0
        """Unsent bytes: those in `_unsent` without `_first_sent`."""
        self._first_sent = 0
        """Bytes that the link has taken of the first buffer in `_unsent`, which may hold many batches."""
        self._write_buffer: bytearray | None = None
        self._bytes_sent = 0
        self._is_over_backlog = False
        """Whether the backlog exceeded its limit, and the session is being closed."""
        self.neighbour_counters: tuple[NeighbourCounters, ...] = ()
        """Counters of the neighbour, or of the members of a group; empty before the session is open."""
        self.patch = 1
        """Protocol patch of the neighbour; the lowest one in a group."""
        self._flush_due = False
        """Whether the loop will call `_flush`."""
        self._is_bulk = False
        """Whether a batch was filled since `_flush` was scheduled."""
        self._has_unflushed = False
        """Whether the outbox has messages of `send_message` and the like, which do not schedule a write."""
        self._last_write = 0.0
        self._has_ended = False

    @abstractmethod
    def _watch(self) -> None:
        """Watch the link for reading and writing as needed; in the loop."""

    @abstractmethod
    def _on_writable(self) -> None:
        """Write unsent bytes to the link, which may have space; in the loop."""

    @abstractmethod
    def _fail(self, error: LinkError) -> None:
        """End the session because the link failed."""

    @abstractmethod
    def close_slow_consumer(self, text: str) -> None:
        """Close the session with a slow consumer; in the loop."""

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended."""
        return self._has_ended

    @property
    def neighbour(self) -> str:
        """Role, zid and address of the neighbours, as log lines name them; before the session is open, the address."""
        return ", ".join(map(str, self.neighbour_counters)) or self.link.dst

    @property
    def is_backlogged(self) -> bool:
        """Whether the unsent bytes exceed the high-water mark."""
        return self._backlog > BACKLOG_HIGH_WATER_BYTES

    @property
    def backlog(self) -> int:
        """Unsent bytes."""
        return self._backlog

    @property
    def has_unsent(self) -> bool:
        """Whether bytes wait for the link."""
        return bool(self._unsent)

    @property
    def bytes_sent(self) -> int:
        """Bytes the link has taken so far."""
        return self._bytes_sent

    # -- from any thread

    def send_message(self, message: NetworkMessage, qos: QoS, reliable: bool = True) -> None:
        """Send a network message without waiting; senders of many call `wait_until_drained` before.

        The loop writes its own messages at the end of its turn; any other thread calls `flush` after its last one.
        """
        sent_qos = qos.for_patch(self.patch)
        if sent_qos is not qos:
            message = replace(message, qos=sent_qos)
        try:
            self.send_encoded(encode(message), None, qos, reliable)
        except ZError as error:  # too large for this session; the other receivers must get theirs
            self._drop_too_large(error)

    def count_dropped(self, reason: DropReason, count: int = 1) -> None:
        """Count messages, or batches, that are not sent on this link."""
        for counters in self.neighbour_counters:
            counters.count_dropped(reason, count)

    def _drop_too_large(self, error: ZError) -> None:
        logger.debug("dropped message to %s: %s", self.neighbour, error)
        self.count_dropped(DropReason.TOO_LARGE)

    def send_encoded(self, head: bytes, payload: bytes | None, qos: QoS, reliable: bool = True) -> None:
        """Send an encoded message and the payload behind it, like `send_message`; raises ZError if it is too large."""
        outbox = self.connection.outbox
        if outbox is None:
            return
        with self._lock:
            if self._has_ended:
                return
            if self._backlog > self._settings.max_backlog:
                self._drop_over_backlog()
                return
            outbox.lockfree_append_allowed = False
            if qos.express:
                self._write(outbox.pop_all())
            is_full = outbox.append(qos.priority, reliable, head, payload)
            if qos.express:
                self._write(outbox.pop_all())
                self._has_unflushed = False
                return
            self._has_unflushed = True
            if is_full:  # a backlog must be visible before more is sent
                self._write(outbox.pop_full_batches())
            if self.loop.is_loop_thread:
                self._flush_soon()

    def _drop_over_backlog(self) -> None:
        """Drop a message because the backlog exceeds its limit, and have the session closed."""
        self.count_dropped(DropReason.BACKLOG)
        if not self._is_over_backlog:
            self._is_over_backlog = True
            self.loop.call_soon(partial(self.close_slow_consumer, describe_backlog(self._backlog)))

    def forward_rows(self, rows: RowForwarder) -> None:
        """Send forwarded rows; in the loop, which writes them at the end of its turn."""
        outbox = self.connection.outbox
        if outbox is None:
            return
        with self._lock:
            batches = 0
            while rows.lane >= 0 and not self._has_ended:
                is_express = rows.lane & LANE_EXPRESS
                if is_express:
                    self._write(outbox.pop_all())
                try:
                    outbox.append_forwarded(rows)
                except ZError as error:  # too large for this session
                    self._drop_too_large(error)
                batches += 1
                if is_express:
                    self._write(outbox.pop_all())
                if batches % MAX_FORWARDED_BATCHES_PER_WRITE == 0:
                    self._write(outbox.pop_full_batches())
                    if self._backlog > self._settings.max_backlog:
                        self._drop_over_backlog()
                        break
            self._has_unflushed = True
            self._flush_soon()

    def flush(self) -> None:
        """Write the messages of `send_message` that are not written yet; during bulk `_flush` writes them."""
        with self._lock:
            if self._has_unflushed and not (self._has_ended or self._is_bulk):
                outbox = self.connection.outbox
                assert outbox is not None, "there are unflushed messages"
                self._has_unflushed = False
                self._write(outbox.pop_all())
                self._last_write = time.monotonic()

    def publish(self, head: bytes, payload: bytes | memoryview | None, qos: QoS, reliable: bool) -> bool:
        """Send an encoded message and the payload behind it, with congestion control; False if it was dropped."""
        outbox = self.connection.outbox
        if outbox is None:
            return False
        if self._unsent and not self._wait_or_count_drop(qos.congestion, 1):
            return False
        with self._lock:
            if self._has_ended:
                return False
            if self._has_unflushed or qos.express:
                # the key id may be declared by a message that waits in another lane; and an express message has a batch
                # of its own
                self._has_unflushed = outbox.lockfree_append_allowed = False
                self._write(outbox.pop_all())
            is_full = outbox.append(qos.priority, reliable, head, payload)
            now = time.monotonic()
            idle_limit = self._settings.idle_before_direct_write
            if qos.express or (not self._flush_due and now - self._last_write > idle_limit):
                self._write(outbox.pop_all())
            else:
                if is_full:
                    self._is_bulk = True
                    self._write(outbox.pop_full_batches())
                self._flush_soon()
            self._last_write = now
            self._update_lockfree_append(outbox)
        return True

    def write_full_batches(self) -> None:
        """Write the full batches of the outbox; called in bulk by the thread that filled one."""
        outbox = self.connection.outbox
        if outbox is not None:
            with self._lock:
                # the loop may have written everything already: then no flush is due that would end the bulk
                self._is_bulk = self._flush_due
                self._write(outbox.pop_full_batches())

    def _update_lockfree_append(self, outbox: Outbox) -> None:
        """Allow appending without the lock if `_flush` will write the outbox anyway."""
        outbox.lockfree_append_allowed = (
            GIL_ATOMIC and self._flush_due and not (self._unsent or self._has_unflushed or self._has_ended)
        )

    def publish_rows(self, rows: OutgoingRows, qos: QoS, reliable: bool) -> bool:
        """Send rows in batches of their own, written at once; False if rows were dropped, which are the last ones.

        Each express row has a batch of its own.
        """
        outbox = self.connection.outbox
        if outbox is None:
            return False
        while rows.row < rows.count:
            if self._unsent and not self._wait_or_count_drop(qos.congestion, rows.count - rows.row):
                return False
            with self._lock:  # once per chunk, so that other threads can send in between
                if self._has_ended:
                    return False
                self._has_unflushed = False
                self._write(outbox.pop_all())
                if qos.express:
                    outbox.append(qos.priority, reliable, *rows.head_and_payload(rows.row))
                    rows.advance()
                else:
                    buffer = self._reusable_buffer() if self.link.is_streamed else None
                    outbox.append_rows(qos.priority, reliable, rows, buffer)
                self._write(outbox.pop_all())
                self._update_lockfree_append(outbox)
                self._last_write = time.monotonic()
        return True

    def _reusable_buffer(self) -> bytearray:
        """Return a buffer for many batches; the same one again, unless part of it may still be unsent."""
        if self._write_buffer is None or self._unsent:
            self._write_buffer = bytearray(WRITE_BUFFER_BYTES)
        return self._write_buffer

    # -- from any thread: congestion

    def wait_until_drained(self, congestion: Congestion) -> bool:
        """Wait until the link has taken the unsent bytes, as long as `congestion` allows; whether it has."""
        return not self._has_ended and (not self._unsent or self._wait_until_drained(congestion))

    def would_block(self, congestion: Congestion) -> bool:
        """Return whether `publish` would wait now; this call does not."""
        if not self._unsent:
            return False
        with self._lock:
            if self._has_ended or not self.congestion.may_wait(congestion):
                return False
            return not self.congestion.is_drained() and not self._retry_locked()

    def _wait_or_count_drop(self, congestion: Congestion, count: int) -> bool:
        """Wait for the link; False if the messages are dropped, which counts them."""
        if self._has_ended:
            return False
        if self._wait_until_drained(congestion):
            return True
        self.count_dropped(DropReason.BLOCKED if congestion is Congestion.BLOCK else DropReason.CONGESTION, count)
        return False

    def _wait_until_drained(self, congestion: Congestion) -> bool:
        """Wait for the link without holding the lock, which a KeyboardInterrupt could leave unlocked."""
        if self.loop.is_in_loop_task:
            return True  # the loop never waits: what it sends is bounded by what it receives
        if self.retry_from_thread():
            return True
        if nonblocking.on:
            return congestion is Congestion.BLOCK
        return self.congestion.wait(congestion)

    def retry_from_thread(self) -> bool:
        """Offer the unsent bytes to the link again, in a thread that waits, since the loop may be busy; whether the
        link took all."""
        with self._lock:
            return not self._has_ended and self._retry_locked()

    def _retry_locked(self) -> bool:
        """Implement `retry_from_thread`, with the lock held."""
        try:
            is_drained = self._send_unsent()
        except LinkError as error:
            self._fail(error)
            return False
        if is_drained:
            self._wait_queue.notify_all()
            self.loop.call_soon(self._on_writable)
        return is_drained

    def retry_from_loop(self) -> None:
        """Offer the unsent bytes to the link again, in the loop: the link may have space that the poller has not
        reported yet."""
        if self._unsent and not self._has_ended:
            self._on_writable()

    def on_waiting(self, is_waiting: bool) -> None:
        """Report that a user callback starts (True) or stops (False) waiting for the link: the neighbour may be waiting
        for this node to read."""
        if in_callback():
            # in the loop, because the observer takes locks that come before the writer's
            self.loop.call_soon(partial(self._observer.on_callback_waiting, is_waiting))

    def on_slow_consumer(self, seconds: float) -> None:
        """Have the session closed: the neighbour took no bytes while a message waited."""
        self.loop.call_soon(partial(self.close_slow_consumer, describe_stall(seconds)))

    def flush_and_wait(self) -> None:
        """Write all messages sent so far, and wait until the link has taken them or the session is closed."""
        with self._lock:
            if not self._has_ended and self.connection.outbox is not None:
                self._write(self.connection.outbox.pop_all())
        if self._unsent:
            self._wait_until_drained(Congestion.BLOCK)

    # -- with the lock: writing

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_at_end_of_turn(self._flush)

    def _flush(self) -> None:
        """Write the outbox, in the loop; during bulk `batch_fill_wait` later, so that batches fill up."""
        with self._lock:
            if self._is_bulk and not self._has_ended:
                self._is_bulk = False
                self.loop.call_at(time.monotonic() + self._settings.batch_fill_wait, self._flush)
                return
            self._flush_due = False
            self._has_unflushed = False
            outbox = self.connection.outbox
            if not self._has_ended and outbox is not None:
                outbox.lockfree_append_allowed = False
                self._write(outbox.pop_all())
                self._last_write = time.monotonic()

    def _enqueue(self, batches: Sequence[bytes | bytearray | memoryview]) -> None:
        for batch in batches:
            if batch:
                view = memoryview(batch)[self._stripped_prefix :]
                self._unsent.append(view)
                self._backlog += len(view)

    def _discard_unsent(self) -> None:
        self._unsent.clear()
        self._backlog = self._first_sent = 0

    def _count_unsent_batches(self) -> int:
        """Return the number of batches that the link has not taken completely, with those of the outbox."""
        outbox = self.connection.outbox
        if outbox is None:
            return 0
        self._enqueue(outbox.pop_all())
        return sum(map(outbox.count_batches, self._unsent, chain((self._first_sent,), repeat(0))))

    def _write(self, batches: Sequence[bytes | bytearray | memoryview]) -> None:
        """Offer batches to the link, behind the unsent bytes."""
        if not batches or self._has_ended:
            return
        has_unsent = bool(self._unsent)
        self._enqueue(batches)
        self.connection.restart_keep_alive(time.monotonic())
        try:
            if not has_unsent and not self._send_unsent():
                self._disable_lockfree_append()
                self.loop.call_soon(self._watch)
        except LinkError as error:
            self._fail(error)

    def _disable_lockfree_append(self) -> None:
        """Make every publisher take the lock, and with it notice unsent bytes or the end of the session."""
        if self.connection.outbox is not None:
            self.connection.outbox.lockfree_append_allowed = False

    def _send_unsent(self) -> bool:
        """Write as many unsent bytes as the link takes; whether it took all."""
        while self._unsent:
            view = self._unsent[0]
            if self._first_sent:
                view = view[self._first_sent :]
            count = self.link.send(view)
            self._bytes_sent += count
            self._backlog -= count
            if count < len(view):
                self._first_sent += count
                return False
            self._unsent.popleft()
            self._first_sent = 0
        self.congestion.drops_at_once = False
        return True
