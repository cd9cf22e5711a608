"""Node: one router, its links, and the session that uses them.

The router's tables belong to `lock`. The loop takes it for every message it hears, other threads for everything they
declare or ask. What must be said follows while the lock is held, so that neighbours hear things in the order in which
they became true; saying never waits, it only fills outboxes. Publications are different: their routes are looked up
once and used without the lock until `version` changes.

Links that are not sessions yet belong to the loop. A link that has to shake hands by itself first (TLS, WebSocket)
does so in a thread of its own, because that waits.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from zenspark.clock import HybridClock
from zenspark.errors import CloseReason, LinkError, SessionClosed, UsageError
from zenspark.net.io.counters import LOSS_TEXTS, CounterRegistry
from zenspark.net.io.driver import ConnectionDriver, LinkDriver
from zenspark.net.io.relay_backpressure import RelayBackpressure
from zenspark.net.io.writer import WriterSettings
from zenspark.net.links import registry
from zenspark.net.links.base import Link, Listener
from zenspark.net.links.certificate_expiration import ExpirationTimers
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.loop.event_loop import EventLoop, Timer, detach_after_fork, yield_leadership
from zenspark.net.node import event_log
from zenspark.net.node.multicast import GroupMemberInfo, MulticastSession
from zenspark.net.node.pending_links import InboundLimits, InboundLinks
from zenspark.net.node.refusals import RefusalLog
from zenspark.router.face import Face, Outgoing, Region
from zenspark.router.interceptors.chain import InterceptorConfig
from zenspark.router.interceptors.pipeline import InterceptorPipeline
from zenspark.router.interceptors.rules import Action, Flow, PeerAttributes
from zenspark.router.limits import Limit
from zenspark.router.linkstate.gossip import DiscoveredNode, GossipProtocol
from zenspark.router.router import Router, RouterPolicy
from zenspark.router.routing.forwarding import ForwardingPlan, ForwardingPlanner, plans_by_peer
from zenspark.transport.connection import (
    KEEP_ALIVES_PER_LEASE,
    MAX_ROWS_PER_EVENT,
    MIN_BATCH_BYTES,
    Connection,
    Event,
    PeerIdentified,
    SessionRequested,
)
from zenspark.transport.handshake import Acceptor, Capabilities, Identity, Initiator, Opened, SessionParameters
from zenspark.transport.multicast import GroupSession, GroupSettings
from zenspark.transport.reassembly import MAX_SESSION_BYTES, MAX_TOTAL_BYTES, ReassemblyPool
from zenspark.transport.receiver import Closed, MessageReceived, MessageRejected, PushRun
from zenspark.wire.columns import Columns, Relay
from zenspark.wire.declare import replace
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    NetworkMessage,
    NetworkOam,
    Push,
    Request,
    Response,
    ResponseFinal,
)
from zenspark.wire.values import Congestion, Locator, QoS, TimestampStack, WhatAmI, ZenohId

logger = logging.getLogger("zenspark.net")

NEVER_CHANGE_DEADLINES = (Push, Response, ResponseFinal)
"""Messages from which nothing follows that the router would have to do later."""

SessionWatcher = Callable[[ConnectionDriver, Event], None]
Neighbour = ConnectionDriver | GroupMemberInfo
"""How a neighbour is reached: a link of its own, or a place in a group."""

ACCEPT_RETRY_SECONDS = 0.2
"""Seconds to wait when this machine has no descriptors left for callers."""
MAX_ACCEPTS_PER_TURN = 32
"""How many callers are taken before those that are there get their turn: a flood must not keep them from speaking."""


class LocalSession(Protocol):
    """The session of this node, as its router sees it. Called in the loop or by whoever spoke, with the lock."""

    def receive(self, message: NetworkMessage) -> None:
        """A message for the session."""

    def try_handle(self, face: Face, message: NetworkMessage) -> bool:
        """Whether the session deals with a message of a neighbour by itself; if not, the router hears it."""

    def receive_push_run(self, face: Face, pushes: PushRun, keys: list[str | None]) -> None:
        """Publications from a neighbour; good only during the call. `keys` are those of the shapes that are for it."""

    def opened(self, face: Face, neighbour: Neighbour) -> None:
        """A neighbour is there."""

    def closed(self, face: Face, neighbour: Neighbour) -> None:
        """A neighbour is gone."""


class NodeLimits(msgspec.Struct, frozen=True):
    """What a node puts up with."""

    open_timeout: float = 10.0
    accept_timeout: float = 10.0
    close_timeout: float = 10.0
    """for peers that do take what was said last, but slowly"""
    inbound: InboundLimits = InboundLimits()
    message_size: int = 1 << 30
    session_reassembly: int = MAX_SESSION_BYTES
    total_reassembly: int = MAX_TOTAL_BYTES
    """Bytes in messages of which not all fragments have come, for one neighbour and for all."""
    keep_alives: int = KEEP_ALIVES_PER_LEASE
    """How often neighbours hear of us within a lease."""
    writer: WriterSettings = WriterSettings()


class Node:
    """Listeners, links and the router between them."""

    def __init__(
        self,
        identity: Identity,
        offer: Capabilities,
        limits: NodeLimits,
        policy: RouterPolicy = RouterPolicy(),  # noqa: B008 - frozen
        gossip: GossipProtocol | None = None,
        rules: GroupSettings = GroupSettings(),  # noqa: B008 - frozen
        interception: InterceptorConfig | None = None,
    ) -> None:
        self.identity = identity
        self.offer = offer
        self.limits = limits
        self.rules = rules
        self.lock = threading.RLock()
        self.router = Router(identity.zid, identity.whatami, policy)
        self.clock = HybridClock() if policy.timestamping is None else policy.timestamping.clock
        self.local_face = self.router.add_local()
        self.speaker = (self.local_face, True)
        """Whose message is being handled, and whether it came reliably."""
        self.loop = EventLoop(f"zenspark-{identity.zid}")
        self.counters = CounterRegistry(self.loop, self.lock)
        """What came from each neighbour, and what was lost or dropped."""
        RefusalLog(self.router.refusals, self.loop, self.lock)
        self.listeners: list[Listener] = []
        self.on_found: Callable[[DiscoveredNode], None] | None = None
        """Whom to tell, in the loop, of nodes that neighbours know."""
        self.at_route: Callable[[TimestampStack | None], TimestampStack | None] = lambda stack: stack
        """Who adds a clock reading to messages on their way through this node, if they want one."""
        self.on_block: Callable[[bool], object] = lambda _: None
        """Whom to tell, in the loop, when a callback begins and ends to wait for room on a link."""
        self.on_lost: Callable[[ZenohId], None] | None = None
        """Whom to tell, in the loop, of neighbours that are gone."""
        self.on_failed: Callable[[], object] = lambda: None
        """Called when the loop has failed, before the node closes itself."""
        self.loop.on_failed = self._on_loop_failed
        self._local: LocalSession | None = None
        self._gossip = gossip
        self._checkpoint = None if interception is None else InterceptorPipeline(self.router, interception)
        self._changed = threading.Condition(self.lock)
        self._columns = Columns(MAX_ROWS_PER_EVENT)
        self._pool = ReassemblyPool(limits.session_reassembly, limits.total_reassembly)
        self._cookie_key = secrets.token_bytes(32)
        self._drivers: dict[Face, ConnectionDriver] = {}
        self._faces: dict[ConnectionDriver, Face] = {}
        self._establishing: set[Link] = set()
        self._callers = InboundLinks(limits.inbound, self.router.refusals, self._has_spoken)
        self._pending: dict[ConnectionDriver, SessionWatcher | None] = {}
        self._calling: dict[Link, ConnectionDriver] = {}
        """Those of them that others opened."""
        self._crossed: dict[ConnectionDriver, ZenohId] = {}
        """Those who call while we call them, and whose fate depends on what becomes of our call. Of two nodes that call
        each other the greater one refuses, so that not both wait. Letting them in at once is not enough: a node of
        eclipse-zenoh that gets two sessions at the same moment may be left with one on which it never speaks."""
        self._watchers: dict[ConnectionDriver, SessionWatcher] = {}
        self._gatherings: list[MulticastSession] = []
        self._groups: dict[Face, LinkDriver] = {}
        """How to speak to a group, and to pause its members."""
        self._seats: dict[Face, GroupMemberInfo] = {}
        self._leaving: set[LinkDriver] = set()
        self._expirations = ExpirationTimers(self.loop)
        self._held = RelayBackpressure(self.loop, limits.writer)
        self._answering: set[Face] = set()
        """Those whose interests are answered further in the next turn."""
        self._forwarding = ForwardingPlanner(self.router, self.local_face)
        self._zid = identity.zid.to_bytes()
        self._timer: Timer | None = None
        """When the router has something to do by itself."""
        self._is_closed = False
        self._is_closing = False
        self._is_done = threading.Event()
        _nodes.add(self)

    def start(self, local: LocalSession) -> None:
        """Begin to serve a session."""
        self._local = local
        self.loop.start()

    @property
    def is_closed(self) -> bool:
        """Whether it is the end."""
        return self._is_closed

    # -- neighbours

    @property
    def drivers(self) -> dict[Face, ConnectionDriver]:
        """The links of this moment, by neighbour."""
        with self.lock:
            return dict(self._drivers)

    @property
    def neighbourhood(self) -> dict[Face, Neighbour]:
        """Everybody who is beside this node at this moment."""
        with self.lock:
            return {**self._drivers, **self._seats}

    @property
    def link_drivers(self) -> set[LinkDriver]:
        """Everything this node reads from and writes to at this moment."""
        with self.lock:
            return {*self._drivers.values(), *self._groups.values()}

    def driver(self, face: Face) -> LinkDriver | None:
        """What a face is heard by, and spoken to."""
        return self._drivers.get(face) or self._groups.get(face)

    def has_session(self, zid: ZenohId) -> bool:
        """Whether a node is a neighbour."""
        with self.lock:
            return any(face.zid == zid for face in self._drivers)

    def wait(self, is_so: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until something is so that changes with neighbours; False if it is not, in time."""
        yield_leadership()
        with self._changed:
            return self._changed.wait_for(is_so, timeout)

    @property
    def initial_declarations_received(self) -> bool:
        """Whether every peer beside this node has told all it has to tell."""
        with self.lock:
            return self.router.initial_declarations_received

    def wake(self) -> None:
        """Let everybody who waits look again."""
        with self._changed:
            self._changed.notify_all()

    def listen(self, endpoint: Endpoint) -> Listener:
        """Let others connect here."""
        listener = registry.listen(endpoint)
        if self._is_closed:  # nobody would close it any more
            listener.close()
            raise SessionClosed("the node is closed")
        self.listeners.append(listener)
        for locator in listener.locators(loopback=False):
            logger.info("Zenoh can be reached at: %s", locator.text)
        self.loop.call_soon(lambda: self._await_callers(listener))
        return listener

    def join(self, endpoint: Endpoint) -> None:
        """Speak and listen in a multicast group."""
        if self._is_closed:
            raise SessionClosed("the node is closed")
        if self.identity.whatami is WhatAmI.CLIENT:
            raise endpoint.error("is a multicast group, which a client cannot join")
        if self.rules.batch_size < MIN_BATCH_BYTES:
            size = self.rules.batch_size
            raise endpoint.error(f"is a multicast group, for which transport/link/tx/batch_size={size} is too small")
        gathering = MulticastSession(self, endpoint, self._begin_group, self.limits.writer)
        self._gatherings.append(gathering)
        self.loop.call_soon(gathering.start)

    def _begin_group(self) -> GroupSession:
        return GroupSession(self.identity, self.rules, self.loop.now(), secrets.randbits(32), self._columns, self._pool)

    def locators(self, loopback: bool) -> tuple[Locator, ...]:
        """Where others reach this node, from this machine or from elsewhere."""
        return tuple(locator for listener in self.listeners for locator in listener.locators(loopback))

    @property
    def advertised_addresses(self) -> list[str]:
        """Where this node is found: the addresses it listens on, and the groups it has joined."""
        groups = [gathering.endpoint.locator for gathering in self._gatherings]
        return [locator.text for locator in (*self.locators(loopback=False), *groups)]

    def connect(self, endpoint: Endpoint, watcher: SessionWatcher, expected: ZenohId | None = None) -> None:
        """Make a link and a session over it; waits for the link only. `watcher` hears how the session goes."""
        link = registry.connect(endpoint, self.limits.open_timeout)
        side = Initiator(self.identity, self._offer(link), expected)
        self.loop.call_soon(lambda: self._drive(link, side, self.limits.open_timeout, watcher))
        if self._is_closed:  # the loop may be gone already
            link.close()
            raise SessionClosed("the node is closed")

    def _offer(self, link: Link) -> Capabilities:
        relays = self.offer.relays and self.router.may_relay
        return msgspec.structs.replace(self.offer, batch_size=min(self.offer.batch_size, link.mtu), relays=relays)

    # -- access control

    @property
    def has_access_control(self) -> bool:
        """Whether there are rules for who may do what."""
        return self._checkpoint is not None and self._checkpoint.has_access_control

    def allows(self, party: PeerAttributes, flow: Flow, action: Action, key: str) -> bool:
        """Whether access control lets a client that is no neighbour do something to a key."""
        with self.lock:
            return self._checkpoint is None or self._checkpoint.allows(party, flow, action, key)

    # -- callers, in the loop

    def _await_callers(self, listener: Listener) -> None:
        if not self._is_closed:
            self.loop.watch(listener, lambda: self._on_caller(listener))

    def _on_caller(self, listener: Listener) -> None:
        try:
            for _ in range(MAX_ACCEPTS_PER_TURN):
                link = listener.accept()
                if link is None:
                    return
                self._welcome(link)
        except LinkError as error:
            logger.warning("nobody can connect for the moment: %s", error)
            self.loop.watch(listener, None)
            self.loop.call_at(self.loop.now() + ACCEPT_RETRY_SECONDS, lambda: self._await_callers(listener))

    def _welcome(self, link: Link) -> None:
        with self.lock:
            leaving = self._callers.add(link)
        if leaving is not None:
            self._turn_away(leaving)
        if leaving is link:
            return
        if link.is_established:
            self._accept(link)
        else:
            self._establishing.add(link)
            threading.Thread(target=self._establish, args=(link,), name="zenspark-accept", daemon=True).start()

    def _has_spoken(self, link: Link) -> bool:
        """Whether something came from a caller."""
        driver = self._calling.get(link)
        return driver is not None and driver.received > 0

    def _turn_away(self, link: Link) -> None:
        """Close the link of a caller that has no session, without a word: others need its place."""
        self._callers.remove(link)
        driver = self._calling.pop(link, None)
        if driver is None:
            link.close()
            return
        self._pending.pop(driver, None)
        self._crossed.pop(driver, None)
        driver.release()

    def _establish(self, link: Link) -> None:
        """In a thread of its own: what TLS and WebSocket have to do first."""
        try:
            link.establish(self.limits.accept_timeout)
        except LinkError as error:
            logger.debug("the handshake of a caller failed: %s", error)
            with self.lock:
                self.router.refusals.count(Limit.HANDSHAKES, error)
            link.close()
        self.loop.call_soon(lambda: self._established(link))

    def _established(self, link: Link) -> None:
        self._establishing.discard(link)
        if link.fileno() >= 0:
            self._accept(link)
        else:
            self._callers.remove(link)

    def _accept(self, link: Link) -> None:
        side = Acceptor(self.identity, self._offer(link), self._cookie_key, secrets.randbits(64))
        self._drive(link, side, self.limits.accept_timeout)

    def _drive(
        self, link: Link, side: Initiator | Acceptor, timeout: float, watcher: SessionWatcher | None = None
    ) -> None:
        if self._is_closed:
            link.close()
            return
        limits = self.limits
        connection = Connection(
            side, self.loop.now(), limits.message_size, link.is_streamed, self._columns, limits.keep_alives, self._pool
        )
        driver = ConnectionDriver(self.loop, link, connection, self._on_event, self.limits.writer)
        driver.on_released = self._on_released
        driver.on_block = lambda waits: self.on_block(waits)
        driver.on_drained = self._on_room
        driver.on_unsent = self._held.start_stall_timer
        self._pending[driver] = watcher
        if isinstance(side, Acceptor):
            self._calling[link] = driver
        driver.start(timeout)

    # -- what links tell, in the loop

    def _on_event(self, driver: ConnectionDriver, event: Event) -> None:
        match event:
            case PushRun():
                with self.lock:
                    self.receive_push_run(self._faces[driver], event)
            case MessageReceived():
                self._on_received(driver, event)
            case MessageRejected():
                with self.lock:
                    self.reject(self._faces[driver], event)
            case SessionRequested(terms):
                if self._is_accepted(driver, terms):
                    self._on_asked(driver, terms.peer.zid)
            case PeerIdentified(zid):
                if self.has_session(zid):
                    self._refuse_second(driver, zid)
            case Opened():
                self._on_opened(driver, event)
            case Closed():
                self._on_closed(driver, event)

    def _on_received(self, driver: ConnectionDriver, received: MessageReceived) -> None:
        message = received.message
        with self.lock:
            face = self._faces[driver]
            if event_log.is_enabled():
                event_log.log_received(face, message)
            if self._local is None or not self._local.try_handle(face, message):
                self.receive(face, message, received.reliable)

    def _is_accepted(self, driver: ConnectionDriver, terms: SessionParameters) -> bool:
        """Whether a caller may be what it says it is; if not, it is refused."""
        with self.lock:
            is_accepted = self.router.accepts(terms.peer.whatami, _peer_attributes(driver.link, terms))
        if not is_accepted:
            driver.close(CloseReason.INVALID, "not accepted as a router here")
        return is_accepted

    def _on_asked(self, driver: ConnectionDriver, zid: ZenohId) -> None:
        with self.lock:
            refusal = self._callers.may_open(driver.link)
        if refusal is not None:
            driver.close(CloseReason.INVALID, refusal)
        elif self.has_session(zid):
            self._refuse_second(driver, zid)
        elif all(pending.connection.dialed_zid != zid for pending in self._pending):
            driver.admit()
        elif self.identity.zid.value > zid.value:
            self._refuse_second(driver, zid)
        else:
            self._crossed[driver] = zid

    def _refuse_second(self, driver: ConnectionDriver, zid: ZenohId) -> None:
        driver.close(CloseReason.MAX_LINKS, f"there is a link to {zid} already")

    def _uncross(self, zid: ZenohId | None) -> None:
        """Our call of a node has come to its end: what becomes of the calls that came from there meanwhile?"""
        for driver, caller in list(self._crossed.items()):
            if caller == zid:
                del self._crossed[driver]
                self._on_asked(driver, caller)

    def _on_opened(self, driver: ConnectionDriver, opened: Opened) -> None:
        peer = opened.parameters.peer
        watcher = self._pending.pop(driver, None)
        if self.has_session(peer.zid):
            self._pending[driver] = watcher
            driver.close(CloseReason.MAX_LINKS, f"there is a link to {peer.zid} already")
            return
        self._calling.pop(driver.link, None)
        self._callers.open(driver.link)
        logger.info("session with %s %s over %s", peer.whatami.text, peer.zid, driver.link.dst)
        with self.lock:
            locators = self.locators(_is_loopback(driver.link))
            bits, relays = opened.parameters.request_bits, opened.parameters.relays
            face, out = self.router.add_face(peer.zid, peer.whatami, self.loop.now(), locators, bits, relays)
            face.patch = driver.patch = opened.parameters.patch
            self._drivers[face] = driver
            self._faces[driver] = face
            driver.neighbour_counters = (
                self.counters.open(face.zid, driver.link.dst, driver.connection.receive_counters),
            )
            if self._checkpoint is not None:
                self._checkpoint.attach(face, _peer_attributes(driver.link, opened.parameters))
            if self._gossip is not None:
                out += self._gossip.opened(face, locators)
            self._emit(out)
            if self._local is not None:
                self._local.opened(face, driver)
            if watcher is not None:
                self._watchers[driver] = watcher
                watcher(driver, opened)
            self._changed.notify_all()
        self._expirations.watch(driver)
        self._uncross(peer.zid)

    def _on_closed(self, driver: ConnectionDriver, closed: Closed) -> None:
        watcher = self._pending.pop(driver, None) or self._watchers.pop(driver, None)
        self._leaving.add(driver)
        self._held.leave(driver)
        self._expirations.forget(driver)
        driver.connection.release_memory()
        self._calling.pop(driver.link, None)
        self._callers.remove(driver.link)
        was_expected = driver in self._faces or watcher is not None
        level = logging.INFO if was_expected else logging.DEBUG  # anybody can call, as often as they like
        logger.log(level, "the link to %s ended: %s", driver.link.dst, closed.text)
        with self.lock:
            face = self._faces.pop(driver, None)
            if face is not None:
                del self._drivers[face]
                self.counters.close(face.zid, driver.connection.receive_counters)
                if self._gossip is not None:
                    self._emit(self._gossip.closed(face))
                self._emit(self.router.remove_face(face, self.loop.now()))
                if self._local is not None:
                    self._local.closed(face, driver)
            if watcher is not None:
                watcher(driver, closed)
            self._changed.notify_all()
        if face is not None and self.on_lost is not None:
            self.on_lost(face.zid)
        self._crossed.pop(driver, None)
        self._uncross(driver.connection.dialed_zid)

    def _on_released(self, pump: LinkDriver) -> None:
        self._leaving.discard(pump)
        if self._is_closing and not self._leaving:
            self._finish()

    # -- what groups tell, in the loop; with the lock

    def add_group_face(self, face: Face, driver: LinkDriver, seat: GroupMemberInfo | None = None) -> None:
        """A group was joined, or a member of one is heard."""
        self._groups[face] = driver
        driver.on_drained = self._on_room
        if seat is not None:
            self._seats[face] = seat
            driver.neighbour_counters += (self.counters.open(face.zid, seat.dst, seat.receive_counters),)
            if self._local is not None:
                self._local.opened(face, seat)
        self._changed.notify_all()

    def remove_group_face(self, face: Face) -> None:
        """That is over."""
        driver = self._groups.pop(face)
        self._emit(self.router.remove_face(face, self.loop.now()))
        seat = self._seats.pop(face, None)
        if seat is not None:
            driver.neighbour_counters = tuple(
                counters for counters in driver.neighbour_counters if counters.zid != face.zid
            )
            self.counters.close(face.zid, seat.receive_counters)
            if self._local is not None:
                self._local.closed(face, seat)
        self._changed.notify_all()

    def on_group_closed(self, gathering: MulticastSession) -> None:
        """A group was left or lost; what was said last may still be under way."""
        self._held.leave(gathering.driver)
        self._leaving.add(gathering.driver)
        gathering.driver.on_released = self._on_released
        gathering.driver.on_block = lambda waits: self.on_block(waits)

    # -- what is heard, with the lock

    def receive_push_run(self, face: Face, pushes: PushRun) -> None:
        """A neighbour published something: it goes on in columns, unless somebody looks at every message."""
        courses = self._forwarding.plans(face, pushes.columns, pushes.start, pushes.stop)
        if courses is None:
            self._receive_individually(face, pushes)
            return
        keys = [course.local_key for course in courses]
        if self._local is not None and any(keys):
            stamped_by = None if self.router.timestamping is None else self.identity.zid
            self._local.receive_push_run(face, msgspec.structs.replace(pushes, timestamped_by=stamped_by), keys)
        self._relay(face, pushes, courses)

    def _receive_individually(self, face: Face, pushes: PushRun) -> None:
        columns = pushes.columns
        for row in range(pushes.start, pushes.stop):
            self.receive(face, columns.push(row), columns.shape_at(columns.shape[row]).reliable)

    def _relay(self, face: Face, pushes: PushRun, courses: list[ForwardingPlan]) -> None:
        source = self.driver(face)
        assert source is not None, "it was heard over a link"
        for target, share in plans_by_peer(courses):
            pump = self.driver(target)
            if pump is not None:
                for start, stop, lanes in self._held.select_rows(source, pump, share, pushes):
                    pump.forward_rows(Relay(pushes.columns, start, stop, lanes, share.heads, self._zid))

    def receive(self, face: Face, message: NetworkMessage, reliable: bool = True) -> list[LinkDriver]:
        """A neighbour, or the session, says something; the links over which something was said because of it."""
        if self._checkpoint is not None:
            passed, told = self._checkpoint.on_ingress(face, message, reliable, self.loop.now())
            if passed is None:
                return self._send_out(told)
            message = passed
        self.speaker = (face, reliable)
        if isinstance(message, Push | Request | Response) and message.ts_stack is not None:
            message = replace(message, ts_stack=self.at_route(message.ts_stack))
        if self._gossip is not None and isinstance(message, NetworkOam) and face.region is not Region.MEMBER:
            found, out = self._gossip.receive(face, message)
            self._send_out(out, source=self.driver(face))
            for one in found:
                if self.on_found is not None and not self.has_session(one.zid):
                    self.on_found(one)
        out = self.router.receive(face, message, self.loop.now())
        spoken_to = self._send_out(out, reliable, self.driver(face))
        if self.router.is_awaiting_declarations(face):
            self._answer_soon(face)
        if not isinstance(message, NEVER_CHANGE_DEADLINES):
            self._arm()
        if isinstance(message, Declare) and isinstance(message.body, DeclareFinal):
            self._changed.notify_all()
        return spoken_to

    def reject(self, face: Face, rejected: MessageRejected) -> None:
        """A neighbour sent what must not be processed: it learns that no answer will come."""
        _, why = LOSS_TEXTS[rejected.reason]
        self._send_out(self.router.reject(face, rejected.message, why))

    # -- what the session says

    def send_local(self, message: NetworkMessage) -> list[LinkDriver]:
        """The session declares, asks or answers something; the links it goes to."""
        with self.lock:
            spoken_to = self.receive(self.local_face, message)
        if not self.loop.is_loop_thread:
            for pump in spoken_to:
                pump.flush()
        return spoken_to

    def wait_until_drained(self, pumps: Iterable[LinkDriver], congestion: Congestion) -> None:
        """Wait until some links have taken what was said to them before; never with the lock."""
        for pump in pumps:
            pump.wait_until_drained(congestion)

    def blocking_links(self, congestion: Congestion, key: str | None = None) -> list[LinkDriver]:
        """The links on which saying something would mean to wait: to all neighbours, or a publication on a key."""
        late = [pump for pump in self.link_drivers if pump.would_block(congestion)]
        if not late or key is None:
            return late
        with self.lock:
            wanted = {self.driver(face) for face in self.router.routes.push(self.local_face, key)}
        return [pump for pump in late if pump in wanted]

    def _emit(self, out: Outgoing) -> None:
        self._send_out(out)
        self._arm()

    def _answer_soon(self, face: Face) -> None:
        """Answer the interests of a face further, one portion in each turn; while its link is behind, none."""
        driver = self.driver(face)
        while driver is None and self.router.is_awaiting_declarations(
            face
        ):  # the session of this node takes all at once
            self._send_out(self.router.send_next_declarations(face))
        if driver is not None and driver.is_backlogged:
            self._held.pause_source(driver, driver)
        elif driver is not None and face not in self._answering:
            self._answering.add(face)
            self.loop.call_at_end_of_turn(lambda: self._answer(face))

    def _answer(self, face: Face) -> None:
        with self.lock:
            self._answering.discard(face)
            if self.router.is_awaiting_declarations(face):
                self._send_out(self.router.send_next_declarations(face))
            if self.router.is_awaiting_declarations(face):
                self._answer_soon(face)

    def _on_room(self, pump: LinkDriver) -> None:
        """A link has taken what waited for it; in the loop."""
        self._held.release_sources(pump)
        with self.lock:
            for face in self.router.faces_awaiting_declarations:
                if self.driver(face) is pump:
                    self._answer_soon(face)

    def _send_out(self, out: Outgoing, reliable: bool = True, source: LinkDriver | None = None) -> list[LinkDriver]:
        """Send messages that followed from one of a source; the links they went to."""
        if self._checkpoint is not None:
            out = self._checkpoint.on_egress(out, reliable, self.loop.now())
        spoken_to = []
        is_logged = event_log.is_enabled()
        for face, message in out:
            if face is self.local_face:
                if self._local is not None:
                    self._local.receive(message)
            else:
                driver = self.driver(face)
                if driver is not None and (not driver.is_backlogged or self._held.may_forward(source, driver, message)):
                    if is_logged:
                        event_log.log_sent(face, message)
                    driver.send_message(message, qos_of(message), reliable)
                    spoken_to.append(driver)
        return spoken_to

    def _arm(self) -> None:
        """Be called when the router has something to do by itself; at most one timer waits for that."""
        when = self.router.next_timeout()
        if self._timer is not None and (when is None or when < self._timer.when):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and when is not None:
            self._timer = self.loop.call_at(when, self._on_time)

    def _on_time(self) -> None:
        with self.lock:
            self._timer = None
            self._emit(self.router.handle_timeout(self.loop.now()))
            self._changed.notify_all()

    # -- the end

    def close(self) -> None:
        """End every session in good order, and the loop. Returns in bounded time, whatever the peers do."""
        if self._is_closed:
            return
        self._is_closed = True
        self.wake()
        self.loop.call_soon(self._close)
        if not self.loop.is_loop_internal:
            yield_leadership()
            self._is_done.wait(2 * self.limits.close_timeout)
            self.loop.stop(self.limits.close_timeout)

    def _close(self) -> None:
        """In the loop: say goodbye, and end when it has been heard or time is up."""
        for listener in self.listeners:
            self.loop.watch(listener, None)
        for link in self._establishing:
            link.close()
        for driver in [*self._pending, *self._drivers.values()]:
            driver.close()
        for gathering in self._gatherings:
            gathering.leave()
        self._is_closing = True
        if self._leaving:
            self.loop.call_at(self.loop.now() + self.limits.close_timeout, self._finish)
        else:
            self._finish()

    def _on_loop_failed(self) -> None:
        """The loop cannot go on: close everything at once, for nothing can be waited for any more."""
        self._is_closed = self._is_closing = True
        try:
            self.on_failed()
        finally:
            pumps = {*self._pending, *self.link_drivers, *self._leaving}
            for end in [*(pump.close for pump in pumps), *(link.close for link in self._establishing), self._finish]:
                with contextlib.suppress(Exception):  # what went wrong in the loop may go wrong here as well
                    end()
            self.wake()

    def _finish(self) -> None:
        if self._is_done.is_set():
            return
        self._is_done.set()
        for pump in list(self._leaving):
            pump.release()
        for listener in self.listeners:  # last, because the links of a UDP listener live in it
            listener.close()
        self.loop.stop()

    def detach_after_fork(self) -> None:
        """In a forked child: this copy of the node is closed, and the parent's goes on."""
        self._is_closed = True
        self.lock._at_fork_reinit()  # type: ignore[attr-defined]  # as `logging` does: others hold this very lock
        for pump in {*self._pending, *self._drivers.values(), *self._groups.values(), *self._leaving}:
            pump.detach_after_fork()
        for listener in self.listeners:
            detach_after_fork(listener)
        for link in self._establishing:
            detach_after_fork(link)
        self.loop.detach_after_fork()
        self._drivers.clear()
        self._groups.clear()
        self._seats.clear()


_nodes: weakref.WeakSet[Node] = weakref.WeakSet()


def _after_fork() -> None:
    for node in list(_nodes):
        node.detach_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _is_loopback(link: Link) -> bool:
    """Whether the other side is on this machine."""
    try:
        address = Endpoint.parse(link.dst).ip
    except UsageError:  # it has no address at all
        return True
    return address is not None and address.is_loopback


def _peer_attributes(link: Link, terms: SessionParameters) -> PeerAttributes:
    user = None if terms.user is None else terms.user.decode(errors="replace")
    return PeerAttributes(
        terms.peer.zid, link.interfaces, link.endpoint.protocol, user, link.auth_identifier, link.remote_host
    )


def qos_of(message: NetworkMessage) -> QoS:
    """How a message wants to be treated."""
    return getattr(message, "qos", QoS.DEFAULT)


def make_identity(zid: ZenohId | None, whatami: WhatAmI) -> Identity:
    """Who this node is: the id it was given, or one of its own."""
    return Identity(zid or ZenohId(secrets.randbits(127) | 1 << 127), whatami)
