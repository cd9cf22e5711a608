"""Whatever a peer sends, a connection answers with events and never with an exception, the same however it is cut.

The first byte chooses what was agreed and how far the handshake has come, the second where the stream is cut. How to
run: see harness.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fuzz.harness import run
from zenspark.transport.connection import Connection, ConnectionState, Event, Send, SessionRequested
from zenspark.transport.handshake import Acceptor, Capabilities, Identity, Initiator
from zenspark.transport.receiver import Closed
from zenspark.wire.columns import PushRun
from zenspark.wire.declare import Message
from zenspark.wire.values import WhatAmI, ZenohId

OFFERS = [
    Capabilities(),
    Capabilities(qos=False),
    Capabilities(resolution=0),
    Capabilities(batch_size=256),
    Capabilities(compression=True),
    Capabilities(low_latency=True),
]


def prepared(choice: int) -> Connection:
    """A connection that has just been made, on either side, or one with an open session."""
    offer = OFFERS[choice % len(OFFERS)]
    alice = Connection(Initiator(Identity(ZenohId(0xA1), WhatAmI.CLIENT), offer), 0.0)
    bob = Connection(Acceptor(Identity(ZenohId(0xB0B), WhatAmI.ROUTER), offer, b"key", 7), 0.0)
    progress = choice // len(OFFERS) % 3
    if progress == 0:
        return bob
    said = alice.start()
    if progress == 1:
        return alice
    listener, speaker = bob, alice
    while listener.state is not ConnectionState.OPEN or speaker.state is not ConnectionState.OPEN:
        batch = b"".join(event.batch for event in said if isinstance(event, Send))
        said = [event for event in fed(listener, batch, len(batch)) if not isinstance(event, Message)]
        listener, speaker = speaker, listener
    return alice


def fed(connection: Connection, data: bytes, cut: int) -> Iterator[Event | Message]:
    """What a stream that arrives in pieces of this size means, publications as messages; whoever asks is let in."""
    while data:
        room = connection.buffer()
        piece, data = data[: min(cut, len(room))], data[min(cut, len(room)) :]
        room[: len(piece)] = piece
        for event in connection.receive(len(piece), 0.0):
            match event:
                case PushRun(columns, first, stop):
                    yield from map(columns.push, range(first, stop))
                case Closed():  # its text may tell a position in the buffer, which depends on the cut
                    yield msgspec.structs.replace(event, text="")
                    return
                case SessionRequested():
                    yield event
                    yield from connection.accept()
                case _:
                    yield event


def check(data: bytes) -> None:
    choice, cut = (data[0], data[1] + 1) if len(data) > 1 else (0, 1)
    stream = data[2:]
    whole = list(fed(prepared(choice), stream, max(1, len(stream))))
    assert list(fed(prepared(choice), stream, cut)) == whole


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
