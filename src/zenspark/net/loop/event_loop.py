"""The loop: one thread that waits for sockets and for time, and runs what is due.

Everything that reads from the network happens here, so what runs in it must be short and must not wait. Other
threads hand it work with `call_soon`, which wakes it if it sleeps.

Callbacks of users are the exception: handing each to a thread of its own would cost two changes of threads, more than
most callbacks take. So the loop calls them itself, but it is *lent* meanwhile: another thread stands by, and if the
callback has not returned after GRACE, that thread becomes the loop and goes on. Whoever comes back from a callback and
is no longer the loop finishes what it was doing, then stands by in turn. A callback that is about to wait for the
network anyway says so (`yield_leadership`), and does not make it wait for GRACE.

The loop outlives mistakes. An exception of what it runs is logged; so is one of the loop itself, which then goes on
with the next turn. Only if turns fail one after the other it gives up: it logs that and calls `on_failed`, so that its
owner can end what depends on it.

A forked child has no such thread, only a copy of what it worked on. There `detach_after_fork` cuts the copy off: descriptors are
shared with the parent, and what is done to the poller in one process is done in both.
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
from zenspark.net.loop.poller import EPOLLIN, EPOLLOUT, make_poller
from zenspark.net.loop.read_coalescing import READ_DELAY_SECONDS

logger = logging.getLogger("zenspark.net")

Task = Callable[[], object]

NO_HANDLERS = (None, None)
FOREVER, LONG_AGO = float("inf"), float("-inf")
MAX_CANCELLED_TIMERS = 1000
"""How many cancelled timers may wait for their time; more are thrown out, so that quick work leaves no pile."""


MAX_POLL_SECONDS = 3600.0
"""How long one wait for the network lasts at most: pollers count milliseconds in 32 bits, and raise beyond."""
MAX_TIMER_DELAY_SECONDS = 0.25
"""A timer that is later than this is late because of a stall: what arrived meanwhile is read before it runs."""
MAX_FAILED_TURNS = 10
"""Turns that may fail one after the other before the loop gives up,"""
FAILED_TURN_PAUSE_SECONDS = 0.1
"""and the pause after each: what is wrong may pass, such as a want of memory."""
MAX_TASKS_PER_TURN = 1000
"""How many pieces of work are done before sockets get their turn: each may bring another."""
CALLBACK_GRACE_SECONDS = 0.005
"""Seconds a callback may take before another thread becomes the loop."""

_callback_threads: dict[int, EventLoop] = {}
"""The threads that run a callback, each with the loop that it is or was."""


_leader_threads: dict[int, EventLoop] = {}
"""The threads that are loops."""


def current_loop() -> EventLoop | None:
    """The loop the calling thread is, if it is one, and not lent."""
    loop = _leader_threads.get(threading.get_ident())
    return loop if loop is not None and loop.is_loop_internal else None


def yield_leadership() -> None:
    """Call this before waiting for anything the network brings: whoever is the loop lets another thread be it."""
    loop = _callback_threads.get(threading.get_ident())
    if loop is not None:
        loop._yield_leadership()


def in_callback() -> bool:
    """Whether the caller is a callback of a user."""
    return threading.get_ident() in _callback_threads


class HasFileno(Protocol):
    """Something with a descriptor."""

    def fileno(self) -> int: ...


class Timer:
    """Work that waits for its time; `cancel` makes it never come."""

    __slots__ = ("_loop", "task", "when")

    def __init__(self, loop: EventLoop, when: float, work: Task) -> None:
        self._loop = loop
        self.when = when
        self.task: Task | None = work

    def cancel(self) -> None:
        """From any thread; it may be too late."""
        if self.task is not None:
            self.task = None
            self._loop.cancelled += 1


class EventLoop:
    """A poller, a queue of work and a heap of timers in one daemon thread."""

    def __init__(self, name: str, on_failed: Task = lambda: None) -> None:
        self._poller = make_poller()
        self._watched: dict[int, tuple[Task | None, Task | None]] = {}
        self._tasks: deque[Task] = deque()
        self._end_of_turn_tasks: deque[Task] = deque()
        self._before_sleep_tasks: deque[Task] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._new_timers: deque[tuple[float, int, Timer]] = deque()
        """Those that are not in the heap yet."""
        self._order = count()
        self.cancelled = 0
        """About how many timers wait for nothing."""
        self._awake = True
        self._sleep_until = 0.0
        """Until when it sleeps."""
        self.busy_poller = BusyPoller()
        self._delays_next_read = False
        """Whether to sleep a moment before the next look at the network."""
        self._stopping = False
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        self._wakeup_reader.setblocking(False)
        self._wakeup_writer.setblocking(False)
        self.watch(self._wakeup_reader, self._on_wakeup)
        self._name = name
        self._thread: int | None = None
        """The thread that is the loop."""
        self._leader_lock = threading.Lock()
        """Held for a moment by whoever changes that."""
        self._callback_since = 0.0
        """Since when it is lent; 0 if it is not."""
        self._callbacks_run = 0
        self._followers = 0
        self._follower_signal = threading.Lock()
        """Free when the thread that stands by is called."""
        self._follower_signal.acquire()
        self._follower_waits_for_signal = False
        """Whether that thread sleeps until called, instead of looking every now and then."""
        self._ended = threading.Event()
        self._failed_turns = 0
        self._on_failed = on_failed

    def start(self) -> None:
        """Begin to run."""
        begun = threading.Event()

        def begin() -> None:
            self._thread = threading.get_ident()
            begun.set()
            self._thread_main()

        self._spawn(begin)
        begun.wait()

    def _spawn(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=self._name, daemon=True).start()

    def stop(self, timeout: float = 10.0) -> bool:
        """Run what is queued, then end. Waits for that, unless the caller is the loop; False if it takes too long."""
        if self._thread is None:
            self._release()
            return True
        self.call_soon(self._stop)
        if self.is_loop_internal:
            return True
        yield_leadership()
        return self._ended.wait(timeout)

    def _stop(self) -> None:
        self._stopping = True

    def detach_after_fork(self) -> None:
        """In a forked child: leave the parent's loop alone, whatever is called here from now on."""
        for item in (self._wakeup_reader, self._wakeup_writer, self._poller):
            detach_after_fork(item)
        self._tasks.clear()
        self._end_of_turn_tasks.clear()
        self._before_sleep_tasks.clear()
        self._timers.clear()
        self._new_timers.clear()

    @property
    def is_loop_internal(self) -> bool:
        """Whether the caller runs in the loop, and not in what it was lent to."""
        return threading.get_ident() == self._thread and not self._callback_since

    @property
    def is_loop_thread(self) -> bool:
        """Whether the calling thread is the loop, lent or not."""
        return threading.get_ident() == self._thread

    @staticmethod
    def now() -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()

    # -- from any thread

    def call_soon(self, work: Task) -> None:
        """Run this next."""
        self._tasks.append(work)
        if not self._awake:
            self._wake_up()

    def call_at_end_of_turn(self, work: Task) -> None:
        """Run this when there is nothing else to do: what is done before may add to it."""
        self._end_of_turn_tasks.append(work)
        if not self._awake:
            self._wake_up()

    def _wake_up(self) -> None:
        self._awake = True
        with contextlib.suppress(OSError):  # it rings already, or nobody is left to hear it
            self._wakeup_writer.send(b"\0")

    def call_at(self, when: float, work: Task) -> Timer:
        """Run this at a time."""
        timer = Timer(self, when, work)
        self._new_timers.append((when, next(self._order), timer))
        if not self._awake and when < self._sleep_until:
            self._wake_up()
        return timer

    def run_callback_soon(self, work: Task) -> None:
        """Run this next, while another thread can become the loop if it takes its time."""
        if self._ended.is_set():
            self._spawn(lambda: self._run_logged(work))
        else:
            self.call_soon(lambda: self._run_callback(work))

    # -- from the loop

    def watch(self, item: HasFileno, on_readable: Task | None, on_writable: Task | None = None) -> None:
        """Call back when a descriptor can be read or written; None and None to watch it no more."""
        descriptor = item.fileno()
        if descriptor < 0:  # closed by another thread, which took it out before
            return
        events = (EPOLLIN if on_readable else 0) | (EPOLLOUT if on_writable else 0)
        known = descriptor in self._watched
        if not events:
            if known:
                del self._watched[descriptor]
                self._poller.unregister(descriptor)
            return
        change = self._poller.modify if known else self._poller.register
        change(descriptor, events)
        self._watched[descriptor] = (on_readable, on_writable)

    def coalesce_next_read(self) -> None:
        """Sleep a moment before the next look at the network, unless there is something else to do."""
        self._delays_next_read = True

    def call_before_sleep(self, ring: Task) -> None:
        """Run this right before falling asleep: whoever it wakes finds Python's lock free, and need not sleep again."""
        self._before_sleep_tasks.append(ring)

    # -- the thread

    def _on_wakeup(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakeup_reader.recv(4096)

    def _thread_main(self) -> None:
        """What every thread here runs: be the loop, or stand by to become it."""
        try:
            while self._run_as_leader() and self._wait_as_follower():
                pass
        except BaseException:
            logger.critical("the thread of the network loop failed", exc_info=True)
        finally:
            if self.is_loop_thread and not self._ended.is_set():
                self._fail()
                self._run_logged(self._end)

    def _run_as_leader(self) -> bool:
        """Be the loop, until it ends or another thread is; whether it goes on."""
        me = threading.get_ident()
        _leader_threads[me] = self
        while self._thread == me and not self._stopping:
            try:
                self._turn(me)
                self._failed_turns = 0
            except BaseException:  # a mistake of the loop itself: all links depend on the next turn
                self._on_failed_turn()
        del _leader_threads[me]
        if self._thread == me:
            self._end()
        return not self._stopping

    def _on_failed_turn(self) -> None:
        logger.exception("a turn of the network loop failed")
        self._failed_turns += 1
        if self._failed_turns >= MAX_FAILED_TURNS:
            self._fail()
        else:
            time.sleep(FAILED_TURN_PAUSE_SECONDS)

    def _fail(self) -> None:
        """The loop cannot go on: say so, and let the owner end what depends on it."""
        logger.critical("the network loop has ended: this node neither sends nor receives any more")
        self._stopping = True
        self._run_logged(self._on_failed)

    def _end(self) -> None:
        self._release()
        self._ended.set()
        self._signal_follower()
        for work in (self._tasks, self._end_of_turn_tasks, self._before_sleep_tasks):
            while work:  # somebody's callback may be among it
                self._run_logged(work.popleft())

    def _release(self) -> None:
        self._poller.close()
        self._wakeup_reader.close()
        self._wakeup_writer.close()

    def _turn(self, me: int) -> None:
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
            if self._thread != me:
                return
        for _ in range(len(self._end_of_turn_tasks)):
            self._run_logged(self._end_of_turn_tasks.popleft())

    def _run_ready(self, ready: list[tuple[int, int]]) -> None:
        for descriptor, events in ready:
            on_readable, on_writable = self._watched.get(descriptor, NO_HANDLERS)  # it may have just been taken out
            if events & ~EPOLLOUT and on_readable:
                self._run_logged(on_readable)
            if events & ~EPOLLIN and on_writable:
                self._run_logged(on_writable)

    def _before_sleep(self, timeout: float) -> float:
        """Do what is better than falling asleep at once, if anything is; how long to sleep after it."""
        rests, self._delays_next_read = self._delays_next_read, False
        if timeout and rests:
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
        return self._timers[0][0] if self._timers else FOREVER

    def _run_timers(self) -> None:
        if not self._timers and not self._new_timers:
            return
        now = self.now()
        if self._next_timer() < now - MAX_TIMER_DELAY_SECONDS:
            self._run_ready(self._poller.poll(0))
        while self._next_timer() <= now:
            work = heapq.heappop(self._timers)[2].task
            if work is not None:
                self._run_logged(work)

    # -- lending it

    def _run_callback(self, work: Task) -> None:
        """In the loop: run something that may take its time, and perhaps come back without being the loop."""
        me = threading.get_ident()
        _callback_threads[me] = self
        self._callbacks_run += 1
        self._callback_since = self.now()
        if self._follower_waits_for_signal:
            self._signal_follower()
        elif not self._followers:
            self._spawn(self._thread_main)
        try:
            work()
        finally:
            del _callback_threads[me]
            with self._leader_lock:
                if self._thread == me:
                    self._callback_since = 0.0

    def _yield_leadership(self) -> None:
        with self._leader_lock:
            if self.is_loop_thread and self._callback_since:
                self._callback_since = LONG_AGO
                self._signal_follower()

    def _signal_follower(self) -> None:
        with contextlib.suppress(RuntimeError):  # it rings already
            self._follower_signal.release()

    def _wait_as_follower(self) -> bool:
        """Wait to become the loop; False if it has ended, or if there is one already who waits."""
        with self._leader_lock:
            if self._followers:
                return False
            self._followers = 1
        try:
            seen = -1
            while not self._promote():
                if self._stopping:
                    return False
                loans = self._callbacks_run
                self._follower_wait(loans == seen)
                seen = loans
            return True
        finally:
            self._followers = 0

    def _follower_wait(self, well: bool) -> None:
        """Look again after a while, or, if nothing was lent since the last look, when called."""
        self._follower_waits_for_signal = well
        if well and not self._callback_since:
            self._follower_signal.acquire()
        else:
            self._follower_signal.acquire(timeout=CALLBACK_GRACE_SECONDS)
        self._follower_waits_for_signal = False

    def _promote(self) -> bool:
        with self._leader_lock:
            if not self._callback_since or self.now() - self._callback_since < CALLBACK_GRACE_SECONDS:
                return False
            self._thread = threading.get_ident()
            self._callback_since = 0.0
            return True

    @staticmethod
    def _run_logged(work: Task) -> None:
        try:
            work()
        except BaseException:  # the loop serves every link: a mistake about one must not end the others
            logger.exception("something went wrong in the network loop")


def detach_after_fork(item: HasFileno) -> None:
    """In a forked child: cut a descriptor off what it shares with the parent, and end nothing there.

    The number stays taken until its owner closes it, so no lock is needed, which somebody may have held at the fork.
    """
    descriptor = item.fileno()
    if descriptor >= 0:
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nowhere, descriptor, inheritable=False)
        os.close(nowhere)
