"""Routes: decides the next hops (faces) of publications and queries, by reachability of regions and by declarations.

Regions decide reachability; declarations decide interest. Neighbours that do not declare everything (an upstream node,
a peer that has not finished its initial declarations) also get messages that match none of their declarations. A
declaration of a router elsewhere leads to the neighbour on the path to it, in the tree of the router where the message
entered the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from zenspark.key.tree import KeyTree
from zenspark.router.face import DeclarationKind, DeclarationOwner, Face, Region
from zenspark.router.limits import Admission
from zenspark.router.linkstate.network import RouterNetwork
from zenspark.router.linkstate.states import SELF
from zenspark.router.routing.tables import DeclarationTable, is_complete_for
from zenspark.wire.values import QueryTarget, ZenohId

_ALL = frozenset(Region) - {Region.MEMBER}
_LOCAL_AND_CLIENTS = frozenset({Region.LOCAL, Region.CLIENT})

REACHABLE_REGIONS: dict[Region, frozenset[Region]] = {
    Region.LOCAL: _ALL - {Region.LOCAL},
    Region.CLIENT: _ALL,
    Region.DOWNSTREAM_PEER: _LOCAL_AND_CLIENTS | {Region.ROUTER, Region.DOWNSTREAM_PEER, Region.GROUP},
    Region.PEER: _LOCAL_AND_CLIENTS,
    Region.UPSTREAM: _LOCAL_AND_CLIENTS,
    Region.ROUTER: _LOCAL_AND_CLIENTS | {Region.DOWNSTREAM_PEER, Region.GROUP},
    Region.GROUP: frozenset(),
    Region.MEMBER: _LOCAL_AND_CLIENTS | {Region.ROUTER, Region.DOWNSTREAM_PEER},
}
"""Regions a message may go to, by the region of its source. It never goes back to the source itself; between two peers
of a router it goes only if both have advertised their links and have none to each other, between two nodes of one
network only along a tree.

A peer forwards nothing from its peers into a group, as it forwards nothing from one peer to another: in a full mesh
every peer would do so, and the group would receive many copies. eclipse-zenoh's peers forward into groups.
"""

RELAY_PEER_REACHABLE_REGIONS = REACHABLE_REGIONS | {
    Region.ROUTER: _LOCAL_AND_CLIENTS,
    Region.MEMBER: _LOCAL_AND_CLIENTS,
}
"""Reachable regions for a peer that relays: other nodes of its network may have received a group message in the group,
too."""

ANNOUNCED_WITHOUT_INTEREST = frozenset({Region.UPSTREAM, Region.PEER})
"""Regions that get all declarations without an interest; routers get them, by source, from `SourcedDeclarations`."""

REGIONS_WITH_UNKNOWN_RECEIVERS = frozenset({Region.UPSTREAM, Region.PEER, Region.GROUP})
"""Regions with nodes that may receive messages although none of their declarations matches."""

REGIONS_THAT_KNOW_LOCAL_DECLARATIONS = frozenset({Region.UPSTREAM, Region.PEER})
"""Regions whose nodes know this node's declarations, and so have selected the targets of their queries. Routers are not
among them: a query forwarded by another router may be meant for nodes behind this one."""

MAX_ROUTES = 100_000
"""Routes cached: a neighbour that publishes on ever new keys must not fill the memory."""
MAX_ROUTE_BYTES = 32 << 20
"""Bytes in the keys of cached routes: long keys must not fill the memory either."""
MAX_WILDCARD_ROUTES = 1000
"""Cached publication keys with wildcards: each new subscriber is matched with all of them."""


class ReachabilityPolicy:
    """Reachability between faces. A broker (a router that forwards between peers) also forwards messages between those
    of its peers that have no link to each other.

    Upstream nodes and peers of a relay that are reached through its network (`reached_via_network`) are not reached by
    their links: nothing arrives twice.
    """

    def __init__(self, is_broker: bool = True, is_router: bool = True) -> None:
        self._is_broker = is_broker
        self._table = REACHABLE_REGIONS if is_router else RELAY_PEER_REACHABLE_REGIONS
        self.reached_via_network: frozenset[ZenohId] = frozenset()
        self._peer_links: dict[ZenohId, frozenset[ZenohId]] = {}

    def set_peer_links(self, peer: ZenohId, others: Iterable[ZenohId]) -> frozenset[ZenohId]:
        """Set the links a peer advertised. Return the peers for which a broker starts or stops forwarding messages to
        and from it."""
        before = self._brokered_peers(peer)
        self._peer_links[peer] = frozenset(others)
        return before ^ self._brokered_peers(peer)

    def _brokered_peers(self, peer: ZenohId) -> frozenset[ZenohId]:
        return frozenset(zid for zid in self._peer_links if zid != peer and self._needs_broker(peer, zid))

    def remove_peer(self, peer: ZenohId) -> None:
        """Remove a peer."""
        self._peer_links.pop(peer, None)

    def __call__(self, source: DeclarationOwner, target: DeclarationOwner) -> bool:
        """Whether messages from a source may go to a target."""
        if source is target or target.region not in self._table[source.region] or source.zid in target.members:
            return False
        if self.reached_via_network and (self._is_reached_via_network(source) or self._is_reached_via_network(target)):
            return False
        if source.region is not Region.DOWNSTREAM_PEER or target.region is not Region.DOWNSTREAM_PEER:
            return True
        return self._is_broker and self._needs_broker(source.zid, target.zid)

    def _is_reached_via_network(self, owner: DeclarationOwner) -> bool:
        return owner.region in ANNOUNCED_WITHOUT_INTEREST and owner.zid in self.reached_via_network

    def enters_network(self, owner: DeclarationOwner) -> bool:
        """Whether messages of a neighbour outside the network enter it through this node."""
        return Region.ROUTER in self._table[owner.region]

    def may_cross_network(self, owner: DeclarationOwner) -> bool:
        """Whether messages of a neighbour go to other nodes of the network, along a tree."""
        return owner.region is Region.ROUTER or self.enters_network(owner)

    def _needs_broker(self, peer: ZenohId, other: ZenohId) -> bool:
        """Whether two peers have advertised their links and have none to each other. A link counts only if both
        advertise it, for a peer that has not noticed it yet does not use it. Peers that advertise none (without gossip)
        may have one: messages forwarded between them could arrive twice."""
        links, other_links = self._peer_links.get(peer), self._peer_links.get(other)
        return links is not None and other_links is not None and not (other in links and peer in other_links)


class _QueryableCandidate(msgspec.Struct, frozen=True):
    """A face that leads to a matching queryable."""

    face: Face
    region: Region
    is_complete: bool
    """Whether the queryable is complete for the key of the query."""
    is_declared_complete: bool
    distance: float


class Routes:
    """Routes of publications and queries, cached until a relevant declaration or link changes."""

    def __init__(
        self,
        tables: dict[DeclarationKind, DeclarationTable],
        reachability: ReachabilityPolicy,
        network: RouterNetwork | None,
        may_have_unknown_match: Callable[[Face, DeclarationKind, str], bool],
        admission: Admission,
    ) -> None:
        self._tables = tables
        self._reachability = reachability
        self._network = network
        self._may_have_unknown_match = may_have_unknown_match
        self._admission = admission
        self._faces_with_unknown_receivers: dict[Face, None] = {}
        self._pushes: dict[tuple[int, int, str], tuple[Face, ...]] = {}
        self._routes_by_key: KeyTree[list[tuple[int, int, str]]] = KeyTree()
        """Keys of `_pushes`, by key expression."""
        self._looked_up_once: set[int] = set()
        """Hashes of routes that were looked up once: a route is cached at its second lookup."""
        self._push_bytes = 0
        self._wildcard_pushes = 0
        self._requests: dict[tuple[int, int, QueryTarget, str], tuple[Face, ...]] = {}
        self._request_bytes = 0
        self._next_hops_by_root: dict[int, dict[ZenohId, Face]] = {}
        self.trusts_complete_flag = False
        """Whether a query for AllComplete goes to every queryable declared complete, also where the key of the query is
        wider than that of the queryable."""
        self.version = 0
        """Incremented whenever a route of a publication may have changed."""
        self.request_version = 0
        """Incremented whenever a route of a query may have changed."""

    # -- changes

    def add_face(self, face: Face) -> None:
        """Add a neighbour."""
        if face.region in REGIONS_WITH_UNKNOWN_RECEIVERS:
            self._faces_with_unknown_receivers[face] = None
            self.clear()

    def remove_face(self, face: Face) -> None:
        """Remove a neighbour."""
        self._faces_with_unknown_receivers.pop(face, None)
        self.clear()

    def clear(self) -> None:
        """Invalidate all routes."""
        self._clear_pushes()
        self._next_hops_by_root.clear()
        self.version += 1
        self.on_queryables_changed()

    def _clear_pushes(self) -> None:
        self._pushes.clear()
        self._looked_up_once.clear()
        self._routes_by_key = KeyTree()
        self._push_bytes = self._wildcard_pushes = 0

    def on_subscribers_changed(self, key: str) -> None:
        """Invalidate the routes of publications that intersect a key."""
        self.version += 1
        if self._pushes:
            for key_expr, routes in self._routes_by_key.intersecting(key):
                self._routes_by_key.remove(key_expr)
                self._push_bytes -= len(key_expr)
                self._wildcard_pushes -= "*" in key_expr
                for route in routes:
                    del self._pushes[route]

    def on_queryables_changed(self) -> None:
        """Invalidate the routes of queries: queryables change less often than they are queried."""
        self._requests.clear()
        self._request_bytes = 0
        self.request_version += 1

    # -- lookup

    def push_next_hops(self, source: Face, key: str, root_psid: int = SELF) -> tuple[Face, ...]:
        """Look up the faces that a publication is sent to next, each once.

        `root_psid` is that of the router where it entered the network; to faces of routers it is sent with that as
        NodeId, to others without one.
        """
        route = self._pushes.get((source.number, root_psid, key))
        return self._find_and_cache_push(source, key, root_psid) if route is None else route

    def _find_and_cache_push(self, source: Face, key: str, root_psid: int) -> tuple[Face, ...]:
        """Find the next hops of a publication that are not cached, and cache them with the second lookup."""
        if not self._admission.admit_key(source, key):
            return ()
        route = self._find_push_next_hops(source, key, root_psid)
        cache_key = (source.number, root_psid, key)
        if hash(cache_key) in self._looked_up_once:
            self._cache_push(cache_key, route)
        else:
            self._record_lookup(cache_key)
        return route

    def _record_lookup(self, cache_key: tuple[int, int, str]) -> None:
        """Record that a route was looked up: on ever new keys most are needed once, and caching one is slow."""
        if len(self._looked_up_once) >= MAX_ROUTES:
            self._looked_up_once.clear()
        self._looked_up_once.add(hash(cache_key))

    def _cache_push(self, cache_key: tuple[int, int, str], route: tuple[Face, ...]) -> None:
        if (
            len(self._pushes) >= MAX_ROUTES
            or self._push_bytes >= MAX_ROUTE_BYTES
            or self._wildcard_pushes >= MAX_WILDCARD_ROUTES
        ):
            self._clear_pushes()
        self._pushes[cache_key] = route
        *_, key = cache_key
        routes = self._routes_by_key.get(key)
        if routes is None:
            self._routes_by_key.insert(key, [cache_key])
            self._push_bytes += len(key)
            if "*" in key:
                self._wildcard_pushes += 1
        else:
            routes.append(cache_key)

    def _find_push_next_hops(self, source: Face, key: str, root_psid: int) -> tuple[Face, ...]:
        targets: dict[Face, None] = {}
        hop_by_node = self._next_hops_from(source, root_psid)
        for entry in self._tables[DeclarationKind.SUBSCRIBER].matching(key):
            for owner in entry.owners:
                face = self._next_hop(source, owner, hop_by_node)
                if face is not None:
                    targets[face] = None
        for face in self._faces_with_unknown_receivers:
            if self._reachability(source, face) and self._may_have_unknown_match(face, DeclarationKind.SUBSCRIBER, key):
                targets[face] = None
        return tuple(targets)

    def _next_hops_from(self, source: Face, root_psid: int) -> dict[ZenohId, Face]:
        """Next hops to the nodes of this network, if messages from a source go there."""
        if self._network is None or not self._reachability.may_cross_network(source):
            return {}
        hop_by_node = self._next_hops_by_root.get(root_psid)
        if hop_by_node is None:
            hop_by_node = self._next_hops_by_root[root_psid] = self._network.next_hops(self._network.root(root_psid))
        return hop_by_node

    def _next_hop(self, source: Face, owner: DeclarationOwner, hop_by_node: dict[ZenohId, Face]) -> Face | None:
        """Face that leads to an owner, if it can be reached."""
        if not isinstance(owner, Face):
            return hop_by_node.get(owner.zid)
        return owner if self._reachability(source, owner) else None

    def request_next_hops(self, source: Face, key: str, target: QueryTarget, root_psid: int = SELF) -> tuple[Face, ...]:
        """Look up the faces that a query is sent to next, each once."""
        cache_key = (source.number, root_psid, target, key)
        route = self._requests.get(cache_key)
        if route is None:
            if len(self._requests) >= MAX_ROUTES or self._request_bytes >= MAX_ROUTE_BYTES:
                self._requests.clear()
                self._request_bytes = 0
            if not self._admission.admit_key(source, key):
                return ()
            route = self._requests[cache_key] = self._find_request_next_hops(source, key, target, root_psid)
            self._request_bytes += len(key)
        return route

    def _find_request_next_hops(self, source: Face, key: str, target: QueryTarget, root_psid: int) -> tuple[Face, ...]:
        candidates = self._candidates(source, key, root_psid)
        if target is QueryTarget.ALL_COMPLETE:
            complete = [candidate for candidate in candidates if candidate.is_complete]
            is_resolved_by_sender = source.region in REGIONS_THAT_KNOW_LOCAL_DECLARATIONS and not complete
            candidates = complete + [
                candidate for candidate in candidates if self._is_selected_by_flag(candidate, is_resolved_by_sender)
            ]
        elif target is QueryTarget.BEST_MATCHING:
            candidates = _nearest_complete(candidates)
        reached = [face for face in self._faces_with_unknown_receivers if self._reachability(source, face)]
        unknown = [face for face in reached if self._may_have_unknown_match(face, DeclarationKind.QUERYABLE, key)]
        return tuple(dict.fromkeys([*(candidate.face for candidate in candidates), *unknown]))

    def _is_selected_by_flag(self, candidate: _QueryableCandidate, is_resolved_by_sender: bool) -> bool:
        """Whether AllComplete selects a queryable declared complete whose key does not include that of the query: by
        configuration, or for the local session where the querying node can have meant no other."""
        is_local_target = is_resolved_by_sender and candidate.region is Region.LOCAL
        return candidate.is_declared_complete and (self.trusts_complete_flag or is_local_target)

    def _candidates(self, source: Face, key: str, root_psid: int) -> list[_QueryableCandidate]:
        candidates = []
        hop_by_node = self._next_hops_from(source, root_psid)
        for entry in self._tables[DeclarationKind.QUERYABLE].matching(key):
            for owner in entry.owners:
                face = self._next_hop(source, owner, hop_by_node)
                if face is not None:
                    info = entry.info(owner)
                    distance = info.distance + self._distance_to(owner)
                    is_complete = is_complete_for(entry, info, key)
                    candidates.append(_QueryableCandidate(face, owner.region, is_complete, info.complete, distance))
        return candidates

    def _distance_to(self, owner: DeclarationOwner) -> float:
        if self._network is None or isinstance(owner, Face):
            return 0.0
        return self._network.distance(owner.zid)


def _nearest_complete(candidates: list[_QueryableCandidate]) -> list[_QueryableCandidate]:
    """Nearest complete candidate of each region, or all candidates of a region where none is complete."""
    chosen = []
    for region in dict.fromkeys(candidate.region for candidate in candidates):
        in_region = [candidate for candidate in candidates if candidate.region is region]
        complete = [candidate for candidate in in_region if candidate.is_complete]
        nearest = min(complete, key=lambda candidate: (candidate.distance, candidate.face.number), default=None)
        chosen += in_region if nearest is None else [nearest]
    return chosen
