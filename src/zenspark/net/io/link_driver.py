"""Drivers: run the session of one link. They read from the link, in the loop, and keep the timers of the session.

Any thread writes: that half is the `LinkWriter` (`writer.py`). `LinkDriver` adds reading, timers and closing, for
sessions with one neighbour (`ConnectionDriver`) and with a multicast group (`GroupDriver`).

A session ends here when the lease of the neighbour has expired (`_on_timeout`, by `Connection.handle_timeout`), and
when the neighbour is a slow consumer (`close_slow_consumer`), as found by `congestion_control.py` (a publisher waits),
`writer.py` (the backlog exceeds `max_backlog`) or `forwarding_backpressure.py` (forwarded messages). A link on which no
session is opened in time is closed here, too (`_on_open_timeout`). HTTP clients: `web/connection.py`, `web/events.py`.

Closing has two steps. First the session ends (`end_session`): its owner is notified, and nothing more can be sent.
Then the link lingers, so that the messages sent before and the CLOSE arrive: they are written, and the link is
half-closed, so that two nodes that close at once do not wait for each other. Bytes that still arrive are read and
discarded until the neighbour has closed too, because closing a socket with unread bytes resets the connection and loses
what was written. Then the link is closed (`close_link`). A lost link, or that of a slow consumer, is closed at once,
without CLOSE.
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

from zenspark.errors import CloseReason, LinkError
from zenspark.net.io.congestion_control import CongestionPolicy, WriterSettings
from zenspark.net.io.counters import DropReason, LinkTraffic
from zenspark.net.io.link_observer import IgnoredLinkEvents, LinkObserver
from zenspark.net.io.writer import HasOutbox, LinkWriter
from zenspark.net.links.base import WOULD_BLOCK, Link
from zenspark.net.loop.event_loop import EventLoop, Timer, detach_after_fork
from zenspark.net.loop.read_coalescing import ReadCoalescer
from zenspark.transport.connection import Connection, ConnectionEvent, ConnectionState, Send
from zenspark.transport.handshake import Opened
from zenspark.transport.receiver import Closed, MessageReceived
from zenspark.wait_queue import WaitQueue
from zenspark.wire.columns import PushRun

logger = logging.getLogger("zenspark.net")

MAX_PING_PONG_READ_BYTES = 1024
"""Bytes up to which a read after a send counts as a reply: the neighbour may soon send another, worth a busy poll."""
MAX_LINGER_EXTENSIONS = 10
"""Maximum number of linger times in a row, each because the neighbour took bytes: one that reads byte by byte must not
keep the unsent bytes in memory for ever."""
MAX_READS_PER_TURN = 16
"""Reads of one link with buffered data before other links get their turn."""
MAX_EVENTS_PER_TURN = 256
"""Events of one read before other links get their turn: a read may have tens of thousands of small requests."""


class TransportMachine(HasOutbox, Protocol):
    """The sans-I/O state machine that a driver runs: a session with one neighbour, or with a multicast group."""

    def close(self, reason: CloseReason, text: str) -> Closed:
        """End the session."""

    def renew_leases(self, now: float) -> None:
        """Renew the lease of each neighbour without a message: this node did not read, so silence proves nothing."""

    def next_timeout(self) -> float:
        """Return the time of its next timeout."""


class LinkDriver(LinkWriter):
    """Runs a session over one link."""

    connection: TransportMachine

    def __init__(
        self,
        loop: EventLoop,
        link: Link,
        connection: TransportMachine,
        settings: WriterSettings,
        observer: LinkObserver | None = None,
    ) -> None:
        super().__init__(loop, link, connection, settings, observer or IgnoredLinkEvents())
        self.is_link_closed = False
        """Whether the link is closed."""
        self.bytes_received = 0
        """Bytes read so far."""
        self._paused: set[object] = set()
        """Sinks and backlogged links for which reading is paused."""
        self._unhandled: Iterator[ConnectionEvent] | None = None
        """The other events of the last read, which are handled before the next one."""
        self._timer: Timer | None = None

    @property
    def traffic(self) -> LinkTraffic:
        """Bytes and sent messages of the link so far; from any thread."""
        outbox = self.connection.outbox
        return LinkTraffic(self.bytes_received, self._bytes_sent, {} if outbox is None else outbox.sent_by_kind)

    @abstractmethod
    def _read(self) -> bool:
        """Read once and handle the events; False if nothing was there."""

    @abstractmethod
    def _on_timer(self, now: float) -> None:
        """Handle a timeout of the session."""

    @abstractmethod
    def _on_ended(self, closed: Closed) -> None:
        """Notify the owner that the session has ended."""

    # -- in the loop

    def end_session(self, reason: CloseReason = CloseReason.GENERIC, text: str = "closed by this node") -> None:
        """End the session."""
        if not self._has_ended:
            self._end(self.connection.close(reason, text))

    def _on_readable(self) -> None:
        try:
            for _ in range(MAX_READS_PER_TURN):
                if self._has_ended or self._paused or not self._read() or not self.link.has_buffered:
                    return
        except LinkError as error:
            self._end(self._link_lost(error))
        except BaseException:  # a bug triggered by this neighbour's data must not affect other neighbours
            logger.exception("internal error while handling data from %s, closing its session", self.neighbour)
            self.end_session(text="internal error")
        else:
            self.loop.call_soon(self._on_readable)  # the descriptor does not report bytes that the link has buffered

    def _arm(self) -> None:
        """Schedule the next timeout of the session."""
        if not self._has_ended:
            self._set_timer(self.connection.next_timeout(), self._on_timeout)

    def _set_timer(self, when: float, task: Callable[[], None]) -> None:
        """Replace the driver's timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(when, task)

    def _on_timeout(self) -> None:
        self._read_before_timeout()
        if self._has_ended:
            return
        self._on_timer(self.loop.now())
        self._arm()

    def _read_before_timeout(self) -> None:
        """Read before a lease is checked: if the loop was held up, unread data may be there.

        A link that is paused, or has events to be handled first, is not read: the leases of its neighbours are
        renewed instead.
        """
        if self._paused or self._unhandled is not None:
            self.connection.renew_leases(self.loop.now())
        else:
            self._on_readable()

    # -- in the loop: closing

    def _link_lost(self, error: LinkError) -> Closed:
        return Closed(CloseReason.GENERIC, str(error), by_peer=True)

    def _end(self, closed: Closed) -> None:
        """End the session, and linger; a lost link, or that of a slow consumer, is closed at once."""
        if self._has_ended:
            return
        with self._lock:
            self._has_ended = True
            self._disable_lockfree_append()
            if self._timer is not None:
                self._timer.cancel()
            closes_at_once = closed.by_peer or closed.reason is CloseReason.UNRESPONSIVE
            if closes_at_once:
                if not closed.by_peer:
                    self.count_dropped(DropReason.UNRESPONSIVE, self._count_unsent_batches())
                self._discard_unsent()
            else:
                outbox = self.connection.outbox
                self._enqueue([*([] if outbox is None else outbox.pop_all()), closed.close_batch])
            self._wait_queue.notify_all()
        self._on_ended(closed)
        if closes_at_once:
            self.close_link()
        else:
            self._extend_linger(MAX_LINGER_EXTENSIONS)
            self._linger()

    def _extend_linger(self, times: int) -> None:
        """Keep the link for `close_linger` seconds, at most `times` times: again only if the neighbour took bytes."""
        bytes_sent = self._bytes_sent

        def extend_or_close() -> None:
            if times > 1 and self._unsent and self._bytes_sent != bytes_sent:
                self._extend_linger(times - 1)
            else:
                self.close_link()

        self._set_timer(self.loop.now() + self._settings.close_linger, extend_or_close)

    def _linger(self) -> None:
        """Write the unsent bytes, half-close the link, then wait for the neighbour to close."""
        if self.is_link_closed:
            return
        is_drained = False
        try:
            with self._lock:
                is_drained = self._send_unsent()
            if is_drained:
                self.link.half_close()
            is_finished = is_drained and (not self.link.is_reliable or self._discard_received())
        except LinkError:
            is_finished = True
        if is_finished:
            self.close_link()
        else:
            self.loop.watch(self.link, self._linger if is_drained else None, None if is_drained else self._linger)

    def _discard_received(self) -> bool:
        """Read and discard what is there; whether the neighbour has closed."""
        buffer = memoryview(bytearray(1 << 16))
        for _ in range(MAX_READS_PER_TURN):
            count = self.link.recv_into(buffer)
            if count in (0, WOULD_BLOCK):
                return count == 0
        return False

    def close_link(self) -> None:
        """Close the link at once, and discard unsent bytes; a session that has not ended gets no CLOSE."""
        if self.is_link_closed:
            return
        self._has_ended = self.is_link_closed = True
        self._disable_lockfree_append()
        if self._timer is not None:
            self._timer.cancel()
        self._discard_unsent()
        self.loop.watch(self.link, None)
        self.link.close()
        self._observer.on_link_closed(self)

    def detach_after_fork(self) -> None:
        """Write nothing more in a forked child, which has only a copy of the link."""
        self._has_ended = self.is_link_closed = True
        self._disable_lockfree_append()
        self._lock = threading.Lock()
        self._wait_queue = WaitQueue()
        self.congestion = CongestionPolicy(self, self._wait_queue, self._settings)
        detach_after_fork(self.link)

    # -- from any thread: pausing

    def pause(self, paused_by: object = None) -> None:
        """Stop reading until each sink or link that paused it resumes: slows down the neighbour, and loses nothing."""
        if paused_by not in self._paused:
            self._paused.add(paused_by)
            self.loop.call_soon(self._watch)

    def resume(self, paused_by: object = None) -> None:
        """Withdraw the pause of one sink or link."""
        if paused_by in self._paused:
            self._paused.discard(paused_by)
            self.loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._watch()
        self._on_readable()  # the descriptor does not report bytes that the link has buffered

    def _watch(self) -> None:
        if not self._has_ended:
            on_readable = None if self._paused else self._on_readable
            self.loop.watch(self.link, on_readable, self._on_writable if self._unsent else None)
            if self._unsent:
                self._observer.on_unsent(self)

    # -- in the loop: slow consumers, failures, links that can be written again

    def close_slow_consumer(self, text: str) -> None:
        """End the session with a slow consumer; for HTTP: `web/connection.py`, `web/events.py`."""
        self.end_session(CloseReason.UNRESPONSIVE, text)

    def _fail(self, error: LinkError) -> None:
        """End the session because the link failed, after reading it: the neighbour's CLOSE may have the reason."""
        self._discard_unsent()

        def read_and_end() -> None:
            self._paused.clear()
            self._on_readable()
            while self._unhandled is not None and not self._has_ended:
                self._on_readable()
            self._end(self._link_lost(error))

        self.loop.call_soon(read_and_end)

    def _on_writable(self) -> None:
        if self._has_ended:
            return
        with self._lock:
            try:
                is_drained = self._send_unsent()
            except LinkError as error:
                self._fail(error)
                is_drained = True
            if is_drained:
                self._watch()
            self._wait_queue.notify_all()
        if is_drained:
            self._observer.on_drained(self)


class ConnectionDriver(LinkDriver):
    """Runs the session with one neighbour over one link. `owner` handles its events, in the loop."""

    connection: Connection

    def __init__(
        self,
        loop: EventLoop,
        link: Link,
        connection: Connection,
        owner: Callable[[ConnectionDriver, ConnectionEvent], None],
        settings: WriterSettings = WriterSettings(),  # noqa: B008 - frozen
        observer: LinkObserver | None = None,
    ) -> None:
        super().__init__(loop, link, connection, settings, observer)
        self._owner = owner
        self._sent_at_last_exchange = 0
        """Bytes sent when a small read came last: if there are more by the next one, both ends send."""
        self._coalescer = ReadCoalescer()

    @property
    def is_open(self) -> bool:
        """Whether the session is open."""
        return not self._has_ended and self.connection.state is ConnectionState.OPEN

    # -- in the loop

    def start(self, timeout: float | None = None) -> None:
        """Start the handshake; the link is closed if no session is open after `timeout` seconds."""
        if timeout is not None:
            self._set_timer(self.loop.now() + timeout, partial(self._on_open_timeout, timeout))
        self._watch()
        self._handle_all(self.connection.start())

    def _on_open_timeout(self, timeout: float) -> None:
        self._read_before_timeout()
        if not self.is_open:
            self.end_session(CloseReason.GENERIC, f"no session after {timeout:g} s")

    def accept(self) -> None:
        """Accept the session of a `SessionRequested` event."""
        self._handle_all(self.connection.accept())

    def _read(self) -> bool:
        if self._unhandled is not None:
            return self._handle_events(self._unhandled)
        buffer = self.connection.buffer()
        count = self.link.recv_into(buffer[self._stripped_prefix :])
        if count == WOULD_BLOCK:
            return False
        if not count:
            self._end(self.connection.receive_eof())
            return False
        self.bytes_received += count
        if self._stripped_prefix:
            buffer[: self._stripped_prefix] = count.to_bytes(self._stripped_prefix, "little")  # a datagram is a batch
        now = self.loop.now()
        if not self._handle_events(self.connection.receive(count + self._stripped_prefix, now)):
            return False
        if self._coalescer.should_delay_next_read(count, len(buffer), self._bytes_sent, now):
            self.loop.coalesce_next_read()
        elif count < MAX_PING_PONG_READ_BYTES and self._bytes_sent != self._sent_at_last_exchange:
            self._sent_at_last_exchange = self._bytes_sent
            self.loop.busy_poller.count_exchange()
        return True

    def _handle_events(self, events: Iterator[ConnectionEvent]) -> bool:
        """Handle events of one read; False if others are left for the next turn. They are interrupted behind a message
        only: rows of publications are in columns that all links share."""
        for event in islice(events, MAX_EVENTS_PER_TURN):
            self._handle(event)
        for event in events:
            self._handle(event)
            if isinstance(event, MessageReceived):
                self._unhandled = events
                self.loop.call_soon(self._on_readable)
                return False
        self._unhandled = None
        return True

    def _handle_all(self, events: Sequence[ConnectionEvent]) -> None:
        for event in events:
            self._handle(event)

    def _handle(self, event: ConnectionEvent) -> None:
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
