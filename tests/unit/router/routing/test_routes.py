"""Which regions reach which."""

from __future__ import annotations

import pytest

from zenspark.router.face import REGION_BY_ROLES, DeclarationKind, Face, Region
from zenspark.router.limits import Admission, Refusals, RouterLimits
from zenspark.router.linkstate.network import RouterNetwork
from zenspark.router.linkstate.sourced_declarations import SourceRouter
from zenspark.router.routing.routes import REACHABLE_REGIONS, ReachabilityPolicy, Routes
from zenspark.router.routing.tables import DeclarationTable
from zenspark.wire.values import QueryableInfo, QueryTarget, WhatAmI, ZenohId

ADMISSION = Admission(RouterLimits(), Refusals())


def face(number: int, region: Region) -> Face:
    return Face(number, ZenohId(number), WhatAmI.CLIENT, region)


@pytest.mark.parametrize("source", Region)
@pytest.mark.parametrize("target", Region)
def test_reachability_is_symmetric(source: Region, target: Region) -> None:
    """Members receive what is sent to their group, so a region that reaches the group is reached by its members."""
    reverse = {Region.GROUP: Region.MEMBER, Region.MEMBER: Region.GROUP}
    assert (target in REACHABLE_REGIONS[source]) == (
        reverse.get(source, source) in REACHABLE_REGIONS[reverse.get(target, target)]
    )


def test_group_does_not_get_messages_of_its_own_members() -> None:
    group, client = face(1, Region.GROUP), face(2, Region.CLIENT)
    group.members = {ZenohId(3)}
    assert ReachabilityPolicy()(client, group)
    assert not ReachabilityPolicy()(face(3, Region.ROUTER), group)
    assert not ReachabilityPolicy()(face(3, Region.MEMBER), group)


def test_message_is_not_sent_back_to_its_source() -> None:
    client = face(1, Region.CLIENT)
    assert not ReachabilityPolicy()(client, client)
    assert ReachabilityPolicy()(client, face(2, Region.CLIENT))


def test_messages_from_peers_and_upstream_go_only_downstream() -> None:
    for source in (Region.PEER, Region.UPSTREAM):
        assert REACHABLE_REGIONS[source] == {Region.LOCAL, Region.CLIENT}


def test_two_clients_have_no_region() -> None:
    assert (WhatAmI.CLIENT, WhatAmI.CLIENT) not in REGION_BY_ROLES


def without_network() -> tuple[dict[DeclarationKind, DeclarationTable], Routes]:
    tables = {kind: DeclarationTable() for kind in DeclarationKind}
    return tables, Routes(tables, ReachabilityPolicy(), None, lambda *_: False, ADMISSION)


def test_broker_forwards_between_peers_that_have_no_link() -> None:
    one, other = face(1, Region.DOWNSTREAM_PEER), face(2, Region.DOWNSTREAM_PEER)
    reach = ReachabilityPolicy()
    assert reach.set_peer_links(one.zid, []) == frozenset()
    assert reach.set_peer_links(other.zid, []) == {one.zid}
    assert reach(one, other)
    assert reach.set_peer_links(one.zid, [other.zid]) == frozenset()
    assert reach(one, other)  # the other one does not know of the link yet
    assert reach.set_peer_links(other.zid, [one.zid]) == {one.zid}
    assert not reach(one, other)
    assert reach.set_peer_links(one.zid, []) == {other.zid}
    assert reach(one, other)


def test_broker_does_not_forward_between_peers_that_announce_no_links() -> None:
    """They may have a link: everything would arrive twice."""
    one, other = face(1, Region.DOWNSTREAM_PEER), face(2, Region.DOWNSTREAM_PEER)
    reach = ReachabilityPolicy()
    assert not reach(one, other)
    reach.set_peer_links(one.zid, [])
    assert not reach(one, other)
    reach.set_peer_links(other.zid, [])
    assert reach(one, other)
    reach.remove_peer(one.zid)
    assert not reach(one, other)


def test_router_that_is_no_broker_does_not_forward_between_peers() -> None:
    one, other = face(1, Region.DOWNSTREAM_PEER), face(2, Region.DOWNSTREAM_PEER)
    reach = ReachabilityPolicy(is_broker=False)
    reach.set_peer_links(one.zid, [])
    reach.set_peer_links(other.zid, [])
    assert not reach(one, other)
    assert ReachabilityPolicy(is_broker=False)(one, face(3, Region.CLIENT))


def test_route_is_cached_until_subscribers_of_its_key_change() -> None:
    tables, routes = without_network()
    source, target = face(1, Region.LOCAL), face(2, Region.CLIENT)
    for _ in range(2):  # a route that is looked up once is not cached
        assert routes.push_next_hops(source, "a") == routes.push_next_hops(source, "b") == ()
    tables[DeclarationKind.SUBSCRIBER].add("a", target, 1, QueryableInfo.NONE)
    assert routes.push_next_hops(source, "a") == ()
    version = routes.version
    routes.on_subscribers_changed("b")
    assert routes.version > version
    assert routes.push_next_hops(source, "a") == ()
    routes.on_subscribers_changed("a")
    assert routes.push_next_hops(source, "a") == (target,)
    assert routes.push_next_hops(target, "a") == ()
    tables[DeclarationKind.SUBSCRIBER].discard("a", target, 1)
    routes.remove_face(target)
    assert routes.push_next_hops(source, "a") == ()


def test_face_with_pending_declarations_gets_everything() -> None:
    tables = {kind: DeclarationTable() for kind in DeclarationKind}
    unknown = {face(2, Region.UPSTREAM)}
    routes = Routes(tables, ReachabilityPolicy(), None, lambda each, *_: each in unknown, ADMISSION)
    source, (above,) = face(1, Region.LOCAL), unknown
    routes.add_face(face(3, Region.CLIENT))
    routes.add_face(above)
    assert routes.push_next_hops(source, "a") == routes.request_next_hops(source, "a", QueryTarget.ALL) == (above,)
    unknown.clear()
    routes.clear()
    assert routes.push_next_hops(source, "a") == ()


def test_best_matching_targets_the_nearest_complete_queryable() -> None:
    tables, routes = without_network()
    source, near, far = (face(number, Region.CLIENT) for number in (1, 2, 3))
    tables[DeclarationKind.QUERYABLE].add("q", far, 1, QueryableInfo(True, 2))
    tables[DeclarationKind.QUERYABLE].add("q", near, 1, QueryableInfo(True, 1))
    assert routes.request_next_hops(source, "q", QueryTarget.BEST_MATCHING) == (near,)


def test_routes_are_correct_beyond_the_cache_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.router.routing.routes.MAX_ROUTES", 2)
    tables, routes = without_network()
    source, target = face(1, Region.LOCAL), face(2, Region.CLIENT)
    tables[DeclarationKind.SUBSCRIBER].add("**", target, 1, QueryableInfo.NONE)
    assert [routes.push_next_hops(source, key) for key in ("a", "b", "c", "a")] == [(target,)] * 4
    assert routes.push_next_hops(source, "not//a key") == ()


def test_route_of_a_key_published_once_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.router.routing.routes.MAX_ROUTES", 10)
    tables, routes = without_network()
    source, target = face(1, Region.LOCAL), face(2, Region.CLIENT)
    tables[DeclarationKind.SUBSCRIBER].add("**", target, 1, QueryableInfo.NONE)
    for number in range(25):
        assert routes.push_next_hops(source, f"job/{number}") == (target,)
    assert (len(routes._pushes), len(routes._routes_by_key)) == (0, 0)
    assert len(routes._looked_up_once) <= 10
    for _ in range(2):
        assert routes.push_next_hops(source, "job/24") == (target,)
    assert (len(routes._pushes), len(routes._routes_by_key)) == (1, 1)


def test_no_more_keys_with_wildcards_are_cached_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.router.routing.routes.MAX_WILDCARD_ROUTES", 2)
    _, routes = without_network()
    source, counts = face(1, Region.LOCAL), []
    for key in ("a/*", "b/*", "c/*"):
        for _ in range(2):  # a route is cached when it is looked up again
            routes.push_next_hops(source, key)
        counts.append(len(routes._pushes))
    assert counts == [1, 2, 1]


def test_routes_of_queries_are_remembered_until_queryables_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.router.routing.routes.MAX_ROUTES", 2)
    tables, routes = without_network()
    source, target = face(1, Region.LOCAL), face(2, Region.CLIENT)
    assert routes.request_next_hops(source, "a", QueryTarget.ALL) == ()
    tables[DeclarationKind.QUERYABLE].add("**", target, 1, QueryableInfo.NONE)
    assert routes.request_next_hops(source, "a", QueryTarget.ALL) == ()
    routes.on_queryables_changed()
    for key in ("a", "b", "c", "a"):
        assert routes.request_next_hops(source, key, QueryTarget.ALL) == (target,)
    assert routes.request_next_hops(source, "not//a key", QueryTarget.ALL) == ()


def test_unreachable_router_is_in_no_route() -> None:
    tables = {kind: DeclarationTable() for kind in DeclarationKind}
    routes = Routes(tables, ReachabilityPolicy(), RouterNetwork(ZenohId(1)), lambda *_: False, ADMISSION)
    tables[DeclarationKind.SUBSCRIBER].add("a", SourceRouter(ZenohId(2)), 0, QueryableInfo.NONE)
    assert routes.push_next_hops(face(1, Region.LOCAL), "a") == ()


def test_query_does_not_go_back_to_its_source() -> None:
    tables, routes = without_network()
    one, other = face(1, Region.CLIENT), face(2, Region.CLIENT)
    for holder in (one, other):
        tables[DeclarationKind.QUERYABLE].add("q", holder, 1, QueryableInfo.NONE)
    assert routes.request_next_hops(one, "q", QueryTarget.ALL) == (other,)
