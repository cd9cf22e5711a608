"""Gathering: a node's place in one multicast group, its driver and the faces of those who are heard there.

To the router a group is one face to speak to and one face for each member to hear. Both live here; the node is told who
comes and goes. If the network takes the group away, it is joined again when that is possible.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from zenspark.errors import LinkError
from zenspark.net.io.driver import LinkDriver
from zenspark.net.io.writer import WriterSettings
from zenspark.net.links import registry
from zenspark.net.links.base import WOULD_BLOCK
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.multicast import MulticastLink as GroupLink
from zenspark.net.loop.event_loop import EventLoop
from zenspark.router.face import Face
from zenspark.router.router import Router
from zenspark.transport.connection import Send
from zenspark.transport.counters import ReceiveCounters
from zenspark.transport.handshake import PATCH
from zenspark.transport.multicast import (
    GroupEvent,
    GroupSession,
    JoinDue,
    Member,
    MemberEvent,
    MemberJoined,
    MemberLeft,
    MemberRefused,
)
from zenspark.transport.receiver import Closed, MessageReceived, MessageRejected, PushRun
from zenspark.wire.messages import NetworkMessage

logger = logging.getLogger("zenspark.net")

WRITE_RETRY_SECONDS = 0.001
"""Seconds until a network that took nothing is offered it again: a group's descriptor does not tell when it would."""
REJOIN_SECONDS = 1.0
"""Seconds until a group that was lost is joined again."""


class GroupDriver(LinkDriver):
    """Pumps a group machine over the link of a group. `owner` handles its events, in the loop."""

    connection: GroupSession
    link: GroupLink

    def __init__(
        self,
        loop: EventLoop,
        link: GroupLink,
        group: GroupSession,
        owner: Callable[[GroupEvent | Closed], None],
        patience: WriterSettings,
    ) -> None:
        super().__init__(loop, link, group, patience)
        self._owner = owner
        self._due = float("inf")

    def start(self) -> None:
        """Begin; in the loop."""
        self._watch()
        self._on_timer(self.loop.now())
        self._arm()

    def _read(self) -> bool:
        size, sender = self.link.recv_from(self.connection.buffer())
        if size == WOULD_BLOCK:
            return False
        self.received += size
        for event in self.connection.receive(sender, size, self.loop.now()):
            self._handle(event)
        if self.connection.next_timeout() < self._due:  # a newcomer waits for our JOIN
            self._arm()
        return True

    def _arm(self) -> None:
        self._due = self.connection.next_timeout()
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
                    self._disable_lockfree_append()  # or publishers would go on between the two
                    self._write([*self.connection.outbox.pop_all(), self.connection.make_join(self.loop.now())])
            case _:
                self._owner(event)

    def _watch(self) -> None:
        if not self._closed:
            self.loop.watch(self.link, None if self._paused else self._on_readable)
            if self._unsent:
                self.loop.call_at(self.loop.now() + WRITE_RETRY_SECONDS, self._on_writable)

    def _on_writable(self) -> None:
        super()._on_writable()
        if self._unsent:
            self._watch()


class GroupMemberInfo(msgspec.Struct, frozen=True):
    """How one member of a group is heard: what a link would tell of a neighbour with a session of its own."""

    src: str
    dst: str
    group: str
    mtu: int
    is_qos: bool
    receive_counters: ReceiveCounters


class GroupHost(Protocol):
    """The node a gathering belongs to. Everything but `on_group_closed` is called with its lock, all of it in the loop."""

    loop: EventLoop
    router: Router

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Guards the router."""

    def add_group_face(self, face: Face, driver: LinkDriver, seat: GroupMemberInfo | None = None) -> None:
        """A group can be spoken to, or a member heard, who has a seat."""

    def remove_group_face(self, face: Face) -> None:
        """It no longer can."""

    def receive(self, face: Face, message: NetworkMessage, reliable: bool) -> object:
        """A member said something."""

    def receive_push_run(self, face: Face, pushes: PushRun) -> None:
        """A member published something."""

    def reject(self, face: Face, rejected: MessageRejected) -> None:
        """A member sent what must not be processed."""

    def on_group_closed(self, gathering: MulticastSession) -> None:
        """The group is left, except for what is still to be written."""


class MulticastSession:
    """One group that a node has joined. `begin` makes the machine each time the group is joined."""

    def __init__(
        self, host: GroupHost, endpoint: Endpoint, begin: Callable[[], GroupSession], patience: WriterSettings
    ) -> None:
        self.endpoint = endpoint
        self.is_left = False
        """Whether it was left on purpose."""
        self._host = host
        self._begin = begin
        self._patience = patience
        self._link = registry.join(endpoint)
        self._face: Face | None = None
        self._faces: dict[Member, Face] = {}
        self.driver = self._drive(self._link)

    def _drive(self, link: GroupLink) -> GroupDriver:
        return GroupDriver(self._host.loop, link, self._begin(), self._on_event, self._patience)

    def start(self) -> None:
        """Begin to speak and to listen."""
        with self._host.lock:
            self._face = self._host.router.add_group()
            self._host.add_group_face(self._face, self.driver)
        logger.info("joined %s", self.endpoint.locator.text)
        self.driver.start()

    def leave(self) -> None:
        """Say goodbye, and join no more."""
        self.is_left = True
        self.driver.close()

    # -- what is heard

    def _on_event(self, event: GroupEvent | Closed) -> None:
        match event:
            case MemberEvent(member, heard):
                with self._host.lock:
                    self._on_heard(self._faces[member], heard)
            case MemberJoined(member):
                self._on_arrived(member)
            case MemberLeft(member, closed):
                logger.info("%s left %s: %s", member.identity.zid, self.endpoint.locator.text, closed.text)
                with self._host.lock:
                    face = self._faces.pop(member)
                    self._set_patch()
                    self._host.remove_group_face(face)
            case MemberRefused(sender, why):
                logger.warning("%s is not heard in %s: %s", sender, self.endpoint.locator.text, why)
            case Closed():
                self._on_closed(event)

    def _on_heard(self, face: Face, heard: MessageReceived | MessageRejected | PushRun) -> None:
        match heard:
            case MessageReceived(message, reliable):
                self._host.receive(face, message, reliable)
            case MessageRejected():
                self._host.reject(face, heard)
            case PushRun():
                if not face.is_duplicate_member:
                    self._host.receive_push_run(face, heard)

    def _on_arrived(self, member: Member) -> None:
        link, identity = self.driver.link, member.identity
        logger.info("%s %s joined %s", identity.whatami.text, identity.zid, link.dst)
        qos, arrivals = self.driver.connection.qos, member.receiver.receive_counters
        seat = GroupMemberInfo(link.src, member.sender, link.dst, link.mtu, qos, arrivals)
        with self._host.lock:
            assert self._face is not None
            face = self._faces[member] = self._host.router.add_member(self._face, identity.zid, identity.whatami)
            self._set_patch()
            self._host.add_group_face(face, self.driver, seat)

    def _set_patch(self) -> None:
        """Say only what every member understands: BlockFirst needs patch 1. With the lock."""
        assert self._face is not None
        self._face.patch = self.driver.patch = min((member.patch for member in self._faces), default=PATCH)

    # -- the end

    def _on_closed(self, closed: Closed) -> None:
        with self._host.lock:
            assert self._face is not None
            for face in [*self._faces.values(), self._face]:
                self._host.remove_group_face(face)
            self._faces.clear()
        self._host.on_group_closed(self)
        if not self.is_left:
            logger.warning("%s was lost: %s", self.endpoint.locator.text, closed.text)
            self._try_again()

    def _try_again(self) -> None:
        self._host.loop.call_at(self._host.loop.now() + REJOIN_SECONDS, self._join_again)

    def _join_again(self) -> None:
        if self.is_left:
            return
        try:
            self.driver = self._drive(registry.join(self.endpoint))
        except LinkError as error:
            logger.debug("%s cannot be joined: %s", self.endpoint.locator.text, error)
            self._try_again()
        else:
            self.start()
