"""SessionTable: the sessions of a node, from the first byte of a link to its end.

A link without a session yet is *pending*. When both nodes of a pair connect to each other at the same time
(simultaneous open), one session must win. The node with the greater id refuses the inbound one. The other keeps it
waiting until its own attempt has ended. Accepting both at once is not enough: a node of eclipse-zenoh that gets two
sessions at the same moment may be left with one on which it never sends.

All of it runs in the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from zenspark.errors import CloseReason, UsageError
from zenspark.net.io.counters import CounterRegistry
from zenspark.net.io.link_driver import ConnectionDriver
from zenspark.net.links.base import Link
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node.certificate_expiration import ExpirationTimers
from zenspark.net.node.dispatch import Dispatcher
from zenspark.net.node.driver_observer import DriverObserver
from zenspark.net.node.link_quotas import LinkQuotas
from zenspark.net.node.observer import SessionWatcher
from zenspark.net.node.transport_factory import TransportFactory
from zenspark.router.face import describe_neighbour
from zenspark.router.interceptors.rules import NeighbourAttributes
from zenspark.transport.connection import ConnectionEvent, PeerIdentified, SessionRequested
from zenspark.transport.handshake import Acceptor, Initiator, Opened, SessionParameters
from zenspark.transport.receiver import Closed, MessageReceived, MessageRejected
from zenspark.wire.columns import PushRun
from zenspark.wire.values import Locator, ZenohId

logger = logging.getLogger("zenspark.net")


class SessionTable:
    """The pending links and open sessions of one node. `locators` are the addresses it advertises to a peer."""

    def __init__(
        self,
        factory: TransportFactory,
        dispatcher: Dispatcher,
        driver_observer: DriverObserver,
        counters: CounterRegistry,
        locators: Callable[[bool], tuple[Locator, ...]],
    ) -> None:
        self.is_closed = False
        """Whether the node is closed, and accepts no further links."""
        self._factory = factory
        self._dispatcher = dispatcher
        self._faces = dispatcher.faces
        self._driver_observer = driver_observer
        self._counters = counters
        self._locators = locators
        self._quotas = LinkQuotas(factory.limits.inbound, dispatcher.router.refusals, self._has_received)
        self._pending: dict[ConnectionDriver, SessionWatcher | None] = {}
        self._inbound_drivers: dict[Link, ConnectionDriver] = {}
        """The pending links that peers opened."""
        self._simultaneous_opens: dict[ConnectionDriver, ZenohId] = {}
        """The inbound links that wait for this node's own attempt to connect to their node."""
        self._watchers: dict[ConnectionDriver, SessionWatcher] = {}
        self._expirations = ExpirationTimers(dispatcher.loop)

    @property
    def pending(self) -> list[ConnectionDriver]:
        """The drivers of links without a session yet."""
        return list(self._pending)

    # -- new links

    def admit(self, link: Link) -> bool:
        """Count a link that a peer opened. Over the limit closes the oldest pending one: False if that is this one."""
        with self._dispatcher.lock:
            evicted = self._quotas.add(link)
        if evicted is not None:
            self._evict(evicted)
        return evicted is not link

    def remove(self, link: Link) -> None:
        """Stop counting a link that failed before it was accepted."""
        self._quotas.remove(link)

    def accept(self, link: Link) -> None:
        """Start the handshake on a link that a peer opened."""
        self._start(link, self._factory.make_acceptor(link), self._factory.limits.accept_timeout)

    def open(self, link: Link, handshake: Initiator, watcher: SessionWatcher) -> None:
        """Start the handshake on a link that this node opened."""
        self._start(link, handshake, self._factory.limits.open_timeout, watcher)

    def _start(
        self, link: Link, handshake: Initiator | Acceptor, timeout: float, watcher: SessionWatcher | None = None
    ) -> None:
        if self.is_closed:
            link.close()
            return
        loop = self._dispatcher.loop
        connection = self._factory.make_connection(handshake, link, loop.now())
        driver = ConnectionDriver(
            loop, link, connection, self._on_event, self._factory.limits.writer, self._driver_observer
        )
        self._pending[driver] = watcher
        if isinstance(handshake, Acceptor):
            self._inbound_drivers[link] = driver
        driver.start(timeout)

    def _has_received(self, link: Link) -> bool:
        """Return whether bytes were received on a pending inbound link."""
        driver = self._inbound_drivers.get(link)
        return driver is not None and driver.bytes_received > 0

    def _evict(self, link: Link) -> None:
        """Close a pending inbound link without a CLOSE, because another one needs its place."""
        self._quotas.remove(link)
        driver = self._inbound_drivers.pop(link, None)
        if driver is None:
            link.close()
            return
        self._pending.pop(driver, None)
        self._simultaneous_opens.pop(driver, None)
        driver.close_link()

    # -- events of drivers

    def _on_event(self, driver: ConnectionDriver, event: ConnectionEvent) -> None:
        match event:
            case PushRun():
                with self._dispatcher.lock:
                    self._dispatcher.receive_push_run(self._faces.face_of(driver), event)
            case MessageReceived():
                with self._dispatcher.lock:
                    self._dispatcher.receive(self._faces.face_of(driver), event)
            case MessageRejected():
                with self._dispatcher.lock:
                    self._dispatcher.reject(self._faces.face_of(driver), event)
            case SessionRequested(parameters):
                if self._is_role_accepted(driver, parameters):
                    self._on_session_requested(driver, parameters.peer.zid)
            case PeerIdentified(zid):
                if self._faces.has_session(zid):
                    self._refuse_duplicate(driver, zid)
            case Opened():
                self._on_opened(driver, event)
            case Closed():
                self._on_closed(driver, event)

    # -- opening

    def _is_role_accepted(self, driver: ConnectionDriver, parameters: SessionParameters) -> bool:
        """Return whether a peer may have the role it has; if not, its session is refused."""
        with self._dispatcher.lock:
            peer = parameters.peer
            name = describe_neighbour(peer.whatami, peer.zid, driver.link.dst)
            attributes = _peer_attributes(driver.link, parameters)
            is_accepted = self._dispatcher.router.accepts(peer.whatami, attributes, name)
        if not is_accepted:
            driver.end_session(CloseReason.INVALID, "not accepted as a router here")
        return is_accepted

    def _on_session_requested(self, driver: ConnectionDriver, zid: ZenohId) -> None:
        with self._dispatcher.lock:
            refusal = self._quotas.session_refusal(driver.link)
        if refusal is not None:
            driver.end_session(CloseReason.INVALID, refusal)
        elif self._faces.has_session(zid):
            self._refuse_duplicate(driver, zid)
        elif all(pending.connection.dialed_zid != zid for pending in self._pending):
            driver.accept()
        elif self._factory.identity.zid.value > zid.value:
            self._refuse_duplicate(driver, zid)
        else:
            self._simultaneous_opens[driver] = zid

    def _refuse_duplicate(self, driver: ConnectionDriver, zid: ZenohId) -> None:
        driver.end_session(CloseReason.MAX_LINKS, f"there is a link to {zid} already")

    def _resolve_simultaneous_opens(self, zid: ZenohId | None) -> None:
        """Accept or refuse the inbound sessions of a node, after this node's own attempt has ended."""
        for driver, peer_zid in list(self._simultaneous_opens.items()):
            if peer_zid == zid:
                del self._simultaneous_opens[driver]
                self._on_session_requested(driver, peer_zid)

    def _on_opened(self, driver: ConnectionDriver, opened: Opened) -> None:
        peer = opened.parameters.peer
        zid = peer.zid
        watcher = self._pending.pop(driver, None)
        if self._faces.has_session(zid):
            self._pending[driver] = watcher
            self._refuse_duplicate(driver, zid)
            return
        self._inbound_drivers.pop(driver.link, None)
        self._quotas.count_session(driver.link)
        logger.info("session with %s opened", describe_neighbour(peer.whatami, zid, driver.link.dst))
        with self._dispatcher.lock:
            self._add_face(driver, opened.parameters)
            if watcher is not None:
                self._watchers[driver] = watcher
                watcher(driver, opened)
            self._dispatcher.changed.notify_all()
        self._expirations.watch(driver)
        self._resolve_simultaneous_opens(zid)

    def _add_face(self, driver: ConnectionDriver, parameters: SessionParameters) -> None:
        dispatcher, peer, link = self._dispatcher, parameters.peer, driver.link
        locators = self._locators(_is_loopback(link))
        face, out = dispatcher.router.add_face(
            peer.zid, peer.whatami, dispatcher.loop.now(), locators, parameters.request_bits, parameters.relays
        )
        face.address = link.dst
        face.patch = driver.patch = parameters.patch
        self._faces.add_session(face, driver)
        driver.neighbour_counters = (self._counters.open(face.zid, str(face), driver.connection.receive_counters),)
        if dispatcher.interceptors is not None:
            dispatcher.interceptors.attach(face, _peer_attributes(link, parameters))
        if dispatcher.gossip is not None:
            out += dispatcher.gossip.add_neighbour(face, locators)
        dispatcher.emit(out)
        if dispatcher.session is not None:
            dispatcher.session.on_neighbour_joined(face, driver)

    # -- closing

    def _on_closed(self, driver: ConnectionDriver, closed: Closed) -> None:
        watcher = self._pending.pop(driver, None) or self._watchers.pop(driver, None)
        self._driver_observer.add_closing(driver)
        self._expirations.cancel(driver)
        driver.connection.release_memory()
        self._inbound_drivers.pop(driver.link, None)
        self._quotas.remove(driver.link)
        with self._dispatcher.lock:
            lost_zid = self._remove_face(driver, closed, is_initiated=watcher is not None)
            if watcher is not None:
                watcher(driver, closed)
            self._dispatcher.changed.notify_all()
        if lost_zid is not None:
            self._dispatcher.observer.on_session_lost(lost_zid)
        self._simultaneous_opens.pop(driver, None)
        self._resolve_simultaneous_opens(driver.connection.dialed_zid)

    def _remove_face(self, driver: ConnectionDriver, closed: Closed, is_initiated: bool) -> ZenohId | None:
        """Remove the face of a session that has ended; returns the peer's id, None if no session was open."""
        dispatcher, link = self._dispatcher, driver.link
        face = self._faces.remove_session(driver)
        if face is None:
            level = logging.INFO if is_initiated else logging.DEBUG  # any host can connect, as often as it likes
            peer = driver.connection.dialed_peer
            neighbour = link.dst if peer is None else describe_neighbour(peer.whatami, peer.zid, link.dst)
            logger.log(level, "handshake with %s failed: %s", neighbour, closed.text)
            return None
        level = logging.WARNING if closed.reason is CloseReason.UNRESPONSIVE else logging.INFO  # a slow consumer
        logger.log(level, "session with %s closed: %s", face, closed.text)
        self._counters.close(face.zid, driver.connection.receive_counters)
        if dispatcher.gossip is not None:
            dispatcher.emit(dispatcher.gossip.remove_neighbour(face))
        dispatcher.emit(dispatcher.router.remove_face(face, dispatcher.loop.now()))
        if dispatcher.session is not None:
            dispatcher.session.on_neighbour_left(face, driver)
        return face.zid

    def close(self) -> None:
        """Close all pending links and open sessions."""
        for driver in [*self._pending, *self._faces.drivers.values()]:
            driver.end_session()


def _is_loopback(link: Link) -> bool:
    """Return whether the peer is on this machine."""
    try:
        address = Endpoint.parse(link.dst).ip
    except UsageError:  # the link has no IP address
        return True
    return address is not None and address.is_loopback


def _peer_attributes(link: Link, parameters: SessionParameters) -> NeighbourAttributes:
    """Return the attributes of a peer that access control matches."""
    user = None if parameters.user is None else parameters.user.decode(errors="replace")
    zid, protocol = parameters.peer.zid, link.endpoint.protocol
    return NeighbourAttributes(zid, link.interfaces, protocol, user, link.auth_identifier, link.remote_host)
