"""The graph of routers: which edges there are, how long they are, and the tree of shortest paths from each root.

All routers of a network must draw the same trees from the same states, or messages would go in circles. So an edge is
as long as eclipse-zenoh says: its weight and up to one per cent more, by a hash of its two ends, which makes every
shortest path the only one. Protocol.md sections 16.6 and 25.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from heapq import heapify, heappop, heappush

import msgspec

from zenspark.wire.values import ZenohId

DEFAULT_WEIGHT = 100
_MASK = (1 << 64) - 1

Links = Mapping[ZenohId, int]
"""The neighbours a node claims to have, each with the weight it gives the link; 0 where it gives none."""
Edges = dict[ZenohId, dict[ZenohId, float]]
"""The length of each edge, from both ends."""


class Tree(msgspec.Struct, frozen=True):
    """The shortest paths from one root, as one node on them sees it."""

    parent: ZenohId | None
    """The neighbour through which everything from the root comes; None at the root."""
    children: frozenset[ZenohId]
    """The neighbours that get everything from the root through this node."""
    directions: dict[ZenohId, ZenohId]
    """For each node below this one, the child on the way to it."""
    distances: dict[ZenohId, float]
    """How far each node is from the root."""


def siphash13(data: bytes) -> int:
    """SipHash-1-3 with a key of zeros, of whole words of eight bytes. Written out: every new edge needs one."""
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


def edge_length(one: ZenohId, other: ZenohId, weight: int) -> float:
    """How long an edge between two nodes is."""
    return weight * (_length_factor(one, other) if one < other else _length_factor(other, one))


@lru_cache(maxsize=1 << 16)
def _length_factor(one: ZenohId, other: ZenohId) -> float:
    """By how much the hash of its ends makes an edge longer. Remembered: there are fewer edges than this remembers."""
    first, second = sorted(zid.value.to_bytes(16, "little") for zid in (one, other))
    hashed = siphash13(first + second)
    return 1.0 + 0.01 * ((hashed & 0xFFFF_FFFF) / 0xFFFF_FFFF)


def confirmed_edges(claims: Mapping[ZenohId, Links]) -> Edges:
    """The edges both ends of which say that they are there."""
    found: Edges = {zid: {} for zid in claims}
    for zid in claims:
        update_edges(found, claims, zid)
    return found


def update_edges(known: Edges, claims: Mapping[ZenohId, Links], zid: ZenohId) -> None:
    """Bring the edges of one node up to date with what it and its neighbours claim. Other edges keep their lengths."""
    mine = claims.get(zid, {})
    before, after = known.get(zid, {}), {}
    for other, weight in mine.items():
        back = claims.get(other, {}).get(zid)
        if back is not None and other != zid:
            after[other] = edge_length(zid, other, max(weight, back) or DEFAULT_WEIGHT)
    for gone in before.keys() - after.keys():
        known[gone].pop(zid, None)
    for other, far in after.items():
        known.setdefault(other, {})[zid] = far
    known[zid] = after


def reachable_from(known: Edges, root: ZenohId) -> set[ZenohId]:
    """The nodes that can be reached from one, with itself."""
    found = {root}
    waiting = [root]
    while waiting:
        news = [zid for zid in known[waiting.pop()] if zid not in found]
        found.update(news)
        waiting += news
    return found


def first_hops(known: Edges, root: ZenohId) -> dict[ZenohId, ZenohId]:
    """For each node that can be reached from a root, the first one on the shortest path to it."""
    found: dict[ZenohId, ZenohId] = {}
    queue: list[tuple[float, ZenohId, ZenohId]] = [(far, zid, zid) for zid, far in known[root].items()]
    heapify(queue)
    while queue:
        distance, zid, hop = heappop(queue)
        if zid in found:
            continue
        found[zid] = hop
        for other, far in known[zid].items():
            if other not in found and other != root:
                heappush(queue, (distance + far, other, hop))
    return found


def shortest_path_tree(known: Edges, root: ZenohId, viewer: ZenohId) -> Tree:
    """The tree of a root as a viewer sees it."""
    parents: dict[ZenohId, ZenohId] = {}
    distances: dict[ZenohId, float] = {}
    directions: dict[ZenohId, ZenohId] = {}
    queue: list[tuple[float, ZenohId, ZenohId]] = [(0.0, root, root)]
    while queue:
        distance, zid, parent = heappop(queue)
        if zid in distances:
            continue
        distances[zid] = distance
        parents[zid] = parent
        if parent == viewer and zid != viewer:
            directions[zid] = zid
        elif parent in directions:
            directions[zid] = directions[parent]
        for other, far in known[zid].items():
            if other not in distances:
                heappush(queue, (distance + far, other, zid))
    return Tree(
        parent=parents[viewer] if viewer != root and viewer in parents else None,
        children=frozenset(directions.values()),
        directions=directions,
        distances=distances,
    )
