"""TCP links."""

from __future__ import annotations

import socket
import time

from zenspark.net.links.base import (
    MAX_MTU,
    IpSocketAddress,
    Link,
    SocketLink,
    SocketListener,
    close_on_error,
    format_address,
)
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.sockets import advertised_locators, bind_socket, connect_socket
from zenspark.wire.values import Locator


class TcpLink(SocketLink):
    """A TCP connection; also the lower half of TLS and WebSocket links."""

    def __init__(self, connection: socket.socket, endpoint: Endpoint, remote: IpSocketAddress) -> None:
        local = connection.getsockname()
        super().__init__(
            connection,
            endpoint,
            endpoint.locator_at(format_address(local)).text,
            endpoint.locator_at(format_address(remote)).text,
        )
        self.local_host, self.remote_host = local[0], remote[0]
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.mtu = mtu_of(connection)


class TcpListener(SocketListener):
    """Accepts TCP connections; also the lower half of TLS and WebSocket listeners."""

    def __init__(self, endpoint: Endpoint) -> None:
        listening = bind_socket(endpoint)
        super().__init__(listening, endpoint, endpoint.locator_at(format_address(listening.getsockname())))

    def link(self, connection: socket.socket, address: IpSocketAddress) -> Link:
        return TcpLink(connection, self.endpoint, address)

    def locators(self, loopback: bool) -> tuple[Locator, ...]:
        return advertised_locators(self.endpoint, self.locator, loopback)


def connect(endpoint: Endpoint, timeout: float) -> Link:
    """Open a TCP link."""
    connection, address = connect_socket(endpoint, time.monotonic() + timeout)
    with close_on_error(connection, endpoint):
        return TcpLink(connection, endpoint, address)


def listen(endpoint: Endpoint) -> TcpListener:
    """Listen for TCP links."""
    return TcpListener(endpoint)


def mtu_of(connection: socket.socket) -> int:
    """Return the largest batch size that is a multiple of half a TCP segment, as eclipse-zenoh computes it.

    On loopback 65480 bytes on the connecting side and 49152 on the accepting side; see protocol section 3.3.
    """
    half = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) // 2
    return MAX_MTU - MAX_MTU % half if 0 < half <= MAX_MTU else MAX_MTU
