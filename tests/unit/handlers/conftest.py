"""Loops and threads that run callbacks."""

from collections.abc import Iterator

import pytest

from tests.unit.api.handler_loops import ManualLoop, Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads()
    yield threads
    threads.join()


@pytest.fixture
def manual_loop() -> ManualLoop:
    return ManualLoop()
