"""Gossip: neighbours announce the locators of their neighbours, so that peers discover each other.

The messages are those by which routers share their link states, but no trees are computed from them: protocol
section 16.7. A new neighbour gets entries of this node, of itself and of every other neighbour whose locators are
known; when a neighbour announces its own locators, they are forwarded to the other neighbours. Entries of nodes that
are not neighbours of their sender are forwarded only with `multihop`. Locators of routers are never announced, not
even by the router itself, because peers of eclipse-zenoh would forward them: a peer with links to several routers of
one network would receive everything from each of them. To its router a peer also
announces its links, and again when they change, so that the router knows which peers need it to reach each other.
Routers exchange more: `network.py`.

All entries are unverified: they are kept within limits, and ignored if they do not decode.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zenspark.router.face import Face, Outgoing, Region
from zenspark.router.linkstate.states import SELF, decode_states
from zenspark.wire.codec import encode_link_states
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import LinkState, NetworkOam
from zenspark.wire.values import Locator, QoS, Roles, WhatAmI, ZenohId

MAX_GOSSIP_NODES = 10_000
"""Nodes remembered: forged entries must not fill the memory."""
MAX_LOCATORS_PER_NODE = 64
"""Locators remembered of one node: forged entries must not fill the memory."""


class DiscoveredNode(msgspec.Struct, frozen=True):
    """A node with its role and locators."""

    zid: ZenohId
    whatami: WhatAmI
    locators: tuple[Locator, ...]


class _GossipNode(msgspec.Struct):
    """A known node: the psid by which this node names it, and the newest version of its locators."""

    psid: int
    whatami: WhatAmI
    sn: int = 0
    locators: tuple[Locator, ...] = ()


class GossipProtocol:
    """Gossip state of one node. `targets` are the roles it announces nodes to."""

    def __init__(self, zid: ZenohId, whatami: WhatAmI, targets: Roles, multihop: bool = False) -> None:
        self._zid = zid
        self._whatami = whatami
        self._targets = targets
        self._multihop = multihop
        self._nodes: dict[ZenohId, _GossipNode] = {}
        self._faces: dict[Face, dict[int, ZenohId]] = {}
        """Neighbours, with the psids each uses for nodes."""
        self._locators: dict[Face, tuple[Locator, ...]] = {}
        """Locators of this node as announced to each neighbour."""
        self._last_psid = SELF
        self._sn = 0
        """Version of this node's own entry."""

    def add_neighbour(self, face: Face, locators: Sequence[Locator]) -> Outgoing:
        """Add a neighbour; `locators` are this node's addresses as reachable by it and its neighbours."""
        node = self._find_or_add_node(face.zid, face.whatami)
        if node is None:
            return []
        self._faces[face] = {}
        self._locators[face] = tuple(locators)[:MAX_LOCATORS_PER_NODE]
        self._sn += 1
        other = LinkState(psid=node.psid, sn=0, zid=face.zid, whatami=face.whatami.bit)
        out = self._announce_links([other], face)
        if not self._is_target(face):
            return out
        others = [
            self._entry(zid, other_node)
            for zid, other_node in self._nodes.items()
            if self._is_announced_to(face, zid, other_node)
        ]
        gateway = replace(other, gateway=_receives_links(face))
        return [*out, (face, _oam([self._own_state(face, is_first=True), gateway, *others]))]

    def remove_neighbour(self, face: Face) -> Outgoing:
        """Remove a neighbour; its locators are not announced any more."""
        if self._faces.pop(face, None) is None:
            return []
        del self._locators[face]
        if not any(other.zid == face.zid for other in self._faces):
            del self._nodes[face.zid]
        self._sn += 1
        return self._announce_links([], face)

    def _is_announced_to(self, face: Face, zid: ZenohId, node: _GossipNode) -> bool:
        """Whether an entry of another node is sent to a new neighbour."""
        if zid == face.zid or _receives_links(face):
            return zid != face.zid
        if not node.locators or node.whatami is WhatAmI.ROUTER:
            return False
        return self._multihop or any(other.zid == zid for other in self._faces)

    def _own_state(self, face: Face, is_first: bool = False) -> LinkState:
        """Entry of this node for a neighbour."""
        links = tuple(self._nodes[other.zid].psid for other in self._faces) if _receives_links(face) else ()
        zid = self._zid if is_first else None
        locators = None if self._whatami is WhatAmI.ROUTER else self._locators[face]
        return LinkState(psid=SELF, sn=self._sn, zid=zid, whatami=self._whatami.bit, locators=locators, links=links)

    def _announce_links(self, states: list[LinkState], excluded: Face) -> Outgoing:
        targets = [
            face for face in self._faces if face is not excluded and self._is_target(face) and _receives_links(face)
        ]
        return [(face, _oam([*states, self._own_state(face)])) for face in targets]

    def _is_target(self, face: Face) -> bool:
        return bool(face.whatami.bit & self._targets) and (face.region is not Region.ROUTER or face.relays)

    def receive(self, face: Face, message: NetworkOam) -> tuple[list[DiscoveredNode], Outgoing]:
        """Handle gossip of a neighbour: returns the nodes discovered, and messages for the other neighbours."""
        discovered: list[DiscoveredNode] = []
        out: Outgoing = []
        for entry in self._entries(face, message):
            zid = self._zid_of(face, entry)
            if zid is None or zid == self._zid or not entry.locators:
                continue
            node = self._update_node(zid, entry)
            if node is None:
                continue
            discovered.append(DiscoveredNode(zid, node.whatami, node.locators))
            if node.whatami is not WhatAmI.ROUTER and (self._multihop or zid == face.zid):
                out += self._forward(face, zid, node)
        return discovered, out

    def _entries(self, face: Face, message: NetworkOam) -> Sequence[LinkState]:
        return decode_states(message) if face in self._faces else ()

    def _zid_of(self, face: Face, entry: LinkState) -> ZenohId | None:
        """Zid an entry is about: its own, or that of a psid mapped before."""
        psids = self._faces[face]
        if entry.zid is not None and (entry.psid in psids or len(psids) < MAX_GOSSIP_NODES):
            psids[entry.psid] = entry.zid
        return entry.zid or psids.get(entry.psid)

    def _update_node(self, zid: ZenohId, entry: LinkState) -> _GossipNode | None:
        """Store an entry; None if it is not newer."""
        whatami = _role(entry.whatami)
        node = self._find_or_add_node(zid, whatami)
        if node is None or (node.locators and entry.sn <= node.sn):
            return None
        locators = (entry.locators or ())[:MAX_LOCATORS_PER_NODE]
        is_new = locators != node.locators
        node.sn, node.locators = entry.sn, locators
        return node if is_new else None

    def _find_or_add_node(self, zid: ZenohId, whatami: WhatAmI | None) -> _GossipNode | None:
        node = self._nodes.get(zid)
        if node is None and whatami is not None and len(self._nodes) < MAX_GOSSIP_NODES:
            self._last_psid += 1
            node = self._nodes[zid] = _GossipNode(self._last_psid, whatami)
        return node

    def _forward(self, source: Face, zid: ZenohId, node: _GossipNode) -> Outgoing:
        targets = [face for face in self._faces if face is not source and face.zid != zid and self._is_target(face)]
        return [(face, _oam([self._entry(zid, node)])) for face in targets]

    @staticmethod
    def _entry(zid: ZenohId, node: _GossipNode) -> LinkState:
        locators = node.locators or None
        return LinkState(psid=node.psid, sn=node.sn, zid=zid, whatami=node.whatami.bit, locators=locators)


def _receives_links(face: Face) -> bool:
    """Whether a neighbour is a router that uses the links of this node."""
    return face.region is Region.UPSTREAM and face.whatami is WhatAmI.ROUTER


def _role(bit: int | None) -> WhatAmI | None:
    return next((role for role in WhatAmI if role.bit == bit), None)


def _oam(entries: Sequence[LinkState]) -> NetworkOam:
    return NetworkOam(id=NetworkOam.LINK_STATE, qos=QoS.DECLARE, zbuf=encode_link_states(entries))
