"""Group machines in memory: datagrams carried between them, whole, late, twice or never."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenspark.transport.connection import Send
from zenspark.transport.handshake import Identity
from zenspark.transport.multicast import GroupEvent, GroupSession, GroupSettings, JoinDue, MemberEvent
from zenspark.transport.receiver import Closed, MessageReceived
from zenspark.wire.codec import encode
from zenspark.wire.columns import PushRun
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import Priority, WhatAmI, ZenohId

Datagram = tuple[str, bytes]


class Node:
    """A node of a multicast group: the datagrams it has sent, and the messages it has received, with their senders."""

    def __init__(self, number: int, rules: GroupSettings | None = None, now: float = 0.0, first_sn: int = 100) -> None:
        self.number = number
        self.address = f"udp/10.0.0.{number}:1"
        self.group = GroupSession(Identity(ZenohId(number), WhatAmI.PEER), rules or GroupSettings(), now, first_sn)
        self.sent: list[Datagram] = []
        self.events: list[GroupEvent] = []
        self.messages: list[tuple[int, NetworkMessage]] = []

    def handle(self, events: list[GroupEvent] | None, now: float) -> None:
        for event in events or []:
            self._handle(event, now)

    def _handle(self, event: GroupEvent, now: float) -> None:
        match event:
            case Send(batch):
                self._write([batch], now)
            case JoinDue():
                self._write([*self.group.outbox.pop_all(), self.group.make_join(now)], now)
            case MemberEvent(member, PushRun(columns, start, stop)):
                for row in range(start, stop):
                    self.messages.append((member.identity.zid.value, columns.push(row)))
            case MemberEvent(member, MessageReceived(message)):
                self.messages.append((member.identity.zid.value, message))
            case _:
                self.events.append(event)

    def _write(self, batches: Sequence[bytes | bytearray | memoryview], now: float) -> None:
        for batch in batches:
            self.sent.append((self.address, bytes(batch[2:])))
        self.group.restart_keep_alive(now)

    def tick(self, now: float) -> None:
        self.handle(self.group.handle_timeout(now), now)

    def send_message(
        self, message: NetworkMessage, now: float, reliable: bool = True, priority: Priority = Priority.DATA
    ) -> None:
        self.group.outbox.append(priority, reliable, encode(message))
        self._write([*self.group.outbox.pop_all()], now)

    def leave(self, now: float) -> Closed:
        closed = self.group.close()
        self._write([closed.close_batch], now)
        return closed

    def receive(self, sender: str, datagram: bytes, now: float) -> None:
        self.group.buffer()[: len(datagram)] = datagram
        for event in self.group.receive(sender, len(datagram), now):
            self._handle(event, now)

    @property
    def others(self) -> list[int]:
        return sorted(member.identity.zid.value for member in self.group.members)


DatagramFilter = Callable[[list[Datagram]], list[Datagram]]


def deliver_datagrams(nodes: list[Node], now: float, fate: DatagramFilter = lambda sent: sent) -> None:
    """Carry the datagrams of all nodes to all others, until none is sent; `fate` may change what a node receives."""
    while moving := [datagram for node in nodes for datagram in node.sent]:
        for node in nodes:
            node.sent = []
        for node in nodes:
            for sender, datagram in fate([each for each in moving if each[0] != node.address]):
                node.receive(sender, datagram, now)


def joined_group_nodes(count: int, rules: GroupSettings | None = None) -> list[Node]:
    """Nodes that understand each other."""
    nodes = [Node(number, rules) for number in range(1, count + 1)]
    for node in nodes:
        node.tick(0.0)
    deliver_datagrams(nodes, 0.0)
    for node in nodes:
        node.tick(0.5)
    deliver_datagrams(nodes, 0.5)
    return nodes
