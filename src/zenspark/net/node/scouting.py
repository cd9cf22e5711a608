"""The sockets by which nodes find each other; who asks and answers what is in `zenspark.transport.scouting`.

Both kinds have one socket per interface, so that a question goes out on every interface and an answer goes back from
the one its question came in on. A `Responder` belongs to a loop that watches its descriptor. A `Scouter` can be
watched by a loop too (`filenos`, `handle`, `next_timeout`), or be waited on in a thread of its own (`wait`).
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
from zenspark.transport.handshake import Identity
from zenspark.transport.scouting import ScoutClient, ScoutResponder
from zenspark.wire.messages import Hello
from zenspark.wire.values import Locator, Roles, ZenohId

LOGGER = logging.getLogger("zenspark.net")

MAX_DATAGRAM = 1 << 16
MAX_DATAGRAMS_PER_READ = 64
"""Datagrams handled in one go, so that a flood of them does not keep the loop from its links."""


class ScoutingSettings(msgspec.Struct, frozen=True):
    """Where nodes look for each other: `scouting/multicast` of the configuration."""

    address: str = "224.0.0.224:7446"
    interface: str = AUTO
    ttl: int = 1

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("udp", self.address)

    def interfaces(self) -> list[Interface]:
        """The interfaces to look on, as they are now."""
        found = interfaces.multicast_interfaces(self.interface)
        if not found:
            LOGGER.warning("scouting: there is no network interface that can multicast")
        return found


class Responder:
    """Answers the questions that come in on one interface.

    `locators` tells where this node can be reached, from this machine (True) or from others (False).
    """

    def __init__(
        self,
        settings: ScoutingSettings,
        interface: Interface,
        answering: ScoutResponder,
        locators: Callable[[bool], Sequence[Locator]],
    ) -> None:
        self.interface = interface
        self._answering = answering
        self._locators = locators
        with contextlib.ExitStack() as opened:
            self._receiver = opened.enter_context(open_receiver(settings.endpoint, interface))
            self._sender = opened.enter_context(open_sender(settings.endpoint, interface, settings.ttl))
            opened.pop_all()
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """What to watch for reading; -1 once closed."""
        return self._receiver.fileno()

    def respond(self) -> None:
        """Answer what is there, without waiting."""
        with self._lock:
            for datagram, source in _read_datagrams(self._receiver):
                if not self._answering.should_reply(datagram):
                    continue
                hello = self._answering.hello(self._locators(interfaces.parse_address(source[0]).is_loopback))
                with contextlib.suppress(OSError):  # who asked is gone, or there is no room: it will ask again
                    self._sender.sendto(hello, source)

    def close(self) -> None:
        """Answer no more; a second time does nothing."""
        with self._lock:
            self._receiver.close()
            self._sender.close()

    def __repr__(self) -> str:
        return f"<Responder on {self.interface.name}>"


def open_responders(
    settings: ScoutingSettings, identity: Identity, locators: Callable[[bool], Sequence[Locator]]
) -> list[Responder]:
    """A responder for every interface; one that cannot be had is left out, and said so."""
    found = []
    for interface in settings.interfaces():
        with _log_link_errors(interface):
            found.append(Responder(settings, interface, ScoutResponder(identity), locators))
    return found


class Scouter:
    """Asks on every interface who is there."""

    def __init__(self, settings: ScoutingSettings, what: Roles, zid: ZenohId | None = None) -> None:
        self.asking = ScoutClient(what, zid)
        self._places = []
        for interface in settings.interfaces():
            with _log_link_errors(interface):
                group = group_address(settings.endpoint, interface)
                self._places.append((open_sender(settings.endpoint, interface, settings.ttl), group))
        self._waker, self._wake = socket.socketpair()
        self._lock = threading.Lock()
        self._closed = False

    def filenos(self) -> list[int]:
        """What to watch for reading."""
        return [sender.fileno() for sender, _ in self._places]

    def next_timeout(self) -> float | None:
        """When `handle` has something to ask again."""
        return self.asking.next_timeout()

    def handle(self, now: float) -> list[Hello]:
        """Ask if it is time to, and take what was answered: the nodes that are new. Does not wait."""
        with self._lock:
            return [] if self._closed else self._handle(now)

    def _handle(self, now: float) -> list[Hello]:
        question = self.asking.handle_timeout(now)
        found = []
        for sender, group in self._places:
            if question is not None:
                with contextlib.suppress(OSError):  # an interface that is down now may be up the next time
                    sender.sendto(question, group)
            for datagram, _ in _read_datagrams(sender):
                hello = self.asking.receive(datagram)
                if hello is not None:
                    found.append(hello)
        return found

    def wait(self, timeout: float) -> list[Hello]:
        """Wait for nodes that are new; empty when time is up, or at once when closed by another thread."""
        deadline = time.monotonic() + timeout
        with self._lock, selectors.DefaultSelector() as selector:
            if self._closed:
                return []
            selector.register(self._waker, selectors.EVENT_READ)
            for sender, _ in self._places:
                selector.register(sender, selectors.EVENT_READ)
            while True:
                now = time.monotonic()
                found = self._handle(now)
                if found or now >= deadline or self._closed:
                    return found
                due = self.next_timeout()
                selector.select(max(0.0, min(deadline, deadline if due is None else due) - now))

    def close(self) -> None:
        """Stop asking; a second time does nothing."""
        self._closed = True
        self._wake.close()  # wakes `wait`, which gives the lock back
        with self._lock:
            self._waker.close()
            for sender, _ in self._places:
                sender.close()


def _read_datagrams(receiver: socket.socket) -> Iterator[tuple[bytes, tuple[str, int]]]:
    """What is there now, up to a limit."""
    for _ in range(MAX_DATAGRAMS_PER_READ):
        try:
            yield receiver.recvfrom(MAX_DATAGRAM)
        except OSError:  # nothing there; closed; or an answer of ours did not arrive
            return


@contextlib.contextmanager
def _log_link_errors(interface: Interface) -> Iterator[None]:
    try:
        yield
    except LinkError as error:
        LOGGER.warning("scouting on interface %s: %s", interface.name, error)
