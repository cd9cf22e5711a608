"""Registry of link protocols: connects, listens and joins by the protocol of an endpoint.

The module of a protocol is imported when it is first used: those of TLS and WebSocket have large dependencies.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Final

import msgspec

from zenspark.net.backoff import RETRY_OPTIONS
from zenspark.net.links import multicast
from zenspark.net.links.base import Link, Listener
from zenspark.net.links.endpoint import TLS_OPTIONS, Endpoint

logger = logging.getLogger("zenspark.net")

SOCKET_OPTIONS = frozenset({"so_sndbuf", "so_rcvbuf", "dscp", "iface", "bind"})


class LinkProtocol(msgspec.Struct, frozen=True):
    """One link protocol: its module in this package, and the options of its endpoints."""

    module: str
    options: frozenset[str]

    def connect(self, endpoint: Endpoint, timeout: float) -> Link:
        """Open a link, within `timeout` seconds."""
        link: Link = import_module(f"zenspark.net.links.{self.module}").connect(endpoint, timeout)
        return link

    def listen(self, endpoint: Endpoint) -> Listener:
        """Bind a listener."""
        listener: Listener = import_module(f"zenspark.net.links.{self.module}").listen(endpoint)
        return listener


PROTOCOLS: Final = {
    "tcp": LinkProtocol("tcp", SOCKET_OPTIONS),
    "tls": LinkProtocol("tls", SOCKET_OPTIONS | TLS_OPTIONS),
    "udp": LinkProtocol("udp", SOCKET_OPTIONS),
    "ws": LinkProtocol("websocket", SOCKET_OPTIONS),
    "unixsock-stream": LinkProtocol("unix", frozenset({"file_access_mask"})),
}
"""The protocols of links between two nodes, by name."""
GROUP_OPTIONS = frozenset({"iface", "ttl", "join"})


def connect(endpoint: Endpoint, timeout: float) -> Link:
    """Open a link and finish its handshake; waits up to `timeout` seconds."""
    return _protocol(endpoint).connect(endpoint, timeout)


def listen(endpoint: Endpoint) -> Listener:
    """Bind a listener."""
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
    """Warn of unused options; raise UsageError for options of TLS on other links."""
    unused = sorted({name for name, _ in endpoint.config} - used)
    tls_only = [name for name in unused if name in TLS_OPTIONS]
    if tls_only:
        raise endpoint.error(f"is not a TLS link, which its options require: {', '.join(tls_only)}")
    if unused:
        logger.warning("endpoint %s has options that are not used: %s", endpoint.locator, ", ".join(unused))
