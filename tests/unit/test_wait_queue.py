"""Threads that wait for a condition without holding a lock."""

import threading
import time

from tests.unit.net.ends import meanwhile
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.wait_queue import WaitQueue


def test_a_condition_that_holds_is_not_waited_for() -> None:
    assert WaitQueue().wait_for(lambda: True, 0.0)


def test_wait_for_returns_false_after_the_timeout() -> None:
    wait_queue = WaitQueue()
    start = time.monotonic()
    assert not wait_queue.wait_for(lambda: False, 0.05)
    assert time.monotonic() - start >= 0.05
    assert not wait_queue._waiting


def test_notify_all_wakes_every_waiter() -> None:
    wait_queue = WaitQueue()
    ready = threading.Event()

    def wait() -> bool:
        return wait_queue.wait_for(ready.is_set, TIMEOUT_SECONDS)

    with meanwhile(wait) as first, meanwhile(wait) as second:
        until(lambda: len(wait_queue._waiting) == 2)
        wait_queue.notify_all()
        until(lambda: len(wait_queue._waiting) == 2)
        ready.set()
        wait_queue.notify_all()
        assert first()
        assert second()
    assert not wait_queue._waiting


def test_predicate_that_holds_just_before_waiting_is_noticed() -> None:
    wait_queue = WaitQueue()
    results = iter([False, True, True])
    assert wait_queue.wait_for(lambda: next(results), TIMEOUT_SECONDS)
