"""Ports for servers of tests that are started later, in another process or by another implementation."""

from __future__ import annotations

import random
import socket

FIRST, LAST = 15_000, 32_000
"""Below the ports that systems give to outgoing connections: those of other tests do not take one meanwhile."""
TRIES = 100


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port on which no socket is bound on loopback."""
    for _ in range(TRIES):
        port = random.SystemRandom().randrange(FIRST, LAST)
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"no free port between {FIRST} and {LAST} in {TRIES} tries")
