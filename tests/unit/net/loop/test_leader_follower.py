"""Leader and follower: the loop runs on while callbacks block."""

from __future__ import annotations

import queue
import threading

import pytest

from tests.unit.net.loop.loops import running_loop
from tests.wait import TIMEOUT_SECONDS
from zenspark.net.loop.leader_follower import in_callback, yield_leadership


def test_in_callback_is_true_only_while_one_runs() -> None:
    seen: queue.Queue[bool] = queue.Queue()
    with running_loop() as loop:
        loop.run_callback_soon(lambda: seen.put(in_callback()))
        assert seen.get(timeout=TIMEOUT_SECONDS)
        loop.call_soon(lambda: seen.put(in_callback()))
        assert not seen.get(timeout=TIMEOUT_SECONDS)
    assert not in_callback()


def test_short_callback_runs_on_the_loop_thread() -> None:
    seen: queue.Queue[tuple[bool, bool]] = queue.Queue()
    with running_loop() as loop:
        found = []
        for _ in range(20):
            loop.run_callback_soon(lambda: seen.put((loop.is_loop_thread, loop.is_in_loop_task)))
            found.append(seen.get(timeout=TIMEOUT_SECONDS))
        # on a busy machine a callback may be interrupted for so long that a follower takes over
        assert (True, False) in found
        assert not any(is_internal for _, is_internal in found)
        loop.call_soon(lambda: seen.put((loop.is_loop_thread, loop.is_in_loop_task)))
        assert seen.get(timeout=TIMEOUT_SECONDS) == (True, True)


def test_follower_leads_while_a_callback_blocks() -> None:
    with running_loop() as loop:
        for _ in range(3):
            go_on, went_on = threading.Event(), threading.Event()
            kept: queue.Queue[bool] = queue.Queue()

            def wait(go_on: threading.Event = go_on, kept: queue.Queue[bool] = kept) -> None:
                go_on.wait(TIMEOUT_SECONDS)
                kept.put(loop.is_loop_thread)

            loop.run_callback_soon(wait)
            loop.call_soon(went_on.set)
            assert went_on.wait(TIMEOUT_SECONDS)
            go_on.set()
            assert kept.get(timeout=TIMEOUT_SECONDS) is False
            back = threading.Event()
            loop.call_soon(back.set)
            assert back.wait(TIMEOUT_SECONDS)


def test_several_callbacks_may_block_at_once() -> None:
    go_on = threading.Event()
    done = threading.Semaphore(0)
    with running_loop() as loop:

        def wait() -> None:
            go_on.wait(TIMEOUT_SECONDS)
            done.release()

        for _ in range(5):
            loop.run_callback_soon(wait)
        went_on = threading.Event()
        loop.call_soon(went_on.set)
        assert went_on.wait(TIMEOUT_SECONDS)
        go_on.set()
        assert all(done.acquire(timeout=TIMEOUT_SECONDS) for _ in range(5))


def test_yield_leadership_promotes_the_follower_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.net.loop.leader_follower.CALLBACK_GRACE_SECONDS", TIMEOUT_SECONDS)
    promoted = threading.Event()
    with running_loop() as loop:

        def yield_and_wait() -> None:
            loop.call_soon(went_on.set)
            yield_leadership()
            if went_on.wait(TIMEOUT_SECONDS):
                promoted.set()

        went_on = threading.Event()
        yield_leadership()  # in a thread that is no leader: no effect
        loop.run_callback_soon(yield_and_wait)
        assert promoted.wait(TIMEOUT_SECONDS)
