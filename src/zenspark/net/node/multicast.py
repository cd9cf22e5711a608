"""Multicast groups of a node: joins them, and gives the router a face for each group and each of its members.

To the router a group is one face to send to, and each member one face to receive from. A group whose link is lost is
joined again when that is possible.
"""

from __future__ import annotations

import logging

from zenspark.errors import LinkError, SessionClosed
from zenspark.net.io.counters import CounterRegistry
from zenspark.net.io.group_driver import GroupDriver
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.links import registry
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.multicast import MulticastLink
from zenspark.net.node.dispatch import Dispatcher
from zenspark.net.node.driver_observer import DriverObserver
from zenspark.net.node.observer import GroupMemberInfo
from zenspark.net.node.transport_factory import TransportFactory
from zenspark.router.face import Face, describe_neighbour
from zenspark.transport.connection import MIN_BATCH_BYTES
from zenspark.transport.handshake import PROTOCOL_PATCH, Identity
from zenspark.transport.multicast import GroupEvent, Member, MemberEvent, MemberJoined, MemberLeft, SenderRefused
from zenspark.transport.receiver import Closed, MessageReceived, MessageRejected
from zenspark.wire.columns import PushRun
from zenspark.wire.values import Locator, WhatAmI

logger = logging.getLogger("zenspark.net")

REJOIN_DELAY_SECONDS = 1.0
"""Seconds until a group whose link was lost is joined again."""


class MulticastGroups:
    """The multicast groups of one node."""

    def __init__(
        self,
        factory: TransportFactory,
        dispatcher: Dispatcher,
        driver_observer: DriverObserver,
        counters: CounterRegistry,
    ) -> None:
        self.factory = factory
        self.dispatcher = dispatcher
        self.driver_observer = driver_observer
        self.sessions: list[JoinedGroup] = []
        self.is_closed = False
        """Whether the node is closed, and no group can be joined."""
        self._counters = counters

    def join(self, endpoint: Endpoint) -> None:
        """Join a group; raises LinkError if its link fails, and UsageError if this node cannot join groups."""
        if self.is_closed:
            raise SessionClosed("the node is closed")
        if self.factory.identity.whatami is WhatAmI.CLIENT:
            raise endpoint.error("is a multicast group, which a client cannot join")
        size = self.factory.groups.batch_size
        if size < MIN_BATCH_BYTES:
            raise endpoint.error(f"is a multicast group, for which transport/link/tx/batch_size={size} is too small")
        session = JoinedGroup(self, endpoint)
        self.sessions.append(session)
        self.dispatcher.loop.call_soon(session.start)

    @property
    def locators(self) -> list[Locator]:
        """The addresses of the groups."""
        return [session.endpoint.locator for session in self.sessions]

    def leave(self) -> None:
        """Leave all groups; in the loop."""
        for session in self.sessions:
            session.leave()

    # -- in the loop, with the lock

    def add_face(self, face: Face, driver: LinkDriver, member: GroupMemberInfo | None = None) -> None:
        """Add the face of a group that was joined, or of a member of one."""
        dispatcher = self.dispatcher
        dispatcher.faces.add_group_face(face, driver, member)
        if member is not None:
            driver.neighbour_counters += (self._counters.open(face.zid, str(face), member.receive_counters),)
            if dispatcher.session is not None:
                dispatcher.session.on_neighbour_joined(face, member)
        dispatcher.changed.notify_all()

    def remove_face(self, face: Face) -> None:
        """Remove the face of a group that was left or lost, or of a member that has left."""
        dispatcher = self.dispatcher
        driver, member = dispatcher.faces.remove_group_face(face)
        dispatcher.emit(dispatcher.router.remove_face(face, dispatcher.loop.now()))
        if member is not None:
            others = tuple(counters for counters in driver.neighbour_counters if counters.zid != face.zid)
            driver.neighbour_counters = others
            self._counters.close(face.zid, member.receive_counters)
            if dispatcher.session is not None:
                dispatcher.session.on_neighbour_left(face, member)
        dispatcher.changed.notify_all()


class JoinedGroup:
    """One group this node has joined: its driver, and the faces of the group and of its members."""

    def __init__(self, groups: MulticastGroups, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.has_left = False
        """Whether this node has left the group on purpose."""
        self._groups = groups
        self._dispatcher = groups.dispatcher
        self._loop = groups.dispatcher.loop
        self._face: Face | None = None
        self._faces: dict[Member, Face] = {}
        self.driver = self._make_driver(registry.join(endpoint))

    def _make_driver(self, link: MulticastLink) -> GroupDriver:
        factory = self._groups.factory
        session = factory.make_group_session(self._loop.now())
        return GroupDriver(
            self._loop, link, session, self._on_event, factory.limits.writer, self._groups.driver_observer
        )

    def start(self) -> None:
        """Add the face of the group, and send the first JOIN; in the loop."""
        with self._dispatcher.lock:
            self._face = self._dispatcher.router.add_group()
            self._groups.add_face(self._face, self.driver)
        logger.info("joined group %s", self.endpoint.locator.text)
        self.driver.start()

    def leave(self) -> None:
        """Send CLOSE, and do not join again; in the loop."""
        self.has_left = True
        self.driver.end_session()

    # -- events of the group

    def _on_event(self, event: GroupEvent | Closed) -> None:
        match event:
            case MemberEvent(member, received):
                with self._dispatcher.lock:
                    self._receive(self._faces[member], received)
            case MemberJoined(member):
                self._on_member_joined(member)
            case MemberLeft(member, closed):
                self._on_member_left(member, closed)
            case SenderRefused(sender, text, identity):
                self._log_refusal(sender, text, identity)
            case Closed():
                self._on_closed(event)

    def _receive(self, face: Face, received: MessageReceived | MessageRejected | PushRun) -> None:
        match received:
            case MessageReceived(message, reliable):
                self._dispatcher.route(face, message, reliable)
            case MessageRejected():
                self._dispatcher.reject(face, received)
            case PushRun():
                if not face.is_duplicate_member:
                    self._dispatcher.receive_push_run(face, received)

    def _on_member_joined(self, member: Member) -> None:
        link, identity = self.driver.link, member.identity
        logger.info("%s joined group %s", _describe(member), link.dst)
        is_qos, counters = self.driver.connection.qos, member.receiver.receive_counters
        info = GroupMemberInfo(link.src, member.sender, link.dst, link.mtu, is_qos, counters)
        with self._dispatcher.lock:
            assert self._face is not None
            router = self._dispatcher.router
            face = self._faces[member] = router.add_member(self._face, identity.zid, identity.whatami)
            face.address = member.sender
            self._set_patch()
            self._groups.add_face(face, self.driver, info)

    def _log_refusal(self, sender: str, text: str, identity: Identity | None) -> None:
        group = self.endpoint.locator.text
        if identity is None:
            logger.warning("rejected datagram from %s in group %s: %s", sender, group, text)
        else:
            neighbour = describe_neighbour(identity.whatami, identity.zid, sender)
            logger.warning("refused JOIN from %s in group %s: %s", neighbour, group, text)

    def _on_member_left(self, member: Member, closed: Closed) -> None:
        logger.info("%s left group %s: %s", _describe(member), self.driver.link.dst, closed.text)
        with self._dispatcher.lock:
            face = self._faces.pop(member)
            self._set_patch()
            self._groups.remove_face(face)

    def _set_patch(self) -> None:
        """Send only what every member can decode: BlockFirst needs patch 1. With the lock."""
        assert self._face is not None
        self._face.patch = self.driver.patch = min((member.patch for member in self._faces), default=PROTOCOL_PATCH)

    # -- the end

    def _on_closed(self, closed: Closed) -> None:
        self._groups.driver_observer.add_closing(self.driver)
        with self._dispatcher.lock:
            assert self._face is not None
            for face in [*self._faces.values(), self._face]:
                self._groups.remove_face(face)
            self._faces.clear()
        if not self.has_left:
            group = self.endpoint.locator.text
            logger.warning("link to group %s closed: %s; rejoining in %g s", group, closed.text, REJOIN_DELAY_SECONDS)
            self._rejoin_later()

    def _rejoin_later(self) -> None:
        self._loop.call_at(self._loop.now() + REJOIN_DELAY_SECONDS, self._rejoin)

    def _rejoin(self) -> None:
        if self.has_left:
            return
        try:
            self.driver = self._make_driver(registry.join(self.endpoint))
        except LinkError as error:
            logger.debug("rejoining group %s failed: %s", self.endpoint.locator.text, error.problem)
            self._rejoin_later()
        else:
            self.start()


def _describe(member: Member) -> str:
    return describe_neighbour(member.identity.whatami, member.identity.zid, member.sender)
