"""Timestamping: the timestamps of a session's messages, and the records it adds to timestamp stacks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from zenspark.config.settings import TimestampingSettings
from zenspark.net.node.node import Node
from zenspark.types.arguments import require_type
from zenspark.types.enums import InterceptionPoint, WhatAmI
from zenspark.types.ids import ZenohId
from zenspark.types.timestamp_stack import CUSTOM_RECORD_FLAG, TimestampContext, TimestampInstrumentation
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.buffer import Writer
from zenspark.wire.message_schema import replace

M = TypeVar("M", messages.Push, messages.Request, messages.Response)

TimestampCallback: TypeAlias = Callable[[TimestampContext], bytes]
"""Returns the bytes an application puts into timestamp stacks instead of a timestamp."""


class Timestamper:
    """Reads the node's clock for one session."""

    def __init__(self, node: Node, settings: TimestampingSettings, callback: TimestampCallback | None = None) -> None:
        self._identity = node.identity
        self._lock = node.lock
        self._clock = node.clock
        self._callback = callback
        self.is_enabled = settings.enabled
        """Whether publications of this session get a timestamp if they have none."""
        self.has_push_extension = settings.extension
        """Whether PUSH repeats the timestamp of its PUT or DEL in an extension."""

    def now(self) -> wire.Timestamp:
        """Return a new timestamp of this node."""
        with self._lock:
            return wire.Timestamp(self._clock.new_timestamp(time.time_ns()), self._identity.zid)

    def reserve(self, count: int) -> range:
        """Return the NTP64 times of `count` new timestamps of this node, in ascending order."""
        with self._lock:
            return self._clock.new_timestamps(count, time.time_ns())

    def start_stack(self, instrumentation: TimestampInstrumentation | None) -> wire.TimestampStack | None:
        """Return the timestamp stack of a message sent here, with its SEND record; None without instrumentation."""
        if instrumentation is None:
            return None
        flags = require_type(TimestampInstrumentation, instrumentation).to_wire()
        return self.record(wire.TimestampStack(flags, ()), InterceptionPoint.SEND)

    def record(self, stack: wire.TimestampStack | None, *points: InterceptionPoint) -> wire.TimestampStack | None:
        """Return a stack with one more record for each of these points that its sender enabled."""
        if stack is None:
            return None
        records = [self._make_record(point) for point in points if stack.conf_flags & point.bit]
        return wire.TimestampStack(stack.conf_flags, (*stack.stack, *records))

    def record_receive(self, message: M) -> M:
        """Return a received message with a RECEIVE record, if it has a timestamp stack."""
        if message.ts_stack is None:
            return message
        return replace(message, ts_stack=self.record(message.ts_stack, InterceptionPoint.RECEIVE))

    def _make_record(self, point: InterceptionPoint) -> wire.TimestampRecord:
        if self._callback is not None:
            identity = self._identity
            context = TimestampContext(ZenohId.from_wire(identity.zid), WhatAmI.from_wire(identity.whatami))
            return wire.TimestampRecord(point.bit | CUSTOM_RECORD_FLAG, bytes(self._callback(context)))
        out = Writer()
        self.now().write(out)
        return wire.TimestampRecord(point.bit, bytes(out.data))
