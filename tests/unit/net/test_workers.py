"""Threads for what users run."""

from __future__ import annotations

import threading

from zenspark.net.workers import spawn


def test_work_runs_elsewhere_and_holds_nobody_up() -> None:
    done = threading.Event()
    found: list[threading.Thread] = []

    def work() -> None:
        found.append(threading.current_thread())
        done.set()

    spawn(work)
    assert done.wait(5)
    assert found[0] is not threading.current_thread()
    assert found[0].daemon
