"""The graph of routers: which edges there are, how long they are, and the tree of shortest paths from each root.

All routers of a network must draw the same trees from the same states, or messages would go in circles. So an edge is
as long as eclipse-zenoh says: its weight and up to one per cent more, by a hash of its two ends, which makes every
shortest path the only one. Protocol.md sections 16.6 and 25.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from heapq import heappop, heappush

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


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _MASK
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 = (v2 + v3) & _MASK
    v3 = _rotate(v3, 16) ^ v2
    v0 = (v0 + v3) & _MASK
    v3 = _rotate(v3, 21) ^ v0
    v2 = (v2 + v1) & _MASK
    v1 = _rotate(v1, 17) ^ v2
    return v0, v1, _rotate(v2, 32), v3


def siphash13(data: bytes) -> int:
    """SipHash-1-3 with a key of zeros, of whole words of eight bytes."""
    state = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    for word in [*words, (len(data) & 0xFF) << 56]:
        v0, v1, v2, v3 = _round(*state[:3], state[3] ^ word)
        state = (v0 ^ word, v1, v2, v3)
    state = (state[0], state[1], state[2] ^ 0xFF, state[3])
    for _ in range(3):
        state = _round(*state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


@lru_cache(maxsize=1 << 16)
def length(one: ZenohId, other: ZenohId, weight: int) -> float:
    """How long an edge between two nodes is."""
    first, second = sorted(zid.value.to_bytes(16, "little") for zid in (one, other))
    hashed = siphash13(first + second)
    return weight * (1.0 + 0.01 * ((hashed & 0xFFFF_FFFF) / 0xFFFF_FFFF))


def edges(claims: Mapping[ZenohId, Links]) -> Edges:
    """The edges both ends of which say that they are there."""
    found: Edges = {zid: {} for zid in claims}
    for zid, links in claims.items():
        for other, weight in links.items():
            back = claims.get(other, {}).get(zid)
            if back is not None and other != zid:
                found[zid][other] = length(zid, other, max(weight, back) or DEFAULT_WEIGHT)
    return found


def reachable(known: Edges, root: ZenohId) -> set[ZenohId]:
    """The nodes that can be reached from one, with itself."""
    found = {root}
    waiting = [root]
    while waiting:
        news = [zid for zid in known[waiting.pop()] if zid not in found]
        found.update(news)
        waiting += news
    return found


def tree(known: Edges, root: ZenohId, viewer: ZenohId) -> Tree:
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
