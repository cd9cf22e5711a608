"""Declarations of the routers: each belongs to a source, and goes down the tree of that source.

A source is the router that whoever declared hangs on; we are one too. Between routers a declaration has no id, it is
known by its source, kind and key. Every router keeps what each neighbour told it (`heard`) and what it told each
neighbour (`announced`), and therefore survives that trees change while declarations are on their way:

* a neighbour that becomes our child in the tree of a source is told everything of that source;
* a neighbour that was told something hears its end from us, also if it is not our child any more;
* what counts is what our parent in the tree has told. Anything else is believed for a while only (GRACE), for our
  parent will tell of it if it is so: otherwise two neighbours could go on assuring each other of what is long gone;
* a source that cannot be reached has no declarations for us, but should it come back soon they count again: neighbours
  that have not noticed will not repeat them.
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
"""Seconds for which declarations outlive the way they came by; longer than states and trees take to follow."""

DeclarationsByKind = dict[DeclarationKind, dict[str, QueryableInfo]]
"""Declarations of one source."""


def _no_declarations() -> DeclarationsByKind:
    return {kind: {} for kind in DeclarationKind}


class SourceRouter(DeclarationOwner):
    """A router, as the holder of what is declared there."""

    def __init__(self, zid: ZenohId) -> None:
        super().__init__(0, zid, Region.ROUTER)
        self.keys = _no_declarations()
        self.unconfirmed: dict[tuple[DeclarationKind, str], float] = {}
        """What our parent in its tree has not told, and until when it is believed."""
        self.parent: Face | None = None
        self.unreachable_since: float | None = None
        """Since when it cannot be reached."""

    def items(self) -> list[tuple[DeclarationKind, str, QueryableInfo]]:
        return [(kind, key, info) for kind, keys in self.keys.items() for key, info in keys.items()]


class _NeighbourState(msgspec.Struct, eq=False):
    """What was said between us and a router beside us, by source."""

    heard: dict[ZenohId, DeclarationsByKind] = msgspec.field(default_factory=dict)
    announced: dict[ZenohId, DeclarationsByKind] = msgspec.field(default_factory=dict)
    complete: set[ZenohId] = msgspec.field(default_factory=set)
    """The sources of which it was told everything, as our child."""


class _PendingCheck(msgspec.Struct, eq=False):
    """Something to look at again when its time has come: these keys of a source, or the source itself."""

    source: SourceRouter
    keys: list[tuple[DeclarationKind, str]]


OnSourceChange = Callable[[SourceRouter, DeclarationKind, str, QueryableInfo | None], None]
"""Whom to tell that a source holds a key, or does so no longer."""


class SourcedDeclarations:
    """The declarations of all routers, ours among them."""

    def __init__(self, network: RouterNetwork, out: Outgoing, change: OnSourceChange, admission: Admission) -> None:
        self.network = network
        self._out = out
        self._change = change
        self._admission = admission
        self._own = SourceRouter(network.zid)
        self._sources: dict[ZenohId, SourceRouter] = {network.zid: self._own}
        self._ledgers: dict[Face, _NeighbourState] = {}
        self._doubts: Deadlines[_PendingCheck] = Deadlines(_is_check_pending)
        self._followed_at = float("-inf")
        """When the trees changed last."""

    # -- ours

    def declare_own(self, kind: DeclarationKind, key: str, info: QueryableInfo | None) -> None:
        """What is declared here has changed; None if nothing is declared under the key any more."""
        if info is None:
            if key in self._own.keys[kind]:
                self._drop(self._own, kind, key)
        elif self._own.keys[kind].get(key) != info:
            self._own.keys[kind][key] = info
            self._pass_on(self._own, kind, key, info)

    # -- those of others

    def declare(
        self, face: Face, zid: ZenohId, kind: DeclarationKind, key: str, info: QueryableInfo, now: float
    ) -> None:
        """A neighbour tells of a declaration of a source."""
        if zid == self.network.zid:
            return
        heard = self._ledgers[face].heard.get(zid)
        is_new = heard is None or key not in heard[kind]
        if is_new and not self._admission.declaration(face, face.usage, key, for_network=True):
            return
        source = self._sources.get(zid) or self._meet(zid, now)
        self._ledgers[face].heard.setdefault(zid, _no_declarations())[kind][key] = info
        is_backed = self._is_backed(source, kind, key)
        if is_backed:
            source.unconfirmed.pop((kind, key), None)
        else:
            self._doubt(source, [(kind, key)], now)
        if is_backed and face is not source.parent and key in source.keys[kind]:
            return
        self._set(source, kind, key, info, face)

    def _set(
        self, source: SourceRouter, kind: DeclarationKind, key: str, info: QueryableInfo, teller: Face | None = None
    ) -> None:
        if source.keys[kind].get(key) != info:
            source.keys[kind][key] = info
            if source.unreachable_since is None:
                self._change(source, kind, key, info)
        self._pass_on(source, kind, key, info, teller)

    def _is_backed(self, source: SourceRouter, kind: DeclarationKind, key: str) -> bool:
        """Whether the neighbour through which news of a source come has told of this."""
        ledger = None if source.parent is None else self._ledgers.get(source.parent)
        heard = None if ledger is None else ledger.heard.get(source.zid)
        return heard is not None and key in heard[kind]

    def _doubt(self, source: SourceRouter, pairs: list[tuple[DeclarationKind, str]], now: float) -> None:
        """Believe something for a while only."""
        source.unconfirmed.update(dict.fromkeys(pairs, now + UNCONFIRMED_TTL_SECONDS))
        self._doubts.add(_PendingCheck(source, pairs), now + UNCONFIRMED_TTL_SECONDS)

    def _meet(self, zid: ZenohId, now: float) -> SourceRouter:
        source = self._sources[zid] = SourceRouter(zid)
        source.parent = self.network.parent(zid)
        if not self.network.is_reachable(zid):
            self._lose(source, now)
        return source

    def undeclare(self, face: Face, zid: ZenohId, kind: DeclarationKind, key: str, now: float) -> None:
        """A neighbour tells of the end of a declaration."""
        source = self._sources.get(zid)
        if source is None or source is self._own:
            return
        tellers = self._telling(zid, kind, key)
        is_over = face is source.parent
        for teller in tellers if is_over and self._is_calm(now) else [face] if face in tellers else []:
            del self._ledgers[teller].heard[zid][kind][key]
            teller.usage.declarations -= 1
            teller.usage.remove_key(key)
        if key in source.keys[kind] and (is_over or not self._telling(zid, kind, key)):
            self._drop(source, kind, key)

    def _is_calm(self, now: float) -> bool:
        """Whether the trees have not changed for a while: what others than our parent have told is then a leftover,
        the end of which eclipse-zenoh does not tell; otherwise it may be newer than what our parent tells."""
        return self.network.trees_due_at is None and now - self._followed_at >= UNCONFIRMED_TTL_SECONDS

    def _telling(self, zid: ZenohId, kind: DeclarationKind, key: str) -> list[Face]:
        """The neighbours that have told of a declaration."""
        found = [(face, ledger.heard.get(zid)) for face, ledger in self._ledgers.items()]
        return [face for face, keys in found if keys is not None and key in keys[kind]]

    def _drop(self, source: SourceRouter, kind: DeclarationKind, key: str) -> None:
        del source.keys[kind][key]
        source.unconfirmed.pop((kind, key), None)
        if source is not self._own and source.unreachable_since is None:
            self._change(source, kind, key, None)
        number = self.network.psid(source.zid)
        for face, ledger in self._ledgers.items():
            told = ledger.announced.get(source.zid)
            if told is not None and told[kind].pop(key, None) is not None and number is not None:
                emit_declare(self._out, face, make_undeclare_body(kind, 0, face.to_wire_expr(key)), None, number)

    # -- neighbours

    def opened(self, face: Face) -> None:
        """A router beside us."""
        self._ledgers[face] = _NeighbourState()

    def closed(self, face: Face, now: float) -> None:
        """A router beside us is gone, and what only it has told is in doubt."""
        ledger = self._ledgers.pop(face)
        for zid in ledger.heard:
            self._look_again(self._sources[zid], now)

    def _look_again(self, source: SourceRouter, now: float) -> None:
        """Our parent in the tree of a source has changed: whatever the new one has not told is in doubt."""
        pairs = [(kind, key) for kind, key, _ in source.items()]
        doubtful = [pair for pair in pairs if pair not in source.unconfirmed and not self._is_backed(source, *pair)]
        if doubtful:
            self._doubt(source, doubtful, now)

    def _pass_on(
        self, source: SourceRouter, kind: DeclarationKind, key: str, info: QueryableInfo, but: Face | None = None
    ) -> None:
        for face in self.network.children(source.zid):
            told = self._ledgers[face].announced.get(source.zid)
            if face is not but and (told is None or told[kind].get(key) != info):
                self._tell(face, source.zid, kind, key, info)

    def _tell(self, face: Face, zid: ZenohId, kind: DeclarationKind, key: str, info: QueryableInfo) -> None:
        number = self.network.psid(zid)
        assert number is not None, "whoever has children is in the graph"
        self._ledgers[face].announced.setdefault(zid, _no_declarations())[kind][key] = info
        emit_key_binding(self._out, face, key)
        emit_declare(self._out, face, make_declare_body(kind, 0, face.to_wire_expr(key), info), None, number)

    # -- trees

    def follow(self, moved: ReachabilityChange, now: float) -> None:
        """The trees were drawn anew: sources came and went, and neighbours became our children."""
        self._followed_at = now
        for zid in sorted(moved.gone & self._sources.keys()):
            source = self._sources[zid]
            self._lose(source, now)
            for kind, key, _ in source.items():
                self._change(source, kind, key, None)
        for zid in sorted(moved.appeared & self._sources.keys()):
            source = self._sources[zid]
            source.unreachable_since = None
            for kind, key, info in source.items():
                self._change(source, kind, key, info)
        for zid, source in self._sources.items():
            parent = self.network.parent(zid)
            if parent is not source.parent:
                source.parent = parent
                self._adopt(source)
                self._look_again(source, now)
            self._feed(source, self.network.children(zid))

    def _adopt(self, source: SourceRouter) -> None:
        """What the new parent has told already is what counts."""
        heard = {} if source.parent is None else self._ledgers[source.parent].heard.get(source.zid, {})
        for kind, keys in heard.items():
            for key, info in keys.items():
                source.unconfirmed.pop((kind, key), None)
                self._set(source, kind, key, info)

    def _lose(self, source: SourceRouter, now: float) -> None:
        source.unreachable_since = now
        self._doubts.add(_PendingCheck(source, []), now + UNCONFIRMED_TTL_SECONDS)
        for ledger in self._ledgers.values():
            ledger.complete.discard(source.zid)

    def _feed(self, source: SourceRouter, children: Iterable[Face]) -> None:
        """Tell new children everything, whatever they were told before: they may have forgotten it since."""
        zid, fed = source.zid, set(children)
        for face, ledger in self._ledgers.items():
            if face not in fed:
                ledger.complete.discard(zid)
            elif zid not in ledger.complete:
                ledger.complete.add(zid)
                for kind, key, info in source.items():
                    self._tell(face, zid, kind, key, info)

    # -- time

    def next_timeout(self) -> float | None:
        """When something in doubt is settled."""
        return self._doubts.next()

    def handle_timeout(self, now: float) -> None:
        """Give up what nobody has told again."""
        for doubt in self._doubts.due(now):
            source = doubt.source
            for kind, key in doubt.keys:
                if source.unconfirmed.get((kind, key), now + 1) <= now:
                    self._drop(source, kind, key)
            if not doubt.keys and self._sources.get(source.zid) is source:
                self._forget(source)

    def _forget(self, source: SourceRouter) -> None:
        del self._sources[source.zid]
        source.unconfirmed.clear()
        for face, ledger in self._ledgers.items():
            heard = ledger.heard.pop(source.zid, {})
            for key in [key for keys in heard.values() for key in keys]:
                face.usage.declarations -= 1
                face.usage.remove_key(key)
            ledger.announced.pop(source.zid, None)


def _is_check_pending(doubt: _PendingCheck, when: float) -> bool:
    if doubt.keys:
        return bool(doubt.source.unconfirmed)
    return (
        doubt.source.unreachable_since is not None and doubt.source.unreachable_since + UNCONFIRMED_TTL_SECONDS == when
    )
