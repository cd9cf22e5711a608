"""Declarations of neighbours, by key."""

from __future__ import annotations

from zenspark.router.face import Face, Region
from zenspark.router.routing.tables import DeclarationTable, is_complete_for, merge_queryable_infos
from zenspark.wire.values import QueryableInfo, WhatAmI, ZenohId

ONE = Face(1, ZenohId(1), WhatAmI.CLIENT, Region.CLIENT)
TWO = Face(2, ZenohId(2), WhatAmI.CLIENT, Region.CLIENT)
NONE = QueryableInfo.NONE
COMPLETE = QueryableInfo(True, 3)


def test_declared_key_is_removed_with_its_last_owner() -> None:
    table = DeclarationTable()
    table.add("a/*", ONE, 1, NONE)
    table.add("a/*", ONE, 2, NONE)
    table.add("a/*", TWO, 1, NONE)
    table.discard("a/*", ONE, 1)
    table.discard("a/*", TWO, 1)
    entry = table.get("a/*")
    assert entry is not None
    assert list(entry.owners) == [ONE]
    table.discard("a/*", ONE, 2)
    table.discard("a/*", ONE, 2)
    assert table.get("a/*") is None


def test_matching_is_by_intersection() -> None:
    table = DeclarationTable()
    for key in ("a/*", "a/b", "c"):
        table.add(key, ONE, 1, NONE)
    assert {entry.key for entry in table.matching("a/b")} == {"a/*", "a/b"}
    assert {entry.key for entry in table.matching(None)} == {"a/*", "a/b", "c"}


def test_queryable_infos_merge_to_complete_with_smallest_distance() -> None:
    assert merge_queryable_infos([QueryableInfo(False, 1), QueryableInfo(True, 9), COMPLETE]) == COMPLETE
    assert merge_queryable_infos([QueryableInfo(False, 2), QueryableInfo(False, 1)]) == QueryableInfo(False, 1)


def test_complete_requires_inclusion_of_the_query_key() -> None:
    table = DeclarationTable()
    entry = table.add("q/*", ONE, 1, COMPLETE)
    assert is_complete_for(entry, entry.info(ONE), "q/a")
    assert not is_complete_for(entry, entry.info(ONE), "q/**")
    assert not is_complete_for(entry, NONE, "q/a")
