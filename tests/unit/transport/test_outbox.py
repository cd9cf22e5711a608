"""Messages in, batches out: packing, fragments, and bytes equal to the object codec's."""

from __future__ import annotations

from array import array
from itertools import accumulate

import pytest

from zenspark.errors import LimitExceeded
from zenspark.transport.counters import KINDS, MessageKind
from zenspark.transport.framing import decompress
from zenspark.transport.outbox import APPEND_REFUSED, APPENDED, BATCH_FULL, FRAME_HEADER_RESERVE, Outbox
from zenspark.wire._bytes import encode_vle
from zenspark.wire.buffer import Writer
from zenspark.wire.codec import decode_bare_batch, decode_batch, decode_network, encode
from zenspark.wire.columns import (
    NO_LANE,
    BatchDecoder,
    BinaryColumn,
    Framing,
    OutgoingRows,
    PushColumns,
    RowForwarder,
    RowKind,
    StopReason,
)
from zenspark.wire.messages import (
    Declare,
    Del,
    Fragment,
    Frame,
    Interest,
    NetworkMessage,
    NetworkOam,
    Push,
    Put,
    Request,
    Response,
    ResponseFinal,
    TransportMessage,
)
from zenspark.wire.values import Priority, QoS, WireExpr

MASK = 0x0FFF_FFFF


def message(payload: bytes = b"x") -> bytes:
    return encode(Push(wire_expr=WireExpr(1), body=Put(payload=payload)))


def batches(outbox: Outbox) -> list[bytes]:
    found = []
    for batch in outbox.pop_all():
        assert int.from_bytes(batch[:2], "little") == len(batch) - 2
        found.append(bytes(batch[2:]))
    return found


def test_messages_share_a_frame_and_a_batch() -> None:
    outbox = Outbox(2048, 100, MASK)
    assert outbox.is_empty
    for _ in range(3):
        assert not outbox.append(5, True, message())
    assert not outbox.is_empty
    (batch,) = batches(outbox)
    push = decode_network(message())
    assert decode_batch(batch) == (Frame(reliable=True, sn=100, msgs=(push,) * 3),)
    assert batch == encode(Frame(reliable=True, sn=100, msgs=(push,) * 3))
    assert outbox.is_empty


def test_separate_payload_is_appended_after_its_header() -> None:
    outbox = Outbox(65535, 0, MASK)
    whole = message(b"z" * 300)
    head = whole[: -300 - len(encode_vle(300))]
    outbox.append(5, True, head, b"z" * 300)
    outbox.append(5, True, head, memoryview(b"z" * 300))
    outbox.append(5, True, whole)
    (batch,) = batches(outbox)
    (frame,) = decode_batch(batch)
    assert isinstance(frame, Frame)
    assert frame.msgs == (decode_network(whole),) * 3


def test_every_lane_counts_on_its_own_and_wraps_around() -> None:
    outbox = Outbox(2048, 0x7F, 0x7F)
    for _ in range(2):
        outbox.append(5, True, message())
        outbox.append(5, False, message())
        outbox.append(1, True, message())
        frames = [frame for batch in batches(outbox) for frame in decode_batch(batch)]
        assert all(isinstance(frame, Frame) for frame in frames)
        found = {(frame.priority, frame.reliable): frame.sn for frame in frames if isinstance(frame, Frame)}
        expected = 0x7F if _ == 0 else 0
        assert found == {
            (Priority.REAL_TIME, True): expected,
            (Priority.DATA, True): expected,
            (Priority.DATA, False): expected,
        }


def test_urgent_batches_go_first() -> None:
    outbox = Outbox(2048, 0, MASK)
    for priority in (7, 0, 5):
        outbox.append(priority, True, message())
    frames = [decode_batch(batch)[0] for batch in batches(outbox)]
    assert [frame.priority for frame in frames if isinstance(frame, Frame)] == [0, 5, 7]


def test_without_qos_all_messages_share_one_lane_without_priority() -> None:
    outbox = Outbox(2048, 9, MASK, qos=False)
    outbox.append(1, True, message())
    outbox.append(7, True, message())
    (batch,) = batches(outbox)
    (frame,) = decode_batch(batch)
    assert isinstance(frame, Frame)
    assert (frame.sn, frame.priority, len(frame.msgs)) == (9, Priority.DATA, 2)


@pytest.mark.parametrize("size", [64, 256, 2048])
def test_no_batch_is_larger_than_agreed_and_full_ones_are_ready(size: int) -> None:
    outbox = Outbox(size, 0, MASK)
    ready = [outbox.append(5, True, message(b"12345678")) for _ in range(300)]
    assert any(ready)
    full = outbox.pop_full_batches()
    assert full
    rest = outbox.pop_all()
    assert all(len(batch) <= size for batch in [*full, *rest])
    frames = [decode_batch(bytes(batch[2:]))[0] for batch in [*full, *rest]]
    assert sum(len(frame.msgs) for frame in frames if isinstance(frame, Frame)) == 300


@pytest.mark.parametrize(("apart", "sizes"), [(False, [5]), (True, [2, 1, 1, 1])])
def test_finals_may_have_a_frame_of_their_own(apart: bool, sizes: list[int]) -> None:
    """RE-73."""
    outbox = Outbox(2048, 100, MASK, separate_final_frames=apart)
    final = encode(ResponseFinal(request_id=7))
    ready = [outbox.append(5, True, one) for one in (message(b"x"), message(b"y"), final, final, message(b"z"))]
    assert ready == [False, False, apart, apart, False]
    frames = [
        frame for batch in outbox.pop_all() for frame in decode_batch(bytes(batch[2:])) if isinstance(frame, Frame)
    ]
    assert [len(frame.msgs) for frame in frames] == sizes
    assert [frame.sn for frame in frames] == list(range(100, 100 + len(sizes)))


def test_a_batch_holds_one_frame_of_one_reliability() -> None:
    """MR-8, MR-71: a FRAME goes to the end of its batch, and each batch has a length of its own."""
    outbox = Outbox(2048, 100, MASK)
    reliabilities = [True, True, False, True, False, False]
    ready = [outbox.append(5, reliable, message(b"x")) for reliable in reliabilities]
    assert ready == [False, False, True, True, True, False]
    outbox.append_forwarded(relay_of(*[Push(wire_expr=WireExpr(1), body=Put(payload=b"x"))] * 2))
    batches = [decode_batch(bytes(batch[2:])) for batch in outbox.pop_all()]
    assert [len(batch) for batch in batches] == [1] * 5
    frames = [frame for (frame,) in batches if isinstance(frame, Frame)]
    assert [(frame.reliable, len(frame.msgs)) for frame in frames] == [
        (True, 2),
        (False, 1),
        (True, 1),
        (False, 2),
        (True, 2),
    ]


@pytest.mark.parametrize("priority", [5, 2])
@pytest.mark.parametrize("reliable", [True, False])
def test_large_messages_are_sent_as_marked_fragments(priority: int, reliable: bool) -> None:
    outbox = Outbox(256, 10, MASK)
    outbox.append(priority, reliable, message(b"first"))
    large = message(bytes(1000))
    assert outbox.append(priority, reliable, large)
    outbox.append(priority, reliable, message(b"last"))
    found = [decode_batch(batch) for batch in batches(outbox)]
    assert all(len(one) == 1 for one in found)
    pieces = [one[0] for one in found if isinstance(one[0], Fragment)]
    assert [type(one[0]) for one in found] == [Frame, *[Fragment] * len(pieces), Frame]
    assert [piece.first for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert [piece.more for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert [piece.sn for piece in pieces] == list(range(11, 11 + len(pieces)))
    assert {piece.priority for piece in pieces} == {priority}
    assert {piece.reliable for piece in pieces} == {reliable}
    assert b"".join(piece.payload for piece in pieces) == large


def test_message_that_just_fits_a_batch_is_not_fragmented() -> None:
    outbox, head = Outbox(256, 0, MASK), message(b"")[:-1]
    payload = bytes(256 - FRAME_HEADER_RESERVE - len(head) - 5)
    assert not outbox.append(5, True, head, payload)
    (batch,) = batches(outbox)
    assert decode_batch(batch) == (Frame(reliable=True, sn=0, msgs=(decode_network(message(payload)),)),)


def test_batches_are_compressed_where_agreed() -> None:
    outbox = Outbox(2048, 0, MASK, compression=True)
    for _ in range(20):
        outbox.append(5, True, message(b"a" * 50))
    (batch,) = batches(outbox)
    assert len(batch) < 200
    (frame,) = decode_batch(bytes(decompress(batch)))
    assert isinstance(frame, Frame)
    assert len(frame.msgs) == 20


def test_low_latency_messages_are_sent_at_once_without_frames() -> None:
    outbox = Outbox(2048, 0, MASK, qos=False, low_latency=True)
    assert outbox.append(5, True, message())
    (batch,) = outbox.pop_all()
    assert int.from_bytes(batch[:4], "little") == len(batch) - 4
    assert decode_bare_batch(bytes(batch[4:])) == (decode_network(message()),)
    with pytest.raises(LimitExceeded, match="low-latency"):
        outbox.append(5, True, message(bytes(3000)))


# -- rows ----------------------------------------------------------------------------------------------------------

BUFFER_BYTES = 1 << 18


def rows_of(payloads: list[bytes], qos: QoS = QoS.DEFAULT) -> OutgoingRows:
    offsets = array("i", [0, *accumulate(map(len, payloads))])
    return OutgoingRows(len(payloads), WireExpr(1), BinaryColumn.from_offsets(b"".join(payloads), offsets), qos=qos)


def append_and_pop(
    outbox: Outbox, rows: OutgoingRows, priority: int = 5, reliable: bool = True, room: int = BUFFER_BYTES
) -> list[bytes]:
    """Everything there is to send once all rows are in it, as a stream carries it."""
    found = []
    while rows.row < rows.count:
        outbox.append_rows(priority, reliable, rows, bytearray(room) if room else None)
        found += [bytes(batch) for batch in outbox.pop_all()]
    return found


def decode_stream(writes: list[bytes], compressed: bool = False) -> list[TransportMessage]:
    """The messages in what was written to a stream."""
    stream = b"".join(writes)
    found: list[TransportMessage] = []
    while stream:
        size = int.from_bytes(stream[:2], "little")
        batch = stream[2 : 2 + size]
        found += decode_batch(bytes(decompress(batch)) if compressed else batch)
        stream = stream[2 + size :]
    return found


def payloads_in(messages: list[TransportMessage]) -> list[bytes]:
    """What was published, fragments joined."""
    found, pieces = [], b""
    for message in messages:
        if isinstance(message, Fragment):
            pieces += message.payload
            pushes = [] if message.more else [decode_network(pieces)]
            pieces = pieces if message.more else b""
        else:
            assert isinstance(message, Frame)
            pushes = list(message.msgs)
        found += [push.body.payload for push in pushes if isinstance(push, Push) and isinstance(push.body, Put)]
    return found


PAYLOADS = [b"%d" % number * (number % 7) for number in range(3000)]


@pytest.mark.parametrize("size", [64, 256, 2048, 65535])
@pytest.mark.parametrize("priority", [5, 1])
@pytest.mark.parametrize("reliable", [True, False])
def test_rows_go_out_in_order_in_batches_no_larger_than_agreed(size: int, priority: int, reliable: bool) -> None:
    writes = append_and_pop(Outbox(size, 7, MASK), rows_of(PAYLOADS), priority, reliable)
    frames = [frame for frame in decode_stream(writes) if isinstance(frame, Frame)]
    assert all(len(encode(frame)) + 2 <= size for frame in frames)
    assert [frame.sn for frame in frames] == list(range(7, 7 + len(frames)))
    assert {(frame.priority, frame.reliable) for frame in frames} == {(Priority(priority), reliable)}
    assert payloads_in(decode_stream(writes)) == PAYLOADS


@pytest.mark.parametrize("low_latency", [False, True])
def test_messages_are_counted_by_kind(low_latency: bool) -> None:
    outbox = Outbox(2048, 0, MASK, low_latency=low_latency)
    assert outbox.sent_by_kind == {}
    for number, kind in enumerate(KINDS):
        for _ in range(number + 1):
            outbox.append(5, True, bytes([NETWORK_IDS[kind]]), None)
    assert outbox.sent_by_kind == {kind: number + 1 for number, kind in enumerate(KINDS.values())}
    append_and_pop(outbox, rows_of([b"x"] * 10 + [bytes(1000)] * 3))
    if not low_latency:
        outbox.append(5, True, message(bytes(5000)))
        append_and_pop(outbox, rows_of([bytes(5000)]))
    assert outbox.sent_by_kind[MessageKind.PUSH] == 1 + 13 + 2 * (not low_latency)


NETWORK_IDS: dict[type[NetworkMessage], int] = {
    Interest: 0x19,
    ResponseFinal: 0x1A,
    Response: 0x1B,
    Request: 0x1C,
    Push: 0x1D,
    Declare: 0x1E,
    NetworkOam: 0x1F,
}


def test_row_batches_are_contiguous_in_the_given_buffer() -> None:
    outbox, rows, room = Outbox(256, 0, MASK), rows_of(PAYLOADS), bytearray(1000)
    outbox.append_rows(5, True, rows, room)
    (run,) = outbox.pop_all()
    assert isinstance(run, memoryview)
    assert run.obj is room
    assert 0 < rows.row < rows.count
    assert len(decode_stream([bytes(run)])) > 1


def test_row_batches_are_separate_without_a_buffer() -> None:
    writes = append_and_pop(Outbox(256, 0, MASK), rows_of([*PAYLOADS, bytes(1000), b"last"]), room=0)
    assert all(len(decode_stream([write])) == 1 and len(write) <= 256 for write in writes)
    assert payloads_in(decode_stream(writes)) == [*PAYLOADS, bytes(1000), b"last"]


def test_compressed_batches_of_rows_are_one_by_one() -> None:
    payloads = [*PAYLOADS, bytes(5000), b"last"]
    writes = append_and_pop(Outbox(2048, 0, MASK, compression=True), rows_of(payloads))
    assert all(len(write) <= 2048 for write in writes)
    assert payloads_in(decode_stream(writes, compressed=True)) == payloads


def test_row_that_just_fits_a_compressed_batch_is_not_fragmented() -> None:
    payload = bytes(range(244))
    frame = Frame(reliable=True, sn=0, msgs=(Push(wire_expr=WireExpr(1), body=Put(payload=payload)),))
    size = 2 + 1 + len(encode(frame))  # behind the length and the byte that marks whether the rest is compressed
    (write,) = append_and_pop(Outbox(size, 0, MASK, compression=True), rows_of([payload]))
    assert len(write) == size
    assert decode_stream([write], compressed=True) == [frame]


def test_low_latency_rows_are_written_without_frames_until_the_buffer_is_full() -> None:
    outbox, rows = Outbox(2048, 0, MASK, qos=False, low_latency=True), rows_of([b"12345678"] * 100)
    outbox.append_rows(5, True, rows, bytearray(100))
    assert 0 < rows.row < 100
    written = outbox.pop_all()
    while rows.row < rows.count:
        outbox.append_rows(5, True, rows)
        written += outbox.pop_all()
    assert [int.from_bytes(batch[:4], "little") for batch in written] == [len(batch) - 4 for batch in written]
    assert [decode_bare_batch(bytes(batch[4:])) for batch in written] == [(decode_network(message(b"12345678")),)] * 100
    with pytest.raises(LimitExceeded, match="low-latency"):
        outbox.append_rows(5, True, rows_of([bytes(3000)]))


def test_low_latency_deletions_are_written_without_frames() -> None:
    outbox = Outbox(2048, 0, MASK, qos=False, low_latency=True)
    outbox.append_rows(5, True, OutgoingRows(1, WireExpr(1), None, kind=RowKind.DEL))
    (batch,) = outbox.pop_all()
    assert decode_bare_batch(bytes(batch[4:])) == (Push(wire_expr=WireExpr(1), body=Del()),)


def test_rows_larger_than_a_batch_are_fragmented_in_order() -> None:
    payloads = [b"first", bytes(1000), b"between", bytes(range(256)) * 3, bytes(700), b"last"]
    outbox, rows = Outbox(256, 10, MASK), rows_of(payloads)
    writes = append_and_pop(outbox, rows)
    messages = decode_stream(writes)
    assert payloads_in(messages) == payloads
    sns = [message.sn for message in messages if isinstance(message, Frame | Fragment)]
    assert sns == list(range(10, 10 + len(messages)))
    assert len(writes) < 6, "rows are written together"


@pytest.mark.parametrize("room", [0, 512, 1 << 16])
def test_rows_that_do_not_fit_the_buffer_are_written_separately(room: int) -> None:
    payloads = [bytes(2000), b"1", bytes(900), bytes(300), bytes(200), b"2"]
    outbox, rows = Outbox(256, 10, MASK, streamed=room > 0), rows_of(payloads)
    messages = decode_stream(append_and_pop(outbox, rows, room=room))
    assert payloads_in(messages) == payloads
    sns = [message.sn for message in messages if isinstance(message, Frame | Fragment)]
    assert sns == list(range(10, 10 + len(messages)))


def test_a_row_that_does_not_fit_behind_others_is_left_for_the_next_buffer() -> None:
    outbox, rows, size = Outbox(256, 10, MASK, streamed=True), rows_of([bytes(50), bytes(700)]), 760
    written = []
    for count in (1, 2):
        outbox.append_rows(5, True, rows, bytearray(size))
        assert rows.row == count
        written += [bytes(batch) for batch in outbox.pop_all()]
    assert [len(batch) <= size for batch in written] == [True, True]
    assert payloads_in(decode_stream(written)) == [bytes(50), bytes(700)]


@pytest.mark.parametrize("streamed", [True, False])
def test_fragments_are_written_together_on_a_stream(streamed: bool) -> None:
    outbox = Outbox(256, 10, MASK, streamed=streamed)
    assert outbox.append(5, True, message(bytes(700)))
    writes = [bytes(batch) for batch in outbox.pop_all()]
    assert len(writes) == (1 if streamed else 3)
    assert payloads_in(decode_stream(writes)) == [bytes(700)]


def test_batches_of_a_buffer_that_are_not_sent_are_counted() -> None:
    separate, joined = Outbox(64, 0, MASK), Outbox(64, 0, MASK, streamed=True)
    for outbox in (separate, joined):
        outbox.append(5, True, message(b"x" * 500))
    fragments = separate.pop_all()
    assert [separate.count_batches(fragment) for fragment in fragments] == [1] * len(fragments)
    stops = list(accumulate(map(len, fragments)))
    (buffer,) = joined.pop_all()
    for sent in range(len(buffer)):
        assert joined.count_batches(buffer, sent) == sum(stop > sent for stop in stops)


def test_low_latency_message_counts_as_one_batch() -> None:
    outbox = Outbox(2048, 0, MASK, qos=False, low_latency=True, streamed=True)
    outbox.append(5, True, message(b"x" * 500))
    (batch,) = outbox.pop_all()
    assert outbox.count_batches(batch) == outbox.count_batches(batch, len(batch) - 1) == 1


def test_memory_reserved_for_fragments_is_enough_for_every_size() -> None:
    """The longest headers: a 32-bit number and a priority in each fragment."""
    head = message(b"")[:-1]
    for size in range(50, 700):
        outbox = Outbox(64, 0xFFFF_FF00, 0xFFFF_FFFF, streamed=True)
        outbox.append(1, True, head, bytes(size))
        outbox.append(1, True, message(bytes(size)))
        writes = [bytes(batch) for batch in outbox.pop_all()]
        assert payloads_in(decode_stream(writes)) == [bytes(size)] * 2


def test_sequence_numbers_of_rows_wrap_around_and_continue_those_of_messages() -> None:
    outbox = Outbox(64, 0x7E, 0x7F)
    outbox.append(5, True, message(b"before"))
    outbox.append(1, True, message(b"urgent"))
    found = append_and_pop(outbox, rows_of([b"0123456789" * 3] * 3))
    outbox.append(5, True, message(b"after"))
    frames = decode_stream([*found, *[bytes(batch) for batch in outbox.pop_all()]])
    assert payloads_in(frames) == [b"before", *[b"0123456789" * 3] * 3, b"urgent", b"after"]
    data = [frame.sn for frame in frames if isinstance(frame, Frame) and frame.priority is Priority.DATA]
    assert data == [0x7E, 0x7F, 0, 1, 2]


def test_without_qos_rows_have_the_default_priority() -> None:
    outbox = Outbox(2048, 0, MASK, qos=False)
    (frame,) = decode_stream(append_and_pop(outbox, rows_of([b"1"]), priority=1))
    assert isinstance(frame, Frame)
    assert frame.priority is Priority.DATA


@pytest.mark.parametrize("value", [0, 127, 128, 2**56 - 1, 2**56, 2**64 - 1])
def test_encode_vle_equals_the_codec(value: int) -> None:
    out = Writer()
    out.z(value, 64, "value")
    assert encode_vle(value) == bytes(out.data)


def test_lockfree_append_only_while_allowed() -> None:
    outbox = Outbox(300, 0, MASK)
    head = message(b"")[:-1]
    assert outbox.try_append_lockfree(5, True, head, b"1") == APPEND_REFUSED
    assert outbox.is_empty
    outbox.lockfree_append_allowed = True
    assert outbox.try_append_lockfree(5, True, head, b"2" * 200) == APPENDED
    assert outbox.try_append_lockfree(5, True, head, b"3" * 200) == BATCH_FULL
    outbox.lockfree_append_allowed = False
    assert outbox.try_append_lockfree(5, True, head, b"4") == APPEND_REFUSED
    frames = [frame for batch in batches(outbox) for frame in decode_batch(batch)]
    assert frames == [
        Frame(reliable=True, sn=sn, msgs=(Push(wire_expr=WireExpr(1), body=Put(payload=payload * 200)),))
        for sn, payload in enumerate((b"2", b"3"))
    ]


# -- rows that are passed on


def relay_of(*pushes: Push, reliable: bool = True) -> RowForwarder:
    """Rows that go on as they are, in the lanes they name; those under the key `kept` do not."""
    columns = PushColumns(64)
    content = encode(Frame(reliable=reliable, sn=1, msgs=pushes))
    assert BatchDecoder(content, Framing.BATCH).decode(columns) is StopReason.END
    templates = [columns.template_at(index) for index in range(columns.template_count)]
    lanes = [
        NO_LANE if template.wire_expr.suffix == "kept" else template.qos.priority | 8 * reliable
        for template in templates
    ]
    heads = [encode(Push(wire_expr=template.wire_expr, qos=template.qos, body=Del()))[:-1] for template in templates]
    return RowForwarder(columns, 0, len(columns), bytes(lanes), heads, b"\1")


def of(payload: bytes, priority: Priority = Priority.DATA, key: str = "k") -> Push:
    return Push(wire_expr=WireExpr(0, key), qos=QoS(priority), body=Put(payload=payload))


MANY = [
    *(of(bytes([number]) * number) for number in range(40)),
    of(b"f" * 300),
    of(b"kept", key="kept"),
    of(b"a", Priority.REAL_TIME),
    of(b"b"),
    of(b"c", Priority.REAL_TIME),
    of(b"kept", key="kept"),
]


@pytest.mark.parametrize("size", [64, 100, 200, 65535])
@pytest.mark.parametrize(("qos", "compression"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("reliable", [True, False])
def test_forwarded_rows_are_written_as_if_appended(size: int, qos: bool, compression: bool, reliable: bool) -> None:
    one, other = (Outbox(size, 1, MASK, qos, compression) for _ in range(2))
    for outbox in (one, other):
        outbox.append(5, True, message(b"before"))
        outbox.lockfree_append_allowed = True
    for push in MANY:
        if push.wire_expr.suffix != "kept":
            one.append(push.qos.priority, reliable, encode(push))
    rows = relay_of(*MANY, reliable=reliable)
    while rows.lane >= 0:
        other.append_forwarded(rows)
    assert not other.lockfree_append_allowed
    assert other.next_sns == one.next_sns
    assert other.sent_by_kind == one.sent_by_kind == {MessageKind.PUSH: 1 + len(MANY) - 2}
    assert batches(other) == batches(one)


def test_forwarded_low_latency_rows_are_one_batch_each_within_the_limit() -> None:
    outbox = Outbox(64, 0, MASK, low_latency=True)
    rows = relay_of(of(b"a"), of(b"large" * 20), of(b"b"))
    outbox.append_forwarded(rows)
    with pytest.raises(LimitExceeded):
        outbox.append_forwarded(rows)
    outbox.append_forwarded(rows)
    assert rows.lane < 0
    assert [decode_bare_batch(bytes(batch[4:])) for batch in outbox.pop_all()] == [(of(b"a"),), (of(b"b"),)]
