"""The model itself: keys as eclipse-zenoh compares them, who reaches whom in networks drawn by hand, and drawing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.networks.model import World, includes, intersects
from tests.networks.network import Difference, without_consequences
from tests.networks.scenario import Entity, Message, Node, Query, Role, scenario

KEYS = (
    "a",
    "b",
    "a/b",
    "a/b/c",
    "*",
    "**",
    "a/*",
    "*/b",
    "a/**",
    "**/b",
    "a/**/c",
    "a$*",
    "a$*/b",
    "ab",
    "a/$*b",
    "a/*/c",
)


@pytest.mark.interop
def test_key_expressions_intersect_and_include_as_in_eclipse_zenoh() -> None:
    zenoh = pytest.importorskip("zenoh")
    keys = [key for key in KEYS if str(zenoh.KeyExpr.autocanonize(key)) == key]
    assert len(keys) > 10
    for one, other in itertools.product(keys, repeat=2):
        assert intersects(one, other) == zenoh.KeyExpr(one).intersects(other), (one, other)
        assert includes(one, other) == zenoh.KeyExpr(one).includes(other), (one, other)


def world(roles: str, *links: tuple[int, int]) -> World:
    """A network of nodes given as `rz pe cz`: role and package."""
    names: dict[str, Role] = {"r": "router", "p": "peer", "c": "client"}
    nodes = [Node(names[each[0]], each[1], has_gossip=True) for each in roles.split()]
    entities: dict[int, dict[str, Entity]] = {number: {} for number in range(len(nodes))}
    return World(nodes, set(range(len(nodes))), {frozenset(link) for link in links}, entities)


@pytest.mark.parametrize(
    ("roles", "links", "reached"),
    [
        ("re ce pe", [(0, 1), (0, 2)], {0, 1, 2}),
        ("re pe pe", [(0, 1), (0, 2)], {0, 1, 2}),
        ("ce re pe pe", [(0, 2), (1, 2), (2, 3)], {0, 1, 2, 3}),
        ("pe pe pe", [(0, 1), (1, 2)], {0, 1}),
        ("pe pe ce", [(0, 1), (1, 2)], {0, 1, 2}),
        ("pe re pe", [(0, 1), (1, 2)], {0, 1}),
        ("pe rz pe", [(0, 1), (1, 2)], {0, 1, 2}),
        ("pe re re pe", [(0, 1), (1, 2), (2, 3)], {0, 1, 2, 3}),
        ("re pe re", [(0, 1), (1, 2)], {0, 1}),
        ("re re re", [(0, 1)], {0, 1}),
        ("pe re re re pe", [(0, 1), (1, 2), (2, 3), (3, 1), (1, 4)], {0, 1, 2, 3}),
        ("pe re re re pe", [(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)], {0, 1, 2, 3, 4}),
    ],
)
def test_message_of_the_first_node_reaches_expected_nodes(
    roles: str, links: list[tuple[int, int]], reached: set[int]
) -> None:
    assert world(roles, *links).reached(0) == reached


def test_relays_of_zenspark_reach_each_other_through_any_of_them() -> None:
    line = world("pz pz pz pe", (0, 1), (1, 2), (2, 3))
    line.nodes = [replace(node, relays=True) for node in line.nodes]
    assert line.reached(0) == {0, 1, 2}
    assert line.reached(2) == {0, 1, 2, 3}


def test_message_entering_a_ring_of_relays_does_not_return_to_its_entry() -> None:
    ring = world("pe rz pz pz pe", (0, 1), (1, 2), (2, 3), (3, 1), (1, 4))
    ring.nodes = [replace(node, relays=True, has_gossip=False) for node in ring.nodes]
    assert ring.reached(0) == {0, 1, 2, 3}
    assert ring.connected(0) == {0, 1, 2, 3, 4}


def test_router_without_gossip_brokers_between_peers_with_gossip() -> None:
    pair = world("pe rz pe", (0, 1), (1, 2))
    pair.nodes = [replace(node, has_gossip=node.role == "peer") for node in pair.nodes]
    assert pair.reached(0) == {0, 1, 2}
    pair.nodes = [replace(node, has_gossip=node.role == "router") for node in pair.nodes]
    assert pair.reached(0) == {0, 1}


def test_model_separates_certain_and_possible_receivers() -> None:
    line = world("pe pe pe", (0, 1), (1, 2))
    for node, key in enumerate(("a/*", "a/b", "**")):
        line.entities[node]["s"] = Entity("s", "subscriber", key)
    must, may = line.receivers(Message("m", 0, "a/b", 1))
    assert must == {(0, "s"), (1, "s")}
    assert may == {(0, "s"), (1, "s"), (2, "s")}
    assert line.is_matching(0, Entity("p", "publisher", "a/c")) is True
    assert line.is_matching(1, Entity("p", "publisher", "c/c")) is True
    assert line.is_matching(0, Entity("p", "publisher", "c/c")) is None


def test_query_target_selects_certain_and_possible_queryables() -> None:
    pair = world("pe pe", (0, 1))
    pair.entities[0] = {"some": Entity("some", "queryable", "a/b", complete=True, replies=("a/b",))}
    pair.entities[1] = {"all": Entity("all", "queryable", "a/**", complete=True, replies=("a/b", "a/c"))}
    some, whole = (0, "some"), (1, "all")
    assert pair.queried(Query("g", 0, "a/*", "ALL", "NONE")) == ({some, whole}, set(), {some, whole})
    assert pair.queried(Query("g", 0, "a/*", "ALL_COMPLETE", "NONE")) == ({whole}, set(), {some, whole})
    assert pair.queried(Query("g", 0, "a/*", "BEST_MATCHING", "NONE")) == (set(), {whole}, {some, whole})
    assert pair.replies(Query("g", 0, "a/b", "ALL", "NONE"), whole) == ["a/b"]


def test_a_client_is_opened_where_it_can_connect() -> None:
    for seed in (*range(200), 5011):
        drawn, up = scenario(seed), set[int]()
        for step in (step for phase in drawn.phases for step in phase.steps):
            node = drawn.nodes[step.node]
            if step.do != "open":
                up.discard(step.node)
                continue
            assert node.role != "client" or up & set(node.connects), (seed, step)
            up.add(step.node)


def test_a_seed_is_one_scenario() -> None:
    assert scenario(7) == scenario(7)
    assert scenario(7) != scenario(8)
    roles = {role for seed in range(200) for role in (node.role for node in scenario(seed).nodes)}
    assert roles == {"router", "peer", "client"}


# --- what is judged -------------------------------------------------------------------------------


def test_a_querier_without_its_query_is_one_difference() -> None:
    missing = Difference("missing query", "b from 2", (2, "b", "ALL_COMPLETE"))
    unmatched = Difference("matching", "b at 2: False", (2, "b", "ALL_COMPLETE"))
    elsewhere = Difference("matching", "b at 3: False", (3, "b", "ALL_COMPLETE"))
    of_a_publisher = Difference("matching", "b at 2: True")
    found = [missing, unmatched, elsewhere, of_a_publisher, Difference("missing query", "none of a, b")]
    assert without_consequences(found) == [each for each in found if each is not unmatched]
    assert without_consequences([unmatched, elsewhere]) == [unmatched, elsewhere]
