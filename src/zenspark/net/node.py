"""Node: one router, its links, and the session that uses them.

The router's tables belong to `lock`. The loop takes it for every message it hears, other threads for everything they
declare or ask. What must be said follows while the lock is held, so that neighbours hear things in the order in which
they became true; saying never waits, it only fills outboxes. Publications are different: their routes are looked up
once and used without the lock until `version` changes.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from zenspark.errors import CloseReason, LinkError
from zenspark.net import protocols
from zenspark.net.driver import Driver
from zenspark.net.endpoints import Endpoint
from zenspark.net.links import Link, Listener
from zenspark.net.loop import Loop
from zenspark.router.face import Face
from zenspark.router.router import Out, Router
from zenspark.transport.connection import Asked, Closed, Connection, Event, Lost, Pushes, Received
from zenspark.transport.handshake import Accepting, Identity, Offer, Opened, Opening
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import Congestion, QoS, WhatAmI, ZenohId

logger = logging.getLogger("zenspark.net")


class Local(Protocol):
    """The session of this node, as its router sees it. Called in the loop or by whoever spoke, with the lock."""

    def receive(self, message: NetworkMessage) -> None:
        """A message for the session."""

    def receive_pushes(self, face: Face, pushes: Pushes) -> None:
        """Publications from a neighbour; good only during the call."""

    def opened(self, face: Face, driver: Driver) -> None:
        """A neighbour is there."""

    def closed(self, face: Face, driver: Driver) -> None:
        """A neighbour is gone."""


class Limits(msgspec.Struct, frozen=True):
    """What a node puts up with."""

    open_timeout: float = 10.0
    accept_timeout: float = 10.0
    max_sessions: int = 1000
    max_pending: int = 100
    message_size: int = 1 << 30


class Node:
    """Listeners, links and the router between them."""

    def __init__(self, identity: Identity, offer: Offer, limits: Limits, query_timeout: float = 10.0) -> None:
        self.identity = identity
        self.offer = offer
        self.limits = limits
        self.lock = threading.RLock()
        self.router = Router(identity.zid, identity.whatami, query_timeout)
        self.local_face = self.router.add_local()
        self.loop = Loop(f"zenspark-{identity.zid}")
        self.listeners: list[Listener] = []
        self._local: Local | None = None
        self._cookie_key = secrets.token_bytes(32)
        self._drivers: dict[Face, Driver] = {}
        self._faces: dict[Driver, Face] = {}
        self._pending: set[Driver] = set()
        self._watchers: dict[Driver, Callable[[Driver, Event], None]] = {}
        self._timer_at = float("inf")

    def start(self, local: Local) -> None:
        """Begin to serve a session."""
        self._local = local
        self.loop.start()

    # -- neighbours

    @property
    def drivers(self) -> dict[Face, Driver]:
        """The links of this moment, by neighbour."""
        with self.lock:
            return dict(self._drivers)

    def driver(self, face: Face) -> Driver | None:
        """The link to a neighbour."""
        return self._drivers.get(face)

    def listen(self, endpoint: Endpoint) -> Listener:
        """Let others connect here."""
        listener = protocols.listen(endpoint)
        self.listeners.append(listener)
        self.loop.call_soon(lambda: self.loop.watch(listener, lambda: self._on_caller(listener)))
        return listener

    def _on_caller(self, listener: Listener) -> None:
        while (link := listener.accept()) is not None:
            if len(self._pending) >= self.limits.max_pending:
                link.close()
                continue
            threading.Thread(target=self._accept, args=(link,), name="zenspark-accept", daemon=True).start()

    def _accept(self, link: Link) -> None:
        """Shake hands on a link somebody made to us; in a thread of its own, because TLS and WebSocket wait."""
        try:
            link.establish(self.limits.accept_timeout)
        except LinkError as error:
            logger.warning("a caller was given up: %s", error)
            link.close()
            return
        side = Accepting(self.identity, self._offer(link), self._cookie_key, secrets.randbits(64))
        self._drive(link, side, self.limits.accept_timeout)

    def connect(
        self, endpoint: Endpoint, watcher: Callable[[Driver, Event], None], expected: ZenohId | None = None
    ) -> None:
        """Make a link and a session over it; waits for the link only. `watcher` hears how the session goes."""
        link = protocols.connect(endpoint, self.limits.open_timeout)
        self._drive(link, Opening(self.identity, self._offer(link), expected), self.limits.open_timeout, watcher)

    def _offer(self, link: Link) -> Offer:
        return msgspec.structs.replace(self.offer, batch_size=min(self.offer.batch_size, link.mtu))

    def _drive(
        self,
        link: Link,
        side: Opening | Accepting,
        timeout: float,
        watcher: Callable[[Driver, Event], None] | None = None,
    ) -> None:
        connection = Connection(side, self.loop.now(), self.limits.message_size, link.is_streamed)
        driver = Driver(self.loop, link, connection, self._on_event)
        if watcher is not None:
            self._watchers[driver] = watcher
        self._pending.add(driver)
        self.loop.call_soon(driver.start)
        self.loop.call_at(self.loop.now() + timeout, lambda: self._give_up(driver, timeout))

    def _give_up(self, driver: Driver, timeout: float) -> None:
        if driver in self._pending:
            driver.close(CloseReason.GENERIC, f"no session after {timeout:g} s")

    # -- what links tell, in the loop

    def _on_event(self, driver: Driver, event: Event) -> None:
        match event:
            case Pushes():
                with self.lock:
                    self._on_pushes(self._faces[driver], event)
            case Received(message):
                with self.lock:
                    self._hear(self._faces[driver], message)
            case Asked(terms):
                self._on_asked(driver, terms.peer.zid)
            case Opened(terms):
                self._on_opened(driver, terms.peer)
            case Closed():
                self._on_closed(driver, event)
            case Lost(why):
                logger.warning("a message from %s was lost: %s", driver.link.dst, why)
        watcher = self._watchers.get(driver)
        if watcher is not None and isinstance(event, (Opened, Closed)):
            watcher(driver, event)

    def _on_asked(self, driver: Driver, zid: ZenohId) -> None:
        with self.lock:
            if any(face.zid == zid for face in self._drivers):
                driver.close(CloseReason.MAX_LINKS, f"there is a link to {zid} already")
            elif len(self._drivers) >= self.limits.max_sessions:
                driver.close(CloseReason.INVALID, f"{self.limits.max_sessions} sessions are the limit")
            else:
                driver.admit()

    def _on_opened(self, driver: Driver, peer: Identity) -> None:
        self._pending.discard(driver)
        logger.info("session with %s %s over %s", peer.whatami.text, peer.zid, driver.link.dst)
        with self.lock:
            face, out = self.router.add_face(peer.zid, peer.whatami, self.loop.now())
            self._drivers[face] = driver
            self._faces[driver] = face
            self._emit(out)
            if self._local is not None:
                self._local.opened(face, driver)

    def _on_closed(self, driver: Driver, closed: Closed) -> None:
        self._pending.discard(driver)
        logger.info("session over %s ended: %s", driver.link.dst, closed.text)
        with self.lock:
            face = self._faces.pop(driver, None)
            if face is None:
                return
            del self._drivers[face]
            self._emit(self.router.remove_face(face, self.loop.now()))
            if self._local is not None:
                self._local.closed(face, driver)

    def _on_pushes(self, face: Face, pushes: Pushes) -> None:
        columns = pushes.columns
        routes = self.router.routes
        elsewhere = False
        for index in range(columns.shape_count):
            key = face.resolve(columns.shape_at(index).wire_expr)
            targets = () if key is None else routes.push(face, key)
            elsewhere = elsewhere or any(target is not self.local_face for target in targets)
        if elsewhere:
            for row in range(pushes.start, pushes.stop):
                self._hear(face, columns.push(row))
        elif self._local is not None:
            self._local.receive_pushes(face, pushes)

    def _hear(self, face: Face, message: NetworkMessage) -> None:
        self._emit(self.router.receive(face, message, self.loop.now()))

    # -- what the session says

    def say(self, message: NetworkMessage) -> None:
        """The session declares, asks or answers something."""
        with self.lock:
            self._hear(self.local_face, message)

    def wait_for_room(self, congestion: Congestion) -> None:
        """Wait until no link is behind with what was said before; never with the lock, never in the loop."""
        for driver in self.drivers.values():
            driver.wait_for_room(congestion)

    def _emit(self, out: Out) -> None:
        for face, message in out:
            if face is self.local_face:
                assert self._local is not None
                self._local.receive(message)
            else:
                driver = self._drivers.get(face)
                if driver is not None:
                    driver.say(message, qos_of(message))
        self._arm()

    def _arm(self) -> None:
        when = self.router.next_timeout()
        if when is not None and when < self._timer_at:
            self._timer_at = when
            self.loop.call_at(when, self._on_time)

    def _on_time(self) -> None:
        with self.lock:
            self._timer_at = float("inf")
            self._emit(self.router.handle_timeout(self.loop.now()))

    # -- the end

    def close(self) -> None:
        """End every session in good order, and the loop."""
        done = threading.Event()
        self.loop.call_soon(lambda: self._close(done))
        if not self.loop.is_current:
            done.wait(self.limits.open_timeout)
        self.loop.stop()

    def _close(self, done: threading.Event) -> None:
        for listener in self.listeners:
            self.loop.watch(listener, None)
            listener.close()
        for driver in [*self._pending, *self._drivers.values()]:
            driver.close()
        done.set()


def qos_of(message: NetworkMessage) -> QoS:
    """How a message wants to be treated."""
    return getattr(message, "qos", QoS.DEFAULT)


def identity(zid: ZenohId | None, whatami: WhatAmI) -> Identity:
    """Who this node is: the id it was given, or one of its own."""
    return Identity(zid or ZenohId(secrets.randbits(127) | 1 << 127), whatami)
