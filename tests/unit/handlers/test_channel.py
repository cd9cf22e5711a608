"""Channels: items in, items out, in order, below capacity and at it."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.api.handler_loops import LONG_TIMEOUT_SECONDS, Threads, bind, channel
from zenspark.errors import ZError
from zenspark.handlers import channel as api_channel
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout
from zenspark.handlers.handler import Handler, RingChannel

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


def test_recv_of_an_empty_channel_raises_after_its_timeout() -> None:
    items = channel()
    for timeout in (0, -1, 0.001):
        with pytest.raises(ReceiveTimeout, match=f"nothing received in {timeout} s"):
            items.recv(timeout)
    with pytest.raises(TimeoutError):
        items.recv(timeout=0)
    with pytest.raises(ZError):
        items.recv(timeout=0)


def test_stale_wakeup_does_not_end_recv() -> None:
    items = channel()
    items.push(1)
    assert items.recv() == 1  # no receiver waited, so the wakeup is still set
    with pytest.raises(ReceiveTimeout):
        items.recv(timeout=0.001)


def test_recv_waits_in_slices_of_the_maximum_lock_wait(monkeypatch: pytest.MonkeyPatch, threads: Threads) -> None:
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
        assert back.recv(timeout=LONG_TIMEOUT_SECONDS) == number
    there.close()


def test_close_wakes_every_waiting_consumer(threads: Threads) -> None:
    items = channel()
    ended = channel()

    def consume() -> None:
        ended.push(list(items))

    for _ in range(5):
        threads.spawn(consume)
    items.close()
    assert [ended.recv(timeout=LONG_TIMEOUT_SECONDS) for _ in range(5)] == [[]] * 5


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
@pytest.mark.parametrize(
    "receive", [Handler.recv, Handler.__next__, lambda items: items.recv(timeout=LONG_TIMEOUT_SECONDS)]
)
def test_ctrl_c_interrupts_recv(receive: Callable[[Handler[Any]], object]) -> None:
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


# --- capacity -------------------------------------------------------------------------------------


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
def test_every_receive_method_resumes_a_paused_producer(receive: Callable[[Handler[Any]], object]) -> None:
    resumed: list[bool] = []
    items = channel(1, lambda _: resumed.append(True))
    assert not items.push(1)
    assert receive(items) == 1
    assert resumed == [True]


def test_recv_that_waits_resumes_a_paused_producer() -> None:
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


def test_recv_waits_again_if_the_sleep_ends_before_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 0.5, 0.5, 1.0])  # the first nap ends half-way
    monkeypatch.setattr(api_channel, "monotonic", lambda: next(clock))
    monkeypatch.setattr(api_channel, "clamp_sleep", lambda left: 0.0)
    with pytest.raises(ReceiveTimeout):
        channel().recv(timeout=1.0)
    assert list(clock) == []


def test_producer_does_not_pause_if_an_item_was_taken_meanwhile() -> None:
    items = channel(2)
    items._items.append(1)  # the other item was taken between the push and this question
    assert not items._pause_if_full()
    assert not items._paused


def test_ring_channel_keeps_the_newest_samples() -> None:
    attached = bind(RingChannel(2))
    assert isinstance(attached.handler, Handler)
    for number in range(5):
        assert attached.sink.push(number)
    assert attached.sink.push_many([5, 6, 7])
    attached.sink.close()
    assert list(attached.handler) == [6, 7]


class CountingWakeup:
    """A wakeup lock that counts its releases."""

    def __init__(self) -> None:
        self.releases = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self.releases = 0
        return True

    def locked(self) -> bool:
        return not self.releases

    def release(self) -> None:
        self.releases += 1


def test_other_wakeup_is_released_once_until_it_is_acquired() -> None:
    found, wakeup = channel(), CountingWakeup()
    found.use_wakeup(wakeup)
    found.push(1)
    found.push_many([2, 3])
    assert wakeup.releases == 1
    wakeup.acquire()
    found.push(4)
    assert wakeup.releases == 1
    assert [found.try_recv() for _ in range(5)] == [1, 2, 3, 4, None]
