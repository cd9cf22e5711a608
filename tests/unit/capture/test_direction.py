from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from zenspark.capture.byte_stream import StreamFormat
from zenspark.capture.direction import (
    CapturedMessage,
    Carrier,
    Direction,
    DirectionEvent,
    DirectionParameters,
    InvalidBytes,
    LostMessage,
    Side,
)
from zenspark.transport.framing import LengthPrefix, compress
from zenspark.wire.codec import encode
from zenspark.wire.messages import Close, Fragment, Frame, KeepAlive, NetworkMessage, Push, Put, ResponseFinal
from zenspark.wire.values import Priority, Resolution, WireExpr

PUSH = Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=b"hello"))
FINAL = ResponseFinal(request_id=3)
KEEP_ALIVE = KeepAlive()


def frame(sn: int, *messages: NetworkMessage, priority: Priority = Priority.DATA) -> bytes:
    return encode(Frame(reliable=True, sn=sn, msgs=messages, priority=priority))


def encoded_fragments(message: NetworkMessage, sn: int, count: int = 3) -> Iterator[bytes]:
    data = encode(message)
    size = -(-len(data) // count)
    for number in range(count):
        part = data[number * size : (number + 1) * size]
        more = number < count - 1
        yield encode(Fragment(reliable=True, sn=sn + number, more=more, first=number == 0, payload=part))


def u16(*batches: bytes) -> bytes:
    return b"".join(map(LengthPrefix.U16.wrap, batches))


def read_events(
    data: bytes, rules: DirectionParameters | None = None, direction: Direction | None = None
) -> list[DirectionEvent]:
    direction = direction or Direction(Side.C2S)
    direction.switch(rules)
    direction.receive_data(data)
    direction.ended = True
    return list(remaining_events(direction))


def remaining_events(direction: Direction) -> Iterator[DirectionEvent]:
    while (event := direction.next()) is not None:
        yield event


def captured(event: DirectionEvent) -> CapturedMessage:
    assert isinstance(event, CapturedMessage)
    return event


def lost(event: DirectionEvent) -> LostMessage:
    assert isinstance(event, LostMessage)
    return event


def test_each_side_has_another() -> None:
    assert Side.C2S.other is Side.S2C
    assert Side.S2C.other is Side.C2S


def test_messages_have_their_byte_range() -> None:
    data = u16(frame(1, PUSH, FINAL) + frame(2, PUSH, priority=Priority.CONTROL) + encode(KEEP_ALIVE))
    events = [captured(event) for event in read_events(data)]
    assert [event.message for event in events] == [PUSH, FINAL, PUSH, KEEP_ALIVE]
    assert [data[event.start : event.end] for event in events] == [
        encode(message) for message in (PUSH, FINAL, PUSH, KEEP_ALIVE)
    ]
    assert [event.carrier for event in events] == [
        Carrier(True, Priority.DATA, 1),
        Carrier(True, Priority.DATA, 1),
        Carrier(True, Priority.CONTROL, 2),
        None,
    ]


def test_empty_frame_is_reported() -> None:
    assert [captured(event).message.NAME for event in read_events(u16(frame(1), b"", frame(2, PUSH)))] == [
        "FRAME",
        "PUSH",
    ]


def test_fragments_are_joined_to_one_message() -> None:
    parts = list(encoded_fragments(PUSH, 5))
    data = u16(encode(KEEP_ALIVE), *parts, frame(9, FINAL))
    alive, push, final = [captured(event) for event in read_events(data)]
    assert (push.message, push.start, push.end) == (PUSH, 5, len(u16(encode(KEEP_ALIVE), *parts)))
    assert push.carrier == Carrier(True, Priority.DATA, 7, fragments=3)
    assert (alive.message, final.message) == (KEEP_ALIVE, FINAL)


def test_incomplete_fragments_are_reported() -> None:
    first, second, third = encoded_fragments(PUSH, 5)
    data = u16(first, third, frame(9, FINAL))
    gap, final = read_events(data)
    assert lost(gap).text == ("1 fragment of a message, 5 bytes: fragment missing: expected sequence number 6, found 7")
    assert (lost(gap).start, lost(gap).end) == (2, len(u16(first, third)))
    assert captured(final).message == FINAL
    (frame_between, final) = read_events(u16(first, second, frame(9, FINAL)))
    assert lost(frame_between).text.startswith("2 fragments of a message, 10 bytes: interrupted by a frame")


def test_message_after_an_aborted_one_starts_at_its_own_first_fragment() -> None:
    first, *_ = encoded_fragments(PUSH, 5)
    parts = list(encoded_fragments(PUSH, 8))
    gone, joined = read_events(u16(first, *parts))
    assert lost(gone).start == 2
    assert captured(joined).start == len(u16(first)) + 2


def test_unfinished_message_is_reported_as_lost() -> None:
    direction = Direction(Side.S2C)
    first, second, _ = encoded_fragments(PUSH, 5)
    assert read_events(u16(first, second), direction=direction) == []
    assert list(direction.unfinished_messages()) == [
        LostMessage(Side.S2C, 2, len(u16(first, second)), "unfinished message: only 2 fragments received")
    ]


def test_out_of_order_numbers_are_reported() -> None:
    first, *_ = encoded_fragments(PUSH, 5)
    events = read_events(u16(frame(7, FINAL), frame(7, PUSH, FINAL), frame(6, PUSH), first))
    assert [lost(event).text for event in events[1:]] == [
        "FRAME with 2 messages dropped: sequence number 7 is not newer than 7",
        "FRAME with 1 message dropped: sequence number 6 is not newer than 7",
        "FRAGMENT dropped: sequence number 5 is not newer than 7",
    ]


def test_sequence_numbers_start_at_the_announced_one() -> None:
    rules = DirectionParameters(mask=Resolution.BITS_8.mask, initial_sn=127)
    events = read_events(u16(frame(127, PUSH), frame(0, PUSH), frame(90, PUSH)), rules)
    assert [type(event) for event in events] == [CapturedMessage, CapturedMessage, LostMessage]


def test_sequence_number_beyond_the_resolution_is_reported_as_invalid() -> None:
    rules = DirectionParameters(mask=Resolution.BITS_8.mask)
    first, broken = read_events(u16(frame(127, PUSH), frame(128, PUSH), frame(1, PUSH)), rules)
    assert captured(first).message == PUSH
    assert broken == InvalidBytes(Side.C2S, 19, 19, "expected a sequence number up to 127 at byte 19, found 128")


# -- what is no message ---


def test_messages_before_malformed_bytes_are_reported() -> None:
    good = frame(1, PUSH, FINAL)
    direction = Direction(Side.C2S)
    events = read_events(u16(encode(KEEP_ALIVE), good + b"\x18", frame(2, PUSH)), DirectionParameters(), direction)
    assert [captured(event).message for event in events[:3]] == [KEEP_ALIVE, PUSH, FINAL]
    at = len(u16(encode(KEEP_ALIVE), good))
    assert events[3] == InvalidBytes(Side.C2S, at, at, f"FRAME: expected a network message at byte {at}, found id 0x18")
    assert len(events) == 4
    assert direction.stopped
    assert direction.followed == at


def test_unreadable_frame_is_reported_as_invalid() -> None:
    (broken,) = read_events(u16(frame(1) + b"\x1d"), DirectionParameters())
    assert isinstance(broken, InvalidBytes)
    (broken,) = read_events(u16(b"\x08"), DirectionParameters())
    assert isinstance(broken, InvalidBytes)


def test_fragments_that_join_to_no_message_are_reported_as_invalid() -> None:
    first = Fragment(reliable=True, sn=1, more=True, first=True, payload=b"\x1d\x00")
    last = Fragment(reliable=True, sn=2, more=False, payload=b"\x09")
    broken, final = read_events(u16(encode(first), encode(last), frame(3, FINAL)))
    assert isinstance(broken, InvalidBytes)
    assert broken.start == 2
    assert broken.text.endswith("of a message joined from 2 fragments")
    assert captured(final).message == FINAL


def test_oversized_length_is_reported_as_invalid() -> None:
    (broken,) = read_events(b"\xff\xff\xff\xff", DirectionParameters(StreamFormat(LengthPrefix.U32)))
    why = "expected a batch of at most 67108864 bytes at byte 0, found a length of 4294967295"
    assert broken == InvalidBytes(Side.C2S, 0, 0, why)


def test_a_low_latency_batch_may_be_larger_than_agreed() -> None:
    large = Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=bytes(300_000)))
    (event,) = read_events(LengthPrefix.U32.wrap(encode(large)), DirectionParameters(StreamFormat(LengthPrefix.U32)))
    assert captured(event).message == large


@pytest.mark.parametrize(
    ("tail", "ends"), [("02000300", True), ("02002302", True), ("02000400", False), ("02000308", True)]
)
def test_a_low_latency_session_may_end_with_a_short_length(tail: str, ends: bool) -> None:
    direction = Direction(Side.C2S)
    events = read_events(
        LengthPrefix.U32.wrap(encode(PUSH)) + bytes.fromhex(tail),
        DirectionParameters(StreamFormat(LengthPrefix.U32)),
        direction,
    )
    assert [captured(event).message.NAME for event in events] == ["PUSH", "CLOSE"][: 1 + ends]
    assert (direction.waiting == 0) is ends


def test_the_length_of_a_large_batch_is_no_close() -> None:
    direction = Direction(Side.C2S)
    direction.switch(DirectionParameters(StreamFormat(LengthPrefix.U32)))
    direction.receive_data(bytes.fromhex("02000300"))
    assert direction.next() is None


def test_corrupt_lz4_block_is_reported_as_invalid() -> None:
    (broken,) = read_events(u16(b"\x01\xff"), DirectionParameters(StreamFormat(compression=True)))
    assert isinstance(broken, InvalidBytes)
    assert broken.start == 3


def test_truncated_batch_has_waiting_and_missing_bytes() -> None:
    direction = Direction(Side.C2S)
    read_events(u16(encode(KEEP_ALIVE), frame(1, PUSH))[:-3], direction=direction)
    assert (direction.followed, direction.waiting, direction.missing, direction.total) == (3, 14, 3, 17)


# -- how to read ---

CLOSE = Close(session=False, reason=0)
LONG = Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=b"hello " * 40))


def test_stream_format_is_detected_from_the_first_batch() -> None:
    bare = b"".join(LengthPrefix.U32.wrap(encode(message)) for message in (PUSH, CLOSE))
    packed = u16(compress(frame(1, LONG)), compress(encode(CLOSE)))
    plain = u16(frame(1, PUSH), encode(CLOSE))
    assert [captured(event).message for event in read_events(bare)] == [PUSH, CLOSE]
    assert [captured(event).message for event in read_events(packed)] == [LONG, CLOSE]
    assert [captured(event).message for event in read_events(plain)] == [PUSH, CLOSE]


def test_garbage_is_read_in_the_default_stream_format() -> None:
    (broken,) = read_events(u16(b"\x18\x18"))
    assert broken == InvalidBytes(Side.C2S, 2, 2, "expected a transport message at byte 2, found id 0x18")


def test_stream_format_is_detected_when_enough_bytes_have_arrived() -> None:
    direction = Direction(Side.C2S)
    data = LengthPrefix.U32.wrap(encode(PUSH))
    for place in range(len(data)):
        assert direction.next() is None
        direction.receive_data(data[place : place + 1])
    assert direction.next() == CapturedMessage(Side.C2S, 4, len(data), PUSH)


def test_message_in_a_compressed_batch_has_the_range_of_the_batch() -> None:
    data = u16(compress(frame(1, LONG, LONG)), compress(encode(CLOSE)))
    first, second, close = [captured(event) for event in read_events(data)]
    size = len(compress(frame(1, LONG, LONG)))
    assert (first.start, first.end) == (second.start, second.end) == (2, 2 + size)
    assert data[close.start : close.end] == encode(CLOSE)


def test_switched_parameters_apply_from_the_next_batch() -> None:
    direction = Direction(Side.C2S)
    direction.receive_data(u16(encode(KEEP_ALIVE) * 2) + LengthPrefix.U32.wrap(encode(PUSH)))
    first = direction.next()
    assert first is not None
    assert captured(first).message == KEEP_ALIVE
    direction.switch(DirectionParameters(StreamFormat(LengthPrefix.U32)))
    assert [captured(event).message for event in remaining_events(direction)] == [KEEP_ALIVE, PUSH]
    assert direction.batch == 2


WHOLE = u16(
    encode(KEEP_ALIVE), frame(1, PUSH, FINAL), *encoded_fragments(PUSH, 2), b"", frame(9, FINAL) + encode(CLOSE)
)


@pytest.mark.slow
@given(st.lists(st.integers(0, len(WHOLE)), max_size=12))
@examples(50)
def test_same_events_however_the_stream_is_cut(cuts: list[int]) -> None:
    direction = Direction(Side.C2S)
    places = [0, *sorted(cuts), len(WHOLE)]
    found: list[DirectionEvent] = []
    for start, end in pairwise(places):
        direction.receive_data(WHOLE[start:end])
        found += remaining_events(direction)
    assert found == read_events(WHOLE)


def test_no_events_after_stop() -> None:
    direction = Direction(Side.C2S)
    direction.receive_data(WHOLE)
    direction.stopped = True
    assert direction.next() is None


def test_message_with_an_unknown_key_id_is_not_resolved() -> None:
    assert CapturedMessage(Side.C2S, 0, 1, PUSH).is_resolved
    assert CapturedMessage(Side.C2S, 0, 1, PUSH, key="a/b").is_resolved
    assert not CapturedMessage(Side.C2S, 0, 1, PUSH, key="#7+/b").is_resolved


@pytest.mark.parametrize("framing", list(LengthPrefix))
def test_no_bytes_no_events(framing: LengthPrefix) -> None:
    assert read_events(b"", DirectionParameters(StreamFormat(framing))) == []
    assert read_events(b"") == []
