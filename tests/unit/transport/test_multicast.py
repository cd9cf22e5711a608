"""A group without a network: which members are accepted, and which of their messages are received."""

from __future__ import annotations

import pytest

from tests.group_nodes import Node, deliver_datagrams, joined_group_nodes
from zenspark.errors import CloseReason
from zenspark.transport import multicast as module
from zenspark.transport.counters import LossReason
from zenspark.transport.framing import compress
from zenspark.transport.handshake import Identity
from zenspark.transport.multicast import (
    DEFAULT_GROUP_BATCH_BYTES,
    MIN_JOIN_REPLY_SECONDS,
    GroupSession,
    GroupSettings,
    JoinDue,
    MemberEvent,
    MemberJoined,
    MemberLeft,
    SenderRefused,
)
from zenspark.wire.codec import decode_transport, encode
from zenspark.wire.columns import PushColumns
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import (
    Close,
    Declare,
    DeclareFinal,
    Fragment,
    Frame,
    InitSyn,
    Join,
    KeepAlive,
    NetworkMessage,
    OpenSyn,
    Push,
    Put,
    TransportOam,
)
from zenspark.wire.values import NextSns, Priority, TimeUnit, WhatAmI, WireExpr, ZenohId

RULES = {
    "plain": GroupSettings(),
    "priorities": GroupSettings(qos=True),
    "compressed": GroupSettings(compression=True),
    "small batches": GroupSettings(batch_size=256),
    "8 bit numbers": GroupSettings(resolution=0x08),
}
STRANGER = "udp/10.9.9.9:9"
JOIN = Join(version=9, whatami=WhatAmI.PEER, zid=ZenohId(0xF), unit=TimeUnit.S, lease=10, sn_re=7, sn_be=9, patch=1)


def push(payload: bytes = b"x", key: str = "demo/k") -> Push:
    return Push(wire_expr=WireExpr(0, key), body=Put(payload=payload))


def frame(*messages: NetworkMessage, sn: int = 7, priority: Priority = Priority.DATA) -> bytes:
    return encode(Frame(reliable=True, sn=sn, priority=priority, msgs=messages))


def payloads(node: Node) -> list[bytes]:
    bodies = [message.body for _, message in node.messages if isinstance(message, Push)]
    return [body.payload for body in bodies if isinstance(body, Put)]


def refusals(node: Node) -> list[str]:
    return [event.text for event in node.events if isinstance(event, SenderRefused)]


def departures(node: Node) -> list[tuple[int, CloseReason]]:
    return [
        (event.member.identity.zid.value, event.closed.reason) for event in node.events if isinstance(event, MemberLeft)
    ]


@pytest.mark.parametrize("name", RULES)
class TestTalk:
    """Members with the same parameters."""

    def test_all_members_join_each_other(self, name: str) -> None:
        nodes = joined_group_nodes(4, RULES[name])
        assert [node.others for node in nodes] == [[2, 3, 4], [1, 3, 4], [1, 2, 4], [1, 2, 3]]

    @pytest.mark.parametrize("reliable", [True, False])
    def test_message_reaches_all_other_members_once(self, name: str, reliable: bool) -> None:
        first, *others = joined_group_nodes(3, RULES[name])
        sent = [push(b"1"), Declare(body=DeclareFinal()), push(bytes(range(256)) * 100), push(b"2")]
        for message in sent:
            first.send_message(message, 1.0, reliable)
        deliver_datagrams([first, *others], 1.0)
        assert [node.messages for node in others] == [[(1, message) for message in sent]] * 2
        assert first.messages == []

    def test_repeated_frames_are_dropped(self, name: str) -> None:
        first, second = joined_group_nodes(2, RULES[name])
        for number in range(3):
            first.send_message(push(b"%d" % number), 1.0)
        deliver_datagrams([first, second], 1.0, lambda sent: [*sent, *sent])
        assert payloads(second) == [b"0", b"1", b"2"]

    def test_no_datagram_is_larger_than_announced(self, name: str) -> None:
        (node,) = joined_group_nodes(1, RULES[name])
        node.send_message(push(bytes(range(256)) * 100), 1.0)
        assert max(len(datagram) for _, datagram in node.sent) <= RULES[name].batch_size

    def test_leaving_member_sends_close(self, name: str) -> None:
        first, second, third = joined_group_nodes(3, RULES[name])
        closed = first.leave(1.0)
        assert (closed.reason, closed.by_peer) == (CloseReason.GENERIC, False)
        deliver_datagrams([first, second, third], 1.0)
        assert second.others == [3]
        assert departures(second) == departures(third) == [(1, CloseReason.GENERIC)]
        assert first.group.has_ended
        assert first.group.close().close_batch == b""


def test_each_priority_has_its_own_sequence_numbers() -> None:
    first, second = joined_group_nodes(2, RULES["priorities"])
    for priority in Priority:
        first.send_message(push(bytes([priority])), 1.0, priority=priority)
    newcomer = Node(3, RULES["priorities"], 1.0)
    newcomer.tick(1.0)
    deliver_datagrams([first, second, newcomer], 1.0)
    assert payloads(second) == [bytes([priority]) for priority in Priority]
    for priority in Priority:
        first.send_message(push(bytes([priority])), 2.0, priority=priority)
    deliver_datagrams([first, second, newcomer], 2.0)
    assert payloads(newcomer) == [bytes([priority]) for priority in Priority]
    assert second.group.qos


@pytest.mark.parametrize("priority", Priority)
@pytest.mark.parametrize("reliable", [True, False])
def test_sequence_numbers_of_priorities_override_those_of_the_join_body(priority: Priority, reliable: bool) -> None:
    announced = NextSns(tuple((100 + 10 * number, 105 + 10 * number) for number in range(8)))
    first = announced.pairs[priority][0 if reliable else 1]
    node = Node(1, GroupSettings(qos=True))
    node.receive(STRANGER, encode(replace(JOIN, sn_re=0, sn_be=0, qos=announced)), 0.0)
    for sn in (first - 1, first):
        sent = Frame(reliable=reliable, sn=sn, priority=priority, msgs=(push(b"%d" % sn),))
        node.receive(STRANGER, encode(sent), 0.0)
    assert payloads(node) == [b"%d" % first], "the number before it is an old one"


def test_a_join_announces_the_number_of_each_priority() -> None:
    node = Node(1, GroupSettings(qos=True), first_sn=0x5462F1)
    for priority in Priority:
        for _ in range(priority):
            node.send_message(push(), 0.0, priority=priority)
    join = decode_transport(node.group.make_join(0.0)[2:])
    assert isinstance(join, Join)
    assert join.qos == NextSns(tuple((0x5462F1 + priority, 0x5462F1) for priority in Priority))
    assert (join.sn_re, join.sn_be) == (0, 0)


class TestJoin:
    """Protocol section 5.8."""

    def test_join_has_the_documented_bytes(self) -> None:
        node = Node(0xA0A1, first_sn=0x5462F1)
        node.tick(0.0)
        assert node.sent == [(node.address, bytes.fromhex("a70911a1a00a f1c5d102 f1c5d102 2701"))]

    def test_join_is_sent_at_once_and_periodically(self) -> None:
        node = Node(1, GroupSettings(join_interval=2.0, lease_ms=1_000_000))
        sent = []
        for now in range(7):
            node.tick(float(now))
            sent.append([type(decode_transport(datagram)) for _, datagram in node.sent])
            node.sent.clear()
        assert sent == [[Join], [], [Join], [], [Join], [], [Join]]

    def test_join_carries_sizes_only_if_not_default(self) -> None:
        for rules, expected in [
            (GroupSettings(), (None, None)),
            (GroupSettings(batch_size=2048), (0x0A, 2048)),
            (GroupSettings(resolution=0x09), (0x09, DEFAULT_GROUP_BATCH_BYTES)),
        ]:
            node = Node(1, rules)
            node.tick(0.0)
            join = decode_transport(node.sent[0][1])
            assert isinstance(join, Join)
            assert (join.resolution, join.batch_size) == expected

    def test_join_carries_the_next_sequence_numbers(self) -> None:
        node = Node(1, GroupSettings(lease_ms=1500), first_sn=0x7F)
        node.send_message(push(), 0.0)
        node.send_message(push(), 0.0, reliable=False)
        node.send_message(push(), 0.0, reliable=False)
        join = decode_transport(node.group.make_join(0.0)[2:])
        assert isinstance(join, Join)
        assert (join.sn_re, join.sn_be, join.lease, join.unit) == (0x80, 0x81, 1500, TimeUnit.MS)

    def test_frames_before_join_are_dropped(self) -> None:
        first, second = Node(1), Node(2)
        first.send_message(push(b"early"), 0.0)
        deliver_datagrams([first, second], 0.0)
        first.tick(0.0)
        first.send_message(push(b"late"), 0.0)
        deliver_datagrams([first, second], 0.0)
        assert payloads(second) == [b"late"]

    def test_join_may_be_anywhere_in_a_datagram(self) -> None:
        node = Node(1)
        node.receive(STRANGER, frame(push(b"1"), sn=6) + encode(KeepAlive()) + encode(JOIN) + frame(push(b"2")), 0.0)
        assert payloads(node) == [b"2"]
        node.receive(STRANGER, frame(push(b"3"), sn=8) + encode(JOIN) + frame(push(b"4"), sn=9), 0.0)
        assert payloads(node) == [b"2", b"3", b"4"]

    def test_new_member_gets_a_join_first_and_bursts_one_more(self) -> None:
        node = Node(1, now=-1.0)
        node.tick(-1.0)
        node.sent.clear()
        order: list[object] = []
        for number in range(5):
            raw = encode(replace(JOIN, zid=ZenohId(0x10 + number)))
            node.group.buffer()[: len(raw)] = raw
            for event in node.group.receive(f"udp/10.0.1.{number}:1", len(raw), 0.0):
                order.append(type(event))
                node.handle([event], 0.0)
        assert order == [JoinDue, *[MemberJoined] * 5]
        node.sent.clear()
        assert node.group.next_timeout() == MIN_JOIN_REPLY_SECONDS
        node.tick(MIN_JOIN_REPLY_SECONDS)
        assert len(node.sent) == 1
        assert node.group.next_timeout() > MIN_JOIN_REPLY_SECONDS

    def test_old_join_does_not_reset_lanes(self) -> None:
        node = Node(1)
        for datagram in [encode(JOIN), frame(push(b"1")), encode(JOIN), frame(push(b"1"))]:
            node.receive(STRANGER, datagram, 0.0)
        assert payloads(node) == [b"1"]

    def test_later_join_changes_the_lease(self) -> None:
        node = Node(1)
        node.receive(STRANGER, encode(JOIN), 0.0)
        node.receive(STRANGER, encode(replace(JOIN, lease=3)), 0.0)
        node.tick(3.0)
        assert departures(node) == [(0xF, CloseReason.EXPIRED)]

    def test_reserved_bits_of_the_resolution_mean_nothing(self) -> None:
        for reserved in (0x10, 0x80, 0xF0):
            node = Node(1)
            node.receive(STRANGER, encode(replace(JOIN, resolution=reserved | 0x0A, batch_size=8192)), 0.0)
            node.receive(STRANGER, frame(push(b"1")), 0.0)
            assert (node.others, payloads(node), refusals(node)) == ([0xF], [b"1"], [])

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"version": 8}, "protocol version 8, expected 9"),
            ({"zid": ZenohId(1)}, "its zid is the zid of this node"),
            ({"whatami": WhatAmI.CLIENT}, "it is a client; clients do not join groups"),
            ({"resolution": 0x09, "batch_size": 8192}, "resolution 0x09, expected 0x0a"),
            ({"resolution": 0x0A, "batch_size": 2048}, "batch size 2048, expected 8192"),
            ({"qos": NextSns(((1, 2),) * 8)}, "it uses priorities, this group does not"),
            ({"lease": 0}, "lease is 0"),
            ({"sn_be": 1 << 28}, "sequence number exceeds the resolution"),
        ],
    )
    def test_sender_with_other_parameters_is_refused_and_reported_once(
        self, changes: dict[str, object], why: str
    ) -> None:
        node = Node(1)
        for _ in range(3):
            node.receive(STRANGER, encode(replace(JOIN, **changes)), 0.0)
            node.receive(STRANGER, frame(push()), 0.0)
        assert refusals(node) == [why]
        assert node.others == []
        assert node.messages == []
        node.receive(STRANGER, encode(JOIN), 0.0)
        assert node.others == [0xF]

    def test_sender_without_priorities_is_refused_in_a_qos_group(self) -> None:
        node = Node(1, GroupSettings(qos=True))
        node.receive(STRANGER, encode(JOIN), 0.0)
        assert refusals(node) == ["it uses no priorities"]

    def test_member_that_changes_parameters_is_dropped(self) -> None:
        node = Node(1)
        node.receive(STRANGER, encode(JOIN), 0.0)
        node.receive(STRANGER, encode(replace(JOIN, version=10)) + frame(push()), 0.0)
        assert departures(node) == [(0xF, CloseReason.INVALID)]
        assert refusals(node) == ["protocol version 10, expected 9"]
        assert node.messages == []

    def test_number_of_members_is_limited(self) -> None:
        node = Node(1, GroupSettings(max_members=2))
        for number in range(4):
            node.receive(f"udp/10.0.1.{number}:1", encode(replace(JOIN, zid=ZenohId(0x10 + number))), 0.0)
        assert node.others == [0x10, 0x11]
        assert refusals(node) == ["group is full: 2 members (limit)"] * 2
        node.receive("udp/10.0.1.0:1", encode(replace(JOIN, zid=ZenohId(0x10))), 0.0)
        assert node.others == [0x10, 0x11]

    def test_refused_senders_are_not_remembered_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_REFUSED_SENDERS", 2)
        node = Node(1)
        for number in (0, 1, 2, 0):
            node.receive(f"udp/10.0.1.{number}:1", encode(replace(JOIN, version=8)), 0.0)
        assert len(refusals(node)) == 4

    def test_node_at_another_address_replaces_its_old_membership(self) -> None:
        node = Node(1)
        node.receive(STRANGER, encode(JOIN), 0.0)
        node.receive("udp/10.8.8.8:8", encode(replace(JOIN, sn_re=3)), 0.0)
        node.receive(STRANGER, frame(push(b"old")), 0.0)
        node.receive("udp/10.8.8.8:8", frame(push(b"new"), sn=3), 0.0)
        assert payloads(node) == [b"new"]
        assert departures(node) == [(0xF, CloseReason.GENERIC)]

    def test_another_node_at_the_same_address_replaces_the_first(self) -> None:
        node = Node(1)
        node.receive(STRANGER, encode(JOIN), 0.0)
        node.receive(STRANGER, encode(replace(JOIN, zid=ZenohId(0xE), sn_re=3)) + frame(push(b"lost"), sn=3), 0.0)
        node.receive(STRANGER, frame(push(b"new"), sn=4), 0.0)
        assert payloads(node) == [b"new"]
        assert node.others == [0xE]
        assert departures(node) == [(0xF, CloseReason.GENERIC)]


def test_messages_of_sessions_are_understood_in_groups_except_for_handshakes() -> None:
    node = Node(1)
    init = InitSyn(version=9, whatami=WhatAmI.PEER, zid=ZenohId(0xE))
    opening = OpenSyn(lease=10, unit=TimeUnit.S, initial_sn=0, cookie=b"")
    handshake = encode(init) + encode(opening)
    node.receive(STRANGER, handshake, 0.0)
    assert node.others == []
    raw = encode(push(b"2"))
    node.receive(
        STRANGER,
        encode(JOIN) + encode(TransportOam(id=5)) + handshake + encode(KeepAlive()) + frame(push(b"1")),
        0.0,
    )
    assert [type(event) for event in node.events] == [MemberJoined], "a handshake is no event"
    node.receive(STRANGER, encode(Fragment(more=True, reliable=True, sn=8, first=True, payload=raw[:3])), 0.0)
    node.receive(STRANGER, encode(Fragment(more=False, reliable=True, sn=9, payload=raw[3:])), 0.0)
    assert payloads(node) == [b"1", b"2"]
    assert node.others == [0xF]
    node.receive(STRANGER, encode(Close(session=False, reason=0)), 0.0)
    assert node.others == []


class TestTime:
    def test_silent_member_expires(self) -> None:
        first, second, third = joined_group_nodes(3, GroupSettings(lease_ms=4000, join_interval=100.0))
        for now in (1.5, 2.5, 3.5, 4.5, 5.5):
            for node in (first, second):
                node.tick(now)
            deliver_datagrams([first, second], now)
        assert first.others == [2]
        assert second.others == [1]
        assert departures(first) == [(3, CloseReason.EXPIRED)]
        assert third.group.members

    def test_idle_member_sends_keep_alive(self) -> None:
        (node,) = joined_group_nodes(1, GroupSettings(lease_ms=4000, keep_alives=4, join_interval=100.0))
        node.sent.clear()
        assert node.group.next_timeout() == 1.0
        node.tick(0.9)
        assert node.sent == []
        node.tick(1.0)
        assert [decode_transport(datagram) for _, datagram in node.sent] == [KeepAlive()]
        assert node.group.next_timeout() == 2.0

    def test_no_member_expires_while_reading_is_paused(self) -> None:
        first, _ = joined_group_nodes(2)
        first.group.renew_leases(100.0)
        first.tick(105.0)
        assert first.others == [2]

    def test_group_has_no_timeouts_after_leaving(self) -> None:
        first, _ = joined_group_nodes(2)
        first.leave(1.0)
        assert first.group.next_timeout() == float("inf")
        assert first.group.handle_timeout(1000.0) == []


class TestBadBytes:
    """Invalid messages of one member do not affect the others."""

    @pytest.mark.parametrize(
        "bad",
        [
            bytes.fromhex("1fffff"),
            bytes.fromhex("2507ffffff"),
            frame(push(), priority=Priority.REAL_TIME),
            encode(Frame(reliable=True, sn=1 << 30, msgs=(push(),))),
        ],
        ids=["no message", "no network message", "a priority", "a number above the mask"],
    )
    def test_only_the_violating_member_is_dropped_and_may_rejoin(self, bad: bytes) -> None:
        node = Node(1)
        node.receive(STRANGER, encode(JOIN), 0.0)
        node.receive("udp/10.8.8.8:8", encode(replace(JOIN, zid=ZenohId(0xE))), 0.0)
        node.receive(STRANGER, bad, 0.0)
        assert node.others == [0xE]
        assert [number for number, _ in departures(node)] == [0xF]
        node.receive(STRANGER, frame(push(b"dropped")), 0.0)
        node.receive("udp/10.8.8.8:8", frame(push(b"received")), 0.0)
        assert payloads(node) == [b"received"]
        node.receive(STRANGER, encode(JOIN), 1.0)
        assert node.others == [0xE, 0xF]

    def test_malformed_datagram_of_unknown_sender_is_rejected(self) -> None:
        node = Node(1)
        for _ in range(2):
            node.receive(STRANGER, bytes.fromhex("1fffff"), 0.0)
        assert len(refusals(node)) == 1

    def test_member_without_compression_is_refused(self) -> None:
        node = Node(1, GroupSettings(compression=True))
        node.receive(STRANGER, encode(JOIN), 0.0)
        assert len(refusals(node)) == 1
        node.receive(STRANGER, compress(encode(JOIN)), 0.0)
        node.receive(STRANGER, bytes([1]) + b"\xff" * 40, 0.0)
        assert departures(node) == [(0xF, CloseReason.INVALID)]
        plain = Node(2)
        plain.receive(STRANGER, compress(encode(JOIN)), 0.0)
        assert plain.others == []

    def test_a_message_without_its_beginning_is_lost_and_counted(self) -> None:
        node = Node(1)
        node.receive(STRANGER, encode(JOIN) + encode(Fragment(more=False, reliable=True, sn=7, payload=b"x")), 0.0)
        assert node.others == [0xF]
        assert not [event for event in node.events if isinstance(event, MemberEvent)]
        (member,) = node.group.members
        assert member.receiver.receive_counters.lost == {LossReason.FIRST_FRAGMENT_MISSING: 1}

    def test_messages_after_close_are_dropped(self) -> None:
        node = Node(1)
        node.receive(STRANGER, encode(JOIN) + encode(Close(session=False, reason=0)) + frame(push()), 0.0)
        assert node.others == []
        assert node.messages == []

    def test_no_messages_are_received_after_leaving(self) -> None:
        node = Node(1)
        raw = encode(JOIN) + frame(push(), Declare(body=DeclareFinal()), push())
        node.group.buffer()[: len(raw)] = raw
        received = 0
        for event in node.group.receive(STRANGER, len(raw), 0.0):
            if isinstance(event, MemberEvent):
                received += 1
                node.group.close()
        assert received == 1

    def test_members_are_shown_with_their_address(self) -> None:
        node = Node(1)
        node.receive(STRANGER, encode(JOIN), 0.0)
        assert repr(node.group.members) == f"[<Member f at {STRANGER}>]"


def test_frames_before_join_that_exceed_the_columns_are_skipped() -> None:
    node = Node(1)
    node.group = GroupSession(Identity(ZenohId(1), WhatAmI.PEER), GroupSettings(), 0.0, columns=PushColumns(2))
    node.receive(STRANGER, frame(*[push()] * 9) + encode(JOIN) + frame(*[push()] * 9), 0.0)
    assert len(node.messages) == 9
