"""Dispatcher: passes received messages to the router, and its messages to the links and to the local session.

All of it is guarded by `lock`. The loop takes it for every message it receives, other threads for every message they
send. The messages that follow are sent with the lock held, so that neighbours receive declarations in the order in
which they became valid; sending never waits, it only fills outboxes.
"""

from __future__ import annotations

import logging
import threading

import msgspec

from zenspark.net.io.counters import LOSS_TEXTS
from zenspark.net.io.forwarding_backpressure import ForwardingBackpressure
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.loop.event_loop import EventLoop, Timer
from zenspark.net.node import message_log
from zenspark.net.node.faces import FaceTable
from zenspark.net.node.observer import IgnoredNodeEvents, LocalSession, NodeObserver
from zenspark.router.face import Face, Outgoing, Region
from zenspark.router.forwarding.plans import ForwardingPlan, ForwardingPlanner, plans_by_neighbour
from zenspark.router.interceptors.face_interceptors import FaceInterceptors
from zenspark.router.linkstate.gossip import GossipProtocol
from zenspark.router.router import Router
from zenspark.transport.receiver import MessageReceived, MessageRejected
from zenspark.wire.columns import PushRun, RowForwarder
from zenspark.wire.message_schema import replace
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
from zenspark.wire.values import QoS

logger = logging.getLogger("zenspark.net")

NEVER_CHANGE_DEADLINES = (Push, Response, ResponseFinal)
"""Messages after which the router has no new timeout to handle."""


class Dispatcher:
    """Routes the messages of all faces of a node. All methods need the lock; `source` is the face of a message."""

    def __init__(
        self,
        router: Router,
        loop: EventLoop,
        backpressure: ForwardingBackpressure,
        gossip: GossipProtocol | None = None,
        interceptors: FaceInterceptors | None = None,
    ) -> None:
        self.lock = threading.RLock()
        """Guards the router, the face table, and the state of the local session."""
        self.changed = threading.Condition(self.lock)
        """Notified when neighbours join or leave, and when a neighbour has sent its initial declarations."""
        self.router = router
        self.loop = loop
        self.backpressure = backpressure
        self.gossip = gossip
        self.interceptors = interceptors
        self.faces = FaceTable(self.lock)
        self.local_face = router.add_local()
        self.session: LocalSession | None = None
        self.observer: NodeObserver = IgnoredNodeEvents()
        self._forwarding = ForwardingPlanner(router, self.local_face)
        self._zid = router.zid.to_bytes()
        self._portion_scheduled: set[Face] = set()
        """Faces that get the next portion of their declarations at the end of this turn."""
        self._timer: Timer | None = None
        """Calls the router at its next timeout."""

    # -- received messages

    def receive(self, source: Face, received: MessageReceived) -> None:
        """Handle a message of a neighbour: by the local session if it can, else by the router."""
        message = received.message
        if message_log.is_enabled():
            message_log.log_received(source, message)
        if self.session is None or not self.session.try_handle(source, message):
            self.route(source, message, received.reliable)

    def receive_push_run(self, source: Face, pushes: PushRun) -> None:
        """Forward publications of a neighbour as rows; one by one if each message has to be inspected."""
        plans = self._forwarding.plans(source, pushes.columns, pushes.start, pushes.stop)
        if plans is None:
            self._route_individually(source, pushes)
            return
        keys = [plan.local_key for plan in plans]
        if self.session is not None and any(keys):
            timestamped_by = None if self.router.timestamping is None else self.router.zid
            local_pushes = msgspec.structs.replace(pushes, timestamped_by=timestamped_by)
            self.session.receive_push_run(source, local_pushes, keys)
        self._forward(source, pushes, plans)

    def _route_individually(self, source: Face, pushes: PushRun) -> None:
        columns = pushes.columns
        for row in range(pushes.start, pushes.stop):
            self.route(source, columns.push(row), columns.template_at(columns.template_index[row]).reliable)

    def _forward(self, source: Face, pushes: PushRun, plans: list[ForwardingPlan]) -> None:
        source_driver = self.faces.driver(source)
        assert source_driver is not None, "the rows were received on a link"
        for target, plan in plans_by_neighbour(plans):
            driver = self.faces.driver(target)
            if driver is not None:
                for start, stop, lanes in self.backpressure.select_rows(source_driver, driver, plan, pushes):
                    driver.forward_rows(RowForwarder(pushes.columns, start, stop, lanes, plan.heads, self._zid))

    def reject(self, source: Face, rejected: MessageRejected) -> None:
        """Reply to a message that must not be processed, so that its sender does not wait for a reply."""
        _, text = LOSS_TEXTS[rejected.reason]
        self._send(self.router.reject(source, rejected.message, text))

    # -- routing

    def route(self, source: Face, message: NetworkMessage, reliable: bool = True) -> list[LinkDriver]:
        """Route one message of a neighbour or of the local session; returns the links messages were sent on."""
        if self.interceptors is not None:
            passed, replies = self.interceptors.on_ingress(source, message, reliable, self.loop.now())
            if passed is None:
                return self._send(replies)
            message = passed
        if isinstance(message, Push | Request | Response) and message.ts_stack is not None:
            message = replace(message, ts_stack=self.observer.record_route(message.ts_stack))
        if isinstance(message, NetworkOam) and source.region is not Region.MEMBER:
            self._receive_gossip(source, message)
        drivers = self._send(self.router.receive(source, message, self.loop.now()), source, reliable)
        if self.router.is_awaiting_declarations(source):
            self._send_portion_soon(source)
        if not isinstance(message, NEVER_CHANGE_DEADLINES):
            self._arm()
        if isinstance(message, Declare) and isinstance(message.body, DeclareFinal):
            self.changed.notify_all()
        return drivers

    def _receive_gossip(self, source: Face, message: NetworkOam) -> None:
        if self.gossip is None:
            return
        discovered, out = self.gossip.receive(source, message)
        self._send(out, source)
        for node in discovered:
            if not self.faces.has_session(node.zid):
                self.observer.on_node_discovered(node)

    def emit(self, out: Outgoing) -> None:
        """Send messages of the router that no received message has caused."""
        self._send(out)
        self._arm()

    def _send(self, out: Outgoing, source: Face | None = None, reliable: bool = True) -> list[LinkDriver]:
        """Send messages caused by one of `source`, which is paused if a link is backlogged; returns their links."""
        if self.interceptors is not None:
            out = self.interceptors.on_egress(out, reliable, self.loop.now())
        source_driver = None if source is None else self.faces.driver(source)
        drivers = []
        is_logged = message_log.is_enabled()
        for face, message in out:
            if face is self.local_face:
                if self.session is not None:
                    self.session.receive(message, source or self.local_face, reliable)
                continue
            driver = self.faces.driver(face)
            if driver is None:
                continue
            if not driver.is_backlogged or self.backpressure.pause_source_or_drop(source_driver, driver, message):
                if is_logged:
                    message_log.log_sent(face, message)
                driver.send_message(message, qos_of(message), reliable)
                drivers.append(driver)
        return drivers

    # -- declarations sent in reply to interests

    def _send_portion_soon(self, face: Face) -> None:
        """Send a face the declarations of its interests: one portion per turn, none while its link is backlogged."""
        driver = self.faces.driver(face)
        if driver is None:  # the local session receives all at once
            while self.router.is_awaiting_declarations(face):
                self._send(self.router.send_next_portion(face))
        elif driver.is_backlogged:
            self.backpressure.pause_source(driver, driver)
        elif face not in self._portion_scheduled:
            self._portion_scheduled.add(face)
            self.loop.call_at_end_of_turn(lambda: self._send_portion(face))

    def _send_portion(self, face: Face) -> None:
        with self.lock:
            self._portion_scheduled.discard(face)
            if self.router.is_awaiting_declarations(face):
                self._send(self.router.send_next_portion(face))
            if self.router.is_awaiting_declarations(face):
                self._send_portion_soon(face)

    def on_drained(self, driver: LinkDriver) -> None:
        """Resume the sources paused for a link that has drained, and send it further declarations; takes the lock."""
        self.backpressure.resume_sources(driver)
        with self.lock:
            for face in self.router.faces_awaiting_declarations:
                if self.faces.driver(face) is driver:
                    self._send_portion_soon(face)

    # -- timeouts of the router

    def _arm(self) -> None:
        """Schedule the next timeout of the router; there is at most one timer."""
        when = self.router.next_timeout()
        if self._timer is not None and (when is None or when < self._timer.when):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and when is not None:
            self._timer = self.loop.call_at(when, self._on_timeout)

    def _on_timeout(self) -> None:
        with self.lock:
            self._timer = None
            self.emit(self.router.handle_timeout(self.loop.now()))
            self.changed.notify_all()


def qos_of(message: NetworkMessage) -> QoS:
    """Return the QoS of a message, or the default for messages without."""
    return getattr(message, "qos", None) or QoS.DEFAULT
