"""Any bytes of a peer make a connection yield events and never raise, the same events however the stream is cut.

The first byte chooses the capabilities and the state of the handshake, the second where the stream is cut. How to run:
see harness.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fuzz.harness import run
from zenspark.transport.connection import Connection, ConnectionEvent, ConnectionState, Send, SessionRequested
from zenspark.transport.handshake import Acceptor, Capabilities, Identity, Initiator
from zenspark.transport.receiver import Closed
from zenspark.wire.columns import PushRun
from zenspark.wire.message_schema import Message
from zenspark.wire.values import WhatAmI, ZenohId

CAPABILITIES = [
    Capabilities(),
    Capabilities(qos=False),
    Capabilities(resolution=0),
    Capabilities(batch_size=256),
    Capabilities(compression=True),
    Capabilities(low_latency=True),
]


def make_connection(choice: int) -> Connection:
    """Make a new connection, of either side, or one with an open session."""
    capabilities = CAPABILITIES[choice % len(CAPABILITIES)]
    alice = Connection(Initiator(Identity(ZenohId(0xA1), WhatAmI.CLIENT), capabilities), 0.0)
    bob = Connection(Acceptor(Identity(ZenohId(0xB0B), WhatAmI.ROUTER), capabilities, b"key", 7), 0.0)
    progress = choice // len(CAPABILITIES) % 3
    if progress == 0:
        return bob
    events = alice.start()
    if progress == 1:
        return alice
    receiver, sender = bob, alice
    while receiver.state is not ConnectionState.OPEN or sender.state is not ConnectionState.OPEN:
        batch = b"".join(event.batch for event in events if isinstance(event, Send))
        events = [event for event in receive_stream(receiver, batch, len(batch)) if not isinstance(event, Message)]
        receiver, sender = sender, receiver
    return alice


def receive_stream(connection: Connection, data: bytes, cut: int) -> Iterator[ConnectionEvent | Message]:
    """Receive a stream in reads of `cut` bytes. Yields events, publications as messages; every session is accepted."""
    while data:
        buffer = connection.buffer()
        size = min(cut, len(buffer))
        read, data = data[:size], data[size:]
        buffer[: len(read)] = read
        for event in connection.receive(len(read), 0.0):
            match event:
                case PushRun(columns, first, stop):
                    yield from map(columns.push, range(first, stop))
                case Closed():  # its text may have a position in the buffer, which depends on the cut
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
    whole = list(receive_stream(make_connection(choice), stream, max(1, len(stream))))
    assert list(receive_stream(make_connection(choice), stream, cut)) == whole


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
