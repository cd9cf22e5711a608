"""The subscribers of one session: who receives which publication.

Publications reach this place from the network as columns, one call for many, and from the session itself one by one.
Both look up the same routes: the subscribers of a key, remembered until a subscriber comes or goes.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from zenspark.api.enums import Locality
from zenspark.api.handlers import Inlet
from zenspark.api.namespace import Namespace
from zenspark.api.room import Room
from zenspark.api.sample import Head, Sample, head_of, samples_of
from zenspark.key import KeyExpr
from zenspark.key.tree import KeyTree
from zenspark.router.face import Face
from zenspark.router.memory import Memory
from zenspark.transport.hearing import Pushes
from zenspark.wire.columns import Shape

MAX_ROUTES = 100_000
"""How many keys are remembered: more would let whoever publishes ever new keys fill the memory."""
LONGEST_REMEMBERED = 1024
"""Characters of a key up to which it is remembered, for the same reason."""


@runtime_checkable
class TakesColumns(Protocol):
    """An inlet that wants no samples but the columns they would be made from."""

    def push_columns(self, pushes: Pushes, keys: list[str | None], via: str) -> bool:
        """Deliver the rows whose shape has a key; whether there is room for more."""


class Subscription(msgspec.Struct, eq=False, frozen=True):
    """One subscriber: what it wants, from where, and where it is delivered."""

    id: int
    key_expr: KeyExpr
    origin: Locality
    inlet: Inlet[Sample]
    columns: TakesColumns | None = None
    """The inlet, if it wants columns."""


Route = tuple[Subscription, ...]


class Wanted(msgspec.Struct, eq=False, frozen=True):
    """Who wants the publications of one shape, and what they have in common."""

    head: Head | None
    route: Route
    attached: bool

    def by(self, one: Subscription) -> Wanted:
        """The same as seen by one subscriber."""
        return self if one in self.route else NOBODY


NOBODY = Wanted(None, (), False)


class Subscriptions:
    """All subscribers of a session. Guarded by the node's lock."""

    def __init__(self, room: Room, namespace: Namespace) -> None:
        self._tree: KeyTree[dict[int, Subscription]] = KeyTree()
        self._routes: dict[str, Route] = {}
        self._local_routes: dict[str, Route] = {}
        self._room = room
        self._namespace = namespace
        self._wanted: Memory[Wanted] = Memory()
        self.version = 0
        """Changes whenever a subscriber comes or goes."""

    def add(self, subscription: Subscription) -> None:
        """A subscriber is declared."""
        key = str(subscription.key_expr)
        entry = self._tree.get(key)
        if entry is None:
            entry = {}
            self._tree.insert(key, entry)
        entry[subscription.id] = subscription
        self._change()

    def remove(self, subscription: Subscription) -> None:
        """A subscriber is gone."""
        key = str(subscription.key_expr)
        entry = self._tree.get(key)
        if entry is not None and entry.pop(subscription.id, None) is not None:
            self._change()
            if not entry:
                self._tree.remove(key)

    def _change(self) -> None:
        self.version += 1
        self._routes.clear()
        self._local_routes.clear()

    def route(self, key: str, is_local: bool) -> Route:
        """The subscribers of a key, for what this session or what somebody else published."""
        routes = self._local_routes if is_local else self._routes
        route = routes.get(key)
        if route is None:
            if len(routes) >= MAX_ROUTES:
                routes.clear()
            unwanted = Locality.REMOTE if is_local else Locality.SESSION_LOCAL
            entries = [entry for _, entry in self._tree.intersecting(key)]
            found = [one for entry in entries for one in entry.values() if one.origin is not unwanted]
            route = tuple(sorted(found, key=lambda one: one.id))
            if len(key) <= LONGEST_REMEMBERED:
                routes[key] = route
        return route

    def deliver(self, sample: Sample, is_local: bool) -> list[Inlet[Sample]]:
        """Hand over one sample; those who have no room for more."""
        inlets = [subscription.inlet for subscription in self.route(str(sample.key_expr), is_local)]
        return [inlet for inlet in inlets if not (is_local and self._room.refuses(inlet)) and not inlet.push(sample)]

    def deliver_pushes(self, face: Face, pushes: Pushes) -> None:
        """Hand over what a neighbour published."""
        columns = pushes.columns
        known = self._wanted.of(face, (self.version, face.vocabulary))
        found: list[Wanted] = []
        for index in range(columns.shape_count):
            signature = columns.signature(index)
            wanted = known.get(signature)
            if wanted is None:
                wanted = known[signature] = self._find(face, pushes.shape_at(index))
            found.append(wanted)
        if len(found) == 1:
            for one in found[0].route:
                self._hand_over(one, face, pushes, found)
            return
        for one in dict.fromkeys(one for wanted in found for one in wanted.route):
            self._hand_over(one, face, pushes, [each.by(one) for each in found])

    def _find(self, face: Face, shape: Shape) -> Wanted:
        wire_key = face.resolve(shape.wire_expr)
        self._wanted.grow(face, wire_key)
        key = None if wire_key is None else self._namespace.inward(wire_key)
        route = () if key is None else self.route(key, False)
        head = head_of(shape, KeyExpr(key)) if route and key is not None else None
        return Wanted(head, route, shape.has_attachment)

    def _hand_over(self, one: Subscription, face: Face, pushes: Pushes, wanted: list[Wanted]) -> None:
        heads = [each.head for each in wanted]
        if one.columns is not None:
            keys = [None if head is None else str(head.key_expr) for head in heads]
            has_room = one.columns.push_columns(pushes, keys, str(face.zid))
        else:
            attached = any(each.attached for each in wanted)
            has_room = one.inlet.push_many(samples_of(pushes, heads, attached))
        if not has_room:
            self._room.missing(one.inlet, face)
