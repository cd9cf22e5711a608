"""Declarations of all faces, and what of them is announced to each other face: everything when a peer or upstream node
joins, then each change.

Upstream nodes and peers get every declaration they can reach; downstream nodes those their interests match;
neighbouring routers the declarations on this side of the network, as declarations of this router. A key is announced
once, however many faces declare it.
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
"""Regions whose faces are also sent their own tokens."""


class Declarations:
    """The declarations of one node."""

    def __init__(
        self,
        out: Outgoing,
        interests: InterestTable,
        reachability: ReachabilityPolicy,
        network: RouterNetwork | None,
        admission: Admission,
    ) -> None:
        self.tables = {kind: DeclarationTable() for kind in DeclarationKind}
        self.announcements = Announcements(out)
        self.routes = Routes(self.tables, reachability, network, self._may_have_unknown_match, admission)
        self.sources = None if network is None else SourcedDeclarations(network, out, self._change_source, admission)
        self._admission = admission
        self._interests = interests
        self._reachability = reachability
        self._faces_announced_without_interest: dict[Face, None] = {}

    # -- faces

    def add_face(self, face: Face) -> None:
        """Add a neighbour, and announce the declarations that it gets without an interest."""
        self.routes.add_face(face)
        if face.region in ANNOUNCED_WITHOUT_INTEREST:
            self._faces_announced_without_interest[face] = None
            for kind, table in self.tables.items():
                for entry in table.matching(None):
                    self.update_announcement(face, kind, entry.key)

    def remove_face(self, face: Face) -> None:
        """Remove a neighbour and its declarations."""
        self._faces_announced_without_interest.pop(face, None)
        self.announcements.remove_face(face)
        self.routes.remove_face(face)
        for kind in DeclarationKind:
            for declaration_id in list(face.declared[kind]):
                self.undeclare(face, kind, declaration_id)

    # -- changes

    def declare(self, face: Face, kind: DeclarationKind, declaration_id: int, declared: FaceDeclaration) -> None:
        """Handle a declaration of a face; with a known id it is an update. An upstream node declares a key under one id
        at a time: a second one replaces the first, which eclipse-zenoh's routers may never undeclare."""
        previous = face.declared[kind].get(declaration_id)
        if previous == declared:
            return
        if previous is not None and previous.key != declared.key:
            self.undeclare(face, kind, declaration_id)
            previous = None
        if previous is None and not self._admit(face, declared.key):
            return
        face.declared[kind][declaration_id] = declared
        entry = self.tables[kind].add(declared.key, face, declaration_id, declared.info)
        self._propagate(kind, declared.key)
        if previous is None and face.region is Region.UPSTREAM and kind is not DeclarationKind.TOKEN:
            for stale in [other for other in entry.owners[face] if other != declaration_id]:
                self.undeclare(face, kind, stale)

    def _admit(self, face: Face, key: str) -> bool:
        """Admit one more declaration of a face, if its limits allow it; the local session has none."""
        region = face.region
        if region is Region.LOCAL:
            return True
        return self._admission.admit_declaration(face, face.usage, key, region is Region.UPSTREAM)

    def undeclare(self, face: Face, kind: DeclarationKind, declaration_id: int) -> None:
        """Remove a declaration of a face."""
        declared = face.declared[kind].pop(declaration_id, None)
        if declared is not None:
            if face.region is not Region.LOCAL:
                face.usage.declarations -= 1
                face.usage.remove_key(declared.key)
            self.tables[kind].discard(declared.key, face, declaration_id)
            self._propagate(kind, declared.key)

    def _change_source(self, source: SourceRouter, kind: DeclarationKind, key: str, info: QueryableInfo | None) -> None:
        """Add or remove a declaration of a router elsewhere."""
        if info is None:
            self.tables[kind].discard(key, source, source.number)
        else:
            self.tables[kind].add(key, source, source.number, info)
        self._propagate(kind, key)

    def update_reachability(self, face: Face, other: Face) -> None:
        """Update announcements between two faces that became reachable from each other, or unreachable."""
        self.routes.clear()
        for owner, target in ((face, other), (other, face)):
            for kind in DeclarationKind:
                for key in {declared.key for declared in owner.declared[kind].values()}:
                    self._update_face(target, kind, key)

    def update_face_reachability(self, face: Face) -> None:
        """Update announcements of an upstream node or peer that is now reached by its link, or through the network
        instead."""
        self.routes.clear()
        for kind, table in self.tables.items():
            for key in {declared.key for declared in face.declared[kind].values()}:
                self._propagate(kind, key)
            for entry in table.matching(None):
                self.update_announcement(face, kind, entry.key)

    # -- announcements

    def _propagate(self, kind: DeclarationKind, key: str) -> None:
        """Announce that a key is now declared, or no longer, to every face concerned."""
        if kind is DeclarationKind.SUBSCRIBER:
            self.routes.on_subscribers_changed(key)
        elif kind is DeclarationKind.QUERYABLE:
            self.routes.on_queryables_changed()
        for face in self._faces_announced_without_interest:
            self.update_announcement(face, kind, key)
        for face in self.announcements.faces_announced(
            kind, key
        ):  # also for interests that have ended: eclipse-zenoh keeps those declarations
            self.update_announcement(face, kind, key)
        for interest in self._interests.matching_future(kind, key):
            self.update_announcement(interest.target, kind, interest.announced_key(kind, key))
        if self.sources is not None:
            self.sources.declare_local(kind, key, self._local_info(kind, key))

    def _update_face(self, face: Face, kind: DeclarationKind, key: str) -> None:
        """Update the announcement of a key to one face, if it has an interest in it."""
        if key in face.announced[kind]:
            self.update_announcement(face, kind, key)
        for interest in self._interests.matching_future(kind, key):
            if interest.face is face:
                self.update_announcement(face, kind, interest.announced_key(kind, key))

    def update_announcement(self, face: Face, kind: DeclarationKind, key: str) -> None:
        """Bring the announcement of a key to a face up to date."""
        self.announcements.update(face, kind, key, self.visible_info(face, kind, key))

    def _local_info(self, kind: DeclarationKind, key: str) -> QueryableInfo | None:
        """Merged info of a key's declarations on this side of the network of routers; None if there is none."""
        entry = self.tables[kind].get(key)
        owners = [] if entry is None else [owner for owner in entry.owners if self._reachability.enters_network(owner)]
        return merge_queryable_infos(entry.info(owner) for owner in owners) if entry is not None and owners else None

    def visible_info(self, face: Face, kind: DeclarationKind, key: str) -> QueryableInfo | None:
        """Merged info of a key's declarations by other owners the face can reach; None if there is none."""
        entry = self.tables[kind].get(key)
        infos = [] if entry is None else self._visible_infos(face, kind, entry)
        if self._interests.is_aggregated(face, kind, key):
            infos += self._aggregated_infos(face, kind, key)
        return merge_queryable_infos(infos) if infos else None

    def _visible_infos(self, face: Face, kind: DeclarationKind, entry: DeclaredKey) -> list[QueryableInfo]:
        includes_own = kind is DeclarationKind.TOKEN and face.region in _REGIONS_RECEIVING_OWN_TOKENS
        infos = []
        for owner in entry.owners:
            if self._reaches(face, owner) or (includes_own and owner is face):
                infos.append(entry.info(owner))
                if kind is not DeclarationKind.QUERYABLE:  # subscribers and tokens carry no info
                    break
        return infos

    def _reaches(self, face: Face, owner: DeclarationOwner) -> bool:
        """Whether declarations of an owner are announced to a face. A group is a face to send to only, and a member one
        to receive from: what counts is whether messages of the owner reach the face."""
        if owner.region is Region.MEMBER or face.region is Region.GROUP:
            return self._reachability(owner, face)
        return self._reachability(face, owner)

    def _aggregated_infos(self, face: Face, kind: DeclarationKind, key: str) -> list[QueryableInfo]:
        """Infos of all declarations that match a key of an aggregated interest: complete if one of them includes the
        key."""
        infos = []
        for entry in self.tables[kind].matching(key):
            for info in self._visible_infos(face, kind, entry):
                infos.append(QueryableInfo(is_complete_for(entry, info, key), info.distance))
        return infos

    def _may_have_unknown_match(self, face: Face, kind: DeclarationKind, key: str) -> bool:
        """Whether a face may have a matching subscriber or queryable that it has not declared to this node."""
        if face.region is Region.UPSTREAM:
            return not self._interests.is_resolved(face, kind, key)
        return face.initial_declarations_pending or (face.region is Region.GROUP and kind is DeclarationKind.SUBSCRIBER)
