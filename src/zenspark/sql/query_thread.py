"""A thread for the calls of one query, which keeps the caller's thread free for signals.

A call into the engine returns when its rows are available, which may take hours, and Python handles signals in the main
thread only, between two of its own steps. The caller therefore waits for the call, and a signal whose handler raises,
as that of Ctrl-C does, interrupts the query.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")

NAME = "sql query"
SIGNAL_CHECK_INTERVAL_SECONDS = 0.5
"""Seconds after which a waiting caller checks for signals; on POSIX systems a signal wakes it at once."""
INTERRUPT_RETRY_INTERVAL_SECONDS = 0.02
"""Seconds between two interrupts of a query: one that comes before the query has started is lost."""


class QueryThread:
    """Makes the calls of one query."""

    def __init__(self, interrupt: Callable[[], object]) -> None:
        """Take the function that interrupts a running call; the thread starts with the first call."""
        self._interrupt = interrupt
        self._pool = ThreadPoolExecutor(1, NAME)

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of a call; it is interrupted, and has ended, if an exception ends the wait for it."""
        running: Future[T] = Future()
        try:
            self._pool.submit(_run, running, function)
            while not wait([running], SIGNAL_CHECK_INTERVAL_SECONDS).done:
                pass
        except BaseException:  # a signal may come at any moment, also before the call has started
            if not running.cancel():
                self._interrupt_until_done(running)
            raise
        return running.result()

    def _interrupt_until_done(self, running: Future[T]) -> None:
        while not running.done():
            self._interrupt()
            wait([running], INTERRUPT_RETRY_INTERVAL_SECONDS)

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown()


def _run(running: Future[T], function: Callable[[], T]) -> None:
    if not running.set_running_or_notify_cancel():
        return
    try:
        running.set_result(function())
    except BaseException as error:
        running.set_exception(error)
