"""Messages in, batches out: packing, fragments, and bytes equal to the object codec's."""

from __future__ import annotations

import pytest

from zenspark.errors import LimitExceeded
from zenspark.transport.framing import decompress
from zenspark.transport.outbox import DONE, FULL, REFUSED, Outbox, vle
from zenspark.wire.buffer import Writer
from zenspark.wire.codec import decode_bare_batch, decode_batch, decode_network, encode
from zenspark.wire.messages import Fragment, Frame, Push, Put
from zenspark.wire.values import Priority, WireExpr

MASK = 0x0FFF_FFFF


def message(payload: bytes = b"x") -> bytes:
    return encode(Push(wire_expr=WireExpr(1), body=Put(payload=payload)))


def batches(outbox: Outbox) -> list[bytes]:
    found = []
    for batch in outbox.take():
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


def test_a_payload_is_put_behind_its_head() -> None:
    outbox = Outbox(65535, 0, MASK)
    whole = message(b"z" * 300)
    head = whole[: -300 - len(vle(300))]
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


def test_without_priorities_there_is_one_lane_that_names_none() -> None:
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
    assert outbox.ready
    full = outbox.take_ready()
    rest = outbox.take()
    assert all(len(batch) <= size for batch in [*full, *rest])
    frames = [decode_batch(bytes(batch[2:]))[0] for batch in [*full, *rest]]
    assert sum(len(frame.msgs) for frame in frames if isinstance(frame, Frame)) == 300


@pytest.mark.parametrize("priority", [5, 2])
@pytest.mark.parametrize("reliable", [True, False])
def test_large_messages_go_out_in_marked_pieces(priority: int, reliable: bool) -> None:
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


def test_batches_are_compressed_where_agreed() -> None:
    outbox = Outbox(2048, 0, MASK, compression=True)
    for _ in range(20):
        outbox.append(5, True, message(b"a" * 50))
    (batch,) = batches(outbox)
    assert len(batch) < 200
    (frame,) = decode_batch(bytes(decompress(batch)))
    assert isinstance(frame, Frame)
    assert len(frame.msgs) == 20


def test_low_latency_messages_go_bare_and_at_once() -> None:
    outbox = Outbox(2048, 0, MASK, qos=False, low_latency=True)
    assert outbox.append(5, True, message())
    (batch,) = outbox.take()
    assert int.from_bytes(batch[:4], "little") == len(batch) - 4
    assert decode_bare_batch(bytes(batch[4:])) == (decode_network(message()),)
    with pytest.raises(LimitExceeded, match="low-latency"):
        outbox.append(5, True, message(bytes(3000)))


@pytest.mark.parametrize("value", [0, 127, 128, 2**56 - 1, 2**56, 2**64 - 1])
def test_lengths_are_the_codec_s(value: int) -> None:
    out = Writer()
    out.z(value, 64, "value")
    assert vle(value) == bytes(out.data)


def test_messages_come_by_themselves_only_while_it_flows() -> None:
    outbox = Outbox(300, 0, MASK)
    head = message(b"")[:-1]
    assert outbox.flow(5, True, head, b"1") == REFUSED
    assert outbox.is_empty
    outbox.flows = True
    assert outbox.flow(5, True, head, b"2" * 200) == DONE
    assert outbox.flow(5, True, head, b"3" * 200) == FULL
    outbox.flows = False
    assert outbox.flow(5, True, head, b"4") == REFUSED
    frames = [frame for batch in batches(outbox) for frame in decode_batch(batch)]
    assert frames == [
        Frame(reliable=True, sn=sn, msgs=(Push(wire_expr=WireExpr(1), body=Put(payload=payload * 200)),))
        for sn, payload in enumerate((b"2", b"3"))
    ]
