"""Waiting for what comes true by itself: no longer than it takes, and not forever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 30.0
"""Seconds until something that does not come is said to be missing, on a machine with much else to do."""

T = TypeVar("T")


def until(condition: Callable[[], T], patience: float = PATIENCE) -> T:
    """Wait for something to become true; what it gave then."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.002)
    return found
