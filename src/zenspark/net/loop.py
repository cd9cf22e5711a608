"""The loop: one thread that waits for sockets and for time, and runs what is due.

Everything that reads from the network happens here, so what runs in it must be short and must not wait. Other
threads hand it work with `call_soon`, which wakes it if it sleeps.

A forked child has no such thread, only a copy of what it worked on. There `sever` cuts the copy off: descriptors are
shared with the parent, and what is done to the selector in one process is done in both.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Protocol

logger = logging.getLogger("zenspark.net")

Work = Callable[[], object]

MANY_CANCELLED = 1000
"""How many cancelled timers may wait for their time; more are thrown out, so that quick work leaves no pile."""


class HasFileno(Protocol):
    """Something with a descriptor."""

    def fileno(self) -> int: ...


class Timer:
    """Work that waits for its time; `cancel` makes it never come."""

    __slots__ = ("_loop", "when", "work")

    def __init__(self, loop: Loop, when: float, work: Work) -> None:
        self._loop = loop
        self.when = when
        self.work: Work | None = work

    def cancel(self) -> None:
        """From any thread; it may be too late."""
        if self.work is not None:
            self.work = None
            self._loop.cancelled += 1


class Loop:
    """A selector, a queue of work and a heap of timers in one daemon thread."""

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._work: deque[Work] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = count()
        self.cancelled = 0
        """About how many timers wait for nothing."""
        self._awake = True
        self._stopping = False
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ, (self._on_bell, None))
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to run."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> bool:
        """Run what is queued, then end. Waits for that, unless the caller is the loop; False if it takes too long."""
        if not self._thread.is_alive():
            self._release()
            return True
        self.call_soon(self._stop)
        if self.is_current:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _stop(self) -> None:
        self._stopping = True

    def sever(self) -> None:
        """In a forked child: leave the parent's loop alone, whatever is called here from now on."""
        for item in (self._bell, self._button, self._selector):
            sever(item)
        self._work.clear()
        self._timers.clear()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in the loop."""
        return threading.current_thread() is self._thread

    @staticmethod
    def now() -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()

    # -- from any thread

    def call_soon(self, work: Work) -> None:
        """Run this next."""
        self._work.append(work)
        if not self._awake:
            self._ring()

    def _ring(self) -> None:
        self._awake = True
        with contextlib.suppress(OSError):  # it rings already, or nobody is left to hear it
            self._button.send(b"\0")

    def call_at(self, when: float, work: Work) -> Timer:
        """Run this at a time."""
        timer = Timer(self, when, work)
        self.call_soon(lambda: heapq.heappush(self._timers, (when, next(self._order), timer)))
        return timer

    # -- from the loop

    def watch(self, item: HasFileno, on_readable: Work | None, on_writable: Work | None = None) -> None:
        """Call back when a descriptor can be read or written; None and None to watch it no more."""
        descriptor = item.fileno()
        if descriptor < 0:  # closed by another thread, which took it out before
            return
        events = (selectors.EVENT_READ if on_readable else 0) | (selectors.EVENT_WRITE if on_writable else 0)
        known = descriptor in self._selector.get_map()
        if not events:
            if known:
                self._selector.unregister(descriptor)
            return
        change = self._selector.modify if known else self._selector.register
        change(descriptor, events, (on_readable, on_writable))

    # -- the thread

    def _on_bell(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(4096)

    def _run(self) -> None:
        while not self._stopping:
            self._turn()
        self._release()

    def _release(self) -> None:
        self._selector.close()
        self._bell.close()
        self._button.close()

    def _turn(self) -> None:
        self._awake = False
        timeout = 0.0 if self._work else self._until_timer()
        ready = self._selector.select(timeout)
        self._awake = True
        for key, events in ready:
            on_readable, on_writable = key.data
            if events & selectors.EVENT_READ and on_readable:
                self._guarded(on_readable)
            if events & selectors.EVENT_WRITE and on_writable:
                self._guarded(on_writable)
        self._run_timers()
        for _ in range(len(self._work)):
            self._guarded(self._work.popleft())

    def _until_timer(self) -> float | None:
        if self.cancelled > max(MANY_CANCELLED, len(self._timers) // 2):
            self.cancelled = 0
            self._timers = [entry for entry in self._timers if entry[2].work is not None]
            heapq.heapify(self._timers)
        while self._timers and self._timers[0][2].work is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - self.now()) if self._timers else None

    def _run_timers(self) -> None:
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            work = heapq.heappop(self._timers)[2].work
            if work is not None:
                self._guarded(work)

    @staticmethod
    def _guarded(work: Work) -> None:
        try:
            work()
        except Exception:  # the loop serves every link: a mistake about one must not end the others
            logger.exception("something went wrong in the network loop")


def sever(item: HasFileno) -> None:
    """In a forked child: cut a descriptor off what it shares with the parent, and end nothing there.

    The number stays taken until its owner closes it, so no lock is needed, which somebody may have held at the fork.
    """
    descriptor = item.fileno()
    if descriptor >= 0:
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nowhere, descriptor, inheritable=False)
        os.close(nowhere)
