"""Waiting for what comes true by itself: no longer than it takes, and not forever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

TIMEOUT_SECONDS = 30.0
"""Seconds until something that does not happen is a failure, on a busy machine."""

T = TypeVar("T")


def until(condition: Callable[[], T], timeout: float = TIMEOUT_SECONDS) -> T:
    """Wait for something to become true; what it gave then."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.002)
    return found
