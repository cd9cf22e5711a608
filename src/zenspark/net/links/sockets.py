"""IP sockets with the options of an endpoint, for TCP, TLS, WebSocket and UDP links.

Options: `so_sndbuf`, `so_rcvbuf`, `dscp`, `iface` (Linux: use this interface only) and, to connect, `bind` (the
local address). Without `so_sndbuf` and `so_rcvbuf` the kernel adapts the size of its buffers.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import time
from collections.abc import Iterator

from zenspark.errors import LinkError, ListenError
from zenspark.net.links.base import IpSocketAddress, error_reason, format_address
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import find_interface, reachable_addresses
from zenspark.wire.values import Locator

ResolvedAddress = tuple[socket.AddressFamily, IpSocketAddress]

STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
LINK_LISTEN_BACKLOG_CONNECTIONS = 1024
"""Connections that may wait to be accepted: the kernel drops further ones, and their peers retry after a second."""
MAX_DATAGRAM_BYTES = 1 << 16
"""Bytes of a buffer that holds any UDP datagram."""
MAX_DATAGRAMS_PER_READ = 64
"""Datagrams read from a socket per call: a busy one must not keep the loop from the others."""
WILDCARD_HOST = "::"


def connect_socket(
    endpoint: Endpoint, deadline: float, kind: socket.SocketKind = STREAM
) -> tuple[socket.socket, IpSocketAddress]:
    """Connect a socket to the first address of the host that can be reached; returns it with that address.

    The remaining time is shared evenly among the remaining addresses, so that one that does not respond leaves time for
    the others. The time of a name lookup is not limited.
    """
    resolved = list(resolve(endpoint, kind))
    last_error: OSError = TimeoutError(errno.ETIMEDOUT, "no time left")
    for number, (family, address) in enumerate(resolved):
        share = (deadline - time.monotonic()) / (len(resolved) - number)
        if share <= 0:
            break
        try:
            return _configure_and_connect(socket.socket(family, kind), address, endpoint, share), address
        except OSError as error:
            last_error = error
    raise LinkError(endpoint.locator.text, f"cannot connect: {error_reason(last_error)}") from last_error


def _configure_and_connect(
    connection: socket.socket, address: IpSocketAddress, endpoint: Endpoint, timeout: float
) -> socket.socket:
    try:
        set_socket_options(connection, endpoint)
        if endpoint.bind is not None:
            connection.bind(endpoint.bind)
        connection.settimeout(timeout)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def bind_socket(endpoint: Endpoint, kind: socket.SocketKind = STREAM) -> socket.socket:
    """Bind a socket to the first address of the host that is free; a stream socket listens."""
    first_error: OSError | None = None
    for family, address in _bind_candidates(endpoint, kind):
        try:
            return _configure_and_bind(socket.socket(family, kind), address, endpoint)
        except OSError as error:
            first_error = first_error or error
    raise ListenError(endpoint.locator.text, f"cannot listen: {error_reason(first_error)}") from first_error


def _bind_candidates(endpoint: Endpoint, kind: socket.SocketKind) -> Iterator[ResolvedAddress]:
    yield from resolve(endpoint, kind)
    host, port = endpoint.host_port
    if host == WILDCARD_HOST:  # for machines without IPv6
        yield socket.AF_INET, ("0.0.0.0", port)


def _configure_and_bind(unbound: socket.socket, address: IpSocketAddress, endpoint: Endpoint) -> socket.socket:
    try:
        if address[0] == WILDCARD_HOST:  # includes IPv4, whatever the default of the system is
            unbound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if unbound.type == STREAM and hasattr(socket, "SO_REUSEPORT"):
            # Connections of a former listener do not block the port. On Windows every process could take the port then.
            unbound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        set_socket_options(unbound, endpoint)
        unbound.bind(address)
        if unbound.type == STREAM:
            unbound.listen(LINK_LISTEN_BACKLOG_CONNECTIONS)
    except BaseException:
        unbound.close()
        raise
    return unbound


def resolve(endpoint: Endpoint, kind: socket.SocketKind) -> Iterator[ResolvedAddress]:
    """Yield every address of the endpoint's host, in the resolver's order."""
    host, port = endpoint.host_port
    try:
        results = socket.getaddrinfo(host, port, type=kind)
    except (OSError, UnicodeError) as error:
        raise LinkError(endpoint.locator.text, f"cannot find {host!r}: {error_reason(error)}") from error
    for family, _, _, _, address in results:
        if family in (socket.AF_INET, socket.AF_INET6):
            yield family, address  # type: ignore[misc]  # the other shape is of other families


def set_socket_options(unbound: socket.socket, endpoint: Endpoint) -> None:
    """Apply the options of an endpoint to a socket that is not yet bound or connected."""
    for name, option in (("so_sndbuf", socket.SO_SNDBUF), ("so_rcvbuf", socket.SO_RCVBUF)):
        size = endpoint.number(name)
        if size is not None:
            unbound.setsockopt(socket.SOL_SOCKET, option, size)
    dscp = endpoint.number("dscp")
    if dscp is not None:
        _set_dscp(unbound, dscp)
    iface = endpoint.option("iface")
    if iface is not None:
        _bind_to_device(unbound, endpoint, iface)


def _set_dscp(unbound: socket.socket, dscp: int) -> None:
    if unbound.family == socket.AF_INET6:
        unbound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
    else:
        unbound.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)


def _bind_to_device(unbound: socket.socket, endpoint: Endpoint, iface: str) -> None:
    if not hasattr(socket, "SO_BINDTODEVICE"):
        raise endpoint.error("has iface, which needs Linux")
    name = find_interface(iface).name
    unbound.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())


def advertised_locators(endpoint: Endpoint, locator: Locator, loopback: bool) -> tuple[Locator, ...]:
    """Return the locators of a listener to advertise: for a wildcard the addresses of the interfaces, else its own."""
    host, port = Endpoint.parse(locator.text).host_port
    wildcard = ipaddress.ip_address(host)
    if not wildcard.is_unspecified:
        return (locator,)
    iface = endpoint.option("iface")
    return tuple(
        endpoint.locator_at(format_address((str(address), port)))
        for address in reachable_addresses(wildcard, iface)
        if loopback or not address.is_loopback or iface is not None
    )
