import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.errors import LimitExceeded
from zenspark.transport.counters import LossReason
from zenspark.transport.lane import (
    Defragmenter,
    OutOfOrder,
    Reassembled,
    ReassemblyAborted,
    ReceivingLane,
    is_newer_sn,
    next_sn,
)
from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, PushColumns, StopReason
from zenspark.wire.messages import Fragment, Frame, Push, Put, ResponseFinal
from zenspark.wire.values import Resolution, WireExpr

MASK = Resolution.BITS_8.mask
PUSH = Push(wire_expr=WireExpr(0, "a"), body=Put(payload=b"x"))
FINAL = ResponseFinal(request_id=1)


def fragment(sn: int, payload: bytes, *, more: bool = True, first: bool = False, drop: bool = False) -> Fragment:
    return Fragment(sn=sn, payload=payload, more=more, first=first, drop=drop, reliable=True)


def frame(sn: int) -> Frame:
    return Frame(reliable=True, sn=sn, msgs=(PUSH, FINAL))


# -- sequence numbers ---


@pytest.mark.parametrize(
    ("last", "sn", "ahead"),
    [(5, 6, True), (5, 5, False), (5, 4, False), (5, 68, True), (5, 69, False), (127, 0, True), (0, 127, False)],
)
def test_half_of_the_sequence_numbers_are_newer(last: int, sn: int, ahead: bool) -> None:
    assert is_newer_sn(last, sn, MASK) is ahead


@pytest.mark.slow
@given(st.sampled_from(Resolution), st.integers(0, 1 << 32))
def test_next_number_is_newer_and_the_last_is_not(resolution: Resolution, sn: int) -> None:
    sn &= resolution.mask
    assert is_newer_sn(sn, next_sn(sn, resolution.mask), resolution.mask)
    assert not is_newer_sn(next_sn(sn, resolution.mask), sn, resolution.mask)


@pytest.fixture
def lane() -> ReceivingLane:
    return ReceivingLane.beginning(0, Defragmenter(MASK, patch=1))


def test_frames_from_the_announced_sequence_number_on_are_accepted(lane: ReceivingLane) -> None:
    assert lane.receive(frame(0)) == [PUSH, FINAL]
    assert lane.receive(frame(1)) == [PUSH, FINAL]


def test_out_of_order_frame_is_dropped(lane: ReceivingLane) -> None:
    lane.receive(frame(7))
    assert lane.receive(frame(7)) == [OutOfOrder(7, 7)]
    assert lane.receive(frame(3)) == [OutOfOrder(3, 7)]
    assert lane.receive(frame(8)) == [PUSH, FINAL]


def test_gaps_are_accepted(lane: ReceivingLane) -> None:
    assert lane.receive(frame(60)) == [PUSH, FINAL]
    assert lane.receive(frame(120)) == [PUSH, FINAL]
    assert lane.receive(frame(2)) == [PUSH, FINAL]


def test_lane_without_announced_number_accepts_any_first_number() -> None:
    lane = ReceivingLane(None, Defragmenter(MASK, patch=1))
    assert lane.receive(frame(99)) == [PUSH, FINAL]
    assert lane.receive(frame(99)) == [OutOfOrder(99, 99)]


def test_sequence_number_beyond_the_resolution_raises_limit_exceeded(lane: ReceivingLane) -> None:
    with pytest.raises(LimitExceeded) as caught:
        lane.receive(frame(MASK + 1))
    assert (caught.value.size, caught.value.limit) == (MASK + 1, MASK)


def test_frames_and_fragments_share_their_numbers(lane: ReceivingLane) -> None:
    assert lane.receive(frame(0)) == [PUSH, FINAL]
    assert lane.receive(fragment(1, b"a", first=True)) == []
    assert lane.receive(fragment(2, b"b", more=False)) == [Reassembled(b"ab", 2)]
    assert lane.receive(frame(2)) == [OutOfOrder(2, 2)]


def test_a_frame_in_between_ends_a_fragmented_message(lane: ReceivingLane) -> None:
    lane.receive(fragment(0, b"ab", first=True))
    assert lane.receive(frame(1)) == [ReassemblyAborted(1, 2, "interrupted by a frame"), PUSH, FINAL]
    assert lane.receive(fragment(2, b"c", more=False)) == [ReassemblyAborted(1, 1, "first fragment missing")]


# -- fragments ---


@pytest.fixture
def joiner() -> Defragmenter:
    return Defragmenter(MASK, patch=1, limit=10)


def test_fragments_are_joined_across_the_sequence_number_wrap(joiner: Defragmenter) -> None:
    assert joiner.receive(fragment(126, b"ab", first=True)) == []
    assert joiner.receive(fragment(127, b"cd")) == []
    assert joiner.pending == 2
    assert joiner.receive(fragment(0, b"e", more=False)) == [Reassembled(b"abcde", 3)]
    assert joiner.pending == 0


def test_message_may_be_a_single_empty_fragment(joiner: Defragmenter) -> None:
    assert joiner.receive(fragment(1, b"", first=True, more=False)) == [Reassembled(b"", 1)]


def test_empty_first_fragment_starts_a_message(joiner: Defragmenter) -> None:
    joiner.receive(fragment(1, b"", first=True))
    assert joiner.receive(fragment(2, b"x", more=False)) == [Reassembled(b"x", 2)]


def test_missing_fragment_loses_only_its_message(joiner: Defragmenter) -> None:
    joiner.receive(fragment(1, b"ab", first=True))
    why = "fragment missing: expected sequence number 2, found 3"
    assert joiner.receive(fragment(3, b"cd")) == [ReassemblyAborted(1, 2, why)]
    assert joiner.receive(fragment(4, b"ef", more=False)) == []  # the rest of it: reported already
    assert joiner.receive(fragment(5, b"g", more=False)) == [ReassemblyAborted(1, 1, "first fragment missing")]
    assert joiner.receive(fragment(6, b"ok", first=True, more=False)) == [Reassembled(b"ok", 1)]


def test_next_first_fragment_aborts_an_unfinished_message(joiner: Defragmenter) -> None:
    joiner.receive(fragment(1, b"ab", first=True))
    assert joiner.receive(fragment(9, b"xy", first=True, more=False)) == [
        ReassemblyAborted(1, 2, "interrupted by another message"),
        Reassembled(b"xy", 1),
    ]


def test_fragmented_message_aborted_by_the_sender(joiner: Defragmenter) -> None:
    joiner.receive(fragment(1, b"ab", first=True))
    assert joiner.receive(fragment(2, b"", drop=True)) == [ReassemblyAborted(1, 2, "stopped by the sender")]
    assert joiner.receive(fragment(3, b"ok", first=True, more=False)) == [Reassembled(b"ok", 1)]


def test_reassembly_is_limited(joiner: Defragmenter) -> None:
    joiner.receive(fragment(1, bytes(10), first=True))
    assert joiner.receive(fragment(2, b"x")) == [ReassemblyAborted(1, 10, "larger than 10 bytes")]
    assert joiner.receive(fragment(3, bytes(11), first=True)) == [ReassemblyAborted(1, 11, "larger than 10 bytes")]
    assert joiner.pending == 0


def test_without_patch_1_any_fragment_starts_a_message() -> None:
    joiner = Defragmenter(MASK, patch=0)
    assert joiner.receive(fragment(1, b"ab")) == []
    assert joiner.receive(fragment(2, b"cd", first=True, drop=True, more=False)) == [Reassembled(b"abcd", 2)]
    assert joiner.receive(fragment(3, b"e", more=False)) == [Reassembled(b"e", 1)]


@pytest.mark.slow
@given(st.binary(min_size=1, max_size=200), st.integers(1, 50), st.integers(0, MASK))
def test_fragments_are_reassembled_to_the_message(data: bytes, size: int, sn: int) -> None:
    joiner = Defragmenter(MASK, patch=1)
    found = []
    starts = range(0, len(data), size)
    for number, start in enumerate(starts):
        more = start + size < len(data)
        found += joiner.receive(fragment((sn + number) & MASK, data[start : start + size], first=start == 0, more=more))
    assert found == [Reassembled(data, len(starts))]


# -- messages that are whole in a buffer ---


def at_fragments(*pieces: Fragment) -> BatchDecoder:
    batches = [encode(one) for one in pieces]
    decoder = BatchDecoder(bytearray(b"".join(len(one).to_bytes(2, "little") + one for one in batches)))
    assert decoder.decode(PushColumns(1)) is StopReason.MESSAGE
    return decoder


def fragments_of(message: Push, sn: int) -> list[Fragment]:
    raw = encode(message)
    return [fragment(sn, raw[:3], first=True), fragment((sn + 1) & MASK, raw[3:], more=False)]


def test_complete_fragments_are_joined_at_once(lane: ReceivingLane) -> None:
    columns = PushColumns(4)
    whole = lane.join(at_fragments(*fragments_of(PUSH, 0), *fragments_of(PUSH, 2)), columns)
    assert whole is not None
    assert [columns.push(row) for row in range(len(columns))] == [PUSH, PUSH]
    assert lane.receive(fragment(3, b"")) == [OutOfOrder(3, 3)]
    assert lane.receive(frame(4)) == [PUSH, FINAL]


def test_fragments_after_a_gap_or_an_unfinished_message_are_not_joined_at_once(lane: ReceivingLane) -> None:
    assert lane.join(at_fragments(*fragments_of(PUSH, 1)), PushColumns(1)) is None
    lane.receive(fragment(0, b"begun", first=True))
    assert lane.join(at_fragments(*fragments_of(PUSH, 1)), PushColumns(1)) is None
    assert lane.defragmenter.pending == 1


def test_lane_without_announced_number_does_not_join_fragments_at_once() -> None:
    lane = ReceivingLane(None, Defragmenter(MASK, patch=1))
    assert lane.join(at_fragments(*fragments_of(PUSH, 0)), PushColumns(1)) is None


def test_loss_after_fragments_joined_at_once_is_reported_again(lane: ReceivingLane) -> None:
    assert lane.receive(fragment(0, b"late")) == [ReassemblyAborted(1, 4, "first fragment missing")]
    assert lane.join(at_fragments(*fragments_of(PUSH, 1)), PushColumns(1)) is not None
    assert lane.receive(fragment(3, b"late")) == [ReassemblyAborted(1, 4, "first fragment missing")]


# -- what is lost is counted once ---


def lost(lane: ReceivingLane) -> dict[LossReason, int]:
    return lane.defragmenter.receive_counters.lost


def test_without_a_gap_nothing_is_lost(lane: ReceivingLane) -> None:
    for number in range(300):
        assert lane.accept_frame(number & MASK)
    assert lost(lane) == {}


def test_numbers_missing_before_a_frame_are_a_gap(lane: ReceivingLane) -> None:
    assert lane.accept_frame(2)
    assert lane.accept_frame(3)
    assert lane.accept_frame(63)
    assert lane.accept_frame(126)
    assert lane.accept_frame(1), "around the circle"
    assert lost(lane) == {LossReason.SEQUENCE_GAP: 2 + 59 + 62 + 2}


def test_late_or_repeated_frame_is_dropped_and_not_counted_again(lane: ReceivingLane) -> None:
    assert lane.accept_frame(2)
    before = dict(lost(lane))
    assert not lane.accept_frame(1)
    assert not lane.accept_frame(2)
    assert lost(lane) == before == {LossReason.SEQUENCE_GAP: 2}


def test_sequence_number_that_eclipse_zenoh_skips_after_fragments_is_not_a_gap(lane: ReceivingLane) -> None:
    lane.receive(fragment(0, b"a", first=True))
    lane.receive(fragment(1, b"b", more=False))
    lane.receive(fragment(3, b"c", first=True))
    lane.receive(fragment(4, b"d", more=False))
    assert lane.accept_frame(6)
    assert lost(lane) == {}
    assert lane.accept_frame(8)
    assert lost(lane) == {LossReason.SEQUENCE_GAP: 1}


def test_unused_number_behind_joined_fragments_is_not_a_gap(lane: ReceivingLane) -> None:
    assert lane.join(at_fragments(*fragments_of(PUSH, 0)), PushColumns(1)) is not None
    assert lane.accept_frame(3)
    assert lost(lane) == {}


def test_two_numbers_missing_behind_fragments_are_a_gap(lane: ReceivingLane) -> None:
    lane.receive(fragment(0, b"a", first=True, more=False))
    lane.receive(fragment(4, b"b", first=True, more=False))
    assert lost(lane) == {LossReason.SEQUENCE_GAP: 2}


def test_a_message_that_another_one_interrupts_is_one_lost_message(lane: ReceivingLane) -> None:
    lane.receive(fragment(0, b"a", first=True))
    lane.receive(fragment(1, b"b"))
    assert lane.receive(fragment(3, b"x", first=True, more=False)) == [
        ReassemblyAborted(2, 2, "interrupted by another message"),
        Reassembled(b"x", 1),
    ]
    assert lost(lane) == {LossReason.INTERRUPTED: 1}


def test_a_message_that_a_frame_interrupts_is_one_lost_message(lane: ReceivingLane) -> None:
    lane.receive(fragment(0, b"a", first=True))
    assert not lane.accept_frame(0), "a repetition interrupts nothing"
    assert lane.defragmenter.pending == 1
    assert lane.accept_frame(2)
    assert lane.defragmenter.pending == 0
    assert lane.accept_frame(3)
    assert lost(lane) == {LossReason.INTERRUPTED: 1}


def test_missing_fragments_are_a_lost_message_and_no_gap(lane: ReceivingLane) -> None:
    lane.receive(fragment(0, b"a", first=True))
    lane.receive(fragment(5, b"b"))
    lane.receive(fragment(9, b"c", more=False))
    assert lost(lane) == {LossReason.FRAGMENT_MISSING: 1}


def test_missing_first_fragments_are_a_lost_message_and_no_gap(lane: ReceivingLane) -> None:
    lane.receive(fragment(2, b"a"))
    lane.receive(fragment(3, b"b", more=False))
    assert lost(lane) == {LossReason.FIRST_FRAGMENT_MISSING: 1}


def test_without_patch_1_a_message_may_start_after_a_gap() -> None:
    lane = ReceivingLane.beginning(0, Defragmenter(MASK, patch=0))
    lane.receive(fragment(2, b"a"))
    lane.receive(fragment(5, b"b"))
    assert lost(lane) == {LossReason.SEQUENCE_GAP: 2, LossReason.FRAGMENT_MISSING: 1}


def test_a_message_that_its_sender_stops_is_one_lost_message(lane: ReceivingLane) -> None:
    lane.receive(fragment(0, b"a", first=True))
    lane.receive(fragment(1, b"", drop=True))
    assert lost(lane) == {LossReason.STOPPED_BY_SENDER: 1}


def test_a_message_over_the_limit_is_one_lost_message() -> None:
    lane = ReceivingLane.beginning(0, Defragmenter(MASK, patch=1, limit=10))
    lane.receive(fragment(0, bytes(10), first=True))
    for number in range(1, 9):
        lane.receive(fragment(number, b"x", more=number < 8))
    assert lost(lane) == {LossReason.TOO_LARGE: 1}
