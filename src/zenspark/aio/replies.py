"""Replies: the result of `get`. The query is sent when it is first awaited, entered or iterated over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from zenspark.aio.channels import Channel, bind_async_handler
from zenspark.aio.documentation import document, set_return_type
from zenspark.aio.send_readiness import SendTarget, WrapsSync
from zenspark.api.cancellation import CancellationToken
from zenspark.errors import ChannelClosed, UsageError
from zenspark.net.io.writer import nonblocking
from zenspark.types.arguments import require_type
from zenspark.types.sample import Reply
from zenspark.wire.values import Congestion

REQUEST_TARGET: SendTarget = (Congestion.BLOCK, None)
"""A query waits for links with unsent bytes whatever its congestion control is, since it is never dropped."""

FORM = """
Iterate over the result with `async for`, or `await` it to send the query and receive later. The query ends when the
task that iterates is cancelled.
""".strip()

P = ParamSpec("P")
S = TypeVar("S")
H_co = TypeVar("H_co", covariant=True)


class LinkedCancellationToken(CancellationToken):
    """Ends one query, and is itself cancelled by the token that the user gave to that query."""

    def __init__(self, user_token: CancellationToken | None) -> None:
        super().__init__()
        self._user_token = user_token

    def check(self) -> None:
        super().check()
        if self._user_token is not None:
            require_type(CancellationToken, self._user_token).check()

    @property
    def has_pending_query(self) -> bool:
        """Whether the query of the token is pending."""
        return bool(self._stops)

    def attach(self, stop: Callable[[], None]) -> None:
        super().attach(stop)
        if self._user_token is not None:
            self._user_token.attach(self.cancel)

    def detach(self, stop: Callable[[], None]) -> None:
        super().detach(stop)
        if self._user_token is not None:
            self._user_token.detach(self.cancel)


class Replies(Generic[H_co]):
    """The replies to one query: receive them with `async for`, `recv` or `try_recv`.

    The query ends with the last reply, when the task that iterates is cancelled, at the end of the `async with` block,
    by `cancel`, and when this object is garbage-collected, unless a callback receives the replies.

    Example:
        >>> async for reply in session.get("demo/**"):
        ...     print(reply.ok)
    """

    def __init__(
        self,
        query: Coroutine[Any, Any, object],
        token: LinkedCancellationToken,
        call_soon: Callable[[Callable[[], object]], None],
    ) -> None:
        """Wrap a query that is not sent yet.

        Args:
            query: Sends the query, and returns its handler.
            token: Ends the query.
            call_soon: Runs a function in the network thread; takes no lock.
        """
        self._query: Coroutine[Any, Any, object] | None = query
        self._token = token
        self._call_soon = call_soon
        self._start_lock = asyncio.Lock()
        self._handler: object = None

    async def _start(self) -> Self:
        async with self._start_lock:
            if self._query is not None:
                query, self._query = self._query, None
                self._handler = await query
        return self

    def _channel(self) -> Channel[Reply]:
        if not isinstance(self._handler, Channel):
            raise UsageError(
                "this query has no channel to receive from: it was not sent, or a callback receives the replies"
            )
        return self._handler

    def __await__(self) -> Generator[Any, None, Self]:
        return self._start().__await__()

    @property
    def handler(self) -> H_co:
        """The channel of replies, the object that was given with a callback, or None; None before it is awaited."""
        return self._handler  # type: ignore[return-value]

    async def recv(
        self: Replies[Channel[Reply]],
        timeout: float | None = None,  # noqa: ASYNC109 - as the synchronous one
    ) -> Reply:
        """Wait for the next reply. A task that is cancelled here does not end the query.

        Args:
            timeout: Seconds to wait; without end by default.

        Returns:
            The reply.

        Raises:
            ReceiveTimeout: No reply came in time.
            ChannelClosed: The last reply was received.
            UsageError: A callback receives the replies.
            ValueError: The timeout is NaN.
            TypeError: The timeout is no number.

        Example:
            >>> replies = session.get("demo/**")
            >>> reply = await replies.recv(timeout=1)
        """
        await self._start()
        return await self._channel().recv(timeout)

    def try_recv(self: Replies[Channel[Reply]]) -> Reply | None:
        """Return the next reply without waiting.

        Returns:
            The reply, or None if there is none yet or the query was not sent yet.

        Raises:
            ChannelClosed: The last reply was received.
            UsageError: A callback receives the replies.

        Example:
            >>> replies = await session.get("demo/**")
            >>> reply = replies.try_recv()
        """
        return None if self._query is not None else self._channel().try_recv()

    def __aiter__(self: Replies[Channel[Reply]]) -> AsyncIterator[Reply]:
        return self

    async def __anext__(self: Replies[Channel[Reply]]) -> Reply:
        try:
            return await self.recv()
        except ChannelClosed:
            raise StopAsyncIteration from None
        except asyncio.CancelledError:
            self.cancel()
            raise

    def cancel(self) -> None:
        """End the query; replies that have arrived can still be received.

        Example:
            >>> replies = await session.get("demo/**")
            >>> replies.cancel()
        """
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
        if isinstance(self._handler, Channel) and self._token.has_pending_query:
            self._call_soon(self._token.cancel)


def async_get(
    method: Callable[Concatenate[S, P], Any], handler_at: int, example: str
) -> Callable[Concatenate[WrapsSync[S], P], Replies[Any]]:
    """Make the asynchronous form of a `get`; `handler_at` is the position of the handler among its arguments."""

    async def start(
        self: WrapsSync[S], token: LinkedCancellationToken, args: tuple[Any, ...], options: dict[str, Any]
    ) -> object:
        token.check()
        if not self._readiness.is_ready(REQUEST_TARGET):
            await self._readiness.wait_until_ready(REQUEST_TARGET)
        args, options = bind_async_handler(args, {**options, "cancellation_token": token}, handler_at)
        with nonblocking:
            return method(self._sync, *args, **options)

    @wraps(method)
    def get(self: WrapsSync[S], /, *args: P.args, **options: P.kwargs) -> Replies[Any]:
        user_token: Any = options.get("cancellation_token")
        token = LinkedCancellationToken(user_token)
        return Replies(start(self, token, args, options), token, self._readiness.call_soon)

    document(get, method, FORM, example, "The replies.")
    set_return_type(get, method, "Replies")
    return get
