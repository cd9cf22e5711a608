"""Carries bytes between two connections: whole, byte by byte, or cut anywhere."""

from __future__ import annotations

from zenspark.transport.connection import Asked, Connection, Event, Pushes, Received
from zenspark.transport.handshake import Accepting, Identity, Offer, Opened, Opening
from zenspark.wire.codec import encode
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import WhatAmI, ZenohId

ALICE = Identity(ZenohId(0xA1), WhatAmI.PEER)
BOB = Identity(ZenohId(0xB0B), WhatAmI.PEER)
MAX_ROUNDS = 20


def feed(connection: Connection, data: bytes, cut: int = 0, now: float = 0.0) -> list[Event]:
    """Give a connection bytes, in pieces of `cut` (0: as they are); publications come out as messages."""
    events: list[Event] = []
    while data:
        room = connection.buffer()
        piece = data[: min(cut or len(data), len(room))]
        data = data[len(piece) :]
        room[: len(piece)] = piece
        for event in connection.receive(len(piece), now):
            if isinstance(event, Pushes):
                for row in range(event.start, event.stop):
                    push = event.columns.push(row)
                    events.append(Received(push, event.columns.shape_at(event.columns.shape[row]).reliable))
            else:
                events.append(event)
    return events


def written(connection: Connection) -> bytes:
    """What a connection wants to write."""
    return b"".join(connection.take())


def shuttle(source: Connection, target: Connection, cut: int = 0, now: float = 0.0) -> list[Event]:
    """Carry what one side has to say to the other; what that means there."""
    return feed(target, written(source), cut, now)


def opened_pair(
    ours: Offer | None = None, theirs: Offer | None = None, cut: int = 0, now: float = 0.0
) -> tuple[Connection, Connection]:
    """Two connections with an open session between them."""
    alice = Connection(Opening(ALICE, ours or Offer()), now)
    bob = Connection(Accepting(BOB, theirs or Offer(), b"key", 7), now)
    for _ in range(MAX_ROUNDS):
        for event in shuttle(alice, bob, cut, now):
            assert isinstance(event, Asked)
            bob.admit()
        events = shuttle(bob, alice, cut, now)
        if events:
            assert isinstance(events[0], Opened), events
            return alice, bob
    raise AssertionError("the handshake does not end")


def send(connection: Connection, message: NetworkMessage, reliable: bool = True, priority: int = 5) -> None:
    """Say a network message."""
    assert connection.outbox is not None
    connection.outbox.append(priority, reliable, encode(message))
