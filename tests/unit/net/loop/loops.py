"""Event loops for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.wait import TIMEOUT_SECONDS
from zenspark.net.loop.event_loop import EventLoop


@contextlib.contextmanager
def running_loop() -> Iterator[EventLoop]:
    """Start a loop, and stop it at the end of the block."""
    loop = EventLoop("test-loop")
    loop.start()
    try:
        yield loop
    finally:
        assert loop.stop(TIMEOUT_SECONDS)
