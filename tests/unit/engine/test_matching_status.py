"""Matching status: whether a subscriber or queryable matches a publisher or querier."""

from __future__ import annotations

import pytest

from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.engine.matching_status import MatchingTracker, has_match
from zenspark.handlers.handler import Handler
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind
from zenspark.types.enums import Locality
from zenspark.types.network_info import MatchingStatus


def matching(
    session: Session, destination: Locality = Locality.ANY, kind: DeclarationKind = DeclarationKind.SUBSCRIBER
) -> MatchingTracker:
    return MatchingTracker(session._runtime, kind, KeyExpr("demo/a"), destination)


@pytest.mark.parametrize(
    ("destination", "here", "there"),
    [(Locality.ANY, True, True), (Locality.SESSION_LOCAL, True, False), (Locality.REMOTE, False, True)],
)
def test_matching_status_considers_the_allowed_destination(
    router: Session, client: Session, destination: Locality, here: bool, there: bool
) -> None:
    watched = matching(client, destination)
    everything = matching(client)
    with client.declare_subscriber("demo/*"):
        assert watched.status is here
    with router.declare_subscriber("demo/*"):
        until(lambda: everything.status)
        assert watched.status is there


def test_matching_listener_gets_changes_only(router: Session, client: Session) -> None:
    watched = matching(client)
    notified: Handler[MatchingStatus] = Handler(10, lambda _: None)
    watched.listen(99, notified)
    with client.declare_subscriber("demo/a"), client.declare_subscriber("demo/**"):
        assert notified.try_recv() == MatchingStatus(True)
        assert notified.try_recv() is None
    assert notified.try_recv() == MatchingStatus(False)
    watched.unlisten(99)
    watched.unlisten(99)
    assert list(notified) == []


def test_undeclaring_a_publisher_closes_its_matching_listeners(peer: Session) -> None:
    publisher = peer.declare_publisher("demo/a")
    listener = publisher.declare_matching_listener()
    notified = listener.handler
    publisher.undeclare()
    assert list(notified) == []
    assert peer._runtime.observers.count(DeclarationKind.SUBSCRIBER) == 0


def test_unreferenced_matching_listener_with_callback_stays(peer: Session) -> None:
    publisher = peer.declare_publisher("demo/a")
    notified: list[MatchingStatus] = []
    publisher.declare_matching_listener(notified.append)
    with peer.declare_subscriber("demo/a"):
        until(lambda: notified)
    until(lambda: notified == [MatchingStatus(True), MatchingStatus(False)])


def test_queryables_match_queriers_only(peer: Session) -> None:
    subscribers, queryables = matching(peer), matching(peer, kind=DeclarationKind.QUERYABLE)
    with peer.declare_queryable("demo/**"):
        assert (subscribers.status, queryables.status) == (False, True)
    with peer.declare_subscriber("demo/**"):
        assert (subscribers.status, queryables.status) == (True, False)


def test_matching_ends_when_the_neighbour_disconnects(router: Session, client: Session) -> None:
    watched = client.declare_publisher("demo/a")
    router.declare_subscriber("demo/a", lambda _: None)
    listener = watched.declare_matching_listener()
    assert listener.recv(TIMEOUT_SECONDS).matching
    router.close()
    assert not listener.recv(TIMEOUT_SECONDS).matching


def test_only_complete_queryables_match_if_only_those_count(peer: Session) -> None:
    runtime = peer._runtime
    with peer.declare_queryable("q/**", complete=True), peer.declare_queryable("p/**"):
        for key, only_complete, expected in (("q/a", True, True), ("p/a", True, False), ("p/a", False, True)):
            key_expr = KeyExpr(key)
            found = has_match(runtime, DeclarationKind.QUERYABLE, key_expr, Locality.SESSION_LOCAL, only_complete)
            assert found is expected
