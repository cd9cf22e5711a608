"""ListenerSet: the listeners of a node. Accepts links, and finishes TLS and WebSocket handshakes in threads."""

from __future__ import annotations

import logging
import threading

from zenspark.errors import LinkError, SessionClosed
from zenspark.net.links import registry
from zenspark.net.links.base import Link, Listener
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.loop.event_loop import detach_after_fork
from zenspark.net.node.dispatch import Dispatcher
from zenspark.net.node.sessions import SessionTable
from zenspark.router.limits import RefusalReason
from zenspark.wire.values import Locator

logger = logging.getLogger("zenspark.net")

ACCEPT_RETRY_DELAY_SECONDS = 0.2
"""Seconds until accepting is tried again on a machine that is out of descriptors."""
MAX_ACCEPTS_PER_TURN = 32
"""Links accepted before open sessions get their turn: a flood of connections must not keep them from being read."""


class ListenerSet:
    """The listeners of one node."""

    def __init__(self, dispatcher: Dispatcher, sessions: SessionTable, handshake_timeout: float) -> None:
        self.listeners: list[Listener] = []
        self.is_closed = False
        """Whether the node is closed, and no listener can be added."""
        self._dispatcher = dispatcher
        self._loop = dispatcher.loop
        self._sessions = sessions
        self._handshake_timeout = handshake_timeout
        self._is_accepting = True
        self._establishing: set[Link] = set()
        """Accepted links whose own handshake (TLS, WebSocket) runs in a thread."""

    # -- from any thread

    def listen(self, endpoint: Endpoint) -> Listener:
        """Bind a listener; raises LinkError if that fails."""
        listener = registry.listen(endpoint)
        if self.is_closed:  # it would never be closed
            listener.close()
            raise SessionClosed("the node is closed")
        self.listeners.append(listener)
        for locator in listener.locators(loopback=False):
            logger.info("Zenoh can be reached at: %s", locator.text)
        self._loop.call_soon(lambda: self._watch(listener))
        return listener

    def pause_accepting(self) -> None:
        """Accept no links for now: connections wait in the backlog of the kernel."""
        self._is_accepting = False

    def resume_accepting(self) -> None:
        """Accept the links that have waited, and all that come."""
        self._is_accepting = True
        self._loop.call_soon(self._watch_all)

    def locators(self, loopback: bool) -> tuple[Locator, ...]:
        """Return the addresses to advertise, with those of the loopback interface for peers on this machine."""
        return tuple(locator for listener in self.listeners for locator in listener.locators(loopback))

    # -- in the loop

    def _watch_all(self) -> None:
        for listener in self.listeners:
            self._watch(listener)

    def _watch(self, listener: Listener) -> None:
        if self._is_accepting and not self.is_closed:
            self._loop.watch(listener, lambda: self._accept_all(listener))

    def _accept_all(self, listener: Listener) -> None:
        try:
            for _ in range(MAX_ACCEPTS_PER_TURN):
                link = listener.accept()
                if link is None:
                    return
                self._accept(link)
        except LinkError as error:
            logger.warning("accepting a connection failed, retrying in %g s: %s", ACCEPT_RETRY_DELAY_SECONDS, error)
            self._loop.watch(listener, None)
            self._loop.call_at(self._loop.now() + ACCEPT_RETRY_DELAY_SECONDS, lambda: self._watch(listener))

    def _accept(self, link: Link) -> None:
        if not self._sessions.admit(link):
            return
        if link.is_established:
            self._sessions.accept(link)
        else:
            self._establishing.add(link)
            threading.Thread(target=self._establish, args=(link,), name="zenspark-accept", daemon=True).start()

    def _establish(self, link: Link) -> None:
        """Finish the TLS or WebSocket handshake, in a thread of its own because it waits."""
        try:
            link.establish(self._handshake_timeout)
        except LinkError as error:
            logger.debug("%s handshake with %s failed: %s", link.endpoint.protocol, link.dst, error.problem)
            with self._dispatcher.lock:
                self._dispatcher.router.refusals.count(RefusalReason.HANDSHAKES, error)
            link.close()
        self._loop.call_soon(lambda: self._on_established(link))

    def _on_established(self, link: Link) -> None:
        self._establishing.discard(link)
        if link.fileno() >= 0:
            self._sessions.accept(link)
        else:
            self._sessions.remove(link)

    # -- the end

    def stop(self) -> None:
        """Accept no further links, and end the handshakes that run; in the loop."""
        for listener in self.listeners:
            self._loop.watch(listener, None)
        self.abort_handshakes()

    def abort_handshakes(self) -> None:
        """Close the links whose TLS or WebSocket handshake runs."""
        for link in list(self._establishing):
            link.close()

    def close(self) -> None:
        """Close the listeners; after their links, because those of a UDP listener share its socket."""
        for listener in self.listeners:
            listener.close()

    def detach_after_fork(self) -> None:
        """Cut the descriptors off the parent's, in a forked child."""
        for listener in self.listeners:
            detach_after_fork(listener)
        for link in self._establishing:
            detach_after_fork(link)
