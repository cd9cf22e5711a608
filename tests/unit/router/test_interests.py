"""Interests: what they match, and who still owes an answer."""

from __future__ import annotations

from zenspark.router.face import Face, Kind, Region
from zenspark.router.interests import Asked, Interests, kinds_of
from zenspark.wire.messages import Interest
from zenspark.wire.values import InterestMode, WhatAmI, ZenohId

ASKER = Face(1, ZenohId(1), WhatAmI.CLIENT, Region.CLIENT)
ABOVE = Face(2, ZenohId(2), WhatAmI.ROUTER, Region.UPSTREAM)
SUBSCRIBERS = frozenset({Kind.SUBSCRIBER})


def asked(key: str | None = "a/*", mode: InterestMode = InterestMode.CURRENT_FUTURE, aggregate: bool = False) -> Asked:
    return Asked(ASKER, 5, mode, SUBSCRIBERS, key, aggregate)


def test_kinds_come_from_the_option_bits() -> None:
    interest = Interest(id=1, mode=InterestMode.CURRENT, subscribers=True, tokens=True)
    assert kinds_of(interest) == {Kind.SUBSCRIBER, Kind.TOKEN}


def test_matching_is_intersection_and_covering_is_inclusion() -> None:
    assert asked().matches(Kind.SUBSCRIBER, "a/**")
    assert not asked().covers(Kind.SUBSCRIBER, "a/**")
    assert asked().covers(Kind.SUBSCRIBER, "a/b")
    assert not asked().matches(Kind.TOKEN, "a/b")
    assert asked(None).covers(Kind.SUBSCRIBER, "anything")


def test_aggregated_interests_announce_their_own_key() -> None:
    assert asked(aggregate=True).announces(Kind.SUBSCRIBER, "a/b") == "a/*"
    assert asked(aggregate=True).announces(Kind.TOKEN, "a/b") == "a/b"
    assert asked().announces(Kind.SUBSCRIBER, "a/b") == "a/b"


def test_a_passed_on_interest_is_answered_when_the_last_said_final() -> None:
    interests, mine = Interests(), asked()
    interests.add(mine)
    interests.pass_on(mine, ABOVE, 9)
    assert interests.answered_by(ABOVE, 9) is mine
    assert not interests.is_answered(ABOVE, Kind.SUBSCRIBER, "a/b")
    mine.waiting.clear()
    assert interests.is_answered(ABOVE, Kind.SUBSCRIBER, "a/b")
    assert not interests.is_answered(ABOVE, Kind.SUBSCRIBER, "c")
    assert interests.remove(ASKER, 5) is mine
    assert interests.answered_by(ABOVE, 9) is None
    assert interests.remove(ASKER, 5) is None
    assert interests.of(ASKER) == interests.all() == []


def test_nobody_waits_for_the_answer_to_a_future_interest() -> None:
    interests, mine = Interests(), asked(mode=InterestMode.FUTURE)
    interests.pass_on(mine, ABOVE, 9)
    assert not mine.waiting
    assert mine.is_future
    assert not mine.is_current
