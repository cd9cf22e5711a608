"""Who calls the functions of users where there is no loop to do it: a thread for each that has something to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol


class CallbackExecutor(Protocol):
    """Somebody who runs what may take its time; a loop does so itself."""

    @property
    def is_loop_thread(self) -> bool:
        """Whether the calling thread has other things to do."""

    def run_callback_soon(self, work: Callable[[], object]) -> None:
        """Run something."""


def start_callback_thread(work: Callable[[], object]) -> None:
    """Run something that may take its time, in a thread that does not keep the process alive."""
    threading.Thread(target=work, name="zenspark-callback", daemon=True).start()


class ThreadPerCallback:
    """Lends a new thread each time."""

    is_loop_thread = False

    def run_callback_soon(self, work: Callable[[], object]) -> None:
        """Run something."""
        start_callback_thread(work)
