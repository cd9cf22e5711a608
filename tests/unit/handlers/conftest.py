"""Loops and threads that run callbacks."""

from collections.abc import Iterator

import pytest

from tests.unit.api.receiving import Threads, Turns


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads()
    yield threads
    threads.join()


@pytest.fixture
def turns() -> Turns:
    return Turns()
