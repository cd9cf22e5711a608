"""HTTP connections with limits: number, header size, time for headers, and clients that do not read.

uvicorn parses requests with h11 and WebSocket messages with websockets; these classes add the limits that it lacks.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any, Protocol

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from zenspark.web import limits
from zenspark.web.client_log import ClientLog, format_address
from zenspark.web.counts import HttpCounts

logger = logging.getLogger("zenspark.web.uvicorn")
logger.setLevel(logging.ERROR)  # malformed requests are counted, not logged

COUNTS, CLIENT_LOG, TRANSPORT = "counts", "client_log", "transport"
"""Keys of `scope["state"]`."""

PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class _WriteTransport(Protocol):
    """A transport, as far as the stall timer needs it."""

    def get_write_buffer_size(self) -> int: ...
    def abort(self) -> None: ...


class StallTimer:
    """Aborts a connection whose client reads nothing for `CLIENT_STALL_TIMEOUT_SECONDS` although bytes wait for it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: _WriteTransport,
        counts: HttpCounts,
        client_log: ClientLog,
        address: str,
    ) -> None:
        """`address` is that of the client, for the log."""
        self._loop = loop
        self._transport = transport
        self._counts = counts
        self._client_log = client_log
        self._address = address
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer: the transport has more unsent bytes than its high-water mark."""
        if self._timer is None:
            self._arm(self._transport.get_write_buffer_size())

    def stop(self) -> None:
        """Stop the timer: the client has read, or the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, unsent: int) -> None:
        self._timer = self._loop.call_later(limits.CLIENT_STALL_TIMEOUT_SECONDS, self._check, unsent)

    def _check(self, unsent: int) -> None:
        now_unsent = self._transport.get_write_buffer_size()
        if now_unsent < unsent:
            self._arm(now_unsent)
            return
        self._timer = None
        self._counts.disconnect("stalled")
        self._client_log.disconnect(self._address, f"it read nothing for {limits.CLIENT_STALL_TIMEOUT_SECONDS:g} s")
        self._transport.abort()


class HttpConnection(H11Protocol):
    """One HTTP connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = logger
        self.access_log = False
        self._counts: HttpCounts = app_state[COUNTS]
        self._header_timer: asyncio.TimerHandle | None = None
        self._stall: StallTimer | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._counts.connections = len(self.connections)
        self.app_state = {**self.app_state, TRANSPORT: transport}
        self._stall = StallTimer(
            self.loop, transport, self._counts, self.app_state[CLIENT_LOG], format_address(self.client)
        )
        if len(self.connections) > limits.MAX_CONNECTIONS:
            self._reject(503, f"there are {limits.MAX_CONNECTIONS} connections already", "connections")
        else:
            self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        if self._stall is not None:
            self._stall.stop()
        super().connection_lost(exc)
        self._counts.connections = len(self.connections)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._header_timer is None and self.conn.their_state is h11.IDLE:
            self._start_header_timer()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_header_timer()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_header_timer()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        self._stop_header_timer()  # the next request has all its time
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall is not None:
            self._stall.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall is not None:
            self._stall.stop()

    def send_400_response(self, msg: str) -> None:
        """Reject a request that h11 could not parse, with the reason; called while its error is handled."""
        error = sys.exception()
        too_large = isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431
        if too_large:
            self._reject(431, f"expected at most {limits.MAX_HEADER_BYTES} bytes of headers", "header_bytes")
        elif getattr(self.cycle, "response_started", False):
            self.transport.abort()
        else:
            self._reject(400, f"expected an HTTP request: {error or msg}", "malformed")

    # -- refusals before a request is complete

    def _start_header_timer(self) -> None:
        self._header_timer = self.loop.call_later(limits.HEADER_TIMEOUT_SECONDS, self._on_header_timeout)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _on_header_timeout(self) -> None:
        self._header_timer = None
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self._reject(408, f"expected all headers within {limits.HEADER_TIMEOUT_SECONDS:g} s", "slow_headers")

    def _reject(self, status: int, message: str, reason: str) -> None:
        self._counts.refuse(reason)
        self._stop_header_timer()
        body = f"{message}\n".encode("ascii", "replace")
        head = (
            f"HTTP/1.1 {status} {PHRASES[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


class SocketConnection(WebSocketsSansIOProtocol):
    """One WebSocket connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = logger
        self.conn.logger = logger
        self._stall: StallTimer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._stall = StallTimer(
            self.loop,
            self.transport,
            self.app_state[COUNTS],
            self.app_state[CLIENT_LOG],
            format_address(self.client),
        )

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stall is not None:
            self._stall.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall is not None:
            self._stall.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall is not None:
            self._stall.stop()
