"""Interests: what they match, and which neighbours have not replied yet."""

from __future__ import annotations

from zenspark.router.face import DeclarationKind, Face, Region
from zenspark.router.interests.table import InterestTable, LiveInterest, requested_kinds
from zenspark.wire.messages import Interest
from zenspark.wire.values import InterestMode, WhatAmI, ZenohId

ORIGIN = Face(1, ZenohId(1), WhatAmI.CLIENT, Region.CLIENT)
ABOVE = Face(2, ZenohId(2), WhatAmI.ROUTER, Region.UPSTREAM)
SUBSCRIBERS = frozenset({DeclarationKind.SUBSCRIBER})


def interest_in(
    key: str | None = "a/*", mode: InterestMode = InterestMode.CURRENT_FUTURE, aggregate: bool = False
) -> LiveInterest:
    return LiveInterest(ORIGIN, 5, mode, SUBSCRIBERS, key, aggregate)


def test_kinds_come_from_the_option_bits() -> None:
    interest = Interest(id=1, mode=InterestMode.CURRENT, subscribers=True, tokens=True)
    assert requested_kinds(interest) == {DeclarationKind.SUBSCRIBER, DeclarationKind.TOKEN}


def test_matching_is_intersection() -> None:
    interests, mine, everything = InterestTable(), interest_in(), interest_in(None)
    everything.id = 6
    interests.add(mine)
    assert interests.matching_future(DeclarationKind.SUBSCRIBER, "a/**") == [mine]
    assert interests.matching_future(DeclarationKind.SUBSCRIBER, "b") == []
    assert interests.matching_future(DeclarationKind.TOKEN, "a/b") == []
    interests.add(everything)
    assert interests.matching_future(DeclarationKind.SUBSCRIBER, "b") == [everything]
    assert interests.remove(ORIGIN, 6) is everything
    assert interests.matching_future(DeclarationKind.SUBSCRIBER, "b") == []


def test_aggregation_only_if_requested() -> None:
    interests = InterestTable()
    interests.add(interest_in(aggregate=True))
    other = interest_in()
    other.id = 6
    interests.add(other)
    assert interests.is_aggregated(ORIGIN, DeclarationKind.SUBSCRIBER, "a/*")
    assert not interests.is_aggregated(ABOVE, DeclarationKind.SUBSCRIBER, "a/*")
    assert not interests.is_aggregated(ORIGIN, DeclarationKind.SUBSCRIBER, "a/b")
    interests.remove(ORIGIN, 5)
    assert not interests.is_aggregated(ORIGIN, DeclarationKind.SUBSCRIBER, "a/*")


def test_aggregated_interests_announce_their_own_key() -> None:
    assert interest_in(aggregate=True).announced_key(DeclarationKind.SUBSCRIBER, "a/b") == "a/*"
    assert interest_in(aggregate=True).announced_key(DeclarationKind.TOKEN, "a/b") == "a/b"
    assert interest_in().announced_key(DeclarationKind.SUBSCRIBER, "a/b") == "a/b"


def test_forwarded_interest_is_resolved_with_the_last_final() -> None:
    interests, mine = InterestTable(), interest_in()
    interests.add(mine)
    interests.record_propagation(mine, ABOVE, 9, 1.0)
    assert interests.find_propagated(ABOVE, 9) is mine
    assert not interests.is_resolved(ABOVE, DeclarationKind.SUBSCRIBER, "a/b")
    assert not interests.is_resolved(ABOVE, DeclarationKind.SUBSCRIBER, "a/**")
    assert interests.next_deadline() == 1.0
    assert interests.pop_expired(1.0) == [mine]
    mine.waiting.clear()
    assert interests.next_deadline() is None
    assert interests.is_resolved(ABOVE, DeclarationKind.SUBSCRIBER, "a/b")
    assert not interests.is_resolved(ABOVE, DeclarationKind.SUBSCRIBER, "c")
    assert interests.remove(ORIGIN, 5) is mine
    assert interests.find_propagated(ABOVE, 9) is None
    assert interests.remove(ORIGIN, 5) is None
    assert interests.by_face(ORIGIN) == interests.all() == []


def test_removed_upstream_face_is_not_awaited() -> None:
    interests, mine = InterestTable(), interest_in()
    interests.add(mine)
    interests.record_propagation(mine, ABOVE, 9, 1.0)
    assert interests.remove_upstream(ABOVE) == [mine]
    assert interests.remove_upstream(ABOVE) == []
    assert interests.find_propagated(ABOVE, 9) is None
    assert interests.remove(ORIGIN, 5) is mine


def test_future_interest_has_no_deadline() -> None:
    interests, mine = InterestTable(), interest_in(mode=InterestMode.FUTURE)
    interests.record_propagation(mine, ABOVE, 9, 1.0)
    assert not mine.waiting
    assert mine.is_future
    assert not mine.is_current


def test_matching_interests_intersect_the_key() -> None:
    interests = InterestTable()
    near = LiveInterest(ORIGIN, 1, InterestMode.FUTURE, SUBSCRIBERS, "a/*", False)
    far = LiveInterest(ORIGIN, 2, InterestMode.FUTURE, SUBSCRIBERS, "b", False)
    other = LiveInterest(ORIGIN, 3, InterestMode.FUTURE, frozenset({DeclarationKind.TOKEN}), "a/b", False)
    for interest in (near, far, other):
        interests.add(interest)
    assert interests.matching(DeclarationKind.SUBSCRIBER, "a/b") == [near]
