"""Session: a node's place in the network, and everything one can do from there. Runs in the caller's thread.

It makes entities, hands them their settings and keeps track of them; what they do is in their own modules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import msgspec

from zenspark.api.cancellation import CancellationToken, QueryCancellation
from zenspark.api.entities import (
    Entity,
    LivelinessSubscriber,
    LivelinessToken,
    Publisher,
    Querier,
    Queryable,
    Subscriber,
    start_query,
)
from zenspark.api.info import SessionInfo
from zenspark.engine.direct_queries import QueryRequest
from zenspark.engine.matching import MatchingTracker
from zenspark.engine.publisher import CachedPublisher, PublishSettings
from zenspark.engine.qos_overrides import QosOverrides
from zenspark.engine.runtime import SessionRuntime
from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.arguments import require_type, require_type_or_default, to_bool, to_count, to_timeout
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
from zenspark.types.query import ANY_KEY_PARAMETER
from zenspark.types.selector import Parameters, Selector
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.wire_value import rust_repr
from zenspark.types.zbytes import IntoZBytes, ZBytes
from zenspark.wire import messages
from zenspark.wire import values as wire

if TYPE_CHECKING:
    from zenspark.engine.batch_publisher import BatchOrTable

IntoKeyExpr = KeyExpr | str


MAX_CACHED_PUBLISHERS = 10_000
"""How many keys `put` remembers how to publish on: more would let ever new keys fill the memory."""


MAX_PARAMETERS_BYTES = 0xFFFF
"""Bytes the parameters of a query may have: their length has 16 bits. Longer ones of others are read all the same."""


class Session:
    """An open session. Closes when it leaves its `with` block, or when nobody holds it any more.

    `end` closes what is behind it; it can be called again, from any thread, and must not refer to the session.
    """

    def __init__(
        self, runtime: SessionRuntime, query_timeout: float, end: Callable[[], None], overrides: QosOverrides
    ) -> None:
        self._runtime = runtime
        self._query_timeout = query_timeout
        self._end = end
        self._overrides = overrides
        self._entity_id = runtime.next_id()
        self._publications: dict[tuple[object, ...], CachedPublisher] = {}
        self._info = SessionInfo(runtime)
        self._declared: set[str] = set()
        """The key expressions that were declared here: only these can be undeclared."""

    # -- life

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # the garbage collector may run in the middle of anything: nothing here may wait
        if not self._runtime.is_over:
            end = self._end
            self._runtime.call_soon(lambda: threading.Thread(target=end, name="zenspark-close", daemon=True).start())

    def __repr__(self) -> str:
        return rust_repr(self, zid=self.zid(), closed=self.is_closed())

    def close(self) -> None:
        """End the session with all its entities, when what it published is written; a second time does nothing."""
        self._end()

    def is_closed(self) -> bool:
        return self._runtime.is_over

    @property
    def info(self) -> SessionInfo:
        """Who this session is connected to."""
        return self._info

    @property
    def id(self) -> EntityGlobalId:
        return EntityGlobalId.from_wire(self._runtime.entity(self._entity_id))

    def zid(self) -> ZenohId:
        """The id of this node."""
        return ZenohId.from_wire(self._runtime.node.identity.zid)

    def new_timestamp(self) -> Timestamp:
        """The time now, by this node's clock: never the same twice."""
        return Timestamp.from_wire(self._runtime.stamp())

    def undeclare(self, obj: KeyExpr | Entity) -> None:
        """End an entity; a declared key expression needs no end."""
        match obj:
            case Entity():
                obj.undeclare()
            case KeyExpr():
                self._runtime.check()
                if str(obj) not in self._declared:
                    raise UsageError(f"{obj} was not declared in this session: it cannot be undeclared")
            case _:
                raise TypeError(f"expected a KeyExpr or something declared, found {type(obj).__name__!r}")

    def declare_keyexpr(self, key_expr: IntoKeyExpr) -> KeyExpr:
        """A key expression to be used often; numbers for it are given out by themselves."""
        self._runtime.check()
        key = self._runtime.key(key_expr)
        self._declared.add(str(key))
        return key

    def liveliness(self) -> Liveliness:
        """Tokens: who is alive."""
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
        """Write a value under a key."""
        settings = (key_expr, encoding, congestion_control, priority, express, allowed_destination)
        publication = self._publications.get(settings) or self._publication(settings)
        publication.put(payload, None, attachment, timestamp, timestamp_instrumentation, source_info)

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
        """Remove a key."""
        self._runtime.check()
        settings = (key_expr, None, congestion_control, priority, express, allowed_destination)
        publication = self._publications.get(settings) or self._publication(settings)
        publication.delete(attachment, timestamp, timestamp_instrumentation, source_info)

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
        """Write a value for each row of a record batch or table: its `key`, and any other columns of the schema.

        Where a row says nothing, the arguments count, with the defaults of `put`: a full link drops rows, unless
        `congestion_control` or a column says BLOCK. Returns how many rows were dropped, counted for each neighbour.
        """
        from zenspark.engine.batch_publisher import (
            BatchPublisher,  # here, as it loads pyarrow, which other programs do without
        )

        self._runtime.check()
        publishing = _publishing(encoding, congestion_control, priority, express, None, allowed_destination)
        return BatchPublisher(self._runtime, publishing, treat=self._overrides.of if self._overrides else None).put(
            batch
        )

    def _publication(self, settings: tuple[Any, ...]) -> CachedPublisher:
        """Get ready to publish, and remember how."""
        key_expr, encoding, congestion, priority, express, destination = settings
        publishing = _publishing(encoding, congestion, priority, express, None, destination)
        if len(self._publications) >= MAX_CACHED_PUBLISHERS:
            self._publications.clear()
        key = self._runtime.key(key_expr)
        publication = CachedPublisher(self._runtime, key, self._overrides.of(key, publishing))
        self._publications[settings] = publication
        return publication

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
        """Get ready to publish on one key, again and again.

        `timestamping`, which eclipse-zenoh does not have, is whether what this publisher publishes without a timestamp
        gets one of this session; by default as `timestamping/enabled` of the configuration says, which is so in
        routers.
        """
        self._runtime.check()
        self._runtime.await_links()
        publishing = _publishing(encoding, congestion_control, priority, express, reliability, allowed_destination)
        if timestamping is not None:
            publishing = msgspec.structs.replace(publishing, stamps=to_bool(timestamping))
        key = self._runtime.key(key_expr)
        return Publisher(self._runtime, key, self._overrides.of(key, publishing))

    # -- receive

    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: object = None, *, allowed_origin: Locality | None = None
    ) -> Subscriber[Any]:
        """Receive what is published on the keys that match."""
        self._runtime.check()
        self._runtime.await_links()
        key, origin = self._runtime.key(key_expr), require_type_or_default(Locality, allowed_origin, Locality.ANY)
        return Subscriber(self._runtime, key, origin, self._runtime.bind_handler(handler))

    def declare_queryable(
        self,
        key_expr: IntoKeyExpr,
        handler: object = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[Any]:
        """Answer queries on the keys that match."""
        self._runtime.check()
        self._runtime.await_links()
        key, origin = self._runtime.key(key_expr), require_type_or_default(Locality, allowed_origin, Locality.ANY)
        return Queryable(self._runtime, key, to_bool(complete), origin, self._runtime.bind_handler(handler))

    # -- ask

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
    ) -> Any:  # noqa: ANN401 - a channel, or whatever was given with a callback
        """Ask the queryables that match; iterating over what is returned ends with the last reply.

        `timeout` is in seconds, by default `queries_default_timeout` of the configuration (10 s). With `math.inf` the
        querier waits until all queryables have answered, and sends no Timeout extension; routers on the way, and
        sessions with queryables, then take their own, 10 s.

        `consolidation` is AUTO by default, and sent as such: replies are merged as each of them prefers, or as LATEST
        (NONE if the parameters have `_time`).

        `budget`, which eclipse-zenoh does not have, is how many responses, replies and errors, are accepted, from 1 to
        2^32 - 1; any number by default. The query ends with the last of them. Routers of zenspark pass no more of them
        on. Raises ValueError for a number outside that range, TypeError for what is no whole number.

        Raises UsageError if the parameters have more than 65,535 bytes.

        `timestamp`, neither there, tells the queryables when it was asked: `query.timestamp`; they are told nothing by
        default.
        """
        self._runtime.check()
        chosen = Selector.of(selector)
        self._runtime.key(chosen.key_expr)
        question = _question(
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
        return start_query(self._runtime, question, handler, cancellation_token)

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
        """Get ready to ask on one key, again and again; `budget` counts for each query, as in `get`."""
        self._runtime.check()
        self._runtime.await_links()
        key = self._runtime.key(key_expr)
        question = partial(
            _question,
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
            question,
        )


class Liveliness:
    """Tokens of a session: declare them, ask for them, be told of them."""

    def __init__(self, runtime: SessionRuntime, query_timeout: float) -> None:
        self._runtime = runtime
        self._query_timeout = query_timeout

    def declare_token(self, key_expr: IntoKeyExpr) -> LivelinessToken:
        """Say that something is alive."""
        self._runtime.check()
        self._runtime.await_links()
        return LivelinessToken(self._runtime, self._runtime.key(key_expr))

    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: object = None, *, history: bool | None = None
    ) -> LivelinessSubscriber[Any]:
        """Be told of tokens that appear and disappear; with `history` also of those that are there."""
        self._runtime.check()
        self._runtime.await_links()
        return LivelinessSubscriber(
            self._runtime, self._runtime.key(key_expr), to_bool(history), self._runtime.bind_handler(handler)
        )

    def get(
        self,
        key_expr: IntoKeyExpr,
        handler: object = None,
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> Any:  # noqa: ANN401 - a channel, or whatever was given with a callback
        """Ask for the tokens there are."""
        self._runtime.check()
        limit = to_timeout(timeout, self._query_timeout)
        key = self._runtime.key(key_expr)
        cancelling = QueryCancellation(self._runtime, cancellation_token, handler)
        attached = self._runtime.bind_handler(cancelling.handler)
        cancelling.watch(self._runtime.ask_tokens(key, limit, attached.sink))
        return attached.handler


def _question(
    runtime: SessionRuntime,
    selector: Selector,
    *,
    timeout: float,
    target: QueryTarget | None,
    consolidation: ConsolidationMode | QueryConsolidation | None,
    accept_replies: ReplyKeyExpr | None,
    congestion_control: CongestionControl | None,
    priority: Priority | None,
    express: bool | None,
    allowed_destination: Locality | None,
    budget: int | None = None,
    timestamp: Timestamp | None = None,
    payload: IntoZBytes | None = None,
    encoding: Encoding | str | None = None,
    attachment: IntoZBytes | None = None,
    source_info: SourceInfo | None = None,
    timestamp_instrumentation: TimestampInstrumentation | None = None,
) -> QueryRequest:
    """What a query asks for, from what users say."""
    parameters = selector.parameters
    chosen = _mode(consolidation)
    any_key = (
        require_type_or_default(ReplyKeyExpr, accept_replies, ReplyKeyExpr.DEFAULT) is ReplyKeyExpr.ANY
        or ANY_KEY_PARAMETER in parameters
    )
    if any_key and ANY_KEY_PARAMETER not in parameters:
        parameters.insert(ANY_KEY_PARAMETER, "")
    query = messages.Query(
        consolidation=chosen.to_wire(),
        parameters=_checked(str(parameters)),
        source_info=None if source_info is None else require_type(SourceInfo, source_info).to_wire(),
        body=_query_body(payload, encoding),
        attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
    )
    return QueryRequest(
        key_expr=selector.key_expr,
        query=query,
        target=require_type_or_default(QueryTarget, target, QueryTarget.DEFAULT).to_wire(),
        qos=_qos(congestion_control or CongestionControl.BLOCK, priority, express),
        timeout=timeout,
        mode=_resolved(chosen, parameters),
        any_key=any_key,
        destination=require_type_or_default(Locality, allowed_destination, Locality.ANY),
        budget=to_count(budget),
        timestamp=None if timestamp is None else require_type(Timestamp, timestamp).to_wire(),
        stack=runtime.stack(timestamp_instrumentation),
    )


def _checked(parameters: str) -> str:
    """Parameters, if their length can be written in 16 bits."""
    size = len(parameters.encode())
    if size > MAX_PARAMETERS_BYTES:
        raise UsageError(f"the parameters of a query have {size} bytes, more than {MAX_PARAMETERS_BYTES}")
    return parameters


def _query_body(payload: IntoZBytes | None, encoding: Encoding | str | None) -> wire.QueryBody | None:
    if payload is None and encoding is None:
        return None
    encoded = wire.Encoding.BYTES if encoding is None else Encoding.of(encoding).to_wire()
    return wire.QueryBody(encoded, b"" if payload is None else ZBytes.of(payload).to_bytes())


def _qos(congestion: CongestionControl | None, priority: Priority | None, express: bool | None) -> wire.QoS:
    return wire.QoS(
        require_type_or_default(Priority, priority, Priority.DEFAULT).to_wire(),
        require_type_or_default(CongestionControl, congestion, CongestionControl.DEFAULT).to_wire(),
        to_bool(express),
    )


def _publishing(
    encoding: Encoding | str | None,
    congestion: CongestionControl | None,
    priority: Priority | None,
    express: bool | None,
    reliability: Reliability | None,
    destination: Locality | None,
) -> PublishSettings:
    return PublishSettings(
        wire.Encoding.BYTES if encoding is None else Encoding.of(encoding).to_wire(),
        _qos(congestion, priority, express),
        require_type_or_default(Reliability, reliability, Reliability.RELIABLE) is Reliability.RELIABLE,
        require_type_or_default(Locality, destination, Locality.ANY),
    )


def _mode(consolidation: ConsolidationMode | QueryConsolidation | None) -> ConsolidationMode:
    chosen = consolidation.mode if isinstance(consolidation, QueryConsolidation) else consolidation
    return require_type_or_default(ConsolidationMode, chosen, ConsolidationMode.AUTO)


def _resolved(mode: ConsolidationMode, parameters: Parameters) -> ConsolidationMode:
    """What AUTO means for replies that prefer nothing."""
    if mode is ConsolidationMode.AUTO:
        return ConsolidationMode.NONE if "_time" in parameters else ConsolidationMode.LATEST
    return mode
