"""What users name, and what becomes of it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.unit.api.handler_loops import Threads, UnusedLoop, bind, ignore
from zenspark.handlers.arrow import ArrowBatches, BatchChannel
from zenspark.handlers.handler import (
    DEFAULT_CAPACITY_ITEMS,
    Callback,
    DefaultHandler,
    FifoChannel,
    Handler,
    RingChannel,
    bind_sample_handler,
)

# --- what users name ------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [FifoChannel, RingChannel])
def test_channel_capacity_is_at_least_one_and_an_int(named: Callable[[Any], Any]) -> None:
    assert named(5).capacity == 5
    assert named(0).capacity == 1
    with pytest.raises(OverflowError, match="expected a capacity of 0 or more, found -1"):
        named(-1)
    with pytest.raises(TypeError, match="expected an int, found 'str'"):
        named("a")


def test_a_callback_is_called_like_its_function() -> None:
    callback = Callback(str)
    assert callback(3) == "3"
    assert (callback.callback, callback.drop, callback.indirect) == (str, None, True)
    assert repr(Callback(str, dict, indirect=False)) == f"Callback({str!r}, {dict!r}, indirect=False)"


@pytest.mark.parametrize("named", [None, DefaultHandler(), FifoChannel(DEFAULT_CAPACITY_ITEMS)])
def test_default_handler_is_a_fifo_channel(named: object) -> None:
    attached = bind(named)
    assert isinstance(attached.handler, Handler)
    assert attached.handler is attached.sink
    assert not attached.background
    assert all(attached.sink.push(number) for number in range(DEFAULT_CAPACITY_ITEMS - 1))
    assert not attached.sink.push(0)


def test_only_callbacks_without_an_object_run_in_the_background(threads: Threads) -> None:
    named: object
    for named in (repr, Callback(repr), Callback(repr, indirect=False)):
        attached = bind(named, threads)
        assert (attached.handler, attached.background) == (None, True)
        attached.sink.close()
    mine = object()
    attached = bind((repr, mine), threads)
    assert attached.handler is mine
    assert not attached.background
    attached.sink.close()


@pytest.mark.parametrize("wrong", [3, [ignore, 3], (ignore,), (3, 3), (ignore, 3, 4), "x"])
def test_bind_handler_rejects_other_objects(wrong: object) -> None:
    with pytest.raises(ValueError, match="expected a channel, a function or a pair"):
        bind(wrong)


async def on_item(_: object) -> None: ...


class Awaited:
    async def __call__(self, _: object) -> None: ...


async def on_end() -> None: ...


@pytest.mark.parametrize(
    "wrong",
    [
        on_item,
        partial(on_item, 1),
        Awaited(),
        Awaited().__call__,
        Callback(on_item),
        Callback(Callback(on_item)),
        Callback(print, on_end),
        (on_item, 1),
        (Callback(on_item), 1),
    ],
)
def test_coroutine_function_is_rejected_as_nothing_would_await_it(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"found the coroutine function .* zenspark.aio"):
        bind(wrong)


def test_only_samples_are_delivered_as_record_batches() -> None:
    assert isinstance(bind_sample_handler(ArrowBatches(), UnusedLoop(), ignore).sink, BatchChannel)
    with pytest.raises(ValueError, match=r"expected a channel, a function or a pair of .*, found <.*ArrowBatches"):
        bind(ArrowBatches())


def test_class_of_record_batches_is_no_handler() -> None:
    with pytest.raises(ValueError, match="expected a channel"):
        bind_sample_handler(ArrowBatches, UnusedLoop(), ignore)
