"""The lanes of one node, walked through without a session around them."""

from __future__ import annotations

import pytest

from zenspark.errors import DecodeError, LimitExceeded, ProtocolError, UnknownExtension
from zenspark.transport.counters import LossReason, MessageKind
from zenspark.transport.reassembly import ReassemblyPool
from zenspark.transport.receiver import (
    Closed,
    FrameReceiver,
    LaneParameters,
    MessageReceived,
    MessageRejected,
    ReceiverEvent,
)
from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, PushRun
from zenspark.wire.messages import (
    Close,
    Declare,
    DeclareFinal,
    DeclareSubscriber,
    Del,
    Err,
    Fragment,
    Frame,
    Interest,
    Join,
    KeepAlive,
    NetworkMessage,
    NetworkOam,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
)
from zenspark.wire.values import Extension, InterestMode, NextSns, Priority, TimeUnit, WhatAmI, WireExpr, ZenohId

FIRST = NextSns(tuple((10 * priority, 10 * priority + 5) for priority in Priority))
JOIN = Join(version=9, whatami=WhatAmI.PEER, zid=ZenohId(0xF), unit=TimeUnit.S, lease=10, sn_re=7, sn_be=9)


def push(payload: bytes = b"x") -> Push:
    return Push(wire_expr=WireExpr(0, "demo/k"), body=Put(payload=payload))


def frame(*messages: NetworkMessage, sn: int, priority: Priority = Priority.DATA, reliable: bool = True) -> bytes:
    return encode(Frame(reliable=reliable, sn=sn, priority=priority, msgs=messages))


@pytest.fixture
def receiver() -> FrameReceiver:
    return FrameReceiver(
        LaneParameters(qos=True, sn_mask=0x7F, patch=1, initial_sns=FIRST, message_limit=100), PushColumns(8)
    )


def receive_all(
    receiver: FrameReceiver, data: bytes | bytearray, framing: Framing = Framing.BATCH, limit: int = 0xFFFF
) -> list[ReceiverEvent]:
    """What the bytes mean, with publications as messages."""
    events: list[ReceiverEvent] = []
    for event in receiver.events(BatchDecoder(data, framing, limit)):
        if isinstance(event, PushRun):
            events += [MessageReceived(event.columns.push(row), True) for row in range(event.start, event.stop)]
        else:
            events.append(event)
    return events


@pytest.mark.parametrize("priority", Priority)
@pytest.mark.parametrize("reliable", [True, False])
def test_each_lane_begins_where_it_was_announced(receiver: FrameReceiver, priority: Priority, reliable: bool) -> None:
    first = FIRST.pairs[priority][0 if reliable else 1]
    batch = b"".join(frame(push(), sn=sn & 0x7F, priority=priority, reliable=reliable) for sn in (first - 1, first))
    assert len(receive_all(receiver, batch)) == 1


def test_events_are_in_order_and_keep_alives_ignored(receiver: FrameReceiver) -> None:
    messages = [push(b"1"), Declare(body=DeclareFinal()), push(b"2")]
    batch = frame(*messages, sn=50) + encode(KeepAlive()) + encode(JOIN) + encode(Close(session=False, reason=5))
    *received, join, closed = receive_all(receiver, batch)
    assert received == [MessageReceived(message, True) for message in messages]
    assert join == JOIN
    assert isinstance(closed, Closed)
    assert (closed.reason, closed.by_peer) == (5, True)


def test_shared_columns_may_be_used_by_another_receiver_after_a_message(receiver: FrameReceiver) -> None:
    """A node handles many small messages of one link in portions; another link, or its end, comes in between."""
    other = FrameReceiver(
        LaneParameters(qos=True, sn_mask=0x7F, patch=1, initial_sns=FIRST, message_limit=100), receiver._columns
    )
    final = ResponseFinal(request_id=1)
    events = receiver.events(BatchDecoder(frame(push(b"1"), final, push(b"2"), sn=50), Framing.BATCH))

    def payloads(event: ReceiverEvent) -> list[NetworkMessage]:
        assert isinstance(event, PushRun)
        return [event.columns.push(row) for row in range(event.start, event.stop)]

    assert payloads(next(events)) == [push(b"1")]
    assert next(events) == MessageReceived(final, True)
    elsewhere = other.events(BatchDecoder(frame(push(b"3"), push(b"4"), sn=50), Framing.BATCH))
    assert payloads(next(elsewhere)) == [push(b"3"), push(b"4")]
    assert payloads(next(events)) == [push(b"2")]


def test_fragments_are_joined_and_a_message_without_its_first_fragment_is_lost(receiver: FrameReceiver) -> None:
    raw = encode(push(b"y" * 40))
    pieces = [
        encode(Fragment(more=True, reliable=True, sn=50, first=True, payload=raw[:20])),
        encode(Fragment(more=False, reliable=True, sn=51, payload=raw[20:])),
    ]
    assert receive_all(receiver, pieces[0]) == []
    assert receive_all(receiver, pieces[1]) == [MessageReceived(push(b"y" * 40), True)]
    assert receive_all(receiver, pieces[1]) == []
    late = encode(Fragment(more=False, reliable=True, sn=60, payload=raw[20:]))
    assert receive_all(receiver, late) == []
    assert receiver.receive_counters.lost == {LossReason.FIRST_FRAGMENT_MISSING: 1}


def test_memory_of_unfinished_messages_is_released_at_the_end() -> None:
    pool = ReassemblyPool(100)
    lanes = LaneParameters(qos=True, sn_mask=0x7F, patch=1, initial_sns=FIRST, message_limit=100)
    receiver = FrameReceiver(lanes, PushColumns(8), share=pool.new_share())
    receive_all(receiver, encode(Fragment(more=True, reliable=True, sn=50, first=True, payload=bytes(20))))
    receive_all(receiver, encode(Fragment(more=True, reliable=False, sn=55, first=True, payload=bytes(30))))
    assert pool.used == 50
    receiver.end()
    assert pool.used == 0


def test_any_network_message_may_arrive_in_separate_fragments(receiver: FrameReceiver) -> None:
    raw = encode(Declare(body=DeclareFinal()))
    assert receive_all(receiver, encode(Fragment(more=True, reliable=True, sn=50, first=True, payload=raw[:1]))) == []
    last = encode(Fragment(more=False, reliable=True, sn=51, payload=raw[1:]))
    assert receive_all(receiver, last) == [MessageReceived(Declare(body=DeclareFinal()), True)]


def stream(*batches: bytes) -> bytearray:
    return bytearray(b"".join(len(one).to_bytes(2, "little") + one for one in batches))


def encoded_fragments(message: NetworkMessage, sn: int, reliable: bool = True) -> list[bytes]:
    raw = encode(message)
    return [
        encode(Fragment(more=True, reliable=reliable, sn=sn, first=True, payload=raw[:1])),
        encode(Fragment(more=False, reliable=reliable, sn=sn + 1, payload=raw[1:])),
    ]


@pytest.mark.parametrize("together", [True, False])
def test_frames_and_fragments_share_their_numbers(receiver: FrameReceiver, together: bool) -> None:
    pieces = encoded_fragments(push(b"cut"), 50)
    batches = [stream(*pieces)] if together else [stream(piece) for piece in pieces]
    events = [event for batch in batches for event in receive_all(receiver, batch, Framing.STREAM)]
    assert events == [MessageReceived(push(b"cut"), True)]
    assert receive_all(receiver, frame(push(b"old"), sn=51)) == []
    assert receive_all(receiver, frame(push(b"next"), sn=52)) == [MessageReceived(push(b"next"), True)]


def test_messages_whose_fragments_arrived_together_are_one_run(receiver: FrameReceiver) -> None:
    messages = [push(b"1" * 40), push(b"2"), push(b"3" * 50)]
    data = stream(*[piece for number, one in enumerate(messages) for piece in encoded_fragments(one, 50 + 2 * number)])
    (event,) = [
        (event.start, event.stop) for event in receiver.events(BatchDecoder(data)) if isinstance(event, PushRun)
    ]
    assert event == (0, 3)
    again = stream(*encoded_fragments(messages[0], 50), *encoded_fragments(messages[0], 56))
    assert receive_all(receiver, again, Framing.STREAM) == [MessageReceived(messages[0], True)]


def test_messages_whose_fragments_arrived_together_are_received_in_order(receiver: FrameReceiver) -> None:
    final = Declare(body=DeclareFinal())
    data = stream(
        *encoded_fragments(push(b"1"), 50),
        *encoded_fragments(final, 52),
        *encoded_fragments(final, 54),
        frame(push(b"2"), sn=56),
        *encoded_fragments(push(b"3"), 55, reliable=False),
        *encoded_fragments(push(b"4"), 57),
    )
    received = receive_all(receiver, data, Framing.STREAM)
    assert received == [
        MessageReceived(one, True) for one in (push(b"1"), final, final, push(b"2"), push(b"3"), push(b"4"))
    ]


def test_incomplete_fragments_stay_in_the_buffer(receiver: FrameReceiver) -> None:
    data = stream(*encoded_fragments(push(b"1"), 50), *encoded_fragments(push(b"2" * 40), 52))
    decoder = BatchDecoder(data[:-1], is_partial_buffer=True)
    assert [event.stop for event in receiver.events(decoder) if isinstance(event, PushRun)] == [1]
    assert receive_all(receiver, data[decoder.pos :], Framing.STREAM) == [MessageReceived(push(b"2" * 40), True)]


@pytest.mark.parametrize(("framing", "width"), [(Framing.STREAM, 2), (Framing.BARE, 4)])
def test_oversized_batch_length_raises_limit_exceeded_at_once(
    receiver: FrameReceiver, framing: Framing, width: int
) -> None:
    with pytest.raises(LimitExceeded) as caught:
        receive_all(receiver, (1000).to_bytes(width, "little"), framing, limit=999)
    assert "1000" in str(caught.value)


def test_priority_without_negotiated_qos_raises_protocol_error() -> None:
    receiver = FrameReceiver(
        LaneParameters(qos=False, sn_mask=0x7F, patch=1, initial_sns=FIRST, message_limit=100), PushColumns(8)
    )
    with pytest.raises(ProtocolError, match="priority"):
        receive_all(receiver, frame(push(), sn=10, priority=Priority.REAL_TIME))


SHARED = Push(wire_expr=WireExpr(0, "demo/k"), body=Put(shm=True, payload=b"\x00"))
FINAL = Declare(body=DeclareFinal())


def test_every_message_that_is_handed_over_is_counted(receiver: FrameReceiver) -> None:
    batch = frame(push(), push(), FINAL, push(), sn=50) + frame(push(), sn=51) + frame(FINAL, sn=52)
    assert len(receive_all(receiver, batch)) == 6
    assert (receiver.receive_counters.received, receiver.receive_counters.lost) == (6, {})
    assert receiver.receive_counters.received_by_kind == {MessageKind.DECLARE: 2, MessageKind.PUSH: 4}


def test_repetitions_are_not_counted(receiver: FrameReceiver) -> None:
    batch = frame(push(), push(), sn=50) + frame(push(), sn=50) + frame(push(), sn=51) + frame(FINAL, sn=51)
    assert len(receive_all(receiver, batch)) == 3
    assert len(receive_all(receiver, frame(push(), sn=51))) == 0
    assert (receiver.receive_counters.received, receiver.receive_counters.lost) == (3, {})


def test_fragmented_message_is_counted_once(receiver: FrameReceiver) -> None:
    receive_all(
        receiver,
        stream(*encoded_fragments(push(b"1"), 50), *encoded_fragments(FINAL, 52), *encoded_fragments(push(), 54)),
        Framing.STREAM,
    )
    for piece in [*encoded_fragments(push(b"2" * 40), 56), *encoded_fragments(FINAL, 58)]:
        receive_all(receiver, piece)
    assert (receiver.receive_counters.received, receiver.receive_counters.lost) == (5, {})


def test_frames_that_are_missing_are_counted_in_every_lane(receiver: FrameReceiver) -> None:
    receive_all(receiver, frame(push(), sn=51) + frame(push(), sn=57, reliable=False))
    receive_all(receiver, frame(FINAL, sn=73, priority=Priority.BACKGROUND))
    assert receiver.receive_counters.received == 3
    assert receiver.receive_counters.lost == {LossReason.SEQUENCE_GAP: 1 + 2 + 3}


def test_frame_aborts_an_unfinished_fragmented_message(receiver: FrameReceiver) -> None:
    receive_all(receiver, encoded_fragments(push(b"1"), 50)[0])
    assert len(receive_all(receiver, frame(push(), sn=52))) == 1
    assert (receiver.receive_counters.received, receiver.receive_counters.lost) == (1, {LossReason.INTERRUPTED: 1})


def extended(batch: bytes) -> bytes:
    """Add an unknown extension to a frame, so that only the object codec reads its header."""
    return bytes([batch[0] | 0x80, batch[1], 0x0E]) + batch[2:]


@pytest.mark.parametrize(
    "batches",
    [
        [stream(frame(SHARED, sn=50))],
        [stream(extended(frame(SHARED, sn=50)))],
        [stream(*encoded_fragments(SHARED, 50))],
        [stream(piece) for piece in encoded_fragments(SHARED, 50)],
    ],
    ids=["in a frame", "in a frame with an extension", "in pieces that came together", "in pieces"],
)
def test_a_payload_in_shared_memory_is_lost_however_it_comes(receiver: FrameReceiver, batches: list[bytearray]) -> None:
    events = [event for batch in batches for event in receive_all(receiver, bytearray(batch), Framing.STREAM)]
    assert events == [MessageRejected(SHARED, LossReason.SHARED_MEMORY)]
    assert (receiver.receive_counters.received, receiver.receive_counters.lost) == (0, {LossReason.SHARED_MEMORY: 1})


MANDATORY = (Extension(0x5E, b"\x01\x02"),)
"""An unknown mandatory extension, which a receiver must not ignore."""
KEY = WireExpr(0, "k")
NOT_UNDERSTOOD = [
    Push(wire_expr=KEY, exts=MANDATORY, body=Put(payload=b"x")),
    Push(wire_expr=KEY, body=Put(payload=b"x", exts=MANDATORY)),
    Push(wire_expr=KEY, body=Del(exts=MANDATORY)),
    Request(request_id=1, wire_expr=KEY, exts=MANDATORY, body=Query()),
    Request(request_id=1, wire_expr=KEY, body=Query(exts=MANDATORY)),
    Response(request_id=1, wire_expr=KEY, exts=MANDATORY, body=Reply(body=Put(payload=b"x"))),
    Response(request_id=1, wire_expr=KEY, body=Reply(exts=MANDATORY, body=Put(payload=b"x"))),
    Response(request_id=1, wire_expr=KEY, body=Reply(body=Put(payload=b"x", exts=MANDATORY))),
    Response(request_id=1, wire_expr=KEY, body=Err(payload=b"x", exts=MANDATORY)),
    ResponseFinal(request_id=1, exts=MANDATORY),
    Declare(exts=MANDATORY, body=DeclareFinal()),
    Declare(body=DeclareSubscriber(id=1, wire_expr=KEY, exts=MANDATORY)),
    Interest(id=1, mode=InterestMode.CURRENT, tokens=True, exts=MANDATORY),
    NetworkOam(id=1, exts=MANDATORY),
]


@pytest.mark.parametrize("message", NOT_UNDERSTOOD, ids=lambda message: str(message)[:60])
@pytest.mark.parametrize("cut", ["frame", "extended frame", "low latency", "together", "pieces"])
def test_only_a_message_with_an_unknown_mandatory_extension_is_rejected(
    receiver: FrameReceiver, message: NetworkMessage, cut: str
) -> None:
    """Protocol section 21, row 34: eclipse-zenoh closes the link."""
    framing = Framing.STREAM
    if cut == "low latency":
        framing, whole = Framing.BARE, b"".join(encode(each) for each in (push(b"1"), message, push(b"2")))
        batches = [bytearray(len(whole).to_bytes(4, "little") + whole)]
    elif cut in ("frame", "extended frame"):
        whole = frame(push(b"1"), message, push(b"2"), sn=50)
        batches = [stream(whole if cut == "frame" else extended(whole))]
    else:
        pieces = [frame(push(b"1"), sn=50), *encoded_fragments(message, 51), frame(push(b"2"), sn=53)]
        batches = [stream(*pieces)] if cut == "together" else [stream(piece) for piece in pieces]
    before, rejected, after = [event for batch in batches for event in receive_all(receiver, batch, framing)]
    assert (before, after) == (MessageReceived(push(b"1"), True), MessageReceived(push(b"2"), True))
    assert rejected == MessageRejected(message, LossReason.UNKNOWN_EXTENSION)
    assert (receiver.receive_counters.received, receiver.receive_counters.lost) == (
        2,
        {LossReason.UNKNOWN_EXTENSION: 1},
    )


def test_repeated_rejected_message_is_counted_once(receiver: FrameReceiver) -> None:
    for _ in range(2):
        receive_all(receiver, frame(NOT_UNDERSTOOD[0], sn=50))
    assert receiver.receive_counters.lost == {LossReason.UNKNOWN_EXTENSION: 1}


def test_unknown_mandatory_extension_of_a_frame_raises_unknown_extension(receiver: FrameReceiver) -> None:
    head = frame(push(), sn=50)
    data = bytes([head[0] | 0x80, head[1], 0x1E]) + head[2:]
    with pytest.raises(UnknownExtension):
        receive_all(receiver, data)


def test_a_message_that_ends_in_an_unknown_extension_is_malformed(receiver: FrameReceiver) -> None:
    whole = frame(Push(wire_expr=KEY, body=Put(payload=b"x", exts=MANDATORY)), sn=50)
    with pytest.raises(DecodeError, match="before the end"):
        receive_all(receiver, whole[:-3])


def test_messages_of_the_object_codec_are_counted(receiver: FrameReceiver) -> None:
    data = stream(extended(frame(push(), FINAL, sn=50)), extended(frame(push(), sn=50)), extended(frame(push(), sn=52)))
    assert len(receive_all(receiver, data, Framing.STREAM)) == 3
    assert (receiver.receive_counters.received, receiver.receive_counters.lost) == (3, {LossReason.SEQUENCE_GAP: 1})
