"""Threads for what would make the event loop wait: opening, closing, a link without room.

One thread for each, not the loop's own pool: that one is small, belongs to the application, and must be empty before
`asyncio.run` returns. A task that is cancelled leaves at once; what it started goes on alone, and whatever comes of it
is thrown away.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from zenspark.net.loop.executor import start_callback_thread

T = TypeVar("T")


def run_in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run something in a thread of its own; its outcome comes to the running loop, if that still runs."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        outcome = _outcome(work, future)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(outcome)

    start_callback_thread(run)
    return future


def _outcome(work: Callable[[], T], future: asyncio.Future[T]) -> Callable[[], None]:
    """Do it; what is to be done about that in the loop."""
    try:
        result = work()
    except BaseException as error:
        failure = error  # the name above is unbound after this block
        return lambda: None if future.done() else future.set_exception(failure)
    return lambda: None if future.done() else future.set_result(result)
