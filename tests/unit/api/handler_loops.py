"""Loops and threads that run the callbacks of handlers, and channels, for tests of handlers."""

import threading
from collections.abc import Callable
from typing import Any

from zenspark.handlers.handler import (
    BoundHandler,
    Handler,
    bind_handler,
)

LONG_TIMEOUT_SECONDS = 30.0
"""Timeout of events that happen at once: only a failing test takes so long."""


class Threads:
    """Starts threads, where the session has a loop, and waits for them."""

    is_loop_thread = False

    def __init__(self) -> None:
        self.started: list[threading.Thread] = []

    def run_callback_soon(self, work: Callable[[], object]) -> None:
        self.spawn(work)

    def spawn(self, function: Callable[[], object]) -> None:
        thread = threading.Thread(target=function, daemon=True)
        self.started.append(thread)
        thread.start()

    def join(self) -> None:
        for thread in self.started:
            thread.join(LONG_TIMEOUT_SECONDS)
            assert not thread.is_alive()


class UnusedLoop:
    """Runs no callback: for handlers that must not need one."""

    is_loop_thread = True

    def run_callback_soon(self, work: Callable[[], object]) -> None:
        raise AssertionError("this handler needs no loop")


class ManualLoop:
    """A loop that runs one turn at a call."""

    is_loop_thread = True

    def __init__(self) -> None:
        self.work: list[Callable[[], object]] = []

    def run_callback_soon(self, work: Callable[[], object]) -> None:
        self.work.append(work)

    def turn(self) -> None:
        work, self.work = self.work, []
        for each in work:
            each()


def ignore(_: object) -> None:
    pass


def channel(capacity: int = 1000, resume: Callable[[Any], None] = ignore) -> Handler[Any]:
    return Handler(capacity, resume)


def bind(handler: object, loop: Threads | ManualLoop | None = None) -> BoundHandler:
    return bind_handler(handler, loop or UnusedLoop(), ignore)


class FailingHandler:
    """A handler with a sink of its own, which raises for every item."""

    def bind(self, resume: Callable[[Any], object]) -> BoundHandler:
        return BoundHandler(self, self)

    def push(self, item: object) -> bool:
        raise RuntimeError("this sink takes nothing")

    def push_many(self, items: object) -> bool:
        raise RuntimeError("this sink takes nothing")

    def close(self) -> None: ...
