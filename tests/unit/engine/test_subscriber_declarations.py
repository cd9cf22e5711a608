"""Declarations of a session's subscribers."""

from __future__ import annotations

import pytest

from tests.unit.engine.senders import RecordingSender
from zenspark.api.session import Session
from zenspark.engine.match_observers import MatchObservers
from zenspark.engine.subscriber_declarations import SubscriberDeclarations
from zenspark.engine.subscriptions import Subscription
from zenspark.handlers.channel import ChannelClosed
from zenspark.handlers.handler import Handler
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.enums import Locality
from zenspark.types.sample import Sample


class CountingObserver:
    def __init__(self) -> None:
        self.changes = 0

    def on_match_change(self) -> None:
        self.changes += 1


def subscription(number: int, key: str, origin: Locality = Locality.ANY) -> Subscription:
    sink: Handler[Sample] = Handler(10, lambda _: None)
    return Subscription(number, KeyExpr(key), origin, sink)


@pytest.fixture
def face() -> RecordingSender:
    return RecordingSender()


@pytest.fixture
def observer() -> CountingObserver:
    return CountingObserver()


@pytest.fixture
def subscribers(peer: Session, face: RecordingSender, observer: CountingObserver) -> SubscriberDeclarations:
    runtime, observers = peer._runtime, MatchObservers()
    observers.add(DeclarationKind.SUBSCRIBER, observer)
    return SubscriberDeclarations(
        runtime.lock, face, runtime.subscriptions, runtime.backpressure, observers, ["aggregated/**"]
    )


def declared(face: RecordingSender) -> list[tuple[str, int]]:
    return [(type(body).__name__, body.id) for body in face.declared]


def test_a_subscriber_is_declared_undeclared_and_closed(
    peer: Session, subscribers: SubscriberDeclarations, face: RecordingSender, observer: CountingObserver
) -> None:
    subscriber = subscription(5, "a")
    subscribers.declare(subscriber)
    assert peer._runtime.subscriptions.matching("a", False) == (subscriber,)
    subscribers.undeclare(subscriber)
    assert peer._runtime.subscriptions.matching("a", False) == ()
    assert declared(face) == [("DeclareSubscriber", 5), ("UndeclareSubscriber", 5)]
    assert observer.changes == 2
    assert isinstance(subscriber.sink, Handler)
    with pytest.raises(ChannelClosed):
        subscriber.sink.try_recv()


def test_a_session_local_subscriber_is_not_declared(subscribers: SubscriberDeclarations, face: RecordingSender) -> None:
    subscriber = subscription(5, "a", Locality.SESSION_LOCAL)
    subscribers.declare(subscriber)
    subscribers.undeclare(subscriber)
    assert face.sent == []


def test_aggregated_subscribers_share_one_declaration(
    subscribers: SubscriberDeclarations, face: RecordingSender
) -> None:
    first, second = subscription(1, "aggregated/1"), subscription(2, "aggregated/2")
    subscribers.declare(first)
    subscribers.declare(second)
    assert [body.wire_expr.suffix for body in face.declared] == ["aggregated/**"]
    subscribers.undeclare(first)
    assert declared(face) == [("DeclareSubscriber", 1)]
    subscribers.undeclare(second)
    assert declared(face) == [("DeclareSubscriber", 1), ("UndeclareSubscriber", 1)]
