"""Which protocol of an endpoint is served by which kind of link."""

from __future__ import annotations

from collections.abc import Callable

from zenspark.net import tcp, tls, udp, unix, websocket
from zenspark.net.endpoints import Endpoint
from zenspark.net.links import Link, Listener

CONNECT: dict[str, Callable[[Endpoint, float], Link]] = {
    "tcp": tcp.connect,
    "tls": tls.connect,
    "udp": udp.connect,
    "ws": websocket.connect,
    "unixsock-stream": unix.connect,
}
LISTEN: dict[str, Callable[[Endpoint], Listener]] = {
    "tcp": tcp.listen,
    "tls": tls.listen,
    "udp": udp.listen,
    "ws": websocket.listen,
    "unixsock-stream": unix.listen,
}


def connect(endpoint: Endpoint, timeout: float) -> Link:
    """A link to an endpoint, ready for use."""
    known = CONNECT.get(endpoint.protocol)
    if known is None:
        raise endpoint.error(f"expected one of the protocols {', '.join(CONNECT)}")
    return known(endpoint, timeout)


def listen(endpoint: Endpoint) -> Listener:
    """A listener at an endpoint."""
    known = LISTEN.get(endpoint.protocol)
    if known is None:
        raise endpoint.error(f"expected one of the protocols {', '.join(LISTEN)}")
    return known(endpoint)
