"""Who declared what, and who must hear of it when that changes.

Neighbours above and beside us hear of everything they can reach; those below hear of what they asked for; routers
beside us hear of what is declared on our side of the network, as ours. A key is told once, however many hold it.
"""

from __future__ import annotations

from zenspark.router.declarations.announcements import Announcements
from zenspark.router.face import DeclarationKind, DeclarationOwner, Face, FaceDeclaration, Outgoing, Region
from zenspark.router.interests.table import InterestTable
from zenspark.router.limits import Admission
from zenspark.router.linkstate.network import RouterNetwork
from zenspark.router.linkstate.sourced_declarations import SourcedDeclarations, SourceRouter
from zenspark.router.routing.routes import ANNOUNCED_WITHOUT_INTEREST, ReachabilityPolicy, Routes
from zenspark.router.routing.tables import DeclarationTable, DeclaredKey, is_complete_for, merge_queryable_infos
from zenspark.wire.values import QueryableInfo

_REGIONS_RECEIVING_OWN_TOKENS = frozenset({Region.LOCAL, Region.CLIENT})
"""Those that hear of their own tokens, too."""


class Declarations:
    """The declarations of one node."""

    def __init__(
        self,
        out: Outgoing,
        interests: InterestTable,
        reach: ReachabilityPolicy,
        network: RouterNetwork | None,
        admission: Admission,
    ) -> None:
        self.tables = {kind: DeclarationTable() for kind in DeclarationKind}
        self.announcements = Announcements(out)
        self.routes = Routes(self.tables, reach, network, self._is_unknown, admission)
        self.sources = None if network is None else SourcedDeclarations(network, out, self._change_source, admission)
        self._admission = admission
        self._interests = interests
        self._reach = reach
        self._unsolicited: dict[Face, None] = {}

    # -- faces

    def add(self, face: Face) -> None:
        """A new neighbour: it hears at once what it need not ask for."""
        self.routes.add(face)
        if face.region in ANNOUNCED_WITHOUT_INTEREST:
            self._unsolicited[face] = None
            for kind, table in self.tables.items():
                for entry in table.matching(None):
                    self.tell(face, kind, entry.key)

    def remove(self, face: Face) -> None:
        """A neighbour is gone, with everything it declared."""
        self._unsolicited.pop(face, None)
        self.announcements.leave(face)
        self.routes.remove(face)
        for kind in DeclarationKind:
            for number in list(face.declared[kind]):
                self.undeclare(face, kind, number)

    # -- what changes

    def declare(self, face: Face, kind: DeclarationKind, number: int, declared: FaceDeclaration) -> None:
        """A face declares something; again under the same id, that is a change. A node above us declares a key under
        one id at a time: a second one replaces the first, the end of which eclipse-zenoh's routers may never tell."""
        known = face.declared[kind].get(number)
        if known == declared:
            return
        if known is not None and known.key != declared.key:
            self.undeclare(face, kind, number)
            known = None
        if known is None and not self._is_admitted(face, declared.key):
            return
        face.declared[kind][number] = declared
        entry = self.tables[kind].add(declared.key, face, number, declared.info)
        self._spread(kind, declared.key)
        if known is None and face.region is Region.UPSTREAM and kind is not DeclarationKind.TOKEN:
            for stale in [other for other in entry.holders[face] if other != number]:
                self.undeclare(face, kind, stale)

    def _is_admitted(self, face: Face, key: str) -> bool:
        """Whether the limits allow a face one declaration more; the session of this node has none."""
        region = face.region
        if region is Region.LOCAL:
            return True
        return self._admission.declaration(face, face.usage, key, region is Region.UPSTREAM)

    def undeclare(self, face: Face, kind: DeclarationKind, number: int) -> None:
        """A face takes something back."""
        declared = face.declared[kind].pop(number, None)
        if declared is not None:
            if face.region is not Region.LOCAL:
                face.usage.declarations -= 1
                face.usage.remove_key(declared.key)
            self.tables[kind].discard(declared.key, face, number)
            self._spread(kind, declared.key)

    def _change_source(self, source: SourceRouter, kind: DeclarationKind, key: str, info: QueryableInfo | None) -> None:
        """A router elsewhere holds a key, or does so no longer."""
        if info is None:
            self.tables[kind].discard(key, source, source.number)
        else:
            self.tables[kind].add(key, source, source.number, info)
        self._spread(kind, key)

    def update_reachability(self, one: Face, other: Face) -> None:
        """Two faces can reach each other now, or cannot any more."""
        self.routes.clear()
        for holder, face in ((one, other), (other, one)):
            for kind in DeclarationKind:
                for key in {declared.key for declared in holder.declared[kind].values()}:
                    self._inform(face, kind, key)

    def update_face_reachability(self, face: Face) -> None:
        """A neighbour above or beside us can be reached by its link now, or is reached through the network instead."""
        self.routes.clear()
        for kind, table in self.tables.items():
            for key in {declared.key for declared in face.declared[kind].values()}:
                self._spread(kind, key)
            for entry in table.matching(None):
                self.tell(face, kind, entry.key)

    # -- who hears of it

    def _spread(self, kind: DeclarationKind, key: str) -> None:
        """Tell everybody who should know that a key is now, or is no longer, declared."""
        if kind is DeclarationKind.SUBSCRIBER:
            self.routes.change(key)
        elif kind is DeclarationKind.QUERYABLE:
            self.routes.on_queryables_changed()
        for face in self._unsolicited:
            self.tell(face, kind, key)
        for face in self.announcements.announced_faces(
            kind, key
        ):  # some by interests that have ended: eclipse-zenoh remembers those
            self.tell(face, kind, key)
        for asked in self._interests.matching_future(kind, key):
            self.tell(asked.face, kind, asked.announced_key(kind, key))
        if self.sources is not None:
            self.sources.declare_own(kind, key, self._own(kind, key))

    def _inform(self, face: Face, kind: DeclarationKind, key: str) -> None:
        """Bring one face up to date about a key, if it wants to know."""
        if key in face.announced[kind]:
            self.tell(face, kind, key)
        for asked in self._interests.matching_future(kind, key):
            if asked.face is face:
                self.tell(face, kind, asked.announced_key(kind, key))

    def tell(self, face: Face, kind: DeclarationKind, key: str) -> None:
        """Bring what a face was told about a key up to date."""
        self.announcements.tell(face, kind, key, self.visible_info(face, kind, key))

    def _own(self, kind: DeclarationKind, key: str) -> QueryableInfo | None:
        """What is declared under a key on our side of the network of routers."""
        entry = self.tables[kind].get(key)
        holders = [] if entry is None else [each for each in entry.holders if self._reach.enters_network(each)]
        return (
            merge_queryable_infos(entry.info(holder) for holder in holders) if entry is not None and holders else None
        )

    def visible_info(self, face: Face, kind: DeclarationKind, key: str) -> QueryableInfo | None:
        """What a face may know of a key: the declarations of others it can reach, as one; None if there is none."""
        entry = self.tables[kind].get(key)
        infos = [] if entry is None else self._offers(face, kind, entry)
        if self._interests.is_aggregated(face, kind, key):
            infos += self._aggregated(face, kind, key)
        return merge_queryable_infos(infos) if infos else None

    def _offers(self, face: Face, kind: DeclarationKind, entry: DeclaredKey) -> list[QueryableInfo]:
        own_too = kind is DeclarationKind.TOKEN and face.region in _REGIONS_RECEIVING_OWN_TOKENS
        found = []
        for holder in entry.holders:
            if self._reaches(face, holder) or (own_too and holder is face):
                found.append(entry.info(holder))
                if kind is not DeclarationKind.QUERYABLE:  # of the others all are alike
                    break
        return found

    def _reaches(self, face: Face, holder: DeclarationOwner) -> bool:
        """Whether a face may know of what another holds; of a group's members those that they reach."""
        if holder.region is Region.MEMBER:
            return self._reach(holder, face)
        return self._reach(face, holder)

    def _aggregated(self, face: Face, kind: DeclarationKind, key: str) -> list[QueryableInfo]:
        """What stands for all declarations that match a key: complete if one of them covers it all."""
        found = []
        for entry in self.tables[kind].matching(key):
            for info in self._offers(face, kind, entry):
                found.append(QueryableInfo(is_complete_for(entry, info, key), info.distance))
        return found

    def _is_unknown(self, face: Face, kind: DeclarationKind, key: str) -> bool:
        """Whether a face may want a message about which it has told us nothing."""
        if face.region is Region.UPSTREAM:
            return not self._interests.is_resolved(face, kind, key)
        return face.initial_declarations_pending or (face.region is Region.GROUP and kind is DeclarationKind.SUBSCRIBER)
