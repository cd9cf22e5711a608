"""Who may reach whom."""

from __future__ import annotations

import pytest

from zenspark.router.face import REGIONS, Face, Kind, Region
from zenspark.router.routes import REACH, Routes, reaches
from zenspark.router.tables import Table
from zenspark.wire.values import QueryableInfo, QueryTarget, WhatAmI, ZenohId


def face(number: int, region: Region) -> Face:
    return Face(number, ZenohId(number), WhatAmI.CLIENT, region)


@pytest.mark.parametrize("source", Region)
@pytest.mark.parametrize("target", Region)
def test_reach_is_mutual(source: Region, target: Region) -> None:
    """A group is heard by its members, so whoever reaches the group is reached by them."""
    heard = {Region.GROUP: Region.MEMBER, Region.MEMBER: Region.GROUP}
    assert (target in REACH[source]) == (heard.get(source, source) in REACH[heard.get(target, target)])


def test_a_group_hears_what_was_not_said_there_already() -> None:
    group, client = face(1, Region.GROUP), face(2, Region.CLIENT)
    group.members = {ZenohId(3)}
    assert reaches(client, group)
    assert not reaches(face(3, Region.ROUTER), group)
    assert not reaches(face(3, Region.MEMBER), group)


def test_nothing_goes_back_where_it_came_from() -> None:
    client = face(1, Region.CLIENT)
    assert not reaches(client, client)
    assert reaches(client, face(2, Region.CLIENT))


def test_what_comes_from_beside_or_above_goes_only_down() -> None:
    for source in (Region.PEER, Region.UPSTREAM):
        assert REACH[source] == {Region.LOCAL, Region.CLIENT}


def test_two_clients_have_no_region() -> None:
    assert (WhatAmI.CLIENT, WhatAmI.CLIENT) not in REGIONS


def test_a_route_is_kept_until_something_changes() -> None:
    tables = {kind: Table() for kind in Kind}
    routes = Routes(tables, lambda *_: False)
    source, target = face(1, Region.LOCAL), face(2, Region.CLIENT)
    routes.change([source, target])
    assert routes.push(source, "a") == ()
    tables[Kind.SUBSCRIBER].add("*", target, 1, QueryableInfo.NONE)
    assert routes.push(source, "a") == ()
    version = routes.version
    routes.change([source, target])
    assert routes.version > version
    assert routes.push(source, "a") == (target,)


def test_the_nearest_complete_queryable_is_best() -> None:
    tables = {kind: Table() for kind in Kind}
    routes = Routes(tables, lambda *_: False)
    source, near, far = (face(number, Region.CLIENT) for number in (1, 2, 3))
    tables[Kind.QUERYABLE].add("q", far, 1, QueryableInfo(True, 2))
    tables[Kind.QUERYABLE].add("q", near, 1, QueryableInfo(True, 1))
    assert routes.request(source, "q", QueryTarget.BEST_MATCHING) == (near,)


def test_no_more_keys_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.router.routes.MAX_ROUTES", 2)
    tables = {kind: Table() for kind in Kind}
    routes = Routes(tables, lambda *_: False)
    source, target = face(1, Region.LOCAL), face(2, Region.CLIENT)
    tables[Kind.SUBSCRIBER].add("**", target, 1, QueryableInfo.NONE)
    routes.change([source, target])
    assert [routes.push(source, key) for key in ("a", "b", "c", "a")] == [(target,)] * 4
    assert routes.push(source, "not//a key") == ()
