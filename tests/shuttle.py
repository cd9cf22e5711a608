"""Carries bytes between two connections: whole, byte by byte, or cut anywhere."""

from __future__ import annotations

from zenspark.transport.connection import (
    Connection,
    ConnectionEvent,
    ConnectionState,
    PeerIdentified,
    Send,
    SessionRequested,
)
from zenspark.transport.handshake import Acceptor, Capabilities, Identity, Initiator, Opened
from zenspark.transport.receiver import Closed, MessageReceived
from zenspark.wire.codec import encode
from zenspark.wire.columns import PushRun
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import WhatAmI, ZenohId

ALICE = Identity(ZenohId(0xA1), WhatAmI.PEER)
BOB = Identity(ZenohId(0xB0B), WhatAmI.PEER)
MAX_STEPS = 20


def feed(connection: Connection, data: bytes, cut: int = 0, now: float = 0.0) -> list[ConnectionEvent]:
    """Give a connection bytes, in chunks of `cut` bytes (0: as they are); publications come out as messages."""
    events: list[ConnectionEvent] = []
    while data:
        room = connection.buffer()
        piece = data[: min(cut or len(data), len(room))]
        data = data[len(piece) :]
        room[: len(piece)] = piece
        for event in connection.receive(len(piece), now):
            events += rows(event) if isinstance(event, PushRun) else [event]
    return events


def rows(pushes: PushRun) -> list[ConnectionEvent]:
    """Publications as messages."""
    columns = pushes.columns
    numbers = range(pushes.start, pushes.stop)
    return [
        MessageReceived(columns.push(row), columns.template_at(columns.template_index[row]).reliable) for row in numbers
    ]


def written(connection: Connection) -> bytes:
    """What an open connection has to write."""
    assert connection.outbox is not None
    return b"".join(connection.outbox.pop_all())


def shuttle(source: Connection, target: Connection, cut: int = 0, now: float = 0.0) -> list[ConnectionEvent]:
    """Carry the batches of one side to the other. Returns the events there."""
    return feed(target, written(source), cut, now)


def shake_hands(alice: Connection, bob: Connection, cut: int = 0) -> list[ConnectionEvent]:
    """Carry the batches of both sides until none is left. Returns the other events of either side."""
    found: list[ConnectionEvent] = []
    moving = [(bob, event) for event in alice.start()]
    for _ in range(MAX_STEPS):
        if not moving:
            return found
        target, event = moving.pop(0)
        other = alice if target is bob else bob
        match event:
            case Send(batch):
                moving += [(other, response) for response in feed(target, batch, cut)]
            case SessionRequested():
                moving += [(target, response) for response in other.accept()]
            case PeerIdentified():
                pass
            case Closed(close_batch=farewell) if farewell:
                found.append(event)
                moving += [(other, response) for response in feed(target, farewell, cut)]
            case _:
                found.append(event)
    raise AssertionError("the handshake does not end")


def opened_pair(
    ours: Capabilities | None = None, theirs: Capabilities | None = None, cut: int = 0
) -> tuple[Connection, Connection]:
    """Two connections with an open session between them."""
    alice = Connection(Initiator(ALICE, ours or Capabilities()), 0.0)
    bob = Connection(Acceptor(BOB, theirs or Capabilities(), b"key", 7), 0.0)
    events = shake_hands(alice, bob, cut)
    assert all(isinstance(event, Opened) for event in events), events
    assert alice.state is bob.state is ConnectionState.OPEN
    return alice, bob


def send(connection: Connection, message: NetworkMessage, reliable: bool = True, priority: int = 5) -> None:
    """Send a network message."""
    assert connection.outbox is not None
    connection.outbox.append(priority, reliable, encode(message))
