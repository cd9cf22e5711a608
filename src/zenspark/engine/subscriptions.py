"""The subscribers of one session: who receives which publication.

Publications reach this place from the network as columns, one call for many, and from the session itself one by one.
Both look up the same routes: the subscribers of a key, remembered until a subscriber comes or goes.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from zenspark.engine.backpressure import ReceiveBackpressure
from zenspark.engine.namespace import Namespace
from zenspark.handlers.handler import DeliverySink
from zenspark.key import KeyExpr
from zenspark.key.tree import KeyTree
from zenspark.router.face import Face
from zenspark.router.routing.template_cache import FaceTemplateCache
from zenspark.transport.receiver import PushRun
from zenspark.types.enums import Locality
from zenspark.types.sample import Sample, SampleHeader, header_from_template, samples_from_rows

MAX_CACHED_ROUTES = 100_000
"""How many keys are remembered: more would let whoever publishes ever new keys fill the memory."""
MAX_CACHED_KEY_CHARACTERS = 1024
"""Characters of a key up to which it is remembered, for the same reason."""


@runtime_checkable
class ColumnSink(Protocol):
    """An sink that wants no samples but the columns they would be made from."""

    def push_columns(self, pushes: PushRun, keys: list[str | None], via: str) -> bool:
        """Deliver the rows whose shape has a key; whether there is room for more."""


class Subscription(msgspec.Struct, eq=False, frozen=True):
    """One subscriber: what it wants, from where, and where it is delivered."""

    id: int
    key_expr: KeyExpr
    origin: Locality
    sink: DeliverySink[Sample]
    columns: ColumnSink | None = None
    """The sink, if it wants columns."""


Route = tuple[Subscription, ...]


class SampleTemplate(msgspec.Struct, eq=False, frozen=True):
    """What samples of one shape have in common."""

    head: SampleHeader
    attached: bool


class Subscriptions:
    """All subscribers of a session. Guarded by the node's lock."""

    def __init__(self, room: ReceiveBackpressure, namespace: Namespace) -> None:
        self._tree: KeyTree[dict[int, Subscription]] = KeyTree()
        self._routes: dict[str, Route] = {}
        self._local_routes: dict[str, Route] = {}
        self._backpressure = room
        self._namespace = namespace
        self._shared: dict[Route, Route] = {}
        """The routes there are, each once, so that equal ones are the same."""
        self._commons: FaceTemplateCache[SampleTemplate] = FaceTemplateCache()
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
        self._shared.clear()

    def route(self, key: str, is_local: bool) -> Route:
        """The subscribers of a key, for what this session or what somebody else published."""
        routes = self._local_routes if is_local else self._routes
        route = routes.get(key)
        if route is None:
            if len(routes) >= MAX_CACHED_ROUTES:
                routes.clear()
            route = self._find(key, is_local)
            route = self._shared.setdefault(route, route)
            if len(key) <= MAX_CACHED_KEY_CHARACTERS:
                routes[key] = route
        return route

    def _find(self, key: str, is_local: bool) -> Route:
        unwanted = Locality.REMOTE if is_local else Locality.SESSION_LOCAL
        entries = [entry for _, entry in self._tree.intersecting(key)]
        found = [one for entry in entries for one in entry.values() if one.origin is not unwanted]
        return tuple(sorted(found, key=lambda one: one.id) if len(found) > 1 else found)

    def deliver(self, sample: Sample, is_local: bool, is_recurring: bool = True) -> list[DeliverySink[Sample]]:
        """Hand over one sample; the receivers that are full. The route of a key that is not recurring is not kept."""
        key = str(sample.key_expr)
        route = self.route(key, is_local) if is_recurring else self._find(key, is_local)
        sinks = [subscription.sink for subscription in route]
        return [
            sink for sink in sinks if not (is_local and self._backpressure.should_drop(sink)) and not sink.push(sample)
        ]

    def deliver_pushes(self, face: Face, pushes: PushRun, keys: list[str | None]) -> None:
        """Hand over what a neighbour published; `keys` are those of the shapes that are for this session."""
        if self._namespace.is_used:
            keys = [None if key is None else self._namespace.inward(key) for key in keys]
        routes = [() if key is None else self.route(key, False) for key in keys]
        different = {id(route): route for route in routes}
        are_samples = any(one.columns is None for route in different.values() for one in route)
        commons = self._commons_of(face, pushes, keys) if are_samples else []
        if len(different) == 1:
            for one in routes[0]:
                self._hand_over(one, face, pushes, keys, commons)
            return
        for one in dict.fromkeys(one for route in different.values() for one in route):
            is_wanted = [one in route for route in routes]
            own = [key if is_own else None for key, is_own in zip(keys, is_wanted, strict=True)]
            some = [each if is_own else None for each, is_own in zip(commons, is_wanted, strict=False)]
            self._hand_over(one, face, pushes, own, some)

    def _commons_of(self, face: Face, pushes: PushRun, keys: list[str | None]) -> list[SampleTemplate | None]:
        """What the samples of each shape that has a key have in common."""
        known = self._commons.of(face, face.vocabulary)
        found: list[SampleTemplate | None] = []
        for index, key in enumerate(keys):
            if key is None:
                found.append(None)
                continue
            signature = pushes.columns.signature(index)
            common = known.get(signature)
            if common is None:
                known.grow(key)
                shape = pushes.shape_at(index)
                common = known[signature] = SampleTemplate(
                    header_from_template(shape, KeyExpr(key)), shape.has_attachment
                )
            found.append(common)
        return found

    def _hand_over(
        self,
        one: Subscription,
        face: Face,
        pushes: PushRun,
        keys: list[str | None],
        commons: list[SampleTemplate | None],
    ) -> None:
        if one.columns is not None:
            has_room = one.columns.push_columns(pushes, keys, str(face.zid))
        else:
            heads = [None if common is None else common.head for common in commons]
            attached = any(common is not None and common.attached for common in commons)
            has_room = one.sink.push_many(samples_from_rows(pushes, heads, attached))
        if not has_room:
            self._backpressure.on_full(one.sink, face)
