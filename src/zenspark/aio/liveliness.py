"""Liveliness: the tokens of a session, for the tasks of one event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from zenspark.aio.awaitable import Pending
from zenspark.aio.channels import Channel
from zenspark.aio.entities import LivelinessToken, Subscriber, async_declare
from zenspark.aio.replies import Replies, async_get
from zenspark.aio.send_readiness import SendReadiness
from zenspark.api import liveliness as api
from zenspark.api._signatures import (
    IntoCallback,
    IntoCallbackAndHandler,
    IntoChannel,
    IntoKeyExpr,
    LivelinessGetOptions,
)
from zenspark.types.sample import Reply, Sample

if TYPE_CHECKING:
    import pyarrow as pa

    from zenspark.handlers.arrow import ArrowBatches

H = TypeVar("H")


class Liveliness:
    """Liveliness tokens of a session: declare them, query them, subscribe to their changes.

    Example:
        >>> token = await session.liveliness().declare_token("group/member-1")
        >>> async for reply in session.liveliness().get("group/*"):
        ...     print(reply.ok.key_expr, "is alive")
    """

    def __init__(self, readiness: SendReadiness, sync: api.Liveliness) -> None:
        """Wrap the tokens of a session.

        Args:
            readiness: Waits for links of the session that have unsent bytes.
            sync: The tokens of the synchronous API.
        """
        self._readiness = readiness
        self._sync = sync

    if TYPE_CHECKING:

        def declare_token(self, key_expr: IntoKeyExpr) -> Pending[LivelinessToken]:
            """Declare a token, which is alive until it is undeclared or its session closes or cannot be reached.

            `await` the result, or enter it with `async with`; before that nothing is declared.

            Args:
                key_expr: Key of the token.

            Returns:
                The token; it ends when it is undeclared, at the end of its `async with` block, or when it is
                garbage-collected.

            Raises:
                SessionClosed: The session was closed.
                UsageError: The key expression is not valid.
                TypeError: An argument has a wrong type.

            Example:
                >>> token = await session.liveliness().declare_token("group/member-1")
            """

    else:
        declare_token = async_declare(
            api.Liveliness.declare_token,
            LivelinessToken,
            'token = await session.liveliness().declare_token("group/member-1")',
        )
    if TYPE_CHECKING:

        @overload
        def declare_subscriber(
            self, key_expr: IntoKeyExpr, handler: IntoChannel[Sample] | None = None, *, history: bool | None = None
        ) -> Pending[Subscriber[Channel[Sample]]]: ...
        @overload
        def declare_subscriber(
            self, key_expr: IntoKeyExpr, handler: ArrowBatches, *, history: bool | None = None
        ) -> Pending[Subscriber[Channel[pa.RecordBatch]]]: ...
        @overload
        def declare_subscriber(
            self, key_expr: IntoKeyExpr, handler: IntoCallbackAndHandler[Sample, H], *, history: bool | None = None
        ) -> Pending[Subscriber[H]]: ...
        @overload
        def declare_subscriber(
            self, key_expr: IntoKeyExpr, handler: IntoCallback[Sample], *, history: bool | None = None
        ) -> Pending[Subscriber[None]]: ...
        def declare_subscriber(
            self, key_expr: IntoKeyExpr, handler: object = None, *, history: bool | None = None
        ) -> Pending[Subscriber[Any]]:
            """Subscribe to tokens: a sample of kind PUT for each that appears, of kind DELETE for each that disappears.

            `await` the result, or enter it with `async with`; before that nothing is declared.

            Args:
                key_expr: Key expression of the tokens.
                handler: Where the samples are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`),
                    a function or coroutine function that is called with each of them, a pair of a function and an
                    object, or `ArrowBatches()`, a channel of record batches; by default a `FifoChannel` of 256.
                history: Whether tokens that exist already are delivered too; False by default.

            Returns:
                The subscriber. With a channel it ends when it is garbage-collected; with a callback it lives as long as
                the session, unless it is undeclared.

            Raises:
                SessionClosed: The session was closed.
                UsageError: The key expression is not valid.
                TypeError: An argument has a wrong type.
                ValueError: The handler is none of these.

            Example:
                >>> async with session.liveliness().declare_subscriber("group/*", history=True) as subscriber:
                ...     async for sample in subscriber:
                ...         print(sample.key_expr, sample.kind)
            """

    else:
        declare_subscriber = async_declare(
            api.Liveliness.declare_subscriber,
            Subscriber,
            'async with session.liveliness().declare_subscriber("group/*", history=True) as subscriber:\n'
            "    async for sample in subscriber:\n        print(sample.key_expr, sample.kind)",
            1,
        )
    if TYPE_CHECKING:

        @overload
        def get(
            self,
            key_expr: IntoKeyExpr,
            handler: IntoChannel[Reply] | None = None,
            **options: Unpack[LivelinessGetOptions],
        ) -> Replies[Channel[Reply]]: ...
        @overload
        def get(
            self,
            key_expr: IntoKeyExpr,
            handler: IntoCallbackAndHandler[Reply, H],
            **options: Unpack[LivelinessGetOptions],
        ) -> Replies[H]: ...
        @overload
        def get(
            self, key_expr: IntoKeyExpr, handler: IntoCallback[Reply], **options: Unpack[LivelinessGetOptions]
        ) -> Replies[None]: ...
        def get(
            self, key_expr: IntoKeyExpr, handler: object = None, **options: Unpack[LivelinessGetOptions]
        ) -> Replies[Any]:
            """Query the tokens that exist: one reply for each.

            Iterate over the result with `async for`, or `await` it to send the query and receive later. The query ends
            when the task that iterates is cancelled.

            Args:
                key_expr: Key expression of the tokens.
                handler: Where the replies are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`),
                    a function or coroutine function that is called with each of them, or a pair of a function and an
                    object; by default a `FifoChannel` of 256.
                timeout: Seconds after which the query ends; by default `queries_default_timeout` of the configuration
                    (10 s).
                cancellation_token: Token that ends the query when it is cancelled; none by default.

            Returns:
                The replies.

            Raises:
                SessionClosed: The session was closed.
                UsageError: The key expression is not valid.
                TypeError: An argument has a wrong type.
                ValueError: The timeout is out of range, or the handler is none of these.

            Example:
                >>> async for reply in session.liveliness().get("group/*"):
                ...     print(reply.ok.key_expr)
            """

    else:
        get = async_get(
            api.Liveliness.get,
            1,
            'async for reply in session.liveliness().get("group/*"):\n    print(reply.ok.key_expr)',
        )
