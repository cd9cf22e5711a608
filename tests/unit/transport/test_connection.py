"""One link from its first byte to its last, without a link."""

from __future__ import annotations

import pytest

from tests.shuttle import ALICE, BOB, feed, opened_pair, send, shake_hands, shuttle, written
from zenspark.errors import CloseReason
from zenspark.transport.connection import (
    DATAGRAM_BUFFER_BYTES,
    INITIAL_STREAM_BUFFER_BYTES,
    MAX_BUFFER_BYTES,
    MIN_BATCH_BYTES,
    Connection,
    ConnectionEvent,
    ConnectionState,
    PeerIdentified,
    Send,
    SessionRequested,
)
from zenspark.transport.counters import LossReason
from zenspark.transport.handshake import Acceptor, Capabilities, Initiator
from zenspark.transport.receiver import Closed, MessageReceived, MessageRejected
from zenspark.wire.codec import encode
from zenspark.wire.columns import PushColumns, PushRun
from zenspark.wire.messages import (
    Close,
    Declare,
    DeclareFinal,
    Del,
    Err,
    Fragment,
    Frame,
    InitSyn,
    Join,
    KeepAlive,
    NetworkMessage,
    OpenSyn,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    TransportOam,
)
from zenspark.wire.values import Priority, QoS, TimeUnit, WhatAmI, WireExpr, ZenohId

OFFERS = {
    "plain": Capabilities(),
    "no priorities": Capabilities(qos=False),
    "8 bit numbers": Capabilities(resolution=0),
    "small batches": Capabilities(batch_size=256),
    "compressed": Capabilities(compression=True),
    "low latency": Capabilities(low_latency=True),
}


def push(payload: bytes = b"x", key: str = "demo/k") -> Push:
    return Push(wire_expr=WireExpr(0, key), body=Put(payload=payload))


def framed(*messages: NetworkMessage, sn: int, priority: Priority = Priority.DATA) -> bytes:
    return wrapped(encode(Frame(reliable=True, sn=sn, priority=priority, msgs=messages)))


def wrapped(batch: bytes) -> bytes:
    return len(batch).to_bytes(2, "little") + batch


def reason(events: list[ConnectionEvent]) -> CloseReason:
    closed = events[-1]
    assert isinstance(closed, Closed), events
    return closed.reason


@pytest.mark.parametrize("name", OFFERS)
@pytest.mark.parametrize("cut", [0, 1, 7])
def test_messages_arrive_as_sent_however_the_stream_is_cut(name: str, cut: int) -> None:
    alice, bob = opened_pair(OFFERS[name], OFFERS[name], cut)
    sent = [push(b"1"), Declare(body=DeclareFinal()), push(b"2" * 40), Push(wire_expr=WireExpr(0, "d"), body=Del())]
    for message in sent:
        send(alice, message)
        send(bob, message)
    assert shuttle(alice, bob, cut) == [MessageReceived(message, True) for message in sent]
    assert shuttle(bob, alice, cut) == [MessageReceived(message, True) for message in sent]


@pytest.mark.parametrize("name", [name for name in OFFERS if name != "low latency"])
@pytest.mark.parametrize("reliable", [True, False])
def test_large_messages_are_fragmented_and_reassembled(name: str, reliable: bool) -> None:
    alice, bob = opened_pair(OFFERS[name], OFFERS[name])
    large = push(bytes(range(256)) * 1200)
    for message in (push(b"before"), large, push(b"after")):
        send(alice, message, reliable)
    expected = [MessageReceived(message, reliable) for message in (push(b"before"), large, push(b"after"))]
    assert shuttle(alice, bob) == expected


def test_priorities_go_out_most_urgent_first() -> None:
    alice, bob = opened_pair()
    for priority in reversed(Priority):
        send(alice, push(bytes([priority])), priority=priority)
    assert shuttle(alice, bob) == [MessageReceived(push(bytes([priority])), True) for priority in Priority]


def test_reliability_may_change_inside_a_batch() -> None:
    """Ours changes with the batch, which holds one frame; others change it from one frame to the next."""
    alice, bob = opened_pair()
    for reliable in (False, True, True, False):
        send(alice, push(), reliable)
    batches, data = [], bytes(written(alice))
    while data:
        size = 2 + int.from_bytes(data[:2], "little")
        batches.append(data[2:size])
        data = data[size:]
    assert len(batches) == 3
    joined = wrapped(b"".join(batches))
    assert [event.reliable for event in feed(bob, joined) if isinstance(event, MessageReceived)] == [
        False,
        True,
        True,
        False,
    ]


class TestSequenceNumbers:
    """Protocol section 7.1."""

    def test_repetitions_and_old_numbers_are_dropped_and_gaps_are_not(self) -> None:
        alice, bob = opened_pair()
        assert bob.parameters is not None
        first = bob.parameters.peer_initial_sn
        for sn, delivered in [(first, True), (first, False), (first + 4870, True), (first + 1, False)]:
            events = feed(bob, framed(push(), Declare(body=DeclareFinal()), push(), sn=sn))
            assert len(events) == (3 if delivered else 0)
        assert bob.state is ConnectionState.OPEN
        assert alice.state is ConnectionState.OPEN

    def test_frame_repeated_in_the_same_read_is_dropped(self) -> None:
        _, bob = opened_pair()
        assert bob.parameters is not None
        frame = encode(Frame(reliable=True, sn=bob.parameters.peer_initial_sn, msgs=(push(),)))
        assert len(feed(bob, wrapped(frame + frame))) == 1
        assert len(feed(bob, wrapped(frame) + framed(push(b"new"), sn=bob.parameters.peer_initial_sn + 1))) == 1

    def test_a_number_above_the_mask_ends_the_session(self) -> None:
        _, bob = opened_pair(Capabilities(resolution=0))
        assert reason(feed(bob, framed(push(), sn=128))) is CloseReason.INVALID

    def test_each_priority_has_its_own_sequence_numbers(self) -> None:
        _, bob = opened_pair()
        assert bob.parameters is not None
        first = bob.parameters.peer_initial_sn
        data = framed(push(), sn=first) + framed(push(), sn=first, priority=Priority.REAL_TIME)
        assert len(feed(bob, data)) == 2

    def test_priority_without_negotiated_qos_ends_the_session(self) -> None:
        _, bob = opened_pair(Capabilities(qos=False))
        assert reason(feed(bob, framed(push(), sn=1, priority=Priority.REAL_TIME))) is CloseReason.INVALID


class TestFragments:
    def fragment(self, bob: Connection, offset: int, payload: bytes, more: bool = True, first: bool = False) -> bytes:
        assert bob.parameters is not None
        sn = bob.parameters.peer_initial_sn + offset
        return wrapped(encode(Fragment(reliable=True, more=more, sn=sn, first=first, payload=payload)))

    def test_missing_fragment_loses_one_message(self) -> None:
        _, bob = opened_pair()
        raw = encode(push(b"z" * 30))
        data = self.fragment(bob, 0, raw[:10], first=True) + self.fragment(bob, 2, raw[10:], more=False)
        assert feed(bob, data) == []
        assert bob.receive_counters.lost == {LossReason.FRAGMENT_MISSING: 1}
        assert feed(bob, self.fragment(bob, 3, raw, more=False, first=True)) == [MessageReceived(push(b"z" * 30), True)]

    def test_repeated_fragment_is_dropped(self) -> None:
        _, bob = opened_pair()
        raw = encode(push(b"z" * 30))
        first, last = self.fragment(bob, 0, raw[:10], first=True), self.fragment(bob, 1, raw[10:], more=False)
        assert feed(bob, first + first + last + last) == [MessageReceived(push(b"z" * 30), True)]

    @pytest.mark.parametrize("message", [push(b"z" * 30), Push(wire_expr=WireExpr(0, "d"), body=Del(attachment=b"z"))])
    def test_fragmented_publication_is_a_row_in_the_receive_buffer(self, message: Push) -> None:
        _, bob = opened_pair()
        raw = encode(message)
        data = self.fragment(bob, 0, raw[:4], first=True) + self.fragment(bob, 1, raw[4:], more=False)
        found = []
        for part in (data[:-3], data[-3:]):  # what is not all here yet stays there
            room = bob.buffer()
            room[: len(part)] = part
            for event in bob.receive(len(part), 0.0):
                assert isinstance(event, PushRun)
                assert not event.owns_buffer
                assert event.columns.data is room.obj
                found += [event.columns.push(row) for row in range(event.start, event.stop)]
        assert found == [message]

    @pytest.mark.parametrize("message", [push(b"z" * 30), Push(wire_expr=WireExpr(0, "d"), body=Del(attachment=b"z"))])
    def test_fragmented_publication_with_messages_in_between_owns_its_buffer(self, message: Push) -> None:
        _, bob = opened_pair()
        raw = encode(message)
        pieces = self.fragment(bob, 0, raw[:4], first=True), self.fragment(bob, 1, raw[4:], more=False)
        data = wrapped(encode(KeepAlive())).join(pieces)
        bob.buffer()[: len(data)] = data
        found = []
        for event in bob.receive(len(data), 0.0):
            assert isinstance(event, PushRun)
            assert event.owns_buffer
            assert event.columns.data is not bob.buffer().obj
            found += [event.columns.push(row) for row in range(event.start, event.stop)]
        assert found == [message]

    @pytest.mark.parametrize("reliable", [True, False])
    @pytest.mark.parametrize("priority", [Priority.DATA, Priority.REAL_TIME])
    def test_row_from_fragments_has_its_reliability_and_priority(self, reliable: bool, priority: Priority) -> None:
        alice, bob = opened_pair(Capabilities(batch_size=64))
        send(alice, push(b"z" * 300), reliable, priority)
        data = written(alice)
        bob.buffer()[: len(data)] = data
        found = []
        for event in bob.receive(len(data), 0.0):
            assert isinstance(event, PushRun)
            template = event.columns.template_at(0)
            found.append((event.columns.push(0), template.reliable, template.priority))
        assert found == [(push(b"z" * 300), reliable, priority)]

    def test_any_network_message_may_be_fragmented(self) -> None:
        _, bob = opened_pair()
        raw = encode(Declare(body=DeclareFinal()))
        data = self.fragment(bob, 0, raw[:1], first=True) + self.fragment(bob, 1, raw[1:], more=False)
        assert feed(bob, data) == [MessageReceived(Declare(body=DeclareFinal()), True)]

    @pytest.mark.parametrize("joined", [encode(push()) * 2, encode(push()) + b"\x00", b""])
    def test_fragments_of_more_or_less_than_one_message_end_the_session(self, joined: bytes) -> None:
        _, bob = opened_pair()
        assert reason(feed(bob, self.fragment(bob, 0, joined, more=False, first=True))) is CloseReason.INVALID

    def test_fragments_that_join_to_no_message_end_the_session(self) -> None:
        _, bob = opened_pair()
        assert reason(feed(bob, self.fragment(bob, 0, b"\xff", more=False, first=True))) is CloseReason.INVALID

    def test_a_message_larger_than_allowed_is_lost(self) -> None:
        alice = Connection(Initiator(ALICE, Capabilities(batch_size=128)), 0.0)
        bob = Connection(Acceptor(BOB, Capabilities(), b"key", 7), 0.0, message_limit=100)
        shake_hands(alice, bob)
        send(alice, push(b"z" * 300))
        assert shuttle(alice, bob) == []
        assert bob.receive_counters.lost == {LossReason.TOO_LARGE: 1}
        assert bob.state is ConnectionState.OPEN


class TestBadPeers:
    """Any bytes lead to Closed, with a reason."""

    @pytest.mark.parametrize(
        "data",
        [
            wrapped(b"\x08"),
            wrapped(b"\x25\x01\x18"),
            wrapped(b"\x25\x01\x3d\x00"),
            b"\xff\xff",
            wrapped(encode(Frame(reliable=True, sn=1, msgs=(push(),)))[:-1]),
        ],
        ids=["unknown transport id", "unknown network id", "cut message", "too long a batch", "cut payload"],
    )
    def test_malformed_bytes_in_a_session_close_it(self, data: bytes) -> None:
        _, bob = opened_pair(Capabilities(batch_size=2048))
        events = feed(bob, data)
        assert reason(events) is CloseReason.INVALID
        assert bob.state is ConnectionState.CLOSED
        assert feed(bob, framed(push(), sn=1)) == []
        assert isinstance(events[-1], Closed)
        assert events[-1].close_batch == wrapped(encode(Close(session=True, reason=CloseReason.INVALID)))

    @pytest.mark.parametrize("data", [wrapped(b"\x1f"), wrapped(encode(KeepAlive())), wrapped(b"\x01\x08\x00\x01")])
    def test_malformed_bytes_in_a_handshake_close_it(self, data: bytes) -> None:
        bob = Connection(Acceptor(BOB, Capabilities(), b"key", 7), 0.0)
        (closed,) = feed(bob, data)
        assert isinstance(closed, Closed)
        assert closed == Closed(
            CloseReason.INVALID, closed.text, False, wrapped(encode(Close(session=False, reason=2)))
        )

    def test_invalid_compressed_batch_closes_the_session(self) -> None:
        _, bob = opened_pair(OFFERS["compressed"], OFFERS["compressed"])
        assert reason(feed(bob, wrapped(b"\x01garbage"))) is CloseReason.INVALID

    def test_oversized_compressed_batch_closes_the_session(self) -> None:
        offer = Capabilities(compression=True, batch_size=256)
        _, bob = opened_pair(offer, offer)
        assert reason(feed(bob, b"\xff\x00")) is CloseReason.INVALID

    @pytest.mark.parametrize("size", [0, MIN_BATCH_BYTES - 1])
    def test_too_small_batch_size_is_refused(self, size: int) -> None:
        alice = Connection(Initiator(ALICE, Capabilities(batch_size=size)), 0.0)
        bob = Connection(Acceptor(BOB, Capabilities(), b"key", 7), 0.0)
        assert {event.reason for event in shake_hands(alice, bob) if isinstance(event, Closed)} == {CloseReason.INVALID}

    def test_oversized_batch_length_is_in_the_reason(self) -> None:
        _, bob = opened_pair(Capabilities(batch_size=2048))
        (closed,) = feed(bob, b"\x00\x10")
        assert isinstance(closed, Closed)
        assert "4096 is more than the 2046" in closed.text

    def test_messages_before_a_malformed_byte_are_delivered(self) -> None:
        _, bob = opened_pair()
        assert bob.parameters is not None
        events = feed(bob, framed(push(), sn=bob.parameters.peer_initial_sn) + wrapped(b"\x08"))
        assert events[0] == MessageReceived(push(), True)
        assert reason(events) is CloseReason.INVALID


def test_close_flag_distinguishes_session_end_from_refused_link() -> None:
    """MR-53: S is set at the end of a session, and clear where only a link is refused."""
    for reason in CloseReason:
        alice, bob = opened_pair()
        is_end = reason is not CloseReason.MAX_LINKS
        assert alice.close(reason).close_batch == wrapped(encode(Close(session=is_end, reason=reason)))
        acceptor = Connection(Acceptor(BOB, Capabilities(), b"key", 7), 0.0)
        assert acceptor.close(reason).close_batch == wrapped(encode(Close(session=False, reason=reason)))
        assert bob.state is ConnectionState.OPEN


def test_owner_may_refuse_a_requested_session() -> None:
    alice = Connection(Initiator(ALICE, Capabilities()), 0.0)
    bob = Connection(Acceptor(BOB, Capabilities(), b"key", 7), 0.0)
    (init_syn,) = alice.start()
    (init_ack,) = feed(bob, batch_of(init_syn))
    identified, open_syn = feed(alice, batch_of(init_ack))
    assert identified == PeerIdentified(BOB.zid)
    (requested,) = feed(bob, batch_of(open_syn))
    assert isinstance(requested, SessionRequested)
    assert bob.state is ConnectionState.REQUESTED
    assert feed(bob, framed(push(), sn=1)) == []
    farewell = bob.close(CloseReason.MAX_LINKS).close_batch
    (closed,) = feed(alice, farewell)
    assert isinstance(closed, Closed)
    assert (closed.reason, closed.by_peer, closed.close_batch) == (CloseReason.MAX_LINKS, True, b"")


def batch_of(event: ConnectionEvent) -> bytes:
    assert isinstance(event, Send)
    return event.batch


def test_harmless_messages_are_ignored() -> None:
    _, bob = opened_pair()
    assert bob.parameters is not None
    empty = (
        encode(KeepAlive())
        + encode(TransportOam(id=5))
        + encode(Frame(reliable=True, sn=bob.parameters.peer_initial_sn))
    )
    assert feed(bob, wrapped(empty) + b"\0\0") == []
    assert bob.state is ConnectionState.OPEN


def test_init_open_and_join_are_ignored_in_an_open_session() -> None:
    _, bob = opened_pair()
    assert bob.parameters is not None
    init = InitSyn(version=9, whatami=WhatAmI.PEER, zid=ZenohId(7))
    join = Join(version=9, whatami=WhatAmI.PEER, zid=ZenohId(7), unit=TimeUnit.S, lease=1, sn_re=0, sn_be=0)
    opening = OpenSyn(lease=1, unit=TimeUnit.S, initial_sn=0, cookie=b"")
    frame = encode(Frame(reliable=True, sn=bob.parameters.peer_initial_sn, msgs=(push(),)))
    batch = encode(init) + encode(opening) + encode(join) + frame
    assert feed(bob, wrapped(batch)) == [MessageReceived(push(), True)]
    assert bob.state is ConnectionState.OPEN


@pytest.mark.parametrize("session", [True, False])
def test_received_close_ends_the_link_with_its_reason(session: bool) -> None:
    """There is one link in a session, so it ends whichever of the two the message means."""
    _, bob = opened_pair()
    (closed,) = feed(bob, wrapped(encode(Close(session=session, reason=CloseReason.EXPIRED))))
    assert isinstance(closed, Closed)
    assert (closed.reason, closed.by_peer, closed.close_batch) == (CloseReason.EXPIRED, True, b"")
    assert bob.state is ConnectionState.CLOSED


def test_frame_with_unknown_optional_extension_is_decoded() -> None:
    _, bob = opened_pair()
    assert bob.parameters is not None
    raw = encode(Frame(reliable=True, sn=bob.parameters.peer_initial_sn, msgs=(push(),)))
    body = raw[raw.index(encode(push())) :]
    marked = bytes([raw[0] | 0x80]) + raw[1 : len(raw) - len(body)] + b"\x07" + body
    assert feed(bob, wrapped(marked)) == [MessageReceived(push(), True)]
    assert feed(bob, wrapped(marked)) == [], "a repetition"


@pytest.mark.parametrize("name", ["plain", "compressed"])
def test_empty_batches_are_ignored(name: str) -> None:
    alice, bob = opened_pair(OFFERS[name], OFFERS[name])
    send(alice, push())
    assert feed(bob, b"\0\0" + written(alice)) == [MessageReceived(push(), True)]
    waiting = Connection(Acceptor(BOB, Capabilities(), b"key", 7), 0.0)
    assert feed(waiting, b"\0\0") == []


def test_columns_may_be_small_and_shared() -> None:
    shared = PushColumns(4)
    alice = Connection(Initiator(ALICE, Capabilities()), 0.0, columns=shared)
    bob = Connection(Acceptor(BOB, Capabilities(), b"key", 7), 0.0, columns=shared)
    shake_hands(alice, bob)
    for source, target in ((alice, bob), (bob, alice)):
        for number in range(11):
            send(source, push(b"%d" % number))
        assert shuttle(source, target) == [MessageReceived(push(b"%d" % number), True) for number in range(11)]
        for _ in range(3):
            send(source, push(b"left"))
        data = written(source)
        target.buffer()[: len(data)] = data
        next(iter(target.receive(len(data), 0.0)))  # and its owner fails, so that the rows stay there


def test_lease_is_negotiated_and_announced() -> None:
    alice = Connection(Initiator(ALICE, Capabilities(lease_ms=8000)), 0.0, keep_alives=8)
    shake_hands(alice, Connection(Acceptor(BOB, Capabilities(lease_ms=5000), b"key", 7), 0.0))
    assert alice.next_timeout() == 1.0
    alice.restart_keep_alive(100.0)
    assert alice.next_timeout() == 5.0
    alice.renew_leases(100.0)
    assert alice.next_timeout() == 101.0


def test_dialed_zid_is_known_after_init_ack() -> None:
    alice = Connection(Initiator(ALICE, Capabilities()), 0.0)
    bob = Connection(Acceptor(BOB, Capabilities(), b"key", 7), 0.0)
    assert alice.dialed_zid is None
    shake_hands(alice, bob)
    assert alice.dialed_zid == BOB.zid
    assert bob.dialed_zid is None


def test_connection_may_be_closed_on_peer_identified() -> None:
    alice = Connection(Initiator(ALICE, Capabilities()), 0.0)
    bob = Connection(Acceptor(BOB, Capabilities(), b"key", 7), 0.0)
    (syn,) = alice.start()
    assert isinstance(syn, Send)
    (ack,) = feed(bob, syn.batch)
    assert isinstance(ack, Send)
    alice.buffer()[: len(ack.batch)] = ack.batch
    events = alice.receive(len(ack.batch), 0.0)
    assert next(events) == PeerIdentified(BOB.zid)
    alice.close()
    assert list(events) == [], "nothing is requested"


@pytest.mark.parametrize("name", OFFERS)
def test_close_is_sent_and_received(name: str) -> None:
    alice, bob = opened_pair(OFFERS[name], OFFERS[name])
    closed = alice.close()
    assert (closed.reason, closed.by_peer) == (CloseReason.GENERIC, False)
    assert alice.close().close_batch == b""
    (received,) = feed(bob, closed.close_batch)
    assert isinstance(received, Closed)
    assert received.by_peer
    assert bob.receive_eof().by_peer


class TestTime:
    """Keep-alives go out four times in our lease; the peer's lease is when we give it up."""

    def test_keep_alives_are_due_four_times_per_lease(self) -> None:
        alice, bob = opened_pair(Capabilities(lease_ms=2000))
        assert alice.next_timeout() == 0.5
        assert alice.handle_timeout(0.4) == []
        assert alice.handle_timeout(0.5) == [Send(wrapped(encode(KeepAlive())))]
        alice.restart_keep_alive(0.5)
        assert alice.next_timeout() == 1.0
        assert bob.next_timeout() == 2.0

    def test_silent_peer_expires(self) -> None:
        _, bob = opened_pair(Capabilities(lease_ms=2000))
        bob.restart_keep_alive(1.9)
        assert reason(bob.handle_timeout(2.0)) is CloseReason.EXPIRED
        assert bob.handle_timeout(3.0) == []

    def test_any_received_byte_renews_the_lease(self) -> None:
        _, bob = opened_pair(Capabilities(lease_ms=2000))
        feed(bob, wrapped(encode(KeepAlive())), now=1.5)
        bob.restart_keep_alive(1.9)
        assert bob.handle_timeout(2.0) == []

    def test_a_handshake_has_no_lease(self) -> None:
        assert Connection(Initiator(ALICE, Capabilities()), 0.0).next_timeout() == float("inf")

    def test_a_closed_session_has_no_timeout(self) -> None:
        alice, _ = opened_pair()
        alice.close()
        assert alice.next_timeout() == float("inf")


SHARED = Put(shm=True, payload=b"\x01\x01\x02zz")


@pytest.mark.parametrize(
    "message",
    [
        Push(wire_expr=WireExpr(0, "k"), body=SHARED),
        Request(request_id=1, wire_expr=WireExpr(0, "k"), body=Query(shm=True)),
        Response(request_id=1, wire_expr=WireExpr(0, "k"), body=Reply(body=SHARED)),
        Response(request_id=1, wire_expr=WireExpr(0, "k"), body=Err(shm=True, payload=b"\x00")),
    ],
)
def test_a_payload_in_shared_memory_is_rejected_and_nothing_else(message: NetworkMessage) -> None:
    """The peers did not agree on shared memory, so a payload in it is no value."""
    alice, bob = opened_pair()
    for each in (push(b"before"), message, push(b"after")):
        send(alice, each)
    before, rejected, after = shuttle(alice, bob)
    assert (before, after) == (MessageReceived(push(b"before"), True), MessageReceived(push(b"after"), True))
    assert rejected == MessageRejected(message, LossReason.SHARED_MEMORY)
    assert (bob.receive_counters.received, bob.receive_counters.lost) == (2, {LossReason.SHARED_MEMORY: 1})


def test_qos_travels_with_the_message() -> None:
    alice, bob = opened_pair()
    message = Push(wire_expr=WireExpr(0, "k"), qos=QoS(Priority.REAL_TIME), body=Put(payload=b""))
    send(alice, message, priority=1)
    assert shuttle(alice, bob) == [MessageReceived(message, True)]


@pytest.mark.slow
def test_receive_buffer_grows_up_to_a_limit() -> None:
    alice, bob = opened_pair()
    assert len(bob.buffer()) == INITIAL_STREAM_BUFFER_BYTES
    send(alice, push(b"z" * 60_000))  # a batch larger than that
    assert shuttle(alice, bob) == [MessageReceived(push(b"z" * 60_000), True)]
    assert INITIAL_STREAM_BUFFER_BYTES < len(bob.buffer()) <= 1 << 17
    for _ in range(3000):
        send(alice, push(b"z" * 1000))
    assert shuttle(alice, bob) == [MessageReceived(push(b"z" * 1000), True)] * 3000
    assert len(bob.buffer()) == MAX_BUFFER_BYTES


def test_datagram_buffer_holds_the_largest_datagram() -> None:
    connection = Connection(Initiator(ALICE, Capabilities()), 0.0, is_streamed=False)
    assert len(connection.buffer()) == DATAGRAM_BUFFER_BYTES > 0xFFFF + 2
