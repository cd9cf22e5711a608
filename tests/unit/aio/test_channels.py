"""Channels and callbacks of an event loop, with the network's thread played by the test."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.aio.event_loop import in_loop, run_other_tasks, until
from tests.wait import until as wait_until
from zenspark.aio.channels import MAX_ITEMS_PER_TURN, AsyncHandler, Channel, bind_async_handler
from zenspark.handlers.arrow import ArrowBatches
from zenspark.handlers.callback import CALLBACK_CAPACITY_ITEMS
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout, Resume
from zenspark.handlers.handler import BoundHandler, Callback, DeliverySink, FifoChannel, RingChannel
from zenspark.types.enums import SampleKind
from zenspark.types.sample import token_sample


class ResumeCounter:
    """Counts how often capacity was announced."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _: object) -> None:
        self.count += 1


def bind_channel(named: object = None, resume: Resume = lambda _: None) -> tuple[DeliverySink[Any], Channel[Any]]:
    attached = AsyncHandler(named).bind(resume)
    assert isinstance(attached.handler, Channel)
    return attached.sink, attached.handler


def bind_callback(named: object, resume: Resume = lambda _: None) -> DeliverySink[Any]:
    attached = AsyncHandler(named).bind(resume)
    assert attached.handler is None
    assert attached.background
    return attached.sink


# --- receiving


@in_loop
async def test_items_come_in_order_from_another_thread() -> None:
    sink, channel = bind_channel(FifoChannel(10_000))

    def produce() -> None:
        for number in range(5000):
            sink.push(number)
        sink.push_many(range(5000, 6000))
        sink.close()

    thread = threading.Thread(target=produce)
    thread.start()
    assert [item async for item in channel] == list(range(6000))
    thread.join()


@in_loop
async def test_recv_waits_for_a_later_item() -> None:
    sink, channel = bind_channel()
    task = asyncio.create_task(channel.recv())
    await run_other_tasks()
    assert not task.done()
    sink.push("late")
    assert await task == "late"


@in_loop
async def test_closed_channel_delivers_pending_items_then_raises() -> None:
    sink, channel = bind_channel()
    sink.push(1)
    sink.close()
    assert channel.try_recv() == 1
    with pytest.raises(ChannelClosed):
        channel.try_recv()
    with pytest.raises(ChannelClosed):
        await channel.recv()


@in_loop
async def test_close_wakes_all_waiting_tasks() -> None:
    sink, channel = bind_channel()
    tasks = [asyncio.create_task(channel.recv()) for _ in range(3)]
    await run_other_tasks()
    sink.close()
    assert all(isinstance(end, ChannelClosed) for end in await asyncio.gather(*tasks, return_exceptions=True))


@in_loop
async def test_each_item_reaches_one_of_many_tasks() -> None:
    sink, channel = bind_channel()
    tasks = [asyncio.create_task(channel.recv()) for _ in range(4)]
    await run_other_tasks()
    sink.push(0)
    sink.push_many([1, 2])
    await until(lambda: sum(task.done() for task in tasks) == 3)
    await run_other_tasks()
    assert sum(task.done() for task in tasks) == 3
    sink.push(3)
    assert sorted(await asyncio.gather(*tasks)) == [0, 1, 2, 3]


@in_loop
async def test_try_recv_of_an_empty_channel_is_none() -> None:
    assert bind_channel()[1].try_recv() is None


@in_loop
async def test_recv_raises_after_its_timeout() -> None:
    sink, channel = bind_channel()
    with pytest.raises(ReceiveTimeout):
        await channel.recv(timeout=0.01)
    sink.push(1)
    assert await channel.recv(timeout=0) == 1


# --- wake-ups


@pytest.fixture
def wakes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    original = asyncio.BaseEventLoop.call_soon_threadsafe

    def counted(self: asyncio.BaseEventLoop, call: Callable[..., object]) -> asyncio.Handle:
        seen.append("wake")
        return original(self, call)

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", counted)
    return seen


@in_loop
async def test_burst_of_items_schedules_one_wakeup(wakes: list[str]) -> None:
    sink, channel = bind_channel(FifoChannel(2000))
    task = asyncio.create_task(channel.recv())
    await run_other_tasks()
    for number in range(1000):
        sink.push(number)
    assert len(wakes) == 1
    assert await task == 0
    for number in range(1, 1000):
        assert await channel.recv() == number
        sink.push(1000 + number)
    assert len(wakes) == 1  # it never found the channel empty


@pytest.mark.parametrize("way", ["recv", "recv with a timeout", "async for"])
@in_loop
async def test_receiver_yields_to_other_tasks_during_a_flood(way: str) -> None:
    sink, channel = bind_channel(FifoChannel(10 * MAX_ITEMS_PER_TURN))
    sink.push_many(range(4 * MAX_ITEMS_PER_TURN))
    turned: list[int] = []
    task = asyncio.create_task(_note(turned))
    if way == "async for":
        async for item in channel:
            if item == 2 * MAX_ITEMS_PER_TURN:
                break
    else:
        for _ in range(2 * MAX_ITEMS_PER_TURN):
            await channel.recv(None if way == "recv" else 60)
    assert turned
    await task


async def _note(turned: list[int]) -> None:
    turned.append(1)


# --- cancellation


@in_loop
async def test_cancelled_recv_takes_no_item() -> None:
    sink, channel = bind_channel()
    task = asyncio.create_task(channel.recv())
    await run_other_tasks()
    sink.push(1)  # it is about to be woken
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert channel.try_recv() == 1


@in_loop
async def test_item_of_a_cancelled_recv_reaches_another_task() -> None:
    sink, channel = bind_channel()
    first, second = (asyncio.create_task(channel.recv()) for _ in range(2))
    await run_other_tasks()
    sink.push(1)
    first.cancel()
    assert await second == 1


@pytest.mark.slow
@in_loop
async def test_recv_with_short_timeouts_loses_no_item() -> None:
    sink, channel = bind_channel(FifoChannel(10_000))
    count = 2000

    def produce() -> None:
        for number in range(count):
            sink.push(number)
            if not number % 7:
                threading.Event().wait(0.0001)

    thread = threading.Thread(target=produce)
    thread.start()
    found: list[int] = []
    while len(found) < count:
        try:
            found.append(await asyncio.wait_for(channel.recv(), 0.0002))
        except TimeoutError:
            continue
    thread.join()
    assert found == list(range(count))


# --- room


@in_loop
async def test_full_channel_pauses_senders_and_half_empty_one_resumes() -> None:
    resumes = ResumeCounter()
    sink, channel = bind_channel(FifoChannel(4), resumes)
    assert [sink.push(number) for number in range(4)] == [True, True, True, False]
    assert await channel.recv() == 0
    assert resumes.count == 0
    assert await channel.recv() == 1
    assert resumes.count == 1
    assert sink.push(4)


@in_loop
async def test_ring_channel_drops_the_oldest_and_never_pauses() -> None:
    sink, channel = bind_channel(RingChannel(2))
    assert all(sink.push(number) for number in range(5))
    sink.close()
    assert [item async for item in channel] == [3, 4]


# --- callbacks


@in_loop
async def test_coroutine_callbacks_run_sequentially_in_order() -> None:
    running, most, seen, dropped = 0, 0, [], []

    async def on_item(item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        seen.append(item)
        running -= 1

    sink = bind_callback(Callback(on_item, lambda: dropped.append(list(seen))))
    sink.push_many(range(50))
    sink.close()
    await until(lambda: dropped)
    assert (dropped, most) == ([list(range(50))], 1)


@in_loop
async def test_plain_callbacks_run_in_the_event_loop() -> None:
    where: list[object] = []
    sink = bind_callback(lambda _: where.append(threading.current_thread()))
    thread = threading.Thread(target=sink.push, args=(1,))
    thread.start()
    thread.join()
    await until(lambda: where)
    assert where == [threading.current_thread()]
    sink.close()


@in_loop
async def test_slow_coroutine_callback_pauses_senders() -> None:
    resumes, go, seen = ResumeCounter(), asyncio.Event(), []

    async def on_item(item: int) -> None:
        await go.wait()
        seen.append(item)

    sink = bind_callback(on_item, resumes)
    has_capacity = [sink.push(number) for number in range(CALLBACK_CAPACITY_ITEMS)]
    assert has_capacity.index(False) == CALLBACK_CAPACITY_ITEMS - 1
    await run_other_tasks()
    assert resumes.count == 0
    go.set()
    sink.close()
    await until(lambda: len(seen) == CALLBACK_CAPACITY_ITEMS)
    assert resumes.count == 1


@pytest.mark.parametrize(
    ("kind", "logged"), [("function", "failed"), ("coroutine", "failed"), ("cancelled", "cancelled itself")]
)
def test_failing_callback_is_logged_and_called_again(kind: str, logged: str, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def fail(item: int) -> None:
        seen.append(item)
        if item == 0:
            raise asyncio.CancelledError if kind == "cancelled" else KeyError("zero")

    async def fail_later(item: int) -> None:
        await asyncio.sleep(0)
        fail(item)

    @in_loop
    async def test() -> None:
        sink = bind_callback(fail if kind == "function" else fail_later)
        sink.push_many([0, 1])
        sink.close()
        await until(lambda: len(seen) == 2)

    with caplog.at_level(logging.ERROR, "zenspark"):
        test()
    assert seen == [0, 1]
    (record,) = caplog.records
    assert record.getMessage().endswith(logged)


def test_failing_callback_is_logged_with_the_key_of_its_sample(caplog: pytest.LogCaptureFixture) -> None:
    def fail(sample: object) -> None:
        raise KeyError(sample)

    @in_loop
    async def test() -> None:
        sink = bind_callback(fail)
        sink.push(token_sample(SampleKind.PUT, "demo/a"))
        sink.close()
        await until(lambda: caplog.messages)

    with caplog.at_level(logging.ERROR, "zenspark"):
        test()
    assert caplog.messages == [f"callback {fail!r} failed on demo/a"]


class FakeQuery:
    """Like a query."""

    def __init__(self) -> None:
        self.dropped = False

    def drop(self) -> None:
        self.dropped = True


@in_loop
async def test_query_is_dropped_when_its_coroutine_returns() -> None:
    go, query = asyncio.Event(), FakeQuery()

    async def on_query(_: object) -> None:
        await go.wait()

    sink = bind_callback(on_query)
    sink.push(query)
    await run_other_tasks()
    assert not query.dropped
    go.set()
    await until(lambda: query.dropped)
    sink.close()


class Outcome(BaseException):
    """As test frameworks raise them."""


@pytest.mark.parametrize("error", [KeyError, Outcome])
@pytest.mark.parametrize("is_coroutine", [True, False])
@in_loop
async def test_query_is_dropped_when_its_callback_fails(is_coroutine: bool, error: type[BaseException]) -> None:
    query = FakeQuery()

    async def fail_later(_: object) -> None:
        raise error

    def fail(_: object) -> None:
        raise error

    sink = bind_callback(fail_later if is_coroutine else fail)
    sink.push(query)
    await until(lambda: query.dropped)
    sink.close()


@in_loop
async def test_query_kept_by_a_plain_callback_is_not_dropped() -> None:
    query, kept = FakeQuery(), list[object]()
    sink = bind_callback(kept.append)
    sink.push(query)
    await until(lambda: kept)
    await run_other_tasks()
    assert not query.dropped
    sink.close()


def test_callbacks_end_and_are_dropped_with_the_event_loop() -> None:
    query, dropped = FakeQuery(), list[int]()

    async def forever(_: object) -> None:
        await asyncio.Event().wait()

    async def leave() -> None:
        bind_callback(Callback(forever, lambda: dropped.append(1))).push(query)
        await run_other_tasks()

    asyncio.run(leave())
    assert query.dropped
    assert dropped == [1]


@in_loop
async def test_drop_may_be_a_coroutine() -> None:
    dropped = asyncio.Event()

    async def drop() -> None:
        await asyncio.sleep(0)
        dropped.set()

    bind_callback(Callback(print, drop)).close()
    await dropped.wait()


@in_loop
async def test_callback_and_object_pair_returns_the_object_as_handler() -> None:
    seen: list[int] = []
    attached = AsyncHandler((seen.append, "mine")).bind(lambda _: None)
    assert (attached.handler, attached.background) == ("mine", False)
    attached.sink.push(1)
    await until(lambda: seen)
    attached.sink.close()


@in_loop
async def test_invalid_handler_is_rejected() -> None:
    with pytest.raises(ValueError, match="expected a channel"):
        AsyncHandler(7).bind(lambda _: None)


@in_loop
async def test_custom_handler_is_bound_unchanged() -> None:
    class Own:
        def bind(self, resume: Resume) -> BoundHandler:
            return made

    class Nowhere:
        def push(self, item: object) -> bool:
            return True

        def push_many(self, items: object) -> bool:
            return True

        def close(self) -> None: ...

    made = BoundHandler(Nowhere(), "handler")
    assert AsyncHandler(Own()).bind(lambda _: None) is made


@in_loop
async def test_record_batches_are_rejected_for_items_that_are_no_samples() -> None:
    with pytest.raises(ValueError, match="expected a channel"):
        AsyncHandler(ArrowBatches()).bind_items(lambda _: None)
    assert isinstance(AsyncHandler(FifoChannel(1)).bind_items(lambda _: None).handler, Channel)


@pytest.mark.parametrize(
    ("args", "options"), [(("k", "named"), {}), (("k",), {"handler": "named"}), (("k", "named"), {"other": 1})]
)
@in_loop
async def test_handler_is_replaced_by_position_and_by_name(args: tuple[object, ...], options: dict[str, Any]) -> None:
    found_args, found_options = bind_async_handler(args, options, 1)
    inbox = found_args[1] if len(args) > 1 else found_options["handler"]
    assert isinstance(inbox, AsyncHandler)
    assert inbox._handler == "named"
    assert found_args[0] == "k"


# --- record batches


def rows(sink: DeliverySink[Any], count: int) -> None:
    """As if so many samples had come in one read."""
    sink.push_many([token_sample(SampleKind.PUT, f"k/{number}") for number in range(count)])


@pytest.mark.parametrize("sizes", [[3, 3, 3, 3], [1, 11], [12], [5, 7]])
@in_loop
async def test_chunks_are_concatenated_up_to_max_rows(sizes: list[int]) -> None:
    sink, channel = bind_channel(ArrowBatches(max_rows=5, max_delay=60))
    for size in sizes:
        rows(sink, size)
    assert [(await channel.recv()).num_rows for _ in range(2)] == [5, 5]
    sink.close()
    assert [batch.num_rows async for batch in channel] == [2]


@in_loop
async def test_partial_batch_is_delivered_after_max_delay() -> None:
    sink, channel = bind_channel(ArrowBatches(max_rows=100, max_delay=0.01))
    task = asyncio.create_task(channel.recv())
    rows(sink, 3)
    assert (await task).num_rows == 3


@in_loop
async def test_recv_cancelled_while_concatenating_loses_no_rows() -> None:
    sink, channel = bind_channel(ArrowBatches(max_rows=10, max_delay=60))
    task = asyncio.create_task(channel.recv())
    rows(sink, 3)
    await run_other_tasks(20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rows(sink, 7)
    assert (await channel.recv()).num_rows == 10


@in_loop
async def test_try_recv_returns_rows_of_a_cancelled_recv() -> None:
    sink, channel = bind_channel(ArrowBatches(max_rows=10, max_delay=60))
    task = asyncio.create_task(channel.recv())
    rows(sink, 3)
    await run_other_tasks(20)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    taken = channel.try_recv()
    assert taken is not None
    assert taken.num_rows == 3
    assert channel.try_recv() is None


@pytest.mark.slow
@in_loop
async def test_try_recv_takes_rows_another_recv_is_concatenating() -> None:
    sink, channel = bind_channel(ArrowBatches(max_rows=10, max_delay=0.05))
    task = asyncio.create_task(channel.recv())
    rows(sink, 3)
    await run_other_tasks(20)
    taken = channel.try_recv()
    assert taken is not None
    assert taken.num_rows == 3
    await asyncio.sleep(0.06)
    rows(sink, 2)
    assert (await task).num_rows == 2


@in_loop
async def test_two_receivers_of_batches_get_disjoint_rows() -> None:
    sink, channel = bind_channel(ArrowBatches(max_rows=4, max_delay=60))
    tasks = [asyncio.create_task(channel.recv()) for _ in range(2)]
    await run_other_tasks()
    for _ in range(8):
        rows(sink, 1)
        await run_other_tasks()
    assert [batch.num_rows for batch in await asyncio.gather(*tasks)] == [4, 4]


# --- a loop that is gone


def test_push_after_the_loop_closed_does_not_raise() -> None:
    async def leave() -> tuple[DeliverySink[Any], Channel[Any]]:
        sink, channel = bind_channel(FifoChannel(2))
        return sink, channel

    sink, _channel = asyncio.run(leave())
    assert [sink.push(number) for number in range(3)] == [True, False, False]
    sink.close()


def test_callback_is_not_called_after_its_loop_closed() -> None:
    seen: list[Any] = []

    async def leave() -> DeliverySink[Any]:
        return bind_callback(seen.append)

    sink = asyncio.run(leave())
    sink.push(1)
    sink.close()
    gc.collect()
    assert seen == []


def test_channels_of_two_event_loops_are_independent() -> None:
    sinks: dict[str, DeliverySink[Any]] = {}
    found: dict[str, list[Any]] = {}

    def run(name: str) -> Callable[[], None]:
        @in_loop
        async def receive() -> None:
            sinks[name], channel = bind_channel(FifoChannel(5000))
            found[name] = [item async for item in channel]

        return receive

    threads = [threading.Thread(target=run(name)) for name in "ab"]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(sinks) == 2)
    for number in range(2000):
        sinks["a"].push(number)
        sinks["b"].push(-number)
    for name, thread in zip("ab", threads, strict=True):
        sinks[name].close()
        thread.join(10)
    assert found == {"a": list(range(2000)), "b": [-number for number in range(2000)]}
