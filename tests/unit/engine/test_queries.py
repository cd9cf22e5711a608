"""Pending queries of a session: request ids, replies, and what is left of them."""

from __future__ import annotations

import pytest

from tests.optional import some
from tests.unit.api.sessions import connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.engine.node_factory import RESOLUTIONS
from zenspark.router.queries.query_router import TOO_MANY_QUERIES_TEXT
from zenspark.types.enums import Locality, QueryTarget


def test_finished_queries_release_all_state(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b""))
    client.declare_queryable("q", lambda query: query.reply("q", b""))
    before = len(client._runtime.entities)
    for _ in range(20):
        assert list(client.get("q", timeout=TIMEOUT_SECONDS))
        list(client.liveliness().get("live/*", timeout=TIMEOUT_SECONDS))
    list(client.get("q", timeout=0.0))
    until(lambda: not client._runtime.queries.pending)
    assert not client._runtime.interests._interests
    assert len(client._runtime.entities) == before


@pytest.mark.slow
@pytest.mark.parametrize("namespace", [{}, {"namespace": "through/the/router"}], ids=["direct", "routed"])
def test_ids_of_requests_stay_within_the_resolution(
    monkeypatch: pytest.MonkeyPatch, namespace: dict[str, object]
) -> None:
    """QU-15: a session with an RID resolution of 8 bits queries with ids from 0 to 255, except those in flight."""
    monkeypatch.setitem(RESOLUTIONS, "32bit", 0x02)
    request_ids: list[int] = []
    with listening("router", **namespace) as router, connected("client", router, **namespace) as client:
        queries = router.declare_queryable("q")
        until(lambda: client.declare_querier("q").matching_status.matching)
        slow = client.get("q", timeout=TIMEOUT_SECONDS)
        kept = queries.recv(TIMEOUT_SECONDS)
        for _ in range(300):
            replies = client.get("q", timeout=TIMEOUT_SECONDS)
            with queries.recv(TIMEOUT_SECONDS) as query:
                request_ids.append(query._require_handle().request.request_id)
                query.reply("q", "yes")
            assert len(list(replies)) == 1
        kept.reply("q", "late")
        kept.drop()
        assert [some(reply.ok).payload.to_string() for reply in slow] == ["late"]
    if not namespace:  # through the router the id is another on the way to the queryable
        assert request_ids == [*range(2, 256), 0, *range(2, 47)]


@pytest.mark.slow
@pytest.mark.parametrize("namespace", [{}, {"namespace": "through/the/router"}], ids=["direct", "routed"])
def test_query_without_a_free_request_id_gets_an_error_reply(
    monkeypatch: pytest.MonkeyPatch, namespace: dict[str, object]
) -> None:
    monkeypatch.setitem(RESOLUTIONS, "32bit", 0x02)
    with listening("router", **namespace) as router, connected("client", router, **namespace) as client:
        queries = router.declare_queryable("q")
        until(lambda: client.declare_querier("q").matching_status.matching)
        in_flight = [client.get("q", timeout=TIMEOUT_SECONDS) for _ in range(256)]
        (reply,) = client.get("q", timeout=TIMEOUT_SECONDS)
        assert (some(reply.err).payload.to_bytes(), some(reply.replier_id).zid) == (TOO_MANY_QUERIES_TEXT, router.zid())
        for replies in in_flight:
            queries.recv(TIMEOUT_SECONDS).drop()
            assert list(replies) == []


def test_query_without_any_target_finishes_at_once(peer: Session) -> None:
    for destination in Locality:
        assert list(peer.get("q", allowed_destination=destination, timeout=TIMEOUT_SECONDS)) == []
    assert peer._runtime.queries.pending == 0


def test_query_goes_to_local_and_remote_queryables_as_its_destination_allows(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: query.reply("q/router", b""))
    client.declare_queryable("q", lambda query: query.reply("q/client", b""))
    until(lambda: client.declare_querier("q").matching_status.matching)

    def repliers(destination: Locality) -> set[str]:
        replies = client.get(
            "q?_anyke", allowed_destination=destination, target=QueryTarget.ALL, timeout=TIMEOUT_SECONDS
        )
        return {str(some(reply.ok).key_expr) for reply in replies}

    assert repliers(Locality.ANY) == {"q/router", "q/client"}
    assert repliers(Locality.SESSION_LOCAL) == {"q/client"}
    assert repliers(Locality.REMOTE) == {"q/router"}


def test_pending_queries_finish_when_the_session_closes(router: Session, client: Session) -> None:
    queryable = router.declare_queryable("q")
    until(lambda: client.declare_querier("q").matching_status.matching)
    replies = client.get("q", timeout=TIMEOUT_SECONDS)
    assert client._runtime.queries.pending == 1
    client.close()
    assert list(replies) == []
    assert client._runtime.queries.pending == 0
    queryable.undeclare()
