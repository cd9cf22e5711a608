"""Rows are encoded as the object codec would, or left to it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import pytest

from tests.unit.wire.columns.samples import (
    CLOCK,
    KEY,
    ROUTER,
    batch,
    frame,
    put,
)
from zenspark.errors import EncodeError, UsageError
from zenspark.wire.codec import encode
from zenspark.wire.columns import (
    ABSENT,
    BatchEncoder,
    BinaryColumn,
    Framing,
    OutgoingRows,
    RowKind,
    StopReason,
)
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Del, Push
from zenspark.wire.values import (
    Congestion,
    Encoding,
    Mapping,
    Priority,
    QoS,
    SourceInfo,
    Timestamp,
    WireExpr,
    ZenohId,
)


def test_encoder_with_message_framing_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="writes batches, not"):
        BatchEncoder(Framing.MESSAGE)


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


def test_head_and_payload_returns_the_payload_without_a_copy() -> None:
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


def test_head_and_payload_of_a_row_for_the_codec_is_the_whole_message() -> None:
    rows = OutgoingRows(2, WireExpr(1), spans_of([b"x", None]), source_zid=BinaryColumn.constant(b"\7\0"))
    assert rows.head_and_payload(0) == (encode(rows.push(0)), None)
    with pytest.raises(UsageError, match="row 1 is a PUT without a payload"):
        rows.head_and_payload(1)


def test_deletions_need_no_payload() -> None:
    rows = OutgoingRows(2, spans_of([b"a", b""]), kind=RowKind.DEL, encoding=BinaryColumn.constant(b"\x08"))
    sent = [Push(wire_expr=WireExpr(0, key), body=Del()) for key in ("a", "")]
    assert written(rows) == batch(frame(*sent, sn=0))


def test_frames_have_the_lane_of_the_encoder() -> None:
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
            "65536 bytes do not fit a 16-bit length",
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
def test_invalid_row_is_left_to_the_codec_which_raises(rows: OutgoingRows, problem: str) -> None:
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


def test_buffer_smaller_than_a_batch_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="too few for a batch of 102"):
        BatchEncoder(limit=100).encode(OutgoingRows(0, KEY), bytearray(101))
    for limit in (15, 65_536):
        with pytest.raises(UsageError, match="a batch can have 16 to 65535 bytes"):
            BatchEncoder(limit=limit)
    assert BatchEncoder(Framing.BARE, limit=65_536).limit == 65_536


def test_encoding_into_a_read_only_buffer_raises() -> None:
    with pytest.raises((BufferError, TypeError, ValueError)):
        BatchEncoder(limit=16).encode(OutgoingRows(1, KEY, PAYLOAD), memoryview(bytes(100)))
    assert written(OutgoingRows(0, KEY)) == b""
