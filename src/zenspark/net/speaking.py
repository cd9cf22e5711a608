"""Speaker: the half of a driver that has something to say, from any thread.

A message goes into the outbox of the connection, under the lock. Then: after a while of silence everything there is
written at once by the thread that said it, and so is an express message, in a batch of its own; in a run of messages a
full batch is written by the thread that filled it, and what is left by the loop, a moment later. What the link does not
take waits in `_residue` until the loop finds it writable. Whoever comes meanwhile waits for room, or does without, as
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
from zenspark.net.counters import DropReason, NeighbourCounters
from zenspark.net.links import Link
from zenspark.net.loop import Loop, hand_over, in_callback
from zenspark.net.waiters import Waiters
from zenspark.transport.outbox import ATOMIC, Outbox
from zenspark.wire.codec import encode
from zenspark.wire.columns import EXPRESS, Relay, Rows
from zenspark.wire.fields import replace
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import Congestion, QoS

logger = logging.getLogger("zenspark.net")

BEHIND = 1 << 22
"""Bytes that wait for a link when it counts as behind: whoever is not made to wait must stop adding to them."""
RUN = 1 << 18
"""Bytes written in one go when there are many: the kernel takes them faster than batch by batch."""
MAX_BACKLOG = 1 << 25
"""Bytes that may wait for a link at most, unless configured otherwise; beyond, the neighbour is given up."""
BATCHES_AT_ONCE = 16
"""Batches of publications passed on that are filled before they are written: names of keys may make them many."""
LOOK_AGAIN = 0.05
"""Seconds after which who waits for room looks for itself: the loop may be busy, though it should not be."""


class Patience(msgspec.Struct, frozen=True):
    """How long to wait for what, in seconds; protocol.md section 7.4."""

    drop_after: float = 0.001
    """for room, with a message that may be dropped"""
    block: float = 5.0
    """for a peer to take anything at all, with a message that may not; then the peer is given up"""
    quiet: float = 50e-6
    """in silence, before a message is worth a write of its own"""
    flow: float = 0.001
    """for a batch to fill up, with somebody who fills one after the other"""
    linger: float = 1.0
    """for the other side to take what was said last, once the session has ended"""
    max_backlog: int = MAX_BACKLOG
    """how many bytes may wait for a link"""


class Hurry(threading.local):
    """`with hurry:` what this thread says does not wait for room: it looked for that before, or does without."""

    on = False

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_: object) -> None:
        self.on = False


hurry = Hurry()


class Voice(Protocol):
    """The machine that speaks: a connection or a group."""

    @property
    def outbox(self) -> Outbox | None:
        """Where to put what is to be said; None while nothing may be."""

    def sent(self, now: float) -> None:
        """Something was written."""


class Speaker(ABC):
    """Says things over one link."""

    def __init__(self, loop: Loop, link: Link, connection: Voice, patience: Patience) -> None:
        self.loop = loop
        self.link = link
        self.connection = connection
        self._patience = patience
        self._prefix = 0 if link.is_streamed else 2
        """How much of the length in front of a batch the link does without."""
        self._lock = threading.Lock()
        self._waiters = Waiters()
        """Publishers that wait until the link has taken what lies before."""
        self._residue: deque[memoryview] = deque()
        self._backlog = 0
        """How many bytes wait there."""
        self._run: bytearray | None = None
        self._taken = 0
        """How many bytes the link has taken so far."""
        self._is_congested = False
        """Whether a message was dropped and there was no room since: the next ones need not wait to find out."""
        self._has_first = False
        """Whether a BLOCK_FIRST message waits."""
        self._has_overflowed = False
        """Whether more waited than may, and the neighbour is given up."""
        self.on_block: Callable[[bool], object] = lambda _: None
        """Whom to tell, in the loop, when a callback begins and ends to wait for room here."""
        self.audience: tuple[NeighbourCounters, ...] = ()
        """The counters of those who hear what is said here: one neighbour, or the members of a group."""
        self.patch = 1
        """The patch of the protocol that those who hear what is said here speak."""
        self._flush_due = False
        self._in_full_flow = False
        """Whether a batch was filled since the loop was asked to write what is there."""
        self._said = False
        self._spoke = 0.0
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
    def _give_up(self, why: str) -> None:
        """The peer takes nothing, or too little; in the loop."""

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the link that nobody should say more who can help it."""
        return self._backlog > BEHIND

    @property
    def backlog(self) -> int:
        """How many bytes wait for the link."""
        return self._backlog

    @property
    def taken(self) -> int:
        """How many bytes the link has taken so far."""
        return self._taken

    # -- from any thread

    def say(self, message: NetworkMessage, qos: QoS, reliable: bool = True) -> None:
        """Say a network message, without waiting: whoever may say much calls `wait_for_room` first.

        The loop writes what it said in its next turn; any other thread calls `flush` when it has said all.
        """
        written = qos.for_patch(self.patch)
        if written is not qos:
            message = replace(message, qos=written)
        try:
            self.tell(encode(message), None, qos, reliable)
        except ZError as error:  # too large for this session: nobody else is to miss theirs because of it
            self._refuse(error)

    def drop(self, reason: DropReason, count: int = 1) -> None:
        """Count messages that are not sent here."""
        for counters in self.audience:
            counters.drop(reason, count)

    def _refuse(self, error: ZError) -> None:
        """Do not send a message that is too large for this session."""
        logger.warning("a message to %s was not sent: %s", self.link.dst, error)
        self.drop(DropReason.TOO_LARGE)

    def tell(self, head: bytes, payload: bytes | None, qos: QoS, reliable: bool = True) -> None:
        """As `say`, a message given as its bytes and, behind them, a payload; an error if it is too large."""
        outbox = self.connection.outbox
        if outbox is None:
            return
        with self._lock:
            if self._closed:
                return
            if self._backlog > self._patience.max_backlog:
                self._overflow()
                return
            outbox.flows = False
            if qos.express:
                self._write(outbox.take())
            is_full = outbox.append(qos.priority, reliable, head, payload)
            if qos.express:
                self._write(outbox.take())
                self._said = False
                return
            self._said = True
            if is_full:  # what waits must be seen to wait before more is said
                self._write(outbox.take_ready())
            if self.loop.is_mine:
                self._flush_soon()

    def _overflow(self) -> None:
        """Refuse a message for which there is no room left at all, and have the neighbour given up."""
        self.drop(DropReason.BACKLOG)
        if not self._has_overflowed:
            self._has_overflowed = True
            self.loop.call_soon(partial(self._give_up, f"{self._backlog} bytes wait for it"))

    def relay(self, rows: Relay) -> None:
        """Say rows that are passed on; in the loop, which writes them in its next turn."""
        outbox = self.connection.outbox
        if outbox is None:
            return
        with self._lock:
            batches = 0
            while rows.lane >= 0 and not self._closed:
                is_express = rows.lane & EXPRESS
                if is_express:
                    self._write(outbox.take())
                try:
                    outbox.relay(rows)
                except ZError as error:  # too large for this session
                    self._refuse(error)
                batches += 1
                if is_express:
                    self._write(outbox.take())
                if batches % BATCHES_AT_ONCE == 0:
                    self._write(outbox.take_ready())
                    if self._backlog > self._patience.max_backlog:
                        self._overflow()
                        break
            self._said = True
            self._flush_soon()

    def flush(self) -> None:
        """Write what was said and not yet written, unless there is a run of messages, which is written in its time."""
        with self._lock:
            if self._said and not (self._closed or self._in_full_flow):
                outbox = self.connection.outbox
                assert outbox is not None, "something was said"
                self._said = False
                self._write(outbox.take())
                self._spoke = time.monotonic()

    def put(self, head: bytes, payload: bytes | memoryview | None, qos: QoS, reliable: bool) -> bool:
        """Say a message given as its bytes and, behind them, a payload; False if it was dropped."""
        outbox = self.connection.outbox
        if outbox is None:
            return False
        if self._residue and not self._finds_room(qos.congestion, 1):
            return False
        with self._lock:
            if self._closed:
                return False
            if self._said or qos.express:
                # a key may be named by a number that a message waiting in another lane declares; and an express
                # message shares its batch with none
                self._said = outbox.flows = False
                self._write(outbox.take())
            full = outbox.append(qos.priority, reliable, head, payload)
            now = time.monotonic()
            if qos.express or (not self._flush_due and now - self._spoke > self._patience.quiet):
                self._write(outbox.take())
            else:
                if full:
                    self._in_full_flow = True
                    self._write(outbox.take_ready())
                self._flush_soon()
            self._spoke = now
            self._let_flow(outbox)
        return True

    def write_full(self) -> None:
        """Write the batches that are full: in a run of messages whoever filled one calls this."""
        outbox = self.connection.outbox
        if outbox is not None:
            with self._lock:
                # the loop may have written all of it meanwhile: then no flush is due that would end the run
                self._in_full_flow = self._flush_due
                self._write(outbox.take_ready())

    def _let_flow(self, outbox: Outbox) -> None:
        """Let a run of messages go on without us, if all it needs is to be written a little later."""
        outbox.flows = ATOMIC and self._flush_due and not (self._residue or self._said or self._closed)

    def put_rows(self, rows: Rows, qos: QoS, reliable: bool) -> bool:
        """Say all rows, as batches of their own, written at once; False if some were dropped: the last of them.

        Each express row is a batch of its own.
        """
        outbox = self.connection.outbox
        if outbox is None:
            return False
        while rows.row < rows.count:
            if self._residue and not self._finds_room(qos.congestion, rows.count - rows.row):
                return False
            with self._lock:  # anew for each run, so that others can say something in between
                if self._closed:
                    return False
                self._said = False
                self._write(outbox.take())
                if qos.express:
                    outbox.append(qos.priority, reliable, *rows.parts(rows.row))
                    rows.skip()
                else:
                    outbox.extend(qos.priority, reliable, rows, self._run_room() if self.link.is_streamed else None)
                self._write(outbox.take())
                self._let_flow(outbox)
                self._spoke = time.monotonic()
        return True

    def _run_room(self) -> bytearray:
        """Memory for a run of batches: the same again and again, unless some of it may still wait for the link."""
        if self._run is None or self._residue:
            self._run = bytearray(RUN)
        return self._run

    def wait_for_room(self, congestion: Congestion) -> bool:
        """Wait until the link has taken what was said before; False if it is better not to say more."""
        return not self._closed and (not self._residue or self._wait_for_room(congestion))

    def makes_wait(self, congestion: Congestion) -> bool:
        """Whether saying something now would mean to wait for room; the answer itself does not wait."""
        if not self._residue:
            return False
        with self._lock:
            if self._closed or not self._is_patient(congestion):
                return False
            return not self._has_room() and not self._drain_again()

    def _finds_room(self, congestion: Congestion, count: int) -> bool:
        """Whether messages that have to wait find room behind what lies before; otherwise they count as dropped."""
        if self._closed:
            return False
        if self._wait_for_room(congestion):
            return True
        self.drop(DropReason.BLOCKED if congestion is Congestion.BLOCK else DropReason.CONGESTION, count)
        return False

    def _is_patient(self, congestion: Congestion) -> bool:
        """Whether a message that finds no room waits for it at all."""
        match congestion:
            case Congestion.BLOCK:
                return True
            case Congestion.BLOCK_FIRST:
                return not self._has_first
            case Congestion.DROP:
                return not self._is_congested

    def _wait_for_room(self, congestion: Congestion) -> bool:
        """Wait until the link has taken what lies before; without the lock, which an interrupt could leave unlocked.

        Other threads may send in between: one message of each more than there was room for is no harm.
        """
        if self.loop.is_current:
            return True  # the loop never waits: what it has to say is bounded by what it hears
        if self._offer_again():
            return True
        if hurry.on:
            return congestion is Congestion.BLOCK
        if congestion is Congestion.BLOCK:
            return self._block()
        with self._lock:
            if not self._is_patient(congestion):
                return not self._residue and not self._closed
            if congestion is Congestion.BLOCK_FIRST:
                self._has_first = True
        if congestion is Congestion.BLOCK_FIRST:
            try:
                return self._block()
            finally:
                self._has_first = False
        self._waiters.wait_for(self._has_room, self._patience.drop_after)
        self._is_congested = bool(self._residue)
        return not self._residue and not self._closed

    def offer_again(self) -> None:
        """Offer the link what waits, in the loop: it may have room of which nothing was heard yet."""
        if self._residue and not self._closed:
            self._on_writable()

    def _offer_again(self) -> bool:
        """Offer the link what waits: it may have room by now, and the loop may be busy."""
        with self._lock:
            return not self._closed and self._drain_again()

    def _drain_again(self) -> bool:
        """As `_offer_again`, with the lock."""
        try:
            done = self._drain()
        except LinkError as error:
            self._fail(error)
            return False
        if done:
            self._waiters.notify_all()
            self.loop.call_soon(self._on_writable)
        return done

    def _has_room(self) -> bool:
        return not self._residue or self._closed

    def _block(self) -> bool:
        """Wait; if it is a callback that waits, its session has to know: it may be what the peer waits for."""
        if not in_callback():
            return self._wait_on()
        self.loop.call_soon(partial(self.on_block, True))  # in the loop, for it needs locks that come before ours
        try:
            return self._wait_on()
        finally:
            self.loop.call_soon(partial(self.on_block, False))

    def _wait_on(self) -> bool:
        """Wait as long as the peer takes anything."""
        hand_over()
        taken, deadline = self._taken, time.monotonic() + self._patience.block
        while not self._has_room():
            self._waiters.wait_for(self._has_room, min(LOOK_AGAIN, self._patience.block))
            if self._has_room() or self._offer_again():
                break
            now = time.monotonic()
            if self._taken != taken:
                taken, deadline = self._taken, now + self._patience.block
            elif now >= deadline:
                self.loop.call_soon(partial(self._give_up, f"took nothing for {self._patience.block:g} s"))
                return False
        return not self._closed

    def drain(self) -> None:
        """Write everything said so far, and wait until the link has taken it or takes no more."""
        with self._lock:
            if not self._closed and self.connection.outbox is not None:
                self._write(self.connection.outbox.take())
        if self._residue:
            self._wait_for_room(Congestion.BLOCK)

    # -- with the lock: writing

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_last(self._flush)

    def _flush(self) -> None:
        """In the loop: write what was said and not yet written; a little later while batches fill up by themselves."""
        with self._lock:
            if self._in_full_flow and not self._closed:
                self._in_full_flow = False
                self.loop.call_at(time.monotonic() + self._patience.flow, self._flush)
                return
            self._flush_due = False
            self._said = False
            outbox = self.connection.outbox
            if not self._closed and outbox is not None:
                outbox.flows = False
                self._write(outbox.take())
                self._spoke = time.monotonic()

    def _queue(self, batches: Sequence[bytes | bytearray | memoryview]) -> None:
        for batch in batches:
            if batch:
                piece = memoryview(batch)[self._prefix :]
                self._residue.append(piece)
                self._backlog += len(piece)

    def _forget_residue(self) -> None:
        self._residue.clear()
        self._backlog = 0

    def _write(self, batches: Sequence[bytes | bytearray | memoryview]) -> None:
        """Offer batches to the link, behind what waits."""
        if not batches or self._closed:
            return
        waits = bool(self._residue)
        self._queue(batches)
        self.connection.sent(time.monotonic())
        try:
            if not waits and not self._drain():
                self._stem()
                self.loop.call_soon(self._watch)
        except LinkError as error:
            self._fail(error)

    def _stem(self) -> None:
        """Have everybody come here first."""
        if self.connection.outbox is not None:
            self.connection.outbox.flows = False

    def _drain(self) -> bool:
        """Give the link as much as it takes; whether that was all."""
        while self._residue:
            piece = self._residue[0]
            taken = self.link.send(piece)
            self._taken += taken
            self._backlog -= taken
            if taken < len(piece):
                self._residue[0] = piece[taken:]
                return False
            self._residue.popleft()
        self._is_congested = False
        return True
