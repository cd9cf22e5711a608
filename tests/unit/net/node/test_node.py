"""Nodes on loopback: who is let in, who is not, what neighbours hear, and the end."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.net.ends import Certificates
from tests.unit.net.nodes import KEY, QUICK, TestNode, call, nodes
from tests.waiting import PATIENCE, until
from zenspark.errors import CloseReason, LinkError, SessionClosed
from zenspark.net.links import registry
from zenspark.net.links.base import Link, Listener
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node import node as node_module
from zenspark.net.node.node import NodeLimits, make_identity
from zenspark.net.node.pending_links import InboundLimits
from zenspark.router.limits import Limit
from zenspark.transport.framing import LengthPrefix
from zenspark.transport.handshake import Acceptor, Capabilities, Identity, Initiator, Opened
from zenspark.wire.codec import decode_transport, encode
from zenspark.wire.messages import Close, Declare, DeclareFinal, Interest, TransportMessage
from zenspark.wire.values import InterestMode, Locator, WhatAmI, WireExpr, ZenohId

A, B, C = 0xA1, 0xB1, 0xC1


@pytest.mark.parametrize("protocol", ["tcp", "udp", "ws"])
def test_two_nodes_hear_each_other(protocol: str) -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        there = bob.place(protocol)
        alice.subscribe()
        call(alice, there)
        alice.wait_for(B)
        bob.wait_for(A)
        bob.subscribe()
        for speaker, listener in ((alice, bob), (bob, alice)):
            deadline = time.monotonic() + PATIENCE
            while not listener.heard.payloads and time.monotonic() < deadline:
                speaker.publish(b"hello")
                listener.heard.wait(lambda: bool(listener.heard.payloads), 0.01)  # noqa: B023
            assert set(listener.heard.payloads) == {b"hello"}


def test_a_router_carries_messages_between_its_clients() -> None:
    router = TestNode(A, WhatAmI.ROUTER)
    one, other = TestNode(B, WhatAmI.CLIENT), TestNode(C, WhatAmI.CLIENT)
    with nodes(one, other, router):
        there = router.place()
        other.subscribe()
        call(other, there)
        call(one, there)
        router.wait_for(B, C)
        one.wait_for(A)
        until(lambda: router.router.routes.push(router.local_face, KEY))
        one.send_local(Interest(id=1, mode=InterestMode.CURRENT_FUTURE, subscribers=True, wire_expr=WireExpr(0, KEY)))
        assert one.heard.wait(
            lambda: any(isinstance(e, Declare) and isinstance(e.body, DeclareFinal) for e in one.heard.events)
        )
        one.publish(b"through")
        assert other.heard.wait_payloads(1) == [b"through"]
        assert one.heard.payloads == []


def test_neighbours_come_and_go() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        heard = call(alice, bob.place())
        alice.wait_for(B)
        assert heard.wait(lambda: isinstance(heard.events[0], Opened))
        bob.close()
        alice.wait_for()
        closed = heard.wait_closed()
        assert closed.by_peer
        assert closed.reason is CloseReason.GENERIC
        assert alice.heard.wait(lambda: ("closed", B) in alice.heard.events)
        assert alice.heard.events.index(("opened", B)) < alice.heard.events.index(("closed", B))


# -- who is let in ------------------------------------------------------------------------------------------------


def test_a_second_link_of_one_node_is_refused_with_4() -> None:
    alice, bob = TestNode(A), TestNode(B)
    twin = TestNode(A)
    with nodes(alice, twin, bob):
        there = bob.place()
        call(alice, there)
        bob.wait_for(A)
        assert call(twin, there).wait_closed().reason is CloseReason.MAX_LINKS
        assert call(alice, there).wait_closed().reason is CloseReason.MAX_LINKS
        bob.wait_for(A)
        alice.wait_for(B)


def test_a_node_that_calls_itself_is_refused_with_7() -> None:
    alice = TestNode(A)
    with nodes(alice):
        assert call(alice, alice.place()).wait_closed().reason is CloseReason.CONNECTION_TO_SELF
        assert alice.neighbours() == set()


def test_more_sessions_than_allowed_are_refused_with_2() -> None:
    bob = TestNode(B, limits=NodeLimits(inbound=InboundLimits(sessions=1), writer=QUICK))
    alice, carol = TestNode(A), TestNode(C)
    with nodes(alice, carol, bob):
        there = bob.place()
        call(alice, there)
        bob.wait_for(A)
        assert call(carol, there).wait_closed().reason is CloseReason.INVALID
        alice.close()
        bob.wait_for()
        call(carol, there)
        bob.wait_for(C)


@pytest.mark.parametrize("round_", range(5))
def test_two_nodes_that_call_each_other_end_up_with_one_link(round_: int) -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        to_alice, to_bob = alice.place(), bob.place()
        first, second = call(alice, to_bob), call(bob, to_alice)
        for heard in (first, second):
            assert heard.wait(lambda: bool(heard.events))  # noqa: B023
        alice.wait_for(B)
        bob.wait_for(A)
        assert len(alice.drivers) == len(bob.drivers) == 1


class Bob:
    """A node by hand, with two sockets: one on which alice calls it, one on which it calls alice."""

    def __init__(self, stack: contextlib.ExitStack, alice: TestNode, zid: int) -> None:
        identity = Identity(ZenohId(zid), WhatAmI.PEER)
        self.accepting = Acceptor(identity, Capabilities(), b"key", 7)
        self.opening = Initiator(identity, Capabilities())
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.heard = call(alice, Endpoint.parse(f"tcp/127.0.0.1:{listener.getsockname()[1]}"))
        self.called = stack.enter_context(listener.accept()[0])
        self.calling = stack.enter_context(raw(alice.place()))
        for end in (self.called, self.calling):
            end.settimeout(PATIENCE)

    def say(self, end: socket.socket, message: object) -> None:
        assert isinstance(message, TransportMessage)
        end.sendall(LengthPrefix.U16.wrap(encode(message)))

    def receive(self, end: socket.socket) -> TransportMessage:
        size = int.from_bytes(end.recv(2, socket.MSG_WAITALL), "little")
        return decode_transport(end.recv(size, socket.MSG_WAITALL))

    def answer_call(self) -> None:
        """Up to where alice has asked for a session,"""
        self.say(self.called, self.accepting.receive(self.receive(self.called)))

    def call(self) -> None:
        """and where bob has."""
        self.say(self.calling, self.opening.start())
        self.say(self.calling, self.opening.receive(self.receive(self.calling)))

    def accept_call(self) -> None:
        opened = self.accepting.receive(self.receive(self.called))
        assert isinstance(opened, Opened)
        self.say(self.called, self.accepting.ack(opened.parameters))


def is_silent(end: socket.socket) -> bool:
    return not select.select([end], [], [], 0.05)[0]


def test_who_calls_while_we_call_waits_until_our_call_is_answered() -> None:
    alice = TestNode(A)
    with nodes(alice), contextlib.ExitStack() as stack:
        bob = Bob(stack, alice, B)
        bob.answer_call()
        bob.call()
        assert is_silent(bob.calling)
        bob.accept_call()
        refused = bob.receive(bob.calling)
        assert isinstance(refused, Close)
        assert refused.why is CloseReason.MAX_LINKS
        alice.wait_for(B)


def test_who_calls_while_we_call_is_let_in_when_our_call_is_refused() -> None:
    alice = TestNode(A)
    with nodes(alice), contextlib.ExitStack() as stack:
        bob = Bob(stack, alice, B)
        bob.answer_call()
        bob.call()
        bob.say(bob.called, Close(session=False, reason=CloseReason.MAX_LINKS))
        assert isinstance(bob.opening.receive(bob.receive(bob.calling)), Opened)
        alice.wait_for(B)


def test_who_goes_away_while_it_waits_is_forgotten() -> None:
    alice = TestNode(A)
    with nodes(alice), contextlib.ExitStack() as stack:
        bob = Bob(stack, alice, B)
        bob.answer_call()
        bob.call()
        assert is_silent(bob.calling)
        bob.calling.close()
        alice.wait(lambda: not alice._crossed, PATIENCE)
        bob.accept_call()
        alice.wait_for(B)


def test_the_greater_of_two_that_call_each_other_refuses() -> None:
    alice = TestNode(B)
    with nodes(alice), contextlib.ExitStack() as stack:
        bob = Bob(stack, alice, A)
        bob.answer_call()
        bob.call()
        assert isinstance(bob.receive(bob.calling), Close)
        bob.accept_call()
        alice.wait_for(A)


def test_a_call_is_given_up_when_it_is_answered_by_who_called_meanwhile() -> None:
    alice = TestNode(A)
    with nodes(alice), contextlib.ExitStack() as stack:
        bob = Bob(stack, alice, B)
        bob.call()
        assert isinstance(bob.opening.receive(bob.receive(bob.calling)), Opened)
        bob.answer_call()
        assert isinstance(bob.receive(bob.called), Close)
        assert bob.heard.wait_closed().reason is CloseReason.MAX_LINKS
        alice.wait_for(B)


def raw(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection(endpoint.host_port, PATIENCE)


def is_at_end(connection: socket.socket) -> bool:
    """Whether the other side ends, whatever it says before."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(1000):
            pass
    return True


def test_callers_who_say_nothing_are_given_up() -> None:
    bob = TestNode(B, limits=NodeLimits(accept_timeout=0.1, writer=QUICK))
    with nodes(bob), raw(bob.place()) as silent:
        assert is_at_end(silent)


def test_callers_who_are_slow_do_not_get_more_time() -> None:
    bob = TestNode(B, limits=NodeLimits(accept_timeout=0.2, writer=QUICK))
    with nodes(bob), raw(bob.place()) as slow:
        start = time.monotonic()
        with contextlib.suppress(OSError):
            for _ in range(100):
                slow.send(b"\xff")
                if select.select([slow], [], [], 0.02)[0]:
                    break
        assert is_at_end(slow)
        assert time.monotonic() - start < PATIENCE


def test_of_callers_that_say_nothing_the_oldest_goes() -> None:
    bob = TestNode(B, limits=NodeLimits(inbound=InboundLimits(pending=2), writer=QUICK))
    alice = TestNode(A)
    with nodes(alice, bob):
        there = bob.place()
        with raw(there) as first, raw(there) as second, raw(there) as third:
            assert is_at_end(first)
            assert not select.select([second], [], [], 0)[0]
            call(alice, there)
            alice.wait_for(B)
            assert is_at_end(second)
            assert not select.select([third], [], [], 0)[0]
            assert bob.router.refusals.counts == {Limit.PENDING: 2}


def test_of_callers_that_have_spoken_the_oldest_goes_too_but_after_the_silent_ones() -> None:
    bob = TestNode(B, limits=NodeLimits(inbound=InboundLimits(pending=2), writer=QUICK))
    with nodes(bob):
        there = bob.place()
        with raw(there) as first, raw(there) as second:
            first.send(b"\x05")
            with raw(there) as third:
                assert is_at_end(second)
                third.send(b"\x05")
                until(lambda: all(driver.received for driver in list(bob._calling.values())))
                with raw(there) as fourth:
                    assert is_at_end(first)
                    assert not select.select([third, fourth], [], [], 0)[0]


def test_where_no_callers_are_allowed_none_is_let_in() -> None:
    bob = TestNode(B, limits=NodeLimits(inbound=InboundLimits(pending=0), writer=QUICK))
    with nodes(bob), raw(bob.place()) as first:
        assert is_at_end(first)


def test_tls_callers_who_are_not_done_are_limited_too(tmp_path: Path) -> None:
    certificate, key = Certificates(tmp_path).files("localhost")
    bob = TestNode(B, limits=NodeLimits(inbound=InboundLimits(pending=1), writer=QUICK))
    with nodes(bob):
        options = f"#listen_certificate={certificate};listen_private_key={key}"
        there = Endpoint.parse(bob.listen(Endpoint.parse(f"tls/127.0.0.1:0{options}")).locator.text)
        with raw(there) as first, raw(there) as second:
            assert is_at_end(first)
            second.send(b"this is not TLS\r\n\r\n")
            assert is_at_end(second)


def test_failed_handshakes_are_counted_and_logged_together(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate, key = Certificates(tmp_path).files("localhost")
    bob = TestNode(B, limits=NodeLimits(writer=QUICK))
    with nodes(bob):
        options = f"#listen_certificate={certificate};listen_private_key={key}"
        there = Endpoint.parse(bob.listen(Endpoint.parse(f"tls/127.0.0.1:0{options}")).locator.text)
        for _ in range(20):
            with raw(there) as stranger:
                stranger.send(b"this is not TLS\r\n\r\n")
                assert is_at_end(stranger)
        until(lambda: bob.router.refusals.counts.get(Limit.HANDSHAKES) == 20)
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert warnings[0].startswith("refused 1 by handshakes, 1 in all; the latest from tls/127.0.0.1:")
    assert "TLS handshake: " in warnings[0]


def test_whom_we_call_and_who_does_not_answer_is_given_up() -> None:
    alice = TestNode(A, limits=NodeLimits(open_timeout=0.2, writer=QUICK))
    with nodes(alice), socket.create_server(("127.0.0.1", 0)) as deaf:
        heard = call(alice, Endpoint.parse(f"tcp/127.0.0.1:{deaf.getsockname()[1]}"))
        closed = heard.wait_closed()
        assert not closed.by_peer
        assert "no session" in closed.text


def test_who_cannot_be_reached_is_an_error() -> None:
    alice = TestNode(A)
    with nodes(alice), socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
        once.close()
        with pytest.raises(LinkError):
            call(alice, Endpoint.parse(f"tcp/127.0.0.1:{port}"))


def test_who_is_not_whom_we_expected_is_refused() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        heard: list[object] = []
        alice.connect(bob.place(), lambda _, event: heard.append(event), ZenohId(C))
        assert alice.wait(lambda: bool(heard), PATIENCE)
        assert not isinstance(heard[0], Opened)


class Exhausted(Listener):
    """A listener of a machine without descriptors, twice."""

    def __init__(self, inner: Listener) -> None:
        self._inner = inner
        self.endpoint, self.locator = inner.endpoint, inner.locator
        self.failures = 2

    def fileno(self) -> int:
        return self._inner.fileno()

    def accept(self) -> Link | None:
        if self.failures:
            self.failures -= 1
            raise LinkError(self.locator.text, "Too many open files")
        return self._inner.accept()

    def close(self) -> None:
        self._inner.close()


def test_without_descriptors_callers_wait_and_are_let_in_later(monkeypatch: pytest.MonkeyPatch) -> None:
    listen = registry.listen
    monkeypatch.setattr(node_module, "ACCEPT_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(registry, "listen", lambda endpoint: Exhausted(listen(endpoint)))
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        call(alice, bob.place())
        bob.wait_for(A)


# -- gossip -------------------------------------------------------------------------------------------------------


def test_neighbours_tell_where_their_neighbours_are() -> None:
    alice, bob, carol = (TestNode(number, gossip=True) for number in (A, B, C))
    with nodes(alice, bob, carol):
        found: list[tuple[int, tuple[Locator, ...]]] = []
        there = alice.place()
        carol.on_found = lambda one: found.append((one.zid.value, one.locators))
        to_bob = bob.place()
        call(bob, there)
        alice.wait_for(B)
        call(carol, there)
        alice.wait_for(B, C)
        deadline = time.monotonic() + PATIENCE
        while (B, (to_bob.locator,)) not in found:
            assert time.monotonic() < deadline
            carol.wait(lambda: bool(found), 0.01)


# -- the end ------------------------------------------------------------------------------------------------------


def test_close_returns_although_a_peer_is_stuck() -> None:
    alice, bob = TestNode(A, limits=NodeLimits(writer=QUICK)), TestNode(B)
    with nodes(alice, bob):
        bob.subscribe()
        call(alice, bob.place())
        alice.wait_for(B)
        bob.wait_for(A)
        (driver,) = bob.drivers.values()
        driver.pause()
        (own,) = alice.drivers.values()
        while not own._unsent:
            alice.publish(bytes(60_000))
        start = time.monotonic()
        alice.close()
        assert time.monotonic() - start < 5.0


def test_close_ends_calls_that_are_not_answered_and_callers_that_say_nothing() -> None:
    alice = TestNode(A)
    with socket.create_server(("127.0.0.1", 0)) as deaf, raw(alice.place()) as silent:
        heard = call(alice, Endpoint.parse(f"tcp/127.0.0.1:{deaf.getsockname()[1]}"))
        called, _ = deaf.accept()
        assert called.recv(1)
        start = time.monotonic()
        alice.close()
        alice.close()
        called.close()
        assert time.monotonic() - start < 8.0
        assert heard.closure is not None
        assert is_at_end(silent)
        with pytest.raises(SessionClosed):
            alice.connect(Endpoint.parse(f"tcp/127.0.0.1:{deaf.getsockname()[1]}"), lambda *_: None)


def test_close_may_be_called_in_the_loop() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(bob):
        call(alice, bob.place())
        alice.wait_for(B)
        alice.loop.call_soon(alice.close)
        bob.wait_for()
        assert alice.loop._ended.wait(PATIENCE)


def test_a_node_has_an_id_of_its_own_unless_it_is_given_one() -> None:
    assert make_identity(ZenohId(5), WhatAmI.PEER).zid == ZenohId(5)
    assert make_identity(None, WhatAmI.PEER).zid != make_identity(None, WhatAmI.PEER).zid
    assert make_identity(None, WhatAmI.PEER).zid.size == 16


def test_a_short_lease_is_kept_by_both_sides() -> None:
    alice, bob = TestNode(A, offer=Capabilities(lease_ms=500)), TestNode(B, offer=Capabilities(lease_ms=500))
    with nodes(alice, bob):
        call(alice, bob.place())
        alice.wait_for(B)
        assert not alice.wait(lambda: not alice.neighbours(), 1.2)
        assert bob.neighbours() == {A}


# -- fork ---------------------------------------------------------------------------------------------------------

FORK = """
import os, sys
from tests.unit.net.nodes import TestNode, call
parent, other = TestNode(0xA1), TestNode(0xB1)
there = other.place()
call(parent, there)
parent.wait_for(0xB1)
other.wait_for(0xA1)
child = os.fork()
if not child:
    parent.publish(b"from the child, which must not reach anybody")
    parent.close()
    own = TestNode(0xC1)
    call(own, there)
    own.wait_for(0xB1)
    own.close()
    print("child done", flush=True)
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
other.wait_for(0xA1)
other.subscribe()
parent.close()
other.wait_for()
other.close()
print("parent done", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_its_own_sessions_and_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout.split("\n")[:2] == ["child done", "parent done"], done.stderr
    assert done.returncode == 0
