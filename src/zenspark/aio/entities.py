"""Entities of a session for asyncio: each wraps the entity of the synchronous API.

An entity lives until it is undeclared, its `async with` block is left or its session closes; without a callback also
until it is garbage-collected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from zenspark.aio.awaitable import Closable, Pending
from zenspark.aio.channels import Channel, ChannelIterator, bind_async_handler
from zenspark.aio.documentation import document, set_return_type
from zenspark.aio.replies import Replies, async_get
from zenspark.aio.send_readiness import SendReadiness, SendTarget, WrapsSync, async_in_thread, async_send
from zenspark.api import entities as api
from zenspark.api._signatures import IntoCallback, IntoCallbackAndHandler, IntoChannel, QuerierGetOptions
from zenspark.api.publisher import Publisher as SyncPublisher
from zenspark.key import KeyExpr
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, Priority, Reliability, ReplyKeyExpr
from zenspark.types.ids import EntityGlobalId, SourceInfo
from zenspark.types.network_info import MatchingStatus
from zenspark.types.sample import Reply
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import IntoZBytes

if TYPE_CHECKING:
    from zenspark.engine.batch_publisher import BatchOrTable

FORM = "`await` the result, or enter it with `async with`; before that nothing is declared."

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)
E_co = TypeVar("E_co", bound=api.Entity, covariant=True)
R_co = TypeVar("R_co", bound=api.Receiver[Any], covariant=True)
M_co = TypeVar("M_co", bound=api.MatchingEntity, covariant=True)
K_co = TypeVar("K_co", bound="api.Subscriber[Any] | api.Queryable[Any]", covariant=True)
B = TypeVar("B", bound=api.Entity)
A = TypeVar("A", bound=Closable)


class Entity(Generic[E_co]):
    """An entity that a session declared. It can be undeclared once, and cannot be used afterwards."""

    def __init__(self, readiness: SendReadiness, sync: E_co) -> None:
        """Wrap an entity of the synchronous API.

        Args:
            readiness: Waits for links of the session that have unsent bytes.
            sync: The entity.
        """
        self._readiness = readiness
        self._sync = sync

    async def undeclare(self) -> None:
        """Undeclare the entity: neighbours are informed, and its channel is closed or its callback dropped.

        Raises:
            UsageError: The entity was undeclared before.

        Example:
            >>> publisher = await session.declare_publisher("demo/temperature")
            >>> await publisher.undeclare()
        """
        self._sync.undeclare()

    @property
    def id(self) -> EntityGlobalId:
        """The id of the entity, unique in the network. Raises `UsageError` after it was undeclared."""
        return self._sync.id

    async def __aenter__(self) -> Self:
        self._sync.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sync.__exit__()


class Receiver(Entity[R_co], Generic[R_co, H_co]):
    """An entity that delivers to a handler: receive with `await recv()`, `try_recv()` or `async for`."""

    @property
    def handler(self) -> H_co:
        """The channel it delivers to, the object that was given with a callback, or None for a callback alone."""
        handler: H_co = self._sync.handler
        return handler

    def _channel(self) -> Channel[Any]:
        handler = self._sync.handler
        if not isinstance(handler, Channel):
            raise api.NoChannelError.of(self._sync)
        return handler

    async def recv(
        self: Receiver[Any, Channel[T]],
        timeout: float | None = None,  # noqa: ASYNC109 - as the synchronous one
    ) -> T:
        """Wait for the next item. A task that is cancelled here leaves it for the next receiver.

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
            >>> sample = await subscriber.recv(timeout=1)
        """
        channel: Channel[T] = self._channel()
        return await channel.recv(timeout)

    def try_recv(self: Receiver[Any, Channel[T]]) -> T | None:
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
        channel: Channel[T] = self._channel()
        return channel.try_recv()

    def __aiter__(self: Receiver[Any, Channel[T]]) -> ChannelIterator[T]:
        return ChannelIterator(self, self._channel())


class KeyedReceiver(Receiver[K_co, H_co], Generic[K_co, H_co]):
    """A receiver with a key expression."""

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression of the keys it matches."""
        return self._sync.key_expr


class Subscriber(KeyedReceiver[api.Subscriber[Any], H_co]):
    """Receives the samples of matching keys, or tokens that appear and disappear there.

    `Session.declare_subscriber` and `Liveliness.declare_subscriber` make it. `Subscriber[Channel[Sample]]` has a
    channel, `Subscriber[None]` a callback.

    Example:
        >>> async with session.declare_subscriber("demo/**") as subscriber:
        ...     async for sample in subscriber:
        ...         print(sample.key_expr, sample.payload.to_string())
    """


class Queryable(KeyedReceiver[api.Queryable[Any], H_co]):
    """Receives queries for matching keys, which its owner replies to. `Session.declare_queryable` makes it.

    Example:
        >>> async with session.declare_queryable("demo/time") as queryable:
        ...     async for query in queryable:
        ...         async with query:
        ...             await query.reply("demo/time", "noon")
    """


class LivelinessToken(Entity[api.LivelinessToken]):
    """A key that is alive until the token is undeclared, or its session closes or is lost.

    `Liveliness.declare_token` makes it.

    Example:
        >>> token = await session.liveliness().declare_token("group/member-1")
        >>> await token.undeclare()
    """


class MatchingListener(Receiver[api.MatchingListener[Any], H_co]):
    """Receives the matching status of a publisher or querier whenever it changes.

    `Publisher.declare_matching_listener` and `Querier.declare_matching_listener` make it.

    Example:
        >>> async with publisher.declare_matching_listener() as listener:
        ...     status = await listener.recv()
    """


def async_declare(
    method: Callable[Concatenate[S, P], B],
    entity: Callable[[SendReadiness, B], A],
    example: str,
    handler_at: int | None = None,
    item: Callable[[SendReadiness, Any], Any] | None = None,
) -> Callable[Concatenate[WrapsSync[S], P], Pending[A]]:
    """Make the asynchronous form of a method that declares an entity.

    Args:
        method: The synchronous method.
        entity: Wraps the entity that it returns.
        example: Lines of Python for the docstring.
        handler_at: Position of the handler among the arguments of the method; None if it has none.
        item: Wraps each item that is delivered; they are delivered as they are by default.
    """

    async def declare(self: WrapsSync[S], args: tuple[Any, ...], options: dict[str, Any]) -> A:
        if handler_at is not None:
            wrap_item = None if item is None else partial(item, self._readiness)
            args, options = bind_async_handler(args, options, handler_at, wrap_item)
        return entity(self._readiness, method(self._sync, *args, **options))  # it fills an outbox, and never blocks

    @wraps(method)
    def pending(self: WrapsSync[S], /, *args: P.args, **options: P.kwargs) -> Pending[A]:
        return Pending(declare(self, args, options))

    document(pending, method, FORM, example)
    set_return_type(pending, method, f"Pending[{entity.__name__}]")
    return pending


class Matcher(Entity[M_co]):
    """A publisher or querier: it tracks whether there are matching subscribers or queryables."""

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression it publishes on or queries."""
        return self._sync.key_expr

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are matching subscribers or queryables; true or false in an `if`."""
        return self._sync.matching_status

    if TYPE_CHECKING:

        @overload
        def declare_matching_listener(
            self, handler: IntoChannel[MatchingStatus] | None = None
        ) -> Pending[MatchingListener[Channel[MatchingStatus]]]: ...
        @overload
        def declare_matching_listener(
            self, handler: IntoCallbackAndHandler[MatchingStatus, H]
        ) -> Pending[MatchingListener[H]]: ...
        @overload
        def declare_matching_listener(
            self, handler: IntoCallback[MatchingStatus]
        ) -> Pending[MatchingListener[None]]: ...
        def declare_matching_listener(self, handler: object = None) -> Pending[MatchingListener[Any]]:
            """Listen for changes of `matching_status`.

            `await` the result, or enter it with `async with`; before that nothing is declared.

            Args:
                handler: Where the new statuses are delivered. A channel (`FifoChannel(capacity)`,
                    `RingChannel(capacity)`), a function or coroutine function that is called with each of them, or a
                    pair of a function and an object; by default a `FifoChannel` of 256.

            Returns:
                The listener. With a channel it ends when it is garbage-collected; with a callback it lives as long as
                the session, unless it is undeclared.

            Raises:
                SessionClosed: The session was closed.
                UsageError: It was undeclared.
                TypeError: An argument has a wrong type.
                ValueError: The handler is none of these.

            Example:
                >>> listener = await publisher.declare_matching_listener()
                >>> status = await listener.recv()
            """

    else:
        declare_matching_listener = async_declare(
            api.MatchingEntity.declare_matching_listener,
            MatchingListener,
            "listener = await publisher.declare_matching_listener()\nstatus = await listener.recv()",
            0,
        )


class Publisher(Matcher[SyncPublisher]):
    """Publishes on one key, with settings that were validated and encoded once. `Session.declare_publisher` makes it.

    Example:
        >>> async with session.declare_publisher("demo/temperature") as publisher:
        ...     await publisher.put("21.5")
    """

    def __init__(self, readiness: SendReadiness, sync: SyncPublisher) -> None:
        """Wrap an entity of the synchronous API.

        Args:
            readiness: Waits for links of the session that have unsent bytes.
            sync: The entity.
        """
        super().__init__(readiness, sync)
        self._target = (sync.congestion_control.to_wire(), str(sync.key_expr))

    def _send_target(self, args: tuple[object, ...], options: dict[str, Any]) -> SendTarget:
        return self._target

    @property
    def encoding(self) -> Encoding:
        """The encoding of payloads that are put without one."""
        return self._sync.encoding

    @property
    def congestion_control(self) -> CongestionControl:
        """The treatment of the publisher's samples while a link has unsent bytes: DROP, BLOCK or BLOCK_FIRST."""
        return self._sync.congestion_control

    @property
    def priority(self) -> Priority:
        """The priority of its samples."""
        return self._sync.priority

    @property
    def reliability(self) -> Reliability:
        """The lane on which the publisher's samples are sent: reliable or best effort."""
        return self._sync.reliability

    if TYPE_CHECKING:

        async def put(
            self,
            payload: IntoZBytes,
            *,
            encoding: Encoding | str | None = None,
            attachment: IntoZBytes | None = None,
            timestamp: Timestamp | None = None,
            timestamp_instrumentation: TimestampInstrumentation | None = None,
            source_info: SourceInfo | None = None,
        ) -> None:
            """Publish a value.

            `await` it: it returns when the message can be sent without blocking.

            Args:
                payload: The value: bytes, a string (sent as UTF-8), or `ZBytes`.
                encoding: Encoding of this payload; that of the publisher by default.
                attachment: Bytes or text sent along with the value; none by default.
                timestamp: Time of the sample; by default none, or the time now where `timestamping/enabled` is set.
                timestamp_instrumentation: Points on the way at which nodes record the time; none by default.
                source_info: Publisher and sequence number of the sample; none by default.

            Raises:
                UsageError: The publisher was undeclared.
                SessionClosed: The session was closed.
                TypeError: An argument has a wrong type.

            Example:
                >>> await publisher.put("21.5", encoding="text/plain")
            """

        async def delete(
            self,
            *,
            attachment: IntoZBytes | None = None,
            timestamp: Timestamp | None = None,
            timestamp_instrumentation: TimestampInstrumentation | None = None,
            source_info: SourceInfo | None = None,
        ) -> None:
            """Publish that the key was deleted: subscribers receive a sample of kind DELETE.

            `await` it: it returns when the message can be sent without blocking.

            Args:
                attachment: Bytes or text sent along with the value; none by default.
                timestamp: Time of the sample; by default none, or the time now where `timestamping/enabled` is set.
                timestamp_instrumentation: Points on the way at which nodes record the time; none by default.
                source_info: Publisher and sequence number of the sample; none by default.

            Raises:
                UsageError: The publisher was undeclared.
                SessionClosed: The session was closed.
                TypeError: An argument has a wrong type.

            Example:
                >>> await publisher.delete()
            """

        async def put_batch(self, batch: BatchOrTable) -> int:
            """Publish a value for each row of a record batch or table; not in eclipse-zenoh.

            `await` it: it runs in a thread, to the end even if the task is cancelled.

            It may have any columns of the sample schema; a row without a `key` is published on the key of the
            publisher.

            Args:
                batch: A `pyarrow.RecordBatch` or `pyarrow.Table`.

            Returns:
                The number of rows dropped because of congestion, once for each neighbour that did not receive the row.

            Raises:
                UsageError: The publisher was undeclared; or a column is unknown or of another type, or a row is not
                    valid, and then no row is sent.
                SessionClosed: The session was closed.
                TypeError: An argument has a wrong type.

            Example:
                >>> await publisher.put_batch(pa.record_batch({"payload": [b"1", b"2"]}))
            """

    else:
        put = async_send(SyncPublisher.put, 'await publisher.put("21.5", encoding="text/plain")')
        delete = async_send(SyncPublisher.delete, "await publisher.delete()")
        put_batch = async_in_thread(
            SyncPublisher.put_batch, 'await publisher.put_batch(pa.record_batch({"payload": [b"1", b"2"]}))'
        )


class Querier(Matcher[api.Querier]):
    """Queries one key expression, with settings that were validated once. `Session.declare_querier` makes it.

    Example:
        >>> async with session.declare_querier("demo/**") as querier:
        ...     async for reply in querier.get(parameters="limit=10"):
        ...         print(reply.ok)
    """

    @property
    def accept_replies(self) -> ReplyKeyExpr:
        """Whether replies may be on keys that do not match the query."""
        return self._sync.accept_replies

    if TYPE_CHECKING:

        @overload
        def get(
            self, handler: IntoChannel[Reply] | None = None, **options: Unpack[QuerierGetOptions]
        ) -> Replies[Channel[Reply]]: ...
        @overload
        def get(
            self, handler: IntoCallbackAndHandler[Reply, H], **options: Unpack[QuerierGetOptions]
        ) -> Replies[H]: ...
        @overload
        def get(self, handler: IntoCallback[Reply], **options: Unpack[QuerierGetOptions]) -> Replies[None]: ...
        def get(self, handler: object = None, **options: Unpack[QuerierGetOptions]) -> Replies[Any]:
            """Send a query.

            Iterate over the result with `async for`, or `await` it to send the query and receive later. The query ends
            when the task that iterates is cancelled.

            Args:
                handler: Where the replies are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`),
                    a function or coroutine function that is called with each of them, or a pair of a function and an
                    object; by default a `FifoChannel` of 256.
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
                The replies.

            Raises:
                UsageError: The querier was undeclared, or the parameters have more than 65,535 bytes.
                SessionClosed: The session was closed.
                TypeError: An argument has a wrong type.
                ValueError: The handler is none of these.

            Example:
                >>> async for reply in querier.get(parameters="limit=10"):
                ...     print(reply.ok)
            """

    else:
        get = async_get(
            api.Querier.get, 0, 'async for reply in querier.get(parameters="limit=10"):\n    print(reply.ok)'
        )
