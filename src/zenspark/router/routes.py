"""Where a message goes: the one table of who may reach whom, and the faces a key leads to.

Regions decide reach; declarations decide interest. Towards neighbours that only tell us what we ask (a router above
us, a peer that has not finished telling), not knowing counts as wanting.
"""

from __future__ import annotations

from collections.abc import Callable

from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.router.face import Face, Kind, Region
from zenspark.router.tables import Entry, Table, is_complete_for
from zenspark.wire.values import QueryTarget

_ALL = frozenset(Region) - {Region.MEMBER}
_DOWN = frozenset({Region.LOCAL, Region.CLIENT})

REACH: dict[Region, frozenset[Region]] = {
    Region.LOCAL: _ALL - {Region.LOCAL},
    Region.CLIENT: _ALL,
    Region.SOUTH_PEER: _DOWN | {Region.ROUTER, Region.SOUTH_PEER, Region.GROUP},
    Region.PEER: _DOWN,
    Region.UPSTREAM: _DOWN,
    Region.ROUTER: _DOWN | {Region.SOUTH_PEER, Region.GROUP},
    Region.GROUP: frozenset(),
    Region.MEMBER: _DOWN | {Region.ROUTER, Region.SOUTH_PEER},
}
"""From the region a message comes from to the regions it may go to; never back to the face itself.

A peer carries nothing from its peers into a group, as it carries nothing from one peer to another: where all peers know
each other, every one of them would, and it would arrive many times. eclipse-zenoh's peers do.
"""

UNSOLICITED = frozenset({Region.UPSTREAM, Region.PEER, Region.ROUTER})
"""Neighbours that are told of declarations without having asked."""


MAX_ROUTES = 100_000
"""How many keys are remembered: more would let whoever publishes ever new keys fill the memory."""


def is_key_expression(key: str) -> bool:
    """Whether a text from the wire is a key expression in canonical form."""
    try:
        KeyExpr(key)
    except UsageError:
        return False
    return True


def reaches(source: Face, target: Face) -> bool:
    """Whether what comes from one face may go to another."""
    return source is not target and target.region in REACH[source.region] and source.zid not in target.members


class Routes:
    """Routes of publications and queries, cached until a declaration, a face or an answer changes."""

    def __init__(self, tables: dict[Kind, Table], is_unknown: Callable[[Face, Kind, str], bool]) -> None:
        self._tables = tables
        self._is_unknown = is_unknown
        self._faces: list[Face] = []
        self._pushes: dict[tuple[int, str], tuple[Face, ...]] = {}
        self.version = 0
        """Changes whenever a route may have changed."""

    def change(self, faces: list[Face]) -> None:
        """Forget what was computed."""
        self._faces = faces
        self._pushes.clear()
        self.version += 1

    def push(self, source: Face, key: str) -> tuple[Face, ...]:
        """The faces a publication goes to, each once."""
        route = self._pushes.get((source.number, key))
        if route is None:
            if len(self._pushes) >= MAX_ROUTES:
                self._pushes.clear()
            route = self._pushes[source.number, key] = self._push(source, key) if is_key_expression(key) else ()
        return route

    def _push(self, source: Face, key: str) -> tuple[Face, ...]:
        entries = self._tables[Kind.SUBSCRIBER].matching(key)
        found = {face: None for entry in entries for face in entry.holders if reaches(source, face)}
        return tuple(found | dict.fromkeys(self._unknown(source, Kind.SUBSCRIBER, key)))

    def request(self, source: Face, key: str, target: QueryTarget) -> tuple[Face, ...]:
        """The faces a query goes to, each once."""
        entries = self._tables[Kind.QUERYABLE].matching(key)
        offers = [(entry, face) for entry in entries for face in entry.holders if reaches(source, face)]
        unknown = dict.fromkeys(self._unknown(source, Kind.QUERYABLE, key))
        complete = [(entry, face) for entry, face in offers if is_complete_for(entry, entry.info(face), key)]
        if target is QueryTarget.ALL:
            return tuple(dict.fromkeys(face for _, face in offers) | unknown)
        if target is QueryTarget.ALL_COMPLETE:
            return tuple(dict.fromkeys(face for _, face in complete) | unknown)
        return tuple(dict.fromkeys(_best(offers, complete)) | unknown)

    def _unknown(self, source: Face, kind: Kind, key: str) -> list[Face]:
        return [face for face in self._faces if reaches(source, face) and self._is_unknown(face, kind, key)]


def _best(offers: list[tuple[Entry, Face]], complete: list[tuple[Entry, Face]]) -> list[Face]:
    """In each region the nearest face that answers for the whole key, or all of them where none does."""
    chosen = []
    for region in dict.fromkeys(face.region for _, face in offers):
        whole = [(entry.info(face).distance, face.number, face) for entry, face in complete if face.region is region]
        if whole:
            chosen.append(min(whole)[2])
        else:
            chosen += [face for _, face in offers if face.region is region]
    return chosen
