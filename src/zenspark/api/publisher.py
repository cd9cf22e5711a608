"""Publisher: publishes on one key of a session. Compiled, because `put` takes most of the time of a publication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zenspark.api.entities import MatchingEntity
from zenspark.engine.matching_status import MatchingTracker
from zenspark.engine.publisher import PreencodedPublisher, PublishSettings
from zenspark.engine.runtime import SessionRuntime
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, Priority, Reliability
from zenspark.types.ids import SourceInfo
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import IntoZBytes

if TYPE_CHECKING:
    from zenspark.engine.batch_publisher import BatchOrTable


class Publisher(MatchingEntity):
    """Publishes on one key, with settings that were validated and encoded once. `Session.declare_publisher` makes it.

    Example:
        >>> with session.declare_publisher("demo/temperature") as publisher:
        ...     publisher.put("21.5")
    """

    _NAME = "publisher"

    def __init__(self, runtime: SessionRuntime, key_expr: KeyExpr, settings: PublishSettings) -> None:
        """Declare the publisher.

        Args:
            runtime: State of the session.
            key_expr: Key to publish on.
            settings: Encoding, QoS, reliability and destination of its samples.
        """
        super().__init__(
            runtime, key_expr, MatchingTracker(runtime, DeclarationKind.SUBSCRIBER, key_expr, settings.destination)
        )
        self._settings = settings
        self._preencoded_publisher = PreencodedPublisher(runtime, key_expr, settings, is_declared=True)

    @property
    def encoding(self) -> Encoding:
        """The encoding of payloads that are put without one."""
        self._check()
        return Encoding.from_wire(self._settings.encoding)

    @property
    def congestion_control(self) -> CongestionControl:
        """The treatment of the publisher's samples while a link has unsent bytes: DROP, BLOCK or BLOCK_FIRST."""
        self._check()
        return CongestionControl.from_wire(self._settings.qos.congestion)

    @property
    def priority(self) -> Priority:
        """The priority of its samples."""
        self._check()
        return Priority.from_wire(self._settings.qos.priority)

    @property
    def reliability(self) -> Reliability:
        """The lane on which the publisher's samples are sent: reliable or best effort."""
        self._check()
        return Reliability.RELIABLE if self._settings.reliable else Reliability.BEST_EFFORT

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
        """Publish a value.

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
            >>> publisher.put("21.5", encoding="text/plain")
        """
        if not self._is_live:
            self._check()
        self._preencoded_publisher.put(payload, encoding, attachment, timestamp, timestamp_instrumentation, source_info)

    def put_batch(self, batch: BatchOrTable) -> int:
        """Publish a value for each row of a record batch or table; not in eclipse-zenoh.

        It may have any columns of the sample schema; a row without a `key` is published on the key of the publisher.

        Args:
            batch: A `pyarrow.RecordBatch` or `pyarrow.Table`.

        Returns:
            The number of rows dropped because of congestion, once for each neighbour that did not receive the row.

        Raises:
            UsageError: The publisher was undeclared; or a column is unknown or of another type, or a row is not valid,
                and then no row is sent.
            SessionClosed: The session was closed.
            TypeError: An argument has a wrong type.

        Example:
            >>> publisher.put_batch(pa.record_batch({"payload": [b"1", b"2"]}))
            0
        """
        from zenspark.engine.batch_publisher import (
            BatchPublisher,  # here, as it loads pyarrow, which other programs do without
        )

        self._check_open()
        return BatchPublisher(self._runtime, self._settings, self._key_expr).put(batch)

    def delete(
        self,
        *,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish that the key was deleted: subscribers receive a sample of kind DELETE.

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
            >>> publisher.delete()
        """
        self._check_open()
        self._preencoded_publisher.delete(attachment, timestamp, timestamp_instrumentation, source_info)
