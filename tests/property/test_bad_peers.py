"""Bad peers: whatever bytes come, at any point, they end that link with a reason and touch nothing else.

A node has a good neighbour and a bad one. The bad one shakes hands as far as it likes and then sends truncated,
oversized, garbled or slow bytes. After each of them the good neighbour still exchanges messages with the node.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.net.nodes import KEY, QUICK, TestNode, call, nodes, push
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import CloseReason
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node.limits import NodeLimits
from zenspark.transport.framing import LengthPrefix
from zenspark.transport.handshake import Capabilities, Identity, Initiator, Opened
from zenspark.wire.codec import decode_transport, encode
from zenspark.wire.messages import Close, Declare, DeclareKeyexpr, Fragment, Frame, InitAck, KeepAlive, TransportMessage
from zenspark.wire.values import BoundExpr, WhatAmI, ZenohId

LIMITS = NodeLimits(writer=QUICK, message_size=1 << 20)


class World:
    """The node that is attacked, and its good neighbour."""

    def __init__(self, limits: NodeLimits = LIMITS) -> None:
        self.node = TestNode(0xA1, limits=limits)
        self.good = TestNode(0xB1)
        self.there: Endpoint = self.node.listen_on_loopback()
        self.node.subscribe()
        self.good.subscribe()
        call(self.good, self.there)
        self.node.wait_for(0xB1)
        self.good.wait_for(0xA1)
        self.count = 0
        self.check()

    def check(self) -> None:
        """Both still receive from each other."""
        self.count += 1
        text = b"still here %d" % self.count
        for sender, receiver in ((self.good, self.node), (self.node, self.good)):
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while text not in receiver.received.payloads:
                assert time.monotonic() < deadline, "the good neighbour is not received any more"
                sender.publish(text)
                receiver.received.wait(lambda: text in receiver.received.payloads, 0.05)  # noqa: B023
            receiver.received.events.clear()
        assert self.node.neighbours() >= {0xB1}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World()
    with nodes(made.good, made.node):
        yield made


@pytest.fixture(scope="module")
def impatient_world() -> Iterator[World]:
    """A world whose node soon closes connections without a session: a handshake may not be done in time there."""
    made = World(NodeLimits(accept_timeout=0.3, writer=QUICK))
    with nodes(made.good, made.node):
        yield made


class Bad:
    """A peer that can do anything with its socket."""

    numbers = iter(range(0xBAD0, 0xFFFF))

    def __init__(self, endpoint: Endpoint, offer: Capabilities | None = None) -> None:
        self.zid = ZenohId(next(self.numbers))
        self.socket = socket.create_connection(endpoint.host_port, TIMEOUT_SECONDS)
        self.opening = Initiator(Identity(self.zid, WhatAmI.CLIENT), offer or Capabilities())
        self.got = b""

    def send_message(self, message: TransportMessage) -> None:
        self.socket.sendall(LengthPrefix.U16.wrap(encode(message)))

    def send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # the node may have had enough already
            self.socket.sendall(data)

    def receive_message(self) -> TransportMessage:
        while len(self.got) < 2 or len(self.got) < 2 + int.from_bytes(self.got[:2], "little"):
            data = self.socket.recv(70_000)
            assert data, "the node closed"
            self.got += data
        end = 2 + int.from_bytes(self.got[:2], "little")
        batch, self.got = self.got[2:end], self.got[end:]
        return decode_transport(batch)

    def shake_hands(self) -> None:
        self.send_message(self.opening.start())
        self.send_open_syn()
        assert isinstance(self.opening.receive(self.receive_message()), Opened)

    def send_open_syn(self) -> None:
        reply = self.opening.receive(self.receive_message())
        assert isinstance(reply, TransportMessage)
        self.send_message(reply)

    def end(self) -> CloseReason | None:
        """Wait for the node to close; the reason it gave, if any."""
        reason = None
        with contextlib.suppress(ConnectionError):
            while data := self.socket.recv(70_000):
                self.got += data
        while len(self.got) > 2:
            size = int.from_bytes(self.got[:2], "little")
            message = decode_transport(self.got[2 : 2 + size])
            self.got = self.got[2 + size :]
            if isinstance(message, Close):
                reason = message.close_reason
        return reason


@contextlib.contextmanager
def bad(world: World, offer: Capabilities | None = None) -> Iterator[Bad]:
    peer = Bad(world.there, offer)
    try:
        yield peer
    finally:
        peer.socket.close()
        world.check()


def batch(data: bytes) -> bytes:
    return LengthPrefix.U16.wrap(data)


# -- in the handshake ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        batch(b"\xff" * 10),
        batch(encode(KeepAlive())),
        batch(b"\x01\x08\x00\x01"),
        batch(b"\x01\x09"),
        batch(b"GET / HTTP/1.1\r\n\r\n"),
        batch(bytes(60_000)),
    ],
    ids=["garbage", "keep-alive", "old version", "truncated", "http", "zeros"],
)
def test_other_bytes_instead_of_init_are_closed_with_reason_2(world: World, data: bytes) -> None:
    with bad(world) as peer:
        peer.send(data)
        assert peer.end() is CloseReason.INVALID


def test_other_bytes_instead_of_open_are_closed_with_reason_2(world: World) -> None:
    for data in (batch(b"\xff"), batch(b"\x42\x0a\x00\x03abc"), batch(encode(KeepAlive()))):
        with bad(world) as peer:
            peer.send_message(peer.opening.start())
            assert isinstance(peer.receive_message(), InitAck)
            peer.send(data)
            assert peer.end() is CloseReason.INVALID


@pytest.mark.parametrize("size", [0, 1, 16, 63])
def test_batches_in_which_nothing_fits_are_refused(world: World, size: int) -> None:
    with bad(world, Capabilities(batch_size=size)) as peer:
        peer.send_message(peer.opening.start())
        with contextlib.suppress(AssertionError):
            peer.send_open_syn()
        assert peer.end() is CloseReason.INVALID


@pytest.mark.parametrize("cut", [0, 1, 2, 10, 25])
def test_handshake_that_stops_halfway_times_out(impatient_world: World, cut: int) -> None:
    with bad(impatient_world) as peer:
        peer.send(batch(encode(peer.opening.start()))[:cut])
        assert peer.end() is CloseReason.GENERIC


def test_handshake_that_stops_after_the_cookie_times_out(impatient_world: World) -> None:
    with bad(impatient_world) as peer:
        peer.send_message(peer.opening.start())
        assert peer.end() is CloseReason.GENERIC


def test_disconnect_during_handshake_is_cleaned_up(world: World) -> None:
    for steps in range(3):
        with bad(world) as peer:
            if steps:
                peer.send_message(peer.opening.start())
            if steps > 1:
                peer.send_open_syn()


def test_handshake_sent_byte_by_byte_succeeds(world: World) -> None:
    with bad(world) as peer:
        for byte in batch(encode(peer.opening.start())):
            peer.send(bytes([byte]))
        peer.send_open_syn()
        assert isinstance(peer.opening.receive(peer.receive_message()), Opened)


# -- in a session -------------------------------------------------------------------------------------------------


def frame(content: bytes, sn: int) -> bytes:
    return encode(Frame(reliable=True, sn=sn, msgs=())) + content


def first_sn(peer: Bad) -> int:
    assert peer.opening.parameters is not None
    return peer.opening.parameters.initial_sn


ATTACKS: dict[str, Callable[[Bad], bytes]] = {
    "unknown transport message": lambda _: batch(b"\x08"),
    "unknown network message": lambda peer: batch(frame(b"\x18", first_sn(peer))),
    "truncated push": lambda peer: batch(frame(encode(push(b"payload"))[:-3], first_sn(peer))),
    "garbage": lambda _: batch(b"\xff" * 100),
    "oversized batch": lambda _: b"\xff\xff" + bytes(65_535),
    "number above the mask": lambda peer: batch(frame(encode(push(b"x")), 1 << 30)),
    "key number too large": lambda peer: batch(frame(b"\x1d\x80\x80\x04\x01\x00", first_sn(peer))),
    "key that is not text": lambda peer: batch(frame(b"\x3d\x00\x02\xff\xfe\x01\x00", first_sn(peer))),
    "payload longer than the batch": lambda peer: batch(frame(b"\x3d\x00\x01a\x01\xff\xff\x7fx", first_sn(peer))),
    "fragments that make no message": lambda peer: batch(
        encode(Fragment(reliable=True, sn=first_sn(peer), more=False, first=True, payload=b"\x18garbage"))
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_malformed_message_ends_the_session(world: World, name: str) -> None:
    with bad(world) as peer:
        peer.shake_hands()
        world.node.wait_for(0xB1, peer.zid.value)
        peer.send(ATTACKS[name](peer))
        assert peer.end() in (CloseReason.INVALID, CloseReason.GENERIC)
        world.node.wait_for(0xB1)


def test_oversized_low_latency_messages_end_the_session() -> None:
    node, limits = TestNode(0xA1, limits=LIMITS, offer=Capabilities(low_latency=True)), Capabilities(low_latency=True)
    with nodes(node):
        peer = Bad(node.listen_on_loopback(), limits)
        with contextlib.closing(peer.socket):
            peer.shake_hands()
            peer.send(b"\xff\xff\xff\x7f")
            peer.socket.settimeout(TIMEOUT_SECONDS)
            while peer.socket.recv(1000):
                pass
            node.wait_for()


def test_endless_fragments_are_dropped_at_the_limit(world: World) -> None:
    with bad(world) as peer:
        peer.shake_hands()
        sn = first_sn(peer)
        for number in range(40):
            piece = Fragment(reliable=True, sn=sn + number, more=True, first=number == 0, payload=bytes(40_000))
            peer.send(batch(encode(piece)))
        peer.send(batch(frame(encode(push(b"after all that")), sn + 40)))
        assert world.node.received.wait_payloads(1) == [b"after all that"]


def test_many_key_declarations_do_not_affect_other_sessions(world: World) -> None:
    with bad(world) as peer:
        peer.shake_hands()
        sn = first_sn(peer)
        for number in range(200):
            declare = Declare(body=DeclareKeyexpr(expr_id=number + 1, wire_expr=BoundExpr(0, f"{KEY}/{number}")))
            peer.send(batch(frame(encode(declare), sn + number)))


def test_disconnect_in_the_middle_of_a_batch_closes_the_session(world: World) -> None:
    with bad(world) as peer:
        peer.shake_hands()
        world.node.wait_for(0xB1, peer.zid.value)
        peer.send(b"\x00\x10half")
        peer.socket.close()
        world.node.wait_for(0xB1)


def test_silent_peer_expires_after_its_lease(world: World) -> None:
    with bad(world, Capabilities(lease_ms=200)) as peer:
        peer.shake_hands()
        assert peer.end() is CloseReason.EXPIRED


def test_empty_batches_and_frames_are_ignored(world: World) -> None:
    with bad(world) as peer:
        peer.shake_hands()
        peer.send(batch(b"") * 100 + batch(frame(b"", first_sn(peer))) + batch(encode(KeepAlive()) * 10))
        peer.send(batch(frame(encode(push(b"after nothing")), first_sn(peer) + 1)))
        assert world.node.received.wait_payloads(1) == [b"after nothing"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.binary(min_size=1, max_size=300), after=st.integers(0, 2), framed=st.booleans())
def test_arbitrary_bytes_do_not_affect_other_sessions(world: World, data: bytes, after: int, framed: bool) -> None:
    peer = Bad(world.there)
    with contextlib.closing(peer.socket):
        if after == 1:
            peer.send_message(peer.opening.start())
            peer.receive_message()
        elif after == 2:
            peer.shake_hands()
        peer.send(batch(data) if framed else data)
    world.check()


def test_messages_with_one_wrong_byte_do_not_affect_other_sessions(world: World) -> None:
    dice = random.Random(7)
    for _ in range(60):
        peer = Bad(world.there)
        with contextlib.closing(peer.socket):
            peer.shake_hands()
            content = bytearray(frame(encode(push(b"payload")) * 3, first_sn(peer)))
            content[dice.randrange(len(content))] = dice.randrange(256)
            peer.send(batch(bytes(content)))
    world.check()
    assert world.node.wait(lambda: world.node.neighbours() == {0xB1}, TIMEOUT_SECONDS)
