"""WebSocket links (`ws`): a batch is one binary message, without a length in front, as in eclipse-zenoh 1.10.2.

The protocol itself (RFC 6455) is implemented by the sans-I/O part of `websockets`; here are its socket and the rules of
a link. It is used by one thread at a time. A frame that could not be written completely is finished by the next calls
of `send` with the same batch, which counts as taken only then; pongs wait behind it.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import deque

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN, Event
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from zenspark.errors import LinkError
from zenspark.net.links.base import (
    MAX_MTU,
    READ,
    WOULD_BLOCK,
    Buffer,
    IpSocketAddress,
    Link,
    close_on_error,
    format_address,
)
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.sockets import connect_socket
from zenspark.net.links.tcp import TcpLink, TcpListener

logger = logging.getLogger("zenspark.net")

READ_CHUNK_BYTES = 1 << 16
"""Bytes per read."""
MAX_HANDSHAKE_BYTES = 1 << 14
"""Bytes of an opening handshake: a peer must not make this node collect headers without end."""
MAX_UNSENT_BYTES = 4 * MAX_MTU
"""Bytes that may wait to be written: a peer that sends pings and does not read the pongs is disconnected."""


class WebSocketLink(TcpLink):
    """A WebSocket connection; before `establish` only its TCP connection is open."""

    is_streamed = False
    can_half_close = False

    def __init__(
        self,
        connection: socket.socket,
        endpoint: Endpoint,
        remote: IpSocketAddress,
        protocol: ClientProtocol | ServerProtocol,
    ) -> None:
        super().__init__(connection, endpoint, remote)
        self.mtu = MAX_MTU
        self.is_established = False
        self._protocol = protocol
        self._protocol_lock = threading.RLock()
        self._messages: deque[bytes] = deque()
        self._fragments: list[bytes] = []
        self._unsent = memoryview(b"")
        self._is_framed = False
        """Whether the batch that is being sent is already a frame in `_unsent`."""
        self._error: LinkError | None = None
        self._ended = False

    # -- the opening handshake -------------------------------------------------------------------------------

    def establish(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        if isinstance(self._protocol, ClientProtocol):
            self._protocol.send_request(self._protocol.connect())
        received = self._handshake_step()
        while self._protocol.state is not OPEN:
            left = deadline - time.monotonic()
            if received > MAX_HANDSHAKE_BYTES:
                raise self.make_error(None, f"WebSocket handshake of more than {MAX_HANDSHAKE_BYTES} bytes")
            if left <= 0 or not self._wait(READ, left):
                raise self.make_error(None, f"no WebSocket handshake within {timeout:g} s")
            received += self._handshake_step()
        self.is_established = True

    def _handshake_step(self) -> int:
        """Write and read what is possible; returns the number of bytes read."""
        with self._recv_lock, self._send_lock, self._protocol_lock:
            self._flush()
            count = self._fill(MAX_HANDSHAKE_BYTES)
            self._flush()
            handshake_error = self._protocol.handshake_exc
            if handshake_error is not None:
                raise self.make_error(handshake_error, f"WebSocket handshake: {_error_text(handshake_error)}")
            return count

    # -- batches ---------------------------------------------------------------------------------------------

    @property
    def has_buffered(self) -> bool:
        return bool(self._messages) or self._error is not None or self._ended

    def recv_into(self, buffer: memoryview) -> int:
        with self._recv_lock, self._protocol_lock:
            if not self._messages and self._error is None and not self._ended:
                self._fill(READ_CHUNK_BYTES)
            if self._messages:
                message = self._messages.popleft()
                buffer[: len(message)] = message
                return len(message)
            if self._error is not None:
                raise self._error
            return 0 if self._ended else WOULD_BLOCK

    def send(self, data: Buffer) -> int:
        with self._send_lock, self._protocol_lock:
            if not self._is_framed:
                try:
                    self._protocol.send_binary(data)
                except WebSocketException as error:
                    raise self.make_error(error, f"WebSocket: {_error_text(error)}") from error
                self._collect()
                self._is_framed = True
            self._flush()
            if self._unsent:
                return 0
            self._is_framed = False
            return len(data)

    # -- between the socket and the protocol ------------------------------------------------------------------

    def _fill(self, limit: int) -> int:
        """Read once, and pass the bytes to the protocol; returns their number."""
        try:
            data = self._socket.recv(limit)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self.make_error(error) from error
        if data:
            self._protocol.receive_data(data)
        else:
            self._ended = True
            self._protocol.receive_eof()
        for event in self._protocol.events_received():
            self._on_event(event)
        parser_error = self._protocol.parser_exc
        if parser_error is not None and not isinstance(parser_error, EOFError):
            self._error = self.make_error(parser_error, f"WebSocket: {_error_text(parser_error)}")
        elif self._protocol.close_rcvd is not None:
            self._ended = True
        if self._collect():
            self._flush()
        return len(data)

    def _on_event(self, event: Event) -> None:
        match event:
            case Request() if isinstance(self._protocol, ServerProtocol):
                self._protocol.send_response(self._protocol.accept(event))
            case Frame(opcode=Opcode.BINARY | Opcode.CONT):
                if event.data:  # empty fragments would not count towards the limit
                    self._fragments.append(bytes(event.data))
                if event.fin:
                    message = b"".join(self._fragments)
                    self._fragments.clear()
                    if message:  # an empty message has no batch
                        self._messages.append(message)
            case Frame(opcode=Opcode.TEXT):
                self._error = self.make_error(None, "WebSocket: received a text message, expected binary ones")
            case _:
                pass  # pings, pongs and closes are handled by the protocol

    def _collect(self) -> bool:
        """Append the bytes that the protocol has to send; returns whether there were any."""
        data = b"".join(self._protocol.data_to_send())
        if len(self._unsent) + len(data) > MAX_UNSENT_BYTES:
            raise self.make_error(None, "WebSocket: the peer sends pings and does not read the pongs")
        if data:
            self._unsent = memoryview(bytes(self._unsent) + data if self._unsent else data)
        return bool(data)

    def _flush(self) -> None:
        self._collect()
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            raise self.make_error(error) from error

    def _end(self) -> None:
        with self._protocol_lock, contextlib.suppress(WebSocketException, LinkError):
            if self._protocol.state is OPEN:
                self._protocol.send_close()
                self._flush()
        super()._end()


class WebSocketListener(TcpListener):
    """Accepts WebSocket connections; its links have to `establish`."""

    def link(self, connection: socket.socket, address: IpSocketAddress) -> Link:
        return WebSocketLink(connection, self.endpoint, address, ServerProtocol(max_size=MAX_MTU, logger=logger))


def connect(endpoint: Endpoint, timeout: float) -> Link:
    """Open a WebSocket link and finish its handshake."""
    deadline = time.monotonic() + timeout
    host, port = endpoint.host_port
    uri = parse_uri(f"ws://{format_address((host.partition('%')[0], port))}/")
    connection, address = connect_socket(endpoint, deadline)
    with close_on_error(connection, endpoint):
        protocol = ClientProtocol(uri, max_size=MAX_MTU, logger=logger)
        link = WebSocketLink(connection, endpoint, address, protocol)
        link.establish(max(0.0, deadline - time.monotonic()))
        return link


def listen(endpoint: Endpoint) -> WebSocketListener:
    """Listen for WebSocket links."""
    return WebSocketListener(endpoint)


def _error_text(error: BaseException) -> str:
    cause = error.__cause__
    return f"{error}: {cause}" if cause and str(cause) else str(error)
