"""Threads for the functions of users."""

from __future__ import annotations

import threading

from tests.wait import TIMEOUT_SECONDS
from zenspark.net.loop.executor import ThreadPerCallback


def test_callback_thread_is_a_daemon() -> None:
    seen: list[threading.Thread] = []
    done = threading.Event()

    def work() -> None:
        seen.append(threading.current_thread())
        done.set()

    workers = ThreadPerCallback()
    workers.run_callback_soon(work)
    assert done.wait(TIMEOUT_SECONDS)
    assert seen[0] is not threading.current_thread()
    assert seen[0].daemon
    assert not workers.is_loop_thread
