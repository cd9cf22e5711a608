"""The links that gossip makes, with default settings: those that networks of eclipse-zenoh alone have, and no others.

A link too many means that messages arrive twice: a peer with links to two routers of one network receives from both.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import pytest

import zenspark
from tests.interop.reference import eventually, unused
from tests.wait import until

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

Session: TypeAlias = Any
"""A session of either side."""

API: dict[str, Any] = {"z": zenspark, "e": zenoh}
MODES = {"r": "router", "p": "peer"}
QUIET_SECONDS = 0.7
"""Seconds in which no link comes or goes, after which none is expected any more."""

Edge = tuple[int, int]
Topology = tuple[str, tuple[Edge, ...]]
"""The roles of the nodes, and which of them are configured to connect to which before them."""


def open_node(kind: str, mode: str, listen: str, connect: Iterable[str]) -> Session:
    config = API[kind].Config()
    settings = {
        "mode": mode,
        "listen/endpoints": [listen],
        "connect/endpoints": list(connect),
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
    }
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return API[kind].open(config)


@contextlib.contextmanager
def network(kinds: str, topology: Topology) -> Iterator[list[Session]]:
    """Nodes of both kinds, joined as configured."""
    roles, edges = topology
    places = [unused() for _ in roles]
    with contextlib.ExitStack() as stack:
        sessions = []
        for number, role in enumerate(roles):
            near = [places[min(edge)] for edge in edges if max(edge) == number]
            session = open_node(kinds[number], MODES[role], places[number], near)
            stack.callback(session.close)
            sessions.append(session)
        yield sessions


def links(sessions: list[Session]) -> set[Edge]:
    """Which nodes have a link to each other."""
    numbers = {str(session.info.zid()): number for number, session in enumerate(sessions)}
    found = set()
    for number, session in enumerate(sessions):
        for zid in [*session.info.routers_zid(), *session.info.peers_zid()]:
            one, other = sorted((number, numbers[str(zid)]))
            found.add((one, other))
    return found


def settled_links(sessions: list[Session], configured: Iterable[Edge]) -> set[Edge]:
    """The links when none has come or gone for a while."""
    until(lambda: set(configured) <= links(sessions))
    found, since = links(sessions), time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        time.sleep(0.05)
        now = links(sessions)
        if now != found:
            found, since = now, time.monotonic()
    return found


@pytest.mark.parametrize("kinds", ["".join(kinds) for kinds in itertools.product("ze", repeat=3)])
def test_a_peer_of_one_of_two_linked_routers_receives_everything_once(kinds: str) -> None:
    with network(kinds, ("rrp", ((0, 1), (0, 2)))) as sessions:
        received: list[str] = []
        _, router, peer = sessions
        subscriber = peer.declare_subscriber("t/**", lambda sample: received.append(sample.payload.to_string()))
        assert settled_links(sessions, [(0, 1), (0, 2)]) == {(0, 1), (0, 2)}

        def is_subscribed() -> bool:
            router.put("t/ready", "ready")
            return "ready" in received

        assert eventually(is_subscribed)
        peer.put("t/x", "x")
        router.put("t/y", "y")
        assert eventually(lambda: "y" in received)
        router.put("t/end", "end")
        assert eventually(lambda: "end" in received)
        assert sorted(set(received) - {"ready"}) == ["end", "x", "y"]
        assert sorted(word for word in received if word != "ready") == ["end", "x", "y"]
        subscriber.undeclare()


@pytest.mark.parametrize("kinds", ["".join(kinds) for kinds in itertools.product("ze", repeat=3)])
def test_gossip_does_not_link_router_and_peer_of_a_common_peer(kinds: str) -> None:
    edges = ((0, 2), (1, 2))
    with network(kinds, ("rpp", edges)) as sessions:
        assert settled_links(sessions, edges) == set(edges)


def _is_connected(size: int, edges: Iterable[Edge]) -> bool:
    parts = [{node} for node in range(size)]
    for edge in edges:
        joined = [part for part in parts if part & set(edge)]
        parts = [*(part for part in parts if part not in joined), set().union(*joined)]
    return len(parts) == 1


def _shape(roles: str, edges: Iterable[Edge]) -> Topology:
    """The same for all topologies that differ only in the order of their nodes."""
    found = []
    for order in itertools.permutations(range(len(roles))):
        moved = sorted((min(order[one], order[other]), max(order[one], order[other])) for one, other in edges)
        placed = "".join(role for _, role in sorted(zip(order, roles, strict=True)))
        found.append((placed, tuple(moved)))
    return min(found)


def topologies(most: int) -> list[Topology]:
    """Every connected network of routers and peers up to a size, each shape once."""
    found: dict[Topology, None] = {}
    for size in range(2, most + 1):
        pairs = list(itertools.combinations(range(size), 2))
        graphs = [edges for count in range(size - 1, len(pairs) + 1) for edges in itertools.combinations(pairs, count)]
        shapes = dict.fromkeys(_shape("p" * size, edges) for edges in graphs if _is_connected(size, edges))
        for _, edges in shapes:
            for roles in itertools.product("rp", repeat=size):
                found[_shape("".join(roles), edges)] = None
    return list(found)


SAMPLE: list[Topology] = [
    ("rpp", ((0, 1), (1, 2))),
    ("rrpp", ((0, 1), (0, 2), (1, 3))),
    ("rppp", ((0, 1), (0, 2), (2, 3))),
    ("pppp", ((0, 1), (1, 2), (2, 3))),
    ("rrrpp", ((0, 1), (1, 2), (0, 3), (2, 4))),
]


def check_links(topology: Topology) -> None:
    found = []
    for kind in "ez":
        with network(kind * len(topology[0]), topology) as sessions:
            found.append(settled_links(sessions, topology[1]))
    assert found[0] == found[1]


@pytest.mark.parametrize("topology", SAMPLE, ids=str)
def test_gossip_makes_the_links_that_eclipse_zenoh_makes(topology: Topology) -> None:
    check_links(topology)


@pytest.mark.soak
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_gossip_makes_the_links_that_eclipse_zenoh_makes_in_every_topology(size: int) -> None:
    for topology in topologies(size):
        if len(topology[0]) == size:
            check_links(topology)
