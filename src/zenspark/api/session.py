"""Session: publish, subscribe, query and declare queryables in a Zenoh network. Runs in the caller's thread.

It makes entities, hands them their settings and keeps track of them; what they do is in their own modules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

import msgspec

from zenspark.api._arguments import make_publish_settings, make_query_request
from zenspark.api._signatures import GetOptions, IntoCallback, IntoCallbackAndHandler, IntoChannel, IntoKeyExpr
from zenspark.api.cancellation import CancellationToken
from zenspark.api.entities import (
    Entity,
    Querier,
    Queryable,
    Subscriber,
    start_query,
)
from zenspark.api.info import SessionInfo
from zenspark.api.liveliness import Liveliness
from zenspark.api.publisher import Publisher
from zenspark.engine.matching_status import MatchingTracker
from zenspark.engine.publisher import PreencodedPublisher
from zenspark.engine.qos_overrides import QosOverrides
from zenspark.engine.runtime import SessionRuntime
from zenspark.errors import UsageError
from zenspark.handlers.handler import BindableHandler, Handler
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.arguments import require_type_or_default, to_bool, to_timeout
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
from zenspark.types.query import Query
from zenspark.types.sample import Reply, Sample
from zenspark.types.selector import Selector
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.uncopyable import refuse_copy
from zenspark.types.wire_value import rust_repr
from zenspark.types.zbytes import IntoZBytes

if TYPE_CHECKING:
    import pyarrow as pa

    from zenspark.engine.batch_publisher import BatchOrTable
    from zenspark.handlers.arrow import ArrowBatches

H = TypeVar("H")

MAX_CACHED_PUBLISHERS = 10_000
"""Most keys for which `put` keeps a cached publisher: without a limit, ever new keys would fill the memory."""


class Session:
    """An open session: a node in the network, and everything that can be done from there.

    `zenspark.open()` makes it. It closes at the end of its `with` block, or when the last reference to it is gone; its
    methods may be called from any thread.

    Example:
        >>> with zenspark.open() as session:
        ...     session.put("demo/temperature", "21.5")
    """

    def __init__(
        self, runtime: SessionRuntime, query_timeout: float, end: Callable[[], None], overrides: QosOverrides
    ) -> None:
        """Wrap a started runtime.

        Args:
            runtime: State of the session: its entities, pending queries and interests.
            query_timeout: Seconds after which a query ends unless it has a timeout of its own.
            end: Closes the session. It may be called again, from any thread, and must not refer to the session.
            overrides: QoS that the configuration prescribes for keys.
        """
        self._runtime = runtime
        self._query_timeout = query_timeout
        self._end = end
        self._overrides = overrides
        self._entity_id = runtime.entities.next_id()
        self._cached_publishers: dict[tuple[object, ...], PreencodedPublisher] = {}
        self._info = SessionInfo(runtime)
        self._declared: set[str] = set()
        """The key expressions that were declared here: only these can be undeclared."""

    # -- lifecycle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    __reduce_ex__ = refuse_copy

    def __del__(self) -> None:
        # the garbage collector may run in the middle of anything: nothing here may wait
        if not self._runtime.is_closed:
            end = self._end
            self._runtime.call_soon(lambda: threading.Thread(target=end, name="zenspark-close", daemon=True).start())

    def __repr__(self) -> str:
        return rust_repr(self, zid=self.zid(), closed=self.is_closed())

    def close(self) -> None:
        """Close the session with all its entities, once what it published is written. Closing it again does nothing.

        Example:
            >>> session = zenspark.open()
            >>> session.close()
            >>> session.is_closed()
            True
        """
        self._end()

    def is_closed(self) -> bool:
        """Return whether the session was closed.

        Returns:
            True after `close`.

        Example:
            >>> session.is_closed()
            False
        """
        return self._runtime.is_closed

    @property
    def info(self) -> SessionInfo:
        """The nodes this session is connected to, its links and their counters."""
        return self._info

    @property
    def id(self) -> EntityGlobalId:
        """The id of this session as an entity, unique in the network."""
        return EntityGlobalId.from_wire(self._runtime.entities.global_id(self._entity_id))

    def zid(self) -> ZenohId:
        """Return the id of this node.

        Returns:
            The id by which other nodes identify this node: that of the configuration, or a random one.

        Example:
            >>> print(session.zid())
            a1b2
        """
        return ZenohId.from_wire(self._runtime.node.identity.zid)

    def new_timestamp(self) -> Timestamp:
        """Make a timestamp of the hybrid logical clock of this node.

        Returns:
            The time now with the id of this node. No two of them are equal, and each is later than those before.

        Example:
            >>> session.put("demo/a", "1", timestamp=session.new_timestamp())
        """
        return Timestamp.from_wire(self._runtime.timestamps.now())

    def undeclare(self, obj: KeyExpr | Entity) -> None:
        """Undeclare an entity or a key expression of this session.

        A key expression can still be used after it was undeclared; to undeclare it again does nothing.

        Args:
            obj: A publisher, subscriber, queryable, querier, token or listener, or what `declare_keyexpr` returned.

        Raises:
            UsageError: The entity was undeclared before, or the key expression was never declared in this session.
            SessionClosed: A key expression is undeclared after the session was closed.
            TypeError: `obj` is neither an entity nor a key expression.

        Example:
            >>> publisher = session.declare_publisher("demo/temperature")
            >>> session.undeclare(publisher)
        """
        match obj:
            case Entity():
                obj.undeclare()
            case KeyExpr():
                self._runtime.check_open()
                if str(obj) not in self._declared:
                    raise UsageError(f"{obj} was not declared in this session: it cannot be undeclared")
            case _:
                raise TypeError(f"expected a KeyExpr or something declared, found {type(obj).__name__!r}")

    def declare_keyexpr(self, key_expr: IntoKeyExpr) -> KeyExpr:
        """Declare a key expression that will be used often.

        Ids for key expressions are declared to neighbours automatically, so this is never necessary.

        Args:
            key_expr: The key expression.

        Returns:
            The key expression, validated.

        Raises:
            SessionClosed: The session was closed.
            UsageError: The key expression is not valid.
            TypeError: An argument has a wrong type.

        Example:
            >>> key = session.declare_keyexpr("demo/temperature")
            >>> session.put(key, "21.5")
        """
        self._runtime.check_open()
        key = self._runtime.validate_key(key_expr)
        self._declared.add(str(key))
        return key

    def liveliness(self) -> Liveliness:
        """Return the liveliness tokens of this session: declare, query and watch them.

        Returns:
            The object to declare, query and watch tokens with.

        Example:
            >>> token = session.liveliness().declare_token("group/member-1")
        """
        return Liveliness(self._runtime, self._query_timeout)

    # -- publish

    def put(
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

        Args:
            key_expr: Key to publish on. With wildcards, the value is published on all keys that match.
            payload: The value: bytes, a string (sent as UTF-8), or `ZBytes`.
            encoding: Encoding of the payload, such as `Encoding.TEXT_PLAIN` or "application/json"; `zenoh/bytes` by
                default.
            congestion_control: Treatment while a link has unsent bytes: DROP (the default) waits up to 1 ms, then drops
                the message; BLOCK waits until they are taken, and the session with a neighbour that takes none for 5 s
                is closed; BLOCK_FIRST is BLOCK for one message, and drops the others meanwhile.
                `transport/link/tx/queue/congestion_control` sets both times.
            priority: Priority of the message on links with QoS; DATA by default.
            express: Whether the message is sent at once, without waiting for others to fill a batch; False by default.
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
            >>> session.put("demo/temperature", "21.5", encoding="text/plain")
        """
        settings = (key_expr, encoding, congestion_control, priority, express, allowed_destination)
        publisher = self._cached_publishers.get(settings) or self._make_publisher(settings)
        publisher.put(payload, None, attachment, timestamp, timestamp_instrumentation, source_info)

    def delete(
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

        Args:
            key_expr: Key to delete. With wildcards, all keys that match are deleted.
            congestion_control: Treatment while a link has unsent bytes: DROP (the default) waits up to 1 ms, then drops
                the message; BLOCK waits until they are taken, and the session with a neighbour that takes none for 5 s
                is closed; BLOCK_FIRST is BLOCK for one message, and drops the others meanwhile.
                `transport/link/tx/queue/congestion_control` sets both times.
            priority: Priority of the message on links with QoS; DATA by default.
            express: Whether the message is sent at once, without waiting for others to fill a batch; False by default.
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
            >>> session.delete("demo/temperature")
        """
        self._runtime.check_open()
        settings = (key_expr, None, congestion_control, priority, express, allowed_destination)
        publisher = self._cached_publishers.get(settings) or self._make_publisher(settings)
        publisher.delete(attachment, timestamp, timestamp_instrumentation, source_info)

    def put_batch(
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

        The column `key` is required, the other columns of the sample schema may be there: their values take precedence
        over the arguments, which apply to rows and columns without one.

        Args:
            batch: A `pyarrow.RecordBatch` or `pyarrow.Table`.
            encoding: Encoding of the payload, such as `Encoding.TEXT_PLAIN` or "application/json"; `zenoh/bytes` by
                default.
            congestion_control: Treatment while a link has unsent bytes: DROP (the default) waits up to 1 ms, then drops
                the message; BLOCK waits until they are taken, and the session with a neighbour that takes none for 5 s
                is closed; BLOCK_FIRST is BLOCK for one message, and drops the others meanwhile.
                `transport/link/tx/queue/congestion_control` sets both times.
            priority: Priority of the message on links with QoS; DATA by default.
            express: Whether the message is sent at once, without waiting for others to fill a batch; False by default.
            allowed_destination: Whether subscribers of this session, of other sessions, or both receive it; ANY by
                default.

        Returns:
            The number of rows dropped because of congestion, once for each neighbour that did not receive the row.

        Raises:
            SessionClosed: The session was closed.
            UsageError: A column is missing, unknown or of another type, or a row is not valid; then no row is sent.
            TypeError: An argument has a wrong type.

        Example:
            >>> batch = pa.record_batch({"key": ["demo/a", "demo/b"], "payload": [b"1", b"2"]})
            >>> session.put_batch(batch)
            0
        """
        from zenspark.engine.batch_publisher import (
            BatchPublisher,  # here, as it loads pyarrow, which other programs do without
        )

        self._runtime.check_open()
        publish_settings = make_publish_settings(
            encoding, congestion_control, priority, express, None, allowed_destination
        )
        return BatchPublisher(
            self._runtime, publish_settings, override=self._overrides.apply if self._overrides else None
        ).put(batch)

    def _make_publisher(self, settings: tuple[Any, ...]) -> PreencodedPublisher:
        """Make a publisher for these arguments of `put`, and cache it."""
        key_expr, encoding, congestion, priority, express, destination = settings
        publish_settings = make_publish_settings(encoding, congestion, priority, express, None, destination)
        if len(self._cached_publishers) >= MAX_CACHED_PUBLISHERS:
            self._cached_publishers.clear()
        key = self._runtime.validate_key(key_expr)
        publisher = PreencodedPublisher(self._runtime, key, self._overrides.apply(key, publish_settings))
        self._cached_publishers[settings] = publisher
        return publisher

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
    ) -> Publisher:
        """Declare a publisher for one key; it sends faster than `put`, and reports whether subscribers match.

        Args:
            key_expr: Key to publish on.
            encoding: Encoding of the payload, such as `Encoding.TEXT_PLAIN` or "application/json"; `zenoh/bytes` by
                default.
            congestion_control: Treatment while a link has unsent bytes: DROP (the default) waits up to 1 ms, then drops
                the message; BLOCK waits until they are taken, and the session with a neighbour that takes none for 5 s
                is closed; BLOCK_FIRST is BLOCK for one message, and drops the others meanwhile.
                `transport/link/tx/queue/congestion_control` sets both times.
            priority: Priority of the message on links with QoS; DATA by default.
            express: Whether the message is sent at once, without waiting for others to fill a batch; False by default.
            reliability: Lane on which samples are sent: RELIABLE (the default) or BEST_EFFORT; neither retransmits.
            allowed_destination: Whether subscribers of this session, of other sessions, or both receive it; ANY by
                default.
            timestamping: Whether samples without a timestamp get one of this session; by default as
                `timestamping/enabled` of the configuration has it, which is True in routers. Not in eclipse-zenoh.

        Returns:
            The publisher; it ends when it is undeclared, at the end of its `with` block, or when it is
            garbage-collected.

        Raises:
            SessionClosed: The session was closed.
            UsageError: The key expression is not valid.
            TypeError: An argument has a wrong type.

        Example:
            >>> with session.declare_publisher("demo/temperature", encoding="text/plain") as publisher:
            ...     publisher.put("21.5")
        """
        self._runtime.check_open()
        self._runtime.wait_for_links()
        publish_settings = make_publish_settings(
            encoding, congestion_control, priority, express, reliability, allowed_destination
        )
        if timestamping is not None:
            publish_settings = msgspec.structs.replace(publish_settings, add_timestamps=to_bool(timestamping))
        key = self._runtime.validate_key(key_expr)
        return Publisher(self._runtime, key, self._overrides.apply(key, publish_settings))

    # -- receive

    @overload
    def declare_subscriber(
        self,
        key_expr: IntoKeyExpr,
        handler: IntoChannel[Sample] | None = None,
        *,
        allowed_origin: Locality | None = None,
    ) -> Subscriber[Handler[Sample]]: ...
    @overload
    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: ArrowBatches, *, allowed_origin: Locality | None = None
    ) -> Subscriber[Handler[pa.RecordBatch]]: ...
    @overload
    def declare_subscriber(
        self,
        key_expr: IntoKeyExpr,
        handler: IntoCallbackAndHandler[Sample, H],
        *,
        allowed_origin: Locality | None = None,
    ) -> Subscriber[H]: ...
    @overload
    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: IntoCallback[Sample], *, allowed_origin: Locality | None = None
    ) -> Subscriber[None]: ...
    @overload
    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: BindableHandler, *, allowed_origin: Locality | None = None
    ) -> Subscriber[Any]: ...

    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: object = None, *, allowed_origin: Locality | None = None
    ) -> Subscriber[Any]:
        """Subscribe to the samples that are published on matching keys.

        Args:
            key_expr: Key expression of the keys to receive, such as "demo/**".
            handler: Where the samples are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, a pair of a function and an object, or `ArrowBatches()`, a
                channel of record batches; by default a `FifoChannel` of 256.
            allowed_origin: Whether to receive from this session, from other sessions, or both; ANY by default.

        Returns:
            The subscriber. With a channel, receive from it with `recv`, `try_recv` or a `for` loop; it ends when it is
            garbage-collected. With a callback it lives as long as the session, unless it is undeclared.

        Raises:
            SessionClosed: The session was closed.
            UsageError: The key expression is not valid.
            TypeError: An argument has a wrong type.
            ValueError: The handler is none of these.

        Example:
            >>> with session.declare_subscriber("demo/**") as subscriber:
            ...     for sample in subscriber:
            ...         print(sample.key_expr, sample.payload.to_string())
        """
        self._runtime.check_open()
        self._runtime.wait_for_links()
        key, origin = (
            self._runtime.validate_key(key_expr),
            require_type_or_default(Locality, allowed_origin, Locality.ANY),
        )
        return Subscriber(self._runtime, key, origin, self._runtime.bind_sample_handler(handler))

    @overload
    def declare_queryable(
        self,
        key_expr: IntoKeyExpr,
        handler: IntoChannel[Query] | None = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[Handler[Query]]: ...
    @overload
    def declare_queryable(
        self,
        key_expr: IntoKeyExpr,
        handler: IntoCallbackAndHandler[Query, H],
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[H]: ...
    @overload
    def declare_queryable(
        self,
        key_expr: IntoKeyExpr,
        handler: IntoCallback[Query],
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[None]: ...

    def declare_queryable(
        self,
        key_expr: IntoKeyExpr,
        handler: object = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[Any]:
        """Receive queries for matching keys, and reply to them.

        Args:
            key_expr: Key expression of the keys to reply for, such as "demo/**".
            handler: Where the queries are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, or a pair of a function and an object; by default a
                `FifoChannel` of 256.
            complete: Whether it has a value for every key it matches: queries with target BEST_MATCHING then reach only
                the nearest such queryable; False by default.
            allowed_origin: Whether to receive from this session, from other sessions, or both; ANY by default.

        Returns:
            The queryable. With a channel, receive from it with `recv`, `try_recv` or a `for` loop; it ends when it is
            garbage-collected. With a callback it lives as long as the session, unless it is undeclared.

        Raises:
            SessionClosed: The session was closed.
            UsageError: The key expression is not valid.
            TypeError: An argument has a wrong type.
            ValueError: The handler is none of these.

        Example:
            >>> def reply(query: zenspark.Query) -> None:
            ...     query.reply("demo/time", "noon")
            >>> queryable = session.declare_queryable("demo/time", reply)
        """
        self._runtime.check_open()
        self._runtime.wait_for_links()
        key, origin = (
            self._runtime.validate_key(key_expr),
            require_type_or_default(Locality, allowed_origin, Locality.ANY),
        )
        return Queryable(self._runtime, key, to_bool(complete), origin, self._runtime.bind_handler(handler))

    # -- query

    @overload
    def get(
        self, selector: Selector | IntoKeyExpr, handler: IntoChannel[Reply] | None = None, **options: Unpack[GetOptions]
    ) -> Handler[Reply]: ...
    @overload
    def get(
        self, selector: Selector | IntoKeyExpr, handler: IntoCallbackAndHandler[Reply, H], **options: Unpack[GetOptions]
    ) -> H: ...
    @overload
    def get(
        self, selector: Selector | IntoKeyExpr, handler: IntoCallback[Reply], **options: Unpack[GetOptions]
    ) -> None: ...

    def get(
        self,
        selector: Selector | IntoKeyExpr,
        handler: object = None,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        payload: IntoZBytes | None = None,
        encoding: Encoding | str | None = None,
        attachment: IntoZBytes | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        budget: int | None = None,
        timestamp: Timestamp | None = None,
    ) -> Any:
        """Query the matching queryables.

        Args:
            selector: Keys to query, and parameters for the queryables, such as "demo/**?limit=10".
            handler: Where the replies are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, or a pair of a function and an object; by default a
                `FifoChannel` of 256.
            target: Which of the matching queryables are queried: BEST_MATCHING (the default), ALL or ALL_COMPLETE.
            consolidation: How replies on the same key are merged. AUTO, the default, is sent as such: each reply is
                merged as its queryable prefers, or as LATEST (NONE if the parameters have `_time`).
            accept_replies: Whether replies may be on keys that do not match the query; MATCHING_QUERY by default.
            timeout: Seconds after which the query ends; by default `queries_default_timeout` of the configuration (10
                s). With `math.inf` it ends when all queryables have replied, and no timeout is sent; routers on the
                way, and sessions with queryables, then apply their own, 10 s.
            congestion_control: Treatment while a link has unsent bytes, after the query is queued there.
                BLOCK (the default) waits until they are taken, DROP and BLOCK_FIRST only if they exceed 4 MiB.
                The session with a neighbour that takes none for 5 s is closed; this node drops no query.
            priority: Priority of the query, and of its replies; DATA by default.
            express: Whether the query is sent at once, without waiting for others to fill a batch; False by default.
            payload: Value sent along with the query; none by default.
            encoding: Encoding of that payload; `zenoh/bytes` by default.
            attachment: Bytes or text sent along with the query; none by default.
            allowed_destination: Whether queryables of this session, of other sessions, or both are queried; ANY by
                default.
            source_info: Querier and sequence number of the query; none by default.
            cancellation_token: Token that ends the query when it is cancelled; none by default.
            timestamp_instrumentation: Points on the way at which nodes record the time; none by default.
            budget: How many responses (replies and errors) are accepted, from 1 to 2^32 - 1; any number by default. The
                query ends with the last of them, and routers of zenspark forward no more. Not in eclipse-zenoh.
            timestamp: Time of the query, which queryables read as `query.timestamp`; none by default. Not in
                eclipse-zenoh.

        Returns:
            The channel of replies, which is closed after the last; or the object that was given with a callback, or
            None.

        Raises:
            SessionClosed: The session was closed.
            UsageError: The key expression is not valid, or the parameters have more than 65,535 bytes.
            ValueError: The timeout or the budget is out of range, or the handler is none of these.
            TypeError: An argument has a wrong type.

        Example:
            >>> for reply in session.get("demo/**", timeout=2):
            ...     if reply.ok is not None:
            ...         print(reply.ok.key_expr, reply.ok.payload.to_string())
        """
        self._runtime.check_open()
        chosen = Selector.of(selector)
        self._runtime.validate_key(chosen.key_expr)
        request = make_query_request(
            self._runtime,
            chosen,
            timeout=to_timeout(timeout, self._query_timeout, endless=True),
            target=target,
            consolidation=consolidation,
            accept_replies=accept_replies,
            congestion_control=congestion_control,
            priority=priority,
            express=express,
            payload=payload,
            encoding=encoding,
            attachment=attachment,
            allowed_destination=allowed_destination,
            source_info=source_info,
            timestamp_instrumentation=timestamp_instrumentation,
            budget=budget,
            timestamp=timestamp,
        )
        return start_query(self._runtime, request, handler, cancellation_token)

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
    ) -> Querier:
        """Declare a querier for one key expression: faster than `get`, and it reports whether queryables match.

        Args:
            key_expr: Keys to query.
            target: Which of the matching queryables are queried: BEST_MATCHING (the default), ALL or ALL_COMPLETE.
            consolidation: How replies on the same key are merged. AUTO, the default, is sent as such: each reply is
                merged as its queryable prefers, or as LATEST (NONE if the parameters have `_time`).
            accept_replies: Whether replies may be on keys that do not match the query; MATCHING_QUERY by default.
            timeout: Seconds after which the query ends; by default `queries_default_timeout` of the configuration (10
                s). With `math.inf` it ends when all queryables have replied, and no timeout is sent; routers on the
                way, and sessions with queryables, then apply their own, 10 s.
            congestion_control: Treatment while a link has unsent bytes, after the query is queued there.
                BLOCK (the default) waits until they are taken, DROP and BLOCK_FIRST only if they exceed 4 MiB.
                The session with a neighbour that takes none for 5 s is closed; this node drops no query.
            priority: Priority of the query, and of its replies; DATA by default.
            express: Whether the query is sent at once, without waiting for others to fill a batch; False by default.
            allowed_destination: Whether queryables of this session, of other sessions, or both are queried; ANY by
                default.
            budget: How many responses (replies and errors) each query accepts, from 1 to 2^32 - 1; any number by
                default. Not in eclipse-zenoh.

        Returns:
            The querier; it ends when it is undeclared, at the end of its `with` block, or when it is garbage-collected.

        Raises:
            SessionClosed: The session was closed.
            UsageError: The key expression is not valid.
            ValueError: The timeout or the budget is out of range.
            TypeError: An argument has a wrong type.

        Example:
            >>> with session.declare_querier("demo/**", timeout=2) as querier:
            ...     replies = [reply.ok for reply in querier.get(parameters="limit=10")]
        """
        self._runtime.check_open()
        self._runtime.wait_for_links()
        key = self._runtime.validate_key(key_expr)
        request = partial(
            make_query_request,
            self._runtime,
            timeout=to_timeout(timeout, self._query_timeout, endless=True),
            target=target,
            consolidation=consolidation,
            accept_replies=accept_replies,
            congestion_control=congestion_control,
            priority=priority,
            express=express,
            allowed_destination=allowed_destination,
            budget=budget,
        )
        matching = MatchingTracker(
            self._runtime,
            DeclarationKind.QUERYABLE,
            key,
            require_type_or_default(Locality, allowed_destination, Locality.ANY),
            only_complete=target is QueryTarget.ALL_COMPLETE,
        )
        return Querier(
            self._runtime,
            key,
            matching,
            require_type_or_default(ReplyKeyExpr, accept_replies, ReplyKeyExpr.DEFAULT),
            request,
        )


def runtime_of(session: Session) -> SessionRuntime:
    """Return the runtime of a session: for packages of zenspark that need its node; not part of the API."""
    return session._runtime
