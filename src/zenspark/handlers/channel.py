# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Where the session delivers what users receive: a channel they read from, or a function of theirs that is called.

The session calls `push` and `push_many` in the thread that reads the network, and `close` when nothing more will come.
None of them ever blocks or loses what was pushed, except that a ring forgets the oldest. Instead they answer whether
there is room for more. After a no the session stops reading from that link until `resume` is called. So a slow consumer
slows its publishers down instead of filling the memory, and neither keep-alives nor other links wait for it.

A channel is a deque, whose own methods are atomic, and a lock used as a bell: free means that somebody rang. A producer
adds items, then rings unless the bell has rung already. A consumer that finds nothing takes the bell, sleeping until it
rings, and looks again. Whoever takes it and leaves items, or finds the channel closed, rings for the next. So no ring
is missed, one ring serves a whole batch, and a consumer with enough to do never touches the bell.

Compiled, because every item passes here.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock, get_ident
from time import monotonic
from typing import Any, Protocol

import cython

from zenspark.errors import ZError
from zenspark.net.loop.event_loop import current_loop, yield_leadership
from zenspark.net.loop.executor import CallbackExecutor

CALLBACK_CAPACITY: cython.Py_ssize_t = 1024
"""So many items may wait for a callback that takes its time before the session is asked to pause."""
CALLBACK_TIME_SLICE_SECONDS: cython.double = 0.005
"""Seconds after which a function that is called again and again lets the loop turn."""
SLOW_CALLBACK_SECONDS: cython.double = 0.001
"""Seconds that a call takes on the average with a function that keeps a thread of its own."""
IDLE_THREAD_SECONDS = 1.0
"""Seconds a thread stays with a function that took its time, in case it is called again."""
MAX_LOCK_WAIT_SECONDS = 0.1 if sys.platform == "win32" else 1.0
"""Seconds a lock sleeps before it is woken to look: there it does not notice Ctrl-C, elsewhere it misses one that
comes just before it falls asleep."""

logger = logging.getLogger("zenspark.handlers")


class ChannelClosed(ZError):
    """Nothing more will come: the subscriber, query or session behind this channel has ended."""

    def __str__(self) -> str:
        return "channel is empty and closed"


class ReceiveTimeout(ZError, TimeoutError):
    """Nothing came in the time given."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        self.timeout = timeout

    def __str__(self) -> str:
        return f"nothing received in {self.timeout:g} s"


Resume = Callable[[Any], object]
"""Called in any thread with the channel or caller that said no to a push, once there is room again.

It must be short, may come without need, and may come before that push has returned: whoever waits for a flag that it
sets must have cleared the flag before pushing.
"""


class WakeupLock(Protocol):
    """What a channel rings when there is something to take; free means that it rang. A lock is one."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def locked(self) -> bool: ...

    def release(self) -> None: ...


@cython.cclass
class Channel:
    """Users receive from it, by `recv`, `try_recv` or a for loop; the session delivers into it.

    Any number of threads may receive; each item reaches one of them.
    """

    _items = cython.declare(object, visibility="readonly")
    _bell = cython.declare(object, visibility="readonly")
    _paused = cython.declare(cython.bint, visibility="public")
    is_stalled = cython.declare(cython.bint, visibility="public")  # whether somebody waited for room in vain
    _capacity: cython.Py_ssize_t
    _resume: Resume
    _closed: cython.bint
    _rings_soon: cython.bint

    def __init__(self, capacity: cython.Py_ssize_t, resume: Resume, keep: int | None = None) -> None:
        self._items = deque(maxlen=keep)
        self._bell = Lock()
        self._bell.acquire()
        self._capacity = capacity
        self._resume = resume
        self._rings_soon = False
        self._paused = False
        self.is_stalled = False
        self._closed = False

    def use_wakeup(self, bell: WakeupLock) -> None:
        """Takes another bell, before anything is pushed: for who waits elsewhere and takes with `try_recv`."""
        self._bell = bell

    # --- for users

    def recv(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - whatever was pushed
        """The next item, waited for without end or for so many seconds.

        Raises `ReceiveTimeout` if none came, and `ChannelClosed` if none will ever come.
        """
        if not self._items:
            return self._wait(timeout)
        try:
            item = self._items.popleft()
        except IndexError:  # somebody else was quicker
            return self._wait(timeout)
        if self._paused:
            self._resume_if_room()
        return item

    def try_recv(self) -> Any:  # noqa: ANN401 - whatever was pushed
        """The next item if there is one, None if not yet; raises `ChannelClosed` if none will ever come."""
        closed = self._closed  # asked first: what was pushed before closing must not be missed
        try:
            item = self._items.popleft()
        except IndexError:
            if closed:
                raise ChannelClosed from None
            return None
        if self._paused:
            self._resume_if_room()
        return item

    def __iter__(self) -> Channel:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - whatever was pushed
        try:
            return self.recv()
        except ChannelClosed:
            raise StopIteration from None

    def __repr__(self) -> str:
        return f"<Handler: {len(self._items)} items{', closed' if self._closed else ''}>"

    # --- for the session

    def push(self, item: Any) -> bool:  # noqa: ANN401 - whatever is received
        """Delivers one item; whether there is room for more."""
        self._items.append(item)
        return self._pushed()

    def push_many(self, items: Iterable[Any]) -> bool:
        """Delivers a batch at the price of one; whether there is room for more."""
        self._items.extend(items)
        return self._pushed()

    def close(self) -> None:
        """Ends the delivery; what was pushed will still be received. Closing again does nothing."""
        self._closed = True
        if not self._rings_soon:
            self._ring_soon()

    @property
    def backlog(self) -> int:
        """How many items nobody has taken yet."""
        return len(self._items)

    @property
    def capacity(self) -> int:
        """How many there is room for."""
        return self._capacity

    @property
    def is_consumed_by_this_thread(self) -> bool:
        """Whether nobody but the calling thread can make room: anybody may receive from a channel."""
        return False

    @cython.cfunc
    def _pushed(self) -> cython.bint:
        if not self._rings_soon and self._bell.locked():
            self._ring_soon()
        return len(self._items) < self._capacity or self._has_room()

    @cython.cfunc
    def _ring_soon(self) -> cython.void:
        """The loop rings when it has brought all there is: whoever is woken before would only wait for it."""
        loop = current_loop()
        if loop is None:
            self._ring()
        else:
            self._rings_soon = True
            loop.call_before_sleep(self._ring_now)

    def _ring_now(self) -> None:
        self._rings_soon = False
        self._ring()

    # --- room

    def _has_room(self) -> bool:
        """Asks to be resumed, then looks once more: all items may have been taken just before."""
        self._paused = True
        if len(self._items) >= self._capacity:
            return False
        self._paused = False
        return True

    @cython.cfunc
    def _resume_if_room(self) -> cython.void:
        """Half empty is room: resuming for every single item would wake the session as often as it receives."""
        if len(self._items) <= self._capacity // 2:
            self._paused = False
            self._resume(self)

    # --- waiting

    @cython.cfunc
    def _ring(self) -> cython.void:
        try:  # noqa: SIM105 - suppress takes ten times as long, and somebody waits
            self._bell.release()
        except RuntimeError:
            pass  # somebody else rang meanwhile

    def _wait(self, timeout: float | None) -> Any:  # noqa: ANN401 - whatever was pushed
        deadline = None if timeout is None else monotonic() + timeout
        if self._paused:
            self._resume_if_room()
        try:
            return self._sleep_and_take(deadline, timeout)
        finally:  # even if Ctrl-C came just after the bell was taken
            if self._items or self._closed:
                self._ring()
            if self._paused:
                self._resume_if_room()

    def _sleep_and_take(self, deadline: float | None, timeout: float | None) -> Any:  # noqa: ANN401 - whatever was pushed
        while True:
            closed = self._closed  # asked first: what was pushed before closing must not be missed
            try:
                return self._items.popleft()
            except IndexError:
                if closed:
                    raise ChannelClosed from None
            yield_leadership()
            if deadline is None:
                self._bell.acquire(timeout=MAX_LOCK_WAIT_SECONDS)
            elif not self._bell.acquire(timeout=clamp_sleep(deadline - monotonic())) and monotonic() >= deadline:
                assert timeout is not None
                raise ReceiveTimeout(timeout)


def clamp_sleep(left: float) -> float:
    """How long to sleep of the time that is left."""
    left = max(left, 0)
    return left if MAX_LOCK_WAIT_SECONDS < 0 else min(left, MAX_LOCK_WAIT_SECONDS)


@cython.cclass
class CallbackRunner:
    """Calls a function with every item, in order and one at a time, and another one once when no more will come.

    The loop's thread does that (see `net/loop/event_loop.py`). If the function takes its time, another thread becomes
    the loop, and this one goes on calling as long as there are items: then the queue is bounded.
    """

    _function: Callable[[Any], object]
    _drop: Callable[[], object] | None
    _loop: CallbackExecutor
    _resume: Resume
    _items: deque[Any]
    is_stalled = cython.declare(cython.bint, visibility="public")  # whether somebody waited for room in vain
    _lock: Lock
    _bell: Lock
    _is_running: cython.bint
    _runner: cython.ulong
    _is_slow: cython.bint
    _lingers: cython.bint
    _is_paused: cython.bint
    _closed: cython.bint
    _dropped: cython.bint

    def __init__(
        self,
        function: Callable[[Any], object],
        drop: Callable[[], object] | None,
        loop: CallbackExecutor,
        resume: Resume,
    ) -> None:
        self._function = function
        self._drop = drop
        self._loop = loop
        self._resume = resume
        self._items = deque()
        self._lock = Lock()  # of the flags that follow
        self._bell = Lock()
        self._bell.acquire()
        self._is_running = False  # whether a thread calls, or is about to
        self._runner = 0  # which one
        self._is_slow = False  # whether the function took its time lately
        self._lingers = False  # whether it has nothing to do, but stays
        self._is_paused = False
        self.is_stalled = False
        self._closed = False
        self._dropped = False

    # --- for the session

    def push(self, item: Any) -> bool:  # noqa: ANN401 - whatever is received
        """Delivers one item; whether there is room for more."""
        if not self._closed:
            self._items.append(item)
            self._begin()
        return self._has_room()

    def push_many(self, items: Iterable[Any]) -> bool:
        """Delivers a batch at the price of one; whether there is room for more."""
        if not self._closed:
            self._items.extend(items)
            self._begin()
        return self._has_room()

    def close(self) -> None:
        """Ends the delivery; the function is still called with what was pushed."""
        self._closed = True
        self._begin()

    @property
    def backlog(self) -> int:
        """How many items the function has not been called with yet."""
        return len(self._items)

    @property
    def capacity(self) -> int:
        """How many there is room for."""
        return CALLBACK_CAPACITY

    @property
    def is_consumed_by_this_thread(self) -> bool:
        """Whether nobody but the calling thread can make room."""
        return self._runner == get_ident()

    @cython.cfunc
    def _begin(self) -> cython.void:
        """Have somebody call, if nobody does."""
        with self._lock:
            begins: cython.bint = not self._is_running
            self._is_running = True
        if begins:
            self._loop.run_callback_soon(self._run)
        elif self._lingers:
            self._ring()

    @cython.cfunc
    def _ring(self) -> cython.void:
        try:  # noqa: SIM105 - suppress takes ten times as long, and somebody waits
            self._bell.release()
        except RuntimeError:
            pass  # it rings already

    @cython.cfunc
    def _has_room(self) -> cython.bint:
        """As long as the loop itself calls, it brings nothing new before all are called; other threads might."""
        if len(self._items) < CALLBACK_CAPACITY or self._runner == get_ident():
            return True
        if self._runner == 0 and self._loop.is_loop_thread:
            return True
        self._is_paused = True
        if len(self._items) >= CALLBACK_CAPACITY:
            return False
        self._is_paused = False
        return True

    # --- the thread that calls

    def _run(self) -> None:
        """Call until there is nothing left, or until the loop has to turn before it goes on."""
        self._runner = get_ident()
        while self._call_all():
            if self._is_slow and not (self._closed or self._loop.is_loop_thread):
                self._linger()
            with self._lock:
                if not self._items:
                    self._is_running = False
                    self._runner = 0
                    ends: cython.bint = self._closed and not self._dropped
                    self._dropped = ends or self._dropped
                    break
        else:
            self._runner = 0
            self._loop.run_callback_soon(self._run)
            return
        if ends:
            self._call_drop()

    @cython.cfunc
    def _linger(self) -> cython.void:
        """Wait a while for more: whoever took its time once may do so again."""
        self._lingers = True
        if not self._items:
            self._bell.acquire(timeout=IDLE_THREAD_SECONDS)
        self._lingers = False

    @cython.cfunc
    def _call_all(self) -> cython.bint:
        """Call with all items there are; False if the loop must turn before it goes on, or can do so itself again."""
        began: cython.double = monotonic()
        until: cython.double = began + CALLBACK_TIME_SLICE_SECONDS
        calls: cython.int = 0
        items: deque[Any] = self._items
        while items:
            self._call(items.popleft())
            calls += 1
            if calls & 15 == 0 and monotonic() > until:
                self._is_slow = monotonic() - began > calls * SLOW_CALLBACK_SECONDS
                if self._loop.is_loop_thread or not self._is_slow:
                    return False
                until = monotonic() + CALLBACK_TIME_SLICE_SECONDS
            if self._is_paused and len(items) <= CALLBACK_CAPACITY // 2:
                self._is_paused = False
                self._resume(self)
        if calls:
            self._is_slow = monotonic() - began > calls * SLOW_CALLBACK_SECONDS
        return True

    @cython.cfunc
    def _call_drop(self) -> cython.void:
        try:
            if self._drop is not None:
                self._drop()
        except BaseException:  # the user's own: `sys.exit()` ends a callback, not the thread that calls all of them
            logger.exception("drop of callback %r failed", self._function)

    @cython.cfunc
    def _call(self, item: Any) -> cython.void:  # noqa: ANN401 - whatever is received
        try:
            self._function(item)
        except BaseException:  # the user's own; the next item must not suffer for it
            logger.exception("callback %r failed", self._function)
            drop = getattr(item, "drop", None)
            if drop is not None:  # a query: who asked must not wait for whoever still looks at the traceback
                drop()
