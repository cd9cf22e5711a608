"""AdvancedSubscriber: a subscriber that queries past samples, detects missing ones and recovers them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from zenspark.api._signatures import IntoCallback, IntoCallbackAndHandler, IntoChannel, IntoKeyExpr
from zenspark.api.entities import Entity, Receiver, Subscriber
from zenspark.api.ext.advanced.config import HistoryConfig, RecoveryConfig
from zenspark.api.ext.advanced.heartbeat import SEQUENCE_NUMBER, PeriodicTask
from zenspark.api.ext.advanced.publisher_key import PublisherKey
from zenspark.api.ext.reorder_buffer import Delivery, Miss, ReorderBuffer, SourceId
from zenspark.api.session import Session, runtime_of
from zenspark.engine.runtime import SessionRuntime
from zenspark.errors import UsageError
from zenspark.handlers.handler import (
    BindableHandler,
    BoundHandler,
    Callback,
    DeliverySink,
    Handler,
    bind_sample_handler,
)
from zenspark.key import KeyExpr
from zenspark.net.loop.executor import CallbackExecutor
from zenspark.net.loop.leader_follower import yield_leadership
from zenspark.types.arguments import require_type, require_type_or_default, to_bool
from zenspark.types.enums import (
    ConsolidationMode,
    Locality,
    QueryTarget,
    ReplyKeyExpr,
    SampleKind,
)
from zenspark.types.ids import EntityGlobalId
from zenspark.types.sample import Reply, Sample
from zenspark.types.selector import Selector

if TYPE_CHECKING:
    import pyarrow as pa

    from zenspark.handlers.arrow import ArrowBatches

H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)
RECOVERY_QUERY_TIMEOUT_SECONDS = 10.0
"""Seconds that a query for past or missed samples waits for replies."""


class AdvancedSubscriberOptions(TypedDict, total=False):
    """Keyword arguments of `declare_advanced_subscriber`."""

    allowed_origin: Locality | None
    history: HistoryConfig | None
    recovery: RecoveryConfig | None
    subscriber_detection: bool | None


class BlockingSink:
    """Sink of the user's handler: `push` blocks while it is full, which in the end blocks the publisher."""

    def __init__(self, handler: object, loop: CallbackExecutor) -> None:
        self._has_space = threading.Event()
        self.bound: BoundHandler = bind_sample_handler(handler, loop, lambda _: self._has_space.set())
        self._is_open = True

    def push(self, item: object) -> None:
        self._has_space.clear()
        if self._is_open and not self.bound.sink.push(item) and self._is_open:
            yield_leadership()
            self._has_space.wait()

    def close(self) -> None:
        self._is_open = False
        self._has_space.set()
        self.bound.sink.close()


class SampleRecovery:
    """The receive side of an advanced subscriber: reorders samples, and queries missing ones."""

    def __init__(
        self, session: Session, key_expr: KeyExpr, target: BlockingSink, history: HistoryConfig | None, recovers: bool
    ) -> None:
        self._session = weakref.ref(session)  # weak: a session closes when its last reference is gone
        self._key_expr = key_expr
        self._target = target
        self._history = {} if history is None else history.parameters()
        depth = None if history is None else history.max_samples
        self._buffer = ReorderBuffer(recovers, history is not None, depth)
        self._lock = threading.RLock()
        self._parts: list[Any] = []
        self.listeners: dict[int, DeliverySink[Miss]] = {}
        """Sinks of the sample miss listeners, by entity id."""

    def add(self, part: Entity | PeriodicTask) -> None:
        """Add a part that ends when this ends."""
        self._parts.append(part)

    def end(self) -> None:
        """Stop receiving and querying."""
        for part in self._parts:
            part.undeclare()
        self.close()

    def close(self) -> None:
        """Close the handlers: nothing more will be delivered."""
        self._target.close()
        for sink in list(self.listeners.values()):
            sink.close()

    # -- received

    def on_sample(self, sample: Sample) -> None:
        with self._lock:
            self._emit(self._buffer.receive(sample))
            source = sample.source_info
            gap = None if source is None else self._buffer.missing_range(source.source_id)
        if source is not None and gap is not None:
            self._query_publisher(source.source_id, gap)

    def on_token(self, sample: Sample) -> None:
        """Query the past samples of a publisher that appeared."""
        publisher = PublisherKey.parse(str(sample.key_expr))
        publisher_id = None if publisher is None else publisher.source
        if sample.kind is SampleKind.PUT and publisher_id is not None:
            self._query_source(publisher_id, str(sample.key_expr), self._history)

    def on_heartbeat(self, sample: Sample) -> None:
        """Query the samples up to the last sequence number of a publisher."""
        publisher = PublisherKey.parse(str(sample.key_expr))
        publisher_id = None if publisher is None else publisher.source
        payload = sample.payload.to_bytes()
        if (
            not isinstance(publisher_id, EntityGlobalId)
            or sample.kind is not SampleKind.PUT
            or len(payload) != SEQUENCE_NUMBER.size
        ):
            return
        with self._lock:
            numbers = self._buffer.range_up_to(publisher_id, SEQUENCE_NUMBER.unpack(payload)[0])
        if numbers is not None:
            self._query_source(publisher_id, str(sample.key_expr), {"_sn": numbers})

    def _emit(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            if isinstance(delivery, Miss):
                for sink in list(self.listeners.values()):
                    sink.push(delivery)
            else:
                self._target.push(delivery)

    # -- queries

    def query_all_history(self) -> None:
        """Query the past samples of all publishers."""
        self._query(f"{self._key_expr}/@adv/**", self._history, self._buffer.history_finished)

    def query_missing(self) -> None:
        """Query each publisher for samples after the last one received."""
        with self._lock:
            ranges = [
                (publisher_id, self._buffer.range_after_last(publisher_id))
                for publisher_id in self._buffer.numbered_publishers
            ]
        for publisher_id, numbers in ranges:
            self._query_publisher(publisher_id, numbers)

    def _query_publisher(self, publisher_id: EntityGlobalId, numbers: str) -> None:
        self._query_source(
            publisher_id, f"{self._key_expr}/@adv/*/{publisher_id.zid}/{publisher_id.eid}/**", {"_sn": numbers}
        )

    def _query_source(self, publisher_id: SourceId, key: str, parameters: dict[str, str]) -> None:
        with self._lock:
            self._buffer.query_started(publisher_id)
        self._query(key, parameters, lambda: self._buffer.query_finished(publisher_id))

    def _query(self, key: str, parameters: dict[str, str], on_end: Callable[[], list[Delivery]]) -> None:
        def end() -> None:
            with self._lock:
                self._emit(on_end())

        session = self._session()
        if session is None or session.is_closed():
            end()
            return
        session.get(
            Selector(KeyExpr.autocanonize(key), parameters),
            Callback(self._on_reply, end),
            target=QueryTarget.ALL,
            consolidation=ConsolidationMode.NONE,
            accept_replies=ReplyKeyExpr.ANY,
            timeout=RECOVERY_QUERY_TIMEOUT_SECONDS,
        )

    def _on_reply(self, reply: Reply) -> None:
        sample = reply.ok
        if sample is not None and self._key_expr.intersects(sample.key_expr):
            with self._lock:
                self._emit(self._buffer.receive(sample))


class SampleMissListener(Receiver[H_co]):
    """Receives a `Miss` when samples of a publisher are missing. `AdvancedSubscriber.sample_miss_listener` makes it.

    Example:
        >>> with subscriber.sample_miss_listener() as listener:
        ...     miss = listener.recv()
    """

    _NAME = "sample miss listener"

    def __init__(self, runtime: SessionRuntime, sample_recovery: SampleRecovery, bound: BoundHandler) -> None:
        """Register the listener.

        Args:
            runtime: State of the session.
            sample_recovery: Detects missing samples.
            bound: The handler it delivers to.
        """
        number, sink = runtime.entities.next_id(), bound.sink

        def end() -> None:
            sample_recovery.listeners.pop(number, None)
            sink.close()

        super().__init__(runtime, number, end, bound)
        sample_recovery.listeners[number] = sink


class AdvancedSubscriber(Receiver[H_co]):
    """A subscriber that queries past samples, and detects and recovers missing ones.

    `declare_advanced_subscriber` makes it.

    `AdvancedSubscriber[Handler[Sample]]` has a channel, `AdvancedSubscriber[None]` a callback.

    Example:
        >>> with declare_advanced_subscriber(session, "demo/**", history=HistoryConfig(max_samples=10)) as subscriber:
        ...     sample = subscriber.recv(timeout=1)
    """

    _NAME = "advanced subscriber"

    def __init__(
        self,
        session: Session,
        key_expr: KeyExpr,
        target: BlockingSink,
        origin: Locality,
        history: HistoryConfig | None,
        recovery: RecoveryConfig | None,
        is_detectable: bool,
    ) -> None:
        """Declare the parts of the subscriber.

        Args:
            session: The session.
            key_expr: Keys to receive.
            target: The handler it delivers to.
            origin: Whether samples of this session, of others, or both are received.
            history: Past samples to query; None for none.
            recovery: How missing samples are detected and recovered; None if they are not.
            is_detectable: Whether publishers can detect it, by a token.
        """
        runtime = runtime_of(session)
        recovers = recovery is not None
        sample_recovery = self._sample_recovery = SampleRecovery(session, key_expr, target, history, recovers)
        super().__init__(runtime, runtime.entities.next_id(), sample_recovery.end, target.bound)
        handler = Callback(sample_recovery.on_sample, sample_recovery.close)
        self._subscriber = session.declare_subscriber(key_expr, handler, allowed_origin=origin)
        self._session = weakref.ref(session)
        sample_recovery.add(self._subscriber)
        if history is not None:
            sample_recovery.query_all_history()
        if history is not None and history.detect_late_publishers:
            tokens = session.liveliness()
            sample_recovery.add(tokens.declare_subscriber(self._publishers(), sample_recovery.on_token, history=True))
        if recovery is not None and recovery.heartbeat:
            on_heartbeat = sample_recovery.on_heartbeat
            sample_recovery.add(session.declare_subscriber(self._publishers(), on_heartbeat, allowed_origin=origin))
        if recovery is not None and recovery.periodic_queries:
            sample_recovery.add(PeriodicTask(recovery.periodic_queries, sample_recovery.query_missing))
        if is_detectable:
            subscriber_id = self._subscriber.id
            sample_recovery.add(
                session.liveliness().declare_token(key_expr / f"@adv/sub/{subscriber_id.zid}/{subscriber_id.eid}/_")
            )

    def _publishers(self) -> KeyExpr:
        return self._subscriber.key_expr / "@adv/pub/**"

    @property
    def id(self) -> EntityGlobalId:
        """The id of the subscriber, unique in the network. Raises `UsageError` after it was undeclared."""
        self._check()
        return self._subscriber.id

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression of the keys it receives."""
        self._check()
        return self._subscriber.key_expr

    @overload
    def sample_miss_listener(
        self,
        handler: IntoChannel[Miss] | None = None,
    ) -> SampleMissListener[Handler[Miss]]: ...
    @overload
    def sample_miss_listener(
        self,
        handler: IntoCallbackAndHandler[Miss, H],
    ) -> SampleMissListener[H]: ...
    @overload
    def sample_miss_listener(
        self,
        handler: IntoCallback[Miss],
    ) -> SampleMissListener[None]: ...

    def sample_miss_listener(self, handler: object = None) -> SampleMissListener[Any]:
        """Listen for samples that are missing and could not be recovered.

        Only samples of publishers with `sample_miss_detection` can be detected as missing.

        Args:
            handler: Where the misses are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, or a pair of a function and an object; by default a
                `FifoChannel` of 256.

        Returns:
            The listener. With a channel it ends when it is garbage-collected; with a callback it lives as long as the
            session, unless it is undeclared.

        Raises:
            UsageError: The subscriber was undeclared.
            SessionClosed: The session was closed.
            TypeError: An argument has a wrong type.
            ValueError: The handler is none of these.

        Example:
            >>> listener = subscriber.sample_miss_listener(lambda miss: print(miss.source, "lost", miss.nb))
        """
        self._check_open()
        return SampleMissListener(self._runtime, self._sample_recovery, self._runtime.bind_handler(handler))

    @overload
    def detect_publishers(
        self, handler: IntoChannel[Sample] | None = None, *, history: bool | None = None
    ) -> Subscriber[Handler[Sample]]: ...
    @overload
    def detect_publishers(
        self, handler: ArrowBatches, *, history: bool | None = None
    ) -> Subscriber[Handler[pa.RecordBatch]]: ...
    @overload
    def detect_publishers(
        self, handler: IntoCallbackAndHandler[Sample, H], *, history: bool | None = None
    ) -> Subscriber[H]: ...
    @overload
    def detect_publishers(self, handler: IntoCallback[Sample], *, history: bool | None = None) -> Subscriber[None]: ...
    @overload
    def detect_publishers(self, handler: BindableHandler, *, history: bool | None = None) -> Subscriber[Any]: ...

    def detect_publishers(self, handler: object = None, *, history: bool | None = None) -> Subscriber[Any]:
        """Listen for matching advanced publishers that appear (PUT) and disappear (DELETE).

        Only publishers with `publisher_detection` can be detected.

        Args:
            handler: Where the samples are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, a pair of a function and an object, or `ArrowBatches()`, a
                channel of record batches; by default a `FifoChannel` of 256.
            history: Whether publishers that exist already are delivered too; False by default.

        Returns:
            A subscriber of liveliness tokens.

        Raises:
            UsageError: The subscriber was undeclared, or its session is gone.
            SessionClosed: The session was closed.
            TypeError: An argument has a wrong type.
            ValueError: The handler is none of these.

        Example:
            >>> for sample in subscriber.detect_publishers(history=True):
            ...     print(sample.key_expr, sample.kind)
        """
        self._check_open()
        session = self._session()
        if session is None:
            raise UsageError("the session of this subscriber is gone")
        tokens: Any = session.liveliness()  # any kind of handler
        subscriber: Subscriber[Any] = tokens.declare_subscriber(self._publishers(), handler, history=history)
        return subscriber


@overload
def declare_advanced_subscriber(
    session: Session,
    key_expr: IntoKeyExpr,
    handler: IntoChannel[Sample] | None = None,
    **options: Unpack[AdvancedSubscriberOptions],
) -> AdvancedSubscriber[Handler[Sample]]: ...
@overload
def declare_advanced_subscriber(
    session: Session, key_expr: IntoKeyExpr, handler: ArrowBatches, **options: Unpack[AdvancedSubscriberOptions]
) -> AdvancedSubscriber[Handler[pa.RecordBatch]]: ...
@overload
def declare_advanced_subscriber(
    session: Session,
    key_expr: IntoKeyExpr,
    handler: IntoCallbackAndHandler[Sample, H],
    **options: Unpack[AdvancedSubscriberOptions],
) -> AdvancedSubscriber[H]: ...
@overload
def declare_advanced_subscriber(
    session: Session, key_expr: IntoKeyExpr, handler: IntoCallback[Sample], **options: Unpack[AdvancedSubscriberOptions]
) -> AdvancedSubscriber[None]: ...
@overload
def declare_advanced_subscriber(
    session: Session, key_expr: IntoKeyExpr, handler: BindableHandler, **options: Unpack[AdvancedSubscriberOptions]
) -> AdvancedSubscriber[Any]: ...


def declare_advanced_subscriber(
    session: Session,
    key_expr: IntoKeyExpr,
    handler: object = None,
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber[Any]:
    """Declare a subscriber with history, recovery and a token, as configured.

    Args:
        session: The session that receives.
        key_expr: Key expression of the keys to receive.
        handler: Where the samples are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
            function that is called with each of them, a pair of a function and an object, or `ArrowBatches()`, a
            channel of record batches; by default a `FifoChannel` of 256.
        allowed_origin: Whether to receive from this session, from other sessions, or both; ANY by default.
        history: Past samples to query from the caches of publishers; none by default.
        recovery: How samples that are missing are detected and queried; they are not by default.
        subscriber_detection: Whether the subscriber can be detected, by a liveliness token; False by default.

    Returns:
        The subscriber. With a channel it ends when it is garbage-collected; with a callback it lives as long as the
        session, unless it is undeclared.

    Raises:
        SessionClosed: The session was closed.
        UsageError: The key expression is not valid, or the history is empty.
        TypeError: An argument has a wrong type.
        ValueError: The handler is none of these.

    Example:
        >>> subscriber = declare_advanced_subscriber(
        ...     session, "demo/**", history=HistoryConfig(max_samples=10), recovery=RecoveryConfig(heartbeat=True)
        ... )
        >>> sample = subscriber.recv()
    """
    history_config = None if history is None else require_type(HistoryConfig, history)
    if history_config is not None and (history_config.max_samples == 0 or history_config.max_age == 0):
        raise UsageError("expected a history of at least one sample, and of some age")
    runtime = runtime_of(require_type(Session, session))
    runtime.check_open()
    return AdvancedSubscriber(
        session,
        runtime.validate_key(key_expr),
        BlockingSink(handler, runtime.node.loop),
        require_type_or_default(Locality, allowed_origin, Locality.ANY),
        history_config,
        None if recovery is None else require_type(RecoveryConfig, recovery),
        to_bool(subscriber_detection),
    )
