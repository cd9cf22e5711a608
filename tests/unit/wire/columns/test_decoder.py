"""A decoder reads what the object codec would have read, and stops where the codec must be called."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from tests.unit.wire.columns.samples import (
    ALIAS,
    CLOCK,
    DEL,
    FULL_PUT,
    KEY,
    ROUTER,
    batch,
    decoded,
    forwarded_messages,
    frame,
    pushes,
    put,
    stamped,
)
from zenspark.errors import DecodeError, UnknownExtension, UsageError
from zenspark.wire._bytes import encode_vle
from zenspark.wire.codec import encode
from zenspark.wire.columns import (
    BatchDecoder,
    Framing,
    PushColumns,
    StopReason,
)
from zenspark.wire.message_schema import Message, replace
from zenspark.wire.messages import Close, Del, Fragment, KeepAlive, Push, Put, ResponseFinal
from zenspark.wire.values import (
    Encoding,
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


def test_rows_with_clock_number_and_attachment_of_their_own_share_a_template() -> None:
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
def test_other_differences_make_another_template(other: Push) -> None:
    first = put(timestamp=Timestamp(1, ROUTER), source_info=SourceInfo(ROUTER, 1, 3), attachment=b"1")
    columns, _, _ = decoded(batch(frame(first, other, first)))
    assert pushes(columns) == [first, other, first]
    assert list(columns.template_index) == [0, 1, 0]


def test_alternating_keys_are_found_again() -> None:
    sent = [put(key=WireExpr(0, f"fleet/robot{number % 10}/lidar/points")) for number in range(40)]
    columns, _, _ = decoded(batch(frame(*sent)))
    assert columns.template_count == 10
    assert pushes(columns) == sent


def test_the_lane_is_part_of_the_template() -> None:
    columns, _, _ = decoded(batch(frame(put()), frame(put(), reliable=False), frame(put()), frame(put(), sn=8)))
    assert [columns.template_at(index).reliable for index in columns.template_index] == [True, False, True, True]
    assert list(columns.template_index) == [0, 1, 0, 0]


def test_the_last_priority_of_a_frame_counts() -> None:
    data = bytes.fromhex("0a00" + "a507" + "b100" + "31fe00" + "5d0202")
    columns, decoder, reason = decoded(data)
    assert reason is StopReason.END
    assert list(columns.frame_lane) == [6 | 8]
    assert pushes(columns) == [Push(wire_expr=WireExpr(2), body=Del())]
    assert not decoder.in_frame


def test_empty_batches_are_passed_over() -> None:
    columns, decoder, reason = decoded(bytes(2) + batch(frame(put())) + bytes(4) + batch(frame(put())))
    assert reason is StopReason.END
    assert len(columns) == 2
    assert decoder.pos == len(decoder.data)


def test_incomplete_batch_is_not_decoded() -> None:
    first, second = batch(frame(put())), batch(frame(put(b"x"), put(b"y")))
    for cut in range(len(second)):
        columns, decoder, reason = decoded(first + second[:cut])
        assert reason is StopReason.END
        assert len(columns) == 1
        assert decoder.pos == decoder.batch_end == len(first)


@pytest.mark.parametrize(("framing", "width"), [(Framing.STREAM, 2), (Framing.BARE, 4)])
def test_an_oversized_batch_is_rejected_before_it_is_there(framing: Framing, width: int) -> None:
    first = (10).to_bytes(width, "little") + bytes(10)
    data = (0).to_bytes(width, "little") + (11).to_bytes(width, "little")
    columns = PushColumns(4)
    assert BatchDecoder(first[:width], framing, limit=10).decode(columns) is StopReason.END
    columns.clear()
    decoder = BatchDecoder(data, framing, limit=10)
    assert decoder.decode(columns) is StopReason.OVERSIZED
    assert decoder.pos == width
    assert decoder.decode(columns) is StopReason.OVERSIZED


def test_low_latency_batches_hold_bare_messages() -> None:
    data = batch(put(b"1"), put(b"2"), KeepAlive(), put(b"3"), width=4) + batch(ResponseFinal(request_id=1), width=4)
    columns = PushColumns(8)
    decoder = BatchDecoder(data, Framing.BARE)
    assert decoder.decode(columns) is StopReason.MESSAGE
    assert pushes(columns) == [put(b"1"), put(b"2")]
    assert decoder.message() == KeepAlive()
    assert decoder.decode(columns) is StopReason.MESSAGE
    assert pushes(columns) == [put(b"1"), put(b"2"), put(b"3")]
    assert decoder.message() == ResponseFinal(request_id=1)
    assert decoder.decode(columns) is StopReason.END
    assert columns.frame_count == 0
    assert columns.template_at(0).reliable
    assert columns.template_at(0).priority is Priority.DATA


def test_a_batch_may_come_without_a_length_inside_a_larger_buffer() -> None:
    content = encode(frame(put(), put()))
    data = bytearray(b"\xff" * 3 + content + b"\xff" * 3)
    columns = PushColumns(8)
    decoder = BatchDecoder(data, Framing.BATCH, pos=3, end=3 + len(content))
    assert decoder.decode(columns) is StopReason.END
    assert pushes(columns) == [put(), put()]
    assert BatchDecoder(b"", Framing.BATCH).decode(PushColumns(1)) is StopReason.END


@pytest.mark.parametrize("reliable", [True, False])
def test_single_message_is_decoded_with_the_given_lane(reliable: bool) -> None:
    decoder, columns = (
        BatchDecoder(encode(put()), Framing.MESSAGE, reliable=reliable, priority=Priority.REAL_TIME),
        PushColumns(2),
    )
    assert decoder.decode(columns) is StopReason.END
    assert pushes(columns) == [put()]
    assert (columns.template_at(0).reliable, columns.template_at(0).priority) == (reliable, Priority.REAL_TIME)
    assert columns.frame_count == 0


def test_fragment_payload_is_not_copied() -> None:
    piece = Fragment(more=True, reliable=True, sn=3, first=True, payload=b"part")
    data = bytearray(batch(piece))
    decoder = BatchDecoder(data)
    assert decoder.decode(PushColumns(1)) is StopReason.MESSAGE
    message = decoder.message()
    assert message == piece
    data[-1:] = b"k"
    assert isinstance(message, Fragment)
    assert message.payload == b"park"


def test_attachment_of_a_decoded_message_is_copied() -> None:
    data = bytearray(
        batch(frame(Push(wire_expr=KEY, exts=(Extension(0x2F, 7),), body=Put(payload=b"", attachment=b"a"))))
    )
    decoder = BatchDecoder(data)
    assert decoder.decode(PushColumns(1)) is StopReason.MESSAGE
    message = decoder.message()
    assert isinstance(message, Push)
    assert isinstance(message.body, Put)
    assert type(message.body.attachment) is bytes


def test_a_bare_frame_header_in_a_low_latency_batch_is_for_the_codec() -> None:
    decoder = BatchDecoder(batch(frame(put()), width=4), Framing.BARE)
    assert decoder.decode(PushColumns(1)) is StopReason.MESSAGE
    assert decoder.message() == frame(put())


def test_other_messages_are_decoded_in_order() -> None:
    other = ResponseFinal(request_id=9)
    data = batch(frame(put(b"1"), other, put(b"2"), sn=3), KeepAlive(), frame(put(b"3"), sn=4))
    columns, decoder, reason = decoded(data)
    assert reason is StopReason.MESSAGE
    assert pushes(columns) == [put(b"1")]
    assert (decoder.in_frame, decoder.sn) == (True, 3)
    assert decoder.message() == other
    assert decoder.decode(columns) is StopReason.MESSAGE
    assert not decoder.in_frame
    assert decoder.message() == KeepAlive()
    assert decoder.decode(columns) is StopReason.END
    assert pushes(columns) == [put(b"1"), put(b"2"), put(b"3")]
    assert list(columns.frame_row) == [0, 2]


def test_a_message_with_an_unknown_mandatory_extension_can_be_read_past() -> None:
    strange = Push(wire_expr=KEY, exts=(Extension(0x1F),), body=Put(payload=b"x"))
    columns, decoder, reason = decoded(batch(frame(strange, put(b"2"))))
    assert reason is StopReason.MESSAGE
    with pytest.raises(UnknownExtension):
        decoder.message()
    assert decoder.read_message_leniently() == strange
    assert decoder.decode(columns) is StopReason.END
    assert pushes(columns) == [put(b"2")]


def test_frame_continued_after_clear_is_marked() -> None:
    columns, decoder, _ = decoded(batch(frame(put(b"1"), ResponseFinal(request_id=9), put(b"2"), sn=3)))
    decoder.message()
    columns.clear()
    assert decoder.decode(columns) is StopReason.END
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
def test_push_with_fields_without_a_column_is_left_to_the_codec(push: Push) -> None:
    columns, decoder, reason = decoded(batch(frame(put(), push, put())))
    assert reason is StopReason.MESSAGE
    assert decoder.message() == push
    assert decoder.decode(columns) is StopReason.END
    assert pushes(columns) == [put(), put()]


def test_a_frame_with_an_unknown_extension_is_read_whole() -> None:
    strange = replace(frame(put(), put()), exts=(Extension(0x07),))
    columns, decoder, reason = decoded(batch(strange, frame(put())))
    assert reason is StopReason.MESSAGE
    assert decoder.message() == strange
    assert decoder.decode(columns) is StopReason.END
    assert pushes(columns) == [put()]


def test_full_columns_are_drained_and_filled_again() -> None:
    sent = [put(bytes([number])) for number in range(10)]
    columns, decoder, reason = decoded(batch(frame(*sent, sn=3)) + batch(frame(*sent, sn=4)), PushColumns(3))
    got = pushes(columns)
    while reason is StopReason.FULL:
        assert len(columns) == 3
        columns.clear()
        reason = decoder.decode(columns)
        got += pushes(columns)
    assert reason is StopReason.END
    assert got == sent * 2


def test_decoder_stops_at_full_templates_and_frames() -> None:
    data = batch(frame(put(), put(), put(key=WireExpr(1)), put()), frame(put(), sn=8), frame(sn=9))
    columns, decoder, reason = decoded(data, PushColumns(8, templates=1, frames=2))
    assert (reason, len(columns)) == (StopReason.FULL, 2)
    assert decoder.decode(columns) is StopReason.FULL
    columns.clear()
    assert decoder.decode(columns) is StopReason.FULL
    assert pushes(columns) == [put(key=WireExpr(1))]
    columns.clear()
    assert decoder.decode(columns) is StopReason.FULL
    assert pushes(columns) == [put(), put()]
    assert list(columns.frame_lane) == [5 | 8 | 16, 5 | 8]
    columns.clear()
    assert decoder.decode(columns) is StopReason.END
    assert list(columns.frame_sn) == [9]


def test_malformed_message_after_full_templates_is_a_decode_error() -> None:
    content = encode(frame(put())) + encode(put(key=WireExpr(1)))[:-1]
    columns, decoder, reason = decoded(len(content).to_bytes(2, "little") + content, PushColumns(8, templates=1))
    assert reason is StopReason.FULL
    columns.clear()
    assert decoder.decode(columns) is StopReason.MESSAGE
    with pytest.raises(DecodeError):
        decoder.message()


def test_message_for_the_codec_is_not_reported_as_full_after_full_templates() -> None:
    columns, _, reason = decoded(batch(frame(put(), put(key=WireExpr(1)))), PushColumns(8, templates=1))
    assert reason is StopReason.FULL
    columns.clear()
    strange = replace(put(), ts_stack=TimestampStack(1))
    _, decoder, reason = decoded(batch(frame(strange)), columns)
    assert reason is StopReason.MESSAGE
    assert decoder.message() == strange


def test_template_guesses_of_earlier_batches_do_not_change_rows() -> None:
    columns = PushColumns(8)
    for text in ("aa", "bb", "aa"):
        columns.clear()
        sent = [put(key=WireExpr(0, text)), put(key=WireExpr(0, "cc")), put(key=WireExpr(0, text))]
        BatchDecoder(batch(frame(*sent))).decode(columns)
        assert pushes(columns) == sent
        assert columns.template_count == 2


def test_there_is_no_message_between_batches() -> None:
    _, decoder, _ = decoded(batch(frame(put())))
    with pytest.raises(UsageError, match="no message here"):
        decoder.message()


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
def test_malformed_bytes_raise_the_decode_error_of_the_codec(hexes: str, problem: str) -> None:
    content = bytes.fromhex(hexes)
    good = batch(frame(put()))
    data = len(content).to_bytes(2, "little") + content
    for before, after in ((b"", b""), (good, good)):
        columns, decoder, reason = decoded(before + data + after)
        assert reason is StopReason.MESSAGE
        start = decoder.pos
        with pytest.raises(DecodeError) as caught:
            decoder.message()
        caught.value.position -= len(before)
        assert str(caught.value).startswith(problem)
        assert decoder.pos == start
        assert len(columns) == bool(before)


def test_a_complete_suffix_of_more_than_16_bits_is_no_row() -> None:
    content = bytes.fromhex("7d00") + encode_vle(65536) + b"a" * 65536 + b"\x02"
    columns, decoder = PushColumns(8), BatchDecoder(content, Framing.MESSAGE)
    assert decoder.decode(columns) is StopReason.MESSAGE
    assert len(columns) == 0
    with pytest.raises(DecodeError, match="PUSH: expected an integer of at most 16 bits"):
        decoder.message()


def test_a_cut_off_qos_is_no_row_whatever_bytes_the_buffer_starts_with() -> None:
    columns, decoder = PushColumns(8), BatchDecoder(bytes.fromhex("2502 dd0221"), Framing.BATCH)  # 02 is also a DEL
    assert decoder.decode(columns) is StopReason.MESSAGE
    assert len(columns) == 0
    with pytest.raises(DecodeError, match="PUSH: expected an integer at byte 5"):
        decoder.message()


@pytest.mark.parametrize("push", [put(), stamped((1 << 64) - 1, CLOCK), FULL_PUT, DEL])
def test_a_message_cut_off_anywhere_after_one_like_it_is_rejected(push: Push) -> None:
    whole = encode(push)
    for cut in range(1, len(whole)):
        content = encode(frame(push)) + whole[:cut]
        columns, decoder, reason = decoded(len(content).to_bytes(2, "little") + content)
        assert reason is StopReason.MESSAGE
        assert pushes(columns) == [push]
        with pytest.raises(DecodeError):
            decoder.message()


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
def test_non_canonical_encodings_decode_to_the_same_message(hexes: str, push: Push) -> None:
    content = bytes.fromhex("2507" + hexes * 2)
    columns, decoder, reason = decoded(len(content).to_bytes(2, "little") + content)
    by_codec: list[Message] = []
    while reason is StopReason.MESSAGE:
        by_codec.append(decoder.message())
        reason = decoder.decode(columns)
    assert reason is StopReason.END
    assert [*by_codec, *pushes(columns)] == [push, push]
    assert forwarded_messages(columns) == [
        replace(one, wire_expr=ALIAS, node_id=0, qos=QoS.DECLARE) for one in pushes(columns)
    ]


@pytest.mark.parametrize(
    "text",
    ["c3a9", "e0a080", "ed9fbf", "ee8080", "f0908080", "f48fbfbf", "61" * 9 + "c3a9", "c3a9" * 8 + "61"],
)
def test_valid_utf_8_suffix_is_decoded(text: str) -> None:
    key = bytes.fromhex(text).decode()
    columns, _, reason = decoded(batch(frame(put(key=WireExpr(0, key)))))
    assert reason is StopReason.END
    assert columns.template_at(0).wire_expr.suffix == key


@pytest.mark.parametrize(
    "text",
    ["80", "c1bf", "c3", "e09fbf", "eda080", "e282", "f08fbfbf", "f4908080", "f5808080", "e2e282", "61" * 9 + "ff"],
)
def test_invalid_utf_8_suffix_is_a_decode_error_of_the_codec(text: str) -> None:
    raw = bytes.fromhex(text)
    content = bytes([0x25, 7, 0x7D, 0, len(raw)]) + raw + bytes([1, 0])
    _, decoder, reason = decoded(len(content).to_bytes(2, "little") + content)
    assert reason is StopReason.MESSAGE
    with pytest.raises(DecodeError, match="expected UTF-8 text"):
        decoder.message()


STREAMS = Path(__file__).parents[3] / "vectors" / "streams"


@pytest.mark.parametrize(
    "name", ["pubsub_client_router", "advanced_pubsub_client_router", "router_router", "peer_peer"]
)
@pytest.mark.parametrize("side", ["c2s", "s2c"])
def test_captured_conversations_write_back_to_the_same_bytes(name: str, side: str) -> None:
    data = (STREAMS / f"{name}.{side}.bin").read_bytes()
    columns, decoder, reason = decoded(data, PushColumns(512))
    while reason is StopReason.MESSAGE:
        before = decoder.pos
        message = decoder.message()
        assert encode(message) == data[before : decoder.pos]
        reason = decoder.decode(columns)
    assert reason is StopReason.END
    assert decoder.pos == len(data)
    for row in range(len(columns)):
        stop = columns.payload_stop[row]
        written = encode(columns.push(row))
        assert data[stop - len(written) : stop] == written


@pytest.mark.parametrize(("pos", "end"), [(-1, 2), (2, 1), (0, 4)])
def test_a_decoder_stays_inside_its_buffer(pos: int, end: int) -> None:
    with pytest.raises(IndexError):
        BatchDecoder(b"abc", pos=pos, end=end)


def test_buffer_of_4_gib_is_a_usage_error(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("w+b") as file:
        file.truncate(1 << 32)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            with pytest.raises(UsageError, match="32 bits"):
                BatchDecoder(view)
            del view


def test_close_ends_a_batch_for_columns_too() -> None:
    columns, decoder, reason = decoded(batch(frame(put()), Close(session=False, reason=0)))
    assert reason is StopReason.MESSAGE
    assert decoder.message() == Close(session=False, reason=0)
    assert decoder.decode(columns) is StopReason.END
