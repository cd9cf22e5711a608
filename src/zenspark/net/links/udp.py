"""UDP links between two nodes: a batch is a datagram.

The connecting side has a socket of its own. A listener has one socket for all its peers: it sorts datagrams by sender,
and each sender is a link with a queue of its datagrams. A datagram from a new sender makes a new link. The source of a
datagram can be forged, so the number of links and the bytes in each queue are limited.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections import deque

from zenspark.errors import LinkError
from zenspark.net.links.base import (
    WOULD_BLOCK,
    WRITE,
    Buffer,
    DatagramLink,
    IpSocketAddress,
    Link,
    Listener,
    close_on_error,
    duplicate_descriptor,
    error_reason,
    format_address,
    poll_descriptor,
)
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.sockets import (
    DATAGRAM,
    MAX_DATAGRAM_BYTES,
    MAX_DATAGRAMS_PER_READ,
    advertised_locators,
    bind_socket,
    connect_socket,
)
from zenspark.wire.values import Locator

UDP_MTU = 65_487
"""Batch size that eclipse-zenoh offers on UDP: the largest datagram, with space for headers."""
MAX_LINKS_PER_LISTENER = 1_000
"""Links of one listener: a flood of forged addresses must not fill the memory."""
MAX_QUEUED_DATAGRAM_BYTES = 1 << 20
"""Bytes in the queue of one link; further datagrams are dropped, as UDP may."""
BUSY_ERRNOS = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS})


class UdpLink(DatagramLink):
    """A link of the connecting side, with a connected socket."""

    def __init__(self, connection: socket.socket, endpoint: Endpoint, remote: IpSocketAddress) -> None:
        super().__init__(
            connection,
            endpoint,
            endpoint.locator_at(format_address(connection.getsockname())).text,
            endpoint.locator_at(format_address(remote)).text,
        )
        self.mtu = UDP_MTU
        self.local_host, self.remote_host = connection.getsockname()[0], remote[0]


class UdpListener(Listener):
    """A listener with one socket for all its links."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._socket = bind_socket(endpoint, DATAGRAM)
        self._socket.setblocking(False)
        self.host = self._socket.getsockname()[0]
        self.locator = endpoint.locator_at(format_address(self._socket.getsockname()))
        self._links: dict[IpSocketAddress, AcceptedUdpLink] = {}
        self._lock = threading.Lock()
        self._recv_lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._buffer = memoryview(bytearray(MAX_DATAGRAM_BYTES))

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> Link | None:
        """Return the link of a new sender; datagrams of known senders are put in their queues."""
        for _ in range(MAX_DATAGRAMS_PER_READ):
            try:
                with self._recv_lock:
                    size, address = self._socket.recvfrom_into(self._buffer)
            except BlockingIOError:
                return None
            except ConnectionError:
                continue  # an ICMP error for a datagram sent before: it does not identify the peer that is gone
            except OSError as error:
                raise LinkError(self.locator.text, error_reason(error)) from error
            link = self._deliver(address, bytes(self._buffer[:size]))
            if link is not None:
                return link
        return None

    def _deliver(self, address: IpSocketAddress, datagram: bytes) -> Link | None:
        with self._lock:
            link = self._links.get(address)
            if link is None and datagram and len(self._links) < MAX_LINKS_PER_LISTENER:
                try:
                    new_link = self._links[address] = AcceptedUdpLink(self, address)
                except OSError as error:
                    raise LinkError(self.locator.text, error_reason(error)) from error
                new_link.feed(datagram)
                return new_link
        if link is not None and datagram:
            link.feed(datagram)
        return None

    def locators(self, loopback: bool) -> tuple[Locator, ...]:
        return advertised_locators(self.endpoint, self.locator, loopback)

    def send_to(self, data: Buffer, address: IpSocketAddress) -> int:
        """Send a datagram of one of the links; returns 0 if the buffer is full."""
        try:
            with self._send_lock:
                return self._socket.sendto(data, address)
        except OSError as error:
            if error.errno in BUSY_ERRNOS:
                return 0
            raise

    def wait_writable(self, timeout: float) -> bool:
        """Wait until the socket is writable or closed; False after `timeout` seconds."""
        with self._send_lock:
            if self._socket.fileno() < 0:
                return True
            descriptor = duplicate_descriptor(self._socket)
        try:
            return poll_descriptor(descriptor, WRITE, timeout)
        finally:
            socket.close(descriptor)

    def remove(self, address: IpSocketAddress) -> None:
        """Remove a link that was closed."""
        with self._lock:
            self._links.pop(address, None)

    def close(self) -> None:
        """Close the socket and all links: unlike those of other listeners, they have no socket of their own."""
        with self._lock:
            links = list(self._links.values())
            self._links.clear()
        for link in links:
            link.end()
        with self._recv_lock, self._send_lock:
            self._socket.close()


class AcceptedUdpLink(Link):
    """A link of the accepting side: the datagrams of one sender to a listener's socket.

    Its descriptor is one end of a socket pair that has a byte to read while the queue is not empty.
    """

    is_streamed = False
    is_reliable = False
    mtu = UDP_MTU

    def __init__(self, listener: UdpListener, address: IpSocketAddress) -> None:
        self.endpoint = listener.endpoint
        self.src = listener.locator.text
        self.dst = listener.endpoint.locator_at(format_address(address)).text
        self.local_host, self.remote_host = listener.host, address[0]
        self._listener = listener
        self._address = address
        self._lock = threading.Lock()
        self._queue: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._signal, self._trigger = socket.socketpair()

    def fileno(self) -> int:
        return self._signal.fileno()

    def feed(self, datagram: bytes) -> None:
        """Append a datagram that the listener received."""
        with self._lock:
            if self._ended or self._size + len(datagram) > MAX_QUEUED_DATAGRAM_BYTES:
                return
            self._queue.append(datagram)
            self._size += len(datagram)
            if len(self._queue) == 1:
                self._trigger.send(b"\0")

    def recv_into(self, buffer: memoryview) -> int:
        with self._lock:
            if not self._queue:
                return 0 if self._ended else WOULD_BLOCK
            datagram = self._queue.popleft()
            self._size -= len(datagram)
            if not self._queue and not self._ended:
                self._signal.recv(1)
        buffer[: len(datagram)] = datagram
        return len(datagram)

    def send(self, data: Buffer) -> int:
        if self._ended:
            raise self.make_error(None, "the link is closed")
        try:
            return self._listener.send_to(data, self._address)
        except OSError as error:
            raise self.make_error(error) from error

    def wait_writable(self, timeout: float) -> bool:
        return self._ended or self._listener.wait_writable(timeout)

    def end(self) -> None:
        """Signal the end of the link to the reader."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._trigger.close()  # makes the other end readable

    def close(self) -> None:
        self._listener.remove(self._address)
        self.end()
        with self._lock:
            self._queue.clear()
            self._signal.close()


def connect(endpoint: Endpoint, timeout: float) -> Link:
    """Open a UDP link; sends nothing, so it succeeds even if no node listens there."""
    connection, address = connect_socket(endpoint, time.monotonic() + timeout, DATAGRAM)
    with close_on_error(connection, endpoint):
        return UdpLink(connection, endpoint, address)


def listen(endpoint: Endpoint) -> UdpListener:
    """Listen for UDP links."""
    return UdpListener(endpoint)
