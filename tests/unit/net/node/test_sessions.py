"""SessionTable: which sessions are accepted, rejected or evicted, and simultaneous opens."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import time
from functools import partial

import msgspec
import pytest

from tests.unit.net.ends import is_at_end, raw
from tests.unit.net.nodes import QUICK, TestNode, call, nodes
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.errors import CloseReason
from zenspark.net.io.congestion_control import describe_stall
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.link_quotas import LinkLimits
from zenspark.router.limits import RefusalReason
from zenspark.transport.framing import LengthPrefix
from zenspark.transport.handshake import Acceptor, Capabilities, Identity, Initiator, Opened
from zenspark.wire.codec import decode_transport, encode
from zenspark.wire.messages import Close, TransportMessage
from zenspark.wire.values import WhatAmI, ZenohId

A, B, C = 0xA1, 0xB1, 0xC1


def test_second_link_of_a_node_is_closed_with_reason_4() -> None:
    alice, bob = TestNode(A), TestNode(B)
    twin = TestNode(A)
    with nodes(alice, twin, bob):
        there = bob.listen_on_loopback()
        call(alice, there)
        bob.wait_for(A)
        assert call(twin, there).wait_closed().reason is CloseReason.MAX_LINKS
        assert call(alice, there).wait_closed().reason is CloseReason.MAX_LINKS
        bob.wait_for(A)
        alice.wait_for(B)


def test_end_of_a_session_is_logged_and_of_a_slow_consumer_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "zenspark.net")
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        there = bob.listen_on_loopback()
        for close in (
            lambda driver: driver.end_session(CloseReason.UNRESPONSIVE, describe_stall(4.0)),
            lambda driver: driver.end_session(),
        ):
            call(alice, there)
            bob.wait_for(A)
            alice.wait_for(B)
            (driver,) = bob.drivers.values()
            bob.loop.call_soon(partial(close, driver))
            bob.wait_for()
            alice.wait_for()
        by_bob, by_alice = f"session with peer a1 ({driver.link.dst}) closed", "session with peer b1 (tcp/"

        def ends() -> set[tuple[str, str]]:
            return {(one.levelname, one.getMessage()) for one in caplog.records if " closed: " in one.getMessage()}

        expected = {("INFO", "the peer ended the connection without CLOSE"), ("INFO", "closed by the peer")}
        # alice writes the line when her session has ended already
        assert until(
            lambda: {(a, text.split(" closed: ")[1]) for a, text in ends() if text.startswith(by_alice)} == expected
        )
    assert ("INFO", f"{by_bob}: closed by this node") in ends()
    assert any(
        level == "WARNING"
        and text.startswith("session with peer a1 (tcp/")
        and text.endswith(f" closed: {describe_stall(4.0)}")
        for level, text in ends()
    )


def test_failed_handshake_is_logged_with_role_zid_and_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "zenspark.net")
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        there = bob.listen_on_loopback()
        call(alice, there)
        alice.wait_for(B)
        closed = call(alice, there).wait_closed()
        assert f"handshake with peer b1 ({there.locator.text}) failed: {closed.text}" in caplog.messages


def test_refused_router_is_named_with_role_zid_and_the_address_of_its_link() -> None:
    alice, bob = TestNode(A, WhatAmI.ROUTER), TestNode(B, WhatAmI.ROUTER)
    bob.router.policy = msgspec.structs.replace(bob.router.policy, routers=())
    with nodes(alice, bob):
        assert call(alice, bob.listen_on_loopback()).wait_closed().reason is CloseReason.INVALID
        name = bob.router.refusals.latest[RefusalReason.ROUTERS]
    assert re.fullmatch(r"router a1 \(tcp/127\.0\.0\.1:\d+\)", name), name


def test_connection_to_self_is_closed_with_reason_7() -> None:
    alice = TestNode(A)
    with nodes(alice):
        assert call(alice, alice.listen_on_loopback()).wait_closed().reason is CloseReason.CONNECTION_TO_SELF
        assert alice.neighbours() == set()


def test_session_beyond_the_limit_is_closed_with_reason_2() -> None:
    bob = TestNode(B, limits=NodeLimits(inbound=LinkLimits(sessions=1), writer=QUICK))
    alice, carol = TestNode(A), TestNode(C)
    with nodes(alice, carol, bob):
        there = bob.listen_on_loopback()
        call(alice, there)
        bob.wait_for(A)
        assert call(carol, there).wait_closed().reason is CloseReason.INVALID
        alice.close()
        bob.wait_for()
        call(carol, there)
        bob.wait_for(C)


@pytest.mark.parametrize("round_", range(5))
def test_simultaneous_open_ends_with_one_session(round_: int) -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        to_alice, to_bob = alice.listen_on_loopback(), bob.listen_on_loopback()
        first, second = call(alice, to_bob), call(bob, to_alice)
        for recorder in (first, second):
            assert recorder.wait(lambda: bool(recorder.events))  # noqa: B023
        alice.wait_for(B)
        bob.wait_for(A)
        assert len(alice.drivers) == len(bob.drivers) == 1


class ManualPeer:
    """A node by hand, with two sockets: one on which alice calls it, one on which it calls alice."""

    def __init__(self, stack: contextlib.ExitStack, alice: TestNode, zid: int) -> None:
        identity = Identity(ZenohId(zid), WhatAmI.PEER)
        self.accepting = Acceptor(identity, Capabilities(), b"key", 7)
        self.opening = Initiator(identity, Capabilities())
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.recorder = call(alice, Endpoint.parse(f"tcp/127.0.0.1:{listener.getsockname()[1]}"))
        self.accepted_socket = stack.enter_context(listener.accept()[0])
        self.connected_socket = stack.enter_context(raw(alice.listen_on_loopback()))
        for end in (self.accepted_socket, self.connected_socket):
            end.settimeout(TIMEOUT_SECONDS)

    def send_message(self, end: socket.socket, message: object) -> None:
        assert isinstance(message, TransportMessage)
        end.sendall(LengthPrefix.U16.wrap(encode(message)))

    def receive(self, end: socket.socket) -> TransportMessage:
        size = int.from_bytes(end.recv(2, socket.MSG_WAITALL), "little")
        return decode_transport(end.recv(size, socket.MSG_WAITALL))

    def send_init_ack(self) -> None:
        """Run the handshake up to the point where alice has requested a session."""
        self.send_message(self.accepted_socket, self.accepting.receive(self.receive(self.accepted_socket)))

    def call(self) -> None:
        """Run the handshake up to the point where bob has requested a session."""
        self.send_message(self.connected_socket, self.opening.start())
        self.send_message(self.connected_socket, self.opening.receive(self.receive(self.connected_socket)))

    def send_open_ack(self) -> None:
        opened = self.accepting.receive(self.receive(self.accepted_socket))
        assert isinstance(opened, Opened)
        self.send_message(self.accepted_socket, self.accepting.ack(opened.parameters))


def is_silent(end: socket.socket) -> bool:
    return not select.select([end], [], [], 0.05)[0]


def test_simultaneous_open_inbound_waits_for_own_attempt() -> None:
    alice = TestNode(A)
    with nodes(alice), contextlib.ExitStack() as stack:
        bob = ManualPeer(stack, alice, B)
        bob.send_init_ack()
        bob.call()
        assert is_silent(bob.connected_socket)
        bob.send_open_ack()
        refused = bob.receive(bob.connected_socket)
        assert isinstance(refused, Close)
        assert refused.close_reason is CloseReason.MAX_LINKS
        alice.wait_for(B)


def test_simultaneous_open_inbound_is_accepted_when_own_attempt_is_rejected() -> None:
    alice = TestNode(A)
    with nodes(alice), contextlib.ExitStack() as stack:
        bob = ManualPeer(stack, alice, B)
        bob.send_init_ack()
        bob.call()
        bob.send_message(bob.accepted_socket, Close(session=False, reason=CloseReason.MAX_LINKS))
        assert isinstance(bob.opening.receive(bob.receive(bob.connected_socket)), Opened)
        alice.wait_for(B)


def test_simultaneous_open_peer_disconnects_is_cleaned_up() -> None:
    alice = TestNode(A)
    with nodes(alice), contextlib.ExitStack() as stack:
        bob = ManualPeer(stack, alice, B)
        bob.send_init_ack()
        bob.call()
        assert is_silent(bob.connected_socket)
        bob.connected_socket.close()
        alice.wait(lambda: len(alice.sessions.pending) == 1, TIMEOUT_SECONDS)
        bob.send_open_ack()
        alice.wait_for(B)


def test_simultaneous_open_greater_zid_rejects_inbound() -> None:
    alice = TestNode(B)
    with nodes(alice), contextlib.ExitStack() as stack:
        bob = ManualPeer(stack, alice, A)
        bob.send_init_ack()
        bob.call()
        assert isinstance(bob.receive(bob.connected_socket), Close)
        bob.send_open_ack()
        alice.wait_for(A)


def test_own_attempt_is_closed_when_an_inbound_session_opened_meanwhile() -> None:
    alice = TestNode(A)
    with nodes(alice), contextlib.ExitStack() as stack:
        bob = ManualPeer(stack, alice, B)
        bob.call()
        assert isinstance(bob.opening.receive(bob.receive(bob.connected_socket)), Opened)
        bob.send_init_ack()
        assert isinstance(bob.receive(bob.accepted_socket), Close)
        assert bob.recorder.wait_closed().reason is CloseReason.MAX_LINKS
        alice.wait_for(B)


@pytest.mark.slow
def test_inbound_link_without_data_is_closed_after_accept_timeout() -> None:
    bob = TestNode(B, limits=NodeLimits(accept_timeout=0.1, writer=QUICK))
    with nodes(bob), raw(bob.listen_on_loopback()) as silent:
        assert is_at_end(silent)


@pytest.mark.slow
def test_slow_inbound_handshake_does_not_extend_accept_timeout() -> None:
    bob = TestNode(B, limits=NodeLimits(accept_timeout=0.2, writer=QUICK))
    with nodes(bob), raw(bob.listen_on_loopback()) as slow:
        start = time.monotonic()
        with contextlib.suppress(OSError):
            for _ in range(100):
                slow.send(b"\xff")
                if select.select([slow], [], [], 0.02)[0]:
                    break
        assert is_at_end(slow)
        assert time.monotonic() - start < TIMEOUT_SECONDS


def test_flood_of_links_without_data_evicts_the_oldest() -> None:
    bob = TestNode(B, limits=NodeLimits(inbound=LinkLimits(pending=2), writer=QUICK))
    alice = TestNode(A)
    with nodes(alice, bob):
        there = bob.listen_on_loopback()
        with raw(there) as first, raw(there) as second, raw(there) as third:
            assert is_at_end(first)
            assert not select.select([second], [], [], 0)[0]
            call(alice, there)
            alice.wait_for(B)
            assert is_at_end(second)
            assert not select.select([third], [], [], 0)[0]
            assert bob.router.refusals.counts == {RefusalReason.PENDING: 2}


def test_links_with_data_are_evicted_after_those_without() -> None:
    bob = TestNode(B, limits=NodeLimits(inbound=LinkLimits(pending=2), writer=QUICK))
    with nodes(bob):
        there = bob.listen_on_loopback()
        with raw(there) as first, raw(there) as second:
            first.send(b"\x05")
            with raw(there) as third:
                assert is_at_end(second)
                third.send(b"\x05")
                until(lambda: all(driver.bytes_received for driver in bob.sessions.pending))
                with raw(there) as fourth:
                    assert is_at_end(first)
                    assert not select.select([third, fourth], [], [], 0)[0]


def test_pending_limit_of_zero_closes_every_inbound_link() -> None:
    bob = TestNode(B, limits=NodeLimits(inbound=LinkLimits(pending=0), writer=QUICK))
    with nodes(bob), raw(bob.listen_on_loopback()) as first:
        assert is_at_end(first)


@pytest.mark.slow
def test_own_attempt_without_reply_is_closed_after_open_timeout() -> None:
    alice = TestNode(A, limits=NodeLimits(open_timeout=0.2, writer=QUICK))
    with nodes(alice), socket.create_server(("127.0.0.1", 0)) as deaf:
        recorder = call(alice, Endpoint.parse(f"tcp/127.0.0.1:{deaf.getsockname()[1]}"))
        closed = recorder.wait_closed()
        assert not closed.by_peer
        assert "no session" in closed.text


def test_peer_with_unexpected_zid_is_rejected() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        received: list[object] = []
        alice.connect(bob.listen_on_loopback(), lambda _, event: received.append(event), ZenohId(C))
        assert alice.wait(lambda: bool(received), TIMEOUT_SECONDS)
        assert not isinstance(received[0], Opened)
