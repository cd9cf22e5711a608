"""Node: one router, its links, and the session that uses them.

A node is composed of

- `Dispatcher`: passes received messages to the router, and its messages to links and to the local session;
- `SessionTable`: the links to other nodes, from handshake to close;
- `ListenerSet`: accepts links;
- `MulticastGroups`: multicast groups and their members.

The router's tables are guarded by `lock`; see `Dispatcher`. Publications do not take it: their routes are looked up
once and used without the lock until their `version` changes. Links without a session belong to the loop.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable

from zenspark.clock import HybridClock
from zenspark.errors import SessionClosed
from zenspark.net.io.counters import CounterRegistry, LinkTraffic
from zenspark.net.io.forwarding_backpressure import ForwardingBackpressure
from zenspark.net.io.link_driver import ConnectionDriver, LinkDriver
from zenspark.net.links import registry
from zenspark.net.links.base import Listener
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.loop.event_loop import EventLoop
from zenspark.net.loop.leader_follower import yield_leadership
from zenspark.net.node.dispatch import Dispatcher
from zenspark.net.node.driver_observer import DriverObserver
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.listeners import ListenerSet
from zenspark.net.node.multicast import MulticastGroups
from zenspark.net.node.observer import IgnoredNodeEvents, LocalSession, Neighbour, NodeObserver, SessionWatcher
from zenspark.net.node.refusals import RefusalLog
from zenspark.net.node.sessions import SessionTable
from zenspark.net.node.transport_factory import TransportFactory
from zenspark.router.face import Face
from zenspark.router.interceptors.chain import InterceptorConfig
from zenspark.router.interceptors.face_interceptors import FaceInterceptors
from zenspark.router.interceptors.rules import Flow, InterceptedAction, NeighbourAttributes
from zenspark.router.linkstate.gossip import GossipProtocol
from zenspark.router.router import Router, RouterPolicy
from zenspark.transport.handshake import Capabilities, Identity
from zenspark.transport.multicast import GroupSettings
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import Congestion, Locator, WhatAmI, ZenohId


class Node:
    """A Zenoh node: the links to its neighbours, and the router between them."""

    def __init__(
        self,
        identity: Identity,
        capabilities: Capabilities,
        limits: NodeLimits,
        policy: RouterPolicy = RouterPolicy(),  # noqa: B008 - frozen
        gossip: GossipProtocol | None = None,
        groups: GroupSettings = GroupSettings(),  # noqa: B008 - frozen
        interceptors: InterceptorConfig | None = None,
    ) -> None:
        self.identity = identity
        self.capabilities = capabilities
        self.limits = limits
        self.loop = EventLoop(f"zenspark-{identity.zid}", self._on_loop_failed)
        self.router = Router(identity.zid, identity.whatami, policy, RefusalLog(self.loop))
        self.clock = HybridClock() if policy.timestamping is None else policy.timestamping.clock
        self._interceptors = None if interceptors is None else FaceInterceptors(self.router, interceptors)
        backpressure = ForwardingBackpressure(self.loop, limits.writer)
        self.dispatcher = Dispatcher(self.router, self.loop, backpressure, gossip, self._interceptors)
        self.lock = self.dispatcher.lock
        self.local_face = self.dispatcher.local_face
        self.counters = CounterRegistry(self.loop, self.lock)
        """Messages received, lost and dropped, by neighbour."""
        self._faces = self.dispatcher.faces
        self._driver_observer = DriverObserver(self.dispatcher, self._on_all_links_closed)
        self._factory = TransportFactory(identity, capabilities, limits, groups, self.router)
        self.sessions = SessionTable(
            self._factory, self.dispatcher, self._driver_observer, self.counters, self.locators
        )
        self.multicast = MulticastGroups(self._factory, self.dispatcher, self._driver_observer, self.counters)
        self._listeners = ListenerSet(self.dispatcher, self.sessions, limits.accept_timeout)
        self._is_closed = False
        self._is_closing = False
        """Whether the sessions are closed, and the links may still linger."""
        self._is_done = threading.Event()
        _nodes.add(self)

    def start(self, session: LocalSession, observer: NodeObserver | None = None) -> None:
        """Start the loop, and deliver messages to the session and events to the observer."""
        self.dispatcher.session = session
        self.dispatcher.observer = observer or IgnoredNodeEvents()
        self.loop.start()

    @property
    def is_closed(self) -> bool:
        """Whether the node is closed, or about to be."""
        return self._is_closed

    # -- neighbours

    @property
    def drivers(self) -> dict[Face, ConnectionDriver]:
        """A copy of the drivers of sessions, by face."""
        return self._faces.drivers

    @property
    def neighbourhood(self) -> dict[Face, Neighbour]:
        """A copy of all neighbours, by face: those with a session, and the members of groups."""
        return self._faces.neighbourhood

    @property
    def link_drivers(self) -> set[LinkDriver]:
        """A copy of the set of all drivers: of sessions and of groups."""
        return self._faces.link_drivers

    @property
    def traffic(self) -> LinkTraffic:
        """Bytes and sent messages of all links since the node started, those that are closed included."""
        return self._driver_observer.traffic()

    def driver(self, face: Face) -> LinkDriver | None:
        """Return the driver that a face is received from and sent to; None for the local session."""
        return self._faces.driver(face)

    def has_session(self, zid: ZenohId) -> bool:
        """Return whether a node has a session with this one."""
        return self._faces.has_session(zid)

    @property
    def initial_declarations_received(self) -> bool:
        """Whether every neighbouring peer has sent its initial declarations."""
        with self.lock:
            return self.router.initial_declarations_received

    def wait(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until a predicate holds that depends on neighbours; False if it does not within `timeout` seconds."""
        yield_leadership()
        with self.dispatcher.changed:
            return self.dispatcher.changed.wait_for(predicate, timeout)

    def wake(self) -> None:
        """Have every thread in `wait` evaluate its predicate again."""
        with self.dispatcher.changed:
            self.dispatcher.changed.notify_all()

    # -- links

    @property
    def listeners(self) -> list[Listener]:
        """The listeners, in the order in which they were bound."""
        return self._listeners.listeners

    def listen(self, endpoint: Endpoint) -> Listener:
        """Accept links on an endpoint; raises LinkError if that fails."""
        return self._listeners.listen(endpoint)

    def pause_accepting(self) -> None:
        """Accept no links for now: connections wait in the backlog of the kernel."""
        self._listeners.pause_accepting()

    def resume_accepting(self) -> None:
        """Accept the links that have waited, and all that come."""
        self._listeners.resume_accepting()

    def join(self, endpoint: Endpoint) -> None:
        """Join a multicast group; raises LinkError if that fails, and UsageError if this node cannot join groups."""
        self.multicast.join(endpoint)

    def locators(self, loopback: bool) -> tuple[Locator, ...]:
        """Return the addresses to advertise, with those of the loopback interface for peers on this machine."""
        return self._listeners.locators(loopback)

    @property
    def advertised_addresses(self) -> list[str]:
        """The addresses of listeners, and of the groups this node has joined."""
        return [locator.text for locator in (*self.locators(loopback=False), *self.multicast.locators)]

    def connect(self, endpoint: Endpoint, watcher: SessionWatcher, expected: ZenohId | None = None) -> None:
        """Open a link and start the handshake on it; waits for the link only. `watcher` gets Opened and Closed."""
        link = registry.connect(endpoint, self.limits.open_timeout)
        initiator = self._factory.make_initiator(link, expected)
        self.loop.call_soon(lambda: self.sessions.open(link, initiator, watcher))
        if self._is_closed:  # the loop may have ended already
            link.close()
            raise SessionClosed("the node is closed")

    # -- access control

    @property
    def has_access_control(self) -> bool:
        """Whether access control rules are configured."""
        return self._interceptors is not None and self._interceptors.has_access_control

    def allows(self, client: NeighbourAttributes, flow: Flow, action: InterceptedAction, key: str) -> bool:
        """Return whether access control allows a client without a session (REST) an action on a key."""
        with self.lock:
            return self._interceptors is None or self._interceptors.allows(client, flow, action, key)

    # -- messages of the session

    def send_local(self, message: NetworkMessage) -> list[LinkDriver]:
        """Route a message of the local session; returns the links messages were sent on."""
        with self.lock:
            drivers = self.dispatcher.route(self.local_face, message)
        if not self.loop.is_loop_thread:
            for driver in drivers:
                driver.flush()
        return drivers

    def wait_until_drained(self, drivers: Iterable[LinkDriver], congestion: Congestion) -> None:
        """Wait until links have taken their unsent bytes, as long as `congestion` allows; never with the lock held."""
        for driver in drivers:
            driver.wait_until_drained(congestion)

    def blocking_links(self, congestion: Congestion, key: str | None = None) -> list[LinkDriver]:
        """Return the links on which sending would wait: of all neighbours, or of the subscribers to a key."""
        blocking = [driver for driver in self.link_drivers if driver.would_block(congestion)]
        if not blocking or key is None:
            return blocking
        with self.lock:
            targets = {self.driver(face) for face in self.router.routes.push_next_hops(self.local_face, key)}
        return [driver for driver in blocking if driver in targets]

    # -- closing

    def close(self) -> None:
        """Close all sessions and the loop. Returns in bounded time, whatever the peers do."""
        if self._is_closed:
            return
        self._set_closed()
        self.wake()
        self.loop.call_soon(self._close)
        if not self.loop.is_in_loop_task:
            yield_leadership()
            self._is_done.wait(2 * self.limits.close_timeout)
            self.loop.stop(self.limits.close_timeout)

    def _set_closed(self) -> None:
        self._is_closed = self.sessions.is_closed = self.multicast.is_closed = self._listeners.is_closed = True

    def _close(self) -> None:
        """Send CLOSE on every session, in the loop, and finish when all links are closed or time is up."""
        self._listeners.stop()
        self.sessions.close()
        self.multicast.leave()
        self._is_closing = True
        if self._driver_observer.closing:
            self.loop.call_at(self.loop.now() + self.limits.close_timeout, self._finish)
        else:
            self._finish()

    def _on_all_links_closed(self) -> None:
        if self._is_closing:
            self._finish()

    def _on_loop_failed(self) -> None:
        """Close everything at once: without the loop nothing can be waited for."""
        self._set_closed()
        self._is_closing = True
        try:
            self.dispatcher.observer.on_failed()
        finally:
            drivers = {*self.sessions.pending, *self.link_drivers, *self._driver_observer.closing}
            for step in [*(driver.end_session for driver in drivers), self._listeners.abort_handshakes, self._finish]:
                with contextlib.suppress(Exception):  # the bug that ended the loop may show here as well
                    step()
            self.wake()

    def _finish(self) -> None:
        if self._is_done.is_set():
            return
        self._is_done.set()
        for driver in list(self._driver_observer.closing):
            driver.close_link()
        self._listeners.close()
        self.loop.stop()

    def detach_after_fork(self) -> None:
        """Close this copy of the node in a forked child; the parent's node is not affected."""
        self._set_closed()
        self.lock._at_fork_reinit()  # type: ignore[attr-defined]  # as `logging` does: other threads held it
        for driver in {*self.sessions.pending, *self.link_drivers, *self._driver_observer.closing}:
            driver.detach_after_fork()
        self._listeners.detach_after_fork()
        self.loop.detach_after_fork()
        self._faces.clear()


_nodes: weakref.WeakSet[Node] = weakref.WeakSet()


def _after_fork() -> None:
    for node in list(_nodes):
        node.detach_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def make_identity(zid: ZenohId | None, whatami: WhatAmI) -> Identity:
    """Make the identity of a node, with a random id unless one is given."""
    return Identity(zid or ZenohId(secrets.randbits(127) | 1 << 127), whatami)
