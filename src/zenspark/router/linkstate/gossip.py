"""Gossip: neighbours tell each other where their neighbours can be reached, so that peers find each other.

The messages are those by which routers share their graph, but nothing is computed from them: protocol.md section
16.7. A new neighbour hears of us, of itself and of every other neighbour whose locators we know; when a neighbour
tells us its own locators, the other neighbours hear of them. What is told of nodes that are not neighbours of the
teller is passed on only with `multihop`. Where routers are is never told: a peer that had links to several routers of
one network would receive everything from each of them. To its router a peer also says to whom it has links, and says
it again when that changes, so that the router knows who needs it to reach whom. Routers tell each other more:
`network.py`.

Everything told is a rumour from a neighbour: it is kept within limits, and what does not decode is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zenspark.router.face import Face, Outgoing, Region
from zenspark.router.linkstate.states import decode_states
from zenspark.wire.codec import encode_link_states
from zenspark.wire.declare import replace
from zenspark.wire.messages import LinkState, NetworkOam
from zenspark.wire.values import Locator, QoS, Roles, WhatAmI, ZenohId

MAX_NODES = 10_000
"""Nodes remembered: rumours of invented ones must not fill the memory."""
MAX_LOCATORS_PER_NODE = 64
"""Locators remembered of one node, for the same reason."""
SELF = 0
"""Our number for ourselves."""


class DiscoveredNode(msgspec.Struct, frozen=True):
    """A node, what it is and where it can be reached."""

    zid: ZenohId
    whatami: WhatAmI
    locators: tuple[Locator, ...]


class _GossipNode(msgspec.Struct):
    """What was told of a node: our number for it, and the newest version of where it is."""

    psid: int
    whatami: WhatAmI
    sn: int = 0
    locators: tuple[Locator, ...] = ()


class GossipProtocol:
    """What one node knows from its neighbours. `targets` are the roles it tells."""

    def __init__(self, zid: ZenohId, whatami: WhatAmI, targets: Roles, multihop: bool = False) -> None:
        self._zid = zid
        self._whatami = whatami
        self._targets = targets
        self._multihop = multihop
        self._known: dict[ZenohId, _GossipNode] = {}
        self._faces: dict[Face, dict[int, ZenohId]] = {}
        """The neighbours, with the numbers each has for nodes."""
        self._places: dict[Face, tuple[Locator, ...]] = {}
        """Where each neighbour hears that we can be reached."""
        self._numbers = SELF
        self._sn = 0
        """The version of our own links."""

    def opened(self, face: Face, locators: Sequence[Locator]) -> Outgoing:
        """A new neighbour; `locators` is where it and its neighbours can reach us."""
        known = self._meet(face.zid, face.whatami)
        if known is None:
            return []
        self._faces[face] = {}
        self._places[face] = tuple(locators)[:MAX_LOCATORS_PER_NODE]
        self._sn += 1
        other = LinkState(psid=known.psid, sn=0, zid=face.zid, whatami=face.whatami.bit)
        out = self._tell_links([other], face)
        if not self._is_target(face):
            return out
        others = [self._entry(zid, each) for zid, each in self._known.items() if self._is_for(face, zid, each)]
        gateway = replace(other, gateway=_hears_links(face))
        return [*out, (face, _oam([self._own(face, is_first=True), gateway, *others]))]

    def closed(self, face: Face) -> Outgoing:
        """A neighbour is gone; where it was is not told any more."""
        if self._faces.pop(face, None) is None:
            return []
        del self._places[face]
        if not any(each.zid == face.zid for each in self._faces):
            del self._known[face.zid]
        self._sn += 1
        return self._tell_links([], face)

    def _is_for(self, face: Face, zid: ZenohId, known: _GossipNode) -> bool:
        """Whether a new neighbour is told of another node."""
        if zid == face.zid or _hears_links(face):
            return zid != face.zid
        if not known.locators or known.whatami is WhatAmI.ROUTER:
            return False
        return self._multihop or any(each.zid == zid for each in self._faces)

    def _own(self, face: Face, is_first: bool = False) -> LinkState:
        """What we say of ourselves to a neighbour."""
        links = tuple(self._known[each.zid].psid for each in self._faces) if _hears_links(face) else ()
        zid = self._zid if is_first else None
        return LinkState(
            psid=SELF, sn=self._sn, zid=zid, whatami=self._whatami.bit, locators=self._places[face], links=links
        )

    def _tell_links(self, news: list[LinkState], but: Face) -> Outgoing:
        told = [face for face in self._faces if face is not but and self._is_target(face) and _hears_links(face)]
        return [(face, _oam([*news, self._own(face)])) for face in told]

    def _is_target(self, face: Face) -> bool:
        return bool(face.whatami.bit & self._targets) and (face.region is not Region.ROUTER or face.relays)

    def receive(self, face: Face, message: NetworkOam) -> tuple[list[DiscoveredNode], Outgoing]:
        """What a neighbour tells: the nodes that are news to us, and what the other neighbours must hear."""
        found: list[DiscoveredNode] = []
        out: Outgoing = []
        for entry in self._entries(face, message):
            zid = self._name(face, entry)
            if zid is None or zid == self._zid or not entry.locators:
                continue
            known = self._learn(zid, entry)
            if known is None:
                continue
            found.append(DiscoveredNode(zid, known.whatami, known.locators))
            if known.whatami is not WhatAmI.ROUTER and (self._multihop or zid == face.zid):
                out += self._pass_on(face, zid, known)
        return found, out

    def _entries(self, face: Face, message: NetworkOam) -> Sequence[LinkState]:
        return decode_states(message) if face in self._faces else ()

    def _name(self, face: Face, entry: LinkState) -> ZenohId | None:
        """Whom an entry is about: it says so, or uses a number it has explained before."""
        numbers = self._faces[face]
        if entry.zid is not None and (entry.psid in numbers or len(numbers) < MAX_NODES):
            numbers[entry.psid] = entry.zid
        return entry.zid or numbers.get(entry.psid)

    def _learn(self, zid: ZenohId, entry: LinkState) -> _GossipNode | None:
        """Keep what is told; None if it is nothing new."""
        whatami = _role(entry.whatami)
        known = self._meet(zid, whatami)
        if known is None or (known.locators and entry.sn <= known.sn):
            return None
        locators = (entry.locators or ())[:MAX_LOCATORS_PER_NODE]
        is_new = locators != known.locators
        known.sn, known.locators = entry.sn, locators
        return known if is_new else None

    def _meet(self, zid: ZenohId, whatami: WhatAmI | None) -> _GossipNode | None:
        known = self._known.get(zid)
        if known is None and whatami is not None and len(self._known) < MAX_NODES:
            self._numbers += 1
            known = self._known[zid] = _GossipNode(self._numbers, whatami)
        return known

    def _pass_on(self, source: Face, zid: ZenohId, known: _GossipNode) -> Outgoing:
        told = [face for face in self._faces if face is not source and face.zid != zid and self._is_target(face)]
        return [(face, _oam([self._entry(zid, known)])) for face in told]

    @staticmethod
    def _entry(zid: ZenohId, known: _GossipNode) -> LinkState:
        locators = known.locators or None
        return LinkState(psid=known.psid, sn=known.sn, zid=zid, whatami=known.whatami.bit, locators=locators)


def _hears_links(face: Face) -> bool:
    """Whether a neighbour is a router that wants to know of our links."""
    return face.region is Region.UPSTREAM and face.whatami is WhatAmI.ROUTER


def _role(bit: int | None) -> WhatAmI | None:
    return next((each for each in WhatAmI if each.bit == bit), None)


def _oam(entries: Sequence[LinkState]) -> NetworkOam:
    return NetworkOam(id=NetworkOam.LINK_STATE, qos=QoS.DECLARE, zbuf=encode_link_states(entries))
