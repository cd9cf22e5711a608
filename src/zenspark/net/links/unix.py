"""Unix domain socket links between processes of one machine: `unixsock-stream/<path>`.

The file of a listener that was killed stays behind. The next listener removes it, but only if it is a socket that does
not accept connections, and while it holds the lock on `<path>.lock`, as long as it listens: eclipse-zenoh takes the
same lock, so neither removes the file of the other. The file is accessible to its owner only, unless
`#file_access_mask=0o660` or the like is configured.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
import uuid

from zenspark.errors import ListenError
from zenspark.net.links.base import IpSocketAddress, Link, SocketLink, SocketListener, close_on_error, error_reason
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.sockets import LINK_LISTEN_BACKLOG_CONNECTIONS

if sys.platform != "win32":  # pragma: no branch (where there are no such sockets either)
    import fcntl

DEFAULT_SOCKET_FILE_MODE = 0o600
"""Mode of a socket file without `file_access_mask`: only the owner may connect."""


class UnixListener(SocketListener):
    """Accepts connections on a path, and removes the file when it is closed."""

    def __init__(self, endpoint: Endpoint) -> None:
        listening, self._lock = _listen_on(endpoint)
        super().__init__(listening, endpoint, endpoint.locator)
        self._file = _file_identity(endpoint.address)
        self._pid = os.getpid()

    def link(self, connection: socket.socket, address: IpSocketAddress) -> Link:
        return SocketLink(connection, self.endpoint, self.locator.text, _random_locator(self.endpoint))

    def close(self) -> None:
        super().close()
        with self._accept_lock:
            lock, self._lock = self._lock, None
        if lock is None:
            return
        if os.getpid() == self._pid:  # the files belong to the parent of a forked child
            path = self.endpoint.address
            with contextlib.suppress(OSError):
                if self._file == _file_identity(path):
                    os.unlink(path)
                os.unlink(f"{path}.lock")
        os.close(lock)


def connect(endpoint: Endpoint, timeout: float) -> Link:
    """Open a link to the listener on a path."""
    connection = _new_socket(endpoint)
    with close_on_error(connection, endpoint):
        connection.settimeout(timeout)
        connection.connect(endpoint.address)
        return SocketLink(connection, endpoint, _random_locator(endpoint), endpoint.locator.text)


def listen(endpoint: Endpoint) -> UnixListener:
    """Listen on a path."""
    return UnixListener(endpoint)


def _listen_on(endpoint: Endpoint) -> tuple[socket.socket, int | None]:
    """Return a listening socket, and the descriptor of its lock file."""
    path = endpoint.address
    mode = endpoint.number("file_access_mask")
    listening = _new_socket(endpoint)
    lock = None
    with close_on_error(listening, endpoint):
        lock = _acquire_lock(endpoint)
        try:
            _remove_stale(endpoint)
            listening.bind(path)
            # before listen(), so that no other user can connect
            os.chmod(path, DEFAULT_SOCKET_FILE_MODE if mode is None else mode)
            listening.listen(LINK_LISTEN_BACKLOG_CONNECTIONS)
        except BaseException:
            os.close(lock)
            raise
    return listening, lock


def _new_socket(endpoint: Endpoint) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):
        raise endpoint.error("needs a system with Unix sockets")
    if len(os.fsencode(endpoint.address)) > 107:
        raise endpoint.error("has a path of more than 107 bytes, which the system does not allow for a socket")
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def _acquire_lock(endpoint: Endpoint) -> int:
    """Lock the lock file, and return its descriptor; raises ListenError if another process holds it."""
    path = f"{endpoint.address}.lock"
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise ListenError(endpoint.locator.text, "cannot listen: in use") from error
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) == _file_identity(path):
            return descriptor
        os.close(descriptor)  # its last owner removed it between open and flock: lock the new one


def _remove_stale(endpoint: Endpoint) -> None:
    """Remove a socket file whose listener is gone; raises ListenError for any other file."""
    path = endpoint.address
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(endpoint.locator.text, "cannot listen: there is a file of this name that is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as error:  # a full backlog, or no permission: there is a listener
            raise ListenError(endpoint.locator.text, f"cannot listen: in use ({error_reason(error)})") from error
    raise ListenError(endpoint.locator.text, "cannot listen: in use")


def _file_identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _random_locator(endpoint: Endpoint) -> str:
    """Return a random locator for the connecting side, which has no path; eclipse-zenoh does so too."""
    return endpoint.locator_at(str(uuid.uuid4())).text
