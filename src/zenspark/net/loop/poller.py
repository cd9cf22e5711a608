"""Pollers: `epoll` on Linux, elsewhere the best of `selectors` behind the same interface.

With little traffic the loop polls once per message, and `selectors` allocates several objects each time.
"""

from __future__ import annotations

import select
import selectors
from typing import Protocol

EPOLLIN, EPOLLOUT = 0x1, 0x4
"""Event bits of `epoll`; every other bit it reports (errors, hang-up) concerns both."""


class Poller(Protocol):
    """Waits for events (EPOLLIN, EPOLLOUT or both) on descriptors."""

    def register(self, fd: int, eventmask: int) -> object:
        """Add a descriptor."""

    def modify(self, fd: int, eventmask: int) -> object:
        """Change the events of a descriptor."""

    def unregister(self, fd: int) -> object:
        """Remove a descriptor."""

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Wait for events, without limit if `timeout` is negative or None; returns (descriptor, events) pairs."""

    def fileno(self) -> int:
        """Return the descriptor of the poller itself, -1 if it has none."""

    def close(self) -> None: ...


class SelectorsPoller:
    """A poller on top of `selectors`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, eventmask: int) -> None:
        self._selector.register(fd, _events(eventmask))

    def modify(self, fd: int, eventmask: int) -> None:
        self._selector.modify(fd, _events(eventmask))

    def unregister(self, fd: int) -> None:
        self._selector.unregister(fd)

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        endless = timeout is None or timeout < 0
        return [(key.fd, _mask(events)) for key, events in self._selector.select(None if endless else timeout)]

    def fileno(self) -> int:
        descriptor = getattr(self._selector, "fileno", None)
        return -1 if descriptor is None else descriptor()

    def close(self) -> None:
        self._selector.close()


def _events(mask: int) -> int:
    return (selectors.EVENT_READ if mask & EPOLLIN else 0) | (selectors.EVENT_WRITE if mask & EPOLLOUT else 0)


def _mask(events: int) -> int:
    return (EPOLLIN if events & selectors.EVENT_READ else 0) | (EPOLLOUT if events & selectors.EVENT_WRITE else 0)


def make_poller() -> Poller:
    """Make the fastest poller of this system."""
    return select.epoll() if hasattr(select, "epoll") else SelectorsPoller()
