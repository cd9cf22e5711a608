"""What each neighbour was told, so that it is told once, hears of changes, and hears the end of what it was told.

This is for neighbours that know declarations by ids; routers know those of each other by their key (`sources.py`).
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


def make_declare_body(kind: DeclarationKind, number: int, expr: WireExpr, info: QueryableInfo) -> AnyDeclaration:
    """The declaration of one kind."""
    match kind:
        case DeclarationKind.SUBSCRIBER:
            return DeclareSubscriber(id=number, wire_expr=expr)
        case DeclarationKind.QUERYABLE:
            return DeclareQueryable(id=number, wire_expr=expr, info=info)
        case DeclarationKind.TOKEN:
            return DeclareToken(id=number, wire_expr=expr)
        case _:
            assert_never(kind)


def make_undeclare_body(kind: DeclarationKind, number: int, expr: WireExpr | None = None) -> AnyDeclaration:
    """Its end. Queryables and tokens carry an expression, if only the null one, as eclipse-zenoh writes them."""
    match kind:
        case DeclarationKind.SUBSCRIBER:
            return UndeclareSubscriber(id=number, ext_wire_expr=expr)
        case DeclarationKind.QUERYABLE:
            return UndeclareQueryable(id=number, ext_wire_expr=expr or NULL_EXPR)
        case DeclarationKind.TOKEN:
            return UndeclareToken(id=number, ext_wire_expr=expr or NULL_EXPR)
        case _:
            assert_never(kind)


def emit_declare(
    out: Outgoing, face: Face, body: AnyDeclaration, interest_id: int | None = None, node_id: int = 0
) -> None:
    """Say a declaration."""
    out.append((face, Declare(interest_id=interest_id, qos=QoS.DECLARE, node_id=node_id, body=body)))


def emit_key_binding(out: Outgoing, face: Face, key: str) -> None:
    """Give the beginning of a key a number that the other side knows; the session of this node needs none."""
    binding = face.bind_prefix(key) if face.region is not Region.LOCAL else None
    if binding is not None:
        emit_declare(out, face, binding)


class Announcements:
    """Declarations made to neighbours, by key."""

    def __init__(self, out: Outgoing) -> None:
        self._out = out
        self._knowing: dict[DeclarationKind, dict[str, dict[Face, None]]] = {kind: {} for kind in DeclarationKind}

    def announced_faces(self, kind: DeclarationKind, key: str) -> list[Face]:
        """The faces that were told of a key."""
        return list(self._knowing[kind].get(key, ()))

    def tell(self, face: Face, kind: DeclarationKind, key: str, info: QueryableInfo | None) -> None:
        """Bring what a face was told about a key up to date; None if there is nothing any more."""
        told = face.announced[kind].get(key)
        if info is None:
            if told is not None:
                self._forget(face, kind, key)
                emit_declare(self._out, face, make_undeclare_body(kind, told.id))
        elif told is None or told.info != info:
            self.announce(face, kind, key, info)

    def announce(
        self, face: Face, kind: DeclarationKind, key: str, info: QueryableInfo, interest_id: int | None = None
    ) -> None:
        """Tell a face of a key, whatever it was told before."""
        told = face.announced[kind].get(key)
        if told is None:
            told = face.announced[kind][key] = AnnouncedDeclaration(face.next_id(), info)
            self._knowing[kind].setdefault(key, {})[face] = None
        told.info = info
        emit_key_binding(self._out, face, key)
        emit_declare(self._out, face, make_declare_body(kind, told.id, face.to_wire_expr(key), info), interest_id)

    def announce_once(self, face: Face, kind: DeclarationKind, key: str, info: QueryableInfo, interest_id: int) -> None:
        """Tell a face of a key once, as the answer to a question about this moment only."""
        emit_key_binding(self._out, face, key)
        emit_declare(self._out, face, make_declare_body(kind, 0, face.to_wire_expr(key), info), interest_id)

    def leave(self, face: Face) -> None:
        """A face is gone."""
        for kind in DeclarationKind:
            for key in list(face.announced[kind]):
                self._forget(face, kind, key)

    def _forget(self, face: Face, kind: DeclarationKind, key: str) -> None:
        del face.announced[kind][key]
        knowing = self._knowing[kind][key]
        del knowing[face]
        if not knowing:
            del self._knowing[kind][key]
