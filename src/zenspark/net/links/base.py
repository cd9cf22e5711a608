"""What a link is: bytes to and from one other node, never waiting unless asked to.

One thread, the loop, reads all links: it watches `fileno()` and calls `recv_into`. Any thread may write, one at a
time per link: it calls `send`, and `wait_writable` if nothing was taken. Two kinds:

- *streamed* links (tcp, tls, unixsock-stream) carry bytes; a batch needs its length in front;
- the others (udp, ws) carry whole batches: one `recv_into` gives one, one `send` takes one or nothing.

What a link did not take must be offered again, the same bytes first, before any others: TLS and WebSocket links may
have made a record of them already, part of which is on its way.

What an acceptor gets may still have to shake hands (TLS, WebSocket). That is `establish`, which waits, so a worker
calls it, with a time limit; the other kinds have nothing to do there.

`close` may come from any thread at any time. It wakes whoever waits, and gives the descriptor back only when nobody
is inside a call, so that no late call hits somebody else's new socket. The loop takes a link out of its selector
before it closes it.
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
SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]

WOULD_BLOCK = -1
"""What `recv_into` returns when nothing is there now."""
MAX_MTU = 0xFFFF
"""The largest batch there is: what the length in front of it, and INIT, can say."""

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

_Poll: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


def poll_descriptor(descriptor: int, event: int, timeout: float) -> bool:
    """Wait until a descriptor can be read or written, or has failed; False when time is up."""
    with _Poll() as selector:
        selector.register(descriptor, event)
        return bool(selector.select(max(0.0, timeout)))


def duplicate_descriptor(open_socket: socket.socket) -> int:
    """A descriptor of the same socket to wait on: it stays good when the socket is closed meanwhile."""
    return socket.dup(open_socket.fileno())


class Link(ABC):
    """Bytes to and from one other node. `src` and `dst` are the two ends as locators, ours first."""

    endpoint: Endpoint
    src: str
    dst: str
    mtu: int = MAX_MTU
    is_streamed: bool = True
    is_reliable: bool = True
    local_host: str | None = None
    remote_host: str | None = None
    """The IP addresses of both ends, where they have some."""
    auth_identifier: str | None = None
    """Who the other side proved to be: the common name in its certificate."""
    expires_at: float | None = None
    """When that certificate expires and the link is to be closed, in seconds since 1970; None if it stays open."""
    is_established: bool = True
    """Whether it can be used; if not, `establish` comes first."""

    @functools.cached_property
    def interfaces(self) -> tuple[str, ...]:
        """The interfaces that have the local address. Asking the system takes long, so it is asked when needed."""
        return () if self.local_host is None else interfaces.interface_names_with(self.local_host)

    @abstractmethod
    def fileno(self) -> int:
        """What to watch for reading; -1 once closed."""

    @abstractmethod
    def recv_into(self, buffer: memoryview) -> int:
        """Receive without waiting: how many bytes came, 0 when the other side has ended, NOTHING if none are there.

        A link that is not streamed needs room for its mtu.
        """

    @property
    def has_buffered(self) -> bool:
        """Whether `recv_into` has something although the descriptor is silent: ask after each call of it."""
        return False

    @abstractmethod
    def send(self, data: Buffer) -> int:
        """Send without waiting: how many bytes were taken. The rest must be offered again, before anything else."""

    @abstractmethod
    def wait_writable(self, timeout: float) -> bool:
        """Wait until another `send` is worth trying, which it also is on a link that failed; False when time is up."""

    def establish(self, timeout: float) -> None:
        """Finish the handshake of this kind of link; LinkError if it fails or takes longer."""
        return

    def half_close(self) -> None:
        """Tell the other side that nothing more will be sent, where such links can; a second time does nothing."""
        return

    @abstractmethod
    def close(self) -> None:
        """End the link; a second time does nothing."""

    def make_error(self, cause: Exception | None, problem: str | None = None) -> LinkError:
        """The error that says what happened here."""
        error = LinkError(self.dst, problem or error_reason(cause))
        error.__cause__ = cause
        return error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.src} -> {self.dst}>"


class Listener(ABC):
    """Where other nodes connect to."""

    endpoint: Endpoint
    locator: Locator
    """Where it really listens: with the port that was given out for port 0."""

    @abstractmethod
    def fileno(self) -> int:
        """What to watch for reading; -1 once closed."""

    @abstractmethod
    def accept(self) -> Link | None:
        """The next link, None if nobody waits; call until None. It may still have to `establish`.

        LinkError means that this machine is out of descriptors or memory: try again a little later.
        """

    def locators(self, loopback: bool) -> tuple[Locator, ...]:
        """What to tell others: a wildcard address as the real ones, with those of loopback only if asked for."""
        return (self.locator,)

    @abstractmethod
    def close(self) -> None:
        """Stop listening; links that were accepted go on."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.locator}>"


class SocketLink(Link):
    """A link that is one connected stream socket."""

    can_half_close = True
    """Whether one direction can end before the other; what speaks a protocol of its own on the socket cannot."""

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
            with contextlib.suppress(OSError):  # the other side was faster
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if os.getpid() != self._pid:
            # A forked child has the same connection, which it must not end, and locks that nobody will give back.
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
        """Tell the other side, and wake whoever waits on the descriptor."""
        with contextlib.suppress(OSError):  # the other side was faster
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def make_error(self, cause: Exception | None, problem: str | None = None) -> LinkError:
        return super().make_error(cause, "the link is closed" if self._closed else problem)


class DatagramLink(SocketLink):
    """A link that is one connected datagram socket: a batch is a datagram."""

    is_streamed = False
    is_reliable = False
    can_half_close = False

    def recv_into(self, buffer: memoryview) -> int:
        return super().recv_into(buffer) or WOULD_BLOCK  # an empty datagram is not the end: datagrams have none


class SocketListener(Listener):
    """A listener that is one stream socket."""

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
        except OSError:  # it left while it was let in
            connection.close()
            return None

    @abstractmethod
    def link(self, connection: socket.socket, address: SocketAddress) -> Link:
        """The link of an accepted connection."""

    def close(self) -> None:
        with self._accept_lock:
            self._socket.close()


@contextlib.contextmanager
def close_on_error(connection: socket.socket, endpoint: Endpoint) -> Iterator[None]:
    """Close a socket if what is done with it fails; what the network did wrong becomes a LinkError."""
    try:
        yield
    except OSError as error:
        connection.close()
        raise LinkError(endpoint.locator.text, error_reason(error)) from error
    except BaseException:
        connection.close()
        raise


def error_reason(error: Exception | None) -> str:
    """What an exception says, without numbers and the places in OpenSSL's source that it adds."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def format_address(address: SocketAddress) -> str:
    """Host and port as they stand in a locator."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def pair(streamed: bool = True, buffer_size: int | None = None) -> tuple[Link, Link]:
    """Two links joined in memory, for tests; with `buffer_size` bytes on the way the sender has to wait."""
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
