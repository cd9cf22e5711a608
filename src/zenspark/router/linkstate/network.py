"""Network of routers: flooding of link states, and the trees computed from them.

Peers that relay are nodes of the network like routers (docs/routing.md); to eclipse-zenoh's routers they are routers.

Every router numbers the nodes it knows (psid), itself 0, and uses its own psids in messages. A link state has a version
(sn); newer ones replace older ones and are flooded. Protocol section 16.6.

Trees are recomputed with a short delay, as in eclipse-zenoh, so that all routers change together: while two routers use
different trees, messages get lost or loop. A message that does not arrive from the parent in its tree is not forwarded.

A node that becomes unreachable keeps its links, for link states may overtake each other on different paths and the
missing one may arrive; but it may also have restarted, with its versions counted from the beginning. If it stays
unreachable it is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from zenspark.router.face import Face, Outgoing
from zenspark.router.limits import Admission, RefusalReason, Refusals, RouterLimits
from zenspark.router.linkstate import spanning_trees
from zenspark.router.linkstate.spanning_trees import Edges, Tree
from zenspark.router.linkstate.states import RELAY_STATE_OAM_ID, SELF, decode_states
from zenspark.wire.codec import encode_link_states
from zenspark.wire.messages import LinkState, NetworkOam
from zenspark.wire.values import Locator, QoS, WhatAmI, ZenohId

TREE_RECOMPUTATION_DELAY_SECONDS = 0.1
"""Seconds from a change of links until the trees are recomputed."""
UNREACHABLE_NODE_TTL_SECONDS = 10.0
"""Seconds after which an unreachable node is removed, when the trees change next."""
SECONDS_PER_EDGE = 2e-6
"""Estimated seconds to process one edge once: the core has no clock to measure how long a recomputation takes."""
MAX_TREE_CPU_SHARE = 0.1
"""Maximum share of time spent on recomputing trees: the larger the network, the less often it is done."""
MAX_RELAY_FILL = 0.9
"""Share of the limits on nodes and links up to which relays are added."""
MAX_PSID = 0xFFFF
"""Largest psid: NodeId has 16 bits."""
MAX_ADOPTED_SN = 1 << 63
"""Version from which on this node does not raise its own above it: a forged one near 2^64 would leave no higher one."""


class _NetworkNode(msgspec.Struct, eq=False):
    """A router, and its last link state."""

    zid: ZenohId
    psid: int
    sn: int = 0
    links: dict[ZenohId, int] = msgspec.field(default_factory=dict)
    locators: tuple[Locator, ...] = ()
    unreachable_since: float | None = None
    """Time since which it is unreachable; None if reachable."""
    was_included_at_once: bool = False
    """Whether trees were recomputed at once for it: once only, or a node that comes and goes would cause constant
    recomputation."""
    may_restart: bool = False
    """Whether an older version may replace the newer one, once: twice, and two versions would circulate forever."""


class _Neighbour(msgspec.Struct, eq=False):
    """A neighbouring router: the psids it uses, and the nodes whose psids this node has told it."""

    oam_id: int
    psids: dict[int, ZenohId] = msgspec.field(default_factory=dict)
    known_nodes: set[ZenohId] = msgspec.field(default_factory=set)


class ReachabilityChange(msgspec.Struct, frozen=True):
    """Nodes that became reachable or unreachable."""

    appeared: frozenset[ZenohId]
    gone: frozenset[ZenohId]


class RouterNetwork:
    """One router's view of the network. `weights` are those of its own links, `sn` its initial version."""

    def __init__(
        self,
        zid: ZenohId,
        weights: Mapping[ZenohId, int] | None = None,
        sn: int = 1,
        admission: Admission | None = None,
    ) -> None:
        self.zid = zid
        admission = admission or Admission(RouterLimits(), Refusals())
        self._limits, self._refusals = admission.limits, admission.refusals
        self.trees_due_at: float | None = None
        """Time at which the trees must be recomputed; None if they are up to date."""
        self._weights = weights or {}
        self._own_node = _NetworkNode(zid, SELF, sn)
        self._nodes: dict[ZenohId, _NetworkNode] = {zid: self._own_node}
        self._psids: dict[int, ZenohId] = {SELF: zid}
        self._last_psid = SELF
        self._neighbours: dict[Face, _Neighbour] = {}
        self._by_zid: dict[ZenohId, Face] = {}
        self._edges: Edges = {zid: {}}
        self._reachable: frozenset[ZenohId] = frozenset({zid})
        self._trees: dict[ZenohId, Tree] = {}
        self._hops: dict[ZenohId, dict[ZenohId, ZenohId]] = {}
        """First hop on the path from this node, and from each neighbour, to each other node."""
        self._changed: set[ZenohId] = {zid}
        """Nodes whose links changed since the last computation."""
        self.reached_via_network: frozenset[ZenohId] = frozenset()
        """Nodes reached through the network, including peers that some router in it serves."""
        self._link_count = 0
        self._computed_at = float("-inf")
        self._has_relays = False
        """Whether a relay was ever a neighbour."""

    # -- view

    def is_reachable(self, zid: ZenohId) -> bool:
        """Whether there is a path to a router."""
        return zid in self._reachable

    def face(self, zid: ZenohId) -> Face | None:
        """Face of a neighbouring router."""
        return self._by_zid.get(zid)

    def source(self, face: Face, psid: int) -> ZenohId | None:
        """Router a neighbour means by a NodeId; None if it never announced that psid."""
        return self._neighbours[face].psids.get(psid)

    def psid(self, zid: ZenohId) -> int | None:
        """Psid of a router."""
        node = self._nodes.get(zid)
        return None if node is None else node.psid

    @property
    def has_capacity(self) -> bool:
        """Whether one more relay may be linked: some capacity is left for nodes that others add at the same time."""
        limits = self._limits
        return (
            len(self._nodes) < MAX_RELAY_FILL * limits.network_nodes
            and len(self._own_node.links) < limits.node_links
            and self._link_count < MAX_RELAY_FILL * limits.network_links
        )

    def root(self, psid: int) -> ZenohId:
        """Router with a psid."""
        return self._psids[psid]

    def tree(self, root: ZenohId) -> Tree | None:
        """Tree of a root as seen from here; None if the root is unreachable."""
        if root not in self._reachable:
            return None
        tree = self._trees.get(root)
        if tree is None:
            tree = self._trees[root] = spanning_trees.shortest_path_tree(self._edges, root, self.zid)
        return tree

    def children(self, root: ZenohId) -> list[Face]:
        """Neighbours that get messages of a root through this node: those whose first hop towards the root is this
        node."""
        if root not in self._reachable:
            return []
        return [self._by_zid[zid] for zid in sorted(self._by_zid) if self._first_hop(zid, root) == self.zid]

    def parent(self, root: ZenohId) -> Face | None:
        """Neighbour from which messages of a root arrive: the first hop towards the root."""
        hop = self._first_hop(self.zid, root)
        return None if hop is None else self._by_zid.get(hop)

    def _first_hop(self, zid: ZenohId, to: ZenohId) -> ZenohId | None:
        """First hop on the path from this node or a neighbour to another node. The shortest path is the same both ways,
        so these few trees give parents and children in the tree of every root."""
        hops = self._hops.get(zid)
        if hops is None:
            hops = self._hops[zid] = spanning_trees.first_hops(self._edges, zid) if zid in self._edges else {}
        return hops.get(to)

    def next_hops(self, root: ZenohId) -> dict[ZenohId, Face]:
        """Neighbour on the path to each router that is reached through this node from a root."""
        tree = self.tree(root)
        if tree is None:
            return {}
        faces = {child: self._by_zid.get(child) for child in tree.children}
        next_hops = {zid: faces[child] for zid, child in tree.next_hops.items()}
        return {zid: face for zid, face in next_hops.items() if face is not None}

    def distance(self, zid: ZenohId) -> float:
        """Distance of a router from this node."""
        tree = self.tree(self.zid)
        assert tree is not None
        return tree.distances[zid]

    @property
    def nodes(self) -> dict[int, ZenohId]:
        """Reachable routers, by psid."""
        return {psid: zid for psid, zid in self._psids.items() if zid in self._reachable}

    @property
    def edges(self) -> list[tuple[ZenohId, ZenohId, float]]:
        """Links between reachable routers, each once, with its length."""
        pairs = [(zid, other, length) for zid in self._reachable for other, length in self._edges[zid].items()]
        return sorted(pair for pair in pairs if pair[0] < pair[1])

    def weights(self, zid: ZenohId) -> tuple[int, int]:
        """Weights this node and a neighbouring router give their link; 0 where none is given."""
        node = self._nodes.get(zid)
        return self._own_node.links.get(zid, 0), 0 if node is None else node.links.get(self.zid, 0)

    def successor(self, root: ZenohId, to: ZenohId) -> ZenohId | None:
        """Next hop from this node to another one, in the tree of a root."""
        tree = self.tree(root)
        return None if tree is None or to not in tree.distances else tree.next_hops.get(to, tree.parent)

    # -- changes

    def add_neighbour(self, face: Face, locators: Sequence[Locator], now: float) -> Outgoing:
        """Add a neighbouring router: it gets all link states, the others get the new link."""
        neighbour = self._neighbours[face] = _Neighbour(RELAY_STATE_OAM_ID if face.relays else NetworkOam.LINK_STATE)
        self._by_zid[face.zid] = face
        self._has_relays |= face.relays
        added = self._find_or_add_node(face.zid, face)
        if added is None:
            return []
        self._own_node.locators = tuple(locators)
        self._own_node.links[face.zid] = self._weights.get(face.zid, 0)
        self._own_node.sn += 1
        self._change(self._own_node, now)
        all_nodes = [
            self._own_node,
            added,
            *(node for node in self._nodes.values() if node not in (self._own_node, added)),
        ]
        out = [(face, self._oam(neighbour, all_nodes))]
        return out + self._flood([self._own_node], excluded=face)

    def remove_neighbour(self, face: Face, now: float) -> Outgoing:
        """Remove a neighbouring router."""
        del self._neighbours[face]
        if self._by_zid.get(face.zid) is not face:
            return []  # there is another link to it
        del self._by_zid[face.zid]
        self._own_node.links.pop(face.zid, None)
        self._own_node.sn += 1
        self._change(self._own_node, now)
        return self._flood([self._own_node])

    def set_served_peer(self, zid: ZenohId, served: bool, face: Face, now: float) -> Outgoing:
        """Set whether this router serves a peer that does not relay: relays with a link to the peer leave it to this
        router."""
        if served and self._find_or_add_node(zid, face) is None:
            return []
        if served:
            self._own_node.links[zid] = 0
        elif self._own_node.links.pop(zid, None) is None:
            return []
        self._own_node.sn += 1
        self._change(self._own_node, now)
        return self._flood([self._own_node])

    def receive(self, face: Face, message: NetworkOam, now: float) -> Outgoing:
        """Handle link states of a neighbour: newer ones are flooded to the others."""
        neighbour = self._neighbours[face]
        entries, psids = decode_states(message, neighbour.oam_id), neighbour.psids
        for entry in entries:
            if entry.zid is not None and entry.psid <= MAX_PSID:
                psids[entry.psid] = entry.zid
        named = [(psids.get(entry.psid), entry) for entry in entries if entry.whatami in (None, WhatAmI.ROUTER.bit)]
        before = set(self._nodes)
        updated = [
            node for zid, entry in named if zid is not None for node in self._update_node(face, zid, entry, psids, now)
        ]
        added = [self._nodes[zid] for zid in self._nodes.keys() - before]
        out = self._flood(list(dict.fromkeys(updated)), excluded=face)
        return out + self._announce_nodes(face, added)

    def _update_node(
        self, face: Face, zid: ZenohId, entry: LinkState, psids: Mapping[int, ZenohId], now: float
    ) -> list[_NetworkNode]:
        if zid == self.zid:
            return self._raise_own_version(entry)
        node = self._find_or_add_node(zid, face)
        if (
            node is None
            or not _is_newer_version(node, entry.sn)
            or not self._is_within_link_limits(face, node, len(entry.links))
        ):
            return []
        node.may_restart = False
        weights = entry.weights or (0,) * len(entry.links)
        named = [(psids.get(psid), weight) for psid, weight in zip(entry.links, weights, strict=True)]
        links = {
            other: weight
            for other, weight in named
            if other is not None and self._find_or_add_node(other, face) is not None
        }
        node.sn = entry.sn
        if links != node.links:
            self._link_count += len(links) - len(node.links)
            node.links = links
            self._change(node, now)
        if entry.locators is not None:
            node.locators = entry.locators
        return [node]

    def _raise_own_version(self, entry: LinkState) -> list[_NetworkNode]:
        """Raise the version of this node above one that it announced before its restart, so that the current state
        counts as newer."""
        if not self._own_node.sn < entry.sn < MAX_ADOPTED_SN:
            return []
        self._own_node.sn = entry.sn + 1
        return [self._own_node]

    def _is_within_link_limits(self, face: Face, node: _NetworkNode, count: int) -> bool:
        """Whether the limits allow a node that many links; counted as refused if not."""
        limits = self._limits
        if count <= limits.node_links and self._link_count - len(node.links) + count <= limits.network_links:
            return True
        self._refusals.count(RefusalReason.NETWORK_LINKS, face)
        return False

    def _find_or_add_node(self, zid: ZenohId, sender: Face) -> _NetworkNode | None:
        """Node with a zid, added if the limits allow."""
        node = self._nodes.get(zid)
        if node is not None:
            return node
        if len(self._nodes) >= self._limits.network_nodes:
            self._refusals.count(RefusalReason.NETWORK_NODES, sender)
            return None
        node = self._nodes[zid] = _NetworkNode(zid, self._next_psid())
        self._psids[node.psid] = zid
        self._changed.add(zid)
        return node

    def _next_psid(self) -> int:
        """Allocate a free psid, the most recently freed last: neighbours may still use it for another node."""
        self._last_psid = self._last_psid % MAX_PSID + 1
        while self._last_psid in self._psids:
            self._last_psid = self._last_psid % MAX_PSID + 1
        return self._last_psid

    def _change(self, node: _NetworkNode, now: float) -> None:
        """Schedule a recomputation after a node's links changed: with a delay, and a longer one if computing takes
        long. Where there are relays a new node is included at once, for every program that opens a session is one, and
        may publish next."""
        self._changed.add(node.zid)
        is_new_relay = self._has_relays and not node.was_included_at_once and node.zid not in self._reachable
        node.was_included_at_once |= is_new_relay
        due = max(
            now + TREE_RECOMPUTATION_DELAY_SECONDS * (not is_new_relay),
            self._computed_at + self._tree_seconds() / MAX_TREE_CPU_SHARE,
        )
        self.trees_due_at = due if self.trees_due_at is None else min(self.trees_due_at, due)

    def _tree_seconds(self) -> float:
        """Upper bound of the seconds a recomputation takes: all edges for this node, and for each neighbour."""
        return SECONDS_PER_EDGE * self._link_count * (1 + len(self._by_zid))

    # -- trees

    def recompute_trees(self, now: float) -> tuple[ReachabilityChange, Outgoing]:
        """Recompute the trees; returns the nodes that became reachable or unreachable, and messages to neighbours."""
        self.trees_due_at = None
        self._computed_at = now
        claims = {zid: node.links for zid, node in self._nodes.items()}
        for zid in self._changed:
            spanning_trees.update_edges(self._edges, claims, zid)
        self._changed.clear()
        self._trees.clear()
        self._hops.clear()
        before, self._reachable = self._reachable, frozenset(spanning_trees.reachable_from(self._edges, self.zid))
        change = ReachabilityChange(self._reachable - before, before - self._reachable)
        claimed = {other for zid in self._reachable for other in self._nodes[zid].links}
        self.reached_via_network = self._reachable | claimed
        for node in list(self._nodes.values()):
            self._update_reachability(node, node.zid in self._reachable, node.zid in claimed, now)
        attached = [self._nodes[zid] for zid in sorted(change.appeared)]
        return change, self._flood(attached)  # some neighbours did not get their states while they were unreachable

    def _update_reachability(self, node: _NetworkNode, is_reachable: bool, is_claimed: bool, now: float) -> None:
        if is_reachable:
            node.unreachable_since, node.may_restart = None, False
        elif node.unreachable_since is None:
            node.unreachable_since, node.may_restart = now, True
        elif now - node.unreachable_since >= UNREACHABLE_NODE_TTL_SECONDS and not is_claimed:
            del self._nodes[node.zid]
            del self._psids[node.psid]
            self._link_count -= len(node.links)
            spanning_trees.update_edges(self._edges, {}, node.zid)
            del self._edges[node.zid]
            for neighbour in self._neighbours.values():
                neighbour.known_nodes.discard(node.zid)

    # -- flooding

    def _flood(self, nodes: Sequence[_NetworkNode], excluded: Face | None = None) -> Outgoing:
        out: Outgoing = []
        for face, neighbour in self._neighbours.items():
            if face is not excluded:
                updated = [node for node in nodes if not self._receives_directly(node, face)]
                out += [(face, self._oam(neighbour, updated))] if updated else []
                out += self._announce_nodes(face, nodes)
        return out

    def _receives_directly(self, node: _NetworkNode, face: Face) -> bool:
        """Whether a relay gets the link states of a node from the node itself: in a full mesh nothing is flooded."""
        other = self._nodes.get(face.zid)
        if node is self._own_node or other is None or not face.relays:
            return False
        return face.zid in node.links and node.zid in other.links

    def _announce_nodes(self, face: Face, nodes: Iterable[_NetworkNode]) -> Outgoing:
        """Send the psids of nodes to a neighbour that does not know them, also if it announced the node itself."""
        neighbour = self._neighbours[face]
        unknown = [node for node in nodes if node.zid not in neighbour.known_nodes]
        return [(face, _oam(neighbour, [self._name_entry(neighbour, node) for node in unknown]))] if unknown else []

    def _oam(self, neighbour: _Neighbour, nodes: Sequence[_NetworkNode]) -> NetworkOam:
        """Link states of nodes, and the psids of nodes in them that the neighbour does not know."""
        entries = [self._state_entry(neighbour, node) for node in nodes]
        for node in nodes:
            linked = [self._nodes[zid] for zid in node.links if zid not in neighbour.known_nodes and zid in self._nodes]
            entries += [self._name_entry(neighbour, other) for other in linked]
        return _oam(neighbour, entries)

    def _state_entry(self, neighbour: _Neighbour, node: _NetworkNode) -> LinkState:
        links = [(self._nodes[zid], weight) for zid, weight in node.links.items() if zid in self._nodes]
        is_new = node.zid not in neighbour.known_nodes
        neighbour.known_nodes.add(node.zid)
        return LinkState(
            psid=node.psid,
            sn=node.sn,
            zid=node.zid if is_new else None,
            whatami=WhatAmI.ROUTER.bit if is_new else None,
            locators=node.locators if node.locators or (is_new and node is self._own_node) else None,
            links=tuple(other.psid for other, _ in links),
            weights=tuple(weight for _, weight in links) if any(weight for _, weight in links) else None,
        )

    @staticmethod
    def _name_entry(neighbour: _Neighbour, node: _NetworkNode) -> LinkState:
        neighbour.known_nodes.add(node.zid)
        return LinkState(psid=node.psid, sn=0, zid=node.zid, whatami=WhatAmI.ROUTER.bit)


def _is_newer_version(node: _NetworkNode, sn: int) -> bool:
    """Whether a version replaces the known one; 0 is that of a node which is only named."""
    return sn > node.sn or (0 < sn < node.sn and node.may_restart)


def _oam(neighbour: _Neighbour, entries: Sequence[LinkState]) -> NetworkOam:
    return NetworkOam(id=neighbour.oam_id, qos=QoS.DECLARE, zbuf=encode_link_states(entries))
