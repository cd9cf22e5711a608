"""Replies: what `get` gives. Asking happens when it is awaited, entered or iterated over for the first time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from zenspark.aio.channels import Channel, bind_async_handler
from zenspark.aio.send_readiness import SendTarget, WrapsSync
from zenspark.api.cancellation import CancellationToken
from zenspark.errors import UsageError
from zenspark.handlers.channel import ChannelClosed
from zenspark.net.io.writer import nonblocking
from zenspark.types.sample import Reply
from zenspark.wire.values import Congestion

REQUEST_TARGET: SendTarget = (Congestion.BLOCK, None)
"""How a query goes: it waits for room whatever it says of congestion, since it is never dropped."""

P = ParamSpec("P")
S = TypeVar("S")


class ReplyToken(CancellationToken):
    """Ends one query, and is itself ended by the token a user gave to that query."""

    def __init__(self, given: CancellationToken | None) -> None:
        super().__init__()
        self._given = given

    def check(self) -> None:
        super().check()
        if self._given is not None:
            self._given.check()

    @property
    def is_needed(self) -> bool:
        """Whether the query is in flight."""
        return bool(self._stops)

    def attach(self, stop: Callable[[], None]) -> None:
        super().attach(stop)
        if self._given is not None:
            self._given.attach(self.cancel)

    def detach(self, stop: Callable[[], None]) -> None:
        super().detach(stop)
        if self._given is not None:
            self._given.detach(self.cancel)


class Replies:
    """The replies to one query: `async for`, `recv`, `try_recv`.

    The query ends with the last reply, when the task that iterates is cancelled, when its `async with` block is left,
    by `cancel`, and when nobody holds this object any more, unless a callback gets the replies.
    """

    def __init__(
        self,
        asking: Coroutine[Any, Any, object],
        token: ReplyToken,
        later: Callable[[Callable[[], object]], None],
    ) -> None:
        self._query: Coroutine[Any, Any, object] | None = asking
        self._token = token
        self._later = later
        self._once = asyncio.Lock()
        self._handler: object = None

    async def _start(self) -> Self:
        async with self._once:
            if self._query is not None:
                asking, self._query = self._query, None
                self._handler = await asking
        return self

    def _channel(self) -> Channel[Reply]:
        if not isinstance(self._handler, Channel):
            raise UsageError(
                "this query has no channel to receive from: it was not asked, or a callback gets the replies"
            )
        return self._handler

    def __await__(self) -> Generator[Any, None, Self]:
        return self._start().__await__()

    @property
    def handler(self) -> Any:  # noqa: ANN401 - a channel, or whatever was given with a callback
        """Where the replies come."""
        return self._handler

    async def recv(self, timeout: float | None = None) -> Reply:  # noqa: ASYNC109 - as the synchronous one
        """The next reply, waited for; `timeout` in seconds. Raises `ChannelClosed` after the last.

        A task that is cancelled here leaves the query alone.
        """
        await self._start()
        return await self._channel().recv(timeout)

    def try_recv(self) -> Reply | None:
        """The next reply if there is one, None if not yet or not asked yet; raises `ChannelClosed` after the last."""
        return None if self._query is not None else self._channel().try_recv()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Reply:
        try:
            return await self.recv()
        except ChannelClosed:
            raise StopAsyncIteration from None
        except asyncio.CancelledError:
            self.cancel()
            raise

    def cancel(self) -> None:
        """End the query; what has come can still be received."""
        if self._query is not None:
            self._query.close()
            self._query = None
        self._token.cancel()

    async def __aenter__(self) -> Self:
        return await self._start()

    async def __aexit__(self, *_: object) -> None:
        self.cancel()

    def __del__(self) -> None:
        # the garbage collector may run in the middle of anything: nothing here may wait for a lock
        if isinstance(self._handler, Channel) and self._token.is_needed:
            self._later(self._token.cancel)


def async_get(
    method: Callable[Concatenate[S, P], Any], handler_at: int
) -> Callable[Concatenate[WrapsSync[S], P], Replies]:
    """The same `get` for tasks; `handler_at` is the place of the handler among its arguments."""

    async def ask(self: WrapsSync[S], token: ReplyToken, args: tuple[Any, ...], options: dict[str, Any]) -> object:
        token.check()
        if not self._readiness.is_ready(REQUEST_TARGET):
            await self._readiness.wait_until_ready(REQUEST_TARGET)
        args, options = bind_async_handler(args, {**options, "cancellation_token": token}, handler_at)
        with nonblocking:
            return method(self._sync, *args, **options)

    @wraps(method)
    def get(self: WrapsSync[S], /, *args: P.args, **options: P.kwargs) -> Replies:
        given: Any = options.get("cancellation_token")
        token = ReplyToken(given)
        return Replies(ask(self, token, args, options), token, self._readiness.later)

    return get
