"""Forwarded rows are the messages that were received, behind another header."""

from __future__ import annotations

import pytest

from tests.unit.wire.columns.samples import (
    ALIAS,
    CLOCK,
    HEAD,
    KEY,
    ROUTER,
    batch,
    decoded,
    forwarded_messages,
    frame,
    pushes,
    put,
    relay,
    stamped,
)
from zenspark.errors import UsageError
from zenspark.wire.codec import encode
from zenspark.wire.columns import (
    NO_LANE,
    RowForwarder,
)
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Del, Push
from zenspark.wire.values import (
    Encoding,
    QoS,
    SourceInfo,
    Timestamp,
    WireExpr,
    ZenohId,
)


@pytest.mark.parametrize(
    "push",
    [
        put(),
        put(b""),
        put(b"x" * 300, encoding=Encoding(4, "a")),
        stamped(0),
        stamped((1 << 64) - 1, CLOCK),
        put(source_info=SourceInfo(ROUTER, 1, 2), attachment=b"a" * 200, timestamp=Timestamp(1 << 62, CLOCK)),
        Push(wire_expr=KEY, body=Del()),
        Push(wire_expr=KEY, qos=QoS.REQUEST, node_id=3, body=Del(timestamp=Timestamp(5, CLOCK), attachment=b"a")),
    ],
)
def test_row_is_forwarded_with_another_header(push: Push) -> None:
    columns, *_ = decoded(batch(frame(put(b"before"), push, push)))
    expected = replace(push, wire_expr=ALIAS, node_id=0, qos=QoS.DECLARE)
    assert forwarded_messages(columns)[1:] == [expected, expected]
    out = bytearray(b"#" * 1000)
    rows = relay(columns, 1)
    assert rows.size == len(encode(expected))
    assert rows.measure(1000) == 2 * rows.size
    rows.write(out, 3)
    assert out == b"###" + 2 * encode(expected) + b"#" * (997 - 2 * len(encode(expected)))


def test_assigned_timestamps_are_added_to_forwarded_rows() -> None:
    messages = (put(b"a"), stamped(7), put(b"b"), Push(wire_expr=KEY, body=Del()), put(b"c", WireExpr(0, "other")))
    columns, *_ = decoded(batch(frame(*messages)))
    wanted = bytes(columns.template_at(index).wire_expr == KEY for index in range(columns.template_count))
    assert columns.timestamp_summary(0, 5, wanted) == (7, 2)
    assert columns.timestamp_summary(2, 5, wanted) == (0, 1)
    columns.assign_timestamps(0, 5, wanted, 1 << 63)
    stamps = [push.body.timestamp for push in forwarded_messages(columns) if isinstance(push, Push)]
    own = ZenohId(0x0605)
    assert stamps == [Timestamp(1 << 63, own), Timestamp(7, ROUTER), Timestamp((1 << 63) + 1, own), None, None]
    assert pushes(columns) == list(messages)


def test_rows_of_one_lane_are_written_together_up_to_the_given_size() -> None:
    keys = ["a", "a", "skipped", "a", "b", "a"]
    columns, *_ = decoded(batch(frame(*(put(key.encode(), WireExpr(0, key)) for key in keys))))
    lanes = bytes({"a": 13, "b": 5, "skipped": NO_LANE}[columns.template_at(at).wire_expr.suffix] for at in range(3))
    rows = RowForwarder(columns, 0, 6, lanes, [HEAD] * 3, b"\1")
    size = rows.size
    found = []
    for room, count in ((2 * size, 2), (1000, 1), (0, 1), (1000, 1)):
        lane = rows.lane
        assert rows.measure(room) == count * size
        out = bytearray(count * size)
        rows.write(out, 0)
        found.append((lane, out.count(HEAD)))
    assert found == [(13, 2), (13, 1), (5, 1), (13, 1)]
    assert (rows.lane, rows.size) == (-1, 0)
    with pytest.raises(IndexError):
        rows.message()


def test_rows_without_a_lane_are_passed_over() -> None:
    columns, *_ = decoded(batch(frame(put(key=WireExpr(1)), put(), put(key=WireExpr(1)))))
    rows = RowForwarder(columns, 0, 3, bytes([NO_LANE, 13]), [HEAD, HEAD], b"\1")
    assert rows.lane == 13
    assert rows.message().startswith(HEAD)
    assert (rows.lane, rows.size) == (-1, 0)


def test_invalid_arguments_of_a_forwarder_are_rejected() -> None:
    columns, *_ = decoded(batch(frame(put(), put())))
    for start, stop in ((-1, 1), (2, 1), (0, 3)):
        with pytest.raises(IndexError):
            RowForwarder(columns, start, stop, b"\5", [HEAD], b"\1")
    with pytest.raises(UsageError, match="2 marks, expected one for each of 1 templates"):
        RowForwarder(columns, 0, 2, b"\5\5", [HEAD, HEAD], b"\1")
    with pytest.raises(UsageError, match="2 heads for 1 templates"):
        RowForwarder(columns, 0, 2, b"\5", [HEAD, HEAD], b"\1")
    with pytest.raises(IndexError):
        columns.node_id(1)
    rows = relay(columns)
    size = rows.measure(1000)
    for out, at in ((bytearray(size - 1), 0), (bytearray(size), 1), (bytearray(size), -1)):
        with pytest.raises(UsageError, match="too few for the measured rows"):
            rows.write(out, at)
    columns.clear()
    with pytest.raises(UsageError, match="cleared"):
        rows.measure(1000)
    with pytest.raises(UsageError, match="cleared"):
        rows.write(bytearray(1000), 0)
