"""SendReadiness: sending from an event loop without blocking it.

The synchronous API blocks the calling thread while a link has unsent bytes. Here a task first awaits a thread that
waits for that link, one thread for all tasks that wait for it; then it sends in the event loop, which adds at most one
message to the unsent bytes but does not block. As long as the links take all bytes, which is nearly always, there is no
other thread and no pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from zenspark.aio.channels import MAX_ITEMS_PER_TURN
from zenspark.aio.documentation import document
from zenspark.aio.run_in_thread import run_in_thread
from zenspark.engine.runtime import SessionRuntime
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.io.writer import nonblocking
from zenspark.wire.values import Congestion

P = ParamSpec("P")
R = TypeVar("R")
S_co = TypeVar("S_co", covariant=True)

SendTarget = tuple[Congestion, str | None]
"""Congestion control of a message, and the key it is published on; None for messages to all links."""


class SendReadiness:
    """Waits for links with unsent bytes on behalf of the tasks of one session."""

    def __init__(self, runtime: SessionRuntime) -> None:
        self.call_soon = runtime.call_soon
        """Runs a function in the network thread; takes no lock, so that the garbage collector may call it."""
        self._blocking_links = runtime.node.blocking_links
        self._sent = 0
        self._waits: dict[tuple[LinkDriver, Congestion], asyncio.Future[bool]] = {}

    def is_ready(self, target: SendTarget) -> bool:
        """Return whether a message can be sent without blocking, and it is not the turn of other tasks."""
        self._sent += 1
        return self._sent % MAX_ITEMS_PER_TURN != 0 and not self._blocking_links(*target)

    async def wait_until_ready(self, target: SendTarget) -> None:
        """Wait until a message can be sent without blocking, and other tasks had their turn."""
        await asyncio.sleep(0)
        while blocking := self._blocking_links(*target):
            await asyncio.wait([self._wait(driver, target[0]) for driver in blocking])

    def _wait(self, driver: LinkDriver, congestion: Congestion) -> asyncio.Future[bool]:
        """Start a thread that waits for a link, or join the one that does."""
        key = (driver, congestion)
        wait = self._waits.get(key)
        if wait is None:
            wait = self._waits[key] = run_in_thread(partial(driver.wait_until_drained, congestion))
            wait.add_done_callback(lambda _: self._waits.pop(key))
        return wait


class WrapsSync(Protocol[S_co]):
    """An asynchronous wrapper of an object of the synchronous API."""

    @property
    def _sync(self) -> S_co: ...

    @property
    def _readiness(self) -> SendReadiness: ...


class WrapsSender(WrapsSync[S_co], Protocol[S_co]):
    """An asynchronous wrapper with methods that send."""

    def _send_target(self, args: tuple[object, ...], options: dict[str, Any]) -> SendTarget:
        """Return congestion control and key of the message that these arguments make."""


def async_send(
    method: Callable[Concatenate[S_co, P], R], example: str
) -> Callable[Concatenate[WrapsSender[S_co], P], Coroutine[Any, Any, R]]:
    """Make the coroutine method of a synchronous method that sends one message; the arguments are the same."""

    @wraps(method)
    async def send(self: WrapsSender[S_co], /, *args: P.args, **options: P.kwargs) -> R:
        target = self._send_target(args, options)
        if not self._readiness.is_ready(target):
            await self._readiness.wait_until_ready(target)
        with nonblocking:
            return method(self._sync, *args, **options)

    document(send, method, "`await` it: it returns when the message can be sent without blocking.", example)
    return send


def async_in_thread(
    method: Callable[Concatenate[S_co, P], R], example: str
) -> Callable[Concatenate[WrapsSync[S_co], P], Coroutine[Any, Any, R]]:
    """Make the coroutine method of a synchronous method that sends many messages, in a thread."""

    @wraps(method)
    async def send(self: WrapsSync[S_co], /, *args: P.args, **options: P.kwargs) -> R:
        return await run_in_thread(partial(method, self._sync, *args, **options))

    document(send, method, "`await` it: it runs in a thread, to the end even if the task is cancelled.", example)
    return send
