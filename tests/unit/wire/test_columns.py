"""Columns hold what the object codec would have read, and stop where it must be asked."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from zenspark.errors import DecodeError, EncodeError, UsageError
from zenspark.wire import columns as kernel
from zenspark.wire.codec import decode_network, encode
from zenspark.wire.columns import (
    ABSENT,
    NO_LANE,
    BatchDecoder,
    BatchEncoder,
    BinaryColumn,
    Framing,
    OutgoingRows,
    PushColumns,
    PushTemplate,
    RowForwarder,
    RowKind,
    StopReason,
)
from zenspark.wire.declare import Message, replace
from zenspark.wire.messages import Close, Del, Fragment, Frame, KeepAlive, NetworkMessage, Push, Put, ResponseFinal
from zenspark.wire.values import (
    Congestion,
    Encoding,
    EntityId,
    Extension,
    Mapping,
    Priority,
    QoS,
    SourceInfo,
    Timestamp,
    TimestampStack,
    WireExpr,
    ZenohId,
)

ROUTER = ZenohId(0xA0A1A2A3)
CLOCK = ZenohId((1 << 128) - 2)
KEY = WireExpr(0, "demo/k")


def put(payload: bytes = b"hello", key: WireExpr = KEY, **fields: object) -> Push:
    return Push(wire_expr=key, body=Put(payload=payload, **fields))  # type: ignore[arg-type]


def stamped(ntp64: int, zid: ZenohId = ROUTER) -> Push:
    return put(timestamp=Timestamp(ntp64, zid))


def frame(*messages: NetworkMessage, sn: int = 7, reliable: bool = True, priority: Priority = Priority.DATA) -> Frame:
    return Frame(reliable=reliable, sn=sn, priority=priority, msgs=messages)


def batch(*messages: Message, width: int = 2) -> bytes:
    content = b"".join(map(encode, messages))
    return len(content).to_bytes(width, "little") + content


def decoded(data: bytes, columns: PushColumns | None = None) -> tuple[PushColumns, BatchDecoder, StopReason]:
    columns = PushColumns(64) if columns is None else columns
    cursor = BatchDecoder(data)
    return columns, cursor, cursor.decode(columns)


def pushes(columns: PushColumns) -> list[Push]:
    return [columns.push(row) for row in range(len(columns))]


# -- what becomes a row ---

FULL_PUT = put(
    b"\xff" * 200,
    WireExpr(300, "/é/*", Mapping.RECEIVER),
    timestamp=Timestamp((1 << 63) + 5, CLOCK),
    encoding=Encoding(0xFFFF, "größe"),
    source_info=SourceInfo(ROUTER, 70_000, (1 << 32) - 1),
    attachment=b"a" * 130,
)
DEL = Push(
    wire_expr=WireExpr(2),
    node_id=0xFFFF,
    body=Del(timestamp=Timestamp(1, ROUTER), source_info=SourceInfo(CLOCK, 0, 0), attachment=b""),
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
    columns, cursor, outcome = decoded(batch(frame(push, push)))
    assert outcome is StopReason.END
    assert pushes(columns) == [push, push]
    assert columns.template_count == 1
    assert cursor.pos == cursor.batch_end == len(cursor.data)


def test_a_shape_tells_what_its_rows_share() -> None:
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


def test_rows_with_clock_number_and_attachment_of_their_own_share_a_shape() -> None:
    sent = [
        put(
            bytes(size),
            timestamp=Timestamp(ntp64, CLOCK),
            source_info=SourceInfo(ROUTER, 1, number),
            attachment=number.to_bytes(8, "little"),
        )
        for size, ntp64, number in [(8, 1 << 62, 1), (0, (1 << 64) - 1, 2), (8, 5, 3), (300, 0, 127)]
    ]
    columns, _, _ = decoded(batch(frame(*sent)))
    assert columns.template_count == 1
    assert pushes(columns) == sent
    assert list(columns.timestamp) == [1 << 62, (1 << 64) - 1, 5, 0]
    assert list(columns.source_sns()) == [1, 2, 3, 127]
    assert [columns.attachments().value(row) for row in range(4)] == [
        number.to_bytes(8, "little") for number in (1, 2, 3, 127)
    ]


@pytest.mark.parametrize(
    "other",
    [
        stamped(1, CLOCK),
        put(timestamp=Timestamp(1, ROUTER), source_info=SourceInfo(ROUTER, 1, 300), attachment=b"1"),
        put(timestamp=Timestamp(1, ROUTER), source_info=SourceInfo(ROUTER, 2, 3), attachment=b"1"),
        put(timestamp=Timestamp(1, ROUTER), source_info=SourceInfo(ROUTER, 1, 3), attachment=b"22"),
        put(timestamp=Timestamp(1, ROUTER), source_info=SourceInfo(ROUTER, 1, 3)),
        put(timestamp=Timestamp(1, ROUTER), attachment=b"1"),
    ],
)
def test_whatever_else_differs_makes_another_shape(other: Push) -> None:
    first = put(timestamp=Timestamp(1, ROUTER), source_info=SourceInfo(ROUTER, 1, 3), attachment=b"1")
    columns, _, _ = decoded(batch(frame(first, other, first)))
    assert pushes(columns) == [first, other, first]
    assert list(columns.template_index) == [0, 1, 0]


def test_alternating_keys_are_found_again() -> None:
    sent = [put(key=WireExpr(0, f"fleet/robot{number % 10}/lidar/points")) for number in range(40)]
    columns, _, _ = decoded(batch(frame(*sent)))
    assert columns.template_count == 10
    assert pushes(columns) == sent


def test_the_lane_is_part_of_the_shape() -> None:
    columns, _, _ = decoded(batch(frame(put()), frame(put(), reliable=False), frame(put()), frame(put(), sn=8)))
    assert [columns.template_at(index).reliable for index in columns.template_index] == [True, False, True, True]
    assert list(columns.template_index) == [0, 1, 0, 0]


# -- frames and batches ---


def test_frames_are_ranges_of_rows() -> None:
    data = batch(
        frame(put(), put(), sn=(1 << 32) - 1),
        frame(sn=1, priority=Priority.CONTROL),
        frame(put(), sn=2, reliable=False, priority=Priority.REAL_TIME),
    )
    columns, cursor, _ = decoded(data)
    assert list(columns.frame_sn) == [(1 << 32) - 1, 1, 2]
    assert list(columns.frame_row) == [0, 2, 2]
    assert list(columns.frame_lane) == [5 | 8, 0 | 8, 1]
    assert (cursor.sn, cursor.reliable, cursor.priority) == (2, False, Priority.REAL_TIME)


def test_the_last_priority_of_a_frame_counts() -> None:
    data = bytes.fromhex("0a00" + "a507" + "b100" + "31fe00" + "5d0202")
    columns, cursor, outcome = decoded(data)
    assert outcome is StopReason.END
    assert list(columns.frame_lane) == [6 | 8]
    assert pushes(columns) == [Push(wire_expr=WireExpr(2), body=Del())]
    assert not cursor.in_frame


def test_empty_batches_are_passed_over() -> None:
    columns, cursor, outcome = decoded(bytes(2) + batch(frame(put())) + bytes(4) + batch(frame(put())))
    assert outcome is StopReason.END
    assert len(columns) == 2
    assert cursor.pos == len(cursor.data)


def test_an_unfinished_batch_is_left() -> None:
    first, second = batch(frame(put())), batch(frame(put(b"x"), put(b"y")))
    for cut in range(len(second)):
        columns, cursor, outcome = decoded(first + second[:cut])
        assert outcome is StopReason.END
        assert len(columns) == 1
        assert cursor.pos == cursor.batch_end == len(first)


@pytest.mark.parametrize(("framing", "width"), [(Framing.STREAM, 2), (Framing.BARE, 4)])
def test_an_oversized_batch_is_refused_before_it_is_there(framing: Framing, width: int) -> None:
    first = (10).to_bytes(width, "little") + bytes(10)
    data = (0).to_bytes(width, "little") + (11).to_bytes(width, "little")
    columns = PushColumns(4)
    assert BatchDecoder(first[:width], framing, limit=10).decode(columns) is StopReason.END
    columns.clear()
    cursor = BatchDecoder(data, framing, limit=10)
    assert cursor.decode(columns) is StopReason.OVERSIZED
    assert cursor.pos == width
    assert cursor.decode(columns) is StopReason.OVERSIZED


def test_low_latency_batches_hold_bare_messages() -> None:
    data = batch(put(b"1"), put(b"2"), KeepAlive(), put(b"3"), width=4) + batch(ResponseFinal(request_id=1), width=4)
    columns = PushColumns(8)
    cursor = BatchDecoder(data, Framing.BARE)
    assert cursor.decode(columns) is StopReason.MESSAGE
    assert pushes(columns) == [put(b"1"), put(b"2")]
    assert cursor.message() == KeepAlive()
    assert cursor.decode(columns) is StopReason.MESSAGE
    assert pushes(columns) == [put(b"1"), put(b"2"), put(b"3")]
    assert cursor.message() == ResponseFinal(request_id=1)
    assert cursor.decode(columns) is StopReason.END
    assert columns.frame_count == 0
    assert columns.template_at(0).reliable
    assert columns.template_at(0).priority is Priority.DATA


def test_a_batch_may_come_without_a_length_inside_a_larger_buffer() -> None:
    content = encode(frame(put(), put()))
    data = bytearray(b"\xff" * 3 + content + b"\xff" * 3)
    columns = PushColumns(8)
    cursor = BatchDecoder(data, Framing.BATCH, pos=3, end=3 + len(content))
    assert cursor.decode(columns) is StopReason.END
    assert pushes(columns) == [put(), put()]
    assert BatchDecoder(b"", Framing.BATCH).decode(PushColumns(1)) is StopReason.END


@pytest.mark.parametrize("reliable", [True, False])
def test_a_message_may_come_alone_with_the_lane_it_is_told(reliable: bool) -> None:
    cursor, columns = (
        BatchDecoder(encode(put()), Framing.MESSAGE, reliable=reliable, priority=Priority.REAL_TIME),
        PushColumns(2),
    )
    assert cursor.decode(columns) is StopReason.END
    assert pushes(columns) == [put()]
    assert (columns.template_at(0).reliable, columns.template_at(0).priority) == (reliable, Priority.REAL_TIME)
    assert columns.frame_count == 0


def test_nothing_is_written_as_a_message_alone() -> None:
    with pytest.raises(UsageError, match="alone"):
        BatchEncoder(Framing.MESSAGE)


def test_the_piece_in_a_fragment_stays_where_it_is() -> None:
    piece = Fragment(more=True, reliable=True, sn=3, first=True, payload=b"part")
    data = bytearray(batch(piece))
    cursor = BatchDecoder(data)
    assert cursor.decode(PushColumns(1)) is StopReason.MESSAGE
    message = cursor.message()
    assert message == piece
    data[-1:] = b"k"
    assert isinstance(message, Fragment)
    assert message.payload == b"park"


def pieces(
    message: bytes, sn: int = 0, cut: tuple[int, ...] = (5,), *, reliable: bool = True, **fields: object
) -> list[Fragment]:
    """A message cut at some places."""
    places = [0, *cut, len(message)]
    return [
        Fragment(
            more=stop < len(message),
            reliable=reliable,
            sn=(sn + number) & 0x7F,
            first=start == 0,
            payload=message[start:stop],
            **fields,  # type: ignore[arg-type]
        )
        for number, (start, stop) in enumerate(pairwise(places))
    ]


def at_fragment(*messages: Message, missing: int = 0, limit: int = 0xFFFF, goes_on: bool = True) -> BatchDecoder:
    data = bytearray(b"".join(batch(one) for one in messages))
    cursor = BatchDecoder(data[: len(data) - missing], limit=limit, is_partial_buffer=goes_on)
    assert cursor.decode(PushColumns(1)) is StopReason.MESSAGE
    return cursor


@pytest.mark.parametrize("priority", [Priority.DATA, Priority.REAL_TIME])
@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize("marked", [True, False])
def test_fragments_are_joined_where_they_lie(priority: Priority, reliable: bool, marked: bool) -> None:
    messages = [put(b"x" * 30), put(b"y" * 300, attachment=b"a"), put(b"", key=WireExpr(0, "other"))]
    cuts = [(5,), (1, 2, 3, 250), ()]
    cut = [
        piece
        for number, (one, places) in enumerate(zip(messages, cuts, strict=True))
        for piece in pieces(encode(one), (126, 0, 5)[number], places, priority=priority, reliable=reliable)
    ]
    cursor, columns = at_fragment(*cut, frame(put())), PushColumns(8)
    assert cursor.fragment_lane() == priority | 8 * reliable
    whole = cursor.join(columns, 126, 0x7F, marked, 1000)
    assert whole is not None
    assert (whole.sn, whole.message) == (5, None)
    assert pushes(columns) == messages
    assert {
        (columns.template_at(one).reliable, columns.template_at(one).priority) for one in columns.template_index
    } == {(reliable, priority)}
    columns.clear()
    assert cursor.decode(columns) is StopReason.END
    assert pushes(columns) == [put()]


@pytest.mark.parametrize("last", [encode(ResponseFinal(request_id=3)), encode(put()) * 2, encode(put()) + b"\0", b""])
def test_a_joined_message_that_is_no_row_is_handed_over_behind_the_rows(last: bytes) -> None:
    cut = [*pieces(encode(put())), *pieces(last, 2, (1,) if last else ()), *pieces(encode(put()), 4)]
    cursor, columns = at_fragment(*cut), PushColumns(8)
    whole = cursor.join(columns, 0, 0x7F, True, 1000)
    assert whole is not None
    assert whole.message is not None
    assert whole.message.tobytes() == last
    assert whole.sn == (3 if last else 2)
    assert pushes(columns) == [put()]


def test_as_many_messages_are_joined_as_there_is_room_for() -> None:
    cursor, columns = at_fragment(*[piece for sn in (0, 2, 4) for piece in pieces(encode(put()), sn)]), PushColumns(2)
    for sn, rows in ((0, 2), (4, 1)):
        assert cursor.join(columns, sn, 0x7F, True, 1000) is not None
        assert pushes(columns) == [put()] * rows
        columns.clear()
        cursor.decode(columns)


@pytest.mark.parametrize("missing", [1, 12, 14, 16, 17])
def test_the_rest_of_a_message_is_awaited(missing: int) -> None:
    begun = pieces(encode(put()), 2)
    cursor, columns = at_fragment(*pieces(encode(put())), *begun, missing=missing), PushColumns(8)
    assert cursor.join(columns, 0, 0x7F, True, 1000) is not None
    assert not cursor.needs_more_data
    place = cursor.pos
    columns.clear()
    if cursor.decode(columns) is StopReason.MESSAGE:
        assert cursor.join(columns, 2, 0x7F, True, 1000) is None
        assert cursor.needs_more_data
    assert cursor.pos == cursor.batch_end == place
    assert not len(columns)


@pytest.mark.parametrize(("size", "goes_on"), [(360_000, True), (120_000, False)])
def test_the_rest_of_a_large_message_is_not_awaited_nor_that_which_does_not_come(size: int, goes_on: bool) -> None:
    cut = pieces(bytes(size), cut=tuple(range(60_000, size, 60_000)))
    cursor = at_fragment(*cut[:-1], is_partial_buffer=goes_on)
    assert cursor.join(PushColumns(1), 0, 0x7F, True, 1 << 20) is None
    assert not cursor.needs_more_data
    assert cursor.message() == cut[0]


RAW = encode(put())


@pytest.mark.parametrize(
    "cut",
    [
        pieces(RAW, 1),
        [pieces(RAW)[0], pieces(RAW, 1)[1]],
        [pieces(RAW)[0], frame(put()), pieces(RAW)[1]],
        [pieces(RAW)[0], pieces(RAW, reliable=False)[1]],
        [pieces(RAW)[0], pieces(RAW)[0]],
        [replace(pieces(RAW)[0], first=False), pieces(RAW)[1]],
        [pieces(RAW)[0], replace(pieces(RAW)[1], drop=True)],
        [pieces(RAW)[0], replace(pieces(RAW)[1], payload=bytes(2000))],
        [pieces(RAW)[0], replace(pieces(RAW)[1], payload=bytes(996))],
    ],
    ids=["number", "gap", "frame", "lane", "first", "unmarked", "dropped", "oversized", "limit"],
)
def test_fragments_in_which_anything_differs_are_left(cut: list[Message]) -> None:
    cursor = at_fragment(*cut, limit=1500)
    place = cursor.pos
    assert cursor.join(PushColumns(1), 0, 0x7F, True, 1000) is None
    assert not cursor.needs_more_data
    assert cursor.message() == cut[0]
    assert cursor.pos > place


def test_a_batch_that_is_too_large_ends_what_is_joined() -> None:
    cursor = at_fragment(*pieces(RAW), frame(put(bytes(2000))), limit=1500)
    assert cursor.join(PushColumns(1), 0, 0x7F, True, 1000) is not None
    assert cursor.decode(PushColumns(1)) is StopReason.OVERSIZED


@pytest.mark.parametrize(
    "content",
    [
        encode(KeepAlive()),
        b"\x26\xff\xff\xff\xff\xff\x01",  # a number of more than 32 bits
        b"\xa6\x00",  # an extension that is not there
        b"\xa6\x00\x31",  # a priority that is not there
        b"\xa6\x00\x03",  # given up
    ],
)
def test_other_messages_are_no_fragments_to_join(content: bytes) -> None:
    cursor = BatchDecoder(bytearray(len(content).to_bytes(2, "little") + content))
    assert cursor.fragment_lane() == -1
    assert cursor.decode(PushColumns(1)) is StopReason.MESSAGE
    assert cursor.fragment_lane() == -1
    assert cursor.join(PushColumns(1), 0, 0x7F, True, 1000) is None


def test_fragments_are_joined_only_on_a_stream_that_can_be_written_to() -> None:
    data = b"".join(batch(one) for one in pieces(RAW))
    cursor = BatchDecoder(data)
    cursor.decode(PushColumns(1))
    assert cursor.fragment_lane() >= 0
    assert cursor.join(PushColumns(1), 0, 0x7F, True, 1000) is None
    assert BatchDecoder(bytearray(data[2:]), Framing.BATCH).fragment_lane() == -1


def test_what_else_is_in_a_message_is_copied() -> None:
    data = bytearray(
        batch(frame(Push(wire_expr=KEY, exts=(Extension(0x2F, 7),), body=Put(payload=b"", attachment=b"a"))))
    )
    cursor = BatchDecoder(data)
    assert cursor.decode(PushColumns(1)) is StopReason.MESSAGE
    message = cursor.message()
    assert isinstance(message, Push)
    assert isinstance(message.body, Put)
    assert type(message.body.attachment) is bytes


def test_a_bare_frame_header_in_a_low_latency_batch_is_for_the_codec() -> None:
    cursor = BatchDecoder(batch(frame(put()), width=4), Framing.BARE)
    assert cursor.decode(PushColumns(1)) is StopReason.MESSAGE
    assert cursor.message() == frame(put())


# -- stopping and going on ---


def test_other_messages_keep_their_place() -> None:
    other = ResponseFinal(request_id=9)
    data = batch(frame(put(b"1"), other, put(b"2"), sn=3), KeepAlive(), frame(put(b"3"), sn=4))
    columns, cursor, outcome = decoded(data)
    assert outcome is StopReason.MESSAGE
    assert pushes(columns) == [put(b"1")]
    assert (cursor.in_frame, cursor.sn) == (True, 3)
    assert cursor.message() == other
    assert cursor.decode(columns) is StopReason.MESSAGE
    assert not cursor.in_frame
    assert cursor.message() == KeepAlive()
    assert cursor.decode(columns) is StopReason.END
    assert pushes(columns) == [put(b"1"), put(b"2"), put(b"3")]
    assert list(columns.frame_row) == [0, 2]


def test_a_frame_that_goes_on_after_clear_says_so() -> None:
    columns, cursor, _ = decoded(batch(frame(put(b"1"), ResponseFinal(request_id=9), put(b"2"), sn=3)))
    cursor.message()
    columns.clear()
    assert cursor.decode(columns) is StopReason.END
    assert pushes(columns) == [put(b"2")]
    assert list(columns.frame_sn) == [3]
    assert list(columns.frame_lane) == [5 | 8 | 16]


@pytest.mark.parametrize(
    "push",
    [
        replace(put(), timestamp=Timestamp(1, ROUTER)),
        replace(put(), ts_stack=TimestampStack(1)),
        replace(put(), exts=(Extension(0x48, b"x"),)),
        put(b"\0", shm=True),
        put(exts=(Extension(0x07),)),
        Push(wire_expr=KEY, body=Del(exts=(Extension(0x43, b"x"),))),
    ],
)
def test_what_has_no_column_is_for_the_codec(push: Push) -> None:
    columns, cursor, outcome = decoded(batch(frame(put(), push, put())))
    assert outcome is StopReason.MESSAGE
    assert cursor.message() == push
    assert cursor.decode(columns) is StopReason.END
    assert pushes(columns) == [put(), put()]


def test_a_frame_with_an_unknown_extension_is_read_whole() -> None:
    strange = replace(frame(put(), put()), exts=(Extension(0x07),))
    columns, cursor, outcome = decoded(batch(strange, frame(put())))
    assert outcome is StopReason.MESSAGE
    assert cursor.message() == strange
    assert cursor.decode(columns) is StopReason.END
    assert pushes(columns) == [put()]


def test_full_columns_are_drained_and_filled_again() -> None:
    sent = [put(bytes([number])) for number in range(10)]
    columns, cursor, outcome = decoded(batch(frame(*sent, sn=3)) + batch(frame(*sent, sn=4)), PushColumns(3))
    got = pushes(columns)
    while outcome is StopReason.FULL:
        assert len(columns) == 3
        columns.clear()
        outcome = cursor.decode(columns)
        got += pushes(columns)
    assert outcome is StopReason.END
    assert got == sent * 2


def test_shapes_and_frames_can_be_full_too() -> None:
    data = batch(frame(put(), put(), put(key=WireExpr(1)), put()), frame(put(), sn=8), frame(sn=9))
    columns, cursor, outcome = decoded(data, PushColumns(8, shapes=1, frames=2))
    assert (outcome, len(columns)) == (StopReason.FULL, 2)
    assert cursor.decode(columns) is StopReason.FULL
    columns.clear()
    assert cursor.decode(columns) is StopReason.FULL
    assert pushes(columns) == [put(key=WireExpr(1))]
    columns.clear()
    assert cursor.decode(columns) is StopReason.FULL
    assert pushes(columns) == [put(), put()]
    assert list(columns.frame_lane) == [5 | 8 | 16, 5 | 8]
    columns.clear()
    assert cursor.decode(columns) is StopReason.END
    assert list(columns.frame_sn) == [9]


def test_a_malformed_message_is_not_taken_for_want_of_room() -> None:
    content = encode(frame(put())) + encode(put(key=WireExpr(1)))[:-1]
    columns, cursor, outcome = decoded(len(content).to_bytes(2, "little") + content, PushColumns(8, shapes=1))
    assert outcome is StopReason.FULL
    columns.clear()
    assert cursor.decode(columns) is StopReason.MESSAGE
    with pytest.raises(DecodeError):
        cursor.message()


def test_columns_belong_to_one_buffer_at_a_time() -> None:
    columns, _, _ = decoded(batch(frame(put())))
    other = BatchDecoder(batch(frame(put(), put())))
    with pytest.raises(UsageError, match="another buffer"):
        other.decode(columns)
    columns.clear()
    assert other.decode(columns) is StopReason.END
    assert columns.data is other.data
    assert len(columns) == 2


def test_old_guesses_at_shapes_do_no_harm() -> None:
    columns = PushColumns(8)
    for text in ("aa", "bb", "aa"):
        columns.clear()
        sent = [put(key=WireExpr(0, text)), put(key=WireExpr(0, "cc")), put(key=WireExpr(0, text))]
        BatchDecoder(batch(frame(*sent))).decode(columns)
        assert pushes(columns) == sent
        assert columns.template_count == 2


def test_there_is_no_message_between_batches() -> None:
    _, cursor, _ = decoded(batch(frame(put())))
    with pytest.raises(UsageError, match="no message here"):
        cursor.message()


def test_memory_in_use_stays_in_place() -> None:
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


def test_what_one_thread_works_on_is_not_for_another() -> None:
    with pytest.raises(UsageError, match="another thread"):
        kernel._check_idle(True)


# -- bytes as they come ---


@pytest.mark.parametrize(
    ("hexes", "problem"),
    [
        ("2507 1802", "FRAME: expected a network message at byte 4, found id 0x18"),
        ("0802", "expected a transport message at byte 2, found id 0x08"),
        ("5d0202", "expected a transport message at byte 2, found id 0x1d"),
        ("25ffffffff1f 5d0202", "FRAME: expected an integer of at most 32 bits at byte 3"),
        ("25ff", "FRAME: expected an integer at byte 3"),
        ("a507", "FRAME: expected a byte at byte 4"),
        ("a507b1", "FRAME: expected an integer at byte 5"),
        ("a50731ff", "FRAME: expected an integer at byte 5"),
        ("a50713", "FRAME: expected an extension known here at byte 4"),
        ("2507 5d", "PUSH: expected an integer at byte 5"),
        ("2507 5d808004 0100", "PUSH: expected an integer of at most 16 bits at byte 5, found 65536"),
        ("2507 7d00", "PUSH: expected an integer at byte 6"),
        ("2507 7d00808004", "PUSH: expected an integer of at most 16 bits at byte 6"),
        ("2507 7d0005 61626364", "PUSH: expected 5 bytes at byte 7, found 4 before the end"),
        ("2507 7d0002 61ff 0100", "PUSH: expected UTF-8 text at byte 8, found byte 0xff"),
        ("2507 7d0002 c3c3 0100", "PUSH: expected UTF-8 text at byte 7"),
        ("2507 7d0003 616263", "PUSH: expected a byte at byte 10"),
        ("2507 dd02", "PUSH: expected a byte at byte 6"),
        ("2507 dd0221", "PUSH: expected an integer at byte 7"),
        ("2507 dd0221ff", "PUSH: expected an integer at byte 7"),
        ("2507 dd022105", "PUSH: expected a byte at byte 8"),
        ("2507 dd02b3808004 210501 00", "PUSH: expected an integer of at most 16 bits at byte 7"),
        ("2507 dd0213", "PUSH: expected an extension known here at byte 6"),
        ("2507 5d0203", "PUSH: expected PUT or DEL at byte 6, found id 0x03"),
        ("2507 5d0201", "PUT: expected an integer at byte 7"),
        ("2507 5d020105 61", "PUT: expected 5 bytes at byte 8, found 1 before the end"),
        ("2507 5d0201 ffffffff1f", "PUT: expected an integer of at most 32 bits at byte 7"),
        ("2507 5d0221", "PUT: expected an integer at byte 7"),
        ("2507 5d0221 ffffffffffffffff", "PUT: expected an integer at byte 7"),
        ("2507 5d0221 01", "PUT: expected an integer at byte 8"),
        ("2507 5d0221 01 00 00", "PUT: expected a node id of 1 to 16 bytes that is not zero at byte 8"),
        ("2507 5d0221 01 020000 00", "PUT: expected a node id of 1 to 16 bytes that is not zero at byte 8"),
        ("2507 5d0221 01 11" + "01" * 17 + "00", "PUT: expected a node id of 1 to 16 bytes that is not zero at byte 8"),
        ("2507 5d0221 01 04a0a1", "PUT: expected 4 bytes at byte 9, found 2 before the end"),
        ("2507 5d0241", "PUT: expected an integer at byte 7"),
        ("2507 5d0241 8080808010 00", "PUT: expected an integer of at most 32 bits at byte 7"),
        ("2507 5d0241 09", "PUT: expected an integer at byte 8"),
        ("2507 5d0241 09 8002 00", "PUT: expected an integer of at most 8 bits at byte 8"),
        ("2507 5d0241 09 0261", "PUT: expected 2 bytes at byte 9, found 1 before the end"),
        ("2507 5d0281", "PUT: expected a byte at byte 7"),
        ("2507 5d0281 41", "PUT: expected an integer at byte 8"),
        ("2507 5d0281 43 05 00", "PUT: expected 5 bytes at byte 9, found 1 before the end"),
        ("2507 5d0281 41 00 00", "PUT: expected a byte at byte 9, found the end"),
        ("2507 5d0281 41 02 10a0 00", "PUT: expected 2 bytes at byte 10, found 1 before the end"),
        ("2507 5d0281 41 02 0000 00", "PUT: expected a node id of 1 to 16 bytes that is not zero at byte 10"),
        ("2507 5d0281 41 02 00a0 00", "PUT: expected an integer at byte 11"),
        ("2507 5d0281 41 03 00a001 00", "PUT: expected an integer at byte 12"),
        ("2507 5d0281 41 05 00a0010203 00", "PUT: expected the end of the extension at byte 13, found 1 bytes more"),
        ("2507 5d0281 16 00", "PUT: expected an extension known here at byte 7, found mandatory extension 0x6"),
        ("2507 5d0281 60 00", "PUT: expected an extension encoding of 0 to 2 at byte 7, found 3 in extension 0x0"),
    ],
)
def test_malformed_bytes_are_refused_in_the_words_of_the_codec(hexes: str, problem: str) -> None:
    content = bytes.fromhex(hexes)
    good = batch(frame(put()))
    data = len(content).to_bytes(2, "little") + content
    for before, after in ((b"", b""), (good, good)):
        columns, cursor, outcome = decoded(before + data + after)
        assert outcome is StopReason.MESSAGE
        start = cursor.pos
        with pytest.raises(DecodeError) as caught:
            cursor.message()
        caught.value.position -= len(before)
        assert str(caught.value).startswith(problem)
        assert cursor.pos == start
        assert len(columns) == bool(before)


@pytest.mark.parametrize("push", [put(), stamped((1 << 64) - 1, CLOCK), FULL_PUT, DEL])
def test_a_message_cut_off_anywhere_after_one_like_it_is_refused(push: Push) -> None:
    whole = encode(push)
    for cut in range(1, len(whole)):
        content = encode(frame(push)) + whole[:cut]
        columns, cursor, outcome = decoded(len(content).to_bytes(2, "little") + content)
        assert outcome is StopReason.MESSAGE
        assert pushes(columns) == [push]
        with pytest.raises(DecodeError):
            cursor.message()


@pytest.mark.parametrize(
    ("hexes", "push"),
    [
        ("5d8200 0101 78", put(b"x", WireExpr(2))),
        ("7d00868000 64656d6f2f6b 0101 78", put(b"x")),
        ("7d0000 0101 78", put(b"x", WireExpr(0, ""))),
        ("3d0001 6b 0101 78", put(b"x", WireExpr(0, "k", Mapping.RECEIVER))),
        ("dd02a18500 33838000 0101 78", replace(put(b"x", WireExpr(2)), node_id=3)),
        ("dd02a10821ad01 0101 78", replace(put(b"x", WireExpr(2)), qos=QoS.REQUEST)),
        ("5d02018100 78", put(b"x", WireExpr(2))),
        ("5d0241 88 00 0178", put(b"x", WireExpr(2), encoding=Encoding(4))),
        ("5d0241 00 0178", put(b"x", WireExpr(2))),
        ("5d0241 09 8100 61 0178", put(b"x", WireExpr(2), encoding=Encoding(4, "a"))),
        ("5d0221 8100 8100a0 0178", put(b"x", WireExpr(2), timestamp=Timestamp(1, ZenohId(0xA0)))),
        ("5d0221 01 03a00000 0178", put(b"x", WireExpr(2), timestamp=Timestamp(1, ZenohId(0xA0)))),
        (
            "5d0281 41 8600 00a0810082 00 0178",
            put(b"x", WireExpr(2), source_info=SourceInfo(ZenohId(0xA0), 1, 2)),
        ),
        ("5d0281 43818000 61 0178", put(b"x", WireExpr(2), attachment=b"a")),
        (
            "5d0281 c30161 41 04 00a00102 0178",
            put(b"x", WireExpr(2), source_info=SourceInfo(ZenohId(0xA0), 1, 2), attachment=b"a"),
        ),
        ("5d0281 c30161 4300 0178", put(b"x", WireExpr(2), attachment=b"")),
        ("5d0242", Push(wire_expr=WireExpr(2), body=Del())),
    ],
)
def test_unusual_spellings_mean_the_same(hexes: str, push: Push) -> None:
    content = bytes.fromhex("2507" + hexes * 2)
    columns, cursor, outcome = decoded(len(content).to_bytes(2, "little") + content)
    by_codec: list[Message] = []
    while outcome is StopReason.MESSAGE:
        by_codec.append(cursor.message())
        outcome = cursor.decode(columns)
    assert outcome is StopReason.END
    assert [*by_codec, *pushes(columns)] == [push, push]
    assert passed_on(columns) == [replace(one, wire_expr=ALIAS, node_id=0, qos=QoS.DECLARE) for one in pushes(columns)]


@pytest.mark.parametrize(
    "text",
    ["c3a9", "e0a080", "ed9fbf", "ee8080", "f0908080", "f48fbfbf", "61" * 9 + "c3a9", "c3a9" * 8 + "61"],
)
def test_utf_8_is_taken(text: str) -> None:
    key = bytes.fromhex(text).decode()
    columns, _, outcome = decoded(batch(frame(put(key=WireExpr(0, key)))))
    assert outcome is StopReason.END
    assert columns.template_at(0).wire_expr.suffix == key


@pytest.mark.parametrize(
    "text",
    ["80", "c1bf", "c3", "e09fbf", "eda080", "e282", "f08fbfbf", "f4908080", "f5808080", "e2e282", "61" * 9 + "ff"],
)
def test_what_is_not_utf_8_is_for_the_codec_to_refuse(text: str) -> None:
    raw = bytes.fromhex(text)
    content = bytes([0x25, 7, 0x7D, 0, len(raw)]) + raw + bytes([1, 0])
    _, cursor, outcome = decoded(len(content).to_bytes(2, "little") + content)
    assert outcome is StopReason.MESSAGE
    with pytest.raises(DecodeError, match="expected UTF-8 text"):
        cursor.message()


STREAMS = Path(__file__).parents[2] / "vectors" / "streams"


@pytest.mark.parametrize(
    "name", ["pubsub_client_router", "advanced_pubsub_client_router", "router_router", "peer_peer"]
)
@pytest.mark.parametrize("side", ["c2s", "s2c"])
def test_captured_conversations_write_back_to_the_same_bytes(name: str, side: str) -> None:
    data = (STREAMS / f"{name}.{side}.bin").read_bytes()
    columns, cursor, outcome = decoded(data, PushColumns(512))
    while outcome is StopReason.MESSAGE:
        before = cursor.pos
        message = cursor.message()
        assert encode(message) == data[before : cursor.pos]
        outcome = cursor.decode(columns)
    assert outcome is StopReason.END
    assert cursor.pos == len(data)
    for row in range(len(columns)):
        stop = columns.payload_stop[row]
        written = encode(columns.push(row))
        assert data[stop - len(written) : stop] == written


# -- spans ---


def test_pieces_are_gathered_as_arrow_lays_them_out() -> None:
    sent = [put(b"abc"), Push(wire_expr=KEY, body=Del()), put(b"", attachment=b""), put(b"x" * 20, attachment=b"att")]
    columns, _, _ = decoded(batch(frame(*sent)))
    payloads = columns.payloads().pack()
    assert list(payloads.offsets) == [0, 3, 3, 3, 23]
    assert payloads.offsets.format == "i"
    assert payloads.data == b"abc" + b"x" * 20
    assert payloads.validity == bytearray([0b1101])
    assert payloads.null_count == 1
    attachments = columns.attachments().pack()
    assert bytes(attachments.data) == b"att"
    assert attachments.null_count == 2
    assert attachments.validity == bytearray([0b1100])
    suffixes = columns.suffixes().pack()
    assert suffixes.data == b"demo/k" * 4
    assert suffixes.validity is None
    assert list(columns.source_sns()) == [0] * 4


def test_no_rows_make_no_pieces() -> None:
    columns = PushColumns(1)
    assert len(columns) == 0
    for spans in (columns.payloads(), columns.attachments(), columns.suffixes()):
        assert list(spans.pack().offsets) == [0]
    assert list(columns.source_sns()) == []


@pytest.mark.parametrize("sizes", [range(40), [100, 7, 8, 9, 16, 17, 0, 3, 4, 5]])
def test_pieces_of_any_size_are_copied(sizes: Iterable[int]) -> None:
    pieces = [bytes([size & 0xFF]) * size for size in sizes]
    offsets = array("i", [0])
    for piece in pieces:
        offsets.append(offsets[-1] + len(piece))
    data = b"".join(pieces)
    backwards = BinaryColumn(data, array("I", offsets[-2::-1]), array("I", offsets[:0:-1])).pack()
    assert backwards.data == b"".join(reversed(pieces))
    assert BinaryColumn.from_offsets(data, offsets).pack().data == data


def test_pieces_are_copied_behind_others_where_there_is_room() -> None:
    spans = BinaryColumn(b"abcdef", array("I", [4, 0]), array("I", [6, 3]))
    assert spans.measure() == 5
    offsets, data = array("i", [2, 0, 0, 7]), memoryview(bytearray(8))
    assert spans.append_to(offsets, data) == 5
    assert (list(offsets), bytes(data)) == ([2, 4, 7, 7], b"\0\0efabc\0")
    assert spans.append_to(memoryview(offsets)[2:], data) == -1  # one row has no offset
    assert spans.append_to(offsets, data[:6]) == -1
    assert bytes(data) == b"\0\0efabc\0"


def test_absent_pieces_are_not_copied_behind_others() -> None:
    offsets, data = array("i", [0, 0, 0]), memoryview(bytearray(8))
    assert BinaryColumn(b"abc", array("I", [0, ABSENT]), array("I", [3, ABSENT])).append_to(offsets, data) == -1
    assert bytes(data) == bytes(8)
    outside = BinaryColumn(b"abc", array("I", [2]), array("I", [4]))
    for use in (outside.measure, lambda: outside.append_to(offsets, data)):
        with pytest.raises(UsageError, match="row 0 points outside of 3 bytes"):
            use()


def test_validity_counts_bits_from_where_it_is_told() -> None:
    offsets = array("i", [0, 1, 2, 3])
    spans = BinaryColumn.from_offsets(b"abc", offsets, validity=bytes([0b01010000, 1]), first_bit=6)
    assert [spans.value(row) for row in range(3)] == [b"a", None, b"c"]
    assert bytes(spans.pack().data) == b"ac"
    with pytest.raises(UsageError, match="too few for 3 bits from bit 14 on"):
        BinaryColumn.from_offsets(b"abc", offsets, validity=bytes(2), first_bit=14)


def test_spans_stay_inside_their_buffer() -> None:
    spans = BinaryColumn(b"abc", array("I", [0, 2, 3, ABSENT, 1]), array("I", [3, 1, 4, 0, 1]))
    assert spans.value(0) == b"abc"
    assert spans.value(3) is None
    assert spans.value(4) == b""
    for row in (1, 2):
        with pytest.raises(UsageError, match=f"row {row} points outside of 3 bytes"):
            spans.value(row)
    for row in (-1, 5):
        with pytest.raises(IndexError):
            spans.value(row)
    with pytest.raises(UsageError, match="row 1 points outside of 3 bytes"):
        spans.pack()
    with pytest.raises(UsageError, match="1 starts, but 2 stops"):
        BinaryColumn(b"", array("I", [0]), array("I", [0, 0]))


def test_a_gathered_column_ends_at_2_gib() -> None:
    size = 1 << 26
    spans = BinaryColumn(bytes(size), array("I", [0] * 32), array("I", [size] * 32))
    with pytest.raises(UsageError, match=r"row 31 .* is 2 GiB behind the first"):
        spans.pack()


def test_constant_spans_are_the_same_everywhere() -> None:
    assert BinaryColumn.constant(b"x").value(1000) == b"x"
    assert BinaryColumn.constant(None).value(5) is None
    assert BinaryColumn.constant(b"x").is_constant


# -- arguments ---


def test_rows_and_shapes_are_counted_from_zero() -> None:
    columns, _, _ = decoded(batch(frame(put())))
    for number in (-1, 1):
        with pytest.raises(IndexError):
            columns.push(number)
        with pytest.raises(IndexError):
            columns.template_at(number)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, -1, 1), (1, 1, -1)])
def test_columns_need_room(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="no room"):
        PushColumns(*sizes)


@pytest.mark.parametrize(("pos", "end"), [(-1, 2), (2, 1), (0, 4)])
def test_a_cursor_stays_inside_its_buffer(pos: int, end: int) -> None:
    with pytest.raises(IndexError):
        BatchDecoder(b"abc", pos=pos, end=end)


def test_a_buffer_ends_before_4_gib(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("w+b") as file:
        file.truncate(1 << 32)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            with pytest.raises(UsageError, match="32 bits"):
                BatchDecoder(view)
            del view


# -- writing ---


def spans_of(pieces: Iterable[bytes | None]) -> BinaryColumn:
    data = bytearray()
    starts, stops = array("I"), array("I")
    for piece in pieces:
        starts.append(ABSENT if piece is None else len(data))
        data += piece or b""
        stops.append(len(data))
    return BinaryColumn(data, starts, stops)


def wire(encoding: Encoding) -> bytes:
    return encode(put(b"", encoding=encoding))[len(encode(put(b""))) - 1 : -1]


def written(rows: OutgoingRows, encoder: BatchEncoder | None = None) -> bytes:
    out = bytearray(1 << 17)
    encoder = encoder or BatchEncoder()
    assert encoder.encode(rows, out) is StopReason.END
    assert rows.row == rows.count
    return bytes(out[: encoder.written])


def test_a_schema_that_is_not_text_is_kept() -> None:
    sent = put(encoding=Encoding(4, "\udcffA"))
    columns, _, outcome = decoded(batch(frame(sent)))
    assert outcome is StopReason.END
    assert pushes(columns) == [sent]


def test_rows_with_one_key_become_a_frame() -> None:
    rows = OutgoingRows(3, WireExpr(2), spans_of([b"a", b"", b"c" * 300]))
    sent = [put(payload, WireExpr(2)) for payload in (b"a", b"", b"c" * 300)]
    assert written(rows, BatchEncoder(sn=9)) == batch(frame(*sent, sn=9))
    assert [rows.push(row) for row in range(3)] == sent


def test_every_column_is_written_as_the_codec_would() -> None:
    encodings = [Encoding(4), Encoding.BYTES, Encoding(0xFFFF, "schema")]
    ids = [b"\xa3\xa2\xa1\xa0", b"\x01", CLOCK.to_bytes()]
    rows = OutgoingRows(
        3,
        spans_of([b"demo/a", "é".encode(), b"k" * 200]),
        spans_of([b"payload", None, b"x" * 130]),
        kind=bytes([0, 1, 0]),
        qos=bytes([0x05, 0x2D, 0x35]),
        timestamp=array("Q", [1, 0, (1 << 64) - 1]),
        timestamp_id=spans_of(ids),
        encoding=spans_of([wire(Encoding(4)), b"\x0a", wire(encodings[2])]),
        attachment=spans_of([None, b"", b"att" * 50]),
        source_zid=spans_of([None, *ids[1:]]),
        source_eid=array("I", [0, 1, (1 << 32) - 1]),
        source_sn=array("I", [0, 200, (1 << 32) - 1]),
    )
    sent = [
        put(b"payload", WireExpr(0, "demo/a"), timestamp=Timestamp(1, ROUTER), encoding=encodings[0]),
        Push(
            wire_expr=WireExpr(0, "é"),
            qos=QoS.REQUEST,
            body=Del(source_info=SourceInfo(ZenohId(1), 1, 200), attachment=b""),
        ),
        replace(
            put(
                b"x" * 130,
                WireExpr(0, "k" * 200),
                timestamp=Timestamp((1 << 64) - 1, CLOCK),
                encoding=encodings[2],
                source_info=SourceInfo(CLOCK, (1 << 32) - 1, (1 << 32) - 1),
                attachment=b"att" * 50,
            ),
            qos=QoS(congestion=Congestion.BLOCK_FIRST, express=True),
        ),
    ]
    assert [rows.push(row) for row in range(3)] == sent
    assert written(rows) == batch(frame(*sent, sn=0))


@pytest.mark.parametrize("qos", [QoS.DEFAULT, QoS.REQUEST, bytes([0x0D])])
@pytest.mark.parametrize("key", [KEY, WireExpr(300, "", Mapping.RECEIVER), WireExpr(1, "x" * 200)])
def test_plain_values_are_the_same_for_all_rows(key: WireExpr, qos: QoS | bytes) -> None:
    rows = OutgoingRows(
        1,
        key,
        BinaryColumn.constant(b"x"),
        kind=RowKind.PUT,
        qos=qos,
        encoding=BinaryColumn.constant(b"\0"),
        source_zid=BinaryColumn.constant(b"\x07"),
        source_eid=3,
        source_sn=4,
    )
    push = put(b"x", key, source_info=SourceInfo(ZenohId(7), 3, 4))
    push = replace(push, qos=qos if isinstance(qos, QoS) else QoS.REQUEST)
    assert rows.push(0) == push
    assert written(rows) == batch(frame(push, sn=0))


def test_a_row_in_parts_is_its_head_and_its_payload_where_it_lies() -> None:
    payloads = bytearray(b"onetwo")
    rows = OutgoingRows(
        3,
        WireExpr(1),
        BinaryColumn.from_offsets(payloads, array("i", [0, 3, 6, 6]), b"\x03"),
        kind=bytes([0, 0, 1]),
        attachment=BinaryColumn.constant(b"more"),
    )
    for row, payload in enumerate((b"one", b"two")):
        head, lent = rows.head_and_payload(row)
        assert bytes(lent or b"") == payload
        assert isinstance(lent, memoryview)
        assert lent.obj is payloads
        assert head + bytes([3]) + payload == encode(rows.push(row))
    assert rows.head_and_payload(2) == (encode(rows.push(2)), None)
    with pytest.raises(IndexError):
        rows.head_and_payload(3)


def test_a_row_in_parts_that_only_the_object_codec_can_write() -> None:
    rows = OutgoingRows(2, WireExpr(1), spans_of([b"x", None]), source_zid=BinaryColumn.constant(b"\7\0"))
    assert rows.head_and_payload(0) == (encode(rows.push(0)), None)
    with pytest.raises(UsageError, match="row 1 is a PUT without a payload"):
        rows.head_and_payload(1)


def test_deletions_need_no_payload() -> None:
    rows = OutgoingRows(2, spans_of([b"a", b""]), kind=RowKind.DEL, encoding=BinaryColumn.constant(b"\x08"))
    sent = [Push(wire_expr=WireExpr(0, key), body=Del()) for key in ("a", "")]
    assert written(rows) == batch(frame(*sent, sn=0))


def test_frames_tell_their_lane() -> None:
    encoder = BatchEncoder(reliable=False, priority=Priority.CONTROL, sn=300)
    expected = batch(frame(put(b""), sn=300, reliable=False, priority=Priority.CONTROL))
    assert written(OutgoingRows(1, KEY, BinaryColumn.constant(b"")), encoder) == expected


def test_batches_are_filled_to_the_last_byte_and_counted() -> None:
    message = put(b"x" * 8, WireExpr(2))
    rows = OutgoingRows(5, WireExpr(2), BinaryColumn.constant(b"x" * 8))
    encoder = BatchEncoder(limit=len(encode(frame(message, message, sn=0x7F))), sn=0x7E, mask=0x7F)
    expected = [frame(message, message, sn=0x7E), frame(message, message, sn=0x7F), frame(message, sn=0)]
    assert written(rows, encoder) == b"".join(map(batch, expected))
    assert encoder.sn == 1


def test_low_latency_batches_are_written_without_frames() -> None:
    message = put(b"x" * 8, WireExpr(2))
    rows = OutgoingRows(3, WireExpr(2), BinaryColumn.constant(b"x" * 8))
    encoder = BatchEncoder(Framing.BARE, limit=2 * len(encode(message)))
    assert written(rows, encoder) == batch(message, message, width=4) + batch(message, width=4)
    assert encoder.sn == 0


def test_batches_without_a_length_are_written_one_by_one() -> None:
    message = put(b"x" * 8, WireExpr(2))
    rows = OutgoingRows(3, WireExpr(2), BinaryColumn.constant(b"x" * 8))
    encoder = BatchEncoder(Framing.BATCH, limit=26)
    out = bytearray(100)
    assert encoder.encode(rows, out) is StopReason.FULL
    assert out[: encoder.written] == encode(frame(message, message, sn=0))
    assert encoder.encode(rows, out) is StopReason.END
    assert out[: encoder.written] == encode(frame(message, sn=1))


def test_a_full_buffer_is_sent_and_filled_again() -> None:
    message = put(b"x" * 8, WireExpr(2))
    rows = OutgoingRows(8, WireExpr(2), BinaryColumn.constant(b"x" * 8))
    encoder = BatchEncoder(limit=26)
    out = bytearray(2 * 28 + 27)
    assert encoder.encode(rows, memoryview(out)) is StopReason.FULL
    assert (rows.row, encoder.written) == (4, 2 * 28)
    sent = bytes(out[: encoder.written])
    assert encoder.encode(rows, out) is StopReason.END
    sent += out[: encoder.written]
    assert sent == b"".join(batch(frame(message, message, sn=sn)) for sn in range(4))


def test_a_row_too_large_for_a_batch_is_left_to_be_cut_into_fragments() -> None:
    rows = OutgoingRows(3, WireExpr(2), spans_of([b"a", b"b" * 30, b"c"]))
    encoder = BatchEncoder(limit=30)
    out = bytearray(64)
    assert encoder.encode(rows, out) is StopReason.MESSAGE
    assert out[: encoder.written] == batch(frame(put(b"a", WireExpr(2)), sn=0))
    assert (rows.row, encoder.sn) == (1, 1)
    assert encoder.encode(rows, out) is StopReason.MESSAGE
    assert encoder.written == 0
    assert rows.push(1) == put(b"b" * 30, WireExpr(2))
    rows.advance()
    encoder.sn = 3
    assert encoder.encode(rows, out) is StopReason.END
    assert out[: encoder.written] == batch(frame(put(b"c", WireExpr(2)), sn=3))
    with pytest.raises(IndexError):
        rows.advance()
    rows.reset()
    assert rows.row == 0


OUTSIDE = BinaryColumn(b"", array("I", [1]), array("I", [2]))
PAYLOAD = BinaryColumn.constant(b"x")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (OutgoingRows(1, WireExpr(2)), "row 0 is a PUT without a payload"),
        (OutgoingRows(1, WireExpr(2), spans_of([None])), "row 0 is a PUT without a payload"),
        (OutgoingRows(1, WireExpr(2), OUTSIDE), "row 0 points outside of 0 bytes"),
        (OutgoingRows(1, OUTSIDE, PAYLOAD), "row 0 points outside of 0 bytes"),
        (
            OutgoingRows(1, BinaryColumn.constant(b"k" * 65_536), PAYLOAD),
            "65536 bytes are more than a 16-bit length can say",
        ),
        (OutgoingRows(1, KEY, PAYLOAD, attachment=OUTSIDE), "row 0 points outside of 0 bytes"),
        (OutgoingRows(1, KEY, PAYLOAD, encoding=OUTSIDE), "row 0 points outside of 0 bytes"),
        (OutgoingRows(1, KEY, PAYLOAD, source_zid=OUTSIDE), "row 0 points outside of 0 bytes"),
        (OutgoingRows(1, KEY, PAYLOAD, source_zid=spans_of([b""])), "0 is not a node id of 1 to 128 bits"),
        (OutgoingRows(1, KEY, PAYLOAD, source_zid=spans_of([b"\x01" * 17])), "is not a node id of 1 to 128 bits"),
        (
            OutgoingRows(1, KEY, PAYLOAD, timestamp=array("Q", [1]), timestamp_id=spans_of([None])),
            "0 is not a node id of 1 to 128 bits",
        ),
    ],
)
def test_a_row_that_is_not_valid_is_refused_by_name(rows: OutgoingRows, problem: str) -> None:
    encoder = BatchEncoder()
    out = bytearray(1 << 17)
    assert encoder.encode(rows, out) is StopReason.MESSAGE
    assert encoder.written == 0
    with pytest.raises((UsageError, EncodeError), match=problem):
        encode(rows.push(0))


def test_an_id_that_is_longer_than_need_be_is_written_by_the_codec() -> None:
    rows = OutgoingRows(1, KEY, PAYLOAD, source_zid=spans_of([b"\x07\x00"]))
    assert BatchEncoder().encode(rows, bytearray(1 << 17)) is StopReason.MESSAGE
    assert rows.push(0) == put(b"x", source_info=SourceInfo(ZenohId(7), 0, 0))


def test_columns_must_be_as_long_as_the_rows() -> None:
    with pytest.raises(UsageError, match="a column of 1 for 2 rows"):
        OutgoingRows(2, KEY, spans_of([b"x"]))
    with pytest.raises(UsageError, match="a column of 1 for 2 rows"):
        OutgoingRows(2, KEY, PAYLOAD, kind=bytes(1))
    with pytest.raises(UsageError, match="go together"):
        OutgoingRows(1, KEY, PAYLOAD, timestamp=bytes(8))
    with pytest.raises(UsageError, match="need a count"):
        OutgoingRows(-1, KEY, PAYLOAD)
    with pytest.raises(EncodeError, match="70000 does not fit 16 bits"):
        OutgoingRows(1, WireExpr(70_000), PAYLOAD)
    for row in (-1, 1):
        with pytest.raises(IndexError):
            OutgoingRows(1, KEY, PAYLOAD).push(row)


def test_an_encoder_needs_room_for_a_batch() -> None:
    with pytest.raises(UsageError, match="no room for a batch of 102"):
        BatchEncoder(limit=100).encode(OutgoingRows(0, KEY), bytearray(101))
    for limit in (15, 65_536):
        with pytest.raises(UsageError, match="a batch can have 16 to 65535 bytes"):
            BatchEncoder(limit=limit)
    assert BatchEncoder(Framing.BARE, limit=65_536).limit == 65_536


def test_an_encoder_writes_only_where_it_may() -> None:
    with pytest.raises((BufferError, TypeError, ValueError)):
        BatchEncoder(limit=16).encode(OutgoingRows(1, KEY, PAYLOAD), memoryview(bytes(100)))
    assert written(OutgoingRows(0, KEY)) == b""


def test_close_ends_a_batch_for_columns_too() -> None:
    columns, cursor, outcome = decoded(batch(frame(put()), Close(session=False, reason=0)))
    assert outcome is StopReason.MESSAGE
    assert cursor.message() == Close(session=False, reason=0)
    assert cursor.decode(columns) is StopReason.END


@pytest.mark.parametrize("push", [put(), put(encoding=Encoding(4)), stamped(7), FULL_PUT, DEL])
def test_a_shape_is_recognised_in_another_buffer(push: Push) -> None:
    first, _, _ = decoded(batch(frame(push)))
    later, _, _ = decoded(batch(frame(put(b"", WireExpr(9)), push)))
    assert first.template_key(0) == later.template_key(1)
    assert first.template_key(0) != later.template_key(0)
    with pytest.raises(IndexError, match="shape 1 of 1"):
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
def test_shapes_that_differ_are_told_apart(one: Push, other: Push) -> None:
    columns, _, _ = decoded(batch(frame(one, other)))
    assert columns.template_key(0) != columns.template_key(1)


# -- passing on

ALIAS = WireExpr(9, "", Mapping.RECEIVER)
HEAD = encode(Push(wire_expr=ALIAS, qos=QoS.DECLARE, body=Del()))[:-1]


def relay(columns: PushColumns, start: int = 0, stop: int = -1) -> RowForwarder:
    count = columns.template_count
    return RowForwarder(
        columns, start, len(columns) if stop < 0 else stop, bytes([13]) * count, [HEAD] * count, b"\x05\x06"
    )


def passed_on(columns: PushColumns) -> list[NetworkMessage]:
    """The messages of all rows behind another head."""
    rows, found = relay(columns), []
    while rows.lane >= 0:
        found.append(decode_network(rows.message()))
    return found


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
def test_a_row_goes_on_behind_another_head(push: Push) -> None:
    columns, *_ = decoded(batch(frame(put(b"before"), push, push)))
    expected = replace(push, wire_expr=ALIAS, node_id=0, qos=QoS.DECLARE)
    assert passed_on(columns)[1:] == [expected, expected]
    out = bytearray(b"#" * 1000)
    rows = relay(columns, 1)
    assert rows.size == len(encode(expected))
    assert rows.measure(1000) == 2 * rows.size
    rows.write(out, 3)
    assert out == b"###" + 2 * encode(expected) + b"#" * (997 - 2 * len(encode(expected)))


def test_timestamps_are_added_where_they_were_noted() -> None:
    messages = (put(b"a"), stamped(7), put(b"b"), Push(wire_expr=KEY, body=Del()), put(b"c", WireExpr(0, "other")))
    columns, *_ = decoded(batch(frame(*messages)))
    wanted = bytes(columns.template_at(index).wire_expr == KEY for index in range(columns.template_count))
    assert columns.timestamp_summary(0, 5, wanted) == (7, 2)
    assert columns.timestamp_summary(2, 5, wanted) == (0, 1)
    columns.assign_timestamps(0, 5, wanted, 1 << 63)
    stamps = [push.body.timestamp for push in passed_on(columns) if isinstance(push, Push)]
    own = ZenohId(0x0605)
    assert stamps == [Timestamp(1 << 63, own), Timestamp(7, ROUTER), Timestamp((1 << 63) + 1, own), None, None]
    assert pushes(columns) == list(messages)


def test_rows_of_one_lane_are_written_together_as_far_as_there_is_room() -> None:
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


def test_what_is_passed_on_is_checked_first() -> None:
    columns, *_ = decoded(batch(frame(put(), put())))
    for start, stop in ((-1, 1), (2, 1), (0, 3)):
        with pytest.raises(IndexError):
            RowForwarder(columns, start, stop, b"\5", [HEAD], b"\1")
    with pytest.raises(UsageError, match="2 marks for 1 shapes"):
        RowForwarder(columns, 0, 2, b"\5\5", [HEAD, HEAD], b"\1")
    with pytest.raises(UsageError, match="2 heads for 1 shapes"):
        RowForwarder(columns, 0, 2, b"\5", [HEAD, HEAD], b"\1")
    with pytest.raises(IndexError):
        columns.node_id(1)
    rows = relay(columns)
    size = rows.measure(1000)
    for out, at in ((bytearray(size - 1), 0), (bytearray(size), 1), (bytearray(size), -1)):
        with pytest.raises(UsageError, match="no room"):
            rows.write(out, at)
    columns.clear()
    with pytest.raises(UsageError, match="are gone"):
        rows.measure(1000)
    with pytest.raises(UsageError, match="are gone"):
        rows.write(bytearray(1000), 0)
