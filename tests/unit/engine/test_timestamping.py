"""Timestamps of a session's messages, and records of timestamp stacks."""

from __future__ import annotations

import pytest

from tests.optional import some
from tests.unit.api.sessions import pair
from tests.wait import TIMEOUT_SECONDS
from zenspark.api.session import Session
from zenspark.config.settings import TimestampingSettings
from zenspark.engine.timestamping import Timestamper
from zenspark.types.enums import InterceptionPoint
from zenspark.types.timestamp_stack import CUSTOM_RECORD_FLAG, TimestampContext, TimestampInstrumentationBuilder
from zenspark.wire import messages
from zenspark.wire import values as wire

SEND_AND_RECEIVE = TimestampInstrumentationBuilder().set_send(True).set_receive(True).build()


def test_received_stack_has_records_of_the_enabled_points() -> None:
    with pair("router", "client") as (router, client):
        subscriber = router.declare_subscriber("a")
        client.put("a", b"", timestamp_instrumentation=SEND_AND_RECEIVE)
        stack = subscriber.recv(TIMEOUT_SECONDS).timestamp_stack
        assert [record.point for record in some(stack).records] == [InterceptionPoint.SEND, InterceptionPoint.RECEIVE]
        assert str(client.zid()) in str(some(stack).records[0].timestamp())
        assert str(router.zid()) in str(some(stack).records[1].timestamp())


def points(stack: wire.TimestampStack | None) -> list[int]:
    assert stack is not None
    return [record.flags for record in stack.stack]


def test_timestamps_ascend_and_name_the_node(peer: Session) -> None:
    timestamps = peer._runtime.timestamps
    first, reserved, last = timestamps.now(), timestamps.reserve(3), timestamps.now()
    assert first.ntp64 < reserved[0] < reserved[1] < reserved[2] < last.ntp64
    assert first.id == last.id == peer._runtime.node.identity.zid


def test_a_stack_starts_with_the_send_record(peer: Session) -> None:
    timestamps = peer._runtime.timestamps
    assert timestamps.start_stack(None) is None
    assert points(timestamps.start_stack(SEND_AND_RECEIVE)) == [InterceptionPoint.SEND.bit]
    with pytest.raises(TypeError, match="expected TimestampInstrumentation"):
        timestamps.start_stack(3)  # type: ignore[arg-type]


def test_only_enabled_points_get_a_record(peer: Session) -> None:
    timestamps = peer._runtime.timestamps
    stack = timestamps.start_stack(SEND_AND_RECEIVE)
    recorded = timestamps.record(stack, InterceptionPoint.ROUTE, InterceptionPoint.RECEIVE)
    assert points(recorded) == [InterceptionPoint.SEND.bit, InterceptionPoint.RECEIVE.bit]
    assert timestamps.record(None, InterceptionPoint.RECEIVE) is None


def test_received_messages_without_a_stack_stay_the_same(peer: Session) -> None:
    timestamps = peer._runtime.timestamps
    push = messages.Push(wire_expr=wire.WireExpr(0, "a"), body=messages.Put(payload=b""))
    assert timestamps.record_receive(push) is push
    stacked = messages.Push(wire_expr=push.wire_expr, ts_stack=timestamps.start_stack(SEND_AND_RECEIVE), body=push.body)
    assert points(timestamps.record_receive(stacked).ts_stack) == [1, 4]


def test_an_application_may_make_the_records(peer: Session) -> None:
    contexts: list[TimestampContext] = []

    def callback(context: TimestampContext) -> bytes:
        contexts.append(context)
        return b"own"

    timestamps = Timestamper(peer._runtime.node, TimestampingSettings(), callback)
    stack = timestamps.start_stack(SEND_AND_RECEIVE)
    assert stack is not None
    (record,) = stack.stack
    assert (record.flags, record.ts) == (InterceptionPoint.SEND.bit | CUSTOM_RECORD_FLAG, b"own")
    assert [context.zid for context in contexts] == [peer.zid()]
