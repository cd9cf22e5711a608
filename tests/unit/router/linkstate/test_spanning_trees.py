"""The graph of routers: lengths as eclipse-zenoh has them, and trees that are the shortest."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, permutations

import pytest

from zenspark.router.linkstate.spanning_trees import (
    Edges,
    Links,
    edge_length,
    reachable_from,
    shortest_path_tree,
    siphash13,
    update_edges,
)
from zenspark.wire.values import ZenohId

LENGTHS = [
    ("a0a1a2a3", "c0c1c2c3", 100.03455835791178),
    ("4559", "45bf", 100.85830215687359),
    ("3d9a", "4559", 100.05917445105948),
    ("45bf", "4e2f", 100.46153358194547),
    ("3d9a", "4e2f", 100.82820436354451),
]
"""As the admin space of 1.10.2 shows them."""


def zids(count: int) -> list[ZenohId]:
    return [ZenohId(number + 1) for number in range(count)]


def claims(pairs: list[tuple[ZenohId, ZenohId]]) -> dict[ZenohId, dict[ZenohId, int]]:
    found: dict[ZenohId, dict[ZenohId, int]] = {}
    for one, other in pairs:
        found.setdefault(one, {})[other] = 0
        found.setdefault(other, {})[one] = 0
    return found


def confirmed_edges(claims: Mapping[ZenohId, Links]) -> Edges:
    """The edges that both ends claim."""
    edges: Edges = {zid: {} for zid in claims}
    for zid in claims:
        update_edges(edges, claims, zid)
    return edges


@pytest.mark.parametrize(("one", "other", "expected"), LENGTHS)
def test_edges_are_as_long_as_in_eclipse_zenoh(one: str, other: str, expected: float) -> None:
    a, b = ZenohId.parse(one), ZenohId.parse(other)
    assert edge_length(a, b, 100) == edge_length(b, a, 100) == expected


def test_the_hash_is_siphash_1_3() -> None:
    assert siphash13(b"") == 0xD1FBA762150C532C
    assert siphash13(bytes(8)) != siphash13(bytes(16))


def test_edge_is_confirmed_only_if_both_ends_announce_it() -> None:
    a, b, c = zids(3)
    one_sided: dict[ZenohId, Links] = {a: {b: 0, a: 0, c: 0}, b: {a: 0}, c: {}}
    found = confirmed_edges(one_sided)
    assert {zid: set(near) for zid, near in found.items()} == {a: {b}, b: {a}, c: set()}
    assert reachable_from(found, a) == {a, b}


def test_the_larger_weight_of_an_edge_counts() -> None:
    a, b = zids(2)
    assert confirmed_edges({a: {b: 7}, b: {a: 300}})[a][b] == edge_length(a, b, 300)
    assert confirmed_edges({a: {b: 0}, b: {a: 0}})[a][b] == edge_length(a, b, 100)


def test_a_ring_is_cut_into_a_tree_on_which_all_agree() -> None:
    nodes = zids(5)
    ring = confirmed_edges(claims([(nodes[at], nodes[(at + 1) % 5]) for at in range(5)]))
    for root in nodes:
        seen = {viewer: shortest_path_tree(ring, root, viewer) for viewer in nodes}
        assert seen[root].parent is None
        for viewer in nodes:
            for child in seen[viewer].children:
                assert seen[child].parent == viewer
            assert {seen[viewer].next_hops[zid] for zid in seen[viewer].next_hops} == seen[viewer].children
        assert sum(len(seen[viewer].children) for viewer in nodes) == 4
        assert set(seen[root].next_hops) == set(nodes) - {root}


def test_paths_are_the_shortest() -> None:
    nodes = zids(5)
    known = confirmed_edges(claims([(a, b) for a in nodes for b in nodes if a < b and (a.value * b.value) % 3]))
    found = shortest_path_tree(known, nodes[0], nodes[0]).distances
    for target in found:
        ways = [
            sum(known[a][b] for a, b in pairwise(way))
            for size in range(1, 6)
            for way in permutations(nodes, size)
            if way[0] == nodes[0] and way[-1] == target and all(b in known[a] for a, b in pairwise(way))
        ]
        assert found[target] == pytest.approx(min(ways))


def test_unconnected_viewer_has_an_empty_tree() -> None:
    a, b = zids(2)
    seen = shortest_path_tree({a: {}, b: {}}, a, b)
    assert (seen.parent, seen.children, seen.next_hops) == (None, frozenset(), {})
