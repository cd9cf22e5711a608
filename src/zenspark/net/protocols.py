"""From the name of a protocol to its links: where nodes connect and listen, whatever the endpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from zenspark.net import multicast, tcp, tls, udp, unix, websocket
from zenspark.net.endpoints import Endpoint
from zenspark.net.links import Link, Listener
from zenspark.net.retry import RETRY_OPTIONS

LOGGER = logging.getLogger("zenspark.net")

SOCKET_OPTIONS = frozenset({"so_sndbuf", "so_rcvbuf", "dscp", "iface", "bind"})


class Protocol(msgspec.Struct, frozen=True):
    """How to open links of one kind, and which options they have."""

    connect: Callable[[Endpoint, float], Link]
    listen: Callable[[Endpoint], Listener]
    options: frozenset[str]


PROTOCOLS: Final = {
    "tcp": Protocol(tcp.connect, tcp.listen, SOCKET_OPTIONS),
    "tls": Protocol(tls.connect, tls.listen, SOCKET_OPTIONS | tls.TLS_OPTIONS),
    "udp": Protocol(udp.connect, udp.listen, SOCKET_OPTIONS),
    "ws": Protocol(websocket.connect, websocket.listen, SOCKET_OPTIONS),
    "unixsock-stream": Protocol(unix.connect, unix.listen, frozenset({"file_access_mask"})),
}
"""Every protocol spoken between two nodes."""
GROUP_OPTIONS = frozenset({"iface", "ttl", "join"})


def connect(endpoint: Endpoint, timeout: float) -> Link:
    """Open a link and finish its handshake; waits, so a connector's thread calls it."""
    return _protocol(endpoint).connect(endpoint, timeout)


def listen(endpoint: Endpoint) -> Listener:
    """Start to listen."""
    return _protocol(endpoint).listen(endpoint)


def join(endpoint: Endpoint) -> multicast.Group:
    """Join a multicast group."""
    _warn_of_unused(endpoint, GROUP_OPTIONS)
    return multicast.join(endpoint)


def _protocol(endpoint: Endpoint) -> Protocol:
    protocol = PROTOCOLS.get(endpoint.protocol)
    if protocol is None:
        raise endpoint.error(f"has a protocol that is not one of {', '.join(PROTOCOLS)}")
    if endpoint.is_group:
        raise endpoint.error("is a multicast group: it can be joined, not connected to or listened on")
    _warn_of_unused(endpoint, protocol.options | RETRY_OPTIONS)
    return protocol


def _warn_of_unused(endpoint: Endpoint, used: frozenset[str]) -> None:
    unused = {name for name, _ in endpoint.config} - used
    if unused:
        LOGGER.warning("endpoint %s has options that are not used: %s", endpoint.locator, ", ".join(sorted(unused)))
