"""Work in threads: its outcome reaches the loop, or is dropped."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.unit.aio.event_loop import in_loop, until
from zenspark.aio.run_in_thread import run_in_thread
from zenspark.errors import UsageError


@in_loop
async def test_result_of_the_thread_is_awaited() -> None:
    here = threading.current_thread()
    assert await run_in_thread(threading.current_thread) is not here


@in_loop
async def test_exception_of_the_thread_is_raised() -> None:
    def fail() -> None:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        await run_in_thread(fail)


@in_loop
async def test_cancelled_task_returns_at_once_and_the_thread_goes_on() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait()
        done.set()

    future = run_in_thread(work)
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    go.set()
    await until(done.is_set)


def test_result_for_a_closed_loop_is_discarded(recwarn: pytest.WarningsRecorder) -> None:
    go, seen = threading.Event(), []

    async def leave() -> None:
        def work() -> None:
            seen.append(threading.current_thread())
            go.wait()

        run_in_thread(work)
        await until(lambda: seen)

    asyncio.run(leave())
    go.set()
    seen[0].join(10)
    assert not seen[0].is_alive()
    assert not [warning for warning in recwarn if "thread" in str(warning.message).lower()]
