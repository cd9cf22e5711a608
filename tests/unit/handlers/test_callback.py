"""Callbacks: called with every item in order, in the loop or in a thread, and dropped once after the last."""

import asyncio
import itertools
import logging
import threading
from types import SimpleNamespace
from typing import NoReturn

import pytest

from tests.unit.api.handler_loops import LONG_TIMEOUT_SECONDS, ManualLoop, Threads, bind, channel
from zenspark.errors import UsageError
from zenspark.handlers import callback as callback_module
from zenspark.handlers.callback import CALLBACK_CAPACITY_ITEMS, finish_callbacks
from zenspark.handlers.handler import Callback, bind_handler


def test_pushed_items_are_called_in_one_turn_of_the_loop(manual_loop: ManualLoop) -> None:
    calls: list[object] = []
    attached = bind(Callback(calls.append, lambda: calls.append("drop")), manual_loop)
    assert attached.sink.push(1)
    assert attached.sink.push_many([2, 3])
    assert len(manual_loop.work) == 1
    assert calls == []
    manual_loop.turn()
    assert calls == [1, 2, 3]
    attached.sink.close()
    attached.sink.close()
    assert attached.sink.push(4)
    manual_loop.turn()
    assert calls == [1, 2, 3, "drop"]
    assert not manual_loop.work


def test_queue_has_no_limit_in_the_loop_thread(manual_loop: ManualLoop) -> None:
    calls: list[object] = []
    attached = bind(calls.append, manual_loop)
    assert attached.sink.push_many(range(2 * CALLBACK_CAPACITY_ITEMS))
    while manual_loop.work:  # more than once if the machine is busy
        manual_loop.turn()
    assert len(calls) == 2 * CALLBACK_CAPACITY_ITEMS


def test_long_queue_is_called_in_several_turns(manual_loop: ManualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(callback_module, "monotonic", lambda: float(next(clock)))
    calls: list[object] = []
    attached = bind(calls.append, manual_loop)
    attached.sink.push_many(range(40))
    rounds = 0
    while manual_loop.work:
        manual_loop.turn()
        rounds += 1
    assert rounds > 1
    assert calls == list(range(40))


def test_callback_may_close_its_sink(manual_loop: ManualLoop) -> None:
    calls: list[object] = []

    def end(item: int) -> None:
        attached.sink.close()
        calls.append(item)

    attached = bind(Callback(end, lambda: calls.append("drop")), manual_loop)
    attached.sink.push_many([1, 2])
    manual_loop.turn()
    attached.sink.push(3)
    manual_loop.turn()
    assert calls == [1, 2, "drop"]


def test_callback_outside_the_loop_runs_in_a_thread(threads: Threads) -> None:
    calls: list[tuple[object, int]] = []

    def log(item: object) -> None:
        calls.append((item, threading.get_ident()))

    attached = bind(Callback(log, lambda: log("drop")), threads)
    attached.sink.push(1)
    attached.sink.push_many([2, 3])
    attached.sink.close()
    attached.sink.close()
    threads.join()
    assert [item for item, _ in calls] == [1, 2, 3, "drop"]
    assert threading.get_ident() not in {thread for _, thread in calls}


def test_only_a_slow_callback_keeps_its_thread(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback_module, "IDLE_THREAD_SECONDS", 10 * LONG_TIMEOUT_SECONDS)
    never, called = threading.Event(), channel()

    def call(item: object) -> None:
        called.push(item)
        if item == "slow":
            never.wait(0.01)

    sink = bind(call, threads).sink
    sink.push("slow")
    assert called.recv(timeout=LONG_TIMEOUT_SECONDS) == "slow"
    sink.push("slow")
    assert called.recv(timeout=LONG_TIMEOUT_SECONDS) == "slow"
    assert len(threads.started) == 1
    sink.push_many(["quick"] * 1000)
    threads.join()
    sink.push_many(["again"] * 1000)
    threads.join()
    assert len(threads.started) > 1
    assert [called.recv(timeout=LONG_TIMEOUT_SECONDS) for _ in range(2000)] == ["quick"] * 1000 + ["again"] * 1000


def test_push_to_a_slow_callback_returns_false_until_it_is_half_empty(threads: Threads) -> None:
    resumed, running, release = channel(), channel(), channel()

    def wait(item: object) -> None:
        running.push(item)
        release.recv(timeout=LONG_TIMEOUT_SECONDS)

    attached = bind_handler(wait, threads, lambda _: resumed.push(True))
    attached.sink.push(0)
    running.recv(timeout=LONG_TIMEOUT_SECONDS)
    assert not attached.sink.push_many(range(CALLBACK_CAPACITY_ITEMS))
    release.push_many([None] * (CALLBACK_CAPACITY_ITEMS + 1))
    assert resumed.recv(timeout=LONG_TIMEOUT_SECONDS)
    attached.sink.close()


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("indirect", [True, False])
def test_failed_callback_is_logged_and_called_with_the_next_item(
    indirect: bool, error: type[BaseException], manual_loop: ManualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def fail(item: int) -> None:
        calls.append(item)
        raise error("boom")

    def fail_to_drop() -> None:
        raise error("bang")

    with caplog.at_level(logging.ERROR, "zenspark"):
        attached = bind(Callback(fail, fail_to_drop, indirect=indirect), manual_loop)
        attached.sink.push_many([1, 2])
        attached.sink.close()
        manual_loop.turn()
    assert calls == [1, 2]
    assert ["boom" in (record.exc_text or "") for record in caplog.records] == [True, True, False]
    assert "bang" in (caplog.records[2].exc_text or "")
    assert caplog.messages == [
        f"callback {fail!r} failed",
        f"callback {fail!r} failed",
        f"drop function of the handler with callback {fail!r} failed",
    ]


def test_failed_callback_is_logged_with_the_key_expression(
    manual_loop: ManualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    class DroppedQuery:
        @property
        def key_expr(self) -> NoReturn:
            raise UsageError("this query was dropped")

    def fail(item: object) -> NoReturn:
        raise ValueError(item)

    sample = SimpleNamespace(key_expr="demo/a")
    with caplog.at_level(logging.ERROR, "zenspark"):
        sink = bind(Callback(fail), manual_loop).sink
        sink.push_many([sample, SimpleNamespace(result=sample), DroppedQuery()])
        manual_loop.turn()
    named, unnamed = f"callback {fail!r} failed on demo/a", f"callback {fail!r} failed"
    assert caplog.messages == [named, named, unnamed]


def test_handler_of_a_pair_is_its_object(threads: Threads) -> None:
    mine: list[int] = []
    attached = bind((mine.append, mine), threads)
    attached.sink.push(1)
    attached.sink.close()
    threads.join()
    assert attached.handler is mine
    assert mine == [1]


def test_exit_waits_for_closed_callbacks_and_gives_up_those_that_do_not_return(
    manual_loop: ManualLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = itertools.count()
    monkeypatch.setattr(callback_module, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(callback_module, "sleep", lambda _: None)
    calls: list[object] = []
    attached = bind(Callback(calls.append, lambda: calls.append("drop")), manual_loop)
    attached.sink.push_many([1, 2])
    finish_callbacks()  # it may still get items: its session is closed before
    attached.sink.close()
    finish_callbacks(timeout=5)
    assert caplog.messages == ["exit: 1 callbacks still run after 5 s, 2 queued items are lost"]
    monkeypatch.setattr(callback_module, "sleep", lambda _: manual_loop.turn())
    finish_callbacks()
    assert calls == [1, 2, "drop"]
    assert len(caplog.messages) == 1
