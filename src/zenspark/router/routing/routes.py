"""Where a message goes: the one table of who may reach whom, and the faces a key leads to.

Regions decide reach; declarations decide interest. Towards neighbours that only tell us what we ask (a router above
us, a peer that has not finished telling), not knowing counts as wanting. What a router elsewhere has declared leads to
the neighbour on the way to it, in the tree of the router where the message entered the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from zenspark.key.tree import KeyTree
from zenspark.router.face import DeclarationKind, DeclarationOwner, Face, Region
from zenspark.router.limits import Admission
from zenspark.router.linkstate.network import SELF, RouterNetwork
from zenspark.router.routing.tables import DeclarationTable, is_complete_for
from zenspark.wire.values import QueryTarget, ZenohId

_ALL = frozenset(Region) - {Region.MEMBER}
_DOWNSTREAM = frozenset({Region.LOCAL, Region.CLIENT})

REACHABLE_REGIONS: dict[Region, frozenset[Region]] = {
    Region.LOCAL: _ALL - {Region.LOCAL},
    Region.CLIENT: _ALL,
    Region.SOUTH_PEER: _DOWNSTREAM | {Region.ROUTER, Region.SOUTH_PEER, Region.GROUP},
    Region.PEER: _DOWNSTREAM,
    Region.UPSTREAM: _DOWNSTREAM,
    Region.ROUTER: _DOWNSTREAM | {Region.SOUTH_PEER, Region.GROUP},
    Region.GROUP: frozenset(),
    Region.MEMBER: _DOWNSTREAM | {Region.ROUTER, Region.SOUTH_PEER},
}
"""From the region a message comes from to the regions it may go to; never back to the face itself. Between two peers
under us only if both have told of their links and they have none to each other; between two nodes of our network only
along a tree.

A peer carries nothing from its peers into a group, as it carries nothing from one peer to another: where all peers know
each other, every one of them would, and it would arrive many times. eclipse-zenoh's peers do.
"""

RELAY_PEER_REACHABLE_REGIONS = REACHABLE_REGIONS | {Region.ROUTER: _DOWNSTREAM, Region.MEMBER: _DOWNSTREAM}
"""The same for a peer that relays: what it hears in a group others in its network may have heard there, too."""

ANNOUNCED_WITHOUT_INTEREST = frozenset({Region.UPSTREAM, Region.PEER})
"""Neighbours that are told of all declarations without having asked; routers beside us are, too, but by source."""

MAY_WANT_UNDECLARED = frozenset({Region.UPSTREAM, Region.PEER, Region.GROUP})
"""Neighbours that may want what they have not declared."""

KNOWS_OUR_DECLARATIONS = frozenset({Region.UPSTREAM, Region.PEER})
"""Neighbours that know what this node has declared, and so have chosen whom their queries are for. A router is none: a
query that another router sends on may be meant for those behind this one."""

MAX_ROUTES = 100_000
"""How many routes are remembered: a neighbour that publishes on ever new keys must not fill the memory."""
MAX_ROUTE_BYTES = 32 << 20
"""Bytes in the keys of the routes that are remembered, for the same reason."""
MAX_WILDCARD_ROUTES = 1000
"""How many of the remembered keys of publications may have wildcards: each new subscriber is compared with all."""


class ReachabilityPolicy:
    """Who may reach whom. A broker also carries messages between its peers that say they have no link of their own.

    Neighbours above or beside a relay that are reached through its network (`reached_via_network`) are not reached by their
    links: nothing arrives both ways.
    """

    def __init__(self, is_broker: bool = True, is_router: bool = True) -> None:
        self._is_broker = is_broker
        self._table = REACHABLE_REGIONS if is_router else RELAY_PEER_REACHABLE_REGIONS
        self.reached_via_network: frozenset[ZenohId] = frozenset()
        self._links: dict[ZenohId, frozenset[ZenohId]] = {}

    def link(self, peer: ZenohId, others: Iterable[ZenohId]) -> frozenset[ZenohId]:
        """A peer says to whom it has links; the peers that it can reach through us now, or cannot any more."""
        before = self._brokered(peer)
        self._links[peer] = frozenset(others)
        return before ^ self._brokered(peer)

    def _brokered(self, peer: ZenohId) -> frozenset[ZenohId]:
        return frozenset(zid for zid in self._links if zid != peer and self._is_needed(peer, zid))

    def leave(self, peer: ZenohId) -> None:
        """A peer is gone."""
        self._links.pop(peer, None)

    def __call__(self, source: DeclarationOwner, target: DeclarationOwner) -> bool:
        """Whether what comes from one may go to another."""
        if source is target or target.region not in self._table[source.region] or source.zid in target.members:
            return False
        if self.reached_via_network and (self._is_elsewhere(source) or self._is_elsewhere(target)):
            return False
        if source.region is not Region.SOUTH_PEER or target.region is not Region.SOUTH_PEER:
            return True
        return self._is_broker and self._is_needed(source.zid, target.zid)

    def _is_elsewhere(self, holder: DeclarationOwner) -> bool:
        return holder.region in ANNOUNCED_WITHOUT_INTEREST and holder.zid in self.reached_via_network

    def enters_network(self, holder: DeclarationOwner) -> bool:
        """Whether what comes from a neighbour outside the network goes into it, as ours."""
        return Region.ROUTER in self._table[holder.region]

    def may_cross_network(self, holder: DeclarationOwner) -> bool:
        """Whether what comes from a neighbour goes to other nodes of the network, along a tree."""
        return holder.region is Region.ROUTER or self.enters_network(holder)

    def _is_needed(self, one: ZenohId, other: ZenohId) -> bool:
        """Whether two peers have told of their links and have none to each other. Both must name a link for it to
        count, for a peer that has not noticed it yet does not use it. Peers that tell nothing (without gossip) may have
        one: carried between them, everything could arrive twice."""
        ours, theirs = self._links.get(one), self._links.get(other)
        return ours is not None and theirs is not None and not (other in ours and one in theirs)


class _QueryableCandidate(msgspec.Struct, frozen=True):
    """A face behind which a query is answered."""

    face: Face
    region: Region
    is_complete: bool
    """Whether it answers for the whole key of the query."""
    is_declared_complete: bool
    distance: float


class Routes:
    """Routes of publications and queries, remembered until something on their way changes."""

    def __init__(
        self,
        tables: dict[DeclarationKind, DeclarationTable],
        reach: ReachabilityPolicy,
        network: RouterNetwork | None,
        is_unknown: Callable[[Face, DeclarationKind, str], bool],
        admission: Admission,
    ) -> None:
        self._tables = tables
        self._reach = reach
        self._network = network
        self._is_unknown = is_unknown
        self._admission = admission
        self._doubtful: dict[Face, None] = {}
        self._pushes: dict[tuple[int, int, str], tuple[Face, ...]] = {}
        self._remembered: KeyTree[list[tuple[int, int, str]]] = KeyTree()
        """By key, what is in `_pushes`."""
        self._asked_once: set[int] = set()
        """Hashes of routes that were looked up once: one is remembered when it is looked up again."""
        self._push_bytes = 0
        self._wild_pushes = 0
        self._requests: dict[tuple[int, int, QueryTarget, str], tuple[Face, ...]] = {}
        self._request_bytes = 0
        self._directions: dict[int, dict[ZenohId, Face]] = {}
        self.trusts_complete_flag = False
        """Whether a query for AllComplete goes to every queryable declared complete, also where the key of the query is
        wider than that of the queryable."""
        self.version = 0
        """Changes whenever a route of a publication may have changed."""
        self.request_version = 0
        """Changes whenever a route of a query may have changed."""

    # -- what changes

    def add(self, face: Face) -> None:
        """A new neighbour."""
        if face.region in MAY_WANT_UNDECLARED:
            self._doubtful[face] = None
            self.clear()

    def remove(self, face: Face) -> None:
        """A neighbour is gone."""
        self._doubtful.pop(face, None)
        self.clear()

    def clear(self) -> None:
        """Any route may have changed."""
        self._forget_pushes()
        self._directions.clear()
        self.version += 1
        self.on_queryables_changed()

    def _forget_pushes(self) -> None:
        self._pushes.clear()
        self._asked_once.clear()
        self._remembered = KeyTree()
        self._push_bytes = self._wild_pushes = 0

    def change(self, key: str) -> None:
        """The subscribers of a key have changed, and with them the routes of all it intersects."""
        self.version += 1
        if self._pushes:
            for remembered, routes in self._remembered.intersecting(key):
                self._remembered.remove(remembered)
                self._push_bytes -= len(remembered)
                self._wild_pushes -= "*" in remembered
                for route in routes:
                    del self._pushes[route]

    def on_queryables_changed(self) -> None:
        """The queryables of some key have changed: they come and go less often than they are asked."""
        self._requests.clear()
        self._request_bytes = 0
        self.request_version += 1

    # -- where to

    def push(self, source: Face, key: str, tree: int = SELF) -> tuple[Face, ...]:
        """The faces a publication goes to, each once. `tree` is our number for the router where it entered the network
        of routers; to faces of routers it goes with that as NodeId, to others without one."""
        name = (source.number, tree, key)
        route = self._pushes.get(name)
        if route is None:
            if not self._admission.key(source, key):
                return ()
            route = self._push(source, key, tree)
            if hash(name) in self._asked_once:
                self._remember(name, route)
            else:
                self._ask_once(name)
        return route

    def _ask_once(self, name: tuple[int, int, str]) -> None:
        """Note that a route was looked up: on ever new keys most are needed once, and to remember one takes long."""
        if len(self._asked_once) >= MAX_ROUTES:
            self._asked_once.clear()
        self._asked_once.add(hash(name))

    def _remember(self, name: tuple[int, int, str], route: tuple[Face, ...]) -> None:
        if (
            len(self._pushes) >= MAX_ROUTES
            or self._push_bytes >= MAX_ROUTE_BYTES
            or self._wild_pushes >= MAX_WILDCARD_ROUTES
        ):
            self._forget_pushes()
        self._pushes[name] = route
        *_, key = name
        beside = self._remembered.get(key)
        if beside is None:
            self._remembered.insert(key, [name])
            self._push_bytes += len(key)
            if "*" in key:
                self._wild_pushes += 1
        else:
            beside.append(name)

    def _push(self, source: Face, key: str, tree: int) -> tuple[Face, ...]:
        found: dict[Face, None] = {}
        directions = self._towards(source, tree)
        for entry in self._tables[DeclarationKind.SUBSCRIBER].matching(key):
            for holder in entry.holders:
                face = self._way(source, holder, directions)
                if face is not None:
                    found[face] = None
        for face in self._doubtful:
            if self._reach(source, face) and self._is_unknown(face, DeclarationKind.SUBSCRIBER, key):
                found[face] = None
        return tuple(found)

    def _towards(self, source: Face, tree: int) -> dict[ZenohId, Face]:
        """The ways to the nodes of our network elsewhere, if what comes from a source goes there."""
        if self._network is None or not self._reach.may_cross_network(source):
            return {}
        found = self._directions.get(tree)
        if found is None:
            found = self._directions[tree] = self._network.directions(self._network.root(tree))
        return found

    def _way(self, source: Face, holder: DeclarationOwner, directions: dict[ZenohId, Face]) -> Face | None:
        """The face behind which somebody is, if it can be reached."""
        if not isinstance(holder, Face):
            return directions.get(holder.zid)
        return holder if self._reach(source, holder) else None

    def request(self, source: Face, key: str, target: QueryTarget, tree: int = SELF) -> tuple[Face, ...]:
        """The faces a query goes to, each once."""
        name = (source.number, tree, target, key)
        route = self._requests.get(name)
        if route is None:
            if len(self._requests) >= MAX_ROUTES or self._request_bytes >= MAX_ROUTE_BYTES:
                self._requests.clear()
                self._request_bytes = 0
            if not self._admission.key(source, key):
                return ()
            route = self._requests[name] = self._request(source, key, target, tree)
            self._request_bytes += len(key)
        return route

    def _request(self, source: Face, key: str, target: QueryTarget, tree: int) -> tuple[Face, ...]:
        offers = self._offers(source, key, tree)
        if target is QueryTarget.ALL_COMPLETE:
            complete = [offer for offer in offers if offer.is_complete]
            is_chosen = source.region in KNOWS_OUR_DECLARATIONS and not complete
            offers = complete + [offer for offer in offers if self._is_taken_by_flag(offer, is_chosen)]
        elif target is QueryTarget.BEST_MATCHING:
            offers = _nearest_complete(offers)
        reached = [face for face in self._doubtful if self._reach(source, face)]
        unknown = [face for face in reached if self._is_unknown(face, DeclarationKind.QUERYABLE, key)]
        return tuple(dict.fromkeys([*(offer.face for offer in offers), *unknown]))

    def _is_taken_by_flag(self, offer: _QueryableCandidate, is_chosen: bool) -> bool:
        """Whether AllComplete includes a queryable declared complete whose key does not include that of the query: by
        choice of this node, or for its own session where the node the query comes from can have meant no other."""
        is_meant = is_chosen and offer.region is Region.LOCAL
        return offer.is_declared_complete and (self.trusts_complete_flag or is_meant)

    def _offers(self, source: Face, key: str, tree: int) -> list[_QueryableCandidate]:
        found = []
        directions = self._towards(source, tree)
        for entry in self._tables[DeclarationKind.QUERYABLE].matching(key):
            for holder in entry.holders:
                face = self._way(source, holder, directions)
                if face is not None:
                    info = entry.info(holder)
                    far = info.distance + self._far(holder)
                    covers = is_complete_for(entry, info, key)
                    found.append(_QueryableCandidate(face, holder.region, covers, info.complete, far))
        return found

    def _far(self, holder: DeclarationOwner) -> float:
        if self._network is None or isinstance(holder, Face):
            return 0.0
        return self._network.distance(holder.zid)


def _nearest_complete(offers: list[_QueryableCandidate]) -> list[_QueryableCandidate]:
    """In each region the nearest that answers for the whole key, or all of them where none does."""
    chosen = []
    for region in dict.fromkeys(offer.region for offer in offers):
        here = [offer for offer in offers if offer.region is region]
        complete = [offer for offer in here if offer.is_complete]
        nearest = min(complete, key=lambda offer: (offer.distance, offer.face.number), default=None)
        chosen += here if nearest is None else [nearest]
    return chosen
