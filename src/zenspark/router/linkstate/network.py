"""The network of routers: what each says of its links, told on to all, and the trees that follow from it.

Peers that relay are nodes of the network like routers (docs/routing.md); to eclipse-zenoh's routers they are routers.

Every router numbers the nodes it knows, itself 0; what it says to a neighbour uses its own numbers (psids). A state has
a version (sn), newer ones replace older ones and are told on. Protocol.md section 16.6.

The trees follow the states a moment later, as in eclipse-zenoh, so that everybody changes together: while two routers
draw different trees, messages get lost or go in circles. What does not come from our parent in a tree is not passed on.

A node that cannot be reached any more keeps its links, for states may overtake each other on different ways and the
missing one may come; but it may have been started anew, and count its versions from the beginning. If it stays away it
is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from zenspark.router.face import Face, Outgoing
from zenspark.router.limits import Admission, Limit, Refusals, RouterLimits
from zenspark.router.linkstate import spanning_trees
from zenspark.router.linkstate.spanning_trees import Edges, Tree
from zenspark.router.linkstate.states import RELAY_STATE_OAM_ID, decode_states
from zenspark.wire.codec import encode_link_states
from zenspark.wire.messages import LinkState, NetworkOam
from zenspark.wire.values import Locator, QoS, WhatAmI, ZenohId

TREES_DELAY_SECONDS = 0.1
"""Seconds until other links make other trees."""
FORGET_AFTER_SECONDS = 10.0
"""Seconds after which a node that cannot be reached is forgotten, when the trees change next."""
SECONDS_PER_EDGE = 2e-6
"""What it takes to look at one edge once: with it the time for drawing is estimated, for nothing here has a clock."""
MAX_TREE_CPU_SHARE = 0.1
"""The part of all time that may go into drawing: the more there is to draw, the less often it is done."""
MAX_RELAY_FILL = 0.9
"""The part of the limits on nodes and links up to which relays are added."""
MAX_PSID = 0xFFFF
"""NodeId has 16 bits."""
MAX_ADOPTED_SN = 1 << 63
"""Versions from here on are not outdone: an invented one near the end of 64 bits would leave no higher one."""
SELF = 0
"""Our number for ourselves."""


class _NetworkNode(msgspec.Struct, eq=False):
    """A router, and what it said last of its links."""

    zid: ZenohId
    psid: int
    sn: int = 0
    links: dict[ZenohId, int] = msgspec.field(default_factory=dict)
    locators: tuple[Locator, ...] = ()
    unreachable_since: float | None = None
    """Since when it cannot be reached."""
    was_urgent: bool = False
    """Whether trees were drawn at once for it: once only, or a node that comes and goes would keep us drawing."""
    may_restart: bool = False
    """Whether an older version may replace the newer one, once: twice, and two versions would go round for ever."""


class _Neighbour(msgspec.Struct, eq=False):
    """A router beside us: its numbers, and which of ours it knows."""

    oam_id: int
    psids: dict[int, ZenohId] = msgspec.field(default_factory=dict)
    known_nodes: set[ZenohId] = msgspec.field(default_factory=set)


class ReachabilityChange(msgspec.Struct, frozen=True):
    """How the reachable part of the network has changed."""

    appeared: frozenset[ZenohId]
    gone: frozenset[ZenohId]


class RouterNetwork:
    """What one router knows of the others. `weights` are those of its own links, `sn` the version it begins with."""

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
        """When the trees are to be drawn anew."""
        self._weights = weights or {}
        self._own = _NetworkNode(zid, SELF, sn)
        self._nodes: dict[ZenohId, _NetworkNode] = {zid: self._own}
        self._psids: dict[int, ZenohId] = {SELF: zid}
        self._last_psid = SELF
        self._neighbours: dict[Face, _Neighbour] = {}
        self._by_zid: dict[ZenohId, Face] = {}
        self._edges: Edges = {zid: {}}
        self._reachable: frozenset[ZenohId] = frozenset({zid})
        self._trees: dict[ZenohId, Tree] = {}
        self._hops: dict[ZenohId, dict[ZenohId, ZenohId]] = {}
        """For us and the routers beside us, the first hop on the way to each other one."""
        self._changed: set[ZenohId] = {zid}
        """Whose links are others than those that were drawn."""
        self.reached_via_network: frozenset[ZenohId] = frozenset()
        """The nodes that are reached through the network, those that some router in it serves among them."""
        self._link_count = 0
        self._drawn_at = float("-inf")
        self._has_relays = False
        """Whether a relay was ever beside us."""

    # -- what is known

    def is_reachable(self, zid: ZenohId) -> bool:
        """Whether there is a way to a router."""
        return zid in self._reachable

    def face(self, zid: ZenohId) -> Face | None:
        """The face of a router beside us."""
        return self._by_zid.get(zid)

    def source(self, face: Face, number: int) -> ZenohId | None:
        """The router that a neighbour means by a NodeId; None if it has never said."""
        return self._neighbours[face].psids.get(number)

    def psid(self, zid: ZenohId) -> int | None:
        """Our number for a router."""
        node = self._nodes.get(zid)
        return None if node is None else node.psid

    @property
    def has_capacity(self) -> bool:
        """Whether one more relay may be linked to us: some room is left for what others add at the same time."""
        limits = self._limits
        return (
            len(self._nodes) < MAX_RELAY_FILL * limits.network_nodes
            and len(self._own.links) < limits.node_links
            and self._link_count < MAX_RELAY_FILL * limits.network_links
        )

    def root(self, psid: int) -> ZenohId:
        """The router we have given a number."""
        return self._psids[psid]

    def tree(self, root: ZenohId) -> Tree | None:
        """The tree of a root as it is seen from here; None if there is no way from it."""
        if root not in self._reachable:
            return None
        found = self._trees.get(root)
        if found is None:
            found = self._trees[root] = spanning_trees.shortest_path_tree(self._edges, root, self.zid)
        return found

    def children(self, root: ZenohId) -> list[Face]:
        """The neighbours that get what comes from a root through us: those whose way to it begins with us."""
        if root not in self._reachable:
            return []
        return [self._by_zid[zid] for zid in sorted(self._by_zid) if self._first_hop(zid, root) == self.zid]

    def parent(self, root: ZenohId) -> Face | None:
        """The neighbour through which what comes from a root comes to us: where our way to it begins."""
        hop = self._first_hop(self.zid, root)
        return None if hop is None else self._by_zid.get(hop)

    def _first_hop(self, zid: ZenohId, to: ZenohId) -> ZenohId | None:
        """Where the way from us or a router beside us to another one begins. The shortest way is the same both ways,
        so these few trees tell parents and children in the tree of every root."""
        hops = self._hops.get(zid)
        if hops is None:
            hops = self._hops[zid] = spanning_trees.first_hops(self._edges, zid) if zid in self._edges else {}
        return hops.get(to)

    def directions(self, root: ZenohId) -> dict[ZenohId, Face]:
        """For each router that is reached through us from a root, the neighbour on the way to it."""
        tree = self.tree(root)
        if tree is None:
            return {}
        faces = {child: self._by_zid.get(child) for child in tree.children}
        found = {zid: faces[child] for zid, child in tree.directions.items()}
        return {zid: face for zid, face in found.items() if face is not None}

    def distance(self, zid: ZenohId) -> float:
        """How far a router is from here."""
        tree = self.tree(self.zid)
        assert tree is not None
        return tree.distances[zid]

    @property
    def nodes(self) -> dict[int, ZenohId]:
        """The routers there is a way to, by our numbers."""
        return {number: zid for number, zid in self._psids.items() if zid in self._reachable}

    @property
    def edges(self) -> list[tuple[ZenohId, ZenohId, float]]:
        """The links between them, each once, with how long it counts."""
        pairs = [(one, other, far) for one in self._reachable for other, far in self._edges[one].items()]
        return sorted(pair for pair in pairs if pair[0] < pair[1])

    def weights(self, zid: ZenohId) -> tuple[int, int]:
        """What we and a router beside us say that the link between us weighs; 0 where nothing is said."""
        node = self._nodes.get(zid)
        return self._own.links.get(zid, 0), 0 if node is None else node.links.get(self.zid, 0)

    def successor(self, root: ZenohId, to: ZenohId) -> ZenohId | None:
        """The router beside us on the way to another one, in the tree of a root."""
        tree = self.tree(root)
        return None if tree is None or to not in tree.distances else tree.directions.get(to, tree.parent)

    # -- what happens

    def opened(self, face: Face, locators: Sequence[Locator], now: float) -> Outgoing:
        """A router beside us: it hears of everybody, the others hear of it."""
        neighbour = self._neighbours[face] = _Neighbour(RELAY_STATE_OAM_ID if face.relays else NetworkOam.LINK_STATE)
        self._by_zid[face.zid] = face
        self._has_relays |= face.relays
        met = self._meet(face.zid, face)
        if met is None:
            return []
        self._own.locators = tuple(locators)
        self._own.links[face.zid] = self._weights.get(face.zid, 0)
        self._own.sn += 1
        self._change(self._own, now)
        everybody = [self._own, met, *(node for node in self._nodes.values() if node not in (self._own, met))]
        out = [(face, self._oam(neighbour, everybody))]
        return out + self._tell([self._own], but=face)

    def closed(self, face: Face, now: float) -> Outgoing:
        """A router beside us is gone."""
        del self._neighbours[face]
        if self._by_zid.get(face.zid) is not face:
            return []  # there is another link to it
        del self._by_zid[face.zid]
        self._own.links.pop(face.zid, None)
        self._own.sn += 1
        self._change(self._own, now)
        return self._tell([self._own])

    def set_served_peer(self, zid: ZenohId, served: bool, face: Face, now: float) -> Outgoing:
        """A peer that does not relay hangs on this router, or does no more: relays with a link to it leave it to us."""
        if served and self._meet(zid, face) is None:
            return []
        if served:
            self._own.links[zid] = 0
        elif self._own.links.pop(zid, None) is None:
            return []
        self._own.sn += 1
        self._change(self._own, now)
        return self._tell([self._own])

    def receive(self, face: Face, message: NetworkOam, now: float) -> Outgoing:
        """States that a neighbour tells: what is news goes on to the others."""
        neighbour = self._neighbours[face]
        entries, psids = decode_states(message, neighbour.oam_id), neighbour.psids
        for entry in entries:
            if entry.zid is not None and entry.psid <= MAX_PSID:
                psids[entry.psid] = entry.zid
        named = [(psids.get(entry.psid), entry) for entry in entries if entry.whatami in (None, WhatAmI.ROUTER.bit)]
        before = set(self._nodes)
        news = [node for zid, entry in named if zid is not None for node in self._learn(face, zid, entry, psids, now)]
        met = [self._nodes[zid] for zid in self._nodes.keys() - before]
        out = self._tell(list(dict.fromkeys(news)), but=face)
        return out + self._introduce(face, met)

    def _learn(
        self, face: Face, zid: ZenohId, entry: LinkState, psids: Mapping[int, ZenohId], now: float
    ) -> list[_NetworkNode]:
        if zid == self.zid:
            return self._correct(entry)
        node = self._meet(zid, face)
        if node is None or not _is_newer_version(node, entry.sn) or not self._may_claim(face, node, len(entry.links)):
            return []
        node.may_restart = False
        weights = entry.weights or (0,) * len(entry.links)
        named = [(psids.get(number), weight) for number, weight in zip(entry.links, weights, strict=True)]
        links = {other: weight for other, weight in named if other is not None and self._meet(other, face) is not None}
        node.sn = entry.sn
        if links != node.links:
            self._link_count += len(links) - len(node.links)
            node.links = links
            self._change(node, now)
        if entry.locators is not None:
            node.locators = entry.locators
        return [node]

    def _correct(self, entry: LinkState) -> list[_NetworkNode]:
        """Somebody remembers us from before we were started anew: what is said now must count as newer."""
        if not self._own.sn < entry.sn < MAX_ADOPTED_SN:
            return []
        self._own.sn = entry.sn + 1
        return [self._own]

    def _may_claim(self, face: Face, node: _NetworkNode, count: int) -> bool:
        """Whether a neighbour may tell that a node has so many links."""
        limits = self._limits
        if count <= limits.node_links and self._link_count - len(node.links) + count <= limits.network_links:
            return True
        self._refusals.count(Limit.NETWORK_LINKS, face)
        return False

    def _meet(self, zid: ZenohId, teller: Face) -> _NetworkNode | None:
        """The node of this id, a new one if there is room for it."""
        node = self._nodes.get(zid)
        if node is not None:
            return node
        if len(self._nodes) >= self._limits.network_nodes:
            self._refusals.count(Limit.NETWORK_NODES, teller)
            return None
        node = self._nodes[zid] = _NetworkNode(zid, self._next_psid())
        self._psids[node.psid] = zid
        self._changed.add(zid)
        return node

    def _next_psid(self) -> int:
        """A free number, those freed last used last: somebody may still mean another node by them."""
        self._last_psid = self._last_psid % MAX_PSID + 1
        while self._last_psid in self._psids:
            self._last_psid = self._last_psid % MAX_PSID + 1
        return self._last_psid

    def _change(self, node: _NetworkNode, now: float) -> None:
        """A node has other links: the trees follow a moment later, and later still if drawing takes long. Where there
        are relays a new node is drawn at once, for every program that opens a session is one, and may publish next."""
        self._changed.add(node.zid)
        is_urgent = self._has_relays and not node.was_urgent and node.zid not in self._reachable
        node.was_urgent |= is_urgent
        due = max(
            now + TREES_DELAY_SECONDS * (not is_urgent), self._drawn_at + self._drawing_time() / MAX_TREE_CPU_SHARE
        )
        self.trees_due_at = due if self.trees_due_at is None else min(self.trees_due_at, due)

    def _drawing_time(self) -> float:
        """Seconds that drawing takes, at most: all edges for us, and for each router beside us."""
        return SECONDS_PER_EDGE * self._link_count * (1 + len(self._by_zid))

    # -- trees

    def recompute_trees(self, now: float) -> tuple[ReachabilityChange, Outgoing]:
        """Draw the trees anew; who appeared and who is gone by that, and what neighbours must hear."""
        self.trees_due_at = None
        self._drawn_at = now
        claims = {zid: node.links for zid, node in self._nodes.items()}
        for zid in self._changed:
            spanning_trees.update_edges(self._edges, claims, zid)
        self._changed.clear()
        self._trees.clear()
        self._hops.clear()
        before, self._reachable = self._reachable, frozenset(spanning_trees.reachable_from(self._edges, self.zid))
        moved = ReachabilityChange(self._reachable - before, before - self._reachable)
        claimed = {other for zid in self._reachable for other in self._nodes[zid].links}
        self.reached_via_network = self._reachable | claimed
        for node in list(self._nodes.values()):
            self._keep(node, node.zid in self._reachable, node.zid in claimed, now)
        attached = [self._nodes[zid] for zid in sorted(moved.appeared)]
        return moved, self._tell(attached)  # not everybody heard of them while they could not be reached

    def _keep(self, node: _NetworkNode, is_reachable: bool, is_claimed: bool, now: float) -> None:
        if is_reachable:
            node.unreachable_since, node.may_restart = None, False
        elif node.unreachable_since is None:
            node.unreachable_since, node.may_restart = now, True
        elif now - node.unreachable_since >= FORGET_AFTER_SECONDS and not is_claimed:
            del self._nodes[node.zid]
            del self._psids[node.psid]
            self._link_count -= len(node.links)
            spanning_trees.update_edges(self._edges, {}, node.zid)
            del self._edges[node.zid]
            for neighbour in self._neighbours.values():
                neighbour.known_nodes.discard(node.zid)

    # -- what is said

    def _tell(self, nodes: Sequence[_NetworkNode], but: Face | None = None) -> Outgoing:
        out: Outgoing = []
        for face, neighbour in self._neighbours.items():
            if face is not but:
                news = [node for node in nodes if not self._is_beside(node, face)]
                out += [(face, self._oam(neighbour, news))] if news else []
                out += self._introduce(face, nodes)
        return out

    def _is_beside(self, node: _NetworkNode, face: Face) -> bool:
        """Whether a relay hears the states of a node from that node itself: where all are linked nothing is told on."""
        other = self._nodes.get(face.zid)
        if node is self._own or other is None or not face.relays:
            return False
        return face.zid in node.links and node.zid in other.links

    def _introduce(self, face: Face, nodes: Iterable[_NetworkNode]) -> Outgoing:
        """Who told us of a node must know our number for it, too."""
        neighbour = self._neighbours[face]
        unknown = [node for node in nodes if node.zid not in neighbour.known_nodes]
        return [(face, _oam(neighbour, [self._named(neighbour, node) for node in unknown]))] if unknown else []

    def _oam(self, neighbour: _Neighbour, nodes: Sequence[_NetworkNode]) -> NetworkOam:
        """The states of nodes, and the names of those in them that the neighbour has not heard of."""
        entries = [self._state(neighbour, node) for node in nodes]
        for node in nodes:
            linked = [self._nodes[zid] for zid in node.links if zid not in neighbour.known_nodes and zid in self._nodes]
            entries += [self._named(neighbour, other) for other in linked]
        return _oam(neighbour, entries)

    def _state(self, neighbour: _Neighbour, node: _NetworkNode) -> LinkState:
        links = [(self._nodes[zid], weight) for zid, weight in node.links.items() if zid in self._nodes]
        is_new = node.zid not in neighbour.known_nodes
        neighbour.known_nodes.add(node.zid)
        return LinkState(
            psid=node.psid,
            sn=node.sn,
            zid=node.zid if is_new else None,
            whatami=WhatAmI.ROUTER.bit if is_new else None,
            locators=node.locators if node.locators or (is_new and node is self._own) else None,
            links=tuple(other.psid for other, _ in links),
            weights=tuple(weight for _, weight in links) if any(weight for _, weight in links) else None,
        )

    @staticmethod
    def _named(neighbour: _Neighbour, node: _NetworkNode) -> LinkState:
        neighbour.known_nodes.add(node.zid)
        return LinkState(psid=node.psid, sn=0, zid=node.zid, whatami=WhatAmI.ROUTER.bit)


def _is_newer_version(node: _NetworkNode, sn: int) -> bool:
    """Whether a version replaces the one known; 0 is that of a node which is only named."""
    return sn > node.sn or (0 < sn < node.sn and node.may_restart)


def _oam(neighbour: _Neighbour, entries: Sequence[LinkState]) -> NetworkOam:
    return NetworkOam(id=neighbour.oam_id, qos=QoS.DECLARE, zbuf=encode_link_states(entries))
