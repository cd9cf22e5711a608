"""Threads for calls that would block the event loop: opening, closing, waiting for a link with unsent bytes.

One thread for each, not the default executor of the loop: that one is small, belongs to the application, and must be
idle before `asyncio.run` returns. A task that is cancelled returns at once; its call goes on, and the result is
discarded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from zenspark.net.loop.executor import start_callback_thread

T = TypeVar("T")


def run_in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Call a function in a thread of its own; a future of the running loop gets its result or exception."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        outcome = _outcome(work, future)
        with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits any more
            loop.call_soon_threadsafe(outcome)

    start_callback_thread(run)
    return future


def _outcome(work: Callable[[], T], future: asyncio.Future[T]) -> Callable[[], None]:
    """Call the function, and return what sets its result in the loop."""
    try:
        result = work()
    except BaseException as error:
        failure = error  # the name above is unbound after this block
        return lambda: None if future.done() else future.set_exception(failure)
    return lambda: None if future.done() else future.set_result(result)
