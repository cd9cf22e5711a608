"""Columns hold what the object codec would have read."""

from __future__ import annotations

import pytest

from tests.unit.wire.columns.samples import (
    CLOCK,
    DEL,
    FULL_PUT,
    KEY,
    ROUTER,
    batch,
    decoded,
    frame,
    pushes,
    put,
    stamped,
)
from zenspark.errors import UsageError
from zenspark.wire.columns import (
    BatchDecoder,
    PushColumns,
    PushTemplate,
    RowKind,
    StopReason,
)
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Del, Push
from zenspark.wire.values import (
    Congestion,
    Encoding,
    EntityId,
    Mapping,
    Priority,
    QoS,
    SourceInfo,
    WireExpr,
)


@pytest.mark.parametrize(
    "push",
    [
        put(),
        put(b""),
        put(b"x" * 127),
        put(b"x" * 128),
        put(key=WireExpr(65_535)),
        put(key=WireExpr(1, "/r1", Mapping.RECEIVER)),
        put(key=WireExpr(0, "k" * 300)),
        put(key=WireExpr(0, "a/é/€/\U0001f600")),
        replace(put(), qos=QoS(Priority.REAL_TIME, Congestion.BLOCK_FIRST, express=True)),
        replace(put(), node_id=9, qos=QoS(congestion=Congestion.BLOCK)),
        put(encoding=Encoding(4)),
        put(encoding=Encoding(0, "")),
        put(encoding=Encoding(5, "s" * 255)),
        put(attachment=b""),
        put(attachment=b"att"),
        put(source_info=SourceInfo(CLOCK, 0, 1)),
        *(stamped(ntp64) for ntp64 in (0, 1, 127, 128, (1 << 56) - 1, 1 << 56, 1 << 63, (1 << 64) - 1)),
        replace(FULL_PUT, qos=QoS.REQUEST, node_id=3),
        Push(wire_expr=KEY, body=Del()),
        DEL,
    ],
)
def test_a_row_is_the_message_that_was_sent(push: Push) -> None:
    columns, decoder, reason = decoded(batch(frame(push, push)))
    assert reason is StopReason.END
    assert pushes(columns) == [push, push]
    assert columns.template_count == 1
    assert decoder.pos == decoder.batch_end == len(decoder.data)


def test_template_has_the_fields_that_its_rows_share() -> None:
    message = replace(FULL_PUT, qos=QoS.REQUEST, node_id=3)
    columns, _, _ = decoded(batch(frame(message, put(), reliable=False, priority=Priority.BACKGROUND)))
    assert list(columns.template_index) == [0, 1]
    assert columns.template_at(0) == PushTemplate(
        kind=RowKind.PUT,
        wire_expr=message.wire_expr,
        qos=QoS.REQUEST,
        node_id=3,
        reliable=False,
        priority=Priority.BACKGROUND,
        timestamp_id=CLOCK,
        encoding=Encoding(0xFFFF, "größe"),
        source=EntityId(ROUTER, 70_000),
        has_attachment=True,
    )
    assert columns.template_at(1).source is None
    assert columns.template_at(1).timestamp_id is None


def test_frames_are_ranges_of_rows() -> None:
    data = batch(
        frame(put(), put(), sn=(1 << 32) - 1),
        frame(sn=1, priority=Priority.CONTROL),
        frame(put(), sn=2, reliable=False, priority=Priority.REAL_TIME),
    )
    columns, decoder, _ = decoded(data)
    assert list(columns.frame_sn) == [(1 << 32) - 1, 1, 2]
    assert list(columns.frame_row) == [0, 2, 2]
    assert list(columns.frame_lane) == [5 | 8, 0 | 8, 1]
    assert (decoder.sn, decoder.reliable, decoder.priority) == (2, False, Priority.REAL_TIME)


def test_columns_belong_to_one_buffer_at_a_time() -> None:
    columns, _, _ = decoded(batch(frame(put())))
    other = BatchDecoder(batch(frame(put(), put())))
    with pytest.raises(UsageError, match="another buffer"):
        other.decode(columns)
    columns.clear()
    assert other.decode(columns) is StopReason.END
    assert columns.data is other.data
    assert len(columns) == 2


def test_buffer_of_decoded_columns_cannot_be_resized() -> None:
    data = bytearray(batch(frame(put(source_info=SourceInfo(ROUTER, 1, 5)))))
    columns = PushColumns(1)
    BatchDecoder(data).decode(columns)
    with pytest.raises(BufferError):
        data.clear()
    assert list(columns.source_sns()) == [5]
    with pytest.raises(TypeError, match="read-only"):
        columns.payload_start[0] = 0
    columns.clear()
    data.clear()


def test_row_or_template_index_out_of_range_raises_index_error() -> None:
    columns, _, _ = decoded(batch(frame(put())))
    for number in (-1, 1):
        with pytest.raises(IndexError):
            columns.push(number)
        with pytest.raises(IndexError):
            columns.template_at(number)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, -1, 1), (1, 1, -1)])
def test_columns_without_capacity_are_a_usage_error(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        PushColumns(*sizes)


def test_a_schema_that_is_not_text_is_kept() -> None:
    sent = put(encoding=Encoding(4, "\udcffA"))
    columns, _, reason = decoded(batch(frame(sent)))
    assert reason is StopReason.END
    assert pushes(columns) == [sent]


@pytest.mark.parametrize("push", [put(), put(encoding=Encoding(4)), stamped(7), FULL_PUT, DEL])
def test_a_template_is_recognised_in_another_buffer(push: Push) -> None:
    first, _, _ = decoded(batch(frame(push)))
    later, _, _ = decoded(batch(frame(put(b"", WireExpr(9)), push)))
    assert first.template_key(0) == later.template_key(1)
    assert first.template_key(0) != later.template_key(0)
    with pytest.raises(IndexError, match="template 1 of 1"):
        first.template_key(1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (put(), put(key=WireExpr(0, "demo/l"))),
        (put(encoding=Encoding(4)), put(encoding=Encoding(5))),
        (put(encoding=Encoding(4, "a")), put(encoding=Encoding(4, "b"))),
        (stamped(7), stamped(7, CLOCK)),
        (put(source_info=SourceInfo(ROUTER, 1, 1)), put(source_info=SourceInfo(ROUTER, 2, 1))),
        (put(source_info=SourceInfo(ROUTER, 1, 1)), put(source_info=SourceInfo(CLOCK, 1, 1))),
        (put(), replace(put(), qos=QoS(Priority.DATA, Congestion.BLOCK))),
        (put(attachment=b"a"), put()),
    ],
)
def test_different_templates_have_different_keys(one: Push, other: Push) -> None:
    columns, _, _ = decoded(batch(frame(one, other)))
    assert columns.template_key(0) != columns.template_key(1)
