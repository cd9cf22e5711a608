"""Driver: pumps one Connection over one Link. The only place where bytes are read from or written to a link.

Reading happens in the loop. Writing happens in whatever thread has something to say: a full batch is written by the
thread that filled it, a batch that is not full by the loop a moment later, or at once if nothing was said for a
while. What a link does not take waits in `_residue` until the loop finds it writable; meanwhile threads that want to
block wait for that, and those that would rather drop, drop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from zenspark.errors import CloseReason, LinkError
from zenspark.net.links import NOTHING, Link
from zenspark.net.loop import Loop
from zenspark.transport.connection import Closed, Connection, Event, Say, State
from zenspark.wire.codec import encode
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import Congestion, QoS

logger = logging.getLogger("zenspark.net")

READS = 16
"""How often a link that has more to read may be read before the others get their turn."""
DROP_AFTER = 0.001
"""Seconds a message that may be dropped waits for room."""
BLOCK_LIMIT = 5.0
"""Seconds without progress after which a peer that does not read is given up."""
QUIET = 50e-6
"""Seconds of silence after which a message is worth a write of its own."""


class Driver:
    """One link and the connection that runs over it. `owner` handles its events, in the loop."""

    def __init__(self, loop: Loop, link: Link, connection: Connection, owner: Callable[[Driver, Event], None]) -> None:
        self.loop = loop
        self.link = link
        self.connection = connection
        self._owner = owner
        self._room = threading.Condition(threading.Lock())
        self._residue: deque[memoryview] = deque()
        self._flush_due = False
        self._spoke = 0.0
        self._closed = False
        self._paused = False

    # -- in the loop

    def start(self) -> None:
        """Begin: call in the loop."""
        self._watch()
        for event in self.connection.start():
            self._handle(event)
        self._arm()

    def _on_readable(self) -> None:
        try:
            for _ in range(READS):
                if self._closed or self._paused or not self._read() or not self.link.has_buffered:
                    break
        except LinkError as error:
            self._end(Closed(CloseReason.GENERIC, str(error), by_peer=True))

    def _read(self) -> bool:
        """Read once; False if there was nothing."""
        room = self.connection.buffer()
        prefix = 0 if self.link.is_streamed else 2
        count = self.link.recv_into(room[prefix:])
        if count == NOTHING:
            return False
        if not count:
            self._end(self.connection.receive_eof())
            return False
        if prefix:
            room[:prefix] = count.to_bytes(prefix, "little")  # a datagram is a batch: give it the length it lacks
        for event in self.connection.receive(count + prefix, self.loop.now()):
            self._handle(event)
        return True

    def _handle(self, event: Event) -> None:
        match event:
            case Say(batch):
                self._write_soon(batch)
            case Closed():
                self._end(event)
            case _:
                self._owner(self, event)

    def admit(self) -> None:
        """Let in who asked: call in the loop, on an Asked event."""
        for event in self.connection.admit():
            self._handle(event)
        self._arm()

    def _arm(self) -> None:
        """Be called again when the connection has something to do by itself."""
        if not self._closed:
            when = self.connection.next_timeout()
            if when != float("inf"):
                self.loop.call_at(when, self._on_time)

    def _on_time(self) -> None:
        if self._closed:
            return
        if self._paused:  # the peer may well have spoken: it is we who do not listen
            self.connection.heard(self.loop.now())
        for event in self.connection.handle_timeout(self.loop.now()):
            self._handle(event)
        self._arm()

    def close(self, reason: CloseReason = CloseReason.GENERIC, text: str = "closed here") -> None:
        """End the session: call in the loop."""
        if not self._closed:
            self._end(self.connection.close(reason, text))

    def _end(self, closed: Closed) -> None:
        if self._closed:
            return
        with self._room:
            self._closed = True
            if self.connection.outbox is not None and not closed.by_peer:
                self._residue.extend(memoryview(batch) for batch in self.connection.outbox.take())
            self._residue.append(memoryview(closed.farewell))
            try:
                self._drain()
            except LinkError:
                logger.debug("%s was gone before it could be told goodbye", self.link.dst)
            self._room.notify_all()
        self.loop.watch(self.link, None)
        self.link.close()
        self._owner(self, closed)

    # -- from any thread

    def pause(self) -> None:
        """Read no more until `resume`: whoever receives has no room. The peer is slowed down, nothing is lost."""
        self._paused = True
        self.loop.call_soon(self._watch)

    def resume(self) -> None:
        """Read again."""
        if self._paused:
            self._paused = False
            self.loop.call_soon(self._watch)

    def _watch(self) -> None:
        """Watch for what matters now; in the loop."""
        if not self._closed:
            readable = None if self._paused else self._on_readable
            self.loop.watch(self.link, readable, self._on_writable if self._residue else None)

    def say(self, message: NetworkMessage, qos: QoS, reliable: bool = True) -> None:
        """Say a network message, without waiting: whoever may say much calls `wait_for_room` first."""
        head = encode(message)
        with self._room:
            if not self._closed and self.connection.outbox is not None:
                self.connection.outbox.append(qos.priority, reliable, head)
                self._flush_soon()

    def wait_for_room(self, congestion: Congestion) -> bool:
        """Wait until the link has taken what was said before; False if it is better not to say more."""
        with self._room:
            return not self._residue or self._wait_for_room(congestion)

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_soon(self._flush)

    def put(self, head: bytes, payload: bytes | memoryview | None, qos: QoS, reliable: bool) -> bool:
        """Say a message given as its bytes and, behind them, a payload; False if it was dropped."""
        outbox = self.connection.outbox
        if outbox is None:
            return False
        with self._room:
            if self._residue and not self._wait_for_room(qos.congestion):
                return False
            if self._closed:
                return False
            full = outbox.append(qos.priority, reliable, head, payload)
            now = time.monotonic()
            if qos.express or now - self._spoke > QUIET:
                self._write(outbox.take())
            elif full:
                self._write(outbox.take_ready())
            self._spoke = now
            if not outbox.is_empty:
                self._flush_soon()
        return True

    def _wait_for_room(self, congestion: Congestion) -> bool:
        """Wait until the link has taken what lies before; with the lock, which is free while waiting."""
        if self.loop.is_current:
            return True  # the loop never waits: what it has to say is bounded by what it hears
        if congestion is not Congestion.BLOCK:
            self._room.wait(DROP_AFTER)
            return not self._residue
        while self._residue and not self._closed:
            waiting = self._pending()
            if not self._room.wait(BLOCK_LIMIT) and self._pending() == waiting:
                self.loop.call_soon(self._give_up)
                return False
        return not self._closed

    def _give_up(self) -> None:
        self.close(CloseReason.UNRESPONSIVE, f"took nothing for {BLOCK_LIMIT:g} s")

    def _pending(self) -> int:
        return sum(len(piece) for piece in self._residue)

    def _flush(self) -> None:
        """In the loop: write what was said and not yet written."""
        with self._room:
            self._flush_due = False
            if not self._closed and self.connection.outbox is not None:
                self._write(self.connection.outbox.take())

    def _write_soon(self, batch: bytes) -> None:
        with self._room:
            self._write([batch])

    def _write(self, batches: list[bytes | bytearray] | list[bytearray] | list[bytes]) -> None:
        """Offer batches to the link, behind what waits; with the lock."""
        if not batches:
            return
        prefix = 0 if self.link.is_streamed else 2
        self._residue.extend(memoryview(batch)[prefix:] for batch in batches)
        self.connection.sent(time.monotonic())
        try:
            if not self._drain():
                self.loop.call_soon(self._watch)
        except LinkError as error:
            closed = Closed(CloseReason.GENERIC, str(error), by_peer=True)
            self._residue.clear()
            self.loop.call_soon(lambda: self._end(closed))

    def _drain(self) -> bool:
        """Give the link as much as it takes; whether that was all."""
        while self._residue:
            piece = self._residue[0]
            taken = self.link.send(piece) if piece else 0
            if taken < len(piece):
                self._residue[0] = piece[taken:]
                return False
            self._residue.popleft()
        return True

    def _on_writable(self) -> None:
        with self._room:
            try:
                done = self._drain()
            except LinkError as error:
                self._residue.clear()
                done = True
                closed = Closed(CloseReason.GENERIC, str(error), by_peer=True)
                self.loop.call_soon(lambda: self._end(closed))
            if done:
                self._watch()
            self._room.notify_all()

    @property
    def is_open(self) -> bool:
        """Whether there is a session."""
        return not self._closed and self.connection.state is State.OPEN
