"""GroupDriver: runs the session with a multicast group over the group's link."""

from __future__ import annotations

from collections.abc import Callable

from zenspark.net.io.congestion_control import WriterSettings
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.io.link_observer import LinkObserver
from zenspark.net.links.base import WOULD_BLOCK
from zenspark.net.links.multicast import MulticastLink
from zenspark.net.loop.event_loop import EventLoop
from zenspark.transport.connection import Send
from zenspark.transport.multicast import GroupEvent, GroupSession, JoinDue
from zenspark.transport.receiver import Closed

WRITE_RETRY_SECONDS = 0.001
"""Seconds until a datagram that was not taken is sent again: the descriptor does not report when the rate allows it."""


class GroupDriver(LinkDriver):
    """Runs the session with a multicast group. `owner` handles its events, in the loop."""

    connection: GroupSession
    link: MulticastLink

    def __init__(
        self,
        loop: EventLoop,
        link: MulticastLink,
        group: GroupSession,
        owner: Callable[[GroupEvent | Closed], None],
        settings: WriterSettings,
        observer: LinkObserver,
    ) -> None:
        super().__init__(loop, link, group, settings, observer)
        self._owner = owner
        self._timer_due = float("inf")
        """Time at which the armed timer is due."""

    def start(self) -> None:
        """Send the first JOIN, and start reading; in the loop."""
        self._watch()
        self._on_timer(self.loop.now())
        self._arm()

    def _read(self) -> bool:
        size, sender = self.link.recv_from(self.connection.buffer())
        if size == WOULD_BLOCK:
            return False
        self.bytes_received += size
        for event in self.connection.receive(sender, size, self.loop.now()):
            self._handle(event)
        if self.connection.next_timeout() < self._timer_due:  # a new member waits for the JOIN of this node
            self._arm()
        return True

    def _arm(self) -> None:
        self._timer_due = self.connection.next_timeout()
        super()._arm()

    def _on_timer(self, now: float) -> None:
        for event in self.connection.handle_timeout(now):
            self._handle(event)

    def _on_ended(self, closed: Closed) -> None:
        self._owner(closed)

    def _handle(self, event: GroupEvent) -> None:
        match event:
            case Send(batch):
                with self._lock:
                    self._write([batch])
            case JoinDue():
                with self._lock:
                    self._disable_lockfree_append()  # no message may come between the outbox and the JOIN
                    self._write([*self.connection.outbox.pop_all(), self.connection.make_join(self.loop.now())])
            case _:
                self._owner(event)

    def _watch(self) -> None:
        if not self._has_ended:
            self.loop.watch(self.link, None if self._paused else self._on_readable)
            if self._unsent:
                self.loop.call_at(self.loop.now() + WRITE_RETRY_SECONDS, self._on_writable)

    def _on_writable(self) -> None:
        super()._on_writable()
        if self._unsent:
            self._watch()
