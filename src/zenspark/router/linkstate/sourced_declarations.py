"""Declarations of routers: each belongs to a source router, and is sent down the tree of that source.

A source is the router to which the declaring node is connected; this router is one, too. Between routers a declaration
has no id, it is identified by source, kind and key. Every router stores the declarations received from each neighbour
(`received`) and sent to each neighbour (`sent`), so that it stays consistent while trees change and declarations are in
flight:

* a neighbour that becomes a child in the tree of a source is sent all declarations of that source;
* a neighbour that was sent a declaration is also sent its end, even if it is not a child any more;
* declarations of the parent in the tree count. Others are accepted for UNCONFIRMED_TTL_SECONDS only, for the parent
  will send them if they are valid: otherwise two neighbours could keep confirming to each other what was undeclared;
* an unreachable source has no declarations, but if it soon becomes reachable again they count again: neighbours that
  have not noticed will not repeat them.

On the wire a source is named by its psid: the number of a node in the link states of the neighbour that sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from zenspark.router.deadlines import Deadlines
from zenspark.router.declarations.announcements import (
    emit_declare,
    emit_key_binding,
    make_declare_body,
    make_undeclare_body,
)
from zenspark.router.face import DeclarationKind, DeclarationOwner, Face, Outgoing, Region
from zenspark.router.limits import Admission
from zenspark.router.linkstate.network import ReachabilityChange, RouterNetwork
from zenspark.wire.values import QueryableInfo, ZenohId

UNCONFIRMED_TTL_SECONDS = 3.0
"""Seconds for which declarations outlive the path they came by; longer than link states and trees take to update."""

DeclarationsByKind = dict[DeclarationKind, dict[str, QueryableInfo]]
"""Declarations of one source, by kind and key."""


def _no_declarations() -> DeclarationsByKind:
    return {kind: {} for kind in DeclarationKind}


class SourceRouter(DeclarationOwner):
    """A router as the owner of declarations."""

    def __init__(self, zid: ZenohId) -> None:
        super().__init__(0, zid, Region.ROUTER)
        self.keys = _no_declarations()
        self.unconfirmed: dict[tuple[DeclarationKind, str], float] = {}
        """Declarations not received from the parent in the tree, and until when they are accepted."""
        self.parent: Face | None = None
        self.unreachable_since: float | None = None
        """Time since which it is unreachable; None if reachable."""

    def items(self) -> list[tuple[DeclarationKind, str, QueryableInfo]]:
        """All declarations of the source, with kind and key."""
        return [(kind, key, info) for kind, keys in self.keys.items() for key, info in keys.items()]


class _NeighbourState(msgspec.Struct, eq=False):
    """Declarations received from and sent to a neighbouring router, by source."""

    received: dict[ZenohId, DeclarationsByKind] = msgspec.field(default_factory=dict)
    sent: dict[ZenohId, DeclarationsByKind] = msgspec.field(default_factory=dict)
    fully_sent: set[ZenohId] = msgspec.field(default_factory=set)
    """Sources whose declarations were all sent to this neighbour, because it is a child in their trees."""


class _PendingCheck(msgspec.Struct, eq=False):
    """Check due at a time: these declarations of a source, or the source itself if empty."""

    source: SourceRouter
    keys: list[tuple[DeclarationKind, str]]


OnSourceChange = Callable[[SourceRouter, DeclarationKind, str, QueryableInfo | None], None]
"""Callback: a source declares a key, or no longer."""


class SourcedDeclarations:
    """Declarations of all routers, including this one."""

    def __init__(
        self, network: RouterNetwork, out: Outgoing, on_source_change: OnSourceChange, admission: Admission
    ) -> None:
        self.network = network
        self._out = out
        self._on_source_change = on_source_change
        self._admission = admission
        self._local = SourceRouter(network.zid)
        self._sources: dict[ZenohId, SourceRouter] = {network.zid: self._local}
        self._neighbours: dict[Face, _NeighbourState] = {}
        self._pending_checks: Deadlines[_PendingCheck] = Deadlines(_is_check_pending)
        self._trees_changed_at = float("-inf")
        """Time of the last tree change."""

    # -- declarations of this router

    def declare_local(self, kind: DeclarationKind, key: str, info: QueryableInfo | None) -> None:
        """Update a declaration of this router; None if the key is not declared any more."""
        if info is None:
            if key in self._local.keys[kind]:
                self._drop(self._local, kind, key)
        elif self._local.keys[kind].get(key) != info:
            self._local.keys[kind][key] = info
            self._propagate(self._local, kind, key, info)

    # -- declarations of other routers

    def declare(
        self, face: Face, zid: ZenohId, kind: DeclarationKind, key: str, info: QueryableInfo, now: float
    ) -> None:
        """Handle a declaration of a source, received from a neighbour."""
        if zid == self.network.zid:
            return
        received = self._neighbours[face].received.get(zid)
        is_new = received is None or key not in received[kind]
        if is_new and not self._admission.admit_declaration(face, face.usage, key, for_network=True):
            return
        source = self._sources.get(zid) or self._add_source(zid, now)
        self._neighbours[face].received.setdefault(zid, _no_declarations())[kind][key] = info
        is_confirmed = self._is_confirmed(source, kind, key)
        if is_confirmed:
            source.unconfirmed.pop((kind, key), None)
        else:
            self._require_confirmation(source, [(kind, key)], now)
        if is_confirmed and face is not source.parent and key in source.keys[kind]:
            return
        self._set(source, kind, key, info, face)

    def _set(
        self, source: SourceRouter, kind: DeclarationKind, key: str, info: QueryableInfo, sender: Face | None = None
    ) -> None:
        if source.keys[kind].get(key) != info:
            source.keys[kind][key] = info
            if source.unreachable_since is None:
                self._on_source_change(source, kind, key, info)
        self._propagate(source, kind, key, info, sender)

    def _is_confirmed(self, source: SourceRouter, kind: DeclarationKind, key: str) -> bool:
        """Whether the parent in the tree of a source has sent this declaration."""
        neighbour = None if source.parent is None else self._neighbours.get(source.parent)
        received = None if neighbour is None else neighbour.received.get(source.zid)
        return received is not None and key in received[kind]

    def _require_confirmation(self, source: SourceRouter, pairs: list[tuple[DeclarationKind, str]], now: float) -> None:
        """Accept declarations for a limited time only."""
        source.unconfirmed.update(dict.fromkeys(pairs, now + UNCONFIRMED_TTL_SECONDS))
        self._pending_checks.add(_PendingCheck(source, pairs), now + UNCONFIRMED_TTL_SECONDS)

    def _add_source(self, zid: ZenohId, now: float) -> SourceRouter:
        source = self._sources[zid] = SourceRouter(zid)
        source.parent = self.network.parent(zid)
        if not self.network.is_reachable(zid):
            self._mark_unreachable(source, now)
        return source

    def undeclare(self, face: Face, zid: ZenohId, kind: DeclarationKind, key: str, now: float) -> None:
        """Handle the end of a declaration of a source, received from a neighbour."""
        source = self._sources.get(zid)
        if source is None or source is self._local:
            return
        senders = self._neighbours_declaring(zid, kind, key)
        is_from_parent = face is source.parent
        for sender in senders if is_from_parent and self._has_stable_trees(now) else [face] if face in senders else []:
            del self._neighbours[sender].received[zid][kind][key]
            sender.usage.declarations -= 1
            sender.usage.remove_key(key)
        if key in source.keys[kind] and (is_from_parent or not self._neighbours_declaring(zid, kind, key)):
            self._drop(source, kind, key)

    def _has_stable_trees(self, now: float) -> bool:
        """Whether the trees have not changed for a while: declarations of other neighbours than the parent are then
        leftovers, which eclipse-zenoh does not undeclare; otherwise they may be newer than those of the parent."""
        return self.network.trees_due_at is None and now - self._trees_changed_at >= UNCONFIRMED_TTL_SECONDS

    def _neighbours_declaring(self, zid: ZenohId, kind: DeclarationKind, key: str) -> list[Face]:
        """Neighbours that have sent a declaration."""
        received = [(face, neighbour.received.get(zid)) for face, neighbour in self._neighbours.items()]
        return [face for face, keys in received if keys is not None and key in keys[kind]]

    def _drop(self, source: SourceRouter, kind: DeclarationKind, key: str) -> None:
        del source.keys[kind][key]
        source.unconfirmed.pop((kind, key), None)
        if source is not self._local and source.unreachable_since is None:
            self._on_source_change(source, kind, key, None)
        psid = self.network.psid(source.zid)
        for face, neighbour in self._neighbours.items():
            sent = neighbour.sent.get(source.zid)
            if sent is not None and sent[kind].pop(key, None) is not None and psid is not None:
                emit_declare(self._out, face, make_undeclare_body(kind, 0, face.to_wire_expr(key)), None, psid)

    # -- neighbours

    def add_neighbour(self, face: Face) -> None:
        """Add a neighbouring router."""
        self._neighbours[face] = _NeighbourState()

    def remove_neighbour(self, face: Face, now: float) -> None:
        """Remove a neighbouring router; declarations only it has sent need confirmation."""
        neighbour = self._neighbours.pop(face)
        for zid in neighbour.received:
            self._recheck(self._sources[zid], now)

    def _recheck(self, source: SourceRouter, now: float) -> None:
        """Require confirmation of declarations the new parent in the tree of a source has not sent."""
        pairs = [(kind, key) for kind, key, _ in source.items()]
        unconfirmed = [
            pair for pair in pairs if pair not in source.unconfirmed and not self._is_confirmed(source, *pair)
        ]
        if unconfirmed:
            self._require_confirmation(source, unconfirmed, now)

    def _propagate(
        self, source: SourceRouter, kind: DeclarationKind, key: str, info: QueryableInfo, excluded: Face | None = None
    ) -> None:
        for face in self.network.children(source.zid):
            sent = self._neighbours[face].sent.get(source.zid)
            if face is not excluded and (sent is None or sent[kind].get(key) != info):
                self._send(face, source.zid, kind, key, info)

    def _send(self, face: Face, zid: ZenohId, kind: DeclarationKind, key: str, info: QueryableInfo) -> None:
        psid = self.network.psid(zid)
        assert psid is not None, "a source with children is in the graph"
        self._neighbours[face].sent.setdefault(zid, _no_declarations())[kind][key] = info
        emit_key_binding(self._out, face, key)
        emit_declare(self._out, face, make_declare_body(kind, 0, face.to_wire_expr(key), info), None, psid)

    # -- trees

    def apply_tree_change(self, change: ReachabilityChange, now: float) -> None:
        """Follow a tree change: sources became reachable or unreachable, and neighbours became children."""
        self._trees_changed_at = now
        for zid in sorted(change.gone & self._sources.keys()):
            source = self._sources[zid]
            self._mark_unreachable(source, now)
            for kind, key, _ in source.items():
                self._on_source_change(source, kind, key, None)
        for zid in sorted(change.appeared & self._sources.keys()):
            source = self._sources[zid]
            source.unreachable_since = None
            for kind, key, info in source.items():
                self._on_source_change(source, kind, key, info)
        for zid, source in self._sources.items():
            parent = self.network.parent(zid)
            if parent is not source.parent:
                source.parent = parent
                self._apply_parent_declarations(source)
                self._recheck(source, now)
            self._send_all_to_children(source, self.network.children(zid))

    def _apply_parent_declarations(self, source: SourceRouter) -> None:
        """Apply the declarations the new parent has already sent."""
        received = {} if source.parent is None else self._neighbours[source.parent].received.get(source.zid, {})
        for kind, keys in received.items():
            for key, info in keys.items():
                source.unconfirmed.pop((kind, key), None)
                self._set(source, kind, key, info)

    def _mark_unreachable(self, source: SourceRouter, now: float) -> None:
        source.unreachable_since = now
        self._pending_checks.add(_PendingCheck(source, []), now + UNCONFIRMED_TTL_SECONDS)
        for neighbour in self._neighbours.values():
            neighbour.fully_sent.discard(source.zid)

    def _send_all_to_children(self, source: SourceRouter, children: Iterable[Face]) -> None:
        """Send everything to new children, whatever they were sent before: they may have dropped it since."""
        zid, receivers = source.zid, set(children)
        for face, neighbour in self._neighbours.items():
            if face not in receivers:
                neighbour.fully_sent.discard(zid)
            elif zid not in neighbour.fully_sent:
                neighbour.fully_sent.add(zid)
                for kind, key, info in source.items():
                    self._send(face, zid, kind, key, info)

    # -- timers

    def next_timeout(self) -> float | None:
        """Time of the first pending check."""
        return self._pending_checks.next()

    def handle_timeout(self, now: float) -> None:
        """Remove declarations that were not confirmed in time."""
        for check in self._pending_checks.pop_due(now):
            source = check.source
            for kind, key in check.keys:
                if source.unconfirmed.get((kind, key), now + 1) <= now:
                    self._drop(source, kind, key)
            if not check.keys and self._sources.get(source.zid) is source:
                self._remove(source)

    def _remove(self, source: SourceRouter) -> None:
        del self._sources[source.zid]
        source.unconfirmed.clear()
        for face, neighbour in self._neighbours.items():
            received = neighbour.received.pop(source.zid, {})
            for key in [key for keys in received.values() for key in keys]:
                face.usage.declarations -= 1
                face.usage.remove_key(key)
            neighbour.sent.pop(source.zid, None)


def _is_check_pending(check: _PendingCheck, when: float) -> bool:
    if check.keys:
        return bool(check.source.unconfirmed)
    return (
        check.source.unreachable_since is not None and check.source.unreachable_since + UNCONFIRMED_TTL_SECONDS == when
    )
