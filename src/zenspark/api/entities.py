"""Entities that a session declares: publishers, subscribers, queryables, queriers, tokens, listeners.

An entity lives until it is undeclared, leaves its `with` block, or its session closes. One that delivers to a channel
also ends when it is garbage-collected; one with a callback lives on in the background, as long as its session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import GenericAlias
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from zenspark.api._signatures import IntoCallback, IntoCallbackAndHandler, IntoChannel, QuerierGetOptions
from zenspark.api.cancellation import CancellationToken, QueryCancellation
from zenspark.engine.direct_queries import QueryRequest
from zenspark.engine.interests import LocalInterest
from zenspark.engine.matching_status import MatchingTracker
from zenspark.engine.queryables import LocalQueryable
from zenspark.engine.runtime import SessionRuntime
from zenspark.engine.subscriptions import ColumnSink, Subscription
from zenspark.errors import UsageError
from zenspark.handlers.handler import BoundHandler, Handler, log_sink_failure
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind, Face
from zenspark.types.encoding import Encoding
from zenspark.types.enums import Locality, ReplyKeyExpr, SampleKind
from zenspark.types.ids import EntityGlobalId, SourceInfo
from zenspark.types.network_info import MatchingStatus
from zenspark.types.sample import Reply, token_sample
from zenspark.types.selector import IntoParameters, Parameters, Selector
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.uncopyable import refuse_copy
from zenspark.types.zbytes import IntoZBytes
from zenspark.wire import messages
from zenspark.wire import values as wire

T = TypeVar("T")
H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)


class Entity:
    """An entity that a session declared. It can be undeclared once, and cannot be used afterwards.

    As a context manager it undeclares itself at the end of the `with` block.
    """

    _NAME = "entity"

    def __init__(self, runtime: SessionRuntime, number: int, end: Callable[[], None]) -> None:
        """Register the entity with its session.

        Args:
            runtime: State of the session.
            number: Id of the entity in its session.
            end: Undeclares it. It must not refer to the entity, as it outlives one that has a callback.
        """
        self._runtime = runtime
        self._number = number
        self._is_live = True
        runtime.entities.add(number, end)

    def undeclare(self) -> None:
        """Undeclare the entity: neighbours are informed, and its channel is closed or its callback dropped.

        Raises:
            UsageError: The entity was undeclared before.

        Example:
            >>> publisher = session.declare_publisher("demo/temperature")
            >>> publisher.undeclare()
        """
        self._check()
        self._is_live = False
        self._runtime.entities.undeclare(self._number)

    def _check(self) -> None:
        if not self._is_live:
            raise UsageError(f"this {self._NAME} was undeclared: it can no longer be used")

    def _check_open(self) -> None:
        self._check()
        self._runtime.check_open()

    @property
    def id(self) -> EntityGlobalId:
        """The id of the entity, unique in the network. Raises `UsageError` after it was undeclared."""
        self._check()
        return EntityGlobalId.from_wire(self._runtime.entities.global_id(self._number))

    __reduce_ex__ = refuse_copy

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            self.undeclare()

    def _ends_when_collected(self) -> bool:
        """Return whether it ends when it is garbage-collected."""
        return True

    def __del__(self) -> None:
        # the garbage collector may run in the middle of anything: nothing here may wait for a lock
        if getattr(self, "_is_live", False) and self._ends_when_collected():
            runtime, number = self._runtime, self._number
            runtime.call_soon(lambda: runtime.entities.undeclare(number))


class NoChannelError(UsageError, AttributeError, TypeError):
    """A caller receives from an entity that delivers to a callback.

    It is also of the types that eclipse-zenoh raises for that.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    @classmethod
    def of(cls, entity: Entity) -> Self:
        """Make the error for an entity."""
        return cls(entity._NAME)

    def __str__(self) -> str:
        return f"this {self.name} has no channel to receive from: its callback gets everything"


class Receiver(Entity, Generic[H_co]):
    """An entity that delivers to a handler: receive from its channel with `recv`, `try_recv` or a `for` loop."""

    def __init__(self, runtime: SessionRuntime, number: int, end: Callable[[], None], bound: BoundHandler) -> None:
        """Register the entity with its session.

        Args:
            runtime: State of the session.
            number: Id of the entity in its session.
            end: Undeclares it. It must not refer to the entity, as it outlives one that has a callback.
            bound: The handler it delivers to.
        """
        self._handler = bound.handler
        self._is_background = bound.background
        super().__init__(runtime, number, end)

    def undeclare(self) -> None:
        super().undeclare()
        self._handler = None  # unless the caller still receives from it, queries in it end now

    def _ends_when_collected(self) -> bool:
        return not self._is_background

    @property
    def handler(self) -> H_co:
        """The channel it delivers to, the object that was given with a callback, or None for a callback alone."""
        self._check()
        return self._handler  # type: ignore[return-value]

    def _channel(self) -> Handler[Any]:
        self._check()
        handler = self._handler
        if not hasattr(handler, "recv"):
            raise NoChannelError.of(self)
        return handler  # type: ignore[return-value]  # or an object given with a callback, if it has `recv`

    def recv(self: Receiver[Handler[T]], timeout: float | None = None) -> T:
        """Return the next item, and wait for it if there is none yet.

        Args:
            timeout: Seconds to wait; without end by default.

        Returns:
            The item.

        Raises:
            ReceiveTimeout: No item came in time.
            ChannelClosed: No item will ever come: the entity ended, and all items were received.
            UsageError: It was undeclared, or delivers to a callback.
            ValueError: The timeout is NaN.
            TypeError: The timeout is no number.

        Example:
            >>> sample = subscriber.recv(timeout=1)
        """
        channel: Handler[T] = self._channel()
        return channel.recv() if timeout is None else channel.recv(timeout)

    def try_recv(self: Receiver[Handler[T]]) -> T | None:
        """Return the next item without waiting.

        Returns:
            The item, or None if there is none yet.

        Raises:
            ChannelClosed: No item will ever come: the entity ended, and all items were received.
            UsageError: It was undeclared, or delivers to a callback.

        Example:
            >>> sample = subscriber.try_recv()
            >>> if sample is not None:
            ...     print(sample.key_expr)
        """
        channel: Handler[T] = self._channel()
        return channel.try_recv()

    def __iter__(self: Receiver[Handler[T]]) -> Iterator[T]:
        """Iterate over the items until the entity ends."""
        self._check()
        handler = self._handler
        if handler is None:
            raise NoChannelError.of(self)
        return iter(handler)  # type: ignore[call-overload,no-any-return]  # or an object given with a callback


class Subscriber(Receiver[H_co]):
    """Receives the samples that are published on matching keys. `Session.declare_subscriber` makes it.

    `Subscriber[Handler[Sample]]` has a channel, `Subscriber[None]` a callback.

    Example:
        >>> with session.declare_subscriber("demo/**") as subscriber:
        ...     sample = subscriber.recv(timeout=1)
    """

    _NAME = "subscriber"

    def __init__(self, runtime: SessionRuntime, key_expr: KeyExpr, origin: Locality, bound: BoundHandler) -> None:
        """Declare the subscriber.

        Args:
            runtime: State of the session.
            key_expr: Keys to receive.
            origin: Whether samples of this session, of others, or both are received.
            bound: The handler it delivers to.
        """
        columns = bound.sink if isinstance(bound.sink, ColumnSink) else None
        subscription = Subscription(runtime.entities.next_id(), key_expr, origin, bound.sink, columns)
        super().__init__(
            runtime, subscription.id, lambda: runtime.subscriber_declarations.undeclare(subscription), bound
        )
        self._key_expr = key_expr
        runtime.subscriber_declarations.declare(subscription)

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression of the keys it receives."""
        self._check()
        return self._key_expr


class LivelinessSubscriber(Subscriber[H_co]):
    """Receives a sample when a matching token appears (PUT) or disappears (DELETE).

    `Liveliness.declare_subscriber` makes it.
    """

    _NAME = "liveliness subscriber"

    def __init__(self, runtime: SessionRuntime, key_expr: KeyExpr, history: bool, bound: BoundHandler) -> None:
        """Declare the subscriber of tokens.

        Args:
            runtime: State of the session.
            key_expr: Keys of the tokens.
            history: Whether tokens that exist already are delivered.
            bound: The handler it delivers to.
        """
        sink = bound.sink

        def notify(change: SampleKind, key: str, source: Face) -> None:
            try:
                has_capacity = sink.push(token_sample(change, key))
            except Exception:  # of a handler's own sink: the session with the neighbour lives on
                log_sink_failure(key_expr)
                return
            if not has_capacity:
                runtime.backpressure.on_full(sink, source)

        def end() -> None:
            runtime.interests.undeclare(interest)
            runtime.backpressure.remove(sink)
            sink.close()

        interest = LocalInterest(runtime.entities.next_id(), DeclarationKind.TOKEN, key_expr, notify, lambda: None)
        Receiver.__init__(self, runtime, interest.id, end, bound)
        self._key_expr = key_expr
        runtime.interests.declare(interest, wire.InterestMode.CURRENT_FUTURE if history else wire.InterestMode.FUTURE)


class Queryable(Receiver[H_co]):
    """Receives queries for matching keys, which its owner replies to. `Session.declare_queryable` makes it.

    `Queryable[Handler[Query]]` has a channel, `Queryable[None]` a callback.

    Example:
        >>> with session.declare_queryable("demo/time") as queryable:
        ...     for query in queryable:
        ...         with query:
        ...             query.reply("demo/time", "noon")
    """

    _NAME = "queryable"

    def __init__(
        self, runtime: SessionRuntime, key_expr: KeyExpr, complete: bool, origin: Locality, bound: BoundHandler
    ) -> None:
        """Declare the queryable.

        Args:
            runtime: State of the session.
            key_expr: Keys to reply for.
            complete: Whether it has a value for every key it matches.
            origin: Whether queries of this session, of others, or both are received.
            bound: The handler it delivers to.
        """
        number = runtime.entities.next_id()
        queryable = LocalQueryable(number, key_expr, complete, origin, bound.sink, runtime.entities.global_id(number))
        super().__init__(runtime, queryable.id, lambda: runtime.queryables.undeclare(queryable), bound)
        self._key_expr = key_expr
        runtime.queryables.declare(queryable)

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression of the keys it replies for."""
        self._check()
        return self._key_expr


class LivelinessToken(Entity):
    """A key that is alive until the token is undeclared, or its session closes or is lost.

    `Liveliness.declare_token` makes it.

    Example:
        >>> token = session.liveliness().declare_token("group/member-1")
        >>> token.undeclare()
    """

    _NAME = "liveliness token"

    def __init__(self, runtime: SessionRuntime, key_expr: KeyExpr) -> None:
        """Declare the token.

        Args:
            runtime: State of the session.
            key_expr: Key of the token.
        """
        number = runtime.entities.next_id()
        super().__init__(runtime, number, lambda: runtime.sender.declare(messages.UndeclareToken(id=number)))
        runtime.sender.declare(messages.DeclareToken(id=number, wire_expr=wire.WireExpr(0, str(key_expr))))


class MatchingListener(Receiver[H_co]):
    """Receives the matching status of a publisher or querier whenever it changes.

    `Publisher.declare_matching_listener` and `Querier.declare_matching_listener` make it.

    Example:
        >>> with publisher.declare_matching_listener() as listener:
        ...     status = listener.recv()
    """

    _NAME = "matching listener"

    def __init__(self, runtime: SessionRuntime, matching: MatchingTracker, bound: BoundHandler) -> None:
        """Start to listen for changes of the matching status.

        Args:
            runtime: State of the session.
            matching: Tracks the status.
            bound: The handler it delivers to.
        """
        number = runtime.entities.next_id()
        super().__init__(runtime, number, lambda: matching.unlisten(number), bound)
        matching.listen(number, bound.sink)


class MatchingEntity(Entity):
    """A publisher or querier: it tracks whether there are matching subscribers or queryables."""

    def __init__(self, runtime: SessionRuntime, key_expr: KeyExpr, matching: MatchingTracker) -> None:
        """Register the publisher or querier with its session.

        Args:
            runtime: State of the session.
            key_expr: Its key expression.
            matching: Tracks whether there are matching entities.
        """
        super().__init__(runtime, runtime.entities.next_id(), matching.end)
        self._key_expr = key_expr
        self._matching = matching

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression it publishes on or queries."""
        self._check()
        return self._key_expr

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are matching subscribers or queryables; true or false in an `if`."""
        self._check()
        return MatchingStatus(self._matching.status)

    @overload
    def declare_matching_listener(
        self,
        handler: IntoChannel[MatchingStatus] | None = None,
    ) -> MatchingListener[Handler[MatchingStatus]]: ...
    @overload
    def declare_matching_listener(
        self,
        handler: IntoCallbackAndHandler[MatchingStatus, H],
    ) -> MatchingListener[H]: ...
    @overload
    def declare_matching_listener(
        self,
        handler: IntoCallback[MatchingStatus],
    ) -> MatchingListener[None]: ...

    def declare_matching_listener(self, handler: object = None) -> MatchingListener[Any]:
        """Listen for changes of `matching_status`.

        Args:
            handler: Where the new statuses are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`),
                a function that is called with each of them, or a pair of a function and an object; by default a
                `FifoChannel` of 256.

        Returns:
            The listener. With a channel it ends when it is garbage-collected; with a callback it lives as long as the
            session, unless it is undeclared.

        Raises:
            SessionClosed: The session was closed.
            UsageError: It was undeclared.
            TypeError: An argument has a wrong type.
            ValueError: The handler is none of these.

        Example:
            >>> listener = publisher.declare_matching_listener(lambda status: print(status.matching))
        """
        self._check_open()
        return MatchingListener(self._runtime, self._matching, self._runtime.bind_handler(handler))


class Querier(MatchingEntity):
    """Queries one key expression, with settings that were validated once. `Session.declare_querier` makes it.

    Example:
        >>> with session.declare_querier("demo/**") as querier:
        ...     for reply in querier.get(parameters="limit=10"):
        ...         print(reply.ok)
    """

    _NAME = "querier"

    def __class_getitem__(cls, handler: object) -> GenericAlias:
        """Allow annotations such as `Querier[Handler]`, as eclipse-zenoh does."""
        return GenericAlias(cls, handler)

    def __init__(
        self,
        runtime: SessionRuntime,
        key_expr: KeyExpr,
        matching: MatchingTracker,
        accept: ReplyKeyExpr,
        make_request: Callable[..., QueryRequest],
    ) -> None:
        """Declare the querier.

        Args:
            runtime: State of the session.
            key_expr: Keys to query.
            matching: Tracks whether there are matching queryables.
            accept: Whether replies may be on keys that do not match the query.
            make_request: Makes a request from the settings of the querier and the arguments of one `get`.
        """
        super().__init__(runtime, key_expr, matching)
        self._accept = accept
        self._make_request = make_request
        self._default_request = make_request(Selector(key_expr, Parameters()))
        """The request of `get` without arguments."""

    @property
    def accept_replies(self) -> ReplyKeyExpr:
        """Whether replies may be on keys that do not match the query."""
        self._check()
        return self._accept

    @overload
    def get(
        self, handler: IntoChannel[Reply] | None = None, **options: Unpack[QuerierGetOptions]
    ) -> Handler[Reply]: ...
    @overload
    def get(self, handler: IntoCallbackAndHandler[Reply, H], **options: Unpack[QuerierGetOptions]) -> H: ...
    @overload
    def get(self, handler: IntoCallback[Reply], **options: Unpack[QuerierGetOptions]) -> None: ...

    def get(
        self,
        handler: object = None,
        *,
        parameters: IntoParameters | None = None,
        payload: IntoZBytes | None = None,
        encoding: Encoding | str | None = None,
        attachment: IntoZBytes | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        timestamp: Timestamp | None = None,
    ) -> Any:
        """Send a query.

        Args:
            handler: Where the replies are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, or a pair of a function and an object; by default a
                `FifoChannel` of 256.
            parameters: Parameters for the queryables, such as "limit=10" or a dictionary; none by default.
            payload: Value sent along with the query; none by default.
            encoding: Encoding of that payload; `zenoh/bytes` by default.
            attachment: Bytes or text sent along with the query; none by default.
            source_info: Querier and sequence number of the query; none by default.
            cancellation_token: Token that ends the query when it is cancelled; none by default.
            timestamp_instrumentation: Points on the way at which nodes record the time; none by default.
            timestamp: Time of the query, which queryables read as `query.timestamp`; none by default. Not in
                eclipse-zenoh.

        Returns:
            The channel of replies, which is closed after the last; or the object that was given with a callback, or
            None.

        Raises:
            UsageError: The querier was undeclared, or the parameters have more than 65,535 bytes.
            SessionClosed: The session was closed.
            TypeError: An argument has a wrong type.
            ValueError: The handler is none of these.

        Example:
            >>> replies = list(querier.get(parameters="limit=10"))
        """
        self._check_open()
        extras = (parameters, payload, encoding, attachment, source_info, timestamp_instrumentation, timestamp)
        request = self._default_request
        if any(extra is not None for extra in extras):
            request = self._make_request(
                Selector(self._key_expr, Parameters.of(parameters)),
                payload=payload,
                encoding=encoding,
                attachment=attachment,
                source_info=source_info,
                timestamp_instrumentation=timestamp_instrumentation,
                timestamp=timestamp,
            )
        return start_query(self._runtime, request, handler, cancellation_token)


def start_query(
    runtime: SessionRuntime, request: QueryRequest, handler: object, token: CancellationToken | None
) -> Any:  # noqa: ANN401 - the type depends on the handler
    """Send a query of an open session. Returns the channel of replies, or the object given with a callback."""
    if token is None:
        bound = runtime.bind_handler(handler)
        runtime.queries.start(request, bound.sink)
        return bound.handler
    cancellation = QueryCancellation(runtime, token, handler)
    bound = runtime.bind_handler(cancellation.handler)
    cancellation.watch(runtime.queries.start(request, bound.sink))
    return bound.handler
