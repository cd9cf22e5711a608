"""The event loop: one thread that waits for sockets and timers, and runs tasks.

Everything that reads from the network happens here, so tasks must be short and must not wait. Other threads add tasks
with `call_soon`, which wakes the loop if it sleeps.

User callbacks are the exception: the loop thread calls them itself, and another thread takes over the loop from one
that blocks; `leader_follower.py` has that.

The loop survives errors. An exception of a task is logged; so is one of the loop itself, which continues with the next
turn. Only if several turns fail in succession it ends: it logs that and calls `on_failed`, so that its owner can close
what depends on it.

A forked child has no such thread, only a copy of its data. There `detach_after_fork` cuts the copy off: descriptors are
shared with the parent, and changes to the poller in one process take effect in both.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Protocol

from zenspark.net.loop.busy_poll import BusyPoller
from zenspark.net.loop.leader_follower import LeaderFollower, yield_leadership
from zenspark.net.loop.poller import EPOLLIN, EPOLLOUT, make_poller
from zenspark.net.loop.read_coalescing import READ_DELAY_SECONDS

logger = logging.getLogger("zenspark.net")

Task = Callable[[], object]

NO_HANDLERS = (None, None)
NEVER = float("inf")
MAX_CANCELLED_TIMERS = 1000
"""Cancelled timers that may stay in the heap; more are removed at once, so that short tasks do not fill it."""
MAX_POLL_SECONDS = 3600.0
"""Longest poll: pollers count milliseconds in 32 bits, and raise an error beyond."""
MAX_TIMER_DELAY_SECONDS = 0.25
"""A timer that is later than this is late because the loop was held up: data that arrived meanwhile is read
before it runs."""
MAX_FAILED_TURNS = 10
"""Turns that may fail in succession before the loop ends."""
FAILED_TURN_PAUSE_SECONDS = 0.1
"""Pause after a failed turn: the cause, such as lack of memory, may pass."""
MAX_TASKS_PER_TURN = 1000
"""Tasks run before sockets are polled again: each task may add another."""

_leader_threads: dict[int, EventLoop] = {}
"""The threads that lead a loop."""


def current_loop() -> EventLoop | None:
    """Return the loop that the calling thread leads; None if it leads none, or runs a callback."""
    loop = _leader_threads.get(threading.get_ident())
    return loop if loop is not None and loop.is_in_loop_task else None


class HasFileno(Protocol):
    """An object with a descriptor."""

    def fileno(self) -> int: ...


class Timer:
    """A task with a due time, which can be cancelled."""

    __slots__ = ("_loop", "task", "when")

    def __init__(self, loop: EventLoop, when: float, task: Task) -> None:
        self._loop = loop
        self.when = when
        self.task: Task | None = task

    def cancel(self) -> None:
        """Cancel the task, from any thread; it may have run already."""
        if self.task is not None:
            self.task = None
            self._loop.cancelled += 1


class EventLoop(LeaderFollower):
    """A poller, a queue of tasks and a heap of timers, run by one daemon thread at a time.

    `name` is that of its threads and in its log lines; it contains the zid of the node.
    `on_failed` is called by that thread when the loop ends because of errors: nothing is read, and no timer runs.
    """

    def __init__(self, name: str, on_failed: Task = lambda: None) -> None:
        super().__init__(name)
        self._poller = make_poller()
        self._watched: dict[int, tuple[Task | None, Task | None]] = {}
        self._tasks: deque[Task] = deque()
        self._end_of_turn_tasks: deque[Task] = deque()
        self._before_sleep_tasks: deque[Task] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._new_timers: deque[tuple[float, int, Timer]] = deque()
        """Timers that are not in the heap yet; other threads append to it."""
        self._order = count()
        self.cancelled = 0
        """Approximate number of cancelled timers in the heap."""
        self._awake = True
        self._sleep_until = 0.0
        """Time at which the poll ends."""
        self.busy_poller = BusyPoller()
        self._delays_next_read = False
        """Whether to sleep for READ_DELAY_SECONDS before the next poll."""
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        self._wakeup_reader.setblocking(False)
        self._wakeup_writer.setblocking(False)
        self.watch(self._wakeup_reader, self._on_wakeup)
        self._ended = threading.Event()
        self._failed_turns = 0
        self._on_failed = on_failed

    def start(self) -> None:
        """Start the loop's thread."""
        started = threading.Event()

        def run() -> None:
            self._leader_ident = threading.get_ident()
            started.set()
            self._thread_main()

        self._spawn(run)
        started.wait()

    def stop(self, timeout: float = 10.0) -> bool:
        """Run the queued tasks, then end; waits for that, unless called by the loop. False after `timeout` seconds."""
        if self._leader_ident is None:
            self._release()
            return True
        self.call_soon(self._stop)
        if self.is_in_loop_task:
            return True
        yield_leadership()
        return self._ended.wait(timeout)

    def _stop(self) -> None:
        self._stopping = True

    def detach_after_fork(self) -> None:
        """Cut this copy of the loop off the parent's, in a forked child."""
        for item in (self._wakeup_reader, self._wakeup_writer, self._poller):
            detach_after_fork(item)
        self._tasks.clear()
        self._end_of_turn_tasks.clear()
        self._before_sleep_tasks.clear()
        self._timers.clear()
        self._new_timers.clear()

    @staticmethod
    def now() -> float:
        """Return the monotonic time in seconds."""
        return time.monotonic()

    # -- from any thread

    def call_soon(self, task: Task) -> None:
        """Run a task in the next turn."""
        self._tasks.append(task)
        if not self._awake:
            self._wake_up()

    def call_at_end_of_turn(self, task: Task) -> None:
        """Run a task when all others of the turn are done: they may add to what it has to do."""
        self._end_of_turn_tasks.append(task)
        if not self._awake:
            self._wake_up()

    def _wake_up(self) -> None:
        self._awake = True
        with contextlib.suppress(OSError):  # it is full, so the loop wakes up anyway, or closed
            self._wakeup_writer.send(b"\0")

    def call_at(self, when: float, task: Task) -> Timer:
        """Run a task at a time."""
        timer = Timer(self, when, task)
        self._new_timers.append((when, next(self._order), timer))
        if not self._awake and when < self._sleep_until:
            self._wake_up()
        return timer

    def run_callback_soon(self, task: Task) -> None:
        """Run a user callback in the next turn; another thread takes over the loop if it takes long."""
        if self._ended.is_set():
            self._spawn(lambda: self._run_logged(task))
        else:
            self.call_soon(lambda: self._run_callback(task))

    # -- from the loop

    def watch(self, item: HasFileno, on_readable: Task | None, on_writable: Task | None = None) -> None:
        """Set the tasks to run when a descriptor is readable or writable; with None for both it is not watched."""
        descriptor = item.fileno()
        if descriptor < 0:  # closed by another thread, which removed it before
            return
        events = (EPOLLIN if on_readable else 0) | (EPOLLOUT if on_writable else 0)
        is_watched = descriptor in self._watched
        if not events:
            if is_watched:
                del self._watched[descriptor]
                self._poller.unregister(descriptor)
            return
        update = self._poller.modify if is_watched else self._poller.register
        update(descriptor, events)
        self._watched[descriptor] = (on_readable, on_writable)

    def coalesce_next_read(self) -> None:
        """Sleep for READ_DELAY_SECONDS before the next poll, unless there are tasks."""
        self._delays_next_read = True

    def call_before_sleep(self, task: Task) -> None:
        """Run a task right before the loop sleeps: a thread that it wakes finds the GIL free."""
        self._before_sleep_tasks.append(task)

    # -- the thread

    def _on_wakeup(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakeup_reader.recv(4096)

    def _thread_main(self) -> None:
        """Run the loop as leader, or wait as follower, until it ends; the main function of every thread of the loop."""
        try:
            while self._run_as_leader() and self._wait_as_follower():
                pass
        except BaseException:
            logger.critical("event loop %s: thread failed", self._name, exc_info=True)
        finally:
            if self.is_loop_thread and not self._ended.is_set():
                self._fail()
                self._run_logged(self._end)

    def _run_as_leader(self) -> bool:
        """Run turns until the loop ends or another thread leads; returns whether the loop continues."""
        ident = threading.get_ident()
        _leader_threads[ident] = self
        while self._leader_ident == ident and not self._stopping:
            try:
                self._turn(ident)
                self._failed_turns = 0
            except BaseException:  # a bug of the loop itself: all links depend on the next turn
                self._on_failed_turn()
        del _leader_threads[ident]
        if self._leader_ident == ident:
            self._end()
        return not self._stopping

    def _on_failed_turn(self) -> None:
        logger.exception("event loop %s: turn failed", self._name)
        self._failed_turns += 1
        if self._failed_turns >= MAX_FAILED_TURNS:
            self._fail()
        else:
            time.sleep(FAILED_TURN_PAUSE_SECONDS)

    def _fail(self) -> None:
        """End the loop because of errors, and have the owner close what depends on it."""
        logger.critical(
            "event loop %s ended after errors: its node no longer sends or receives; open the session again", self._name
        )
        self._stopping = True
        self._run_logged(self._on_failed)

    def _end(self) -> None:
        self._release()
        self._ended.set()
        self._signal_follower()
        for tasks in (self._tasks, self._end_of_turn_tasks, self._before_sleep_tasks):
            while tasks:  # user callbacks may be among the tasks
                self._run_logged(tasks.popleft())

    def _release(self) -> None:
        self._poller.close()
        self._wakeup_reader.close()
        self._wakeup_writer.close()

    def _turn(self, ident: int) -> None:
        self._sleep_until = self._next_timer()
        self._awake = False
        timeout = 0.0 if self._tasks or self._end_of_turn_tasks or self._new_timers else self._sleep_until - self.now()
        timeout = min(max(0.0, timeout), MAX_POLL_SECONDS)
        while self._before_sleep_tasks:
            self._run_logged(self._before_sleep_tasks.popleft())
        ready = self._poller.poll(self._before_sleep(timeout))
        self._awake = True
        self._run_ready(ready)
        self._run_timers()
        for _ in range(MAX_TASKS_PER_TURN):
            if not self._tasks:
                break
            self._run_logged(self._tasks.popleft())
            if self._leader_ident != ident:
                return
        for _ in range(len(self._end_of_turn_tasks)):
            self._run_logged(self._end_of_turn_tasks.popleft())

    def _run_ready(self, ready: list[tuple[int, int]]) -> None:
        for descriptor, events in ready:
            on_readable, on_writable = self._watched.get(descriptor, NO_HANDLERS)  # it may just have been removed
            if events & ~EPOLLOUT and on_readable:
                self._run_logged(on_readable)
            if events & ~EPOLLIN and on_writable:
                self._run_logged(on_writable)

    def _before_sleep(self, timeout: float) -> float:
        """Delay the next read or busy-poll, if that is due; returns the seconds to sleep afterwards."""
        is_delayed, self._delays_next_read = self._delays_next_read, False
        if timeout and is_delayed:
            time.sleep(READ_DELAY_SECONDS)
        elif timeout and self.busy_poller.should_poll and self.busy_poller.poll(self._poller.fileno(), timeout):
            return 0.0
        return timeout

    def _next_timer(self) -> float:
        while self._new_timers:
            heapq.heappush(self._timers, self._new_timers.popleft())
        if self.cancelled > max(MAX_CANCELLED_TIMERS, len(self._timers) // 2):
            self.cancelled = 0
            self._timers = [entry for entry in self._timers if entry[2].task is not None]
            heapq.heapify(self._timers)
        while self._timers and self._timers[0][2].task is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else NEVER

    def _run_timers(self) -> None:
        if not self._timers and not self._new_timers:
            return
        now = self.now()
        if self._next_timer() < now - MAX_TIMER_DELAY_SECONDS:
            self._run_ready(self._poller.poll(0))
        while self._next_timer() <= now:
            task = heapq.heappop(self._timers)[2].task
            if task is not None:
                self._run_logged(task)

    def _run_logged(self, task: Task) -> None:
        try:
            task()
        except BaseException:  # the loop serves every link: a bug that concerns one must not end the others
            logger.exception("event loop %s: task failed", self._name)


def detach_after_fork(item: HasFileno) -> None:
    """Redirect a descriptor to /dev/null in a forked child, without closing what it shares with the parent.

    The number stays in use until its owner closes it, so no lock is needed, which a thread may have held at the fork.
    """
    descriptor = item.fileno()
    if descriptor >= 0:
        null_descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(null_descriptor, descriptor, inheritable=False)
        os.close(null_descriptor)
