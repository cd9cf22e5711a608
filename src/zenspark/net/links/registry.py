"""From the name of a protocol to its links: where nodes connect and listen, whatever the endpoint.

The module of a protocol is loaded when it is first used: those of TLS and WebSocket bring much that others do without.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Final

import msgspec

from zenspark.net.links import multicast
from zenspark.net.links.base import Link, Listener
from zenspark.net.links.endpoint import TLS_OPTIONS, Endpoint
from zenspark.net.node.backoff import RETRY_OPTIONS

LOGGER = logging.getLogger("zenspark.net")

SOCKET_OPTIONS = frozenset({"so_sndbuf", "so_rcvbuf", "dscp", "iface", "bind"})


class LinkProtocol(msgspec.Struct, frozen=True):
    """Links of one kind: which module of this package makes them, and which options they have."""

    module: str
    options: frozenset[str]

    def connect(self, endpoint: Endpoint, timeout: float) -> Link:
        """Open a link."""
        link: Link = import_module(f"zenspark.net.links.{self.module}").connect(endpoint, timeout)
        return link

    def listen(self, endpoint: Endpoint) -> Listener:
        """Start to listen."""
        listener: Listener = import_module(f"zenspark.net.links.{self.module}").listen(endpoint)
        return listener


PROTOCOLS: Final = {
    "tcp": LinkProtocol("tcp", SOCKET_OPTIONS),
    "tls": LinkProtocol("tls", SOCKET_OPTIONS | TLS_OPTIONS),
    "udp": LinkProtocol("udp", SOCKET_OPTIONS),
    "ws": LinkProtocol("websocket", SOCKET_OPTIONS),
    "unixsock-stream": LinkProtocol("unix", frozenset({"file_access_mask"})),
}
"""Every protocol spoken between two nodes."""
GROUP_OPTIONS = frozenset({"iface", "ttl", "join"})


def connect(endpoint: Endpoint, timeout: float) -> Link:
    """Open a link and finish its handshake; waits, so a connector's thread calls it."""
    return _protocol(endpoint).connect(endpoint, timeout)


def listen(endpoint: Endpoint) -> Listener:
    """Start to listen."""
    return _protocol(endpoint).listen(endpoint)


def join(endpoint: Endpoint) -> multicast.MulticastLink:
    """Join a multicast group."""
    _check_options(endpoint, GROUP_OPTIONS)
    return multicast.join(endpoint)


def _protocol(endpoint: Endpoint) -> LinkProtocol:
    protocol = PROTOCOLS.get(endpoint.protocol)
    if protocol is None:
        raise endpoint.error(f"has a protocol that is not one of {', '.join(PROTOCOLS)}")
    if endpoint.is_group:
        raise endpoint.error("is a multicast group: it can be joined, not connected to or listened on")
    _check_options(endpoint, protocol.options | RETRY_OPTIONS)
    return protocol


def _check_options(endpoint: Endpoint, used: frozenset[str]) -> None:
    """Warn of options that are not used, and refuse those that ask for TLS where there is none."""
    unused = sorted({name for name, _ in endpoint.config} - used)
    asking = [name for name in unused if name in TLS_OPTIONS]
    if asking:
        raise endpoint.error(f"is not a TLS link, which its options ask for: {', '.join(asking)}")
    if unused:
        LOGGER.warning("endpoint %s has options that are not used: %s", endpoint.locator, ", ".join(unused))
