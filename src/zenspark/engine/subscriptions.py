"""Subscriptions: matches publications to the subscribers of one session, and delivers them.

Publications of neighbours arrive as runs of rows, those of the session itself as single samples. Both use the same
routes: the subscribers that match a key, cached until a subscriber is declared or undeclared.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from zenspark.engine.namespace import Namespace
from zenspark.engine.receive_backpressure import ReceiveBackpressure
from zenspark.handlers.handler import DeliverySink
from zenspark.key import KeyExpr
from zenspark.key.tree import KeyTree
from zenspark.router.face import Face
from zenspark.router.routing.template_cache import FaceTemplateCache
from zenspark.types.enums import Locality
from zenspark.types.sample import Sample, SampleHeader, header_from_template, samples_from_rows
from zenspark.wire.columns import PushRun

MAX_CACHED_ROUTES = 100_000
"""Keys whose routes are cached: more would let a publisher of ever new keys fill the memory."""
MAX_CACHED_KEY_CHARACTERS = 1024
"""Characters of a key up to which its route is cached: `MAX_CACHED_ROUTES` longer keys would fill the memory."""


@runtime_checkable
class ColumnSink(Protocol):
    """A sink that takes rows in columns instead of samples."""

    def push_columns(self, pushes: PushRun, keys: list[str | None], via: str) -> bool:
        """Deliver the rows whose template has a key; returns whether there is capacity for more."""


class Subscription(msgspec.Struct, eq=False, frozen=True):
    """One subscriber: its key expression, the origin it accepts, and its sink."""

    id: int
    key_expr: KeyExpr
    origin: Locality
    sink: DeliverySink[Sample]
    columns: ColumnSink | None = None
    """The sink, if it takes columns."""


Route = tuple[Subscription, ...]


class SampleTemplate(msgspec.Struct, eq=False, frozen=True):
    """The header that the samples of one row template share, and whether they have attachments."""

    header: SampleHeader
    has_attachment: bool


class Subscriptions:
    """The subscriptions of one session. Guarded by the node's lock."""

    def __init__(self, backpressure: ReceiveBackpressure, namespace: Namespace) -> None:
        self._tree: KeyTree[dict[int, Subscription]] = KeyTree()
        self._routes: dict[str, Route] = {}
        self._local_routes: dict[str, Route] = {}
        self._backpressure = backpressure
        self._namespace = namespace
        self._shared: dict[Route, Route] = {}
        """Every cached route once, so that equal routes are identical."""
        self._templates: FaceTemplateCache[SampleTemplate] = FaceTemplateCache()
        self.version = 0
        """Incremented whenever a subscriber is declared or undeclared."""

    def add(self, subscription: Subscription) -> None:
        """Deliver to a subscriber from now on."""
        key = str(subscription.key_expr)
        entry = self._tree.get(key)
        if entry is None:
            entry = {}
            self._tree.insert(key, entry)
        entry[subscription.id] = subscription
        self._change()

    def remove(self, subscription: Subscription) -> None:
        """Deliver to a subscriber no more; does nothing if it was removed."""
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
        """Return the subscribers that match a key; `is_local` if this session publishes."""
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
        excluded = Locality.REMOTE if is_local else Locality.SESSION_LOCAL
        entries = [entry for _, entry in self._tree.intersecting(key)]
        matches = [
            subscription for entry in entries for subscription in entry.values() if subscription.origin is not excluded
        ]
        return tuple(sorted(matches, key=lambda subscription: subscription.id) if len(matches) > 1 else matches)

    def deliver(self, sample: Sample, is_local: bool, cache_route: bool = True) -> list[DeliverySink[Sample]]:
        """Deliver one sample; returns the sinks that are full.

        With `cache_route` the subscriptions found for its key are kept for later samples.
        """
        key = str(sample.key_expr)
        route = self.route(key, is_local) if cache_route else self._find(key, is_local)
        sinks = [subscription.sink for subscription in route]
        return [
            sink for sink in sinks if not (is_local and self._backpressure.should_drop(sink)) and not sink.push(sample)
        ]

    def deliver_push_run(self, face: Face, pushes: PushRun, keys: list[str | None]) -> None:
        """Deliver the publications of a neighbour; `keys` has the key of each row template, None if it is not local."""
        if self._namespace.is_used:
            keys = [None if key is None else self._namespace.strip_prefix(key) for key in keys]
        routes = [() if key is None else self.route(key, False) for key in keys]
        distinct = {id(route): route for route in routes}
        needs_samples = any(subscription.columns is None for route in distinct.values() for subscription in route)
        templates = self._sample_templates(face, pushes, keys) if needs_samples else []
        if len(distinct) == 1:
            for subscription in routes[0]:
                self._deliver_rows(subscription, face, pushes, keys, templates)
            return
        for subscription in dict.fromkeys(subscription for route in distinct.values() for subscription in route):
            matches = [subscription in route for route in routes]
            matching_keys = [key if is_match else None for key, is_match in zip(keys, matches, strict=True)]
            matching_templates = [
                template if is_match else None for template, is_match in zip(templates, matches, strict=False)
            ]
            self._deliver_rows(subscription, face, pushes, matching_keys, matching_templates)

    def _sample_templates(self, face: Face, pushes: PushRun, keys: list[str | None]) -> list[SampleTemplate | None]:
        """Return the sample template of each row template that has a key, cached for each face."""
        cached = self._templates.for_face(face, face.key_mapping_version)
        templates: list[SampleTemplate | None] = []
        for index, key in enumerate(keys):
            if key is None:
                templates.append(None)
                continue
            template_key = pushes.columns.template_key(index)
            template = cached.get(template_key)
            if template is None:
                cached.count_key_bytes(key)
                push_template = pushes.template_at(index)
                header = header_from_template(push_template, KeyExpr(key))
                template = cached[template_key] = SampleTemplate(header, push_template.has_attachment)
            templates.append(template)
        return templates

    def _deliver_rows(
        self,
        subscription: Subscription,
        face: Face,
        pushes: PushRun,
        keys: list[str | None],
        templates: list[SampleTemplate | None],
    ) -> None:
        if subscription.columns is not None:
            has_room = subscription.columns.push_columns(pushes, keys, str(face.zid))
        else:
            headers = [None if template is None else template.header for template in templates]
            has_attachments = any(template is not None and template.has_attachment for template in templates)
            has_room = subscription.sink.push_many(samples_from_rows(pushes, headers, has_attachments))
        if not has_room:
            self._backpressure.on_full(subscription.sink, face)
