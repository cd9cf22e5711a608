"""Queryables of a session: declarations, matching and delivery of queries."""

from __future__ import annotations

import contextlib
import threading

import pytest

from tests.unit.api.sessions import connected, listening
from tests.unit.engine.senders import RecordingSender
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.engine import queryables as queryables_module
from zenspark.engine.queryables import LocalQueryable, LocalQueryables
from zenspark.handlers.channel import ChannelClosed
from zenspark.handlers.handler import FifoChannel, Handler
from zenspark.key import KeyExpr
from zenspark.types.enums import CongestionControl, ConsolidationMode, Locality
from zenspark.types.query import Query
from zenspark.wire import messages
from zenspark.wire import values as wire

ALL, ALL_COMPLETE = wire.QueryTarget.ALL, wire.QueryTarget.ALL_COMPLETE


@pytest.fixture
def face() -> RecordingSender:
    return RecordingSender()


@pytest.fixture
def queryables(peer: Session, face: RecordingSender) -> LocalQueryables:
    runtime = peer._runtime
    return LocalQueryables(runtime.node, face, runtime.backpressure, runtime.observers, runtime.timestamps)


def queryable(
    number: int, key: str, *, complete: bool = False, origin: Locality = Locality.ANY, capacity: int = 10
) -> LocalQueryable:
    sink: Handler[Query] = Handler(capacity, lambda _: None)
    return LocalQueryable(number, KeyExpr(key), complete, origin, sink, wire.EntityId(wire.ZenohId(1), number))


def request(key: str) -> messages.Request:
    return messages.Request(request_id=7, wire_expr=wire.WireExpr(0, key), target=ALL, body=messages.Query())


def received(queryable: LocalQueryable) -> Query:
    assert isinstance(queryable.sink, Handler)
    query = queryable.sink.try_recv()
    assert isinstance(query, Query)
    return query


def test_a_queryable_is_declared_undeclared_and_closed_once(queryables: LocalQueryables, face: RecordingSender) -> None:
    declared = queryable(5, "a", complete=True)
    queryables.declare(declared)
    queryables.undeclare(declared)
    queryables.undeclare(declared)
    assert [(type(body).__name__, body.id) for body in face.declared] == [
        ("DeclareQueryable", 5),
        ("UndeclareQueryable", 5),
    ]
    assert face.declared[0].info.complete
    assert isinstance(declared.sink, Handler)
    with pytest.raises(ChannelClosed):
        declared.sink.try_recv()


def test_a_session_local_queryable_is_not_declared(queryables: LocalQueryables, face: RecordingSender) -> None:
    local = queryable(5, "a", origin=Locality.SESSION_LOCAL)
    queryables.declare(local)
    queryables.undeclare(local)
    assert face.sent == []


def test_matching_considers_origin_and_completeness(queryables: LocalQueryables) -> None:
    anywhere = queryable(1, "a/*")
    complete = queryable(2, "a/**", complete=True)
    local = queryable(3, "a/1", origin=Locality.SESSION_LOCAL)
    remote = queryable(4, "a/1", origin=Locality.REMOTE)
    for declared in (anywhere, complete, local, remote):
        queryables.declare(declared)

    def ids(target: wire.QueryTarget, *, is_local: bool) -> set[int]:
        return {found.id for found in queryables.matching("a/1", target, is_local)}

    assert ids(ALL, is_local=True) == {1, 2, 3}
    assert ids(ALL, is_local=False) == {1, 2, 4}
    assert ids(ALL_COMPLETE, is_local=True) == {2}


def test_matches_are_cached_until_a_queryable_changes(
    queryables: LocalQueryables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queryables_module, "MAX_CACHED_MATCHES", 2)
    queryables.declare(queryable(1, "**"))
    version = queryables.version
    first = queryables.matching("a", ALL, True)
    assert queryables.matching("a", ALL, True) is first
    queryables.matching("b", ALL, True)
    queryables.matching("c", ALL, True)  # one too many: all are dropped
    assert queryables.matching("a", ALL, True) is not first
    added = queryable(2, "a")
    queryables.declare(added)
    assert {found.id for found in queryables.matching("a", ALL, True)} == {1, 2}
    queryables.undeclare(added)
    assert [found.id for found in queryables.matching("a", ALL, True)] == [1]
    assert queryables.version == version + 2


def test_replies_and_one_final_are_sent_through_the_router(
    peer: Session, queryables: LocalQueryables, face: RecordingSender
) -> None:
    targets = [queryable(number, "a") for number in (1, 2)]
    for target in targets:
        queryables.declare(target)
    face.sent.clear()
    queryables.receive(request("a"), peer._runtime.node.local_face)
    for target in targets:
        with received(target) as query:
            query.reply("a", b"x")
    kinds = [type(message).__name__ for message in face.sent]
    assert kinds == ["Response", "Response", "ResponseFinal"]
    assert {message.request_id for message in face.sent} == {7}
    assert [message.responder.eid for message in face.sent[:2]] == [1, 2]


def test_a_query_that_no_queryable_matches_is_finished_at_once(
    peer: Session, queryables: LocalQueryables, face: RecordingSender
) -> None:
    queryables.receive(request("a"), peer._runtime.node.local_face)
    assert [type(message).__name__ for message in face.sent] == ["ResponseFinal"]


def test_a_full_queryable_pauses_the_link_of_the_querier(router: Session, client: Session) -> None:
    (link_face,) = router._runtime.node.drivers
    full = queryable(99, "q", capacity=1)
    router._runtime.queryables.declare(full)
    driver = router._runtime.node.driver(link_face)
    assert driver is not None
    with router._runtime.lock:
        router._runtime.queryables.receive(request("q"), link_face)
        assert driver._paused
        router._runtime.queryables.undeclare(full)
        assert not driver._paused


@pytest.mark.slow
def test_droppable_replies_to_a_slow_querier_do_not_block_publications() -> None:
    """A querier that takes nothing loses replies in the router; what else their sender publishes arrives meanwhile."""
    received_end = threading.Event()
    queue = "transport__link__tx__queue__congestion_control"
    timeouts = {f"{queue}__block__wait_before_close": 600_000_000, f"{queue}__drop__wait_before_drop": 600_000_000}
    with listening("router", **timeouts) as router, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected("client", router, **timeouts)) for _ in range(3)]
        querying, subscribing, replying = clients
        subscribing.declare_subscriber("end", lambda _: received_end.set())
        queryable = replying.declare_queryable("q", FifoChannel(1))
        querier = querying.declare_querier("q", timeout=600, consolidation=ConsolidationMode.NONE)
        publisher = replying.declare_publisher("end", congestion_control=CongestionControl.BLOCK)
        until(lambda: querier.matching_status.matching and publisher.matching_status.matching)
        replies = querier.get(handler=FifoChannel(1))

        def reply_and_publish() -> None:
            with queryable.recv() as query:
                for _ in range(300):
                    query.reply("q", bytes(100_000), congestion_control=CongestionControl.DROP)
            publisher.put(b"")

        thread = threading.Thread(target=reply_and_publish, daemon=True)
        thread.start()
        assert received_end.wait(TIMEOUT_SECONDS)
        thread.join(TIMEOUT_SECONDS)
        assert 0 < sum(1 for _ in replies) < 300
