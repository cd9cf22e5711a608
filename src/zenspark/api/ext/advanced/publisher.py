"""AdvancedPublisher: a publisher with a cache that can be queried, sequence numbers, heartbeats and a token."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from zenspark.api.entities import Entity
from zenspark.api.ext.advanced.config import CacheConfig, MissDetectionConfig
from zenspark.api.ext.advanced.heartbeat import Heartbeat, PeriodicTask, SequenceCounter
from zenspark.api.ext.advanced.publisher_key import TIMESTAMPED_PUBLISHER
from zenspark.api.ext.publisher_cache import PublisherCache
from zenspark.api.publisher import Publisher
from zenspark.api.session import Session, runtime_of
from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.types.arguments import require_type, to_bool
from zenspark.types.encoding import Encoding
from zenspark.types.enums import (
    CongestionControl,
    Locality,
    Priority,
    Reliability,
)
from zenspark.types.ids import EntityGlobalId, SourceInfo
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import IntoZBytes, ZBytes
from zenspark.wire.messages import Del, Put


class AdvancedPublisher(Entity):
    """A publisher with a cache, sequence numbers, heartbeats and a token. `declare_advanced_publisher` makes it.

    Subscribers query its cache for past samples, and detect and recover missing ones.

    Example:
        >>> numbered = MissDetectionConfig()
        >>> with declare_advanced_publisher(session, "demo/a", sample_miss_detection=numbered) as publisher:
        ...     publisher.put("1")
    """

    _NAME = "advanced publisher"

    def __init__(
        self,
        session: Session,
        publisher: Publisher,
        cache: CacheConfig | None,
        misses: MissDetectionConfig | None,
        is_detectable: bool,
    ) -> None:
        """Declare the parts around a publisher.

        Args:
            session: The session.
            publisher: Publishes the samples.
            cache: Size of the cache; None for no cache.
            misses: Heartbeats; None for no sequence numbers.
            is_detectable: Whether subscribers can detect it, by a token.
        """
        runtime = runtime_of(session)
        self._publisher = publisher
        self._counter = None if misses is None else SequenceCounter()
        self._cache = None if cache is None else PublisherCache(publisher.key_expr, cache.max_samples)
        self._publish_lock = threading.Lock()
        """Keeps the cache in the order of the sequence numbers."""
        name = TIMESTAMPED_PUBLISHER if self._counter is None else str(publisher.id.eid)
        key = publisher.key_expr / f"@adv/pub/{publisher.id.zid}/{name}/_"
        parts: list[Any] = [publisher]
        super().__init__(runtime, runtime.entities.next_id(), lambda: _undeclare_all(parts))
        if self._cache is not None:
            parts.append(session.declare_queryable(key, self._cache.reply_to))
        if is_detectable:
            parts.append(session.liveliness().declare_token(key))
        if misses is not None:
            parts += self._start_heartbeats(session, key, misses)

    def _start_heartbeats(
        self, session: Session, key: KeyExpr, misses: MissDetectionConfig
    ) -> list[Publisher | PeriodicTask]:
        period = misses.heartbeat if misses.sporadic_heartbeat is None else misses.sporadic_heartbeat
        if not period or self._counter is None:
            return []
        only_changes = misses.sporadic_heartbeat is not None
        congestion = CongestionControl.BLOCK if only_changes else CongestionControl.DROP
        publisher = session.declare_publisher(key, congestion_control=congestion)
        return [PeriodicTask(period, Heartbeat(publisher, self._counter, only_changes).publish_last_sn), publisher]

    @property
    def id(self) -> EntityGlobalId:
        """The id of the publisher, unique in the network. Raises `UsageError` after it was undeclared."""
        self._check()
        return self._publisher.id

    @property
    def key_expr(self) -> KeyExpr:
        """The key it publishes on."""
        self._check()
        return self._publisher.key_expr

    @property
    def encoding(self) -> Encoding:
        """The encoding of payloads that are put without one."""
        self._check()
        return self._publisher.encoding

    @property
    def congestion_control(self) -> CongestionControl:
        """The treatment of the publisher's samples while a link has unsent bytes: DROP, BLOCK or BLOCK_FIRST."""
        self._check()
        return self._publisher.congestion_control

    @property
    def priority(self) -> Priority:
        """The priority of its samples."""
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
        """Publish a value, and cache it.

        Args:
            payload: The value: bytes, a string (sent as UTF-8), or `ZBytes`.
            encoding: Encoding of this payload; that of the publisher by default.
            attachment: Bytes or text sent along with the value; none by default.
            timestamp: Time of the sample; by default none, or the time now where `timestamping/enabled` is set.
            timestamp_instrumentation: Points on the way at which nodes record the time; none by default.

        Raises:
            UsageError: The publisher was undeclared.
            SessionClosed: The session was closed.
            TypeError: An argument has a wrong type.

        Example:
            >>> publisher.put("21.5", encoding="text/plain")
        """
        self._check_open()
        raw = ZBytes.of(payload)
        chosen = self._publisher.encoding if encoding is None else Encoding.of(encoding)
        extra = None if attachment is None else ZBytes.of(attachment)
        with self._publish_lock:
            sent_timestamp, source = self._sample_timestamp(timestamp), self._source()
            self._publisher.put(
                raw,
                encoding=chosen,
                attachment=extra,
                timestamp=sent_timestamp,
                timestamp_instrumentation=timestamp_instrumentation,
                source_info=source,
            )
            if self._cache is not None:
                self._cache.add(
                    Put(
                        timestamp=None if sent_timestamp is None else sent_timestamp.to_wire(),
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
        """Publish that the key was deleted, and cache that: subscribers receive a sample of kind DELETE.

        Args:
            attachment: Bytes or text sent along with the value; none by default.
            timestamp: Time of the sample; by default none, or the time now where `timestamping/enabled` is set.
            timestamp_instrumentation: Points on the way at which nodes record the time; none by default.

        Raises:
            UsageError: The publisher was undeclared.
            SessionClosed: The session was closed.
            TypeError: An argument has a wrong type.

        Example:
            >>> publisher.delete()
        """
        self._check_open()
        extra = None if attachment is None else ZBytes.of(attachment)
        with self._publish_lock:
            sent_timestamp, source = self._sample_timestamp(timestamp), self._source()
            self._publisher.delete(
                attachment=extra,
                timestamp=sent_timestamp,
                timestamp_instrumentation=timestamp_instrumentation,
                source_info=source,
            )
            if self._cache is not None:
                self._cache.add(
                    Del(
                        timestamp=None if sent_timestamp is None else sent_timestamp.to_wire(),
                        source_info=None if source is None else source.to_wire(),
                        attachment=None if extra is None else extra.to_bytes(),
                    )
                )

    def _sample_timestamp(self, timestamp: Timestamp | None) -> Timestamp | None:
        """Return the timestamp of a sample, which the cache must have too."""
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
    """Declare a publisher with a cache, sequence numbers and a token, as configured.

    Args:
        session: The session that publishes.
        key_expr: Key to publish on.
        encoding: Encoding of the payload, such as `Encoding.TEXT_PLAIN` or "application/json"; `zenoh/bytes` by
            default.
        congestion_control: Treatment while a link has unsent bytes: DROP (the default) waits up to 1 ms, then drops the
            message; BLOCK waits until they are taken, and the session with a neighbour that takes none for 5 s is
            closed; BLOCK_FIRST is BLOCK for one message, and drops the others meanwhile.
            `transport/link/tx/queue/congestion_control` sets both times.
        priority: Priority of the message on links with QoS; DATA by default.
        express: Whether the message is sent at once, without waiting for others to fill a batch; False by default.
        reliability: Lane on which samples are sent: RELIABLE (the default) or BEST_EFFORT; neither retransmits.
        allowed_destination: Whether subscribers of this session, of other sessions, or both receive it; ANY by default.
        cache: How many samples are cached for subscribers that query them; no cache by default.
        sample_miss_detection: Sequence numbers and heartbeats, by which subscribers detect missing samples; none by
            default.
        publisher_detection: Whether subscribers can detect the publisher, by a liveliness token; False by default.

    Returns:
        The publisher; it ends when it is undeclared, at the end of its `with` block, or when it is garbage-collected.

    Raises:
        SessionClosed: The session was closed.
        UsageError: The key expression is not valid, the cache is empty, or samples would have neither timestamps nor
            sequence numbers.
        TypeError: An argument has a wrong type.

    Example:
        >>> publisher = declare_advanced_publisher(
        ...     session, "demo/a", cache=CacheConfig(10), sample_miss_detection=MissDetectionConfig(heartbeat=0.5)
        ... )
        >>> publisher.put("1")
    """
    is_detectable = to_bool(publisher_detection)
    misses = None if sample_miss_detection is None else require_type(MissDetectionConfig, sample_miss_detection)
    cache_config = None if cache is None else require_type(CacheConfig, cache)
    if cache_config is not None and not cache_config.max_samples:
        raise UsageError("expected a cache of at least one sample")
    is_unnumbered = cache_config is not None and misses is None
    if is_unnumbered and not runtime_of(require_type(Session, session)).timestamps.is_enabled:
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
    return AdvancedPublisher(session, publisher, cache_config, misses, is_detectable)
