"""Subscriptions: matches publications to the subscribers of one session, and delivers them.

`subscriber_declarations.py` declares the subscribers to the router. If the router finds that one of them matches
(`ForwardingPlan.local_key` in `router/forwarding/plans.py`), `Dispatcher.receive_push_run` calls `deliver_push_run` by
way of `SessionRuntime`.

Publications of neighbours arrive as runs of rows, those of the session itself as single samples. Both use the same
cache of the subscriptions that match a key; it is cleared when a subscriber is declared or undeclared.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from zenspark.engine.namespace import Namespace
from zenspark.engine.receive_backpressure import ReceiveBackpressure
from zenspark.handlers.handler import DeliverySink, log_sink_failure
from zenspark.key import KeyExpr
from zenspark.key.limits import MAX_CACHED_KEY_CHARACTERS
from zenspark.key.tree import KeyTree
from zenspark.router.face import Face
from zenspark.router.forwarding.template_cache import FaceTemplateCache
from zenspark.types.enums import Locality
from zenspark.types.sample import Sample, SampleHeader, header_from_template, samples_from_rows
from zenspark.wire.columns import PushRun

MAX_CACHED_MATCHES = 100_000
"""Keys whose matching entities are cached: more would let a publisher of ever new keys fill the memory."""


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


Matches = tuple[Subscription, ...]
"""The subscriptions that match a key, by id."""


class SampleTemplate(msgspec.Struct, eq=False, frozen=True):
    """The header that the samples of one row template share, and whether they have attachments."""

    header: SampleHeader
    has_attachment: bool


class Subscriptions:
    """The subscriptions of one session. Guarded by the node's lock."""

    def __init__(self, backpressure: ReceiveBackpressure, namespace: Namespace) -> None:
        self._tree: KeyTree[dict[int, Subscription]] = KeyTree()
        self._matches: dict[str, Matches] = {}
        self._local_matches: dict[str, Matches] = {}
        self._backpressure = backpressure
        self._namespace = namespace
        self._shared: dict[Matches, Matches] = {}
        """Every cached tuple once, so that equal ones are identical."""
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
        self._matches.clear()
        self._local_matches.clear()
        self._shared.clear()

    def matching(self, key: str, is_local: bool) -> Matches:
        """Return the subscriptions that match a key; `is_local` if this session publishes."""
        cache = self._local_matches if is_local else self._matches
        matches = cache.get(key)
        if matches is None:
            if len(cache) >= MAX_CACHED_MATCHES:
                cache.clear()
            matches = self._find(key, is_local)
            matches = self._shared.setdefault(matches, matches)
            if len(key) <= MAX_CACHED_KEY_CHARACTERS:
                cache[key] = matches
        return matches

    def _find(self, key: str, is_local: bool) -> Matches:
        excluded = Locality.REMOTE if is_local else Locality.SESSION_LOCAL
        entries = [entry for _, entry in self._tree.intersecting(key)]
        matches = [
            subscription for entry in entries for subscription in entry.values() if subscription.origin is not excluded
        ]
        return tuple(sorted(matches, key=lambda subscription: subscription.id) if len(matches) > 1 else matches)

    def deliver(self, sample: Sample, is_local: bool, cache_matches: bool = True) -> list[DeliverySink[Sample]]:
        """Deliver one sample; returns the sinks that are full.

        With `cache_matches` the subscriptions found for its key are kept for later samples.
        """
        key = str(sample.key_expr)
        matches = self.matching(key, is_local) if cache_matches else self._find(key, is_local)
        full: list[DeliverySink[Sample]] = []
        for subscription in matches:
            sink = subscription.sink
            try:
                if not (is_local and self._backpressure.should_drop(sink)) and not sink.push(sample):
                    full.append(sink)
            except Exception:  # of a handler's own sink: neither the publisher nor the other subscribers
                log_sink_failure(subscription.key_expr)
        return full

    def deliver_push_run(self, face: Face, pushes: PushRun, keys: list[str | None]) -> None:
        """Deliver the publications of a neighbour; `keys` has the key of each row template, None if it is not local."""
        if self._namespace.is_used:
            keys = [None if key is None else self._namespace.strip_prefix(key) for key in keys]
        matches_by_template = [() if key is None else self.matching(key, False) for key in keys]
        distinct = {id(matches): matches for matches in matches_by_template}.values()
        needs_samples = any(subscription.columns is None for matches in distinct for subscription in matches)
        templates = self._sample_templates(face, pushes, keys) if needs_samples else []
        if len(distinct) == 1:
            for subscription in matches_by_template[0]:
                self._deliver_rows(subscription, face, pushes, keys, templates)
            return
        for subscription in dict.fromkeys(subscription for matches in distinct for subscription in matches):
            flags = [subscription in matches for matches in matches_by_template]
            matching_keys = [key if is_match else None for key, is_match in zip(keys, flags, strict=True)]
            matching_templates = [
                template if is_match else None for template, is_match in zip(templates, flags, strict=False)
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
        try:
            if subscription.columns is not None:
                has_capacity = subscription.columns.push_columns(pushes, keys, str(face.zid))
            else:
                headers = [None if template is None else template.header for template in templates]
                has_attachments = any(template is not None and template.has_attachment for template in templates)
                has_capacity = subscription.sink.push_many(samples_from_rows(pushes, headers, has_attachments))
        except Exception:  # of a handler's own sink: the session with the neighbour lives on
            log_sink_failure(subscription.key_expr)
            return
        if not has_capacity:
            self._backpressure.on_full(subscription.sink, face)
