"""Driver: pumps one Connection over one Link. The only place where bytes are read from or written to a link.

Reading happens in the loop. Writing happens in whatever thread has something to say: a full batch is written by the
thread that filled it, a batch that is not full by the loop a moment later, or at once if nothing was said for a
while. What a link does not take waits in `_residue` until the loop finds it writable; meanwhile threads that want to
block wait for that, and those that would rather drop, drop.

The end has two steps. First the session ends: its owner is told, nobody says anything more. Then the link lingers, so
that what was said before and the farewell arrive: it is written, and what still comes is read and thrown away until
the other side has closed too, because a socket closed with bytes unread takes back what it has sent. Then it is closed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from zenspark.errors import CloseReason, LinkError, ZError
from zenspark.net.links import NOTHING, Link
from zenspark.net.loop import Loop, Timer, sever
from zenspark.transport.connection import Closed, Connection, Event, Say, State
from zenspark.transport.handshake import Opened
from zenspark.wire.codec import encode
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import Congestion, QoS

logger = logging.getLogger("zenspark.net")

BEHIND = 1 << 22
"""Bytes that wait for a link when it counts as behind: whoever is not made to wait must stop adding to them."""
READS = 16
"""How often a link that has more to read may be read before the others get their turn."""


class Patience(msgspec.Struct, frozen=True):
    """How long to wait for what, in seconds; protocol.md section 7.4."""

    drop_after: float = 0.001
    """for room, with a message that may be dropped"""
    block: float = 5.0
    """for a peer to take anything at all, with a message that may not; then the peer is given up"""
    quiet: float = 50e-6
    """in silence, before a message is worth a write of its own"""
    linger: float = 1.0
    """for the other side to take what was said last, once the session has ended"""


class Driver:
    """One link and the connection that runs over it. `owner` handles its events, in the loop."""

    def __init__(
        self,
        loop: Loop,
        link: Link,
        connection: Connection,
        owner: Callable[[Driver, Event], None],
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        self.loop = loop
        self.link = link
        self.connection = connection
        self.is_released = False
        """Whether the link is closed too."""
        self.on_released: Callable[[Driver], None] | None = None
        """Whom to tell of that, in the loop."""
        self._owner = owner
        self._patience = patience
        self._prefix = 0 if link.is_streamed else 2
        """How much of the length in front of a batch the link does without."""
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._residue: deque[memoryview] = deque()
        self._backlog = 0
        """How many bytes wait there."""
        self.on_room: Callable[[Driver], None] | None = None
        """Whom to tell, in the loop, when the link has taken what waited."""
        self._taken = 0
        """Counts what the link takes late, to see whether the peer reads at all."""
        self._is_congested = False
        """Whether a message was dropped and there was no room since: the next ones need not wait to find out."""
        self._has_first = False
        """Whether a BLOCK_FIRST message waits."""
        self._flush_due = False
        self._said = False
        self._spoke = 0.0
        self._closed = False
        self._paused = False
        self._timer: Timer | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a session."""
        return not self._closed and self.connection.state is State.OPEN

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the link that nobody should say more who can help it."""
        return self._backlog > BEHIND

    @property
    def taken(self) -> int:
        """How many bytes the link has taken so far."""
        return self._taken

    # -- in the loop

    def start(self) -> None:
        """Begin."""
        self._watch()
        self._handle_all(self.connection.start())

    def admit(self) -> None:
        """Let in who asked: on an Asked event."""
        self._handle_all(self.connection.admit())

    def close(self, reason: CloseReason = CloseReason.GENERIC, text: str = "closed here") -> None:
        """End the session."""
        if not self._closed:
            self._end(self.connection.close(reason, text))

    def _on_readable(self) -> None:
        try:
            for _ in range(READS):
                if self._closed or self._paused or not self._read() or not self.link.has_buffered:
                    return
        except LinkError as error:
            self._end(self._lost(error))
        except Exception:  # a mistake of ours about what this peer said; the others must not suffer
            logger.exception("something went wrong with what %s said", self.link.dst)
            self.close(text="an error here")
        else:
            self.loop.call_soon(self._on_readable)  # the descriptor says nothing of what the link has buffered

    def _read(self) -> bool:
        """Read once; False if there was nothing."""
        room = self.connection.buffer()
        count = self.link.recv_into(room[self._prefix :])
        if count == NOTHING:
            return False
        if not count:
            self._end(self.connection.receive_eof())
            return False
        if self._prefix:
            room[: self._prefix] = count.to_bytes(self._prefix, "little")  # a datagram is a batch
        for event in self.connection.receive(count + self._prefix, self.loop.now()):
            self._handle(event)
        return True

    def _handle_all(self, events: Sequence[Event]) -> None:
        for event in events:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        match event:
            case Say(batch):
                with self._lock:
                    self._write([batch])
            case Closed():
                self._end(event)
            case _:
                self._owner(self, event)
                if isinstance(event, Opened):
                    self._arm()

    def _arm(self) -> None:
        """Be called again when the connection has something to do by itself."""
        if not self._closed:
            self._timer = self.loop.call_at(self.connection.next_timeout(), self._on_time)

    def _on_time(self) -> None:
        if self._closed:
            return
        if self._paused:  # the peer may well have spoken: it is we who do not listen
            self.connection.heard(self.loop.now())
        self._handle_all(self.connection.handle_timeout(self.loop.now()))
        self._arm()

    # -- in the loop: the end

    def _lost(self, error: LinkError) -> Closed:
        return Closed(CloseReason.GENERIC, str(error), by_peer=True)

    def _end(self, closed: Closed) -> None:
        """The session is over."""
        if self._closed:
            return
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            if closed.by_peer:
                self._forget_residue()
            else:
                outbox = self.connection.outbox
                self._queue([*([] if outbox is None else outbox.take()), closed.farewell])
            self._room.notify_all()
        self._owner(self, closed)
        if closed.by_peer:
            self._release()
        else:
            self._linger_on()
            self._linger()

    def _linger_on(self) -> None:
        """Stay as long as the other side takes anything."""
        taken = self._taken

        def look() -> None:
            if self._residue and self._taken != taken:
                self._linger_on()
            else:
                self._release()

        self._timer = self.loop.call_at(self.loop.now() + self._patience.linger, look)

    def _linger(self) -> None:
        """Write what is left, then wait for the other side to close."""
        if self.is_released:
            return
        done = False
        try:
            with self._lock:
                done = self._drain()
            ended = done and (not self.link.is_reliable or self._discard())
        except LinkError:
            ended = True
        if ended:
            self._release()
        else:
            self.loop.watch(self.link, self._linger if done else None, None if done else self._linger)

    def _discard(self) -> bool:
        """Throw away what is there; whether it was the end."""
        room = memoryview(bytearray(1 << 16))
        for _ in range(READS):
            count = self.link.recv_into(room)
            if count in (0, NOTHING):
                return count == 0
        return False

    def _release(self) -> None:
        """Close the link."""
        if not self.is_released:
            self.is_released = True
            if self._timer is not None:
                self._timer.cancel()
            self._forget_residue()
            self.loop.watch(self.link, None)
            self.link.close()
            if self.on_released is not None:
                self.on_released(self)

    def release(self) -> None:
        """Close the link at once, whatever was said; after `close`."""
        self._closed = True
        self._release()

    def sever(self) -> None:
        """In a forked child, which has only a copy of the link: say nothing more on it."""
        self._closed = self.is_released = True
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        sever(self.link)

    # -- from any thread: listening

    def pause(self) -> None:
        """Read no more until `resume`: whoever receives has no room. The peer is slowed down, nothing is lost."""
        if not self._paused:
            self._paused = True
            self.loop.call_soon(self._watch)

    def resume(self) -> None:
        """Read again."""
        if self._paused:
            self._paused = False
            self.loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._watch()
        self._on_readable()  # the link may have buffered something of which its descriptor says nothing

    def _watch(self) -> None:
        """Watch for what matters now; in the loop."""
        if not self._closed:
            readable = None if self._paused else self._on_readable
            self.loop.watch(self.link, readable, self._on_writable if self._residue else None)

    # -- from any thread: saying

    def say(self, message: NetworkMessage, qos: QoS, reliable: bool = True) -> None:
        """Say a network message, without waiting: whoever may say much calls `wait_for_room` first."""
        outbox = self.connection.outbox
        if outbox is None:
            return
        try:
            head = encode(message)
            with self._lock:
                if not self._closed:
                    outbox.append(qos.priority, reliable, head)
                    self._said = True
                    self._flush_soon()
        except ZError as error:  # too large for this session: nobody else is to miss theirs because of it
            logger.warning("a message to %s was not sent: %s", self.link.dst, error)

    def put(self, head: bytes, payload: bytes | memoryview | None, qos: QoS, reliable: bool) -> bool:
        """Say a message given as its bytes and, behind them, a payload; False if it was dropped."""
        outbox = self.connection.outbox
        if outbox is None:
            return False
        with self._lock:
            if self._residue and not self._wait_for_room(qos.congestion):
                return False
            if self._closed:
                return False
            if self._said:  # a key may be named by a number that a message waiting in another lane declares
                self._said = False
                self._write(outbox.take())
            full = outbox.append(qos.priority, reliable, head, payload)
            if self._flush_due and not qos.express:  # a run of messages, which the loop will end: no need for the time
                if full:
                    self._write(outbox.take_ready())
                return True
            now = time.monotonic()
            if now - self._spoke > self._patience.quiet or qos.express:
                self._write(outbox.take())
            else:
                if full:
                    self._write(outbox.take_ready())
                self._flush_soon()
            self._spoke = now
        return True

    def wait_for_room(self, congestion: Congestion) -> bool:
        """Wait until the link has taken what was said before; False if it is better not to say more."""
        with self._lock:
            return not self._closed and (not self._residue or self._wait_for_room(congestion))

    def _wait_for_room(self, congestion: Congestion) -> bool:
        """Wait until the link has taken what lies before; with the lock, which is free while waiting."""
        if self.loop.is_current:
            return True  # the loop never waits: what it has to say is bounded by what it hears
        if congestion is Congestion.BLOCK:
            return self._block()
        if congestion is Congestion.BLOCK_FIRST and not self._has_first:
            self._has_first = True
            try:
                return self._block()
            finally:
                self._has_first = False
        if congestion is Congestion.DROP and not self._is_congested:
            self._room.wait_for(self._has_room, self._patience.drop_after)
            self._is_congested = bool(self._residue)
        return not self._residue and not self._closed

    def _has_room(self) -> bool:
        return not self._residue or self._closed

    def _block(self) -> bool:
        """Wait as long as the peer takes anything."""
        while not self._has_room():
            taken = self._taken
            if not self._room.wait(self._patience.block) and self._taken == taken and not self._has_room():
                self.loop.call_soon(self._give_up)
                return False
        return not self._closed

    def _give_up(self) -> None:
        self.close(CloseReason.UNRESPONSIVE, f"took nothing for {self._patience.block:g} s")

    def drain(self) -> None:
        """Write everything said so far, and wait until the link has taken it or takes no more."""
        with self._room:
            if not self._closed and self.connection.outbox is not None:
                self._write(self.connection.outbox.take())
            if self._residue:
                self._wait_for_room(Congestion.BLOCK)

    # -- with the lock: writing

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        """In the loop: write what was said and not yet written."""
        with self._lock:
            self._flush_due = False
            self._said = False
            if not self._closed and self.connection.outbox is not None:
                self._write(self.connection.outbox.take())
                self._spoke = time.monotonic()

    def _queue(self, batches: Sequence[bytes | bytearray]) -> None:
        for batch in batches:
            if batch:
                piece = memoryview(batch)[self._prefix :]
                self._residue.append(piece)
                self._backlog += len(piece)

    def _forget_residue(self) -> None:
        self._residue.clear()
        self._backlog = 0

    def _write(self, batches: Sequence[bytes | bytearray]) -> None:
        """Offer batches to the link, behind what waits."""
        if not batches or self._closed:
            return
        waits = bool(self._residue)
        self._queue(batches)
        self.connection.sent(time.monotonic())
        try:
            if not waits and not self._drain():
                self.loop.call_soon(self._watch)
        except LinkError as error:
            self._fail(error)

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

    def _fail(self, error: LinkError) -> None:
        """The link does not take any more. What the other side said last may tell why, so it is read first."""
        self._forget_residue()

        def end() -> None:
            self._paused = False
            self._on_readable()
            self._end(self._lost(error))

        self.loop.call_soon(end)

    def _on_writable(self) -> None:
        """In the loop."""
        with self._lock:
            try:
                done = self._drain()
            except LinkError as error:
                self._fail(error)
                done = True
            if done:
                self._watch()
            self._room.notify_all()
        if done and self.on_room is not None:
            self.on_room(self)
