"""Channels and callers: items in, items out, in order, with room and without."""

import asyncio
import itertools
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.api.receiving import LONG, Threads, Turns, channel, use
from zenspark.errors import ZError
from zenspark.handlers import channel as api_channel
from zenspark.handlers.channel import CALLBACK_CAPACITY, ChannelClosed, ReceiveTimeout
from zenspark.handlers.handler import (
    Callback,
    Handler,
    RingChannel,
    bind_handler,
)


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads()
    yield threads
    threads.join()


@pytest.fixture
def turns() -> Turns:
    return Turns()


# --- receiving ------------------------------------------------------------------------------------


def test_items_come_in_order() -> None:
    items = channel()
    assert items.push(1)
    assert items.push_many([2, 3, 4])
    assert [items.recv(), items.recv(timeout=0), items.try_recv(), next(items)] == [1, 2, 3, 4]
    assert items.try_recv() is None


def test_a_closed_channel_ends_after_its_last_item() -> None:
    items = channel()
    items.push_many([1, 2, 3, 4])
    items.close()
    items.close()
    assert repr(items) == "<Handler: 4 items, closed>"
    assert [items.recv(), items.try_recv(), *items] == [1, 2, 3, 4]
    for receive in (items.recv, items.try_recv, lambda: items.recv(timeout=0)):
        with pytest.raises(ChannelClosed, match="channel is empty and closed"):
            receive()
    assert list(items) == []


def test_iterating_gives_the_channel_itself() -> None:
    items = channel()
    assert iter(items) is items
    assert repr(items) == "<Handler: 0 items>"


def test_waiting_has_an_end() -> None:
    items = channel()
    for timeout in (0, -1, 0.001):
        with pytest.raises(ReceiveTimeout, match=f"nothing received in {timeout} s"):
            items.recv(timeout)
    with pytest.raises(TimeoutError):
        items.recv(timeout=0)
    with pytest.raises(ZError):
        items.recv(timeout=0)


def test_an_old_ring_does_not_end_the_waiting() -> None:
    items = channel()
    items.push(1)
    assert items.recv() == 1  # nobody waited, so the bell still rings
    with pytest.raises(ReceiveTimeout):
        items.recv(timeout=0.001)


def test_waiting_in_naps_is_the_same(monkeypatch: pytest.MonkeyPatch, threads: Threads) -> None:
    monkeypatch.setattr(api_channel, "MAX_LOCK_WAIT_SECONDS", 0.001)
    items = channel()
    with pytest.raises(ReceiveTimeout):
        items.recv(timeout=0.005)
    received: list[int] = []
    threads.spawn(lambda: received.extend(items))
    items.push_many([1, 2])
    items.close()
    threads.join()
    assert received == [1, 2]


def test_waiting_consumer_is_woken(threads: Threads) -> None:
    there, back = channel(), channel()
    threads.spawn(lambda: [back.push(item) for item in there])
    for number in range(200):
        there.push(number)
        assert back.recv(timeout=LONG) == number
    there.close()


def test_close_wakes_every_waiting_consumer(threads: Threads) -> None:
    items = channel()
    ended = channel()

    def consume() -> None:
        ended.push(list(items))

    for _ in range(5):
        threads.spawn(consume)
    items.close()
    assert [ended.recv(timeout=LONG) for _ in range(5)] == [[]] * 5


def test_one_batch_serves_many_consumers(threads: Threads) -> None:
    items = channel()
    received: list[list[int]] = [[] for _ in range(4)]

    def consume(mine: list[int]) -> None:
        mine.extend(items)

    for mine in received:
        threads.spawn(lambda mine=mine: consume(mine))  # type: ignore[misc]  # the default binds the loop variable
    for start in range(0, 10_000, 100):
        items.push_many(range(start, start + 100))
    items.close()
    threads.join()
    assert sorted(number for mine in received for number in mine) == list(range(10_000))
    assert all(mine == sorted(mine) for mine in received)


def test_another_consumer_is_woken_for_the_remaining_items() -> None:
    items = channel()
    items._wakeup.release()  # as if a producer had notified before the batch that follows
    items._wakeup.acquire()
    items._items.extend([1, 2])
    assert items._wait(None) == 1
    assert not items._wakeup.locked()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("receive", [Handler.recv, Handler.__next__, lambda items: items.recv(timeout=LONG)])
def test_ctrl_c_ends_the_waiting(receive: Callable[[Handler[Any]], object]) -> None:
    items = channel()
    with interrupted(0.02), pytest.raises(KeyboardInterrupt):
        receive(items)
    items.push(1)
    assert items.recv(timeout=0) == 1


@contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """Has the signal of Ctrl-C come after a while, when the main thread already sleeps."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- room -----------------------------------------------------------------------------------------


def test_push_to_a_full_channel_returns_false_and_loses_nothing() -> None:
    resumed: list[int] = []
    items = channel(4, lambda _: resumed.append(len(items._items)))
    assert items.push_many([1, 2, 3])
    assert not items.push(4)
    assert not items.push_many([5, 6])
    assert [items.recv(), items.recv(), items.try_recv()] == [1, 2, 3]
    assert resumed == []
    assert next(items) == 4
    assert resumed == [2]  # half empty
    assert [items.recv(), items.recv()] == [5, 6]
    assert resumed == [2]  # and only once
    assert items.push(7)


@pytest.mark.parametrize("receive", [Handler.recv, Handler.try_recv, Handler.__next__])
def test_every_way_to_receive_makes_room(receive: Callable[[Handler[Any]], object]) -> None:
    resumed: list[bool] = []
    items = channel(1, lambda _: resumed.append(True))
    assert not items.push(1)
    assert receive(items) == 1
    assert resumed == [True]


def test_waiting_makes_room_too() -> None:
    resumed: list[bool] = []
    items = channel(2, lambda _: resumed.append(True))
    items._paused = True  # as if a producer had paused just after the last item was taken
    with pytest.raises(ReceiveTimeout):
        items.recv(timeout=0)
    assert resumed == [True]
    items._items.extend([1, 2])
    items._paused = True  # as if they had been pushed while it slept
    assert items._wait(None) == 1
    assert resumed == [True] * 2


def test_a_timeout_that_ends_before_its_time_is_slept_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 0.5, 0.5, 1.0])  # the first nap ends half-way
    monkeypatch.setattr(api_channel, "monotonic", lambda: next(clock))
    monkeypatch.setattr(api_channel, "clamp_sleep", lambda left: 0.0)
    with pytest.raises(ReceiveTimeout):
        channel().recv(timeout=1.0)
    assert list(clock) == []


def test_a_producer_looks_again_before_it_pauses() -> None:
    items = channel(2)
    items._items.append(1)  # the other item was taken between the push and this question
    assert items._has_room()
    assert not items._paused


def test_ring_channel_keeps_the_newest_samples() -> None:
    attached = use(RingChannel(2))
    assert isinstance(attached.handler, Handler)
    for number in range(5):
        assert attached.sink.push(number)
    assert attached.sink.push_many([5, 6, 7])
    attached.sink.close()
    assert list(attached.handler) == [6, 7]


# --- callbacks ------------------------------------------------------------------------------------


def test_the_loop_calls_in_its_turn(turns: Turns) -> None:
    calls: list[object] = []
    attached = use(Callback(calls.append, lambda: calls.append("drop")), turns)
    assert attached.sink.push(1)
    assert attached.sink.push_many([2, 3])
    assert len(turns.work) == 1
    assert calls == []
    turns.turn()
    assert calls == [1, 2, 3]
    attached.sink.close()
    attached.sink.close()
    assert attached.sink.push(4)
    turns.turn()
    assert calls == [1, 2, 3, "drop"]
    assert not turns.work


def test_however_much_the_loop_brings_it_calls_before_it_brings_more(turns: Turns) -> None:
    calls: list[object] = []
    attached = use(calls.append, turns)
    assert attached.sink.push_many(range(2 * CALLBACK_CAPACITY))
    while turns.work:  # more than once if the machine is busy
        turns.turn()
    assert len(calls) == 2 * CALLBACK_CAPACITY


def test_the_loop_turns_now_and_then(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(api_channel, "monotonic", lambda: float(next(clock)))
    calls: list[object] = []
    attached = use(calls.append, turns)
    attached.sink.push_many(range(40))
    rounds = 0
    while turns.work:
        turns.turn()
        rounds += 1
    assert rounds > 1
    assert calls == list(range(40))


def test_a_callback_may_end_itself(turns: Turns) -> None:
    calls: list[object] = []

    def end(item: int) -> None:
        attached.sink.close()
        calls.append(item)

    attached = use(Callback(end, lambda: calls.append("drop")), turns)
    attached.sink.push_many([1, 2])
    turns.turn()
    attached.sink.push(3)
    turns.turn()
    assert calls == [1, 2, "drop"]


def test_a_callback_apart_from_the_loop_keeps_its_thread(threads: Threads) -> None:
    calls: list[tuple[object, int]] = []

    def log(item: object) -> None:
        calls.append((item, threading.get_ident()))

    attached = use(Callback(log, lambda: log("drop")), threads)
    attached.sink.push(1)
    attached.sink.push_many([2, 3])
    attached.sink.close()
    attached.sink.close()
    threads.join()
    assert [item for item, _ in calls] == [1, 2, 3, "drop"]
    assert threading.get_ident() not in {thread for _, thread in calls}


def test_only_a_callback_that_takes_its_time_keeps_its_thread(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_channel, "IDLE_THREAD_SECONDS", 10 * LONG)
    never, called = threading.Event(), channel()

    def call(item: object) -> None:
        called.push(item)
        if item == "slow":
            never.wait(0.01)

    sink = use(call, threads).sink
    sink.push("slow")
    assert called.recv(timeout=LONG) == "slow"
    sink.push("slow")
    assert called.recv(timeout=LONG) == "slow"
    assert len(threads.started) == 1
    sink.push_many(["quick"] * 1000)
    threads.join()
    sink.push_many(["again"] * 1000)
    threads.join()
    assert len(threads.started) > 1
    assert [called.recv(timeout=LONG) for _ in range(2000)] == ["quick"] * 1000 + ["again"] * 1000


def test_a_callback_that_takes_its_time_asks_the_session_to_pause(threads: Threads) -> None:
    resumed, running, release = channel(), channel(), channel()

    def wait(item: object) -> None:
        running.push(item)
        release.recv(timeout=LONG)

    attached = bind_handler(wait, threads, lambda _: resumed.push(True))
    attached.sink.push(0)
    running.recv(timeout=LONG)
    assert not attached.sink.push_many(range(CALLBACK_CAPACITY))
    release.push_many([None] * (CALLBACK_CAPACITY + 1))
    assert resumed.recv(timeout=LONG)
    attached.sink.close()


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("indirect", [True, False])
def test_a_callback_that_fails_is_logged_and_called_again(
    indirect: bool, error: type[BaseException], turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def fail(item: int) -> None:
        calls.append(item)
        raise error("boom")

    def fail_to_drop() -> None:
        raise error("bang")

    with caplog.at_level(logging.ERROR, "zenspark"):
        attached = use(Callback(fail, fail_to_drop, indirect=indirect), turns)
        attached.sink.push_many([1, 2])
        attached.sink.close()
        turns.turn()
    assert calls == [1, 2]
    assert ["boom" in (record.exc_text or "") for record in caplog.records] == [True, True, False]
    assert "bang" in (caplog.records[2].exc_text or "")


def test_a_pair_of_callback_and_object(threads: Threads) -> None:
    mine: list[int] = []
    attached = use((mine.append, mine), threads)
    attached.sink.push(1)
    attached.sink.close()
    threads.join()
    assert attached.handler is mine
    assert mine == [1]


class Gong:
    """A bell that counts."""

    def __init__(self) -> None:
        self.rings = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self.rings = 0
        return True

    def locked(self) -> bool:
        return not self.rings

    def release(self) -> None:
        self.rings += 1


def test_another_bell_rings_once_until_it_is_silenced() -> None:
    found, gong = channel(), Gong()
    found.use_wakeup(gong)
    found.push(1)
    found.push_many([2, 3])
    assert gong.rings == 1
    gong.acquire()
    found.push(4)
    assert gong.rings == 1
    assert [found.try_recv() for _ in range(5)] == [1, 2, 3, 4, None]
