"""Liveliness tokens of a session: declare them, query them, subscribe to their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from zenspark.api._signatures import (
    IntoCallback,
    IntoCallbackAndHandler,
    IntoChannel,
    IntoKeyExpr,
    LivelinessGetOptions,
)
from zenspark.api.cancellation import CancellationToken, QueryCancellation
from zenspark.api.entities import (
    LivelinessSubscriber,
    LivelinessToken,
    Subscriber,
)
from zenspark.engine.runtime import SessionRuntime
from zenspark.handlers.handler import BindableHandler, Handler
from zenspark.types.arguments import to_bool, to_timeout
from zenspark.types.sample import Reply, Sample

if TYPE_CHECKING:
    import pyarrow as pa

    from zenspark.handlers.arrow import ArrowBatches

H = TypeVar("H")


class Liveliness:
    """Liveliness tokens of a session: declare them, query them, subscribe to their changes.

    A token is a key that exists as long as the session that declared it is alive and reachable.

    Example:
        >>> token = session.liveliness().declare_token("group/member-1")
        >>> for reply in session.liveliness().get("group/*"):
        ...     print(reply.ok.key_expr, "is alive")
    """

    def __init__(self, runtime: SessionRuntime, query_timeout: float) -> None:
        """Wrap the runtime of a session.

        Args:
            runtime: State of the session.
            query_timeout: Seconds after which `get` ends by default.
        """
        self._runtime = runtime
        self._query_timeout = query_timeout

    def declare_token(self, key_expr: IntoKeyExpr) -> LivelinessToken:
        """Declare a token, which is alive until it is undeclared or its session closes or cannot be reached.

        Args:
            key_expr: Key of the token.

        Returns:
            The token; it ends when it is undeclared, at the end of its `with` block, or when it is garbage-collected.

        Raises:
            SessionClosed: The session was closed.
            UsageError: The key expression is not valid.
            TypeError: An argument has a wrong type.

        Example:
            >>> token = session.liveliness().declare_token("group/member-1")
        """
        self._runtime.check_open()
        self._runtime.wait_for_links()
        return LivelinessToken(self._runtime, self._runtime.validate_key(key_expr))

    @overload
    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: IntoChannel[Sample] | None = None, *, history: bool | None = None
    ) -> Subscriber[Handler[Sample]]: ...
    @overload
    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: ArrowBatches, *, history: bool | None = None
    ) -> Subscriber[Handler[pa.RecordBatch]]: ...
    @overload
    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: IntoCallbackAndHandler[Sample, H], *, history: bool | None = None
    ) -> Subscriber[H]: ...
    @overload
    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: IntoCallback[Sample], *, history: bool | None = None
    ) -> Subscriber[None]: ...
    @overload
    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: BindableHandler, *, history: bool | None = None
    ) -> Subscriber[Any]: ...

    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: object = None, *, history: bool | None = None
    ) -> Subscriber[Any]:
        """Subscribe to tokens: a sample of kind PUT for each that appears, of kind DELETE for each that disappears.

        Args:
            key_expr: Key expression of the tokens.
            handler: Where the samples are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, a pair of a function and an object, or `ArrowBatches()`, a
                channel of record batches; by default a `FifoChannel` of 256.
            history: Whether tokens that exist already are delivered too; False by default.

        Returns:
            The subscriber. With a channel it ends when it is garbage-collected; with a callback it lives as long as the
            session, unless it is undeclared.

        Raises:
            SessionClosed: The session was closed.
            UsageError: The key expression is not valid.
            TypeError: An argument has a wrong type.
            ValueError: The handler is none of these.

        Example:
            >>> with session.liveliness().declare_subscriber("group/*", history=True) as subscriber:
            ...     for sample in subscriber:
            ...         print(sample.key_expr, sample.kind)
        """
        self._runtime.check_open()
        self._runtime.wait_for_links()
        key, with_history = self._runtime.validate_key(key_expr), to_bool(history)
        return LivelinessSubscriber(self._runtime, key, with_history, self._runtime.bind_sample_handler(handler))

    @overload
    def get(
        self, key_expr: IntoKeyExpr, handler: IntoChannel[Reply] | None = None, **options: Unpack[LivelinessGetOptions]
    ) -> Handler[Reply]: ...
    @overload
    def get(
        self, key_expr: IntoKeyExpr, handler: IntoCallbackAndHandler[Reply, H], **options: Unpack[LivelinessGetOptions]
    ) -> H: ...
    @overload
    def get(
        self, key_expr: IntoKeyExpr, handler: IntoCallback[Reply], **options: Unpack[LivelinessGetOptions]
    ) -> None: ...

    def get(
        self,
        key_expr: IntoKeyExpr,
        handler: object = None,
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> Any:
        """Query the tokens that exist: one reply for each.

        Args:
            key_expr: Key expression of the tokens.
            handler: Where the replies are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, or a pair of a function and an object; by default a
                `FifoChannel` of 256.
            timeout: Seconds after which the query ends; by default `queries_default_timeout` of the configuration (10
                s).
            cancellation_token: Token that ends the query when it is cancelled; none by default.

        Returns:
            The channel of replies, which is closed after the last; or the object that was given with a callback, or
            None.

        Raises:
            SessionClosed: The session was closed.
            UsageError: The key expression is not valid.
            TypeError: An argument has a wrong type.
            ValueError: The timeout is out of range, or the handler is none of these.

        Example:
            >>> alive = [reply.ok.key_expr for reply in session.liveliness().get("group/*")]
        """
        self._runtime.check_open()
        limit = to_timeout(timeout, self._query_timeout)
        key = self._runtime.validate_key(key_expr)
        cancellation = QueryCancellation(self._runtime, cancellation_token, handler)
        bound = self._runtime.bind_handler(cancellation.handler)
        cancellation.watch(self._runtime.liveliness.start(key, limit, bound.sink))
        return bound.handler
