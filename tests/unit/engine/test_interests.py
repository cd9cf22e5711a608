"""Interests of a session, and the remote declarations received because of them."""

from __future__ import annotations

import threading

from tests.unit.engine.senders import RecordingSender
from tests.wait import until
from zenspark.api.session import Session
from zenspark.engine.interests import LocalInterest, LocalInterests
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.router.router import Router
from zenspark.types.enums import SampleKind
from zenspark.wire import messages
from zenspark.wire.values import InterestMode, QoS, QueryableInfo, WhatAmI, WireExpr, ZenohId

Changes = list[tuple[SampleKind, str]]
SUBSCRIBER, QUERYABLE, TOKEN = DeclarationKind.SUBSCRIBER, DeclarationKind.QUERYABLE, DeclarationKind.TOKEN


SOURCE = Router(ZenohId(1), WhatAmI.PEER).add_local()
"""The face that declarations come from."""


def make(*aggregated: str) -> tuple[LocalInterests, RecordingSender]:
    face = RecordingSender()
    return LocalInterests(threading.RLock(), face, aggregated), face


def interest(
    interest_id: int, kind: DeclarationKind, key: str, changes: Changes | None = None, *, is_future: bool = True
) -> LocalInterest:
    received: Changes = [] if changes is None else changes
    return LocalInterest(
        interest_id,
        kind,
        KeyExpr(key),
        lambda change, key, source: received.append((change, key)) if source is SOURCE else None,
        lambda: received.append((SampleKind.DELETE, "final")),
        is_future,
    )


def declare(body: messages.AnyDeclaration, interest_id: int | None = None) -> messages.Declare:
    return messages.Declare(interest_id=interest_id, qos=QoS.DECLARE, body=body)


def token(token_id: int, key: str) -> messages.DeclareToken:
    return messages.DeclareToken(id=token_id, wire_expr=WireExpr(0, key))


def test_an_interest_is_sent_with_its_kind_and_ended_once() -> None:
    interests, face = make()
    for number, kind in enumerate((SUBSCRIBER, QUERYABLE, TOKEN), 1):
        interests.declare(interest(number, kind, "a"), InterestMode.CURRENT)
    assert [(sent.id, sent.subscribers, sent.queryables, sent.tokens) for sent in face.sent] == [
        (1, True, False, False),
        (2, False, True, False),
        (3, False, False, True),
    ]
    face.sent.clear()
    ended = interest(2, QUERYABLE, "a")
    interests.undeclare(ended)
    interests.undeclare(ended)
    assert [(sent.id, sent.mode) for sent in face.sent] == [(2, InterestMode.FINAL)]


def test_no_interest_is_ended_after_close() -> None:
    interests, face = make()
    interests.declare(interest(1, TOKEN, "a"), InterestMode.FUTURE)
    face.is_closed = True
    interests.undeclare(interest(1, TOKEN, "a"))
    assert [sent.mode for sent in face.sent] == [InterestMode.FUTURE]


def test_aggregated_interests_in_subscribers_are_sent_once() -> None:
    interests, face = make("a/**")
    interests.declare(interest(1, SUBSCRIBER, "a/1"), InterestMode.CURRENT_FUTURE)
    interests.declare(interest(2, SUBSCRIBER, "a/2"), InterestMode.CURRENT_FUTURE)
    interests.declare(interest(3, QUERYABLE, "a/3"), InterestMode.CURRENT_FUTURE)
    assert [(sent.id, sent.wire_expr.suffix) for sent in face.sent] == [(1, "a/**"), (3, "a/3")]
    interests.undeclare(interest(1, SUBSCRIBER, "a/1"))
    assert len(face.sent) == 2
    interests.undeclare(interest(2, SUBSCRIBER, "a/2"))
    assert (face.sent[-1].id, face.sent[-1].mode) == (1, InterestMode.FINAL)


def test_replies_to_one_interest_reach_that_interest_only() -> None:
    interests, _ = make()
    first: Changes = []
    second: Changes = []
    interests.declare(interest(1, TOKEN, "a/*", first), InterestMode.CURRENT)
    interests.declare(interest(2, TOKEN, "a/*", second), InterestMode.CURRENT)
    interests.receive(declare(token(1, "a/1"), 1), SOURCE)
    interests.receive(declare(messages.DeclareFinal(), 1), SOURCE)
    assert (first, second) == ([(SampleKind.PUT, "a/1"), (SampleKind.DELETE, "final")], [])


def test_changes_reach_every_future_interest_that_matches() -> None:
    interests, _ = make()
    received: dict[str, Changes] = {name: [] for name in ("match", "other key", "other kind", "current")}
    interests.declare(interest(1, TOKEN, "a/*", received["match"]), InterestMode.FUTURE)
    interests.declare(interest(2, TOKEN, "b/*", received["other key"]), InterestMode.FUTURE)
    interests.declare(interest(3, QUERYABLE, "a/*", received["other kind"]), InterestMode.FUTURE)
    interests.declare(interest(4, TOKEN, "a/*", received["current"], is_future=False), InterestMode.CURRENT)
    interests.receive(declare(token(9, "a/1")), SOURCE)
    interests.receive(declare(messages.UndeclareToken(id=9)), SOURCE)
    interests.receive(declare(messages.UndeclareToken(id=9)), SOURCE)
    assert received.pop("match") == [(SampleKind.PUT, "a/1"), (SampleKind.DELETE, "a/1")]
    assert not any(received.values())


def test_with_aggregation_a_reply_reaches_all_interests_in_subscribers() -> None:
    interests, _ = make("a/**")
    first: Changes = []
    second: Changes = []
    interests.declare(interest(1, SUBSCRIBER, "a/1", first), InterestMode.CURRENT_FUTURE)
    interests.declare(interest(2, SUBSCRIBER, "a/2", second), InterestMode.CURRENT_FUTURE)
    interests.receive(declare(messages.DeclareSubscriber(id=5, wire_expr=WireExpr(0, "a/*")), 1), SOURCE)
    assert first == second == [(SampleKind.PUT, "a/*")]


def test_a_remote_match_of_complete_queryables_must_include_the_key() -> None:
    interests, _ = make()
    for number, (key, complete) in enumerate((("a/*", True), ("b/*", False)), 1):
        info = QueryableInfo(complete)
        interests.receive(declare(messages.DeclareQueryable(id=number, wire_expr=WireExpr(0, key), info=info)), SOURCE)

    def matches(key: str, *, only_complete: bool) -> bool:
        return interests.has_remote_match(QUERYABLE, KeyExpr(key), only_complete)

    assert matches("a/1", only_complete=True)
    assert not matches("a/**", only_complete=True)
    assert matches("a/**", only_complete=False)
    assert matches("b/1", only_complete=False)
    assert not matches("b/1", only_complete=True)
    assert not interests.has_remote_match(SUBSCRIBER, KeyExpr("a/1"), False)


def test_remote_declarations_are_dropped_when_the_interest_ends(router: Session, client: Session) -> None:
    publisher = client.declare_publisher("a")
    subscriber = router.declare_subscriber("a")
    until(lambda: publisher.matching_status)
    publisher.undeclare()
    until(lambda: not client._runtime.interests._declarations)
    subscriber.undeclare()
