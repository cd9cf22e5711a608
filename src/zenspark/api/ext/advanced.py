"""Advanced publishers and subscribers: samples that can be asked for again, noticed when missing, and recovered.

They are made of what a session has: publishers, queryables, tokens, subscribers and queries, under the keys of
protocol section 18, so that they work together with those of eclipse-zenoh.
"""

from __future__ import annotations

import struct
import threading
import weakref
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Generic, TypeVar

import msgspec

from zenspark.api.entities import Entity, Publisher, Receiver, Subscriber
from zenspark.api.ext.publisher_cache import PublisherCache
from zenspark.api.ext.reorder_buffer import Delivery, Miss, ReorderBuffer, SourceId
from zenspark.api.session import Session
from zenspark.engine.runtime import SessionRuntime
from zenspark.errors import UsageError, ZError
from zenspark.handlers.handler import BoundHandler, Callback, DeliverySink, bind_handler
from zenspark.key import KeyExpr
from zenspark.net.loop.event_loop import yield_leadership
from zenspark.net.loop.executor import CallbackExecutor
from zenspark.types.arguments import parse_decimal, require_type, require_type_or_default, to_bool, to_timeout
from zenspark.types.encoding import Encoding
from zenspark.types.enums import (
    CongestionControl,
    ConsolidationMode,
    Locality,
    Priority,
    QueryTarget,
    Reliability,
    ReplyKeyExpr,
    SampleKind,
)
from zenspark.types.ids import EntityGlobalId, SourceInfo, ZenohId
from zenspark.types.sample import Reply, Sample
from zenspark.types.selector import Selector
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp, TimestampId
from zenspark.types.zbytes import IntoZBytes, ZBytes
from zenspark.wire.messages import Del, Put

H = TypeVar("H")

TIMESTAMPED_PUBLISHER = "uhlc"
"""Stands for the number of a publisher whose samples have stamps instead of numbers."""
QUERY_TIMEOUT_SECONDS = 10.0
_SEQUENCE_NUMBER = struct.Struct("<I")
_SEQUENCE_MODULUS = 1 << 32


# --- configuration --------------------------------------------------------------------------------


class ValidatedConfig:
    """Settings that were checked when they were made; they compare, hash and pickle."""

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class RepliesConfig(ValidatedConfig):
    """How the replies of a cache travel. Responses are treated like the question, so nothing here has an effect."""

    def __init__(
        self,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
    ) -> None:
        self.congestion_control = require_type_or_default(
            CongestionControl, congestion_control, CongestionControl.BLOCK
        )
        self.priority = require_type_or_default(Priority, priority, Priority.DEFAULT)
        self.express = to_bool(express)


class CacheConfig(ValidatedConfig):
    """How many samples an advanced publisher keeps."""

    def __init__(self, max_samples: int | None = None, *, replies_config: RepliesConfig | None = None) -> None:
        self.max_samples = _count(require_type_or_default(int, max_samples, 1))
        self.replies_config = require_type_or_default(RepliesConfig, replies_config, RepliesConfig())


class HistoryConfig(ValidatedConfig):
    """Which past samples an advanced subscriber asks for: so many of each publisher, of so many seconds."""

    def __init__(
        self,
        *,
        detect_late_publishers: bool | None = None,
        max_samples: int | None = None,
        max_age: float | None = None,
    ) -> None:
        self.detect_late_publishers = to_bool(detect_late_publishers)
        self.max_samples = None if max_samples is None else _count(max_samples)
        self.max_age = None if max_age is None else _number(max_age)

    def parameters(self) -> dict[str, str]:
        """As a cache understands it."""
        found = {} if self.max_samples is None else {"_max": str(self.max_samples)}
        return found if self.max_age is None else {**found, "_time": f"[now({-self.max_age}s)..]"}


class MissDetectionConfig(ValidatedConfig):
    """How an advanced publisher lets others notice that samples are missing.

    Samples are numbered. A heartbeat says every so many seconds which is the newest, a sporadic one only when that has
    changed: without, nobody notices that the very last one is missing.
    """

    def __init__(self, *, heartbeat: float | None = None, sporadic_heartbeat: float | None = None) -> None:
        self.heartbeat = None if heartbeat is None else to_timeout(heartbeat, 0)
        self.sporadic_heartbeat = None if sporadic_heartbeat is None else to_timeout(sporadic_heartbeat, 0)


class RecoveryConfig(ValidatedConfig):
    """How an advanced subscriber notices that the last samples are missing: by asking, or by heartbeats."""

    def __init__(self, *, periodic_queries: float | timedelta | None = None, heartbeat: bool | None = None) -> None:
        period = periodic_queries.total_seconds() if isinstance(periodic_queries, timedelta) else periodic_queries
        self.periodic_queries = None if period is None else to_timeout(period, 0)
        self.heartbeat = to_bool(heartbeat)
        if (self.periodic_queries is None) is not self.heartbeat:
            raise ValueError("expected either periodic_queries or heartbeat=True")


def _count(value: int) -> int:
    if require_type(int, value) < 0:
        raise OverflowError(f"expected a number from 0 on, found {value}")
    return value


def _number(value: float) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {type(value).__name__!r}")
    return float(value)


# --- publisher ------------------------------------------------------------------------------------


class SequenceCounter:
    """The number of the next sample."""

    def __init__(self) -> None:
        self.next = 0
        self.has_begun = False

    def take(self) -> int:
        number, self.next = self.next, (self.next + 1) % _SEQUENCE_MODULUS
        self.has_begun = True
        return number


class PeriodicTask:
    """Does something every so many seconds, in a thread of its own, until it is stopped."""

    def __init__(self, period: float, work: Callable[[], object]) -> None:
        self._period = period
        self._work = work
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="zenspark-periodic", daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.wait(self._period):
            try:
                self._work()
            except ZError:
                return  # the session is over

    def undeclare(self) -> None:
        self._stopped.set()


class Heartbeat:
    """Says which number was the last; with `only_changes`, not the same twice."""

    def __init__(self, publisher: Publisher, counter: SequenceCounter, only_changes: bool) -> None:
        self._publisher = publisher
        self._counter = counter
        self._only_changes = only_changes
        self._said: int | None = None

    def beat(self) -> None:
        upcoming = self._counter.next
        if self._counter.has_begun and not (self._only_changes and upcoming == self._said):
            self._publisher.put(_SEQUENCE_NUMBER.pack((upcoming - 1) % _SEQUENCE_MODULUS))
            self._said = upcoming


class AdvancedPublisher(Entity):
    """A publisher whose samples can be asked for again, and are noticed when missing."""

    _NAME = "advanced publisher"

    def __init__(
        self,
        session: Session,
        publisher: Publisher,
        cache: CacheConfig | None,
        misses: MissDetectionConfig | None,
        is_detected: bool,
    ) -> None:
        runtime = session._runtime
        self._publisher = publisher
        self._counter = None if misses is None else SequenceCounter()
        self._cache = None if cache is None else PublisherCache(publisher.key_expr, cache.max_samples)
        self._order = threading.Lock()
        name = TIMESTAMPED_PUBLISHER if self._counter is None else str(publisher.id.eid)
        key = publisher.key_expr / f"@adv/pub/{publisher.id.zid}/{name}/_"
        parts: list[Any] = [publisher]
        super().__init__(runtime, runtime.entities.next_id(), lambda: _undeclare_all(parts))
        if self._cache is not None:
            parts.append(session.declare_queryable(key, self._cache.answer))
        if is_detected:
            parts.append(session.liveliness().declare_token(key))
        if misses is not None:
            parts += self._heart(session, key, misses)

    def _heart(self, session: Session, key: KeyExpr, misses: MissDetectionConfig) -> list[Publisher | PeriodicTask]:
        period = misses.heartbeat if misses.sporadic_heartbeat is None else misses.sporadic_heartbeat
        if not period or self._counter is None:
            return []
        only_changes = misses.sporadic_heartbeat is not None
        congestion = CongestionControl.BLOCK if only_changes else CongestionControl.DROP
        publisher = session.declare_publisher(key, congestion_control=congestion)
        return [PeriodicTask(period, Heartbeat(publisher, self._counter, only_changes).beat), publisher]

    @property
    def id(self) -> EntityGlobalId:
        """Its id in the whole network."""
        self._check()
        return self._publisher.id

    @property
    def key_expr(self) -> KeyExpr:
        self._check()
        return self._publisher.key_expr

    @property
    def encoding(self) -> Encoding:
        self._check()
        return self._publisher.encoding

    @property
    def congestion_control(self) -> CongestionControl:
        self._check()
        return self._publisher.congestion_control

    @property
    def priority(self) -> Priority:
        self._check()
        return self._publisher.priority

    def put(
        self,
        payload: IntoZBytes,
        *,
        encoding: Encoding | str | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> None:
        """Write a value."""
        self._check_open()
        raw = ZBytes.of(payload)
        chosen = self._publisher.encoding if encoding is None else Encoding.of(encoding)
        extra = None if attachment is None else ZBytes.of(attachment)
        with self._order:
            stamp, source = self._stamp(timestamp), self._source()
            self._publisher.put(
                raw,
                encoding=chosen,
                attachment=extra,
                timestamp=stamp,
                timestamp_instrumentation=timestamp_instrumentation,
                source_info=source,
            )
            if self._cache is not None:
                self._cache.add(
                    Put(
                        timestamp=None if stamp is None else stamp.to_wire(),
                        encoding=chosen.to_wire(),
                        source_info=None if source is None else source.to_wire(),
                        attachment=None if extra is None else extra.to_bytes(),
                        payload=raw.to_bytes(),
                    )
                )

    def delete(
        self,
        *,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> None:
        """Remove the key."""
        self._check_open()
        extra = None if attachment is None else ZBytes.of(attachment)
        with self._order:
            stamp, source = self._stamp(timestamp), self._source()
            self._publisher.delete(
                attachment=extra,
                timestamp=stamp,
                timestamp_instrumentation=timestamp_instrumentation,
                source_info=source,
            )
            if self._cache is not None:
                self._cache.add(
                    Del(
                        timestamp=None if stamp is None else stamp.to_wire(),
                        source_info=None if source is None else source.to_wire(),
                        attachment=None if extra is None else extra.to_bytes(),
                    )
                )

    def _stamp(self, timestamp: Timestamp | None) -> Timestamp | None:
        """The stamp it goes with: the cache must have the same."""
        if timestamp is not None:
            return require_type(Timestamp, timestamp)
        return Timestamp.from_wire(self._runtime.timestamps.now()) if self._runtime.timestamps.is_enabled else None

    def _source(self) -> SourceInfo | None:
        return None if self._counter is None else SourceInfo(self._publisher.id, self._counter.take())


def _undeclare_all(parts: Iterable[Any]) -> None:
    for part in parts:
        part.undeclare()


def declare_advanced_publisher(
    session: Session,
    key_expr: KeyExpr | str,
    *,
    encoding: Encoding | str | None = None,
    congestion_control: CongestionControl | None = None,
    priority: Priority | None = None,
    express: bool | None = None,
    reliability: Reliability | None = None,
    allowed_destination: Locality | None = None,
    cache: CacheConfig | None = None,
    sample_miss_detection: MissDetectionConfig | None = None,
    publisher_detection: bool | None = None,
) -> AdvancedPublisher:
    """A publisher with a cache, numbered samples, and a token, as asked for."""
    is_detected = to_bool(publisher_detection)
    misses = None if sample_miss_detection is None else require_type(MissDetectionConfig, sample_miss_detection)
    kept = None if cache is None else require_type(CacheConfig, cache)
    if kept is not None and not kept.max_samples:
        raise UsageError("expected a cache of at least one sample")
    if kept is not None and misses is None and not require_type(Session, session)._runtime.timestamps.is_enabled:
        raise UsageError("a cache needs timestamping/enabled in the configuration, or sample_miss_detection")
    publisher = require_type(Session, session).declare_publisher(
        key_expr,
        encoding=encoding,
        congestion_control=congestion_control,
        priority=priority,
        express=express,
        reliability=reliability,
        allowed_destination=allowed_destination,
    )
    return AdvancedPublisher(session, publisher, kept, misses, is_detected)


# --- subscriber -----------------------------------------------------------------------------------


class PublisherKey(msgspec.Struct, frozen=True):
    """A publisher, as the keys of its cache, token and heartbeats name it."""

    zid: ZenohId
    number: str

    @classmethod
    def parse(cls, key: str) -> PublisherKey | None:
        """Reads `<key>/@adv/pub/<zid>/<number>/<more>`; None for other keys."""
        chunks = key.rpartition("/@adv/pub/")[2].split("/")
        try:
            return cls(ZenohId(chunks[0]), chunks[1])
        except (ZError, IndexError):
            return None

    @property
    def source(self) -> SourceId | None:
        """By what its samples are told from those of others."""
        if self.number == TIMESTAMPED_PUBLISHER:
            return TimestampId.from_wire(self.zid.to_wire())
        number = parse_decimal(self.number, bits=32)
        return None if number is None else EntityGlobalId(self.zid, number)


class BlockingSink:
    """The user's handler. Waits where it is full: then whoever delivers here waits, and in the end the publisher."""

    def __init__(self, handler: object, loop: CallbackExecutor) -> None:
        self._room = threading.Event()
        self.attached: BoundHandler = bind_handler(handler, loop, lambda _: self._room.set())
        self._is_open = True

    def push(self, item: object) -> None:
        self._room.clear()
        if self._is_open and not self.attached.sink.push(item) and self._is_open:
            yield_leadership()
            self._room.wait()

    def close(self) -> None:
        self._is_open = False
        self._room.set()
        self.attached.sink.close()


class SampleRecovery:
    """What happens behind an advanced subscriber: what comes is brought into order, what is missing is asked for."""

    def __init__(
        self, session: Session, key_expr: KeyExpr, outlet: BlockingSink, history: HistoryConfig | None, recovers: bool
    ) -> None:
        self._session = weakref.ref(session)  # a session ends when its users hold it no more
        self._key_expr = key_expr
        self._outlet = outlet
        self._history = {} if history is None else history.parameters()
        depth = None if history is None else history.max_samples
        self._buffer = ReorderBuffer(recovers, history is not None, depth)
        self._lock = threading.RLock()
        self._parts: list[Any] = []
        self.listeners: dict[int, DeliverySink[Miss]] = {}
        """Who wants to know of misses."""

    def add(self, part: Entity | PeriodicTask) -> None:
        """Something that ends when this ends."""
        self._parts.append(part)

    def end(self) -> None:
        """Receive and ask no more."""
        _undeclare_all(self._parts)
        self.close()

    def close(self) -> None:
        """Nothing more will come."""
        self._outlet.close()
        for inlet in list(self.listeners.values()):
            inlet.close()

    # -- what comes

    def on_sample(self, sample: Sample) -> None:
        with self._lock:
            self._emit(self._buffer.receive(sample))
            source = sample.source_info
            gap = None if source is None else self._buffer.missing_range(source.source_id)
        if source is not None and gap is not None:
            self._query_publisher(source.source_id, gap)

    def on_token(self, sample: Sample) -> None:
        """A publisher appeared: it may have samples from before it was noticed."""
        publisher = PublisherKey.parse(str(sample.key_expr))
        who = None if publisher is None else publisher.source
        if sample.kind is SampleKind.PUT and who is not None:
            self._query_source(who, str(sample.key_expr), self._history)

    def on_heartbeat(self, sample: Sample) -> None:
        """A publisher says which number was its last."""
        publisher = PublisherKey.parse(str(sample.key_expr))
        who = None if publisher is None else publisher.source
        payload = sample.payload.to_bytes()
        if (
            not isinstance(who, EntityGlobalId)
            or sample.kind is not SampleKind.PUT
            or len(payload) != _SEQUENCE_NUMBER.size
        ):
            return
        with self._lock:
            numbers = self._buffer.range_up_to(who, _SEQUENCE_NUMBER.unpack(payload)[0])
        if numbers is not None:
            self._query_source(who, str(sample.key_expr), {"_sn": numbers})

    def _emit(self, outcomes: list[Delivery]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Miss):
                for inlet in list(self.listeners.values()):
                    inlet.push(outcome)
            else:
                self._outlet.push(outcome)

    # -- what is asked for

    def query_all_history(self) -> None:
        """For their past samples."""
        self._query(f"{self._key_expr}/@adv/**", self._history, self._buffer.history_finished)

    def query_missing(self) -> None:
        """Each publisher, for what it may have published since."""
        with self._lock:
            wanted = [(who, self._buffer.range_after_last(who)) for who in self._buffer.numbered]
        for who, numbers in wanted:
            self._query_publisher(who, numbers)

    def _query_publisher(self, who: EntityGlobalId, numbers: str) -> None:
        self._query_source(who, f"{self._key_expr}/@adv/*/{who.zid}/{who.eid}/**", {"_sn": numbers})

    def _query_source(self, who: SourceId, key: str, parameters: dict[str, str]) -> None:
        with self._lock:
            self._buffer.query_started(who)
        self._query(key, parameters, lambda: self._buffer.query_finished(who))

    def _query(self, key: str, parameters: dict[str, str], at_end: Callable[[], list[Delivery]]) -> None:
        def end() -> None:
            with self._lock:
                self._emit(at_end())

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
            timeout=QUERY_TIMEOUT_SECONDS,
        )

    def _on_reply(self, reply: Reply) -> None:
        sample = reply.ok
        if sample is not None and self._key_expr.intersects(sample.key_expr):
            with self._lock:
                self._emit(self._buffer.receive(sample))


class SampleMissListener(Receiver[H]):
    """Receives how many samples of which publisher are missing."""

    _NAME = "sample miss listener"

    def __init__(self, runtime: SessionRuntime, recovering: SampleRecovery, attached: BoundHandler) -> None:
        number, inlet = runtime.entities.next_id(), attached.sink

        def end() -> None:
            recovering.listeners.pop(number, None)
            inlet.close()

        super().__init__(runtime, number, end, attached)
        recovering.listeners[number] = inlet


class AdvancedSubscriber(Receiver[H], Generic[H]):
    """A subscriber that gets past samples, and notices and recovers missing ones."""

    _NAME = "advanced subscriber"

    def __init__(
        self,
        session: Session,
        key_expr: KeyExpr,
        outlet: BlockingSink,
        origin: Locality,
        history: HistoryConfig | None,
        recovery: RecoveryConfig | None,
        is_detected: bool,
    ) -> None:
        runtime = session._runtime
        recovering = self._recovering = SampleRecovery(session, key_expr, outlet, history, recovery is not None)
        super().__init__(runtime, runtime.entities.next_id(), recovering.end, outlet.attached)
        handler = Callback(recovering.on_sample, recovering.close)
        self._subscriber = session.declare_subscriber(key_expr, handler, allowed_origin=origin)
        self._session = weakref.ref(session)
        recovering.add(self._subscriber)
        if history is not None:
            recovering.query_all_history()
        if history is not None and history.detect_late_publishers:
            tokens = session.liveliness()
            recovering.add(tokens.declare_subscriber(self._publishers(), recovering.on_token, history=True))
        if recovery is not None and recovery.heartbeat:
            beats = session.declare_subscriber(self._publishers(), recovering.on_heartbeat, allowed_origin=origin)
            recovering.add(beats)
        if recovery is not None and recovery.periodic_queries:
            recovering.add(PeriodicTask(recovery.periodic_queries, recovering.query_missing))
        if is_detected:
            own = self._subscriber.id
            recovering.add(session.liveliness().declare_token(key_expr / f"@adv/sub/{own.zid}/{own.eid}/_"))

    def _publishers(self) -> KeyExpr:
        return self._subscriber.key_expr / "@adv/pub/**"

    @property
    def id(self) -> EntityGlobalId:
        """Its id in the whole network."""
        self._check()
        return self._subscriber.id

    @property
    def key_expr(self) -> KeyExpr:
        self._check()
        return self._subscriber.key_expr

    def sample_miss_listener(self, handler: object = None) -> SampleMissListener[Any]:
        """Be told of samples that are missing."""
        self._check_open()
        return SampleMissListener(self._runtime, self._recovering, self._runtime.bind_handler(handler))

    def detect_publishers(self, handler: object = None, *, history: bool | None = None) -> Subscriber[Any]:
        """Be told of advanced publishers that appear and disappear, if they want to be detected."""
        self._check_open()
        session = self._session()
        if session is None:
            raise UsageError("the session of this subscriber is gone")
        return session.liveliness().declare_subscriber(self._publishers(), handler, history=history)


def declare_advanced_subscriber(
    session: Session,
    key_expr: KeyExpr | str,
    handler: object = None,
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber[Any]:
    """A subscriber with history, recovery, and a token, as asked for."""
    past = None if history is None else require_type(HistoryConfig, history)
    if past is not None and (past.max_samples == 0 or past.max_age == 0):
        raise UsageError("expected a history of at least one sample, and of some age")
    runtime = require_type(Session, session)._runtime
    runtime.check_open()
    return AdvancedSubscriber(
        session,
        runtime.validate_key(key_expr),
        BlockingSink(handler, runtime.node.loop),
        require_type_or_default(Locality, allowed_origin, Locality.ANY),
        past,
        None if recovery is None else require_type(RecoveryConfig, recovery),
        to_bool(subscriber_detection),
    )
