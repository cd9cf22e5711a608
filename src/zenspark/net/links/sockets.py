"""IP sockets with the options of an endpoint: what TCP, TLS, WebSocket and UDP links are built on.

Options: `so_sndbuf`, `so_rcvbuf`, `dscp`, `iface` (Linux: use this interface only) and, to connect, `bind` (the
local address). Without them the kernel sizes its buffers itself, which it does better than a fixed number would.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import time
from collections.abc import Iterator

from zenspark.errors import LinkError
from zenspark.net.links.base import SocketAddress, error_reason, format_address
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import find_interface, reachable_addresses
from zenspark.wire.values import Locator

ResolvedAddress = tuple[socket.AddressFamily, SocketAddress]

STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
LISTEN_BACKLOG = 1024
"""How many connections may wait to be accepted: beyond, the kernel drops them, and they come again after a second."""
WILDCARD = "::"


def connect_socket(
    endpoint: Endpoint, deadline: float, kind: socket.SocketKind = STREAM
) -> tuple[socket.socket, SocketAddress]:
    """A connected socket and its remote address, trying each address of the host in turn.

    The time that is left is shared evenly among the addresses that are left, so that one which swallows everything
    does not keep the others from being tried. Looking up a name takes what the resolver takes.
    """
    resolved = list(resolve(endpoint, kind))
    problem: OSError = TimeoutError(errno.ETIMEDOUT, "no time left")
    for number, (family, address) in enumerate(resolved):
        share = (deadline - time.monotonic()) / (len(resolved) - number)
        if share <= 0:
            break
        try:
            return _configure_and_connect(socket.socket(family, kind), address, endpoint, share), address
        except OSError as error:
            problem = error
    raise LinkError(endpoint.locator.text, f"cannot connect: {error_reason(problem)}") from problem


def _configure_and_connect(
    connection: socket.socket, address: SocketAddress, endpoint: Endpoint, timeout: float
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
    """A socket on the first address of the host that can be had; a stream socket listens."""
    problem: OSError | None = None
    for family, address in _bind_candidates(endpoint, kind):
        try:
            return _configure_and_bind(socket.socket(family, kind), address, endpoint)
        except OSError as error:
            problem = problem or error
    raise LinkError(endpoint.locator.text, f"cannot listen: {error_reason(problem)}") from problem


def _bind_candidates(endpoint: Endpoint, kind: socket.SocketKind) -> Iterator[ResolvedAddress]:
    yield from resolve(endpoint, kind)
    host, port = endpoint.host_port
    if host == WILDCARD:  # a machine without IPv6 still has IPv4
        yield socket.AF_INET, ("0.0.0.0", port)


def _configure_and_bind(unbound: socket.socket, address: SocketAddress, endpoint: Endpoint) -> socket.socket:
    try:
        if address[0] == WILDCARD:  # means IPv4 as well, whatever the machine's default is
            unbound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if unbound.type == STREAM and hasattr(socket, "SO_REUSEPORT"):
            # Connections of a former listener do not keep the port. On Windows this option would give it to anybody.
            unbound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        set_socket_options(unbound, endpoint)
        unbound.bind(address)
        if unbound.type == STREAM:
            unbound.listen(LISTEN_BACKLOG)
    except BaseException:
        unbound.close()
        raise
    return unbound


def resolve(endpoint: Endpoint, kind: socket.SocketKind) -> Iterator[ResolvedAddress]:
    """Every address of the endpoint's host, in the resolver's order."""
    host, port = endpoint.host_port
    try:
        found = socket.getaddrinfo(host, port, type=kind)
    except (OSError, UnicodeError) as error:
        raise LinkError(endpoint.locator.text, f"cannot find {host!r}: {error_reason(error)}") from error
    for family, _, _, _, address in found:
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
    """What a listener tells others: for a wildcard the addresses of the real interfaces, else its own."""
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
