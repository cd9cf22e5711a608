"""Executors of user callbacks: the interface, and a thread for each callback where there is no event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol


class CallbackExecutor(Protocol):
    """Runs functions that may take long. An event loop is one."""

    @property
    def is_loop_thread(self) -> bool:
        """Whether the calling thread is the loop, which must not wait."""

    def run_callback_soon(self, task: Callable[[], object]) -> None:
        """Run a function that may take long; from any thread."""


def start_callback_thread(task: Callable[[], object]) -> None:
    """Run a function in a new thread, which does not keep the process alive."""
    threading.Thread(target=task, name="zenspark-callback", daemon=True).start()


class ThreadPerCallback:
    """Runs each function in a new thread."""

    is_loop_thread = False

    def run_callback_soon(self, task: Callable[[], object]) -> None:
        """Run a function in a new thread."""
        start_callback_thread(task)
