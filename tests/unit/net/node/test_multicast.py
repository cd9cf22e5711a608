"""Nodes in multicast groups of the loopback interface."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.unit.net.ends import free_group
from tests.unit.net.nodes import KEY, QUICK, EventRecorder, TestNode, call, nodes, qos
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import CloseReason, LinkError, SessionClosed, UsageError
from zenspark.net.io.counters import DropReason
from zenspark.net.io.group_driver import GroupDriver
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import find_interface
from zenspark.net.links.multicast import MulticastLink as GroupLink
from zenspark.net.links.multicast import join
from zenspark.net.node import multicast as module
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.observer import GroupMemberInfo
from zenspark.router.face import Region
from zenspark.transport.counters import LossReason
from zenspark.transport.multicast import GroupSettings
from zenspark.transport.receiver import Closed
from zenspark.wire.codec import encode
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Close, Declare, DeclareFinal, Fragment, Join, NetworkOam, Push, Put
from zenspark.wire.messages import Frame as FrameMessage
from zenspark.wire.values import TimeUnit, WhatAmI, WireExpr, ZenohId

LO = find_interface("127.0.0.1").name
A, B, C = 0xA1, 0xB1, 0xC1
JOIN = Join(version=9, whatami=WhatAmI.PEER, zid=ZenohId(C), unit=TimeUnit.S, lease=100, sn_re=0, sn_be=0, patch=1)


@pytest.fixture
def group() -> Endpoint:
    """A group that no other test uses."""
    return Endpoint.parse(f"udp/{free_group()}#iface={LO}")


@pytest.fixture
def pair(group: Endpoint) -> Iterator[tuple[TestNode, TestNode]]:
    """Two nodes that have subscribed and are members of a group."""
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        for node in (alice, bob):
            node.join(group)
            node.subscribe()
        wait_members(alice, B)
        wait_members(bob, A)
        yield alice, bob


def members(node: TestNode) -> set[int]:
    return {face.zid.value for face in node.neighbourhood}


def wait_members(node: TestNode, *numbers: int) -> None:
    assert node.wait(lambda: members(node) == set(numbers), TIMEOUT_SECONDS), members(node)


def driver_of(node: TestNode) -> GroupDriver:
    (driver,) = node.link_drivers
    assert isinstance(driver, GroupDriver)
    return driver


def in_loop(node: TestNode, work: Callable[[], object]) -> None:
    """Run something in the loop of a node, and wait until it is done."""
    done = EventRecorder()

    def run() -> None:
        work()
        done.note("done")

    node.loop.call_soon(run)
    assert done.wait(lambda: bool(done.events))


class Stranger:
    """A group member that sends any bytes."""

    def __init__(self, group: Endpoint) -> None:
        self.link: GroupLink = join(group)

    def send_datagrams(self, *messages: bytes) -> None:
        for message in messages:
            self.link.send(message)


@pytest.fixture
def stranger(group: Endpoint) -> Iterator[Stranger]:
    made = Stranger(group)
    with contextlib.closing(made.link):
        yield made


def frame(*messages: Push | Declare | NetworkOam, sn: int = 0) -> bytes:
    return encode(FrameMessage(reliable=True, sn=sn, msgs=messages))


def test_publication_in_a_group_arrives_once(pair: tuple[TestNode, TestNode]) -> None:
    alice, bob = pair
    for payload in (b"1", b"2" * 50_000, b"3"):
        alice.publish(payload)
    bob.publish(b"back")
    assert bob.received.wait_payloads(3) == [b"1", b"2" * 50_000, b"3"]
    assert alice.received.wait_payloads(1) == [b"back"]


def test_members_come_and_go_as_neighbours(pair: tuple[TestNode, TestNode]) -> None:
    alice, bob = pair
    assert ("opened", B) in alice.received.events
    ((face, seat),) = alice.neighbourhood.items()
    assert face.zid.value == B
    assert alice.driver(face) is driver_of(alice)
    assert not alice.drivers
    assert not alice.has_session(ZenohId(B))
    assert isinstance(seat, GroupMemberInfo)
    assert (seat.src, seat.group) == (driver_of(alice).link.src, driver_of(alice).link.dst)
    assert (seat.dst, seat.is_qos) == (driver_of(bob).link.src, False)
    bob.close()
    wait_members(alice)
    assert ("closed", B) in alice.received.events


def test_other_messages_of_a_group_member_are_ignored(group: Endpoint, stranger: Stranger) -> None:
    alice = TestNode(A, gossip=True)
    with nodes(alice):
        alice.join(group)
        alice.subscribe()
        stranger.send_datagrams(encode(JOIN))
        wait_members(alice, C)
        stranger.send_datagrams(frame(NetworkOam(id=1), sn=1), frame(Declare(body=DeclareFinal()), sn=2))
        stranger.send_datagrams(encode(Fragment(more=False, reliable=True, sn=3, payload=b"the end of something")))
        stranger.send_datagrams(frame(Push(wire_expr=WireExpr(0, KEY), body=Put(payload=b"x")), sn=4))
        assert alice.received.wait_payloads(1) == [b"x"]
        (totals,) = alice.counters.totals
        lost = {LossReason.SEQUENCE_GAP: 1, LossReason.FIRST_FRAGMENT_MISSING: 1}
        assert (totals.zid, totals.received, totals.lost) == (ZenohId(C), 3, lost)


def test_block_first_is_sent_to_a_group_if_all_members_have_patch_1(group: Endpoint, stranger: Stranger) -> None:
    """MR-124: one member without patch 1 is enough to send no BlockFirst to the group."""
    with nodes(alice := TestNode(A), bob := TestNode(B)):
        for node in (alice, bob):
            node.join(group)
        wait_members(alice, B)
        driver = driver_of(alice)
        (face,) = (face for face in alice._faces._groups if face.region is Region.GROUP)
        assert (driver.patch, face.patch) == (1, 1)
        stranger.send_datagrams(encode(replace(JOIN, patch=None)))
        wait_members(alice, B, C)
        assert (driver.patch, face.patch) == (0, 0)
        stranger.send_datagrams(encode(Close(session=False, reason=0)))
        wait_members(alice, B)
        assert (driver.patch, face.patch) == (1, 1)


def test_drop_in_a_group_is_counted_for_each_member(pair: tuple[TestNode, TestNode]) -> None:
    alice, bob = pair
    driver_of(alice).count_dropped(DropReason.CONGESTION, 2)
    assert [(totals.zid.value, totals.dropped) for totals in alice.counters.totals] == [(B, {DropReason.CONGESTION: 2})]
    bob.close()
    wait_members(alice)
    driver_of(alice).count_dropped(DropReason.CONGESTION)
    assert [totals.dropped for totals in alice.counters.totals] == [{DropReason.CONGESTION: 2}]


def test_refused_group_sender_is_logged(group: Endpoint, stranger: Stranger, caplog: pytest.LogCaptureFixture) -> None:
    alice, bob = TestNode(A), TestNode(B)
    with caplog.at_level(logging.INFO, "zenspark.net"), nodes(alice, bob):
        alice.join(group)
        stranger.send_datagrams(b"\x1f\xff")
        bob.join(group)
        wait_members(alice, B)
        assert f"rejected datagram from {stranger.link.src} in group {group.locator.text}: " in caplog.text
        assert f"peer b1 ({driver_of(bob).link.src}) joined group {group.locator.text}" in caplog.messages


def test_group_uses_the_group_settings_of_the_node(group: Endpoint) -> None:
    rules = GroupSettings(qos=True, compression=True, batch_size=1000, join_interval=0.05)
    alice, bob = TestNode(A, groups=rules), TestNode(B, groups=rules)
    with nodes(alice, bob):
        for node in (alice, bob):
            node.join(group)
            node.subscribe()
        wait_members(alice, B)
        wait_members(bob, A)
        alice.publish(b"1" * 5000)
        assert bob.received.wait_payloads(1) == [b"1" * 5000]


def test_invalid_group_cannot_be_joined(group: Endpoint) -> None:
    client, tiny = TestNode(A, WhatAmI.CLIENT), TestNode(B, groups=GroupSettings(batch_size=10))
    with nodes(client, tiny):
        with pytest.raises(UsageError, match="which a client cannot join"):
            client.join(group)
        with pytest.raises(UsageError, match="transport/link/tx/batch_size=10 is too small"):
            tiny.join(group)
    with pytest.raises(SessionClosed):
        tiny.join(group)


def test_member_with_a_session_is_received_by_session_only(pair: tuple[TestNode, TestNode]) -> None:
    alice, bob = pair
    call(bob, alice.listen_on_loopback())
    alice.wait_for(B)
    bob.wait_for(A)
    assert alice.wait(lambda: alice.initial_declarations_received, TIMEOUT_SECONDS)
    assert bob.wait(lambda: bob.initial_declarations_received, TIMEOUT_SECONDS)
    for number in range(10):
        alice.publish(b"%d" % number)
    assert bob.received.wait_payloads(10) == [b"%d" % number for number in range(10)]
    in_loop(bob, lambda: None)
    assert len(bob.received.payloads) == 10


def test_pause_stops_all_members_and_keeps_their_leases(pair: tuple[TestNode, TestNode]) -> None:
    alice, bob = pair
    driver = driver_of(bob)
    driver.pause()
    in_loop(bob, lambda: None)
    alice.publish(b"held")
    in_loop(bob, driver._on_timeout)
    assert bob.received.payloads == []
    driver.resume()
    assert bob.received.wait_payloads(1) == [b"held"]


def test_unsent_datagrams_are_sent_again(pair: tuple[TestNode, TestNode], monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = pair
    link, refused = driver_of(alice).link, [3]
    send = link.send

    def reluctant(data: bytes) -> int:
        refused[0] -= 1
        return 0 if refused[0] >= 0 else send(data)

    monkeypatch.setattr(link, "send", reluctant)
    alice.publish(b"1")
    assert bob.received.wait_payloads(1) == [b"1"]


def test_a_group_that_is_lost_is_joined_again(
    pair: tuple[TestNode, TestNode], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alice, bob = pair
    monkeypatch.setattr(module, "REJOIN_DELAY_SECONDS", 0.02)
    tried: list[int] = []

    def later(endpoint: Endpoint) -> GroupLink:
        tried.append(1)
        if len(tried) < 3:
            raise LinkError(endpoint.locator.text, "not yet")
        return join(endpoint)

    monkeypatch.setattr("zenspark.net.links.registry.join", later)
    driver = driver_of(alice)
    error = LinkError(driver.link.dst, os.strerror(errno.ENETDOWN))
    with driver._lock:
        driver._fail(error)
    assert alice.wait(lambda: len(tried) == 3 and members(alice) == {B}, TIMEOUT_SECONDS)
    assert driver_of(alice) is not driver
    assert bob.wait(lambda: members(bob) == {A}, TIMEOUT_SECONDS)
    assert "link to group " in caplog.text
    alice.publish(b"again")
    assert bob.received.wait_payloads(1) == [b"again"]


def test_group_is_not_rejoined_after_leave(pair: tuple[TestNode, TestNode], monkeypatch: pytest.MonkeyPatch) -> None:
    alice, _ = pair
    (session,) = alice.multicast.sessions

    def fail(_: Endpoint) -> GroupLink:
        raise AssertionError("nobody should join")

    monkeypatch.setattr("zenspark.net.links.registry.join", fail)
    in_loop(alice, session.leave)
    in_loop(alice, session._rejoin)
    assert members(alice) == set()


FORK = """
import os, sys
from tests.unit.net.node.test_multicast import A, B, Endpoint, TestNode, wait_members
group = Endpoint.parse(sys.argv[1])
alice, bob = TestNode(A), TestNode(B)
for node in (alice, bob):
    node.join(group)
    node.subscribe()
wait_members(alice, B)
wait_members(bob, A)
child = os.fork()
if not child:
    assert alice.is_closed and not alice.neighbourhood and not alice.link_drivers
    alice.publish(b"from the child, which must not reach anybody")
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
alice.publish(b"from the parent")
assert bob.received.wait_payloads(1) == [b"from the parent"]
alice.close()
wait_members(bob)
bob.close()
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_child_sends_nothing_to_a_group(group: Endpoint) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK, f"{group.locator.text}#iface={LO}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_router_forwards_publications_into_and_out_of_a_group(group: Endpoint) -> None:
    middle, client, member = TestNode(A, WhatAmI.ROUTER), TestNode(B, WhatAmI.CLIENT), TestNode(C)
    with nodes(middle, client, member):
        call(client, middle.listen_on_loopback())
        client.wait_for(A)
        client.subscribe()
        for node in (middle, member):
            node.join(group)
        member.subscribe()
        assert middle.wait(lambda: members(middle) == {B, C}, TIMEOUT_SECONDS)
        wait_members(member, A)
        assert middle.wait(
            lambda: any(
                middle.router.routes.push_next_hops(face, KEY) for face in middle.neighbourhood if face.zid.value == C
            ),
            TIMEOUT_SECONDS,
        )
        member.publish(b"in")
        assert client.received.wait_payloads(1) == [b"in"]
        client.publish(b"out")
        assert member.received.wait_payloads(1) == [b"out"]


def test_close_sends_close_to_a_group_before_its_link_closes(group: Endpoint) -> None:
    alice, bob = TestNode(A, limits=NodeLimits(writer=QUICK)), TestNode(B)
    with nodes(alice, bob):
        for node in (alice, bob):
            node.join(group)
        wait_members(alice, B)
        wait_members(bob, A)
        driver = driver_of(bob)
        bob.close()
        wait_members(alice)
        assert driver.is_link_closed
        assert driver.link.fileno() < 0
        assert not driver.publish(b"", b"x", qos(), True)
        driver.end_session(CloseReason.GENERIC)
        assert isinstance(driver.connection.close(), Closed)


def test_callback_that_blocks_on_a_group_is_reported_to_the_observer(
    pair: tuple[TestNode, TestNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = pair
    link = driver_of(alice).link
    send, is_full = link.send, True
    monkeypatch.setattr(link, "send", lambda data: 0 if is_full else send(data))
    reports = alice.observer
    alice.publish(b"unsent")
    alice.loop.run_callback_soon(lambda: alice.publish(b"blocked"))
    try:
        assert reports.wait(lambda: reports.events == [True])
    finally:
        is_full = False
    assert reports.wait(lambda: reports.events == [True, False])
    assert bob.received.wait_payloads(2) == [b"unsent", b"blocked"]
