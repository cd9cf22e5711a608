"""Session: the session of the synchronous API, for the tasks of one event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from zenspark.aio.awaitable import Pending
from zenspark.aio.channels import Channel
from zenspark.aio.entities import (
    Entity,
    Publisher,
    Querier,
    Queryable,
    Subscriber,
    async_declare,
)
from zenspark.aio.info import SessionInfo
from zenspark.aio.liveliness import Liveliness
from zenspark.aio.query import Query
from zenspark.aio.replies import Replies, async_get
from zenspark.aio.run_in_thread import run_in_thread
from zenspark.aio.send_readiness import SendReadiness, SendTarget, async_in_thread, async_send
from zenspark.api import session as api
from zenspark.api._signatures import (
    GetOptions,
    IntoCallback,
    IntoCallbackAndHandler,
    IntoChannel,
    IntoKeyExpr,
)
from zenspark.api.open import SessionOpener
from zenspark.config.config import Config
from zenspark.engine.timestamping import TimestampCallback
from zenspark.key import KeyExpr
from zenspark.net.loop.executor import start_callback_thread
from zenspark.types.encoding import Encoding
from zenspark.types.enums import (
    CongestionControl,
    ConsolidationMode,
    Locality,
    Priority,
    QueryConsolidation,
    QueryTarget,
    Reliability,
    ReplyKeyExpr,
)
from zenspark.types.ids import EntityGlobalId, SourceInfo, ZenohId
from zenspark.types.sample import Reply, Sample
from zenspark.types.selector import Selector
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import IntoZBytes

if TYPE_CHECKING:
    import pyarrow as pa

    from zenspark.engine.batch_publisher import BatchOrTable
    from zenspark.handlers.arrow import ArrowBatches

H = TypeVar("H")


def open(config: Config | None = None, *, timestamp_callback: TimestampCallback | None = None) -> Pending[Session]:
    """Open a session: listen and connect as configured.

    `await` the result, or enter it with `async with`: both return when the network is reached. A task that is cancelled
    meanwhile returns at once, and what was started so far is stopped.

    Args:
        config: The configuration, with the keys of zenohd's; by default a peer that finds others by multicast.
        timestamp_callback: Makes the bytes that this node records where a sample is instrumented (see
            `TimestampInstrumentation`); by default its clock.

    Returns:
        The session. It closes at the end of its `async with` block, or when the last reference to it is gone.

    Raises:
        UsageError: The configuration is not valid.
        LinkError: A listener could not be bound, or no endpoint was reached that the configuration requires.
        TypeError: `config` is not a `Config`, or `timestamp_callback` no function.

    Example:
        >>> async with zenspark.aio.open() as session:
        ...     await session.put("demo/temperature", "21.5")
    """
    return Pending(_open(config, timestamp_callback))


async def _open(config: Config | None, timestamp_callback: TimestampCallback | None) -> Session:
    opener = SessionOpener(config, timestamp_callback)
    try:
        return Session(await run_in_thread(opener.finish))
    except asyncio.CancelledError:
        start_callback_thread(opener.abort)
        raise


class Session:
    """An open session, for the tasks of one event loop. `zenspark.aio.open` makes it.

    It closes at the end of its `async with` block, or when the last reference to it is gone.

    Example:
        >>> async with zenspark.aio.open() as session:
        ...     await session.put("demo/temperature", "21.5")
    """

    def __init__(self, sync: api.Session) -> None:
        """Wrap a session.

        Args:
            sync: The session of the synchronous API.
        """
        self._sync = sync
        self._readiness = SendReadiness(api.runtime_of(sync))
        self._info = SessionInfo(self._readiness, sync.info)

    # -- lifecycle

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the session with all its entities, once what it published is written. Closing it again does nothing.

        A task that is cancelled meanwhile returns at once, and the session closes all the same.

        Example:
            >>> session = await zenspark.aio.open()
            >>> await session.close()
        """
        await run_in_thread(self._sync.close)

    def is_closed(self) -> bool:
        """Return whether the session was closed.

        Returns:
            True after `close`.

        Example:
            >>> session.is_closed()
            False
        """
        return self._sync.is_closed()

    @property
    def info(self) -> SessionInfo:
        """The nodes this session is connected to, its links and their counters."""
        return self._info

    @property
    def id(self) -> EntityGlobalId:
        """The id of this session as an entity, unique in the network."""
        return self._sync.id

    def zid(self) -> ZenohId:
        """Return the id of this node.

        Returns:
            The id by which other nodes identify this node: that of the configuration, or a random one.

        Example:
            >>> print(session.zid())
            a1b2
        """
        return self._sync.zid()

    def new_timestamp(self) -> Timestamp:
        """Make a timestamp of the hybrid logical clock of this node.

        Returns:
            The time now with the id of this node. No two of them are equal, and each is later than those before.

        Example:
            >>> await session.put("demo/a", "1", timestamp=session.new_timestamp())
        """
        return self._sync.new_timestamp()

    async def undeclare(self, obj: KeyExpr | Entity[Any]) -> None:
        """Undeclare an entity or a key expression of this session.

        A key expression can still be used after it was undeclared; to undeclare it again does nothing.

        Args:
            obj: A publisher, subscriber, queryable, querier, token or listener, or what `declare_keyexpr` returned.

        Raises:
            UsageError: The entity was undeclared before, or the key expression was never declared in this session.
            SessionClosed: A key expression is undeclared after the session was closed.
            TypeError: `obj` is neither an entity nor a key expression.

        Example:
            >>> publisher = await session.declare_publisher("demo/temperature")
            >>> await session.undeclare(publisher)
        """
        self._sync.undeclare(obj._sync if isinstance(obj, Entity) else obj)

    async def declare_keyexpr(self, key_expr: IntoKeyExpr) -> KeyExpr:
        """Declare a key expression that will be used often; its id is declared to neighbours automatically.

        Args:
            key_expr: The key expression.

        Returns:
            The key expression, validated.

        Raises:
            SessionClosed: The session was closed.
            UsageError: The key expression is not valid.
            TypeError: An argument has a wrong type.

        Example:
            >>> key = await session.declare_keyexpr("demo/temperature")
            >>> await session.put(key, "21.5")
        """
        return self._sync.declare_keyexpr(key_expr)

    def liveliness(self) -> Liveliness:
        """Return the liveliness tokens of this session: declare, query and watch them.

        Returns:
            The object to declare, query and watch tokens with.

        Example:
            >>> token = await session.liveliness().declare_token("group/member-1")
        """
        return Liveliness(self._readiness, self._sync.liveliness())

    # -- publish, receive, query

    def _send_target(self, args: tuple[object, ...], options: dict[str, Any]) -> SendTarget:
        """Return congestion control and key of a publication; the key is its first argument."""
        congestion = options.get("congestion_control")
        if not isinstance(congestion, CongestionControl):  # None, or of a type that the synchronous method refuses
            congestion = CongestionControl.DEFAULT
        return congestion.to_wire(), str(args[0] if args else options.get("key_expr"))

    if TYPE_CHECKING:

        async def put(
            self,
            key_expr: IntoKeyExpr,
            payload: IntoZBytes,
            *,
            encoding: Encoding | str | None = None,
            congestion_control: CongestionControl | None = None,
            priority: Priority | None = None,
            express: bool | None = None,
            attachment: IntoZBytes | None = None,
            timestamp: Timestamp | None = None,
            timestamp_instrumentation: TimestampInstrumentation | None = None,
            allowed_destination: Locality | None = None,
            source_info: SourceInfo | None = None,
        ) -> None:
            """Publish a value on a key.

            `await` it: it returns when the message can be sent without blocking.

            Args:
                key_expr: Key to publish on. With wildcards, the value is published on all keys that match.
                payload: The value: bytes, a string (sent as UTF-8), or `ZBytes`.
                encoding: Encoding of the payload, such as `Encoding.TEXT_PLAIN` or "application/json"; `zenoh/bytes` by
                    default.
                congestion_control: Treatment while a link has unsent bytes: DROP (the default) waits up to 1 ms, then
                    drops the message; BLOCK waits until they are taken, and the session with a neighbour that takes
                    none for 5 s is closed; BLOCK_FIRST is BLOCK for one message, and drops the others meanwhile.
                    `transport/link/tx/queue/congestion_control` sets both times.
                priority: Priority of the message on links with QoS; DATA by default.
                express: Whether the message is sent at once, without waiting for others to fill a batch; False by
                    default.
                attachment: Bytes or text sent along with the value; none by default.
                timestamp: Time of the sample; by default none, or the time now where `timestamping/enabled` is set.
                timestamp_instrumentation: Points on the way at which nodes record the time; none by default.
                allowed_destination: Whether subscribers of this session, of other sessions, or both receive it; ANY by
                    default.
                source_info: Publisher and sequence number of the sample; none by default.

            Raises:
                SessionClosed: The session was closed.
                UsageError: The key expression is not valid.
                TypeError: An argument has a wrong type.

            Example:
                >>> await session.put("demo/temperature", "21.5", encoding="text/plain")
            """

        async def delete(
            self,
            key_expr: IntoKeyExpr,
            *,
            congestion_control: CongestionControl | None = None,
            priority: Priority | None = None,
            express: bool | None = None,
            attachment: IntoZBytes | None = None,
            timestamp: Timestamp | None = None,
            timestamp_instrumentation: TimestampInstrumentation | None = None,
            allowed_destination: Locality | None = None,
            source_info: SourceInfo | None = None,
        ) -> None:
            """Publish that a key was deleted: subscribers receive a sample of kind DELETE.

            `await` it: it returns when the message can be sent without blocking.

            Args:
                key_expr: Key to delete. With wildcards, all keys that match are deleted.
                congestion_control: Treatment while a link has unsent bytes: DROP (the default) waits up to 1 ms, then
                    drops the message; BLOCK waits until they are taken, and the session with a neighbour that takes
                    none for 5 s is closed; BLOCK_FIRST is BLOCK for one message, and drops the others meanwhile.
                    `transport/link/tx/queue/congestion_control` sets both times.
                priority: Priority of the message on links with QoS; DATA by default.
                express: Whether the message is sent at once, without waiting for others to fill a batch; False by
                    default.
                attachment: Bytes or text sent along with the value; none by default.
                timestamp: Time of the sample; by default none, or the time now where `timestamping/enabled` is set.
                timestamp_instrumentation: Points on the way at which nodes record the time; none by default.
                allowed_destination: Whether subscribers of this session, of other sessions, or both receive it; ANY by
                    default.
                source_info: Publisher and sequence number of the sample; none by default.

            Raises:
                SessionClosed: The session was closed.
                UsageError: The key expression is not valid.
                TypeError: An argument has a wrong type.

            Example:
                >>> await session.delete("demo/temperature")
            """

        async def put_batch(
            self,
            batch: BatchOrTable,
            *,
            encoding: Encoding | str | None = None,
            congestion_control: CongestionControl | None = None,
            priority: Priority | None = None,
            express: bool | None = None,
            allowed_destination: Locality | None = None,
        ) -> int:
            """Publish a value for each row of a record batch or table; not in eclipse-zenoh.

            `await` it: it runs in a thread, to the end even if the task is cancelled.

            The column `key` is required, the other columns of the sample schema may be there: their values take
            precedence over the arguments, which apply to rows and columns without one.

            Args:
                batch: A `pyarrow.RecordBatch` or `pyarrow.Table`.
                encoding: Encoding of the payload, such as `Encoding.TEXT_PLAIN` or "application/json"; `zenoh/bytes` by
                    default.
                congestion_control: Treatment while a link has unsent bytes: DROP (the default) waits up to 1 ms, then
                    drops the message; BLOCK waits until they are taken, and the session with a neighbour that takes
                    none for 5 s is closed; BLOCK_FIRST is BLOCK for one message, and drops the others meanwhile.
                    `transport/link/tx/queue/congestion_control` sets both times.
                priority: Priority of the message on links with QoS; DATA by default.
                express: Whether the message is sent at once, without waiting for others to fill a batch; False by
                    default.
                allowed_destination: Whether subscribers of this session, of other sessions, or both receive it; ANY by
                    default.

            Returns:
                The number of rows dropped because of congestion, once for each neighbour that did not receive the row.

            Raises:
                SessionClosed: The session was closed.
                UsageError: A column is missing, unknown or of another type, or a row is not valid; then no row is sent.
                TypeError: An argument has a wrong type.

            Example:
                >>> await session.put_batch(pa.record_batch({"key": ["demo/a", "demo/b"], "payload": [b"1", b"2"]}))
            """

        def declare_publisher(
            self,
            key_expr: IntoKeyExpr,
            *,
            encoding: Encoding | str | None = None,
            congestion_control: CongestionControl | None = None,
            priority: Priority | None = None,
            express: bool | None = None,
            reliability: Reliability | None = None,
            allowed_destination: Locality | None = None,
            timestamping: bool | None = None,
        ) -> Pending[Publisher]:
            """Declare a publisher for one key; it sends faster than `put`, and reports whether subscribers match.

            `await` the result, or enter it with `async with`; before that nothing is declared.

            Args:
                key_expr: Key to publish on.
                encoding: Encoding of the payload, such as `Encoding.TEXT_PLAIN` or "application/json"; `zenoh/bytes` by
                    default.
                congestion_control: Treatment while a link has unsent bytes: DROP (the default) waits up to 1 ms, then
                    drops the message; BLOCK waits until they are taken, and the session with a neighbour that takes
                    none for 5 s is closed; BLOCK_FIRST is BLOCK for one message, and drops the others meanwhile.
                    `transport/link/tx/queue/congestion_control` sets both times.
                priority: Priority of the message on links with QoS; DATA by default.
                express: Whether the message is sent at once, without waiting for others to fill a batch; False by
                    default.
                reliability: Lane on which samples are sent: RELIABLE (the default) or BEST_EFFORT; neither retransmits.
                allowed_destination: Whether subscribers of this session, of other sessions, or both receive it; ANY by
                    default.
                timestamping: Whether samples without a timestamp get one of this session; by default as
                    `timestamping/enabled` of the configuration has it, which is True in routers. Not in eclipse-zenoh.

            Returns:
                The publisher; it ends when it is undeclared, at the end of its `async with` block, or when it is
                garbage-collected.

            Raises:
                SessionClosed: The session was closed.
                UsageError: The key expression is not valid.
                TypeError: An argument has a wrong type.

            Example:
                >>> async with session.declare_publisher("demo/temperature") as publisher:
                ...     await publisher.put("21.5")
            """

    else:
        put = async_send(api.Session.put, 'await session.put("demo/temperature", "21.5", encoding="text/plain")')
        delete = async_send(api.Session.delete, 'await session.delete("demo/temperature")')
        put_batch = async_in_thread(
            api.Session.put_batch,
            'await session.put_batch(pa.record_batch({"key": ["demo/a", "demo/b"], "payload": [b"1", b"2"]}))',
        )
        declare_publisher = async_declare(
            api.Session.declare_publisher,
            Publisher,
            'async with session.declare_publisher("demo/temperature") as publisher:\n    await publisher.put("21.5")',
        )
    if TYPE_CHECKING:

        @overload
        def declare_subscriber(
            self,
            key_expr: IntoKeyExpr,
            handler: IntoChannel[Sample] | None = None,
            *,
            allowed_origin: Locality | None = None,
        ) -> Pending[Subscriber[Channel[Sample]]]: ...
        @overload
        def declare_subscriber(
            self, key_expr: IntoKeyExpr, handler: ArrowBatches, *, allowed_origin: Locality | None = None
        ) -> Pending[Subscriber[Channel[pa.RecordBatch]]]: ...
        @overload
        def declare_subscriber(
            self,
            key_expr: IntoKeyExpr,
            handler: IntoCallbackAndHandler[Sample, H],
            *,
            allowed_origin: Locality | None = None,
        ) -> Pending[Subscriber[H]]: ...
        @overload
        def declare_subscriber(
            self, key_expr: IntoKeyExpr, handler: IntoCallback[Sample], *, allowed_origin: Locality | None = None
        ) -> Pending[Subscriber[None]]: ...
        def declare_subscriber(
            self, key_expr: IntoKeyExpr, handler: object = None, *, allowed_origin: Locality | None = None
        ) -> Pending[Subscriber[Any]]:
            """Subscribe to the samples that are published on matching keys.

            `await` the result, or enter it with `async with`; before that nothing is declared.

            Args:
                key_expr: Key expression of the keys to receive, such as "demo/**".
                handler: Where the samples are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`),
                    a function or coroutine function that is called with each of them, a pair of a function and an
                    object, or `ArrowBatches()`, a channel of record batches; by default a `FifoChannel` of 256.
                allowed_origin: Whether to receive from this session, from other sessions, or both; ANY by default.

            Returns:
                The subscriber. With a channel, receive from it with `await recv()`, `try_recv()` or `async for`; it
                ends when it is garbage-collected. With a callback it lives as long as the session, unless it is
                undeclared.

            Raises:
                SessionClosed: The session was closed.
                UsageError: The key expression is not valid.
                TypeError: An argument has a wrong type.
                ValueError: The handler is none of these.

            Example:
                >>> async with session.declare_subscriber("demo/**") as subscriber:
                ...     async for sample in subscriber:
                ...         print(sample.payload.to_string())
            """

    else:
        declare_subscriber = async_declare(
            api.Session.declare_subscriber,
            Subscriber,
            'async with session.declare_subscriber("demo/**") as subscriber:\n'
            "    async for sample in subscriber:\n        print(sample.payload.to_string())",
            1,
        )
    if TYPE_CHECKING:

        @overload
        def declare_queryable(
            self,
            key_expr: IntoKeyExpr,
            handler: IntoChannel[Query] | None = None,
            *,
            complete: bool | None = None,
            allowed_origin: Locality | None = None,
        ) -> Pending[Queryable[Channel[Query]]]: ...
        @overload
        def declare_queryable(
            self,
            key_expr: IntoKeyExpr,
            handler: IntoCallbackAndHandler[Query, H],
            *,
            complete: bool | None = None,
            allowed_origin: Locality | None = None,
        ) -> Pending[Queryable[H]]: ...
        @overload
        def declare_queryable(
            self,
            key_expr: IntoKeyExpr,
            handler: IntoCallback[Query],
            *,
            complete: bool | None = None,
            allowed_origin: Locality | None = None,
        ) -> Pending[Queryable[None]]: ...
        def declare_queryable(
            self,
            key_expr: IntoKeyExpr,
            handler: object = None,
            *,
            complete: bool | None = None,
            allowed_origin: Locality | None = None,
        ) -> Pending[Queryable[Any]]:
            """Receive queries for matching keys, and reply to them.

            `await` the result, or enter it with `async with`; before that nothing is declared.

            Args:
                key_expr: Key expression of the keys to reply for, such as "demo/**".
                handler: Where the queries are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`),
                    a function or coroutine function that is called with each of them, or a pair of a function and an
                    object; by default a `FifoChannel` of 256.
                complete: Whether it has a value for every key it matches: queries with target BEST_MATCHING then reach
                    only the nearest such queryable; False by default.
                allowed_origin: Whether to receive from this session, from other sessions, or both; ANY by default.

            Returns:
                The queryable. With a channel, receive from it with `await recv()`, `try_recv()` or `async for`; it ends
                when it is garbage-collected. With a callback it lives as long as the session, unless it is undeclared.

            Raises:
                SessionClosed: The session was closed.
                UsageError: The key expression is not valid.
                TypeError: An argument has a wrong type.
                ValueError: The handler is none of these.

            Example:
                >>> async def reply(query):
                ...     await query.reply("demo/time", "noon")
                >>> queryable = await session.declare_queryable("demo/time", reply)
            """

    else:
        declare_queryable = async_declare(
            api.Session.declare_queryable,
            Queryable,
            'async def reply(query):\n    await query.reply("demo/time", "noon")\n'
            'queryable = await session.declare_queryable("demo/time", reply)',
            1,
            Query,
        )
    if TYPE_CHECKING:

        @overload
        def get(
            self,
            selector: Selector | IntoKeyExpr,
            handler: IntoChannel[Reply] | None = None,
            **options: Unpack[GetOptions],
        ) -> Replies[Channel[Reply]]: ...
        @overload
        def get(
            self,
            selector: Selector | IntoKeyExpr,
            handler: IntoCallbackAndHandler[Reply, H],
            **options: Unpack[GetOptions],
        ) -> Replies[H]: ...
        @overload
        def get(
            self, selector: Selector | IntoKeyExpr, handler: IntoCallback[Reply], **options: Unpack[GetOptions]
        ) -> Replies[None]: ...
        def get(
            self, selector: Selector | IntoKeyExpr, handler: object = None, **options: Unpack[GetOptions]
        ) -> Replies[Any]:
            """Query the matching queryables.

            Iterate over the result with `async for`, or `await` it to send the query and receive later. The query ends
            when the task that iterates is cancelled.

            Args:
                selector: Keys to query, and parameters for the queryables, such as "demo/**?limit=10".
                handler: Where the replies are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`),
                    a function or coroutine function that is called with each of them, or a pair of a function and an
                    object; by default a `FifoChannel` of 256.
                target: Which of the matching queryables are queried: BEST_MATCHING (the default), ALL or ALL_COMPLETE.
                consolidation: How replies on the same key are merged. AUTO, the default, is sent as such: each reply is
                    merged as its queryable prefers, or as LATEST (NONE if the parameters have `_time`).
                accept_replies: Whether replies may be on keys that do not match the query; MATCHING_QUERY by default.
                timeout: Seconds after which the query ends; by default `queries_default_timeout` of the configuration
                    (10 s). With `math.inf` it ends when all queryables have replied, and no timeout is sent; routers on
                    the way, and sessions with queryables, then apply their own, 10 s.
                congestion_control: Treatment while a link has unsent bytes.
                    The task waits until they are taken, also with DROP and BLOCK_FIRST, before the query is sent.
                    The session with a neighbour that takes none for 5 s is closed; this node drops no query.
                priority: Priority of the query, and of its replies; DATA by default.
                express: Whether the query is sent at once, without waiting for others to fill a batch; False by
                    default.
                payload: Value sent along with the query; none by default.
                encoding: Encoding of that payload; `zenoh/bytes` by default.
                attachment: Bytes or text sent along with the query; none by default.
                allowed_destination: Whether queryables of this session, of other sessions, or both are queried; ANY by
                    default.
                source_info: Querier and sequence number of the query; none by default.
                cancellation_token: Token that ends the query when it is cancelled; none by default.
                timestamp_instrumentation: Points on the way at which nodes record the time; none by default.
                budget: How many responses (replies and errors) are accepted, from 1 to 2^32 - 1; any number by default.
                    The query ends with the last of them, and routers of zenspark forward no more. Not in eclipse-zenoh.
                timestamp: Time of the query, which queryables read as `query.timestamp`; none by default. Not in
                    eclipse-zenoh.

            Returns:
                The replies.

            Raises:
                SessionClosed: The session was closed.
                UsageError: The key expression is not valid, or the parameters have more than 65,535 bytes.
                ValueError: The timeout or the budget is out of range, or the handler is none of these.
                TypeError: An argument has a wrong type.

            Example:
                >>> async for reply in session.get("demo/**", timeout=2):
                ...     print(reply.ok)
            """

    else:
        get = async_get(
            api.Session.get, 1, 'async for reply in session.get("demo/**", timeout=2):\n    print(reply.ok)'
        )
    if TYPE_CHECKING:

        def declare_querier(
            self,
            key_expr: IntoKeyExpr,
            *,
            target: QueryTarget | None = None,
            consolidation: ConsolidationMode | QueryConsolidation | None = None,
            accept_replies: ReplyKeyExpr | None = None,
            timeout: float | None = None,
            congestion_control: CongestionControl | None = None,
            priority: Priority | None = None,
            express: bool | None = None,
            allowed_destination: Locality | None = None,
            budget: int | None = None,
        ) -> Pending[Querier]:
            """Declare a querier for one key expression: faster than `get`, and it reports whether queryables match.

            `await` the result, or enter it with `async with`; before that nothing is declared.

            Args:
                key_expr: Keys to query.
                target: Which of the matching queryables are queried: BEST_MATCHING (the default), ALL or ALL_COMPLETE.
                consolidation: How replies on the same key are merged. AUTO, the default, is sent as such: each reply is
                    merged as its queryable prefers, or as LATEST (NONE if the parameters have `_time`).
                accept_replies: Whether replies may be on keys that do not match the query; MATCHING_QUERY by default.
                timeout: Seconds after which the query ends; by default `queries_default_timeout` of the configuration
                    (10 s). With `math.inf` it ends when all queryables have replied, and no timeout is sent; routers on
                    the way, and sessions with queryables, then apply their own, 10 s.
                congestion_control: Treatment while a link has unsent bytes.
                    The task waits until they are taken, also with DROP and BLOCK_FIRST, before the query is sent.
                    The session with a neighbour that takes none for 5 s is closed; this node drops no query.
                priority: Priority of the query, and of its replies; DATA by default.
                express: Whether the query is sent at once, without waiting for others to fill a batch; False by
                    default.
                allowed_destination: Whether queryables of this session, of other sessions, or both are queried; ANY by
                    default.
                budget: How many responses (replies and errors) each query accepts, from 1 to 2^32 - 1; any number by
                    default. Not in eclipse-zenoh.

            Returns:
                The querier; it ends when it is undeclared, at the end of its `async with` block, or when it is
                garbage-collected.

            Raises:
                SessionClosed: The session was closed.
                UsageError: The key expression is not valid.
                ValueError: The timeout or the budget is out of range.
                TypeError: An argument has a wrong type.

            Example:
                >>> async with session.declare_querier("demo/**", timeout=2) as querier:
                ...     async for reply in querier.get():
                ...         print(reply.ok)
            """

    else:
        declare_querier = async_declare(
            api.Session.declare_querier,
            Querier,
            'async with session.declare_querier("demo/**", timeout=2) as querier:\n'
            "    async for reply in querier.get():\n        print(reply.ok)",
        )
