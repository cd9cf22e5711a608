"""Waiting for descriptors: on Linux `epoll` itself, elsewhere whatever `selectors` finds, made to look like it.

The loop waits once for every message when there are few of them, and `selectors` makes several objects each time.
"""

from __future__ import annotations

import select
import selectors
from typing import Protocol

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

EPOLLIN, EPOLLOUT = 0x1, 0x4
"""What `epoll` calls them; whatever else it reports concerns both."""


class Poller(Protocol):
    """Descriptors and what is waited for on each: EPOLLIN, EPOLLOUT or both."""

    def register(self, fd: int, eventmask: int) -> object:
        """Wait for a descriptor."""

    def modify(self, fd: int, eventmask: int) -> object:
        """Wait for something else on it."""

    def unregister(self, fd: int) -> object:
        """Wait for it no more."""

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Wait; the descriptors something has happened on, and what. Negative or None waits without end."""

    def fileno(self) -> int:
        """A descriptor of its own, -1 if it has none."""

    def close(self) -> None: ...


class SelectorsPoller:
    """The same with `selectors`."""

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
    return (READ if mask & EPOLLIN else 0) | (WRITE if mask & EPOLLOUT else 0)


def _mask(events: int) -> int:
    return (EPOLLIN if events & READ else 0) | (EPOLLOUT if events & WRITE else 0)


def make_poller() -> Poller:
    """The best there is."""
    return select.epoll() if hasattr(select, "epoll") else SelectorsPoller()
