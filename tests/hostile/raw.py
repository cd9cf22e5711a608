"""A neighbour by hand: real handshakes and real messages over a plain socket, and nothing it does not want to do.

It reads only when `read` is called, sends whatever it is given, and announces a lease of an hour, so that it needs no
keep-alives.
"""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections.abc import Iterable
from typing import Self

from tests.wait import TIMEOUT_SECONDS
from zenspark.net.links.endpoint import Endpoint
from zenspark.transport.connection import Connection, ConnectionEvent, Send
from zenspark.transport.handshake import Capabilities, Identity, Initiator, Opened
from zenspark.transport.receiver import Closed, MessageReceived
from zenspark.wire.codec import encode
from zenspark.wire.columns import PushRun
from zenspark.wire.messages import Frame, NetworkMessage, TransportMessage
from zenspark.wire.values import WhatAmI, ZenohId

HOUR_MS = 3_600_000
FRAME_BYTES = 45_000
"""How much goes into one frame: a little less than the largest batch of a node of zenspark."""


class RawPeer:
    """A session with the node that listens at a locator such as `tcp/127.0.0.1:7447`."""

    def __init__(
        self,
        locator: str,
        *,
        zid: int | None = None,
        whatami: WhatAmI = WhatAmI.CLIENT,
        lease_ms: int = HOUR_MS,
        receive_buffer: int | None = None,
        relays: bool = False,
    ) -> None:
        self.zid = ZenohId(zid or secrets.randbits(127) | 1)
        self.received: list[NetworkMessage] = []
        """What was read so far."""
        self.closed: Closed | None = None
        """How the session ended, as far as that was read."""
        self._opening = Initiator(Identity(self.zid, whatami), Capabilities(lease_ms=lease_ms, relays=relays))
        self._connection = Connection(self._opening, time.monotonic())
        self._unsent = bytearray()
        self._sn = 0
        self.socket = _connect(locator, receive_buffer)
        try:
            self._shake()
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave without a word."""
        self.socket.close()

    def reset(self) -> None:
        """Leave with a reset of the connection, as a process does that is killed with bytes unread."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    # -- writing

    def send(self, *messages: NetworkMessage, timeout: float = TIMEOUT_SECONDS) -> bool:
        """Send network messages; False if the node does not take all of them in time: the rest goes first later."""
        return self.send_bytes(self.framed(messages), timeout)

    def send_transport(self, message: TransportMessage, timeout: float = TIMEOUT_SECONDS) -> bool:
        """Send a transport message as a batch of its own."""
        return self.send_bytes(_batch(encode(message)), timeout)

    def framed(self, messages: Iterable[NetworkMessage]) -> bytes:
        """Messages in reliable frames with the next sequence numbers, as batches of a stream."""
        out, waiting, size = bytearray(), list[NetworkMessage](), 0
        for message in messages:
            length = len(encode(message))
            if waiting and size + length > FRAME_BYTES:
                out += self._frame(waiting)
                waiting, size = [], 0
            waiting.append(message)
            size += length
        return bytes(out + self._frame(waiting)) if waiting else bytes(out)

    def _frame(self, messages: list[NetworkMessage]) -> bytes:
        terms = self._connection.parameters
        assert terms is not None
        frame = Frame(reliable=True, sn=self._sn, msgs=tuple(messages))
        self._sn = (self._sn + 1) & terms.sn_mask
        return _batch(encode(frame))

    def send_bytes(self, data: bytes, timeout: float = TIMEOUT_SECONDS) -> bool:
        """Send bytes as they are, behind what could not be sent before."""
        self._unsent += data
        deadline = time.monotonic() + timeout
        while self._unsent:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [self.socket], [], left)[1]:
                return False
            try:
                del self._unsent[: self.socket.send(self._unsent)]
            except ConnectionError:  # what was read before may have the reason
                return False
        return True

    # -- reading

    def read(self, timeout: float = 0.0) -> bool:
        """Read once; False if nothing came in time, or nothing will come any more."""
        if self.closed is not None or not select.select([self.socket], [], [], timeout)[0]:
            return False
        try:
            count = self.socket.recv_into(self._connection.buffer())
        except ConnectionError:
            count = 0
        if not count:
            self.closed = self._connection.receive_eof()
            return False
        for event in self._connection.receive(count, time.monotonic()):
            self._handle(event)
        return True

    def read_until_closed(self, timeout: float = TIMEOUT_SECONDS) -> Closed:
        """Read all there is until the node ends the session."""
        deadline = time.monotonic() + timeout
        while self.closed is None:
            assert time.monotonic() < deadline, "the session was not closed"
            self.read(0.05)
        return self.closed

    def _handle(self, event: ConnectionEvent) -> None:
        match event:
            case Send(batch):
                assert self.send_bytes(batch)
            case MessageReceived(message):
                self.received.append(message)
            case PushRun(columns, start, stop):
                self.received += [columns.push(row) for row in range(start, stop)]
            case Opened(terms):
                self._sn = terms.initial_sn
            case Closed():
                self.closed = event

    def _shake(self) -> None:
        for event in self._connection.start():
            self._handle(event)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self._connection.outbox is None:
            assert self.closed is None, f"no session: {self.closed}"
            assert time.monotonic() < deadline, "no session in time"
            self.read(0.05)


def _connect(locator: str, receive_buffer: int | None) -> socket.socket:
    link = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer is not None:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    link.settimeout(TIMEOUT_SECONDS)
    link.connect(Endpoint.parse(locator).host_port)
    link.setblocking(False)
    return link


def _batch(data: bytes) -> bytes:
    return len(data).to_bytes(2, "little") + data
