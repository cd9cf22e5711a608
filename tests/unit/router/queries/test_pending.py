"""Requests in flight."""

from __future__ import annotations

from zenspark.router.face import Face, Region
from zenspark.router.queries.pending import PendingQueries, PendingQuery
from zenspark.wire.values import QoS, WhatAmI, ZenohId

ORIGIN, ONE, TWO = (Face(number, ZenohId(number), WhatAmI.CLIENT, Region.CLIENT) for number in (1, 2, 3))


def pending(deadline: float = 1.0) -> PendingQuery:
    return PendingQuery(ORIGIN, 7, QoS.REQUEST, QoS.REQUEST, deadline, 0, "q", {(ONE, 1), (TWO, 1)})


def test_query_ends_with_its_last_branch() -> None:
    queries, request = PendingQueries(), pending()
    queries.add(request)
    assert queries.find(ONE, 1) is request
    assert queries.end_branch(ONE, 1) is None
    assert queries.end_branch(ONE, 1) is None
    assert queries.end_branch(TWO, 1) is request
    assert queries.find(TWO, 1) is None


def test_queries_are_found_by_origin_and_target() -> None:
    queries, request = PendingQueries(), pending()
    queries.add(request)
    assert queries.by_origin(ORIGIN) == [request]
    assert queries.by_origin(ONE) == []
    assert queries.by_target(ONE) == [1]
    queries.remove(request)
    assert queries.by_origin(ORIGIN) == []
    assert queries.by_target(ONE) == []
    queries.remove_face(ORIGIN)
    queries.remove_face(ONE)
    assert queries.find(ONE, 1) is None


def test_queries_expire_at_their_deadline() -> None:
    queries, early, late = PendingQueries(), pending(1.0), pending(2.0)
    late.branches = {(ONE, 2)}
    assert queries.next_deadline() is None
    queries.add(late)
    queries.add(early)
    assert queries.next_deadline() == 1.0
    assert queries.pop_expired(0.9) == []
    assert queries.pop_expired(1.0) == [early]
    queries.remove(late)
    assert queries.pop_expired(9.0) == []
