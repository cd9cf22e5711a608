"""Speaker: the half of a driver that has something to say, from any thread.

A message goes into the outbox of the connection, under the lock. Then: after a while of silence everything there is
written at once by the thread that said it, and so is an express message, in a batch of its own; in a run of messages a
full batch is written by the thread that filled it, and what is left by the loop, a moment later. What the link does not
take waits in `_unsent` until the loop finds it writable. Whoever comes meanwhile waits for room, or does without, as
its message says.

The loop cannot wait. It stops reading from those whose messages a link is behind with (`holding.py`); for all that it
says nonetheless there is a limit, `max_backlog`, beyond which the neighbour is given up.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from zenspark.errors import LinkError, ZError
from zenspark.net.io.counters import DropReason, NeighbourCounters
from zenspark.net.io.waiters import Waiters
from zenspark.net.links.base import Link
from zenspark.net.loop.event_loop import EventLoop, in_callback, yield_leadership
from zenspark.transport.outbox import GIL_ATOMIC, Outbox
from zenspark.wire.codec import encode
from zenspark.wire.columns import EXPRESS, Relay, Rows
from zenspark.wire.declare import replace
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import Congestion, QoS

logger = logging.getLogger("zenspark.net")

BACKLOG_LIMIT_BYTES = 1 << 22
"""Bytes that wait for a link when it counts as behind: whoever is not made to wait must stop adding to them."""
WRITE_CHUNK_BYTES = 1 << 18
"""Bytes written in one go when there are many: the kernel takes them faster than batch by batch."""
MAX_BACKLOG_BYTES = 1 << 25
"""Bytes that may wait for a link at most, unless configured otherwise; beyond, the neighbour is given up."""
MAX_FORWARDED_BATCHES_PER_WRITE = 16
"""Batches of publications passed on that are filled before they are written: names of keys may make them many."""
RECHECK_SECONDS = 0.05
"""Seconds after which who waits for room looks for itself: the loop may be busy, though it should not be."""


class WriterSettings(msgspec.Struct, frozen=True):
    """How long to wait for what, in seconds; protocol.md section 7.4."""

    drop_wait: float = 0.001
    """for room, with a message that may be dropped"""
    block_wait: float = 5.0
    """for a peer to take anything at all, with a message that may not; then the peer is given up"""
    idle_before_direct_write: float = 50e-6
    """in silence, before a message is worth a write of its own"""
    batch_fill_wait: float = 0.001
    """for a batch to fill up, with somebody who fills one after the other"""
    close_linger: float = 1.0
    """for the other side to take what was said last, once the session has ended"""
    max_backlog: int = MAX_BACKLOG_BYTES
    """how many bytes may wait for a link"""


class NonBlocking(threading.local):
    """`with hurry:` what this thread says does not wait for room: it looked for that before, or does without."""

    on = False

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_: object) -> None:
        self.on = False


nonblocking = NonBlocking()


class HasOutbox(Protocol):
    """The machine that speaks: a connection or a group."""

    @property
    def outbox(self) -> Outbox | None:
        """Where to put what is to be said; None while nothing may be."""

    def note_sent(self, now: float) -> None:
        """Something was written."""


class LinkWriter(ABC):
    """Says things over one link."""

    def __init__(self, loop: EventLoop, link: Link, connection: HasOutbox, patience: WriterSettings) -> None:
        self.loop = loop
        self.link = link
        self.connection = connection
        self._settings = patience
        self._prefix = 0 if link.is_streamed else 2
        """How much of the length in front of a batch the link does without."""
        self._lock = threading.Lock()
        self._waiters = Waiters()
        """Publishers that wait until the link has taken what lies before."""
        self._unsent: deque[memoryview] = deque()
        self._backlog = 0
        """How many bytes wait there."""
        self._chunk: bytearray | None = None
        self._bytes_sent = 0
        """How many bytes the link has taken so far."""
        self._is_congested = False
        """Whether a message was dropped and there was no room since: the next ones need not wait to find out."""
        self._has_block_first = False
        """Whether a BLOCK_FIRST message waits."""
        self._has_overflowed = False
        """Whether more waited than may, and the neighbour is given up."""
        self.on_block: Callable[[bool], object] = lambda _: None
        """Whom to tell, in the loop, when a callback begins and ends to wait for room here."""
        self.neighbour_counters: tuple[NeighbourCounters, ...] = ()
        """The counters of those who hear what is said here: one neighbour, or the members of a group."""
        self.patch = 1
        """The patch of the protocol that those who hear what is said here speak."""
        self._flush_due = False
        self._is_bulk = False
        """Whether a batch was filled since the loop was asked to write what is there."""
        self._has_unflushed = False
        self._last_write = 0.0
        self._closed = False

    @abstractmethod
    def _watch(self) -> None:
        """Watch the link for what matters now; in the loop."""

    @abstractmethod
    def _on_writable(self) -> None:
        """The link has room; in the loop."""

    @abstractmethod
    def _fail(self, error: LinkError) -> None:
        """The link does not take any more."""

    @abstractmethod
    def _close_unresponsive(self, why: str) -> None:
        """The peer takes nothing, or too little; in the loop."""

    @property
    def is_backlogged(self) -> bool:
        """Whether so much waits for the link that nobody should say more who can help it."""
        return self._backlog > BACKLOG_LIMIT_BYTES

    @property
    def backlog(self) -> int:
        """How many bytes wait for the link."""
        return self._backlog

    @property
    def bytes_sent(self) -> int:
        """How many bytes the link has taken so far."""
        return self._bytes_sent

    # -- from any thread

    def send_message(self, message: NetworkMessage, qos: QoS, reliable: bool = True) -> None:
        """Say a network message, without waiting: whoever may say much calls `wait_until_drained` first.

        The loop writes what it said in its next turn; any other thread calls `flush` when it has said all.
        """
        written = qos.for_patch(self.patch)
        if written is not qos:
            message = replace(message, qos=written)
        try:
            self.send_encoded(encode(message), None, qos, reliable)
        except ZError as error:  # too large for this session: nobody else is to miss theirs because of it
            self._drop_too_large(error)

    def drop(self, reason: DropReason, count: int = 1) -> None:
        """Count messages that are not sent here."""
        for counters in self.neighbour_counters:
            counters.drop(reason, count)

    def _drop_too_large(self, error: ZError) -> None:
        """Do not send a message that is too large for this session."""
        logger.warning("a message to %s was not sent: %s", self.link.dst, error)
        self.drop(DropReason.TOO_LARGE)

    def send_encoded(self, head: bytes, payload: bytes | None, qos: QoS, reliable: bool = True) -> None:
        """As `say`, a message given as its bytes and, behind them, a payload; an error if it is too large."""
        outbox = self.connection.outbox
        if outbox is None:
            return
        with self._lock:
            if self._closed:
                return
            if self._backlog > self._settings.max_backlog:
                self._reject_over_backlog()
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
            if is_full:  # what waits must be seen to wait before more is said
                self._write(outbox.pop_full_batches())
            if self.loop.is_loop_thread:
                self._flush_soon()

    def _reject_over_backlog(self) -> None:
        """Refuse a message for which there is no room left at all, and have the neighbour given up."""
        self.drop(DropReason.BACKLOG)
        if not self._has_overflowed:
            self._has_overflowed = True
            self.loop.call_soon(partial(self._close_unresponsive, f"{self._backlog} bytes wait for it"))

    def forward_rows(self, rows: Relay) -> None:
        """Say rows that are passed on; in the loop, which writes them in its next turn."""
        outbox = self.connection.outbox
        if outbox is None:
            return
        with self._lock:
            batches = 0
            while rows.lane >= 0 and not self._closed:
                is_express = rows.lane & EXPRESS
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
                        self._reject_over_backlog()
                        break
            self._has_unflushed = True
            self._flush_soon()

    def flush(self) -> None:
        """Write what was said and not yet written, unless there is a run of messages, which is written in its time."""
        with self._lock:
            if self._has_unflushed and not (self._closed or self._is_bulk):
                outbox = self.connection.outbox
                assert outbox is not None, "something was said"
                self._has_unflushed = False
                self._write(outbox.pop_all())
                self._last_write = time.monotonic()

    def publish(self, head: bytes, payload: bytes | memoryview | None, qos: QoS, reliable: bool) -> bool:
        """Say a message given as its bytes and, behind them, a payload; False if it was dropped."""
        outbox = self.connection.outbox
        if outbox is None:
            return False
        if self._unsent and not self._wait_or_count_drop(qos.congestion, 1):
            return False
        with self._lock:
            if self._closed:
                return False
            if self._has_unflushed or qos.express:
                # a key may be named by a number that a message waiting in another lane declares; and an express
                # message shares its batch with none
                self._has_unflushed = outbox.lockfree_append_allowed = False
                self._write(outbox.pop_all())
            full = outbox.append(qos.priority, reliable, head, payload)
            now = time.monotonic()
            if qos.express or (
                not self._flush_due and now - self._last_write > self._settings.idle_before_direct_write
            ):
                self._write(outbox.pop_all())
            else:
                if full:
                    self._is_bulk = True
                    self._write(outbox.pop_full_batches())
                self._flush_soon()
            self._last_write = now
            self._enable_lockfree_append(outbox)
        return True

    def write_full_batches(self) -> None:
        """Write the batches that are full: in a run of messages whoever filled one calls this."""
        outbox = self.connection.outbox
        if outbox is not None:
            with self._lock:
                self._is_bulk = True
                self._write(outbox.pop_full_batches())

    def _enable_lockfree_append(self, outbox: Outbox) -> None:
        """Let a run of messages go on without us, if all it needs is to be written a little later."""
        outbox.lockfree_append_allowed = (
            GIL_ATOMIC and self._flush_due and not (self._unsent or self._has_unflushed or self._closed)
        )

    def publish_rows(self, rows: Rows, qos: QoS, reliable: bool) -> bool:
        """Say all rows, as batches of their own, written at once; False if some were dropped: the last of them.

        Each express row is a batch of its own.
        """
        outbox = self.connection.outbox
        if outbox is None:
            return False
        while rows.row < rows.count:
            if self._unsent and not self._wait_or_count_drop(qos.congestion, rows.count - rows.row):
                return False
            with self._lock:  # anew for each run, so that others can say something in between
                if self._closed:
                    return False
                self._has_unflushed = False
                self._write(outbox.pop_all())
                if qos.express:
                    outbox.append(qos.priority, reliable, *rows.parts(rows.row))
                    rows.skip()
                else:
                    outbox.append_rows(
                        qos.priority, reliable, rows, self._chunk_buffer() if self.link.is_streamed else None
                    )
                self._write(outbox.pop_all())
                self._enable_lockfree_append(outbox)
                self._last_write = time.monotonic()
        return True

    def _chunk_buffer(self) -> bytearray:
        """Memory for a run of batches: the same again and again, unless some of it may still wait for the link."""
        if self._chunk is None or self._unsent:
            self._chunk = bytearray(WRITE_CHUNK_BYTES)
        return self._chunk

    def wait_until_drained(self, congestion: Congestion) -> bool:
        """Wait until the link has taken what was said before; False if it is better not to say more."""
        return not self._closed and (not self._unsent or self._wait_until_drained(congestion))

    def would_block(self, congestion: Congestion) -> bool:
        """Whether saying something now would mean to wait for room; the answer itself does not wait."""
        if not self._unsent:
            return False
        with self._lock:
            if self._closed or not self._may_wait(congestion):
                return False
            return not self._is_drained() and not self._retry_send_locked()

    def _wait_or_count_drop(self, congestion: Congestion, count: int) -> bool:
        """Whether messages that have to wait find room behind what lies before; otherwise they count as dropped."""
        if self._closed:
            return False
        if self._wait_until_drained(congestion):
            return True
        self.drop(DropReason.BLOCKED if congestion is Congestion.BLOCK else DropReason.CONGESTION, count)
        return False

    def _may_wait(self, congestion: Congestion) -> bool:
        """Whether a message that finds no room waits for it at all."""
        match congestion:
            case Congestion.BLOCK:
                return True
            case Congestion.BLOCK_FIRST:
                return not self._has_block_first
            case Congestion.DROP:
                return not self._is_congested

    def _wait_until_drained(self, congestion: Congestion) -> bool:
        """Wait until the link has taken what lies before; without the lock, which an interrupt could leave unlocked.

        Other threads may send in between: one message of each more than there was room for is no harm.
        """
        if self.loop.is_loop_internal:
            return True  # the loop never waits: what it has to say is bounded by what it hears
        if self._retry_send():
            return True
        if nonblocking.on:
            return congestion is Congestion.BLOCK
        if congestion is Congestion.BLOCK:
            return self._block_until_drained()
        with self._lock:
            if not self._may_wait(congestion):
                return not self._unsent and not self._closed
            if congestion is Congestion.BLOCK_FIRST:
                self._has_block_first = True
        if congestion is Congestion.BLOCK_FIRST:
            try:
                return self._block_until_drained()
            finally:
                self._has_block_first = False
        self._waiters.wait_for(self._is_drained, self._settings.drop_wait)
        self._is_congested = bool(self._unsent)
        return not self._unsent and not self._closed

    def retry_write(self) -> None:
        """Offer the link what waits, in the loop: it may have room of which nothing was heard yet."""
        if self._unsent and not self._closed:
            self._on_writable()

    def _retry_send(self) -> bool:
        """Offer the link what waits: it may have room by now, and the loop may be busy."""
        with self._lock:
            return not self._closed and self._retry_send_locked()

    def _retry_send_locked(self) -> bool:
        """As `_retry_send`, with the lock."""
        try:
            done = self._send_unsent()
        except LinkError as error:
            self._fail(error)
            return False
        if done:
            self._waiters.notify_all()
            self.loop.call_soon(self._on_writable)
        return done

    def _is_drained(self) -> bool:
        return not self._unsent or self._closed

    def _block_until_drained(self) -> bool:
        """Wait; if it is a callback that waits, its session has to know: it may be what the peer waits for."""
        if not in_callback():
            return self._wait_while_progressing()
        self.loop.call_soon(partial(self.on_block, True))  # in the loop, for it needs locks that come before ours
        try:
            return self._wait_while_progressing()
        finally:
            self.loop.call_soon(partial(self.on_block, False))

    def _wait_while_progressing(self) -> bool:
        """Wait as long as the peer takes anything."""
        yield_leadership()
        taken, deadline = self._bytes_sent, time.monotonic() + self._settings.block_wait
        while not self._is_drained():
            self._waiters.wait_for(self._is_drained, min(RECHECK_SECONDS, self._settings.block_wait))
            if self._is_drained() or self._retry_send():
                break
            now = time.monotonic()
            if self._bytes_sent != taken:
                taken, deadline = self._bytes_sent, now + self._settings.block_wait
            elif now >= deadline:
                self.loop.call_soon(
                    partial(self._close_unresponsive, f"took nothing for {self._settings.block_wait:g} s")
                )
                return False
        return not self._closed

    def flush_and_wait(self) -> None:
        """Write everything said so far, and wait until the link has taken it or takes no more."""
        with self._lock:
            if not self._closed and self.connection.outbox is not None:
                self._write(self.connection.outbox.pop_all())
        if self._unsent:
            self._wait_until_drained(Congestion.BLOCK)

    # -- with the lock: writing

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_at_end_of_turn(self._flush)

    def _flush(self) -> None:
        """In the loop: write what was said and not yet written; a little later while batches fill up by themselves."""
        with self._lock:
            if self._is_bulk and not self._closed:
                self._is_bulk = False
                self.loop.call_at(time.monotonic() + self._settings.batch_fill_wait, self._flush)
                return
            self._flush_due = False
            self._has_unflushed = False
            outbox = self.connection.outbox
            if not self._closed and outbox is not None:
                outbox.lockfree_append_allowed = False
                self._write(outbox.pop_all())
                self._last_write = time.monotonic()

    def _enqueue(self, batches: Sequence[bytes | bytearray | memoryview]) -> None:
        for batch in batches:
            if batch:
                piece = memoryview(batch)[self._prefix :]
                self._unsent.append(piece)
                self._backlog += len(piece)

    def _discard_unsent(self) -> None:
        self._unsent.clear()
        self._backlog = 0

    def _write(self, batches: Sequence[bytes | bytearray | memoryview]) -> None:
        """Offer batches to the link, behind what waits."""
        if not batches or self._closed:
            return
        waits = bool(self._unsent)
        self._enqueue(batches)
        self.connection.note_sent(time.monotonic())
        try:
            if not waits and not self._send_unsent():
                self._disable_lockfree_append()
                self.loop.call_soon(self._watch)
        except LinkError as error:
            self._fail(error)

    def _disable_lockfree_append(self) -> None:
        """Have everybody come here first."""
        if self.connection.outbox is not None:
            self.connection.outbox.lockfree_append_allowed = False

    def _send_unsent(self) -> bool:
        """Give the link as much as it takes; whether that was all."""
        while self._unsent:
            piece = self._unsent[0]
            taken = self.link.send(piece)
            self._bytes_sent += taken
            self._backlog -= taken
            if taken < len(piece):
                self._unsent[0] = piece[taken:]
                return False
            self._unsent.popleft()
        self._is_congested = False
        return True
