"""What a session declares: publishers, subscribers, queryables, queriers, tokens, listeners.

An entity lives until it is undeclared, leaves its `with` block, or its session closes. One that delivers to a channel
also ends when nobody holds it any more; one with a callback lives on in the background, as long as its session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from zenspark.api.cancellation import CancellationToken, QueryCancellation
from zenspark.engine.direct_queries import QueryRequest
from zenspark.engine.matching import MatchingTracker
from zenspark.engine.publisher import CachedPublisher, PublishSettings
from zenspark.engine.runtime import LocalInterest, LocalQueryable, SessionRuntime
from zenspark.engine.subscriptions import ColumnSink, Subscription
from zenspark.errors import UsageError
from zenspark.handlers.handler import BoundHandler, Handler
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, Locality, Priority, Reliability, ReplyKeyExpr, SampleKind
from zenspark.types.ids import EntityGlobalId, SourceInfo
from zenspark.types.network_info import MatchingStatus
from zenspark.types.sample import token_sample
from zenspark.types.selector import IntoParameters, Parameters, Selector
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import IntoZBytes
from zenspark.wire import messages
from zenspark.wire import values as wire

if TYPE_CHECKING:
    from zenspark.engine.batch_publisher import BatchOrTable

H = TypeVar("H")


class Entity:
    """Something declared: it can be undeclared once, and then not be used any more.

    `end` must not refer to the entity: it outlives it if there is a callback.
    """

    _NAME = "entity"

    def __init__(self, runtime: SessionRuntime, number: int, end: Callable[[], None]) -> None:
        self._runtime = runtime
        self._number = number
        self._is_live = True
        runtime.finalizers[number] = end

    def undeclare(self) -> None:
        """End it."""
        self._check()
        self._is_live = False
        self._runtime.finish(self._number)

    def _check(self) -> None:
        if not self._is_live:
            raise UsageError(f"this {self._NAME} was undeclared: it can no longer be used")

    def _check_open(self) -> None:
        self._check()
        self._runtime.check()

    @property
    def id(self) -> EntityGlobalId:
        """Its id in the whole network."""
        self._check()
        return EntityGlobalId.from_wire(self._runtime.entity(self._number))

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            self.undeclare()

    def _ends_unheld(self) -> bool:
        """Whether it ends when nobody holds it any more."""
        return True

    def __del__(self) -> None:
        # the garbage collector may run in the middle of anything: nothing here may wait for a lock
        if getattr(self, "_is_live", False) and self._ends_unheld():
            runtime, number = self._runtime, self._number
            runtime.call_soon(lambda: runtime.finish(number))


class NoChannelError(UsageError, AttributeError, TypeError):
    """Somebody wants to receive from what has a callback; also the errors that eclipse-zenoh has for that."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"this {self.name} has no channel to receive from: its callback gets everything"


class Receiver(Entity, Generic[H]):
    """Something that delivers to a handler."""

    def __init__(self, runtime: SessionRuntime, number: int, end: Callable[[], None], attached: BoundHandler) -> None:
        self._attached = attached
        super().__init__(runtime, number, end)

    def _ends_unheld(self) -> bool:
        return not self._attached.background

    @property
    def handler(self) -> H:
        """Where its items come: a channel, or whatever was given together with a callback."""
        self._check()
        return self._attached.handler  # type: ignore[return-value]

    def _channel(self) -> Handler[Any]:
        self._check()
        handler = self._attached.handler
        if not hasattr(handler, "recv"):
            raise NoChannelError(self._NAME)
        return handler  # type: ignore[return-value]  # or what was given with a callback, if it is like one

    def recv(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - what comes depends on the kind of receiver
        """The next item, waited for; `timeout` in seconds."""
        channel = self._channel()
        return channel.recv() if timeout is None else channel.recv(timeout)

    def try_recv(self) -> Any:  # noqa: ANN401 - as above
        """The next item if there is one."""
        return self._channel().try_recv()

    def __iter__(self) -> Iterator[Any]:
        self._check()
        handler = self._attached.handler
        if handler is None:
            raise NoChannelError(self._NAME)
        return iter(handler)  # type: ignore[call-overload,no-any-return]  # what was given with a callback, if it can


class Subscriber(Receiver[H]):
    """Receives what is published on the keys it matches."""

    _NAME = "subscriber"

    def __init__(self, runtime: SessionRuntime, key_expr: KeyExpr, origin: Locality, attached: BoundHandler) -> None:
        columns = attached.sink if isinstance(attached.sink, ColumnSink) else None
        subscription = Subscription(runtime.next_id(), key_expr, origin, attached.sink, columns)
        super().__init__(runtime, subscription.id, lambda: runtime.unsubscribe(subscription), attached)
        self._key_expr = key_expr
        runtime.subscribe(subscription)

    @property
    def key_expr(self) -> KeyExpr:
        self._check()
        return self._key_expr


class LivelinessSubscriber(Subscriber[H]):
    """Receives a sample when a token that matches appears or disappears."""

    _NAME = "liveliness subscriber"

    def __init__(self, runtime: SessionRuntime, key_expr: KeyExpr, history: bool, attached: BoundHandler) -> None:
        inlet = attached.sink

        def tell(change: SampleKind, key: str) -> None:
            if not inlet.push(token_sample(change, key)):
                runtime.backpressure.on_full(inlet, runtime.node.speaker[0])

        def end() -> None:
            runtime.undeclare_interest(watching)
            runtime.backpressure.remove(inlet)
            inlet.close()

        watching = LocalInterest(runtime.next_id(), DeclarationKind.TOKEN, key_expr, tell, lambda: None)
        Receiver.__init__(self, runtime, watching.id, end, attached)
        self._key_expr = key_expr
        runtime.declare_interest(watching, wire.InterestMode.CURRENT_FUTURE if history else wire.InterestMode.FUTURE)


class Queryable(Receiver[H]):
    """Receives queries on the keys it matches, and answers them."""

    _NAME = "queryable"

    def __init__(
        self, runtime: SessionRuntime, key_expr: KeyExpr, complete: bool, origin: Locality, attached: BoundHandler
    ) -> None:
        number = runtime.next_id()
        offered = LocalQueryable(number, key_expr, complete, origin, attached.sink, runtime.entity(number))
        super().__init__(runtime, offered.id, lambda: runtime.remove_queryable(offered), attached)
        self._key_expr = key_expr
        runtime.add_queryable(offered)

    @property
    def key_expr(self) -> KeyExpr:
        self._check()
        return self._key_expr


class LivelinessToken(Entity):
    """Says that something is alive, until it is undeclared or its session ends."""

    _NAME = "liveliness token"

    def __init__(self, runtime: SessionRuntime, key_expr: KeyExpr) -> None:
        number = runtime.next_id()
        super().__init__(runtime, number, lambda: runtime.declare(messages.UndeclareToken(id=number)))
        runtime.declare(messages.DeclareToken(id=number, wire_expr=wire.WireExpr(0, str(key_expr))))


class MatchingListener(Receiver[H]):
    """Receives the matching status of a publisher or querier whenever it changes."""

    _NAME = "matching listener"

    def __init__(self, runtime: SessionRuntime, matching: MatchingTracker, attached: BoundHandler) -> None:
        number = runtime.next_id()
        super().__init__(runtime, number, lambda: matching.unlisten(number), attached)
        matching.listen(number, attached.sink)


class MatchingEntity(Entity):
    """A publisher or querier: it knows whether there is anybody at the other end."""

    def __init__(self, runtime: SessionRuntime, key_expr: KeyExpr, matching: MatchingTracker) -> None:
        super().__init__(runtime, runtime.next_id(), matching.end)
        self._key_expr = key_expr
        self._matching = matching

    @property
    def key_expr(self) -> KeyExpr:
        self._check()
        return self._key_expr

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether anybody is at the other end: true or false in an `if`."""
        self._check()
        return MatchingStatus(self._matching.status)

    def declare_matching_listener(self, handler: object = None) -> MatchingListener[Any]:
        """Be told when `matching_status` changes."""
        self._check_open()
        return MatchingListener(self._runtime, self._matching, self._runtime.bind_handler(handler))


class Publisher(MatchingEntity):
    """Publishes on one key, with settings made once."""

    _NAME = "publisher"

    def __init__(self, runtime: SessionRuntime, key_expr: KeyExpr, publishing: PublishSettings) -> None:
        super().__init__(
            runtime, key_expr, MatchingTracker(runtime, DeclarationKind.SUBSCRIBER, key_expr, publishing.destination)
        )
        self._publishing = publishing
        self._publication = CachedPublisher(runtime, key_expr, publishing, is_declared=True)

    @property
    def encoding(self) -> Encoding:
        self._check()
        return Encoding.from_wire(self._publishing.encoding)

    @property
    def congestion_control(self) -> CongestionControl:
        self._check()
        return CongestionControl.from_wire(self._publishing.qos.congestion)

    @property
    def priority(self) -> Priority:
        self._check()
        return Priority.from_wire(self._publishing.qos.priority)

    @property
    def reliability(self) -> Reliability:
        self._check()
        return Reliability.RELIABLE if self._publishing.reliable else Reliability.BEST_EFFORT

    def put(
        self,
        payload: IntoZBytes,
        *,
        encoding: Encoding | str | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Write a value."""
        if not self._is_live:
            self._check()
        self._publication.put(payload, encoding, attachment, timestamp, timestamp_instrumentation, source_info)

    def put_batch(self, batch: BatchOrTable) -> int:
        """Write a value for each row of a record batch or table, which may have any columns of the sample schema.

        Returns how many rows were dropped because of congestion, counted for each neighbour.
        """
        from zenspark.engine.batch_publisher import (
            BatchPublisher,  # here, as it loads pyarrow, which other programs do without
        )

        self._check_open()
        return BatchPublisher(self._runtime, self._publishing, self._key_expr).put(batch)

    def delete(
        self,
        *,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Remove the key."""
        self._check_open()
        self._publication.delete(attachment, timestamp, timestamp_instrumentation, source_info)


class Querier(MatchingEntity):
    """Asks on one key, with settings made once. `question` makes a question with those settings."""

    _NAME = "querier"

    def __class_getitem__(cls, handler: object) -> GenericAlias:
        """As in eclipse-zenoh, annotations may name a handler."""
        return GenericAlias(cls, handler)

    def __init__(
        self,
        runtime: SessionRuntime,
        key_expr: KeyExpr,
        matching: MatchingTracker,
        accept: ReplyKeyExpr,
        question: Callable[..., QueryRequest],
    ) -> None:
        super().__init__(runtime, key_expr, matching)
        self._accept = accept
        self._question = question
        self._plain = question(Selector(key_expr, Parameters()))
        """What is asked when nothing is said about it."""

    @property
    def accept_replies(self) -> ReplyKeyExpr:
        self._check()
        return self._accept

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
    ) -> Any:  # noqa: ANN401 - a channel, or whatever was given with a callback
        """Ask once; `timestamp` as in `Session.get`."""
        self._check_open()
        extras = (parameters, payload, encoding, attachment, source_info, timestamp_instrumentation, timestamp)
        question = self._plain
        if any(extra is not None for extra in extras):
            question = self._question(
                Selector(self._key_expr, Parameters.of(parameters)),
                payload=payload,
                encoding=encoding,
                attachment=attachment,
                source_info=source_info,
                timestamp_instrumentation=timestamp_instrumentation,
                timestamp=timestamp,
            )
        return start_query(self._runtime, question, handler, cancellation_token)


def start_query(
    runtime: SessionRuntime, question: QueryRequest, handler: object, token: CancellationToken | None
) -> Any:  # noqa: ANN401 - as above
    """Ask a question: a channel of replies, or whatever was given with a callback."""
    runtime.check()
    if token is None:
        attached = runtime.bind_handler(handler)
        runtime.ask(question, attached.sink)
        return attached.handler
    cancelling = QueryCancellation(runtime, token, handler)
    attached = runtime.bind_handler(cancelling.handler)
    cancelling.watch(runtime.ask(question, attached.sink))
    return attached.handler
