"""The loop: timers, work from other threads, descriptors, mistakes, the end."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.net.ends import in_thread
from tests.unit.net.loop.loops import running_loop
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.net.loop.event_loop import (
    MAX_CANCELLED_TIMERS,
    MAX_FAILED_TURNS,
    MAX_TIMER_DELAY_SECONDS,
    EventLoop,
    detach_after_fork,
)
from zenspark.net.loop.read_coalescing import READ_DELAY_SECONDS


def test_work_of_other_threads_runs_in_the_loop_in_order() -> None:
    done: queue.Queue[tuple[int, bool]] = queue.Queue()

    def note(number: int) -> None:
        done.put((number, loop.is_in_loop_task))

    with running_loop() as loop:
        for number in range(100):
            loop.call_soon(partial(note, number))
        assert [done.get(timeout=TIMEOUT_SECONDS) for _ in range(100)] == [(number, True) for number in range(100)]
        assert not loop.is_in_loop_task


def test_a_sleeping_loop_is_woken_each_time() -> None:
    with running_loop() as loop:
        for _ in range(50):
            woken = threading.Event()
            loop.call_soon(woken.set)
            assert woken.wait(TIMEOUT_SECONDS)


def test_many_threads_may_call_at_once() -> None:
    done = threading.Semaphore(0)
    with running_loop() as loop:

        def call_often() -> None:
            for _ in range(200):
                loop.call_soon(done.release)

        threads = [in_thread(call_often) for _ in range(4)]
        for thread in threads:
            thread.join(TIMEOUT_SECONDS)
        assert all(done.acquire(timeout=TIMEOUT_SECONDS) for _ in range(800))


def test_timers_come_in_the_order_of_their_time_and_not_before_it() -> None:
    seen: queue.Queue[tuple[str, float]] = queue.Queue()
    with running_loop() as loop:
        start = loop.now()
        loop.call_at(start + 0.03, lambda: seen.put(("late", loop.now())))
        loop.call_at(start + 0.01, lambda: seen.put(("early", loop.now())))
        loop.call_at(start - 1, lambda: seen.put(("at once", loop.now())))
        found = [seen.get(timeout=TIMEOUT_SECONDS) for _ in range(3)]
    assert [name for name, _ in found] == ["at once", "early", "late"]
    assert found[1][1] >= start + 0.01
    assert found[2][1] >= start + 0.03


def test_cancelled_timer_does_not_run() -> None:
    seen: queue.Queue[str] = queue.Queue()
    with running_loop() as loop:
        timer = loop.call_at(loop.now() + 0.01, lambda: seen.put("cancelled"))
        timer.cancel()
        timer.cancel()
        loop.call_at(loop.now() + 0.02, lambda: seen.put("kept"))
        assert seen.get(timeout=TIMEOUT_SECONDS) == "kept"
    assert seen.empty()


def test_cancelled_timers_do_not_pile_up() -> None:
    loop = EventLoop("test-loop")
    timers = [loop.call_at(loop.now() + 1000, lambda: None) for _ in range(3 * MAX_CANCELLED_TIMERS)]
    kept = loop.call_at(loop.now() + 1000, lambda: None)
    loop.start()
    for timer in timers:
        timer.cancel()
    for _ in range(2):  # the first turn may have begun before
        turned = threading.Event()
        loop.call_soon(turned.set)
        assert turned.wait(TIMEOUT_SECONDS)
        loop.call_soon(lambda: None)
    assert loop.stop(TIMEOUT_SECONDS)
    assert len(loop._timers) <= MAX_CANCELLED_TIMERS + 1
    assert kept.task is not None


def test_exceptions_of_tasks_and_timers_are_logged_and_the_loop_continues(caplog: pytest.LogCaptureFixture) -> None:
    went_on = threading.Event()
    with caplog.at_level(logging.ERROR, "zenspark.net"), running_loop() as loop:
        loop.call_soon(lambda: 1 / 0)
        loop.call_at(0, lambda: [][0])
        loop.call_soon(went_on.set)
        assert went_on.wait(TIMEOUT_SECONDS)
    assert len(caplog.records) == 2
    assert caplog.records[0].exc_info is not None


@pytest.mark.parametrize("seconds", [2.2e6, 1e10, 2.0**53, float("inf")])
def test_a_timer_in_the_far_future_does_not_end_the_loop(seconds: float) -> None:
    with running_loop() as loop:
        for _ in range(3):  # in the second turn at the latest it is the only timer
            loop.call_at(loop.now() + seconds, lambda: None)
            turned = threading.Event()
            loop.call_soon(turned.set)
            assert turned.wait(TIMEOUT_SECONDS)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError()])
def test_loop_survives_exceptions_of_tasks(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise error

    went_on = threading.Event()
    with caplog.at_level(logging.ERROR, "zenspark.net"), running_loop() as loop:
        for start in (loop.call_soon, loop.call_at_end_of_turn, loop.run_callback_soon, partial(loop.call_at, 0)):
            start(fail)
        loop.call_at(loop.now() + 0.001, lambda: loop.call_at_end_of_turn(went_on.set))
        assert went_on.wait(TIMEOUT_SECONDS)
    assert len(caplog.records) == 4


class FailingPoller:
    """A poller that fails so many times."""

    def __init__(self, loop: EventLoop, times: int) -> None:
        self._poller = loop._poller
        self.left = times
        loop._poller = self

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        if self.left:
            self.left -= 1
            raise OSError("no")
        return self._poller.poll(timeout)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever pollers have
        return getattr(self._poller, name)


def test_failed_turn_is_logged_and_the_loop_continues(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zenspark.net.loop.event_loop.FAILED_TURN_PAUSE_SECONDS", 0.001)
    with caplog.at_level(logging.ERROR, "zenspark.net"), running_loop() as loop:
        failing = FailingPoller(loop, MAX_FAILED_TURNS - 1)
        loop.call_soon(lambda: None)  # it sleeps in the poller it had before
        until(lambda: not failing.left)
        turned = threading.Event()
        loop.call_soon(turned.set)
        assert turned.wait(TIMEOUT_SECONDS)
    assert [record.levelname for record in caplog.records] == ["ERROR"] * (MAX_FAILED_TURNS - 1)


def test_loop_that_fails_repeatedly_ends_and_calls_on_failed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zenspark.net.loop.event_loop.FAILED_TURN_PAUSE_SECONDS", 0.001)
    notified, cleaned = threading.Event(), threading.Event()
    loop = EventLoop("test-loop", notified.set)
    with caplog.at_level(logging.ERROR, "zenspark.net"):
        loop.start()
        FailingPoller(loop, 1_000_000)
        loop.call_soon(cleaned.set)
        assert notified.wait(TIMEOUT_SECONDS)
        assert loop._ended.wait(TIMEOUT_SECONDS)
        assert cleaned.wait(TIMEOUT_SECONDS), "what was queued is still run"
    assert caplog.records[-1].levelname == "CRITICAL"
    assert all(message.startswith("event loop test-loop") for message in caplog.messages)
    assert loop.stop(TIMEOUT_SECONDS)


def test_loop_thread_that_fails_outside_of_turns_calls_on_failed(caplog: pytest.LogCaptureFixture) -> None:
    notified = threading.Event()
    loop = EventLoop("test-loop", notified.set)

    def fail() -> bool:
        raise MemoryError

    loop._run_as_leader = fail  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR, "zenspark.net"):
        loop.start()
        assert notified.wait(TIMEOUT_SECONDS)
        assert loop._ended.wait(TIMEOUT_SECONDS)
    assert [record.levelname for record in caplog.records] == ["CRITICAL"] * 2


def test_after_a_stall_sockets_are_read_before_timers_run() -> None:
    order: queue.Queue[str] = queue.Queue()
    left, right = socket.socketpair()
    with left, right, running_loop() as loop:

        def stall() -> None:
            loop.call_at(loop.now() - 2 * MAX_TIMER_DELAY_SECONDS, lambda: order.put("timer"))
            loop.watch(left, lambda: order.put(left.recv(10).decode()))
            right.send(b"read")
            loop._run_timers()  # as in a turn whose poll came before

        loop.call_soon(stall)
        assert [order.get(timeout=TIMEOUT_SECONDS) for _ in range(2)] == ["read", "timer"]


def test_descriptors_are_watched_for_the_requested_events() -> None:
    events: queue.Queue[str] = queue.Queue()
    left, right = socket.socketpair()
    with left, right, running_loop() as loop:

        def on_readable() -> None:
            events.put(left.recv(10).decode())
            loop.watch(left, on_readable, on_writable)

        def on_writable() -> None:
            events.put("writable")
            loop.watch(left, on_readable)

        loop.call_soon(lambda: loop.watch(left, on_readable))
        right.send(b"one")
        assert [events.get(timeout=TIMEOUT_SECONDS) for _ in range(2)] == ["one", "writable"]
        right.send(b"two")
        assert events.get(timeout=TIMEOUT_SECONDS) == "two"
        unwatched = threading.Event()
        for _ in range(2):  # the second time does nothing
            loop.call_soon(lambda: loop.watch(left, None))
        loop.call_soon(unwatched.set)
        assert unwatched.wait(TIMEOUT_SECONDS)
        while not events.empty():
            assert events.get() == "writable"
        right.send(b"three")
        turned = threading.Event()
        loop.call_at(loop.now() + 0.01, turned.set)
        assert turned.wait(TIMEOUT_SECONDS)
        assert events.empty()


def test_closed_descriptor_is_not_watched() -> None:
    left, right = socket.socketpair()
    left.close()
    right.close()
    with running_loop() as loop:
        done = threading.Event()
        loop.call_soon(lambda: loop.watch(left, done.set))
        loop.call_soon(done.set)
        assert done.wait(TIMEOUT_SECONDS)


def test_stop_runs_queued_tasks_and_may_be_called_by_the_loop() -> None:
    loop = EventLoop("test-loop")
    seen: list[int] = []
    for number in range(10):
        loop.call_soon(partial(seen.append, number))
    loop.start()
    assert loop.stop(TIMEOUT_SECONDS)
    assert seen == list(range(10))
    assert loop.stop(TIMEOUT_SECONDS), "a second time does nothing"
    loop.call_soon(lambda: None)

    other = EventLoop("test-loop")
    other.start()
    other.call_soon(other.stop)
    assert other._ended.wait(TIMEOUT_SECONDS)


def test_a_loop_that_never_started_can_be_stopped() -> None:
    assert EventLoop("test-loop").stop()


def test_stop_of_a_stuck_loop_returns_after_its_timeout() -> None:
    loop = EventLoop("test-loop")
    stuck, go_on = threading.Event(), threading.Event()
    loop.call_soon(stuck.set)
    loop.call_soon(lambda: go_on.wait(TIMEOUT_SECONDS))
    loop.start()
    assert stuck.wait(TIMEOUT_SECONDS)
    assert not loop.stop(0.01)
    go_on.set()
    assert loop.stop(TIMEOUT_SECONDS)


def test_detach_after_fork_leaves_the_connection_of_the_parent_open() -> None:
    left, right = socket.socketpair()
    copy = left.dup()  # as the parent has one after a fork
    number = left.fileno()
    with copy, right:
        detach_after_fork(left)
        assert left.fileno() == number
        with pytest.raises(OSError, match="socket"):
            left.send(b"lost")
        left.close()
        detach_after_fork(left)
        copy.send(b"kept")
        assert right.recv(10) == b"kept"


def test_callback_may_stop_the_loop() -> None:
    loop = EventLoop("test-loop")
    loop.start()
    stopped: queue.Queue[bool] = queue.Queue()
    loop.run_callback_soon(lambda: stopped.put(loop.stop(TIMEOUT_SECONDS)))
    assert stopped.get(timeout=TIMEOUT_SECONDS)


def test_callbacks_after_stop_run_in_threads() -> None:
    loop = EventLoop("test-loop")
    loop.start()
    done = threading.Event()

    def stop_and_go_on() -> None:
        loop.stop()
        loop.run_callback_soon(done.set)

    loop.call_soon(stop_and_go_on)
    assert done.wait(TIMEOUT_SECONDS)
    assert loop._ended.wait(TIMEOUT_SECONDS)
    late = threading.Event()
    loop.run_callback_soon(late.set)
    assert late.wait(TIMEOUT_SECONDS)


def test_read_delay_is_applied_once_and_tasks_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: queue.Queue[float] = queue.Queue()
    woken = threading.Event()

    def sleep(seconds: float) -> None:
        rests.put(seconds)
        loop.call_soon(woken.set)

    monkeypatch.setattr("zenspark.net.loop.event_loop.time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    with running_loop() as loop:
        loop.call_soon(loop.coalesce_next_read)
        assert rests.get(timeout=TIMEOUT_SECONDS) == READ_DELAY_SECONDS
        assert woken.wait(TIMEOUT_SECONDS)
        loop.call_soon(loop.coalesce_next_read)
        assert rests.get(timeout=TIMEOUT_SECONDS) == READ_DELAY_SECONDS
    assert rests.empty()


def test_read_delay_is_skipped_when_there_are_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    monkeypatch.setattr(
        "zenspark.net.loop.event_loop.time", SimpleNamespace(sleep=rests.append, monotonic=time.monotonic)
    )
    done = threading.Event()

    def task(left: int) -> None:
        loop.coalesce_next_read()
        loop.call_at_end_of_turn(partial(task, left - 1) if left else done.set)

    with running_loop() as loop:
        loop.call_soon(partial(task, 20))
        assert done.wait(TIMEOUT_SECONDS)
    assert rests == []


def test_a_far_timer_does_not_wake_the_loop_and_a_near_one_does() -> None:
    with running_loop() as loop:
        loop.call_at(loop.now() + 1000, lambda: None)
        settled = threading.Event()
        loop.call_soon(settled.set)
        assert settled.wait(TIMEOUT_SECONDS)
        near = threading.Event()
        loop.call_at(loop.now() + 0.001, near.set)
        assert near.wait(TIMEOUT_SECONDS)
