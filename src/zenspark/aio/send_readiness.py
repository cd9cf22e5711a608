"""Voice: how a session speaks from an event loop that must never wait.

What the synchronous API does when a link has no room is to wait, in the caller's thread. Here a task waits first, with
others, for a thread that waits for that link; then it speaks in the loop, where it may by now be one message too many
but does not wait. As long as links have room, which is nearly always, there is no other thread and no pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from zenspark.aio.channels import MAX_ITEMS_PER_TURN
from zenspark.aio.run_in_thread import run_in_thread
from zenspark.net.io.driver import LinkDriver
from zenspark.net.io.writer import nonblocking
from zenspark.net.node.node import Node
from zenspark.wire.values import Congestion

P = ParamSpec("P")
R = TypeVar("R")
S_co = TypeVar("S_co", covariant=True)

SendTarget = tuple[Congestion, str | None]
"""How a message goes: what it does when there is no room, and the key it is published on, if it is."""


class SendReadiness:
    """Waits for room on behalf of the tasks of one session."""

    def __init__(self, node: Node) -> None:
        self.later = node.loop.call_soon
        """Has something done in the network's thread; takes no lock, so it can be called by the garbage collector."""
        self._node = node
        self._said = 0
        self._waits: dict[tuple[LinkDriver, Congestion], asyncio.Future[bool]] = {}

    def is_ready(self, way: SendTarget) -> bool:
        """Whether something can be said without waiting, and it is not the turn of other tasks."""
        self._said += 1
        return self._said % MAX_ITEMS_PER_TURN != 0 and not self._node.late_links(*way)

    async def wait_until_ready(self, way: SendTarget) -> None:
        """Return when something can be said without waiting, and other tasks had their turn."""
        await asyncio.sleep(0)
        while late := self._node.late_links(*way):
            await asyncio.wait([self._wait(driver, way[0]) for driver in late])

    def _wait(self, driver: LinkDriver, congestion: Congestion) -> asyncio.Future[bool]:
        """One thread for all who wait for the same link."""
        key = (driver, congestion)
        wait = self._waits.get(key)
        if wait is None:
            wait = self._waits[key] = run_in_thread(partial(driver.wait_until_drained, congestion))
            wait.add_done_callback(lambda _: self._waits.pop(key))
        return wait


class WrapsSync(Protocol[S_co]):
    """Something for tasks that stands for something of the synchronous API."""

    @property
    def _sync(self) -> S_co: ...

    @property
    def _readiness(self) -> SendReadiness: ...


class WrapsSender(WrapsSync[S_co], Protocol[S_co]):
    """Such a thing that says things."""

    def _send_target(self, args: tuple[object, ...], options: dict[str, Any]) -> SendTarget:
        """How what is said with these arguments goes."""


def async_send(
    method: Callable[Concatenate[S_co, P], R],
) -> Callable[Concatenate[WrapsSender[S_co], P], Coroutine[Any, Any, R]]:
    """The same method for tasks; its arguments are those of the synchronous one, for they are its."""

    @wraps(method)
    async def speak(self: WrapsSender[S_co], /, *args: P.args, **options: P.kwargs) -> R:
        way = self._send_target(args, options)
        if not self._readiness.is_ready(way):
            await self._readiness.wait_until_ready(way)
        with nonblocking:
            return method(self._sync, *args, **options)

    return speak


def async_in_thread(
    method: Callable[Concatenate[S_co, P], R],
) -> Callable[Concatenate[WrapsSync[S_co], P], Coroutine[Any, Any, R]]:
    """The same method for tasks, if it has much to say: in a thread, to the end even if the task is cancelled."""

    @wraps(method)
    async def speak(self: WrapsSync[S_co], /, *args: P.args, **options: P.kwargs) -> R:
        return await run_in_thread(partial(method, self._sync, *args, **options))

    return speak
