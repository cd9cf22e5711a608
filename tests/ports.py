"""Ports for servers of tests that are started later, in another process or by another implementation."""

from __future__ import annotations

import fcntl
import functools
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 15_000, 32_000
"""Below the ports that systems give to outgoing connections: those of other tests do not take one meanwhile."""
TRIES = 100


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port on which no socket is bound on loopback, and that no other test process gets until this one ends."""
    for _ in range(TRIES):
        port = random.SystemRandom().randrange(FIRST, LAST)
        if _reserve(port) and _is_unbound(port, kind):
            return port
    raise AssertionError(f"no free port between {FIRST} and {LAST} in {TRIES} tries")


_reserved: set[int] = set()


def _reserve(port: int) -> bool:
    """Lock the byte at this offset of a file that test processes share; the system unlocks it when the process ends."""
    if port in _reserved:  # a process is never refused its own lock
        return False
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _reserved.add(port)
    return True


@functools.cache
def _reservations() -> int:
    """The descriptor of the shared file, never closed: closing one would unlock every port of the process."""
    path = Path(tempfile.gettempdir()) / f"zenspark-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_unbound(port: int, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
