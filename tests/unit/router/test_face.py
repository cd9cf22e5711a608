"""What a face keeps: key mappings in both directions, and ids."""

from __future__ import annotations

import pytest

from zenspark.router.face import MAX_KEY_ID, Face, Region
from zenspark.wire.messages import DeclareKeyexpr
from zenspark.wire.values import BoundExpr, Mapping, WhatAmI, WireExpr, ZenohId


@pytest.fixture
def face() -> Face:
    return Face(1, ZenohId(0xA), WhatAmI.CLIENT, Region.CLIENT)


def declare_key(number: int, key: str, scope: int = 0) -> DeclareKeyexpr:
    return DeclareKeyexpr(expr_id=number, wire_expr=BoundExpr(scope, key))


def test_numbers_of_both_sides_resolve_by_mapping(face: Face) -> None:
    face.add_key_mapping(declare_key(1, "theirs"))
    bound = face.bind("ours")
    assert bound is not None
    assert bound.expr_id == 2  # 1 is taken by the other side
    assert face.resolve(WireExpr(1, "/x", Mapping.SENDER)) == "theirs/x"
    assert face.resolve(WireExpr(2, "X", Mapping.RECEIVER)) == "oursX"
    assert face.resolve(WireExpr(2, "", Mapping.SENDER)) is None
    assert face.resolve(WireExpr(0, "a/b", Mapping.RECEIVER)) == "a/b"


def test_outgoing_expressions_resolve_by_mapping(face: Face) -> None:
    face.add_key_mapping(declare_key(1, "theirs"))
    face.bind("ours")
    for key in ("theirs/x", "ours", "neither"):
        assert face.resolve_outgoing(face.to_wire_expr(key)) == key
    assert face.resolve_outgoing(WireExpr(3, "", Mapping.SENDER)) is None


def test_wire_expr_uses_the_longest_mapped_prefix(face: Face) -> None:
    assert face.to_wire_expr("a/b/c") == WireExpr(0, "a/b/c")
    face.bind("a")
    assert face.to_wire_expr("a/b/c") == WireExpr(1, "/b/c", Mapping.SENDER)
    face.add_key_mapping(declare_key(7, "a/b"))
    assert face.to_wire_expr("a/b/c") == WireExpr(7, "/c", Mapping.RECEIVER)
    assert face.to_wire_expr("a/b") == WireExpr(7, "", Mapping.RECEIVER)
    assert face.to_wire_expr("ab") == WireExpr(0, "ab")


def test_key_id_keeps_its_first_mapping(face: Face) -> None:
    face.add_key_mapping(declare_key(1, "first"))
    face.add_key_mapping(declare_key(1, "second"))
    face.add_key_mapping(declare_key(2, "/nested", scope=1))
    assert face.resolve(WireExpr(1)) == "first"
    assert face.resolve(WireExpr(2)) is None


def test_freed_key_id_is_unknown(face: Face) -> None:
    face.add_key_mapping(declare_key(1, "a"))
    face.remove_key_mapping(1)
    face.remove_key_mapping(9)
    assert face.resolve(WireExpr(1)) is None
    assert face.to_wire_expr("a") == WireExpr(0, "a")
    face.add_key_mapping(declare_key(3, "b"))
    face.add_key_mapping(declare_key(4, "b"))
    face.remove_key_mapping(3)
    assert face.to_wire_expr("b") == WireExpr(4, "", Mapping.RECEIVER)


def test_prefixes_are_bound_up_to_the_first_wildcard(face: Face) -> None:
    assert face.bind_prefix("x/*/y") == declare_key(1, "x")
    assert face.bind_prefix("x/**") is None
    assert face.bind_prefix("**/x") is None


def test_key_ids_run_out(face: Face) -> None:
    face._next_key_id = MAX_KEY_ID
    assert face.bind("last") == declare_key(MAX_KEY_ID, "last")
    assert face.bind("one too many") is None
    assert face.to_wire_expr("one too many") == WireExpr(0, "one too many")


def test_ids_of_requests_stay_within_the_resolution_and_skip_those_in_flight() -> None:
    """QU-15."""
    face = Face(1, ZenohId(0xA), WhatAmI.CLIENT, Region.CLIENT, request_bits=8)
    replied: dict[int, object] = {}
    face.in_flight += [{3: None, 255: None}, replied]
    assert [face.next_request_id() for _ in range(256)] == [1, 2, *range(4, 255), 0, 1, 2]
    replied.update(dict.fromkeys(set(range(256)) - {3, 17, 255}))
    assert [face.next_request_id(), face.next_request_id()] == [17, 17]
    replied[17] = None
    assert face.next_request_id() is None


@pytest.mark.parametrize(("bits", "last"), [(8, 0xFF), (16, 0xFFFF), (32, 0xFFFF_FFFF), (64, 0xFFFF_FFFF)])
def test_the_last_id_of_requests_is_that_of_the_resolution(bits: int, last: int) -> None:
    face = Face(1, ZenohId(0xA), WhatAmI.CLIENT, Region.CLIENT, request_bits=bits)
    face._request_id = last - 1
    assert [face.next_request_id(), face.next_request_id()] == [last, 0]


def test_ids_start_at_one_and_never_repeat(face: Face) -> None:
    assert [face.next_id(), face.next_id()] == [1, 2]
    assert [face.next_request_id(), face.next_request_id()] == [1, 2]
    assert repr(face) == "<Face 1 a client>"


def test_log_lines_name_role_zid_and_address(face: Face) -> None:
    assert str(face) == "client a"
    face.address = "tcp/192.0.2.7:40022"
    assert str(face) == "client a (tcp/192.0.2.7:40022)"
