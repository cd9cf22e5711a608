"""The loop: one thread that waits for sockets and for time, and runs what is due.

Everything that reads from the network happens here, so what runs in it must be short and must not wait. Other
threads hand it work with `call_soon`, which wakes it if it sleeps.

Callbacks of users are the exception: handing each to a thread of its own would cost two changes of threads, more than
most callbacks take. So the loop calls them itself, but it is *lent* meanwhile: another thread stands by, and if the
callback has not returned after GRACE, that thread becomes the loop and goes on. Whoever comes back from a callback and
is no longer the loop finishes what it was doing, then stands by in turn. A callback that is about to wait for the
network anyway says so (`hand_over`), and does not make it wait for GRACE.

The loop outlives mistakes. An exception of what it runs is logged; so is one of the loop itself, which then goes on
with the next turn. Only if turns fail one after the other it gives up: it logs that and calls `on_failed`, so that its
owner can end what depends on it.

A forked child has no such thread, only a copy of what it worked on. There `sever` cuts the copy off: descriptors are
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

from zenspark.net.loop.busy_poll import Looking
from zenspark.net.loop.poller import EPOLLIN, EPOLLOUT, poller
from zenspark.net.loop.read_coalescing import REST

logger = logging.getLogger("zenspark.net")

Work = Callable[[], object]

NOBODY = (None, None)
FOREVER, LONG_AGO = float("inf"), float("-inf")
MANY_CANCELLED = 1000
"""How many cancelled timers may wait for their time; more are thrown out, so that quick work leaves no pile."""


MAX_POLL_SECONDS = 3600.0
"""How long one wait for the network lasts at most: pollers count milliseconds in 32 bits, and raise beyond."""
MAX_TIMER_DELAY_SECONDS = 0.25
"""A timer that is later than this is late because of a stall: what arrived meanwhile is read before it runs."""
MAX_FAILED_TURNS = 10
"""Turns that may fail one after the other before the loop gives up,"""
FAILED_TURN_PAUSE_SECONDS = 0.1
"""and the pause after each: what is wrong may pass, such as a want of memory."""
MOST_WORK = 1000
"""How many pieces of work are done before sockets get their turn: each may bring another."""
GRACE = 0.005
"""Seconds a callback may take before another thread becomes the loop."""

_borrowers: dict[int, Loop] = {}
"""The threads that run a callback, each with the loop that it is or was."""


_leaders: dict[int, Loop] = {}
"""The threads that are loops."""


def current_loop() -> Loop | None:
    """The loop the calling thread is, if it is one, and not lent."""
    loop = _leaders.get(threading.get_ident())
    return loop if loop is not None and loop.is_current else None


def hand_over() -> None:
    """Call this before waiting for anything the network brings: whoever is the loop lets another thread be it."""
    loop = _borrowers.get(threading.get_ident())
    if loop is not None:
        loop._hand_over()


def in_callback() -> bool:
    """Whether the caller is a callback of a user."""
    return threading.get_ident() in _borrowers


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
    """A poller, a queue of work and a heap of timers in one daemon thread."""

    def __init__(self, name: str) -> None:
        self._poller = poller()
        self._watched: dict[int, tuple[Work | None, Work | None]] = {}
        self._work: deque[Work] = deque()
        self._last: deque[Work] = deque()
        self._bells: deque[Work] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._new_timers: deque[tuple[float, int, Timer]] = deque()
        """Those that are not in the heap yet."""
        self._order = count()
        self.cancelled = 0
        """About how many timers wait for nothing."""
        self._awake = True
        self._until = 0.0
        """Until when it sleeps."""
        self.looking = Looking()
        self._rests = False
        """Whether to sleep a moment before the next look at the network."""
        self._stopping = False
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)
        self.watch(self._bell, self._on_bell)
        self._name = name
        self._thread: int | None = None
        """The thread that is the loop."""
        self._baton = threading.Lock()
        """Held for a moment by whoever changes that."""
        self._lent_at = 0.0
        """Since when it is lent; 0 if it is not."""
        self._loans = 0
        self._stand_bys = 0
        self._call = threading.Lock()
        """Free when the thread that stands by is called."""
        self._call.acquire()
        self._sleeps_well = False
        """Whether that thread sleeps until called, instead of looking every now and then."""
        self._ended = threading.Event()
        self._failed_turns = 0
        self.on_failed: Work = lambda: None
        """Called in the loop's thread when the loop cannot go on: nothing is read and no timer runs any more."""

    def start(self) -> None:
        """Begin to run."""
        begun = threading.Event()

        def begin() -> None:
            self._thread = threading.get_ident()
            begun.set()
            self._serve()

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
        if self.is_current:
            return True
        hand_over()
        return self._ended.wait(timeout)

    def _stop(self) -> None:
        self._stopping = True

    def sever(self) -> None:
        """In a forked child: leave the parent's loop alone, whatever is called here from now on."""
        for item in (self._bell, self._button, self._poller):
            sever(item)
        self._work.clear()
        self._last.clear()
        self._bells.clear()
        self._timers.clear()
        self._new_timers.clear()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in the loop, and not in what it was lent to."""
        return threading.get_ident() == self._thread and not self._lent_at

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread is the loop, lent or not."""
        return threading.get_ident() == self._thread

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

    def call_last(self, work: Work) -> None:
        """Run this when there is nothing else to do: what is done before may add to it."""
        self._last.append(work)
        if not self._awake:
            self._ring()

    def _ring(self) -> None:
        self._awake = True
        with contextlib.suppress(OSError):  # it rings already, or nobody is left to hear it
            self._button.send(b"\0")

    def call_at(self, when: float, work: Work) -> Timer:
        """Run this at a time."""
        timer = Timer(self, when, work)
        self._new_timers.append((when, next(self._order), timer))
        if not self._awake and when < self._until:
            self._ring()
        return timer

    def lend_soon(self, work: Work) -> None:
        """Run this next, while another thread can become the loop if it takes its time."""
        if self._ended.is_set():
            self._spawn(lambda: self._guarded(work))
        else:
            self.call_soon(lambda: self._lend(work))

    # -- from the loop

    def watch(self, item: HasFileno, on_readable: Work | None, on_writable: Work | None = None) -> None:
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

    def rest(self) -> None:
        """Sleep a moment before the next look at the network, unless there is something else to do."""
        self._rests = True

    def call_asleep(self, ring: Work) -> None:
        """Run this right before falling asleep: whoever it wakes finds Python's lock free, and need not sleep again."""
        self._bells.append(ring)

    # -- the thread

    def _on_bell(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(4096)

    def _serve(self) -> None:
        """What every thread here runs: be the loop, or stand by to become it."""
        try:
            while self._lead() and self._stand_by():
                pass
        except BaseException:
            logger.critical("the thread of the network loop failed", exc_info=True)
        finally:
            if self.is_mine and not self._ended.is_set():
                self._fail()
                self._guarded(self._end)

    def _lead(self) -> bool:
        """Be the loop, until it ends or another thread is; whether it goes on."""
        me = threading.get_ident()
        _leaders[me] = self
        while self._thread == me and not self._stopping:
            try:
                self._turn(me)
                self._failed_turns = 0
            except BaseException:  # a mistake of the loop itself: all links depend on the next turn
                self._on_failed_turn()
        del _leaders[me]
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
        self._guarded(self.on_failed)

    def _end(self) -> None:
        self._release()
        self._ended.set()
        self._ring_for_stand_by()
        for work in (self._work, self._last, self._bells):
            while work:  # somebody's callback may be among it
                self._guarded(work.popleft())

    def _release(self) -> None:
        self._poller.close()
        self._bell.close()
        self._button.close()

    def _turn(self, me: int) -> None:
        self._until = self._until_timer()
        self._awake = False
        timeout = 0.0 if self._work or self._last or self._new_timers else self._until - self.now()
        timeout = min(max(0.0, timeout), MAX_POLL_SECONDS)
        while self._bells:
            self._guarded(self._bells.popleft())
        ready = self._poller.poll(self._rested_or_looked(timeout))
        self._awake = True
        self._run_ready(ready)
        self._run_timers()
        for _ in range(MOST_WORK):
            if not self._work:
                break
            self._guarded(self._work.popleft())
            if self._thread != me:
                return
        for _ in range(len(self._last)):
            self._guarded(self._last.popleft())

    def _run_ready(self, ready: list[tuple[int, int]]) -> None:
        for descriptor, events in ready:
            on_readable, on_writable = self._watched.get(descriptor, NOBODY)  # it may have just been taken out
            if events & ~EPOLLOUT and on_readable:
                self._guarded(on_readable)
            if events & ~EPOLLIN and on_writable:
                self._guarded(on_writable)

    def _rested_or_looked(self, timeout: float) -> float:
        """Do what is better than falling asleep at once, if anything is; how long to sleep after it."""
        rests, self._rests = self._rests, False
        if timeout and rests:
            time.sleep(REST)
        elif timeout and self.looking.is_due and self.looking.finds(self._poller.fileno(), timeout):
            return 0.0
        return timeout

    def _until_timer(self) -> float:
        while self._new_timers:
            heapq.heappush(self._timers, self._new_timers.popleft())
        if self.cancelled > max(MANY_CANCELLED, len(self._timers) // 2):
            self.cancelled = 0
            self._timers = [entry for entry in self._timers if entry[2].work is not None]
            heapq.heapify(self._timers)
        while self._timers and self._timers[0][2].work is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else FOREVER

    def _run_timers(self) -> None:
        if not self._timers and not self._new_timers:
            return
        now = self.now()
        if self._until_timer() < now - MAX_TIMER_DELAY_SECONDS:
            self._run_ready(self._poller.poll(0))
        while self._until_timer() <= now:
            work = heapq.heappop(self._timers)[2].work
            if work is not None:
                self._guarded(work)

    # -- lending it

    def _lend(self, work: Work) -> None:
        """In the loop: run something that may take its time, and perhaps come back without being the loop."""
        me = threading.get_ident()
        _borrowers[me] = self
        self._loans += 1
        self._lent_at = self.now()
        if self._sleeps_well:
            self._ring_for_stand_by()
        elif not self._stand_bys:
            self._spawn(self._serve)
        try:
            work()
        finally:
            del _borrowers[me]
            with self._baton:
                if self._thread == me:
                    self._lent_at = 0.0

    def _hand_over(self) -> None:
        with self._baton:
            if self.is_mine and self._lent_at:
                self._lent_at = LONG_AGO
                self._ring_for_stand_by()

    def _ring_for_stand_by(self) -> None:
        with contextlib.suppress(RuntimeError):  # it rings already
            self._call.release()

    def _stand_by(self) -> bool:
        """Wait to become the loop; False if it has ended, or if there is one already who waits."""
        with self._baton:
            if self._stand_bys:
                return False
            self._stand_bys = 1
        try:
            seen = -1
            while not self._take_over():
                if self._stopping:
                    return False
                loans = self._loans
                self._sleep(loans == seen)
                seen = loans
            return True
        finally:
            self._stand_bys = 0

    def _sleep(self, well: bool) -> None:
        """Look again after a while, or, if nothing was lent since the last look, when called."""
        self._sleeps_well = well
        if well and not self._lent_at:
            self._call.acquire()
        else:
            self._call.acquire(timeout=GRACE)
        self._sleeps_well = False

    def _take_over(self) -> bool:
        with self._baton:
            if not self._lent_at or self.now() - self._lent_at < GRACE:
                return False
            self._thread = threading.get_ident()
            self._lent_at = 0.0
            return True

    @staticmethod
    def _guarded(work: Work) -> None:
        try:
            work()
        except BaseException:  # the loop serves every link: a mistake about one must not end the others
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
