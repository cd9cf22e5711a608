"""Timestamp instrumentation: clock readings that nodes add to a message on its way, to measure latencies."""

from __future__ import annotations

from typing import Self

import msgspec

from zenspark.errors import DecodeError, UsageError
from zenspark.types.enums import InterceptionPoint, WhatAmI
from zenspark.types.ids import ZenohId
from zenspark.types.timestamps import Timestamp
from zenspark.types.wire_value import WireValue, rust_repr
from zenspark.wire import values as wire
from zenspark.wire.buffer import Reader

CUSTOM_RECORD_FLAG = 0x80
"""Marks a record of a timestamp stack whose bytes come from an application."""
_POINTS = {point.bit: point for point in InterceptionPoint}


class TimestampContext(msgspec.Struct, frozen=True):
    """The node at which a timestamp callback runs.

    Attributes:
        zid: Id of the node.
        whatami: Role of the node.

    Example:
        >>> session = zenspark.open(timestamp_callback=lambda context: bytes(context.zid))
    """

    zid: ZenohId
    whatami: WhatAmI


class TimestampInstrumentation(WireValue[int]):
    """Points at which nodes record clock readings of a message; `TimestampInstrumentationBuilder` makes it.

    Example:
        >>> points = zenspark.TimestampInstrumentationBuilder().set_send(True).build()
        >>> session.put("demo/a", "1", timestamp_instrumentation=points)
    """

    __slots__ = ()

    def is_instrumented(self, point: InterceptionPoint) -> bool:
        """Test whether clock readings are recorded at a point.

        Args:
            point: The point.

        Returns:
            True if they are.

        Raises:
            TypeError: It is no `InterceptionPoint`.

        Example:
            >>> points = zenspark.TimestampInstrumentationBuilder().set_send(True).build()
            >>> points.is_instrumented(zenspark.InterceptionPoint.ROUTE)
            False
        """
        if not isinstance(point, InterceptionPoint):
            raise TypeError(f"expected an InterceptionPoint, found {type(point).__name__!r}")
        return bool(self._wire & point.bit)

    def __repr__(self) -> str:
        return rust_repr(self, conf_flags=self._wire)


class TimestampInstrumentationBuilder:
    """Makes a `TimestampInstrumentation`. Each setter returns a new builder, so that one can be reused.

    Example:
        >>> points = zenspark.TimestampInstrumentationBuilder().set_send(True).set_receive(True).build()
        >>> session.put("demo/a", "1", timestamp_instrumentation=points)
    """

    __slots__ = ("_flags",)

    def __init__(self) -> None:
        self._flags = 0

    def set_send(self, enabled: bool) -> Self:
        """Record clock readings, or not, where a message is sent.

        Args:
            enabled: Whether to record them.

        Returns:
            A builder with that choice.

        Raises:
            TypeError: It is no bool.

        Example:
            >>> points = zenspark.TimestampInstrumentationBuilder().set_send(True).build()
        """
        return self._with(InterceptionPoint.SEND, enabled)

    def set_route(self, enabled: bool) -> Self:
        """Record clock readings, or not, where a message is routed.

        Args:
            enabled: Whether to record them.

        Returns:
            A builder with that choice.

        Raises:
            TypeError: It is no bool.

        Example:
            >>> points = zenspark.TimestampInstrumentationBuilder().set_route(True).build()
        """
        return self._with(InterceptionPoint.ROUTE, enabled)

    def set_receive(self, enabled: bool) -> Self:
        """Record clock readings, or not, where a message is received.

        Args:
            enabled: Whether to record them.

        Returns:
            A builder with that choice.

        Raises:
            TypeError: It is no bool.

        Example:
            >>> points = zenspark.TimestampInstrumentationBuilder().set_receive(True).build()
        """
        return self._with(InterceptionPoint.RECEIVE, enabled)

    def _with(self, point: InterceptionPoint, enabled: bool) -> Self:
        if not isinstance(enabled, bool):
            raise TypeError(f"expected a bool, found {type(enabled).__name__!r}")
        builder = type(self)()
        builder._flags = self._flags | point.bit if enabled else self._flags & ~point.bit
        return builder

    def build(self) -> TimestampInstrumentation:
        """Make the instrumentation.

        Returns:
            The points that were chosen.

        Raises:
            UsageError: No point was chosen.

        Example:
            >>> zenspark.TimestampInstrumentationBuilder().set_send(True).build()
            TimestampInstrumentation { conf_flags: 1 }
        """
        if not self._flags:
            raise UsageError("timestamp instrumentation needs at least one point: send, route or receive")
        return TimestampInstrumentation.from_wire(self._flags)


class TimestampStackRecord(WireValue[wire.TimestampRecord]):
    """One clock reading: the point, and the timestamp or the bytes that a callback made.

    Example:
        >>> for record in sample.timestamp_stack.records:
        ...     print(record.point, record.timestamp())
    """

    __slots__ = ()

    @property
    def point(self) -> InterceptionPoint:
        """The point at which it was recorded."""
        flag = self._wire.flags & ~CUSTOM_RECORD_FLAG
        if flag not in _POINTS:
            raise DecodeError(
                "a point of 1, 2 or 4", 0, str(flag)
            )  # set by another node, and not validated by the decoder
        return _POINTS[flag]

    @property
    def is_custom(self) -> bool:
        """Whether a callback made it; `timestamp` then returns its bytes."""
        return bool(self._wire.flags & CUSTOM_RECORD_FLAG)

    def timestamp(self) -> Timestamp | bytes:
        """Return the clock reading.

        Returns:
            A timestamp, or the bytes that a callback of the node made.

        Raises:
            ZError: The node recorded bytes that are no timestamp.

        Example:
            >>> readings = [record.timestamp() for record in sample.timestamp_stack.records]
        """
        if self.is_custom:
            return self._wire.ts
        return Timestamp.from_wire(wire.Timestamp.read(Reader(self._wire.ts)))

    def __repr__(self) -> str:
        reading = self.timestamp()
        formatted = f"Custom({list(reading)})" if isinstance(reading, bytes) else f"UHLC({reading})"
        return rust_repr(self, point=self.point, timestamp=formatted)


class TimestampStack(WireValue[wire.TimestampStack]):
    """The clock readings of one message, in the order they were recorded.

    Example:
        >>> for record in sample.timestamp_stack.records:
        ...     print(record.point, record.timestamp())
    """

    __slots__ = ()

    @property
    def instrumentation(self) -> TimestampInstrumentation:
        """The points that its sender chose."""
        return TimestampInstrumentation.from_wire(self._wire.conf_flags)

    @property
    def records(self) -> list[TimestampStackRecord]:
        """The clock readings."""
        return [TimestampStackRecord.from_wire(record) for record in self._wire.stack]

    def __repr__(self) -> str:
        return rust_repr(self, instrumentation=self.instrumentation, records=self.records)
