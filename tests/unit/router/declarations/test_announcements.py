"""Announcements to neighbours: each once, changes, and undeclarations."""

from __future__ import annotations

import pytest

from zenspark.router.declarations.announcements import NULL_EXPR, Announcements, make_declare_body, make_undeclare_body
from zenspark.router.face import DeclarationKind, Face, Outgoing, Region
from zenspark.wire.messages import (
    Declare,
    DeclareQueryable,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import QueryableInfo, WhatAmI, WireExpr, ZenohId

NONE, COMPLETE = QueryableInfo.NONE, QueryableInfo(True)


def bodies(out: Outgoing) -> list[str]:
    found = [message.body.NAME for _, message in out if isinstance(message, Declare)]
    out.clear()
    return found


@pytest.mark.parametrize("kind", DeclarationKind)
def test_every_kind_has_a_declare_and_an_undeclare_body(kind: DeclarationKind) -> None:
    begun = make_declare_body(kind, 7, WireExpr(0, "a"), NONE)
    ended = make_undeclare_body(kind, 7)
    assert f"D_{kind.name}" == begun.NAME
    assert f"U_{kind.name}" == ended.NAME


def test_undeclare_body_has_a_key_expression_only_if_one_is_given() -> None:
    expr = WireExpr(1, "/**")
    assert make_undeclare_body(DeclarationKind.SUBSCRIBER, 7) == UndeclareSubscriber(id=7)
    assert make_undeclare_body(DeclarationKind.QUERYABLE, 7) == UndeclareQueryable(id=7, ext_wire_expr=NULL_EXPR)
    assert make_undeclare_body(DeclarationKind.TOKEN, 0, expr) == UndeclareToken(id=0, ext_wire_expr=expr)


def test_key_is_announced_once_updated_and_withdrawn() -> None:
    out: Outgoing = []
    announcements, face = Announcements(out), Face(1, ZenohId(1), WhatAmI.CLIENT, Region.CLIENT)
    announcements.update(face, DeclarationKind.QUERYABLE, "a/*", None)
    assert bodies(out) == []
    announcements.update(face, DeclarationKind.QUERYABLE, "a/*", NONE)
    announcements.update(face, DeclarationKind.QUERYABLE, "a/*", NONE)
    assert bodies(out) == ["D_KEYEXPR", "D_QUERYABLE"]
    assert announcements.faces_announced(DeclarationKind.QUERYABLE, "a/*") == [face]
    announcements.update(face, DeclarationKind.QUERYABLE, "a/*", COMPLETE)
    ((_, changed),) = out
    assert isinstance(changed, Declare)
    assert isinstance(changed.body, DeclareQueryable)
    assert (changed.body.id, changed.body.info) == (1, COMPLETE)
    out.clear()
    announcements.update(face, DeclarationKind.QUERYABLE, "a/*", None)
    assert bodies(out) == ["U_QUERYABLE"]
    assert announcements.faces_announced(DeclarationKind.QUERYABLE, "a/*") == []


def test_announce_untracked_is_not_remembered() -> None:
    out: Outgoing = []
    announcements, face = Announcements(out), Face(1, ZenohId(1), WhatAmI.CLIENT, Region.LOCAL)
    announcements.announce_untracked(face, DeclarationKind.TOKEN, "a", NONE, 5)
    assert bodies(out) == ["D_TOKEN"]
    assert announcements.faces_announced(DeclarationKind.TOKEN, "a") == []


def test_removed_face_has_no_announcements() -> None:
    announcements = Announcements([])
    one, other = (Face(number, ZenohId(number), WhatAmI.CLIENT, Region.CLIENT) for number in (1, 2))
    for face in (one, other):
        announcements.announce(face, DeclarationKind.TOKEN, "a", NONE)
    announcements.remove_face(one)
    assert announcements.faces_announced(DeclarationKind.TOKEN, "a") == [other]
