"""Graph of routers: edges, their lengths, and the shortest-path tree of each root.

All routers of a network must compute the same trees from the same link states, or messages would loop. So the length of
an edge is that of eclipse-zenoh: its weight and up to one per cent more, by a hash of its two ends, which makes every
shortest path unique. Protocol section 16.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from heapq import heapify, heappop, heappush

import msgspec

from zenspark.wire.values import ZenohId

DEFAULT_WEIGHT = 100
MAX_CACHED_EDGES = 1 << 13
"""Hashes of edges that are cached. Nodes come and go: more would only fill the memory with edges that are gone."""
_MASK = (1 << 64) - 1

Links = Mapping[ZenohId, int]
"""Neighbours a node claims, each with the weight it gives the link; 0 where it gives none."""
Edges = dict[ZenohId, dict[ZenohId, float]]
"""Length of each edge, from both ends."""


class Tree(msgspec.Struct, frozen=True):
    """Shortest paths from one root, as seen by one node on them."""

    parent: ZenohId | None
    """Neighbour through which messages from the root arrive; None at the root."""
    children: frozenset[ZenohId]
    """Neighbours that get messages from the root through this node."""
    next_hops: dict[ZenohId, ZenohId]
    """Child on the path to each node below the node that sees the tree."""
    distances: dict[ZenohId, float]
    """Distance of each node from the root."""


def siphash13(data: bytes) -> int:
    """SipHash-1-3 with a zero key, of whole words of eight bytes. Unrolled: every new edge needs one."""
    v0, v1, v2, v3 = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    words.append((len(data) & 0xFF) << 56)
    for turn in range(len(words) + 3):
        word = words[turn] if turn < len(words) else 0
        if turn == len(words):
            v2 ^= 0xFF
        v3 ^= word
        v0 = (v0 + v1) & _MASK
        v1 = (v1 << 13 & _MASK | v1 >> 51) ^ v0
        v0 = v0 << 32 & _MASK | v0 >> 32
        v2 = (v2 + v3) & _MASK
        v3 = (v3 << 16 & _MASK | v3 >> 48) ^ v2
        v0 = (v0 + v3) & _MASK
        v3 = (v3 << 21 & _MASK | v3 >> 43) ^ v0
        v2 = (v2 + v1) & _MASK
        v1 = (v1 << 17 & _MASK | v1 >> 47) ^ v2
        v2 = v2 << 32 & _MASK | v2 >> 32
        v0 ^= word
    return v0 ^ v1 ^ v2 ^ v3


def edge_length(zid: ZenohId, other: ZenohId, weight: int) -> float:
    """Length of the edge between two nodes."""
    return weight * (_length_factor(zid, other) if zid < other else _length_factor(other, zid))


@lru_cache(maxsize=MAX_CACHED_EDGES)
def _length_factor(zid: ZenohId, other: ZenohId) -> float:
    """Factor by which the hash of its ends lengthens an edge; the last MAX_CACHED_EDGES are cached."""
    first, second = sorted(end.value.to_bytes(16, "little") for end in (zid, other))
    hashed = siphash13(first + second)
    return 1.0 + 0.01 * ((hashed & 0xFFFF_FFFF) / 0xFFFF_FFFF)


def update_edges(edges: Edges, claims: Mapping[ZenohId, Links], zid: ZenohId) -> None:
    """Update the edges of one node from the claims of it and its neighbours. Other edges keep their lengths."""
    own_links = claims.get(zid, {})
    before, after = edges.get(zid, {}), {}
    for other, weight in own_links.items():
        back = claims.get(other, {}).get(zid)
        if back is not None and other != zid:
            after[other] = edge_length(zid, other, max(weight, back) or DEFAULT_WEIGHT)
    for gone in before.keys() - after.keys():
        edges[gone].pop(zid, None)
    for other, length in after.items():
        edges.setdefault(other, {})[zid] = length
    edges[zid] = after


def reachable_from(edges: Edges, root: ZenohId) -> set[ZenohId]:
    """Nodes that can be reached from a root, including itself."""
    reached = {root}
    waiting = [root]
    while waiting:
        unvisited = [zid for zid in edges[waiting.pop()] if zid not in reached]
        reached.update(unvisited)
        waiting += unvisited
    return reached


def first_hops(edges: Edges, root: ZenohId) -> dict[ZenohId, ZenohId]:
    """First hop of the shortest path from a root to each node reachable from it."""
    hops: dict[ZenohId, ZenohId] = {}
    queue: list[tuple[float, ZenohId, ZenohId]] = [(length, zid, zid) for zid, length in edges[root].items()]
    heapify(queue)
    while queue:
        distance, zid, hop = heappop(queue)
        if zid in hops:
            continue
        hops[zid] = hop
        for other, length in edges[zid].items():
            if other not in hops and other != root:
                heappush(queue, (distance + length, other, hop))
    return hops


def shortest_path_tree(edges: Edges, root: ZenohId, viewer: ZenohId) -> Tree:
    """Tree of a root as seen by a viewer."""
    parents: dict[ZenohId, ZenohId] = {}
    distances: dict[ZenohId, float] = {}
    next_hops: dict[ZenohId, ZenohId] = {}
    queue: list[tuple[float, ZenohId, ZenohId]] = [(0.0, root, root)]
    while queue:
        distance, zid, parent = heappop(queue)
        if zid in distances:
            continue
        distances[zid] = distance
        parents[zid] = parent
        if parent == viewer and zid != viewer:
            next_hops[zid] = zid
        elif parent in next_hops:
            next_hops[zid] = next_hops[parent]
        for other, length in edges[zid].items():
            if other not in distances:
                heappush(queue, (distance + length, other, zid))
    return Tree(
        parent=parents[viewer] if viewer != root and viewer in parents else None,
        children=frozenset(next_hops.values()),
        next_hops=next_hops,
        distances=distances,
    )
