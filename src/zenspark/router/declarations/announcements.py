"""Declarations announced to each face; avoids duplicates and sends updates and the matching undeclarations.

Which face gets which declaration is decided in `declarations.py` (changes, and peers that join) and in
`interests/current_declarations.py` (late joiners with an interest). For neighbours that identify declarations by id;
routers identify them by source and key (`linkstate/sourced_declarations.py`).
"""

from __future__ import annotations

from typing import assert_never

from zenspark.router.face import AnnouncedDeclaration, DeclarationKind, Face, Outgoing, Region
from zenspark.wire.messages import (
    AnyDeclaration,
    Declare,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import Mapping, QoS, QueryableInfo, WireExpr

NULL_EXPR = WireExpr(0, "", Mapping.RECEIVER)


def make_declare_body(
    kind: DeclarationKind, declaration_id: int, expr: WireExpr, info: QueryableInfo
) -> AnyDeclaration:
    """Body of DECLARE for a declaration."""
    match kind:
        case DeclarationKind.SUBSCRIBER:
            return DeclareSubscriber(id=declaration_id, wire_expr=expr)
        case DeclarationKind.QUERYABLE:
            return DeclareQueryable(id=declaration_id, wire_expr=expr, info=info)
        case DeclarationKind.TOKEN:
            return DeclareToken(id=declaration_id, wire_expr=expr)
        case _:
            assert_never(kind)


def make_undeclare_body(kind: DeclarationKind, declaration_id: int, expr: WireExpr | None = None) -> AnyDeclaration:
    """Body of DECLARE that ends a declaration. Queryables and tokens carry an expression, if only the null one, as
    eclipse-zenoh encodes them."""
    match kind:
        case DeclarationKind.SUBSCRIBER:
            return UndeclareSubscriber(id=declaration_id, ext_wire_expr=expr)
        case DeclarationKind.QUERYABLE:
            return UndeclareQueryable(id=declaration_id, ext_wire_expr=expr or NULL_EXPR)
        case DeclarationKind.TOKEN:
            return UndeclareToken(id=declaration_id, ext_wire_expr=expr or NULL_EXPR)
        case _:
            assert_never(kind)


def emit_declare(
    out: Outgoing, face: Face, body: AnyDeclaration, interest_id: int | None = None, node_id: int = 0
) -> None:
    """Append a DECLARE to the outgoing messages."""
    out.append((face, Declare(interest_id=interest_id, qos=QoS.DECLARE, node_id=node_id, body=body)))


def emit_key_binding(out: Outgoing, face: Face, key: str) -> None:
    """Append a D_KEYEXPR for the prefix of a key, if it has no id yet; the local session needs none."""
    binding = face.bind_prefix(key) if face.region is not Region.LOCAL else None
    if binding is not None:
        emit_declare(out, face, binding)


class Announcements:
    """Declarations announced to neighbours, by key."""

    def __init__(self, out: Outgoing) -> None:
        self._out = out
        self._faces_by_key: dict[DeclarationKind, dict[str, dict[Face, None]]] = {kind: {} for kind in DeclarationKind}

    def faces_announced(self, kind: DeclarationKind, key: str) -> list[Face]:
        """Faces to which a key was announced."""
        return list(self._faces_by_key[kind].get(key, ()))

    def update(self, face: Face, kind: DeclarationKind, key: str, info: QueryableInfo | None) -> None:
        """Bring the announcement of a key to a face up to date; info None withdraws it."""
        announced = face.announced[kind].get(key)
        if info is None:
            if announced is not None:
                self._remove(face, kind, key)
                emit_declare(self._out, face, make_undeclare_body(kind, announced.id))
        elif announced is None or announced.info != info:
            self.announce(face, kind, key, info)

    def announce(
        self, face: Face, kind: DeclarationKind, key: str, info: QueryableInfo, interest_id: int | None = None
    ) -> None:
        """Announce a key to a face, whatever was announced before."""
        announced = face.announced[kind].get(key)
        if announced is None:
            announced = face.announced[kind][key] = AnnouncedDeclaration(face.next_id(), info)
            self._faces_by_key[kind].setdefault(key, {})[face] = None
        announced.info = info
        emit_key_binding(self._out, face, key)
        emit_declare(self._out, face, make_declare_body(kind, announced.id, face.to_wire_expr(key), info), interest_id)

    def announce_untracked(
        self, face: Face, kind: DeclarationKind, key: str, info: QueryableInfo, interest_id: int
    ) -> None:
        """Announce a key to a face in reply to an interest in current declarations only; nothing is remembered."""
        emit_key_binding(self._out, face, key)
        emit_declare(self._out, face, make_declare_body(kind, 0, face.to_wire_expr(key), info), interest_id)

    def remove_face(self, face: Face) -> None:
        """Forget a face that was removed."""
        for kind in DeclarationKind:
            for key in list(face.announced[kind]):
                self._remove(face, kind, key)

    def _remove(self, face: Face, kind: DeclarationKind, key: str) -> None:
        del face.announced[kind][key]
        faces = self._faces_by_key[kind][key]
        del faces[face]
        if not faces:
            del self._faces_by_key[kind][key]
