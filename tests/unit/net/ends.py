"""Two ends of a link and what to do with them in a test; every wait is for something to happen, and bounded."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol, TypeVar

import trustme

from tests.ports import free_port
from tests.wait import TIMEOUT_SECONDS
from zenspark.net.links import registry
from zenspark.net.links.base import READ, WOULD_BLOCK, DatagramLink, Link, Listener, SocketLink, poll_descriptor
from zenspark.net.links.endpoint import Endpoint

T = TypeVar("T")


def link_pair(streamed: bool = True, buffer_size: int | None = None) -> tuple[Link, Link]:
    """Make two connected links in memory; `buffer_size` is the size of the send buffers in bytes."""
    left, right = socket.socketpair(type=socket.SOCK_STREAM if streamed else socket.SOCK_DGRAM)
    kind = SocketLink if streamed else DatagramLink
    if buffer_size is not None:
        for end in (left, right):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_size)
    endpoint = Endpoint("pair", "memory")
    return (
        kind(left, endpoint, "pair/left", "pair/right"),
        kind(right, endpoint, "pair/right", "pair/left"),
    )


class HasFileno(Protocol):
    def fileno(self) -> int: ...


def readable(item: HasFileno, timeout: float = TIMEOUT_SECONDS) -> bool:
    return poll_descriptor(item.fileno(), READ, timeout)


def accept(listener: Listener) -> Link:
    """The next link of a listener, established."""
    while (link := listener.accept()) is None:
        assert readable(listener), "nobody connected"
    link.establish(TIMEOUT_SECONDS)
    return link


def listen(text: str) -> Listener:
    return registry.listen(Endpoint.parse(text))


def connect(listener: Listener, options: str = "", host: str | None = None) -> Link:
    """A link to a listener, with the metadata and options of `options`; `host` is another name for where it is."""
    locator = listener.locator.text.partition("?")[0]
    if host is not None:
        locator = f"{listener.endpoint.protocol}/{host}:{locator.rpartition(':')[2]}"
    return registry.connect(Endpoint.parse(locator + options), TIMEOUT_SECONDS)


@contextlib.contextmanager
def connected_links(text: str, options: str = "", host: str | None = None) -> Iterator[tuple[Link, Link]]:
    """Both ends of a link to a listener on `text`: the one that connected, then the one that accepted."""
    with contextlib.closing(listen(text)) as listener, ThreadPoolExecutor() as pool:
        connecting = pool.submit(connect, listener, options, host)
        if listener.endpoint.protocol == "udp":
            connecting.result().send(b"first")
        with contextlib.closing(accept(listener)) as accepted, contextlib.closing(connecting.result()) as connected:
            if listener.endpoint.protocol == "udp":
                assert receive(accepted) == b"first"
            yield connected, accepted


def receive(link: Link, size: int = 1) -> bytes:
    """At least so many bytes, or one batch of a link that is not streamed; fewer if the other side ends."""
    buffer = memoryview(bytearray(1 << 18))
    found = b""
    while len(found) < size:
        count = link.recv_into(buffer)
        if count == 0:
            return found
        if count == WOULD_BLOCK:
            assert readable(link), f"only {len(found)} bytes came"
            continue
        found += buffer[:count]
        if not link.is_streamed:
            break
    return found


def send(link: Link, data: bytes) -> None:
    """Send all of it, waiting while the link takes nothing."""
    left = memoryview(data)
    while left:
        left = left[link.send(left) :]
        if left:
            assert link.wait_writable(TIMEOUT_SECONDS), f"no room for {len(left)} bytes"


def fill(link: Link, chunk: bytes) -> int:
    """Send until nothing more is taken; how much was."""
    total = 0
    while (taken := link.send(chunk[total % len(chunk) :])) > 0:
        total += taken
    return total


@contextlib.contextmanager
def meanwhile(work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Run something in another thread; its result can be waited for, and it has ended afterwards."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        yield lambda: future.result(TIMEOUT_SECONDS)
        future.result(TIMEOUT_SECONDS)


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def free_group() -> str:
    """A multicast address and port that no other test uses."""
    return f"239.255.{random.randrange(256)}.{random.randrange(256)}:{free_port(socket.SOCK_DGRAM)}"


class Certificates:
    """An authority of its own, and files of certificates it issued."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = trustme.CA()
        self.root = directory / "root.pem"
        self.authority.cert_pem.write_to_path(str(self.root))

    def issue(self, *names: str, common_name: str | None = None, lifetime: float | None = None) -> trustme.LeafCert:
        """A certificate; one with a `lifetime` expires in so many seconds."""
        end = None if lifetime is None else datetime.now(UTC) + timedelta(seconds=lifetime)
        return self.authority.issue_cert(*names, common_name=common_name, not_after=end)

    def files(self, *names: str, common_name: str | None = None, lifetime: float | None = None) -> tuple[Path, Path]:
        """The files of a certificate and of its key."""
        issued = self.issue(*names, common_name=common_name, lifetime=lifetime)
        stem = self.directory / (common_name or names[0])
        certificate, key = stem.with_suffix(".pem"), stem.with_suffix(".key")
        issued.cert_chain_pems[0].write_to_path(str(certificate))
        issued.private_key_pem.write_to_path(str(key))
        return certificate, key


def raw(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection(endpoint.host_port, TIMEOUT_SECONDS)


def is_at_end(connection: socket.socket) -> bool:
    """Whether the peer closes, whatever it sends before."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(1000):
            pass
    return True
