"""WaitQueue: the threads that wait for a condition, each without holding a lock.

`threading.Condition.wait` takes its lock back before it returns; a KeyboardInterrupt at that moment leaves it
unlocked, and the `with` around it raises RuntimeError instead. A thread in a WaitQueue has no lock to take
back. `net/io/congestion_control.py` decides when a publisher waits in one.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _thread import LockType

__all__ = ["WaitQueue"]


class WaitQueue:
    """The threads that wait for one condition. `notify_all` wakes them whenever it may have become true."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[LockType] = deque()

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Block until the predicate holds, at most `timeout` seconds; whether it holds."""
        if predicate():
            return True
        deadline = time.monotonic() + timeout
        left = timeout
        while left > 0:
            self._wait(predicate, left)
            if predicate():
                return True
            left = deadline - time.monotonic()
        return False

    def _wait(self, predicate: Callable[[], bool], timeout: float) -> None:
        woken = threading.Lock()
        woken.acquire()
        self._waiting.append(woken)
        is_notified = False
        try:
            if not predicate():  # it may have become true before this thread was in the queue
                is_notified = woken.acquire(timeout=timeout)
        finally:
            if not is_notified:  # else `notify_all` has taken it out of the queue
                with contextlib.suppress(ValueError):
                    self._waiting.remove(woken)

    def notify_all(self) -> None:
        """Wake every thread that waits now, to evaluate its predicate."""
        for _ in range(len(self._waiting)):
            try:
                woken = self._waiting.popleft()
            except IndexError:
                return
            woken.release()
