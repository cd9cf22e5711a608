# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Channel: the sink that users receive from; `callback.py` has the other kind, which calls a user's function.

The session calls `push` and `push_many` of a sink in the thread that reads the network, and `close` after the last
item. They never block and never lose an item, except that a ring drops the oldest. They return whether there is
capacity for more: after False the session pauses reading from that link until `resume` is called. So a slow receiver
slows its publishers down instead of filling the memory, and neither keep-alives nor other links wait for it.

A channel is a deque, whose own methods are atomic, and a lock used as a wakeup flag: released means notified. A
producer appends items, then releases the lock unless it is released already. A consumer that finds no items acquires
the lock, which blocks until it is notified, and checks again. A consumer that acquired it and leaves items behind, or
finds the channel closed, releases it for the next consumer. So no wakeup is missed, one wakeup serves a whole batch,
and a consumer that always finds items never touches the lock.

Compiled, because every item passes here.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from time import monotonic
from typing import Any, Protocol

import cython

from zenspark.constructor_signature import ConstructorSignature
from zenspark.errors import ChannelClosed as ChannelClosed  # programs import and unpickle both also from here
from zenspark.errors import ReceiveTimeout as ReceiveTimeout
from zenspark.net.loop.event_loop import current_loop
from zenspark.net.loop.leader_follower import yield_leadership

MAX_LOCK_WAIT_SECONDS = 0.1 if sys.platform == "win32" else 1.0
"""Longest wait for a lock in seconds: on Windows a waiting lock does not notice Ctrl-C, elsewhere it misses a Ctrl-C
that arrives just before the wait begins."""

Resume = Callable[[Any], object]
"""Function called in any thread with the channel or runner whose `push` returned False, once it is half empty.

It must be short, may be called without need, and may be called before that `push` has returned: a caller that waits for
a flag it sets must clear the flag before pushing.
"""


class WakeupLock(Protocol):
    """The lock that a channel releases when items were pushed; a `threading.Lock` is one."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def locked(self) -> bool: ...

    def release(self) -> None: ...


@cython.cclass
class Channel:
    """A queue that users receive from, by `recv`, `try_recv` or a for loop, and the session delivers into.

    Any number of threads may receive; each item reaches one of them.

    Attributes:
        is_stalled: Whether a sender of this session waited for capacity in vain, until the channel has drained.
    """

    __signature__ = ConstructorSignature()

    _items = cython.declare(object, visibility="readonly")
    _wakeup = cython.declare(object, visibility="readonly")
    _paused = cython.declare(cython.bint, visibility="public")
    is_stalled = cython.declare(cython.bint, visibility="public")
    _capacity: cython.Py_ssize_t
    _resume: Resume
    _closed: cython.bint
    _is_notify_scheduled: cython.bint

    def __init__(self, capacity: cython.Py_ssize_t, resume: Resume, keep: int | None = None) -> None:
        """Make an empty channel, as a session does for a handler.

        Args:
            capacity: Items that may wait before the session stops reading the links they come from.
            resume: Called with the channel when it is half empty again.
            keep: Items to keep at most, the newest ones; without limit by default.
        """
        self._items = deque(maxlen=keep)
        self._wakeup = Lock()
        self._wakeup.acquire()
        self._capacity = capacity
        self._resume = resume
        self._is_notify_scheduled = False
        self._paused = False
        self.is_stalled = False
        self._closed = False

    def use_wakeup(self, wakeup: WakeupLock) -> None:
        """Notify another lock when items arrive; set before the first push, for a consumer that waits elsewhere.

        Args:
            wakeup: The lock.

        Example:
            >>> wakeup = threading.Lock()
            >>> subscriber.handler.use_wakeup(wakeup)
        """
        self._wakeup = wakeup

    # --- for users

    def recv(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - the type of the items
        """Return the next item, and wait for it if there is none yet.

        Args:
            timeout: Seconds to wait; without end by default.

        Returns:
            The item.

        Raises:
            ReceiveTimeout: No item came in time.
            ChannelClosed: The channel is closed and empty.
            ValueError: The timeout is NaN.
            TypeError: The timeout is no number.

        Example:
            >>> sample = subscriber.handler.recv(timeout=1)
        """
        return self._take(timeout)

    @cython.cfunc
    @cython.inline
    def _take(self, timeout: float | None) -> Any:  # noqa: ANN401 - the type of the items
        """Return the next item; inlined into `recv` and `__next__` to avoid a method call.

        A subclass that overrides `recv` overrides `__next__` as well.
        """
        if not self._items:
            return self._wait(timeout)
        try:
            item = self._items.popleft()
        except IndexError:  # another consumer was faster
            return self._wait(timeout)
        if self._paused:
            self._resume_if_half_empty()
        return item

    def try_recv(self) -> Any:  # noqa: ANN401 - the type of the items
        """Return the next item without waiting.

        Returns:
            The item, or None if there is none yet.

        Raises:
            ChannelClosed: The channel is closed and empty.

        Example:
            >>> sample = subscriber.handler.try_recv()
        """
        closed = self._closed  # read first: items pushed before closing must not be missed
        try:
            item = self._items.popleft()
        except IndexError:
            if closed:
                raise ChannelClosed from None
            return None
        if self._paused:
            self._resume_if_half_empty()
        return item

    def __iter__(self) -> Channel:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - the type of the items
        try:
            return self._take(None)
        except ChannelClosed:
            raise StopIteration from None

    def __repr__(self) -> str:
        return f"<Handler: {len(self._items)} items{', closed' if self._closed else ''}>"

    # --- for the session

    def push(self, item: Any) -> bool:  # noqa: ANN401 - the type of the items
        """Deliver one item.

        Args:
            item: The item.

        Returns:
            Whether there is space for more.

        Example:
            >>> has_space = subscriber.handler.push(sample)
        """
        self._items.append(item)
        return self._after_push()

    def push_many(self, items: Iterable[Any]) -> bool:
        """Deliver several items at the cost of one.

        Args:
            items: The items.

        Returns:
            Whether there is space for more.

        Example:
            >>> has_space = subscriber.handler.push_many([first, second])
        """
        self._items.extend(items)
        return self._after_push()

    def close(self) -> None:
        """Close the channel; items that were delivered can still be received. Closing it again does nothing.

        Example:
            >>> subscriber.handler.close()
            >>> for sample in subscriber.handler:  # ends after the samples that were delivered
            ...     print(sample.payload.to_string())
        """
        self._closed = True
        if not self._is_notify_scheduled:
            self._schedule_notify()

    @property
    def backlog(self) -> int:
        """The number of items that were not received yet."""
        return len(self._items)

    @property
    def capacity(self) -> int:
        """The number of items from which on `push` returns False."""
        return self._capacity

    @property
    def is_consumed_by_this_thread(self) -> bool:
        """Whether only the calling thread consumes: never, any thread may receive from a channel."""
        return False

    @cython.cfunc
    def _after_push(self) -> cython.bint:
        if not self._is_notify_scheduled and self._wakeup.locked():
            self._schedule_notify()
        return len(self._items) < self._capacity or not self._pause_if_full()

    @cython.cfunc
    def _schedule_notify(self) -> cython.void:
        """Notify, in the loop thread at the end of its turn: a consumer woken earlier would only wait for the loop."""
        loop = current_loop()
        if loop is None:
            self._notify()
        else:
            self._is_notify_scheduled = True
            loop.call_before_sleep(self._run_scheduled_notify)

    def _run_scheduled_notify(self) -> None:
        self._is_notify_scheduled = False
        self._notify()

    # --- capacity

    def _pause_if_full(self) -> bool:
        """Request a resume if the channel is full. Returns whether it is: all items may have been consumed just before,
        so the request comes before the check."""
        self._paused = True
        if len(self._items) >= self._capacity:
            return True
        self._paused = False
        return False

    @cython.cfunc
    def _resume_if_half_empty(self) -> cython.void:
        """Resume at half capacity: resuming for every single item would wake the session once for each."""
        if len(self._items) <= self._capacity // 2:
            self._paused = False
            self._resume(self)

    # --- waiting

    @cython.cfunc
    def _notify(self) -> cython.void:
        try:  # noqa: SIM105 - suppress takes ten times as long, on the path to a waiting consumer
            self._wakeup.release()
        except RuntimeError:
            pass  # another thread has notified meanwhile

    def _wait(self, timeout: float | None) -> Any:  # noqa: ANN401 - the type of the items
        deadline = None if timeout is None else monotonic() + timeout
        if self._paused:
            self._resume_if_half_empty()
        try:
            return self._wait_and_pop(deadline, timeout)
        finally:  # even if Ctrl-C arrived just after the lock was acquired
            if self._items or self._closed:
                self._notify()
            if self._paused:
                self._resume_if_half_empty()

    def _wait_and_pop(self, deadline: float | None, timeout: float | None) -> Any:  # noqa: ANN401 - the type of the items
        while True:
            closed = self._closed  # read first: items pushed before closing must not be missed
            try:
                return self._items.popleft()
            except IndexError:
                if closed:
                    raise ChannelClosed from None
            yield_leadership()
            if deadline is None:
                self._wakeup.acquire(timeout=MAX_LOCK_WAIT_SECONDS)
            elif not self._wakeup.acquire(timeout=clamp_sleep(deadline - monotonic())) and monotonic() >= deadline:
                assert timeout is not None
                raise ReceiveTimeout(timeout)


def clamp_sleep(left: float) -> float:
    """Return the seconds to wait for a lock: those that are left, at most MAX_LOCK_WAIT_SECONDS."""
    left = max(left, 0)
    return left if MAX_LOCK_WAIT_SECONDS < 0 else min(left, MAX_LOCK_WAIT_SECONDS)
