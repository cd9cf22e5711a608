import pickle

import pytest

from zenspark.errors import DecodeError, UsageError
from zenspark.types.enums import InterceptionPoint, WhatAmI
from zenspark.types.ids import ZenohId
from zenspark.types.timestamp_stack import (
    TimestampContext,
    TimestampInstrumentation,
    TimestampInstrumentationBuilder,
    TimestampStack,
    TimestampStackRecord,
)
from zenspark.types.timestamps import Timestamp
from zenspark.wire import values as wire

# The content of the extension that eclipse-zenoh 1.10.2 sent with `set_send(True).set_route(True).set_receive(True)`.
CAPTURED = wire.TimestampStack(
    7,
    (
        wire.TimestampRecord(1, bytes.fromhex("d0f491f9eaf489fd6a10 46d1529a77470bbd86e5e2885462f552")),
        wire.TimestampRecord(2, bytes.fromhex("80ea96f9eaf489fd6a10 46d1529a77470bbd86e5e2885462f552")),
    ),
)


def test_a_builder_chooses_points() -> None:
    send = TimestampInstrumentationBuilder().set_send(True)
    both = send.set_receive(True)
    assert both.build() != send.build() == TimestampInstrumentation.from_wire(1)
    assert both.build().is_instrumented(InterceptionPoint.RECEIVE)
    assert not both.build().is_instrumented(InterceptionPoint.ROUTE)
    assert both.set_send(False).set_route(True).build().to_wire() == 6
    assert repr(both.build()) == "TimestampInstrumentation { conf_flags: 5 }"


def test_a_builder_needs_a_point() -> None:
    with pytest.raises(UsageError, match="at least one point"):
        TimestampInstrumentationBuilder().build()
    with pytest.raises(TypeError, match="expected a bool, found 'int'"):
        TimestampInstrumentationBuilder().set_send(1)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="expected an InterceptionPoint, found 'int'"):
        TimestampInstrumentation.from_wire(1).is_instrumented(1)  # type: ignore[arg-type]  # that is the point


def test_timestamp_stack_has_a_record_per_point() -> None:
    stack = TimestampStack.from_wire(CAPTURED)
    assert stack.instrumentation.to_wire() == 7
    send, route = stack.records
    assert (send.point, route.point) == (InterceptionPoint.SEND, InterceptionPoint.ROUTE)
    assert str(send.timestamp()) == "7708517309054483024/52f5625488e2e586bd0b47779a52d146"
    assert isinstance(route.timestamp(), Timestamp)
    assert not send.is_custom
    assert "point: Send, timestamp: UHLC(7708517309054483024/" in str(stack)
    assert pickle.loads(pickle.dumps(stack)) == stack


def test_an_application_can_stamp_with_bytes() -> None:
    record = TimestampStackRecord.from_wire(wire.TimestampRecord(0x84, b"abc"))
    assert record.is_custom
    assert (record.point, record.timestamp()) == (InterceptionPoint.RECEIVE, b"abc")
    assert str(record) == "TimestampStackRecord { point: Receive, timestamp: Custom([97, 98, 99]) }"


def test_malformed_records_raise_decode_error() -> None:
    with pytest.raises(DecodeError, match="a point of 1, 2 or 4"):
        _ = TimestampStackRecord.from_wire(wire.TimestampRecord(3, b"")).point
    with pytest.raises(DecodeError):
        TimestampStackRecord.from_wire(wire.TimestampRecord(1, b"")).timestamp()


def test_timestamp_context_has_zid_and_role() -> None:
    context = TimestampContext(ZenohId("abc"), WhatAmI.PEER)
    assert repr(context) == "TimestampContext(zid=abc, whatami=Peer)"
    assert pickle.loads(pickle.dumps(context)) == context
