"""Zenspark peers that relay, on loopback: lines and rings of them, with routers, clients and peers of both kinds.

Connected nodes receive every message once, also after a node in between was killed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator

import pytest

import zenspark
from tests.interop.reference import eventually, unused
from tests.interop.test_router_network import API, PROGRAM, Edges, Found, Member, Net, config, line, ring

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

MODES = {"p": "peer", "r": "router"}
"""The nodes of ours that relay; "t" is a router of eclipse-zenoh."""


def relaying(mode: str, listen: Iterable[str] = (), connect: Iterable[str] = ()) -> Found:
    """Without gossip: with it peers connect to each other, and nothing is left to relay."""
    return config(zenspark, mode, listen, connect, gossip=False)


@contextlib.contextmanager
def process(mode: str, listen: str, connect: Iterable[str]) -> Iterator[subprocess.Popen[str]]:
    """A relay in a process of its own."""
    settings = {
        "mode": mode,
        "listen/endpoints": [listen],
        "connect/endpoints": list(connect),
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
    }
    command = [sys.executable, "-c", PROGRAM.format(module="zenspark"), json.dumps(settings)]
    node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert node.stdout is not None
        assert node.stdout.readline() == "open\n"
        yield node
    finally:
        node.kill()
        node.communicate()


class RelayNet(Net):
    """Relays and routers of eclipse-zenoh joined in a shape, a client at each, of both kinds in turn."""

    def __init__(self, stack: contextlib.ExitStack, kinds: str, edges: Edges, killable: int | None = None) -> None:
        super().__init__(stack, "", edges)
        self.places = [unused() for _ in kinds]
        for number, kind in enumerate(kinds):
            near = [self.places[min(edge)] for edge in edges if max(edge) == number]
            place = self.places[number]
            if number == killable:
                self.killable = stack.enter_context(process(MODES[kind], place, near))
            else:
                node = (
                    zenoh.open(config(zenoh, "router", [place], near))
                    if kind == "t"
                    else zenspark.open(relaying(MODES[kind], [place], near))
                )
                stack.callback(node.close)
        for number in range(len(kinds)):
            self.join(stack, number, "to"[number % 2])


def triangle(size: int) -> Edges:
    """A line with a link from its first to its third."""
    return [*line(size), (0, 2)]


@pytest.mark.parametrize(
    ("kinds", "shape"),
    [
        ("ppp", line),
        ("pppp", ring),
        ("prp", line),
        ("rppr", ring),
        ("prtrp", line),
        ("rtp", ring),
        ("ptrp", triangle),
    ],
)
def test_clients_connected_by_relays_receive_each_message_once(kinds: str, shape: Callable[[int], Edges]) -> None:
    with contextlib.ExitStack() as stack:
        net = RelayNet(stack, kinds, shape(len(kinds)))
        net.check()
        late = net.join(stack, len(kinds) - 1, "o")
        assert eventually(lambda: late.alive() == {member.name for member in net.members})
        net.check()


@pytest.mark.parametrize(("kinds", "shape", "killed"), [("ppp", line, 1), ("pppp", ring, 1), ("prpp", ring, 2)])
def test_remaining_network_works_after_a_relay_is_killed(
    kinds: str, shape: Callable[[int], Edges], killed: int
) -> None:
    with contextlib.ExitStack() as stack:
        net = RelayNet(stack, kinds, shape(len(kinds)), killable=killed)
        net.check()
        for part in net.kill(killed):
            net.check(part)


def test_restarted_relay_reconnects_its_network() -> None:
    with contextlib.ExitStack() as stack:
        net = RelayNet(stack, "p", [])
        middle, end = unused(), unused()
        net.places += [middle, end]
        node = stack.enter_context(process("peer", middle, [net.places[0]]))
        last = zenspark.open(relaying("peer", [end], [middle]))
        stack.callback(last.close)
        net.join(stack, 2, "t")
        net.check()
        node.kill()
        for member in net.members:
            assert eventually(lambda: member.alive() == {member.name})  # noqa: B023
        stack.enter_context(process("peer", middle, [net.places[0]]))
        net.check()


@pytest.mark.parametrize("kind", ["o", "t"])
def test_non_relaying_peer_receives_once_from_adjacent_relays(kind: str) -> None:
    """It has links to a router and to a peer, both of which relay: what one of them delivers the other does not."""
    with contextlib.ExitStack() as stack:
        net = RelayNet(stack, "rp", line(2))
        member = Member(API[kind], "m2", "peer", net.places, gossip=False, relays=False)
        stack.callback(member.close)
        net.members.append(member)
        net.wait_until_received_once()
        net.check()


@pytest.mark.parametrize("kind", ["o", "t"])
def test_non_relaying_peer_at_a_line_of_relays_reaches_only_its_neighbour(kind: str) -> None:
    with contextlib.ExitStack() as stack:
        net = RelayNet(stack, "ppp", line(3))
        net.check()
        member = Member(API[kind], "m3", "peer", [net.places[2]], gossip=False, relays=False)
        stack.callback(member.close)
        near, names = net.members[2], {each.name for each in net.members}
        assert eventually(lambda: near.alive() == names | {"m3"})
        assert eventually(lambda: member.alive() == {"m2", "m3"})
        net.wait_for_subscribers([near, member])
        for sender in (near, member):
            sender.session.put("net/once", f"once from {sender.name}")
        assert eventually(lambda: {"once from m2", "once from m3"} <= set(near.received) & set(member.received))
        for sender in net.members[:2]:  # whatever came twice, or too far, has come by now
            assert sender.get_payloads("q/*", sender.api.QueryTarget.ALL) == sorted(names)
        assert member.get_payloads("q/*", member.api.QueryTarget.ALL) == ["m2", "m3"]
        words = [word for each in net.members for word in each.received if word == "once from m3"]
        assert words == ["once from m3"]
        assert member.received.count("once from m2") == member.received.count("once from m3") == 1
