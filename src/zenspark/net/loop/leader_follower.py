"""Leader and follower: the threads of an event loop take turns in running it, so that user callbacks may block.

Passing each callback to a thread of its own would cost two context switches, more than most callbacks take. So the
loop thread (the *leader*) calls them itself, while another thread (the *follower*) waits. If the callback has not
returned after CALLBACK_GRACE_SECONDS, the follower is promoted to leader and runs the loop. A thread that returns from
a callback and is no longer the leader becomes the follower. A callback that is about to wait for the network calls
`yield_leadership`, so that the follower is promoted without delay.
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

CALLBACK_GRACE_SECONDS = 0.005
"""Seconds a callback may take before the follower is promoted to leader."""
LONG_AGO = float("-inf")

_callback_threads: dict[int, LeaderFollower] = {}
"""The threads that run a callback, with the loop that each is or was the leader of."""


def yield_leadership() -> None:
    """Promote the follower, if the calling thread is a leader that runs a callback. Call this before blocking."""
    loop = _callback_threads.get(threading.get_ident())
    if loop is not None:
        loop._yield_leadership()


def in_callback() -> bool:
    """Return whether the calling thread runs a user callback."""
    return threading.get_ident() in _callback_threads


class LeaderFollower(ABC):
    """The threads of one loop: the leader, the follower, and those whose callbacks take longer.

    An event loop derives from it: `_thread_main` calls what the leader does and, while that returns True,
    `_wait_as_follower`. A base class and not a part, because the loop compares its leader with the calling thread at
    every task.

    `name` is that of the threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._leader_ident: int | None = None
        """Ident of the leader thread; None before the loop starts."""
        self._stopping = False
        self._leader_lock = threading.Lock()
        """Guards the change of the leader."""
        self._callback_since = 0.0
        """Monotonic time at which the running callback started; 0 if none runs."""
        self._callbacks_run = 0
        self._followers = 0
        self._follower_signal = threading.Lock()
        """Lock that is released to wake the follower."""
        self._follower_signal.acquire()
        self._follower_waits_for_signal = False
        """Whether the follower sleeps until it is woken, instead of checking every CALLBACK_GRACE_SECONDS."""

    @property
    def is_in_loop_task(self) -> bool:
        """Whether the caller is a task of the loop, not a user callback or another thread."""
        return threading.get_ident() == self._leader_ident and not self._callback_since

    @property
    def is_loop_thread(self) -> bool:
        """Whether the calling thread is the leader, in a callback or not."""
        return threading.get_ident() == self._leader_ident

    @abstractmethod
    def _thread_main(self) -> None:
        """Lead the loop or follow, in turns, until it ends; the main function of every thread."""

    def _spawn(self, main: Callable[[], None]) -> None:
        threading.Thread(target=main, name=self._name, daemon=True).start()

    # -- the leader

    def _run_callback(self, task: Callable[[], object]) -> None:
        """Run a callback, in the loop; afterwards this thread may no longer be the leader."""
        ident = threading.get_ident()
        _callback_threads[ident] = self
        self._callbacks_run += 1
        self._callback_since = time.monotonic()
        if self._follower_waits_for_signal:
            self._signal_follower()
        elif not self._followers:
            self._spawn(self._thread_main)
        try:
            task()
        finally:
            del _callback_threads[ident]
            with self._leader_lock:
                if self._leader_ident == ident:
                    self._callback_since = 0.0

    def _yield_leadership(self) -> None:
        with self._leader_lock:
            if self.is_loop_thread and self._callback_since:
                self._callback_since = LONG_AGO
                self._signal_follower()

    def _signal_follower(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is released already
            self._follower_signal.release()

    # -- the follower

    def _wait_as_follower(self) -> bool:
        """Wait until this thread is promoted to leader; False if the loop ends, or another follower waits already."""
        with self._leader_lock:
            if self._followers:
                return False
            self._followers = 1
        try:
            previous = -1
            while not self._promote():
                if self._stopping:
                    return False
                callbacks_run = self._callbacks_run
                self._follower_wait(callbacks_run == previous)
                previous = callbacks_run
            return True
        finally:
            self._followers = 0

    def _follower_wait(self, until_signal: bool) -> None:
        """Wait for CALLBACK_GRACE_SECONDS; if no callback ran since the last check, until the signal."""
        self._follower_waits_for_signal = until_signal
        if until_signal and not self._callback_since:
            self._follower_signal.acquire()
        else:
            self._follower_signal.acquire(timeout=CALLBACK_GRACE_SECONDS)
        self._follower_waits_for_signal = False

    def _promote(self) -> bool:
        """Make this thread the leader if the current one has been in a callback for CALLBACK_GRACE_SECONDS; whether it
        has."""
        with self._leader_lock:
            if not self._callback_since or time.monotonic() - self._callback_since < CALLBACK_GRACE_SECONDS:
                return False
            self._leader_ident = threading.get_ident()
            self._callback_since = 0.0
            return True
