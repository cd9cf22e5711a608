"""Driver: pumps one Connection over one Link. The only place where bytes are read from or written to a link.

Reading happens in the loop. Writing happens in whatever thread has something to say: that half is the `LinkWriter`. What
does not depend on the machine that is pumped, a connection with one node or a group of many, is the `LinkDriver`.

The end has two steps. First the session ends: its owner is told, nobody says anything more. Then the link lingers, so
that what was said before and the farewell arrive: it is written, and its direction ended, so that two that close at
once do not wait for each other. What still comes is read and thrown away until the other side has closed too, because a
socket closed with bytes unread takes back what it has sent. Then it is closed.
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from zenspark.errors import CloseReason, LinkError
from zenspark.net.io.counters import DropReason
from zenspark.net.io.waiters import Waiters
from zenspark.net.io.writer import HasOutbox, LinkWriter, WriterSettings
from zenspark.net.links.base import WOULD_BLOCK, Link
from zenspark.net.loop.event_loop import EventLoop, Timer, detach_after_fork
from zenspark.net.loop.read_coalescing import ReadCoalescer
from zenspark.transport.connection import Connection, ConnectionState, Event, Send
from zenspark.transport.handshake import Opened
from zenspark.transport.receiver import Closed, PushRun

logger = logging.getLogger("zenspark.net")

MAX_REPLY_BYTES = 1024
"""Bytes up to which what comes may be part of an exchange, in which whoever asks waits for the answer."""
MAX_LINGER_EXTENSIONS = 10
"""How often a link that has ended may go on because something of what waits was taken: a peer that reads byte by byte
must not keep it all in memory."""
MAX_READS_PER_TURN = 16
"""How often a link that has more to read may be read before the others get their turn."""


class TransportMachine(HasOutbox, Protocol):
    """The machine that is pumped."""

    def close(self, reason: CloseReason, text: str) -> Closed:
        """End it."""

    def note_received(self, now: float) -> None:
        """Nobody is silent, whatever has been read."""

    def next_timeout(self) -> float:
        """When it has something to do by itself."""


class LinkDriver(LinkWriter):
    """One link and the machine that runs over it."""

    connection: TransportMachine

    def __init__(self, loop: EventLoop, link: Link, connection: TransportMachine, patience: WriterSettings) -> None:
        super().__init__(loop, link, connection, patience)
        self.is_released = False
        """Whether the link is closed too."""
        self.on_released: Callable[[LinkDriver], None] | None = None
        """Whom to tell of that, in the loop."""
        self.on_drained: Callable[[LinkDriver], None] | None = None
        """Whom to tell, in the loop, when the link has taken what waited."""
        self.on_unsent: Callable[[LinkDriver], None] | None = None
        """Whom to tell, in the loop, that the link did not take all it was offered; maybe again and again."""
        self.received = 0
        """How many bytes were read so far."""
        self._paused: set[object] = set()
        """Who has no room for what comes here."""
        self._timer: Timer | None = None

    @abstractmethod
    def _read(self) -> bool:
        """Read once and handle what that means; False if there was nothing."""

    @abstractmethod
    def _on_timer(self, now: float) -> None:
        """The machine has something to do by itself."""

    @abstractmethod
    def _on_ended(self, closed: Closed) -> None:
        """Tell the owner that it is over."""

    # -- in the loop

    def close(self, reason: CloseReason = CloseReason.GENERIC, text: str = "closed locally") -> None:
        """End the session."""
        if not self._closed:
            self._end(self.connection.close(reason, text))

    def _on_readable(self) -> None:
        try:
            for _ in range(MAX_READS_PER_TURN):
                if self._closed or self._paused or not self._read() or not self.link.has_buffered:
                    return
        except LinkError as error:
            self._end(self._lost(error))
        except BaseException:  # a mistake of ours about what this peer said; the others must not suffer
            logger.exception("something went wrong with what %s said", self.link.dst)
            self.close(text="an error here")
        else:
            self.loop.call_soon(self._on_readable)  # the descriptor says nothing of what the link has buffered

    def _arm(self) -> None:
        """Be called again when the connection has something to do by itself."""
        if not self._closed:
            self._set_timer(self.connection.next_timeout(), self._on_timeout)

    def _set_timer(self, when: float, work: Callable[[], None]) -> None:
        """Have one thing done at a time, instead of what was to be done before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(when, work)

    def _on_timeout(self) -> None:
        self._read_before_timeout()
        if self._closed:
            return
        self._on_timer(self.loop.now())
        self._arm()

    def _read_before_timeout(self) -> None:
        """After a stall the peer may well have spoken, and nobody has read it yet; or it is we who do not listen."""
        if self._paused:
            self.connection.note_received(self.loop.now())
        else:
            self._on_readable()

    # -- in the loop: the end

    def _lost(self, error: LinkError) -> Closed:
        return Closed(CloseReason.GENERIC, str(error), by_peer=True)

    def _end(self, closed: Closed) -> None:
        """The session is over."""
        if self._closed:
            return
        with self._lock:
            self._closed = True
            self._disable_lockfree_append()
            if self._timer is not None:
                self._timer.cancel()
            is_lost = closed.by_peer or closed.reason is CloseReason.UNRESPONSIVE
            if is_lost:
                if not closed.by_peer:
                    self.drop(DropReason.UNRESPONSIVE, len(self._unsent))
                self._discard_unsent()
            else:
                outbox = self.connection.outbox
                self._enqueue([*([] if outbox is None else outbox.pop_all()), closed.close_batch])
            self._waiters.notify_all()
        self._on_ended(closed)
        if is_lost:
            self._release()
        else:
            self._extend_linger(MAX_LINGER_EXTENSIONS)
            self._linger()

    def _extend_linger(self, times: int) -> None:
        """Stay as long as the other side takes anything, so many times at most."""
        taken = self._bytes_sent

        def look() -> None:
            if times > 1 and self._unsent and self._bytes_sent != taken:
                self._extend_linger(times - 1)
            else:
                self._release()

        self._set_timer(self.loop.now() + self._settings.close_linger, look)

    def _linger(self) -> None:
        """Write what is left, then wait for the other side to close."""
        if self.is_released:
            return
        done = False
        try:
            with self._lock:
                done = self._send_unsent()
            if done:
                self.link.half_close()
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
        for _ in range(MAX_READS_PER_TURN):
            count = self.link.recv_into(room)
            if count in (0, WOULD_BLOCK):
                return count == 0
        return False

    def _release(self) -> None:
        """Close the link."""
        if not self.is_released:
            self.is_released = True
            if self._timer is not None:
                self._timer.cancel()
            self._discard_unsent()
            self.loop.watch(self.link, None)
            self.link.close()
            if self.on_released is not None:
                self.on_released(self)

    def release(self) -> None:
        """Close the link at once, whatever was said; after `close`."""
        self._closed = True
        self._disable_lockfree_append()
        self._release()

    def detach_after_fork(self) -> None:
        """In a forked child, which has only a copy of the link: say nothing more on it."""
        self._closed = self.is_released = True
        self._disable_lockfree_append()
        self._lock = threading.Lock()
        self._waiters = Waiters()
        detach_after_fork(self.link)

    # -- from any thread: listening

    def pause(self, by: object = None) -> None:
        """Read no more until everybody who paused resumes: they have no room. The peer is slowed down, nothing lost."""
        if by not in self._paused:
            self._paused.add(by)
            self.loop.call_soon(self._watch)

    def resume(self, by: object = None) -> None:
        """Read again, as far as this one is concerned."""
        if by in self._paused:
            self._paused.discard(by)
            self.loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._watch()
        self._on_readable()  # the link may have buffered something of which its descriptor says nothing

    def _watch(self) -> None:
        """Watch for what matters now; in the loop."""
        if not self._closed:
            readable = None if self._paused else self._on_readable
            self.loop.watch(self.link, readable, self._on_writable if self._unsent else None)
            if self._unsent and self.on_unsent is not None:
                self.on_unsent(self)

    # -- what the speaker needs, in the loop

    def _close_unresponsive(self, why: str) -> None:
        self.close(CloseReason.UNRESPONSIVE, why)

    def _fail(self, error: LinkError) -> None:
        """The link does not take any more. What the other side said last may tell why, so it is read first."""
        self._discard_unsent()

        def end() -> None:
            self._paused.clear()
            self._on_readable()
            self._end(self._lost(error))

        self.loop.call_soon(end)

    def _on_writable(self) -> None:
        if self._closed:
            return
        with self._lock:
            try:
                done = self._send_unsent()
            except LinkError as error:
                self._fail(error)
                done = True
            if done:
                self._watch()
            self._waiters.notify_all()
        if done and self.on_drained is not None:
            self.on_drained(self)


class ConnectionDriver(LinkDriver):
    """One link and the connection that runs over it. `owner` handles its events, in the loop."""

    connection: Connection

    def __init__(
        self,
        loop: EventLoop,
        link: Link,
        connection: Connection,
        owner: Callable[[ConnectionDriver, Event], None],
        patience: WriterSettings = WriterSettings(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(loop, link, connection, patience)
        self._owner = owner
        self._sent_at_last_reply = 0
        """How much was said here when a small message came last: more since then makes the next one an answer."""
        self._coalescer = ReadCoalescer()

    @property
    def is_open(self) -> bool:
        """Whether there is a session."""
        return not self._closed and self.connection.state is ConnectionState.OPEN

    # -- in the loop

    def start(self, timeout: float | None = None) -> None:
        """Begin; without a session after so many seconds, end."""
        if timeout is not None:
            self._set_timer(self.loop.now() + timeout, partial(self._on_open_timeout, timeout))
        self._watch()
        self._handle_all(self.connection.start())

    def _on_open_timeout(self, timeout: float) -> None:
        self._read_before_timeout()
        if not self.is_open:
            self.close(CloseReason.GENERIC, f"no session after {timeout:g} s")

    def admit(self) -> None:
        """Let in who asked: on an Asked event."""
        self._handle_all(self.connection.accept())

    def _read(self) -> bool:
        """Read once; False if there was nothing."""
        room = self.connection.buffer()
        count = self.link.recv_into(room[self._prefix :])
        if count == WOULD_BLOCK:
            return False
        if not count:
            self._end(self.connection.receive_eof())
            return False
        self.received += count
        if self._prefix:
            room[: self._prefix] = count.to_bytes(self._prefix, "little")  # a datagram is a batch
        now = self.loop.now()
        for event in self.connection.receive(count + self._prefix, now):
            self._handle(event)
        if self._coalescer.should_delay_next_read(count, len(room), self._bytes_sent, now):
            self.loop.coalesce_next_read()
        elif count < MAX_REPLY_BYTES and self._bytes_sent != self._sent_at_last_reply:
            self._sent_at_last_reply = self._bytes_sent
            self.loop.busy_poller.note_reply()
        return True

    def _handle_all(self, events: Sequence[Event]) -> None:
        for event in events:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        match event:
            case PushRun():
                self._owner(self, event)
            case Send(batch):
                with self._lock:
                    self._write([batch])
            case Closed():
                self._end(event)
            case _:
                self._owner(self, event)
                if isinstance(event, Opened):
                    self._arm()

    def _on_timer(self, now: float) -> None:
        self._handle_all(self.connection.handle_timeout(now))

    def _on_ended(self, closed: Closed) -> None:
        self._owner(self, closed)
