"""Link and listener interfaces, and their implementation on stream and datagram sockets.

A link carries bytes to and from one other node, and does not wait, except in `wait_writable` and `establish`. One
thread, the loop, reads all links: it watches `fileno()` and calls `recv_into`. Any thread may write, one at a time per
link: it calls `send`, and `wait_writable` if nothing was taken. There are two kinds:

- *streamed* links (tcp, tls, unixsock-stream) carry bytes; each batch has its length in front;
- the others (udp, ws) carry whole batches: one `recv_into` returns one, one `send` takes one or nothing.

Bytes that a link did not take must be offered again first, before any others: TLS and WebSocket links may have made a
record of them already, part of which is sent.

An accepted link may have a handshake of its own to do (TLS, WebSocket). That is `establish`, which waits up to a time
limit, so it is called by a thread of its own; other kinds have nothing to do there.

`close` may be called by any thread at any time. It wakes threads that wait on the link, and closes the descriptor only
when no thread is inside a call, so that a late call cannot use the number for another socket. The loop removes a link
from its poller before it closes it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeAlias

from zenspark.errors import LinkError
from zenspark.net.links import interfaces
from zenspark.net.links.endpoint import Endpoint
from zenspark.wire.values import Locator

Buffer: TypeAlias = bytes | bytearray | memoryview
IpSocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]

WOULD_BLOCK = -1
"""Result of `recv_into` when no data is there."""
MAX_MTU = 0xFFFF
"""The largest batch: the length in front of it, and the batch size in INIT, have 16 bits."""

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

_Poll: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


def poll_descriptor(descriptor: int, event: int, timeout: float) -> bool:
    """Wait until a descriptor is readable or writable, or has failed; False after `timeout` seconds."""
    with _Poll() as selector:
        selector.register(descriptor, event)
        return bool(selector.select(max(0.0, timeout)))


def duplicate_descriptor(open_socket: socket.socket) -> int:
    """Duplicate the descriptor of a socket, to wait on it: it stays valid if the socket is closed meanwhile."""
    return socket.dup(open_socket.fileno())


class Link(ABC):
    """A link to one other node. `src` and `dst` are the locators of this node's end and of the peer's."""

    endpoint: Endpoint
    src: str
    dst: str
    mtu: int = MAX_MTU
    is_streamed: bool = True
    is_reliable: bool = True
    local_host: str | None = None
    remote_host: str | None = None
    """The IP address of the peer, and `local_host` that of this node; None for Unix sockets."""
    auth_identifier: str | None = None
    """The common name in the peer's verified certificate."""
    expires_at: float | None = None
    """Expiry of the peer's certificate, at which the link is closed, in seconds since 1970; None if it stays open."""
    is_established: bool = True
    """Whether its handshake is done; if not, `establish` has to be called first."""

    @functools.cached_property
    def interfaces(self) -> tuple[str, ...]:
        """The names of the interfaces with the local address; looked up when needed, because that is slow."""
        return () if self.local_host is None else interfaces.interface_names_with(self.local_host)

    @abstractmethod
    def fileno(self) -> int:
        """Return the descriptor to watch for reading; -1 once closed."""

    @abstractmethod
    def recv_into(self, buffer: memoryview) -> int:
        """Receive without waiting; returns the number of bytes, 0 if the peer has closed, WOULD_BLOCK without data.

        For a link that is not streamed, the buffer must have the size of its mtu.
        """

    @property
    def has_buffered(self) -> bool:
        """Whether `recv_into` may have data that the descriptor does not report; checked after each call of it."""
        return False

    @abstractmethod
    def send(self, data: Buffer) -> int:
        """Send without waiting; returns the number of bytes taken. The rest must be offered again, before others."""

    @abstractmethod
    def wait_writable(self, timeout: float) -> bool:
        """Wait until the link is writable or has failed; False after `timeout` seconds."""

    def establish(self, timeout: float) -> None:
        """Finish the handshake of the link; raises LinkError if it fails or takes longer than `timeout` seconds."""
        return

    def half_close(self) -> None:
        """Shut down the sending direction, on links that can; a second call does nothing."""
        return

    @abstractmethod
    def close(self) -> None:
        """Close the link; a second call does nothing."""

    def make_error(self, cause: Exception | None, problem: str | None = None) -> LinkError:
        """Make the LinkError of a failure on this link."""
        error = LinkError(self.dst, problem or error_reason(cause))
        error.__cause__ = cause
        return error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.src} -> {self.dst}>"


class Listener(ABC):
    """Accepts links from other nodes."""

    endpoint: Endpoint
    locator: Locator
    """The address it is bound to, with the assigned port if port 0 was requested."""

    @abstractmethod
    def fileno(self) -> int:
        """Return the descriptor to watch for reading; -1 once closed."""

    @abstractmethod
    def accept(self) -> Link | None:
        """Return the next link, None if there is none; call until None. It may still have to `establish`.

        Raises LinkError if this machine is out of descriptors or memory: try again a little later.
        """

    def locators(self, loopback: bool) -> tuple[Locator, ...]:
        """Return the addresses to advertise: for a wildcard those of the interfaces, with loopback only on request."""
        return (self.locator,)

    @abstractmethod
    def close(self) -> None:
        """Stop listening; accepted links stay open."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.locator}>"


class SocketLink(Link):
    """A link on a connected stream socket."""

    can_half_close = True
    """Whether the sending direction can be shut down alone; not below TLS or WebSocket."""

    def __init__(self, connection: socket.socket, endpoint: Endpoint, src: str, dst: str) -> None:
        connection.setblocking(False)
        self.endpoint = endpoint
        self.src = src
        self.dst = dst
        self._socket = connection
        self._recv_lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._state_lock = threading.Lock()
        self._closed = False
        self._pid = os.getpid()

    def fileno(self) -> int:
        return self._socket.fileno()

    def recv_into(self, buffer: memoryview) -> int:
        try:
            with self._recv_lock:
                return self._socket.recv_into(buffer)
        except BlockingIOError:
            return WOULD_BLOCK
        except OSError as error:
            raise self.make_error(error) from error

    def send(self, data: Buffer) -> int:
        try:
            with self._send_lock:
                return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self.make_error(error) from error

    def wait_writable(self, timeout: float) -> bool:
        return self._wait(WRITE, timeout)

    def _wait(self, event: int, timeout: float) -> bool:
        with self._state_lock:
            if self._closed:
                return True
            try:
                descriptor = duplicate_descriptor(self._socket)
            except OSError as error:
                raise self.make_error(error) from error
        try:
            return poll_descriptor(descriptor, event, timeout)
        finally:
            socket.close(descriptor)

    def half_close(self) -> None:
        if self.can_half_close:
            with contextlib.suppress(OSError):  # the peer has closed before
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if os.getpid() != self._pid:
            # A forked child shares the connection, which it must not shut down; its locks may be held for ever.
            self._socket.close()
            return
        with self._state_lock:
            if self._closed:
                return
            self._closed = True
        self._end()
        with self._recv_lock, self._send_lock:
            self._socket.close()

    def _end(self) -> None:
        """Shut down the connection, which also wakes threads that wait on the descriptor."""
        with contextlib.suppress(OSError):  # the peer has closed before
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def make_error(self, cause: Exception | None, problem: str | None = None) -> LinkError:
        return super().make_error(cause, "the link is closed" if self._closed else problem)


class DatagramLink(SocketLink):
    """A link on a connected datagram socket: a batch is a datagram."""

    is_streamed = False
    is_reliable = False
    can_half_close = False

    def recv_into(self, buffer: memoryview) -> int:
        return super().recv_into(buffer) or WOULD_BLOCK  # an empty datagram does not mean that the peer has closed


class SocketListener(Listener):
    """A listener on a stream socket."""

    def __init__(self, listening: socket.socket, endpoint: Endpoint, locator: Locator) -> None:
        listening.setblocking(False)
        self.endpoint = endpoint
        self.locator = locator
        self._socket = listening
        self._accept_lock = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> Link | None:
        try:
            with self._accept_lock:
                connection, address = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError as error:
            raise LinkError(self.locator.text, error_reason(error)) from error
        try:
            return self.link(connection, address)
        except OSError:  # the peer disconnected before
            connection.close()
            return None

    @abstractmethod
    def link(self, connection: socket.socket, address: IpSocketAddress) -> Link:
        """Make the link of an accepted connection."""

    def close(self) -> None:
        with self._accept_lock:
            self._socket.close()


@contextlib.contextmanager
def close_on_error(connection: socket.socket, endpoint: Endpoint) -> Iterator[None]:
    """Close a socket if the body raises; an OSError becomes a LinkError."""
    try:
        yield
    except OSError as error:
        connection.close()
        raise LinkError(endpoint.locator.text, error_reason(error)) from error
    except BaseException:
        connection.close()
        raise


def error_reason(error: Exception | None) -> str:
    """Return the text of an exception, without error numbers and positions in OpenSSL's source."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def format_address(address: IpSocketAddress) -> str:
    """Format host and port for a locator."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
