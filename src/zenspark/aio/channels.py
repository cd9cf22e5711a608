"""Channels of an event loop, and callbacks that run in it.

The network thread pushes into the channels of the synchronous API; only their wakeup is another one. It is scheduled in
the loop once for all items that arrive until a task has found the channel empty again. Nothing is taken while a task
waits: it is woken, tries, and takes. So a task that is cancelled while it waits leaves all items in the channel.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from inspect import isawaitable
from math import isnan
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from zenspark.errors import ChannelClosed, ReceiveTimeout
from zenspark.handlers.callback import CALLBACK_CAPACITY_ITEMS, log_callback_failure
from zenspark.handlers.channel import Resume
from zenspark.handlers.handler import (
    BindableHandler,
    BoundHandler,
    Callback,
    FifoChannel,
    Handler,
    bind_handler,
    bind_sample_handler,
)
from zenspark.net.loop.executor import CallbackExecutor, ThreadPerCallback

T = TypeVar("T")

MAX_ITEMS_PER_TURN = 256
"""Items received or sent in a row before the other tasks of the event loop run."""

logger = logging.getLogger("zenspark.handlers")


class LoopWakeup:
    """A wakeup lock that is released in any thread and awaited in one event loop."""

    __slots__ = ("_is_set", "_loop", "_waiting")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._waiting: set[asyncio.Future[None]] = set()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Clear the wakeup, without waiting: a task that now finds the channel empty may wait for the next release."""
        was_set, self._is_set = self._is_set, False
        return was_set

    def locked(self) -> bool:
        return not self._is_set

    def release(self) -> None:
        self._is_set = True
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            logger.debug("cannot wake tasks that wait for an item: their event loop is closed")

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self) -> None:
        """Wait for the next release."""
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)


class Channel(Generic[T]):
    """A channel of an event loop: receive with `await recv()`, `try_recv()` or `async for`. Each item reaches one task.

    Args:
        handler: The channel that the session delivers into.
        wrap_item: Wraps each item; they are received as they are by default.

    Example:
        >>> async for sample in subscriber.handler:
        ...     print(sample.key_expr)
    """

    def __init__(self, handler: Handler[Any], wrap_item: Callable[[Any], T] | None = None) -> None:
        self._wakeup = LoopWakeup()
        self._handler = handler
        self._wrap_item = wrap_item
        self._taken = 0
        handler.use_wakeup(self._wakeup)

    def try_recv(self) -> T | None:
        """Return the next item without waiting.

        Returns:
            The item, or None if there is none yet.

        Raises:
            ChannelClosed: The channel is closed and empty.

        Example:
            >>> sample = subscriber.handler.try_recv()
        """
        return self._take()

    def _take(self) -> T | None:
        item = self._handler.try_recv()
        return item if item is None or self._wrap_item is None else self._wrap_item(item)

    async def recv(self, timeout: float | None = None) -> T:  # noqa: ASYNC109 - as the synchronous one
        """Wait for the next item. A task that is cancelled here leaves it for the next receiver.

        Args:
            timeout: Seconds to wait; without end by default.

        Returns:
            The item.

        Raises:
            ReceiveTimeout: No item came in time.
            ChannelClosed: The channel is closed and empty.
            ValueError: The timeout is NaN.
            TypeError: The timeout is no number.

        Example:
            >>> sample = await subscriber.handler.recv(timeout=1)
        """
        item = self.take_nowait()
        if item is not None:
            return item
        if timeout is None:
            return await self.next_item()
        if isnan(timeout):
            raise ValueError("expected a number of seconds, found nan")
        try:
            async with asyncio.timeout(timeout):
                return await self.next_item()
        except TimeoutError:
            raise ReceiveTimeout(timeout) from None

    def take_nowait(self) -> T | None:
        """Return the next item if there is one, and it is not the turn of other tasks; otherwise None.

        Returns:
            The item, or None.

        Raises:
            ChannelClosed: The channel is closed and empty.

        Example:
            >>> sample = subscriber.handler.take_nowait()
            >>> if sample is None:
            ...     sample = await subscriber.handler.next_item()
        """
        self._taken += 1
        return self._take() if self._taken % MAX_ITEMS_PER_TURN else None

    async def next_item(self) -> T:
        """Wait for the next item, after `take_nowait` returned None.

        Returns:
            The item.

        Raises:
            ChannelClosed: The channel is closed and empty.

        Example:
            >>> sample = subscriber.handler.take_nowait()
            >>> if sample is None:
            ...     sample = await subscriber.handler.next_item()
        """
        return await self._wait_and_take()

    async def _wait_and_take(self) -> T:
        if not self._taken % MAX_ITEMS_PER_TURN:
            await asyncio.sleep(0)
        item = self._take()
        while item is None:
            self._wakeup.acquire()
            item = self._take()
            if item is None:
                await self._wakeup.wait()
                item = self._take()
        return item

    def __aiter__(self) -> ChannelIterator[T]:
        return ChannelIterator(self, self)

    def __repr__(self) -> str:
        return f"<aio.Channel of {self._handler!r}>"


class ChannelIterator(Generic[T]):
    """Iterator over the items of a channel; it holds a reference to the owner of the channel."""

    __slots__ = ("_channel", "_owner")

    def __init__(self, owner: object, channel: Channel[T]) -> None:
        self._owner = owner
        self._channel = channel

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            item = self._channel.take_nowait()
            return await self._channel.next_item() if item is None else item
        except ChannelClosed:
            raise StopAsyncIteration from None


@runtime_checkable
class BatchJoiner(Protocol):
    """A channel of record batches as the session fills it, chunk by chunk; a protocol, so that Arrow is not loaded."""

    limits: Any

    def try_chunk(self) -> Any:  # noqa: ANN401 - a record batch, or None
        ...

    def concat(self, chunks: list[Any], /) -> Any:  # noqa: ANN401 - one record batch of several
        ...


class AsyncBatchChannel(Channel[Any]):
    """A channel of record batches: concatenates chunks until there are enough rows or the delay is over."""

    def __init__(self, handler: Handler[Any], source: BatchJoiner) -> None:
        super().__init__(handler)
        self._source = source
        self._turn = asyncio.Lock()
        self._chunks: list[Any] = []
        """Chunks taken and not delivered yet: a task may be cancelled in between."""

    def take_nowait(self) -> None:
        """Return None: chunks are concatenated first."""

    async def next_item(self) -> Any:  # noqa: ANN401 - a record batch
        """Wait for the next rows, as many as arrive within the delay."""
        rows = None
        async with self._turn:
            while rows is None:  # another task may have taken them by `try_recv`
                if not self._chunks:
                    self._chunks.append(await self._wait_and_take())
                await self._collect()
                rows = self._take_batch()
        return rows

    async def _collect(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._source.limits.max_delay
        while sum(chunk.num_rows for chunk in self._chunks) < self._source.limits.max_rows:
            try:
                async with asyncio.timeout_at(deadline):
                    self._chunks.append(await self._wait_and_take())
            except (TimeoutError, ChannelClosed):
                break

    def _take_batch(self) -> Any:  # noqa: ANN401 - a record batch, or None
        chunks, self._chunks = self._chunks, []
        return self._source.concat(chunks) if chunks else None

    def try_recv(self) -> Any:  # noqa: ANN401 - a record batch, or None
        """Return the rows that have arrived, None if there are none yet."""
        chunk = None if self._chunks else self._take()
        if chunk is not None:
            self._chunks.append(chunk)
        return self._take_batch()

    def _take(self) -> Any:  # noqa: ANN401 - a record batch, or None
        return self._source.try_chunk()


class AsyncHandler:
    """A handler for the event loop it is made in: a channel, a callback, or a coroutine function.

    Callbacks are called in the loop one after the other, in the order of the items; a slow one slows its senders down,
    as in the synchronous API.
    """

    def __init__(self, handler: object, wrap_item: Callable[[Any], Any] | None = None) -> None:
        self._handler = handler
        self._wrap_item = wrap_item

    def bind(self, resume: Resume) -> BoundHandler:
        """Make the channel or the task that receives samples."""
        return self._bind(resume, bind_sample_handler)

    def bind_items(self, resume: Resume) -> BoundHandler:
        """Make the channel or the task that receives items of any type."""
        return self._bind(resume, bind_handler)

    def _bind(self, resume: Resume, bind: Callable[[object, CallbackExecutor, Resume], BoundHandler]) -> BoundHandler:
        handler = self._handler
        if isinstance(handler, tuple) and len(handler) == 2 and callable(handler[0]):
            return BoundHandler(self._start_callbacks(handler[0], resume), handler[1])
        if callable(handler) and not isinstance(handler, BindableHandler):
            return BoundHandler(self._start_callbacks(handler, resume), None, background=True)
        bound = bind(handler, ThreadPerCallback(), resume)
        sink = bound.sink
        if not isinstance(sink, Handler):
            return bound
        return BoundHandler(
            sink, AsyncBatchChannel(sink, sink) if isinstance(sink, BatchJoiner) else Channel(sink, self._wrap_item)
        )

    def _start_callbacks(self, callback: Callable[[Any], Any], resume: Resume) -> Handler[Any]:
        wrapped = callback if isinstance(callback, Callback) else Callback(callback)
        channel = bind_handler(FifoChannel(CALLBACK_CAPACITY_ITEMS), ThreadPerCallback(), resume).sink
        assert isinstance(channel, Handler)
        _start_task(run_callbacks(wrapped, Channel(channel, self._wrap_item)))
        return channel


def bind_async_handler(
    args: tuple[Any, ...], options: dict[str, Any], handler_at: int, wrap_item: Callable[[Any], Any] | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with the handler, given by name or position, replaced by one for the running loop."""
    if len(args) > handler_at:
        return (*args[:handler_at], AsyncHandler(args[handler_at], wrap_item), *args[handler_at + 1 :]), options
    return args, {**options, "handler": AsyncHandler(options.get("handler"), wrap_item)}


_running: set[asyncio.Task[None]] = set()
"""References to the tasks of callbacks, which would be collected otherwise; each ends with its channel."""


def _start_task(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(work, name="zenspark-callback")
    _running.add(task)
    task.add_done_callback(_running.discard)


async def run_callbacks(callback: Callback[T], channel: Channel[T]) -> None:
    """Call the callback with every item until the channel is closed, then its `drop`."""
    try:
        async for item in channel:
            await _call_once(callback, item)
            del item  # a reference would last until the next item, and a query ends when it is garbage-collected
    finally:
        if callback.drop is not None:
            await _call_logged(callback, callback.drop)


async def _call_once(callback: Callback[T], item: T) -> None:
    """Call the callback with an item. A query is dropped when its coroutine returns, or the callback fails."""
    may_keep = False
    try:
        may_keep = await _call_logged(callback, partial(callback.callback, item), item)
    finally:
        drop = getattr(item, "drop", None)
        if drop is not None and not may_keep:
            drop()


async def _call_logged(callback: Callback[T], call: Callable[[], object], item: object = None) -> bool:
    """Call, and log failures with the item's key. Returns whether a plain function succeeded: it may keep the item."""
    try:
        result = call()
        if not isawaitable(result):
            return True
        await result
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        logger.exception("callback %r cancelled itself", callback.callback)
    except (SystemExit, KeyboardInterrupt, GeneratorExit):  # of the whole event loop, which ends with them
        raise
    except BaseException:  # of the callback of the user; the next item is delivered all the same
        log_callback_failure(callback.callback, item)
    return False
