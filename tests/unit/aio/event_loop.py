"""Tests that run in an event loop, with sessions of asyncio; every wait is for a condition, and has a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec

import zenspark.aio as aio
from tests.unit.api.sessions import address, config, has_neighbour
from zenspark.api.session import Session

TEST_TIMEOUT_SECONDS = 20.0
"""Seconds after which a test is cancelled."""

P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine; debug mode notices what is called in the loop from another thread."""

    @wraps(test)
    def run(*args: P.args, **options: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **options), TEST_TIMEOUT_SECONDS), debug=True)

    return run


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, while other tasks run."""
    while not condition():  # noqa: ASYNC110 - no event announces it
        await asyncio.sleep(0.001)


async def run_other_tasks(count: int = 5) -> None:
    """Let other tasks run as far as they get without waiting."""
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def isolated_session() -> AsyncIterator[aio.Session]:
    """A peer without neighbours."""
    async with aio.open(config("peer")) as session:
        yield session


@asynccontextmanager
async def connected_session(other: Session, mode: str, **others: object) -> AsyncIterator[aio.Session]:
    """A neighbour of a session, known to it."""
    async with aio.open(config(mode, (), [address(other)], **others)) as session:
        await until(lambda: has_neighbour(other, session._sync) and has_neighbour(session._sync, other))
        yield session


def client_of(router: Session, **others: object) -> AbstractAsyncContextManager[aio.Session]:
    """A client of a session, known to it."""
    return connected_session(router, "client", **others)
