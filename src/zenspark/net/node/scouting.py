"""Scouting sockets; the protocol is in `zenspark.transport.scouting`.

Both sides have one socket per interface, so that a SCOUT is sent on every interface and a HELLO is sent from the one
its SCOUT was received on. A `Responder` belongs to a loop that watches its descriptor. A `Scouter` can be watched by a
loop too (`filenos`, `handle`, `next_timeout`), or be waited on in a thread of its own (`wait`).
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from zenspark.errors import LinkError
from zenspark.net.links import interfaces
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import AUTO, Interface
from zenspark.net.links.multicast import group_address, open_receiver, open_sender
from zenspark.net.links.sockets import MAX_DATAGRAM_BYTES, MAX_DATAGRAMS_PER_READ
from zenspark.transport.handshake import Identity
from zenspark.transport.scouting import ScoutClient, ScoutResponder
from zenspark.wire.messages import Hello
from zenspark.wire.values import Locator, Roles, ZenohId

logger = logging.getLogger("zenspark.net")


class ScoutingSettings(msgspec.Struct, frozen=True):
    """Address and interfaces of multicast scouting: `scouting/multicast` of the configuration."""

    address: str = "224.0.0.224:7446"
    interface: str = AUTO
    ttl: int = 1

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("udp", self.address)

    def interfaces(self) -> list[Interface]:
        """Return the interfaces to scout on, as they are now."""
        selected = interfaces.multicast_interfaces(self.interface)
        if not selected:
            logger.warning(
                "multicast scouting on %s disabled: no interface of scouting/multicast/interface=%s supports multicast",
                self.address,
                self.interface,
            )
        return selected


class Responder:
    """Replies to the SCOUT messages received on one interface.

    `locators` returns the addresses of this node for nodes on this machine (True) or on others (False).
    """

    def __init__(
        self,
        settings: ScoutingSettings,
        interface: Interface,
        protocol: ScoutResponder,
        locators: Callable[[bool], Sequence[Locator]],
    ) -> None:
        self.interface = interface
        self._protocol = protocol
        self._locators = locators
        with contextlib.ExitStack() as opened:
            self._receiver = opened.enter_context(open_receiver(settings.endpoint, interface))
            self._sender = opened.enter_context(open_sender(settings.endpoint, interface, settings.ttl))
            opened.pop_all()
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor to watch for reading; -1 once closed."""
        return self._receiver.fileno()

    def respond(self) -> None:
        """Reply to the SCOUT messages that are there, without waiting."""
        with self._lock:
            for datagram, source in _read_datagrams(self._receiver):
                if not self._protocol.should_reply(datagram):
                    continue
                hello = self._protocol.hello(self._locators(interfaces.parse_address(source[0]).is_loopback))
                with contextlib.suppress(OSError):  # the sender is gone, or the buffer full: it will send SCOUT again
                    self._sender.sendto(hello, source)

    def close(self) -> None:
        """Stop replying; a second call does nothing."""
        with self._lock:
            self._receiver.close()
            self._sender.close()

    def __repr__(self) -> str:
        return f"<Responder on {self.interface.name}>"


def open_responders(
    settings: ScoutingSettings, identity: Identity, locators: Callable[[bool], Sequence[Locator]]
) -> list[Responder]:
    """Open a responder on every interface; those that fail are logged and left out."""
    responders = []
    for interface in settings.interfaces():
        with _log_link_errors(interface):
            responders.append(Responder(settings, interface, ScoutResponder(identity), locators))
    return responders


class Scouter:
    """Sends SCOUT on every interface, and receives the HELLO messages."""

    def __init__(self, settings: ScoutingSettings, what: Roles, zid: ZenohId | None = None) -> None:
        self.client = ScoutClient(what, zid)
        self._senders = []
        for interface in settings.interfaces():
            with _log_link_errors(interface):
                group = group_address(settings.endpoint, interface)
                self._senders.append((open_sender(settings.endpoint, interface, settings.ttl), group))
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        self._lock = threading.Lock()
        self._closed = False

    def filenos(self) -> list[int]:
        """Return the descriptors to watch for reading."""
        return [sender.fileno() for sender, _ in self._senders]

    def next_timeout(self) -> float | None:
        """Return the time at which `handle` has to send the next SCOUT; None before the first."""
        return self.client.next_timeout()

    def handle(self, now: float) -> list[Hello]:
        """Send SCOUT if it is due, and return the HELLO messages of new nodes; does not wait."""
        try:
            with self._lock:
                return [] if self._closed else self._handle(now)
        finally:
            self._close_sockets_if_closed()

    def _handle(self, now: float) -> list[Hello]:
        scout = self.client.handle_timeout(now)
        hellos = []
        for sender, group in self._senders:
            if scout is not None:
                with contextlib.suppress(OSError):  # an interface that is down now may be up the next time
                    sender.sendto(scout, group)
            for datagram, _ in _read_datagrams(sender):
                hello = self.client.receive(datagram)
                if hello is not None:
                    hellos.append(hello)
        return hellos

    def wait(self, timeout: float) -> list[Hello]:
        """Wait for HELLO messages of new nodes; empty after `timeout` seconds, or when closed by another thread."""
        try:
            with self._lock:
                return [] if self._closed else self._wait(time.monotonic() + timeout)
        finally:
            self._close_sockets_if_closed()

    def _wait(self, deadline: float) -> list[Hello]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wakeup_reader, selectors.EVENT_READ)
            for sender, _ in self._senders:
                selector.register(sender, selectors.EVENT_READ)
            while True:
                now = time.monotonic()
                hellos = self._handle(now)
                if hellos or now >= deadline or self._closed:
                    return hellos
                due = self.next_timeout()
                selector.select(max(0.0, min(deadline, deadline if due is None else due) - now))

    def close(self) -> None:
        """Stop scouting, without waiting; a second call does nothing.

        A thread that waits for messages closes the sockets itself. At exit it no longer runs, and holds the lock.
        """
        self._closed = True
        self._wakeup_writer.close()  # wakes `wait`
        self._close_sockets_if_closed()

    def _close_sockets_if_closed(self) -> None:
        """Close the sockets after `close`, unless another thread uses them, which then calls this."""
        if self._closed and self._lock.acquire(blocking=False):
            try:
                self._wakeup_reader.close()
                for sender, _ in self._senders:
                    sender.close()
            finally:
                self._lock.release()


def _read_datagrams(receiver: socket.socket) -> Iterator[tuple[bytes, tuple[str, int]]]:
    """Yield the datagrams that are there, up to a limit."""
    for _ in range(MAX_DATAGRAMS_PER_READ):
        try:
            yield receiver.recvfrom(MAX_DATAGRAM_BYTES)
        except OSError:  # nothing there, closed, or an ICMP error for a datagram sent before
            return


@contextlib.contextmanager
def _log_link_errors(interface: Interface) -> Iterator[None]:
    """Log a LinkError instead of raising it."""
    try:
        yield
    except LinkError as error:
        logger.warning("scouting on interface %s failed: %s", interface.name, error)
