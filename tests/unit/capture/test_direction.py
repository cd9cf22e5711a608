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


def pieces(message: NetworkMessage, sn: int, count: int = 3) -> Iterator[bytes]:
    data = encode(message)
    size = -(-len(data) // count)
    for number in range(count):
        part = data[number * size : (number + 1) * size]
        more = number < count - 1
        yield encode(Fragment(reliable=True, sn=sn + number, more=more, first=number == 0, payload=part))


def u16(*batches: bytes) -> bytes:
    return b"".join(map(LengthPrefix.U16.wrap, batches))


def heard(
    data: bytes, rules: DirectionParameters | None = None, direction: Direction | None = None
) -> list[DirectionEvent]:
    direction = direction or Direction(Side.C2S)
    direction.switch(rules)
    direction.receive_data(data)
    direction.ended = True
    return list(rest(direction))


def rest(direction: Direction) -> Iterator[DirectionEvent]:
    while (event := direction.next()) is not None:
        yield event


def said(event: DirectionEvent) -> CapturedMessage:
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
    events = [said(event) for event in heard(data)]
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
    assert [said(event).message.NAME for event in heard(u16(frame(1), b"", frame(2, PUSH)))] == ["FRAME", "PUSH"]


def test_joins_fragments() -> None:
    parts = list(pieces(PUSH, 5))
    data = u16(encode(KEEP_ALIVE), *parts, frame(9, FINAL))
    alive, push, final = [said(event) for event in heard(data)]
    assert (push.message, push.start, push.end) == (PUSH, 5, len(u16(encode(KEEP_ALIVE), *parts)))
    assert push.carrier == Carrier(True, Priority.DATA, 7, fragments=3)
    assert (alive.message, final.message) == (KEEP_ALIVE, FINAL)


def test_incomplete_fragments_are_reported() -> None:
    first, second, third = pieces(PUSH, 5)
    data = u16(first, third, frame(9, FINAL))
    gap, final = heard(data)
    assert lost(gap).why == ("1 fragment of a message, 5 bytes: fragment missing: expected sequence number 6, found 7")
    assert (lost(gap).start, lost(gap).end) == (2, len(u16(first, third)))
    assert said(final).message == FINAL
    (frame_between, final) = heard(u16(first, second, frame(9, FINAL)))
    assert lost(frame_between).why.startswith("2 fragments of a message, 10 bytes: interrupted by a frame")


def test_a_fragment_that_replaces_another_begins_where_it_stands() -> None:
    first, *_ = pieces(PUSH, 5)
    parts = list(pieces(PUSH, 8))
    gone, joined = heard(u16(first, *parts))
    assert lost(gone).start == 2
    assert said(joined).start == len(u16(first)) + 2


def test_a_message_may_never_end() -> None:
    direction = Direction(Side.S2C)
    first, second, _ = pieces(PUSH, 5)
    assert heard(u16(first, second), direction=direction) == []
    assert list(direction.unfinished()) == [
        LostMessage(Side.S2C, 2, len(u16(first, second)), "unfinished message: only 2 fragments received")
    ]


def test_out_of_order_numbers_are_reported() -> None:
    first, *_ = pieces(PUSH, 5)
    events = heard(u16(frame(7, FINAL), frame(7, PUSH, FINAL), frame(6, PUSH), first))
    assert [lost(event).why for event in events[1:]] == [
        "FRAME with 2 messages dropped: sequence number 7 is not newer than 7",
        "FRAME with 1 message dropped: sequence number 6 is not newer than 7",
        "FRAGMENT dropped: sequence number 5 is not newer than 7",
    ]


def test_counts_from_the_announced_number() -> None:
    rules = DirectionParameters(mask=Resolution.BITS_8.mask, initial_sn=127)
    events = heard(u16(frame(127, PUSH), frame(0, PUSH), frame(90, PUSH)), rules)
    assert [type(event) for event in events] == [CapturedMessage, CapturedMessage, LostMessage]


def test_a_number_beyond_the_resolution_breaks_the_direction() -> None:
    rules = DirectionParameters(mask=Resolution.BITS_8.mask)
    first, broken = heard(u16(frame(127, PUSH), frame(128, PUSH), frame(1, PUSH)), rules)
    assert said(first).message == PUSH
    assert broken == InvalidBytes(Side.C2S, 19, 19, "expected a sequence number up to 127 at byte 19, found 128")


# -- what is no message ---


def test_messages_before_malformed_bytes_are_reported() -> None:
    good = frame(1, PUSH, FINAL)
    direction = Direction(Side.C2S)
    events = heard(u16(encode(KEEP_ALIVE), good + b"\x18", frame(2, PUSH)), DirectionParameters(), direction)
    assert [said(event).message for event in events[:3]] == [KEEP_ALIVE, PUSH, FINAL]
    at = len(u16(encode(KEEP_ALIVE), good))
    assert events[3] == InvalidBytes(Side.C2S, at, at, f"FRAME: expected a network message at byte {at}, found id 0x18")
    assert len(events) == 4
    assert direction.stopped
    assert direction.followed == at


def test_nothing_of_a_frame_may_be_readable() -> None:
    (broken,) = heard(u16(frame(1) + b"\x1d"), DirectionParameters())
    assert isinstance(broken, InvalidBytes)
    (broken,) = heard(u16(b"\x08"), DirectionParameters())
    assert isinstance(broken, InvalidBytes)


def test_fragments_may_join_to_something_that_is_no_message() -> None:
    first = Fragment(reliable=True, sn=1, more=True, first=True, payload=b"\x1d\x00")
    last = Fragment(reliable=True, sn=2, more=False, payload=b"\x09")
    broken, final = heard(u16(encode(first), encode(last), frame(3, FINAL)))
    assert isinstance(broken, InvalidBytes)
    assert broken.start == 2
    assert broken.why.endswith("of a message joined from 2 fragments")
    assert said(final).message == FINAL


def test_a_length_may_be_too_large() -> None:
    (broken,) = heard(b"\xff\xff\xff\xff", DirectionParameters(StreamFormat(LengthPrefix.U32)))
    why = "expected a batch of at most 67108864 bytes at byte 0, found a length of 4294967295"
    assert broken == InvalidBytes(Side.C2S, 0, 0, why)


def test_a_low_latency_batch_may_be_larger_than_agreed() -> None:
    large = Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=bytes(300_000)))
    (event,) = heard(LengthPrefix.U32.wrap(encode(large)), DirectionParameters(StreamFormat(LengthPrefix.U32)))
    assert said(event).message == large


@pytest.mark.parametrize(
    ("tail", "ends"), [("02000300", True), ("02002302", True), ("02000400", False), ("02000308", True)]
)
def test_a_low_latency_session_may_end_with_a_short_length(tail: str, ends: bool) -> None:
    direction = Direction(Side.C2S)
    events = heard(
        LengthPrefix.U32.wrap(encode(PUSH)) + bytes.fromhex(tail),
        DirectionParameters(StreamFormat(LengthPrefix.U32)),
        direction,
    )
    assert [said(event).message.NAME for event in events] == ["PUSH", "CLOSE"][: 1 + ends]
    assert (direction.waiting == 0) is ends


def test_the_length_of_a_large_batch_is_no_close() -> None:
    direction = Direction(Side.C2S)
    direction.switch(DirectionParameters(StreamFormat(LengthPrefix.U32)))
    direction.receive_data(bytes.fromhex("02000300"))
    assert direction.next() is None


def test_a_block_may_be_no_block() -> None:
    (broken,) = heard(u16(b"\x01\xff"), DirectionParameters(StreamFormat(compression=True)))
    assert isinstance(broken, InvalidBytes)
    assert broken.start == 3


def test_an_end_in_the_middle_of_a_batch_is_known() -> None:
    direction = Direction(Side.C2S)
    heard(u16(encode(KEEP_ALIVE), frame(1, PUSH))[:-3], direction=direction)
    assert (direction.followed, direction.waiting, direction.missing, direction.total) == (3, 14, 3, 17)


# -- how to read ---

CLOSE = Close(session=False, reason=0)
LONG = Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=b"hello " * 40))


def test_guesses_rules_from_the_first_batch() -> None:
    bare = b"".join(LengthPrefix.U32.wrap(encode(message)) for message in (PUSH, CLOSE))
    packed = u16(compress(frame(1, LONG)), compress(encode(CLOSE)))
    plain = u16(frame(1, PUSH), encode(CLOSE))
    assert [said(event).message for event in heard(bare)] == [PUSH, CLOSE]
    assert [said(event).message for event in heard(packed)] == [LONG, CLOSE]
    assert [said(event).message for event in heard(plain)] == [PUSH, CLOSE]


def test_reads_garbage_as_the_usual_session() -> None:
    (broken,) = heard(u16(b"\x18\x18"))
    assert broken == InvalidBytes(Side.C2S, 2, 2, "expected a transport message at byte 2, found id 0x18")


def test_waits_with_the_guess_for_enough_bytes() -> None:
    direction = Direction(Side.C2S)
    data = LengthPrefix.U32.wrap(encode(PUSH))
    for place in range(len(data)):
        assert direction.next() is None
        direction.receive_data(data[place : place + 1])
    assert direction.next() == CapturedMessage(Side.C2S, 4, len(data), PUSH)


def test_a_message_in_a_compressed_batch_stands_somewhere_in_it() -> None:
    data = u16(compress(frame(1, LONG, LONG)), compress(encode(CLOSE)))
    first, second, close = [said(event) for event in heard(data)]
    size = len(compress(frame(1, LONG, LONG)))
    assert (first.start, first.end) == (second.start, second.end) == (2, 2 + size)
    assert data[close.start : close.end] == encode(CLOSE)


def test_other_rules_hold_from_the_next_batch_on() -> None:
    direction = Direction(Side.C2S)
    direction.receive_data(u16(encode(KEEP_ALIVE) * 2) + LengthPrefix.U32.wrap(encode(PUSH)))
    first = direction.next()
    assert first is not None
    assert said(first).message == KEEP_ALIVE
    direction.switch(DirectionParameters(StreamFormat(LengthPrefix.U32)))
    assert [said(event).message for event in rest(direction)] == [KEEP_ALIVE, PUSH]
    assert direction.batch == 2


WHOLE = u16(encode(KEEP_ALIVE), frame(1, PUSH, FINAL), *pieces(PUSH, 2), b"", frame(9, FINAL) + encode(CLOSE))


@pytest.mark.slow
@given(st.lists(st.integers(0, len(WHOLE)), max_size=12))
@examples(50)
def test_any_cutting_gives_the_same(cuts: list[int]) -> None:
    direction = Direction(Side.C2S)
    places = [0, *sorted(cuts), len(WHOLE)]
    found: list[DirectionEvent] = []
    for start, end in pairwise(places):
        direction.receive_data(WHOLE[start:end])
        found += rest(direction)
    assert found == heard(WHOLE)


def test_no_events_after_stop() -> None:
    direction = Direction(Side.C2S)
    direction.receive_data(WHOLE)
    direction.stopped = True
    assert direction.next() is None


def test_resolution_decides_what_the_key_looks_like() -> None:
    assert CapturedMessage(Side.C2S, 0, 1, PUSH).resolved
    assert CapturedMessage(Side.C2S, 0, 1, PUSH, key="a/b").resolved
    assert not CapturedMessage(Side.C2S, 0, 1, PUSH, key="#7+/b").resolved


@pytest.mark.parametrize("framing", list(LengthPrefix))
def test_no_bytes_no_events(framing: LengthPrefix) -> None:
    assert heard(b"", DirectionParameters(StreamFormat(framing))) == []
    assert heard(b"") == []
