# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""CallbackRunner: the sink that calls a user's function with every item; `channel.py` has the contract of sinks.

The function runs in the loop thread, which reads nothing meanwhile, so its queue needs no limit. A function that takes
long keeps a thread of its own, and then at most CALLBACK_CAPACITY_ITEMS items wait for it.

Compiled, because every item passes here.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock, get_ident
from time import monotonic, sleep
from typing import Any
from weakref import WeakValueDictionary

import cython

from zenspark.errors import UsageError
from zenspark.handlers.channel import Resume
from zenspark.net.loop.executor import CallbackExecutor

CALLBACK_CAPACITY_ITEMS: cython.Py_ssize_t = 1024
"""Items that may be queued for a slow callback before `push` returns False."""
CALLBACK_TIME_SLICE_SECONDS: cython.double = 0.005
"""Seconds of consecutive callbacks after which the loop thread returns to its loop."""
SLOW_CALLBACK_SECONDS: cython.double = 0.001
"""Mean seconds per call from which on a callback keeps a thread of its own."""
IDLE_THREAD_SECONDS = 1.0
"""Seconds a thread waits for further items of a slow callback before it ends."""

EXIT_STALL_SECONDS = 10.0
"""Seconds without the end of a call after which the process exits although callbacks are left."""
EXIT_CHECK_INTERVAL_SECONDS = 0.01
"""Seconds between two checks at exit whether callbacks are left."""

logger = logging.getLogger("zenspark.handlers")

_ending: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Closed runners, by identity, until they have called `drop`: their threads are daemons, so the exit waits for them."""


@cython.cclass
class CallbackRunner:
    """Calls a function with every item, in order and one at a time, and `drop` once after the last item.

    Callbacks run in the loop thread (see `net/loop/leader_follower.py`). If the function is slow, another thread takes
    over the loop, and this one goes on calling as long as there are items: then the queue is bounded.
    """

    _function: Callable[[Any], object]
    _drop: Callable[[], object] | None
    _loop: CallbackExecutor
    _resume: Resume
    _items: deque[Any]
    is_stalled = cython.declare(cython.bint, visibility="public")  # whether a sender waited for capacity in vain
    _lock: Lock
    _wakeup: Lock
    _is_running: cython.bint
    _runner_thread: cython.ulong
    _is_slow: cython.bint
    _is_idle: cython.bint
    _is_paused: cython.bint
    _closed: cython.bint
    _dropped: cython.bint
    __weakref__: object

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
        self._lock = Lock()  # guards the flags that follow
        self._wakeup = Lock()
        self._wakeup.acquire()
        self._is_running = False  # whether a thread runs callbacks, or is about to
        self._runner_thread = 0  # the id of that thread
        self._is_slow = False  # whether the last calls took long
        self._is_idle = False  # whether the thread waits for further items
        self._is_paused = False
        self.is_stalled = False
        self._closed = False
        self._dropped = False

    # --- for the session

    def push(self, item: Any) -> bool:  # noqa: ANN401 - the type of the items
        """Deliver one item; returns whether there is capacity for more."""
        if not self._closed:
            self._items.append(item)
            self._start()
        return not self._pause_if_full()

    def push_many(self, items: Iterable[Any]) -> bool:
        """Deliver several items with one wakeup; returns whether there is capacity for more."""
        if not self._closed:
            self._items.extend(items)
            self._start()
        return not self._pause_if_full()

    def close(self) -> None:
        """End the delivery; the function is still called with the items pushed before."""
        if not self._dropped:
            _ending[id(self)] = self
        self._closed = True
        self._start()

    @property
    def backlog(self) -> int:
        """The number of items the function was not called with yet."""
        return len(self._items)

    @property
    def capacity(self) -> int:
        """The number of items from which on `push` returns False."""
        return CALLBACK_CAPACITY_ITEMS

    @property
    def is_consumed_by_this_thread(self) -> bool:
        """Whether the calling thread is the one that runs the callbacks."""
        return self._runner_thread == get_ident()

    @cython.cfunc
    def _start(self) -> cython.void:
        """Schedule a run of the callbacks, unless a thread runs them."""
        with self._lock:
            must_start: cython.bint = not self._is_running
            self._is_running = True
        if must_start:
            self._loop.run_callback_soon(self._run)
        elif self._is_idle:
            self._notify()

    @cython.cfunc
    def _notify(self) -> cython.void:
        try:  # noqa: SIM105 - suppress takes ten times as long, on the path to a waiting thread
            self._wakeup.release()
        except RuntimeError:
            pass  # it is notified already

    @cython.cfunc
    def _pause_if_full(self) -> cython.bint:
        """Request a resume if the queue is full, and return whether it is. In the loop thread, which reads nothing
        meanwhile, it never is."""
        if len(self._items) < CALLBACK_CAPACITY_ITEMS or self._runner_thread == get_ident():
            return False
        if self._runner_thread == 0 and self._loop.is_loop_thread:
            return False
        self._is_paused = True
        if len(self._items) >= CALLBACK_CAPACITY_ITEMS:
            return True
        self._is_paused = False
        return False

    # --- the thread that runs callbacks

    def _run(self) -> None:
        """Run callbacks until no items are left, or until the loop must run before the next one."""
        self._runner_thread = get_ident()
        while self._run_callbacks():
            if self._is_slow and not (self._closed or self._loop.is_loop_thread):
                self._wait_idle()
            with self._lock:
                if not self._items:
                    self._is_running = False
                    self._runner_thread = 0
                    ends: cython.bint = self._closed and not self._dropped
                    self._dropped = ends or self._dropped
                    break
        else:
            self._runner_thread = 0
            self._loop.run_callback_soon(self._run)
            return
        if ends:
            self._call_drop()

    @cython.cfunc
    def _wait_idle(self) -> cython.void:
        """Wait for further items: a callback that was slow once is likely to be called again."""
        self._is_idle = True
        if not self._items:
            self._wakeup.acquire(timeout=IDLE_THREAD_SECONDS)
        self._is_idle = False

    @cython.cfunc
    def _run_callbacks(self) -> cython.bint:
        """Call with all queued items; returns False if the loop must run first, or can run the callbacks again."""
        start: cython.double = monotonic()
        slice_end: cython.double = start + CALLBACK_TIME_SLICE_SECONDS
        calls: cython.int = 0
        items: deque[Any] = self._items
        while items:
            self._call(items.popleft())
            calls += 1
            if calls & 15 == 0 and monotonic() > slice_end:
                self._is_slow = monotonic() - start > calls * SLOW_CALLBACK_SECONDS
                if self._loop.is_loop_thread or not self._is_slow:
                    return False
                slice_end = monotonic() + CALLBACK_TIME_SLICE_SECONDS
            if self._is_paused and len(items) <= CALLBACK_CAPACITY_ITEMS // 2:
                self._is_paused = False
                self._resume(self)
        if calls:
            self._is_slow = monotonic() - start > calls * SLOW_CALLBACK_SECONDS
        return True

    @cython.cfunc
    def _call_drop(self) -> cython.void:
        try:
            if self._drop is not None:
                self._drop()
        except BaseException:  # raised by the user's code: `sys.exit()` ends a callback, not the loop thread
            logger.exception("drop function of the handler with callback %r failed", self._function)
        _ending.pop(id(self), None)

    @cython.cfunc
    def _call(self, item: Any) -> cython.void:  # noqa: ANN401 - the type of the items
        try:
            self._function(item)
        except BaseException:  # raised by the user's code; the next item must be delivered all the same
            log_callback_failure(self._function, item)
            drop = getattr(item, "drop", None)
            if drop is not None:  # a query: the querier must not wait for code that still holds the traceback
                drop()


def finish_callbacks(timeout: float = EXIT_STALL_SECONDS) -> None:
    """Wait at exit until closed runners have called their functions with every item and `drop`, as eclipse-zenoh does.

    Args:
        timeout: Seconds without the end of a call after which the remaining calls are given up, with a log line.
    """
    previous, deadline = _unfinished(), monotonic() + timeout
    while (unfinished := _unfinished()) != (0, 0):
        if unfinished != previous:
            previous, deadline = unfinished, monotonic() + timeout
        elif monotonic() > deadline:
            runners, items = unfinished
            logger.error("exit: %d callbacks still run after %g s, %d queued items are lost", runners, timeout, items)
            return
        sleep(EXIT_CHECK_INTERVAL_SECONDS)


def _unfinished() -> tuple[int, int]:
    """Return the number of closed runners that are left, and of the items they still have to call with."""
    runners = [runner for reference in _ending.valuerefs() if (runner := reference()) is not None]
    return len(runners), sum(runner.backlog for runner in runners)


atexit.register(finish_callbacks)  # before sessions register: at exit they are closed first
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ending.clear)  # the threads of the parent do not run there


def log_callback_failure(function: Callable[..., object], item: object) -> None:
    """Log the exception that a callback raised now, with the key expression of the item it was called with."""
    key_expr = _key_expr_of(item)
    if key_expr is None:
        logger.exception("callback %r failed", function)
    else:
        logger.exception("callback %r failed on %s", function, key_expr)


def _key_expr_of(item: Any) -> object | None:  # noqa: ANN401 - the type of the items
    """Return the key expression of a sample or query, or of the result of a reply; None for other items."""
    try:
        return getattr(getattr(item, "result", item), "key_expr", None)
    except UsageError:  # a query that the callback dropped
        return None
