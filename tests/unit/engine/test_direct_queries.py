"""Questions pass between a session and its neighbour without the router, and mean the same as through it."""

from __future__ import annotations

from collections.abc import Iterable
from types import MethodType
from typing import Any

import pytest

from tests.optional import some
from tests.unit.api.sessions import connected, listening, pair
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.engine.direct_queries import DirectQueries, DirectReplyHandle, ReplyTemplate
from zenspark.engine.reply_collector import ReplyCollector
from zenspark.key import KeyExpr
from zenspark.net.loop.event_loop import Timer
from zenspark.router.face import Face, Region
from zenspark.router.router import Router
from zenspark.types.enums import CongestionControl, ConsolidationMode, Locality, Priority
from zenspark.types.query import Query, reply_stored
from zenspark.types.sample import SampleHeader
from zenspark.types.timestamp_stack import TimestampInstrumentationBuilder
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.message_schema import replace


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests and responses that the routers of all nodes receive."""
    received: list[str] = []
    receive = Router.receive

    def write_down(self: Router, face: Face, message: messages.NetworkMessage, now: float) -> object:
        if isinstance(message, messages.Request | messages.Response | messages.ResponseFinal):
            received.append(message.NAME)
        return receive(self, face, message, now)

    monkeypatch.setattr(Router, "receive", write_down)
    return received


def get_payloads(session: Session, key: str, **options: Any) -> list[bytes]:  # noqa: ANN401 - those of get
    """The replies: payloads, and errors in capital letters."""
    replies = session.get(key, timeout=TIMEOUT_SECONDS, **options)
    return sorted(bytes(reply.ok.payload) if reply.ok else bytes(reply.err.payload).upper() for reply in replies)


@pytest.mark.parametrize(("here", "there"), [("peer", "peer"), ("router", "client"), ("router", "peer")])
def test_direct_queries_do_not_pass_the_router(routed: list[str], here: str, there: str) -> None:
    with pair(here, there) as (one, other):
        one.declare_queryable("q/one", lambda query: query.reply("q/one", b"one"))
        other.declare_queryable("q/other", lambda query: query.reply_err(b"other"))
        until(lambda: get_payloads(other, "q/one") == [b"one"])
        until(lambda: get_payloads(one, "q/other") == [b"OTHER"])
        del routed[:]
        assert get_payloads(other, "q/one") == [b"one"]
        assert get_payloads(one, "q/other") == [b"OTHER"]
        assert get_payloads(one, "q/other", allowed_destination=Locality.REMOTE) == [b"OTHER"]
        assert routed == []


def test_reply_does_not_depend_on_the_previous_reply(router: Session, client: Session) -> None:
    def reply_to(query: Query) -> None:
        query.reply("q/a", b"1")
        query.reply("q/b", b"2")
        query.reply("q/b", b"3", encoding="text/plain")
        query.reply("q/b", b"4", encoding="text/plain", attachment=b"more", timestamp=router.new_timestamp())
        query.reply_del("q/c")
        query.reply("q/a", b"5")

    router.declare_queryable("q/*", reply_to)
    get_payloads(client, "q/*", priority=Priority.REAL_TIME)
    get_payloads(client, "q/*")
    found = list(client.get("q/*?_anyke", consolidation=ConsolidationMode.NONE, timeout=TIMEOUT_SECONDS))
    samples = [reply.ok for reply in found]
    assert [(str(some(one).key_expr), bytes(some(one).payload), str(some(one).encoding)) for one in samples] == [
        ("q/a", b"1", "zenoh/bytes"),
        ("q/b", b"2", "zenoh/bytes"),
        ("q/b", b"3", "text/plain"),
        ("q/b", b"4", "text/plain"),
        ("q/c", b"", "zenoh/bytes"),
        ("q/a", b"5", "zenoh/bytes"),
    ]
    assert some(samples[3]).attachment == b"more"
    assert some(samples[3]).timestamp is not None
    assert {some(reply.replier_id).zid for reply in found} == {router.zid()}


def test_query_routes_are_resolved_again_when_they_change(router: Session, client: Session) -> None:
    querier = client.declare_querier("q")

    def found() -> list[bytes]:
        return sorted(bytes(some(reply.ok).payload) for reply in querier.get())

    assert found() == []
    first = router.declare_queryable("q", lambda query: query.reply("q", b"router"))
    until(lambda: found() == [b"router"])
    own = client.declare_queryable("q", lambda query: query.reply("q", b"client"))
    assert querier.get(parameters="x").recv().ok  # through the router, and to this session itself
    own.undeclare()
    assert found() == [b"router"]
    with connected("client", router) as other:
        other.declare_queryable("q", lambda query: query.reply("q", b"other"))
        first.undeclare()
        until(lambda: found() == [b"other"])
    until(lambda: found() == [])


def test_querier_finds_a_queryable_declared_after_its_first_query(peer: Session) -> None:
    querier = peer.declare_querier("q")
    assert list(querier.get()) == []
    peer.declare_queryable("q", lambda query: query.reply("q", b"yes"))
    assert [bytes(some(reply.ok).payload) for reply in querier.get()] == [b"yes"]


def test_query_route_is_resolved_again_after_a_key_mapping_is_removed(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b"yes"))
    querier = client.declare_querier("q")
    until(lambda: list(querier.get()))
    route = querier._default_request.route
    assert route is not None
    face = route.targets[0].face
    face.add_key_mapping(messages.DeclareKeyexpr(expr_id=77, wire_expr=wire.BoundExpr(0, "q")))
    face.remove_key_mapping(77)
    assert len(list(querier.get())) == 1
    assert querier._default_request.route is not route


@pytest.mark.parametrize("others", [{"namespace": "ns"}, {"adminspace__enabled": True}])
def test_query_with_a_namespace_goes_through_the_router(routed: list[str], others: dict[str, object]) -> None:
    with listening("peer", **others) as one, connected("peer", one, **others) as other:
        one.declare_queryable("q", lambda query: query.reply("q", b"yes"))
        until(lambda: get_payloads(other, "q") == [b"yes"])
        assert ("Request" in {name.title() for name in routed}) == ("namespace" in others)


def test_query_with_timestamp_instrumentation_goes_through_the_router(
    routed: list[str], router: Session, client: Session
) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b"yes"))
    stamps = TimestampInstrumentationBuilder().set_send(True).build()
    assert get_payloads(client, "q", timestamp_instrumentation=stamps) == [b"yes"]
    assert routed


def test_query_with_a_budget_goes_through_the_router(router: Session, client: Session) -> None:
    kept: list[Query] = []
    router.declare_queryable("q", kept.append)
    client.get("q", timeout=TIMEOUT_SECONDS)
    (query,) = until(lambda: kept)
    request = query._require_handle().request
    direct, face = router._runtime.direct_queries, next(iter(router._runtime.node.drivers))
    for changed in ({"budget": 1}, {"node_id": 0, "wire_expr": wire.WireExpr(99, "")}, {"target": 2}):
        with router._runtime.lock:
            refused = direct.try_accept(face, replace(request, **changed))
        assert (refused is None) == ("target" not in changed)
        if refused is not None:
            refused.finish()


def test_late_reply_to_a_finished_direct_query_is_dropped(router: Session, client: Session) -> None:
    kept: list[Query] = []
    router.declare_queryable("q", kept.append)
    assert get_with_short_timeout(client) == [b"Timeout"]
    (query,) = until(lambda: kept)
    send_reply = query._require_handle().send_reply
    assert isinstance(send_reply, MethodType)
    handle = send_reply.__self__
    assert isinstance(handle, DirectReplyHandle)
    until(lambda: handle._is_finished)
    before = router._runtime.direct_queries._response_template
    query.reply("q", b"late")
    query.drop()
    assert router._runtime.direct_queries._response_template is before


def test_stored_publications_are_replied_with_all_their_fields(router: Session, client: Session) -> None:
    """Whatever the fields of the replies before were."""
    bare = messages.Put(payload=b"1")
    bodies = [
        bare,
        replace(bare, source_info=wire.SourceInfo(wire.ZenohId(3), 4, 5)),
        bare,
        replace(bare, timestamp=wire.Timestamp(7, wire.ZenohId(3))),
        replace(bare, attachment=b"more"),
    ]

    def reply_to(query: Query) -> None:
        for body in bodies:
            reply_stored(query, KeyExpr("q"), body)

    router.declare_queryable("q", reply_to)
    for _ in range(2):
        found = [reply.ok for reply in client.get("q", consolidation=ConsolidationMode.NONE, timeout=TIMEOUT_SECONDS)]
        assert [some(one).source_info is not None for one in found] == [False, True, False, False, False]
        assert [some(one).timestamp is not None for one in found] == [False, False, False, True, False]
        assert [some(one).attachment for one in found] == [None, None, None, None, b"more"]


@pytest.mark.parametrize("priority", [Priority.REAL_TIME, Priority.DATA, Priority.BACKGROUND])
def test_replies_have_the_priority_of_the_query(router: Session, client: Session, priority: Priority) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b"yes"))
    for _ in range(2):
        (reply,) = client.get("q", priority=priority, timeout=TIMEOUT_SECONDS)
        assert some(reply.ok).priority is priority


def test_reply_key_follows_the_current_key_mapping(router: Session, client: Session) -> None:
    """A neighbour may give a number to another key."""
    direct, face = client._runtime.direct_queries, next(iter(client._runtime.node.drivers))
    expr = wire.WireExpr(55, "", wire.Mapping.SENDER)
    body = messages.Reply(body=messages.Put(payload=b"1"))
    response = messages.Response(request_id=999, wire_expr=expr, body=body)
    found: list[str] = []
    with client._runtime.lock:
        for key in ("a", "a", "b"):
            face.add_key_mapping(messages.DeclareKeyexpr(expr_id=55, wire_expr=wire.BoundExpr(0, key)))
            for _ in range(2):
                reply = direct._make_reply(face, response, wire.QoS.DEFAULT)
                assert reply is not None
                assert reply.ok is not None
                found.append(str(reply.ok.key_expr))
            face.remove_key_mapping(55)
        assert direct._make_reply(face, response, wire.QoS.DEFAULT) is None
    assert found == ["a", "a", "a", "a", "b", "b"]


@pytest.mark.parametrize(
    "extra",
    [{"timestamp": wire.Timestamp(7, wire.ZenohId(3))}, {"source_info": wire.SourceInfo(wire.ZenohId(3), 4, 5)}],
)
def test_reply_keeps_its_own_fields_after_an_equal_one_without(client: Session, extra: dict[str, Any]) -> None:
    direct, face = client._runtime.direct_queries, next(iter(client._runtime.node.drivers))
    bare = messages.Put(payload=b"1")
    response = messages.Response(request_id=999, wire_expr=wire.WireExpr(0, "q"), body=messages.Reply(body=bare))
    full = replace(response, body=messages.Reply(body=replace(bare, **extra)))
    with client._runtime.lock:
        direct._make_reply(face, response, wire.QoS.DEFAULT)
        sample = some(some(direct._make_reply(face, full, wire.QoS.DEFAULT)).ok)
    assert (sample.timestamp is not None, sample.source_info is not None) == (
        "timestamp" in extra,
        "source_info" in extra,
    )


def test_reply_template_does_not_match_another_responder() -> None:
    face = Face(1, wire.ZenohId(1), wire.WhatAmI.ROUTER, Region.UPSTREAM)
    one, other = wire.EntityId(wire.ZenohId(1), 1), wire.EntityId(wire.ZenohId(1), 2)
    put, expr, qos = messages.Put(payload=b"1"), wire.WireExpr(0, "q"), wire.QoS.DEFAULT
    response = messages.Response(request_id=1, wire_expr=expr, responder=one, body=messages.Reply(body=put))
    template = ReplyTemplate(face, 0, expr, one, put.encoding, qos, SampleHeader(KeyExpr("q")), None)
    assert template.matches(face, response, put, qos)
    assert not template.matches(face, replace(response, responder=other), put, qos)


def test_equal_requests_of_two_neighbours_get_a_reply_each(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: None)
    direct = router._runtime.direct_queries
    request = messages.Request(request_id=1, wire_expr=wire.WireExpr(0, "q"), body=messages.Query())
    with connected("client", router):
        faces = list(router._runtime.node.drivers)
        with router._runtime.lock:
            handles = [some(direct.try_accept(face, request)) for face in faces]
        assert [handle._face for handle in handles] == faces
        for handle in handles:
            handle.finish()


def test_droppable_reply_to_a_congested_link_is_counted_as_dropped(
    router: Session, client: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = router.declare_queryable("q")
    replies = client.get("q", timeout=TIMEOUT_SECONDS)
    (driver,) = router._runtime.node.link_drivers
    with queries.recv(TIMEOUT_SECONDS) as query:
        monkeypatch.setattr(driver, "wait_until_drained", lambda _: False)
        query.reply("q", b"1", congestion_control=CongestionControl.DROP)
    assert list(replies) == []
    assert [counters.dropped for counters in router.info.link_counters()] == [{"congestion": 1}]


def get_with_short_timeout(session: Session) -> list[bytes]:
    return [bytes(some(reply.err).payload) for reply in session.get("q", timeout=0.05)]


def test_querier_gets_a_timeout_error_of_a_silent_queryable(
    router: Session, client: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it could wait longer than its timeout."""
    kept: list[Query] = []
    router.declare_queryable("q", kept.append)
    timer = Timer(client._runtime.node.loop, 0.0, lambda: None)
    monkeypatch.setattr(client._runtime.node.loop, "call_at", lambda when, work: timer)
    found = list(client.get("q", timeout=0.05))
    assert [bytes(some(reply.err).payload) for reply in found] == [b"Timeout"]
    assert some(found[0].replier_id).zid == router.zid()


def test_the_error_of_a_session_has_the_key_of_the_query(
    router: Session, client: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RE-19: in the place of its silent queryables; one without a key, as 1.10.2 sends it, is taken too."""
    queries = router.declare_queryable("q/*")
    sent: list[messages.Response] = []
    reply = DirectQueries._make_reply

    def write_down(self: DirectQueries, face: Face, response: messages.Response, qos: wire.QoS) -> object:
        sent.append(replace(response, wire_expr=wire.WireExpr(0, face.resolve(response.wire_expr) or "")))
        return reply(self, face, replace(response, wire_expr=wire.WireExpr()), qos)

    monkeypatch.setattr(DirectQueries, "_make_reply", write_down)
    until(lambda: client.declare_querier("q/a").matching_status.matching)
    monkeypatch.setattr(
        client._runtime.node.loop, "call_at", lambda *_: Timer(client._runtime.node.loop, 0.0, lambda: None)
    )
    found = list(client.get("q/a", timeout=0.05))
    assert [bytes(some(reply.err).payload) for reply in found] == [b"Timeout"]
    assert [response.wire_expr.suffix for response in sent] == ["q/a"]
    queries.recv(TIMEOUT_SECONDS).drop()


def test_pending_direct_queries_finish_when_the_neighbour_leaves(router: Session) -> None:
    kept: list[Query] = []
    with connected("client", router) as client:
        client.declare_queryable("q", kept.append)
        until(lambda: router.declare_querier("q").matching_status.matching)
        found = router.get("q", timeout=100.0)
        until(lambda: kept)
        kept[0].reply("q", b"first")
    assert [bytes(some(reply.ok).payload) for reply in found] == [b"first"]
    assert not any(router._runtime.direct_queries._pending.values())


def test_finished_direct_queries_release_all_state(router: Session) -> None:
    kept: list[Query] = []
    router.declare_queryable("q", kept.append)
    direct = router._runtime.direct_queries
    with connected("client", router) as client:
        until(lambda: client.declare_querier("q").matching_status.matching)
        replies = client.get("q", timeout=100.0)
        until(lambda: kept)
        kept.pop().drop()
        assert list(replies) == []
        (accepted,) = direct._accepted.values()
        assert accepted == set()
        client.get("q", timeout=100.0)
        until(lambda: kept)
        (handle,) = accepted
    until(lambda: not direct._accepted)
    assert handle._timer.task is None, "the timeout of a querier that left is cancelled"


def test_replies_to_unknown_request_ids_are_left_to_the_router(router: Session, client: Session) -> None:
    face = next(iter(router._runtime.node.drivers))
    final = messages.ResponseFinal(request_id=12345)
    with router._runtime.lock:
        assert not router._runtime.try_handle(face, final)
        assert not router._runtime.try_handle(face, messages.Interest(id=1, mode=wire.InterestMode.FINAL))


def test_replies_on_unknown_keys_are_ignored(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: None)
    found: list[object] = []
    collector = ReplyCollector(None, ConsolidationMode.NONE, _ListSink(found), 1)
    face = next(iter(client._runtime.node.drivers))
    direct = client._runtime.direct_queries
    with client._runtime.lock:
        direct._pending.setdefault(face, {})[999] = collector, wire.QoS.DEFAULT
        response = messages.Response(
            request_id=999, wire_expr=wire.WireExpr(99, ""), body=messages.Err(payload=b"who?")
        )
        assert direct.try_handle_reply(face, response)
        assert direct.try_handle_reply(face, messages.ResponseFinal(request_id=999))
    assert found == []


class _ListSink:
    """Where replies are put."""

    def __init__(self, found: list[object]) -> None:
        self._found = found

    def push(self, item: object) -> bool:
        self._found.append(item)
        return True

    def push_many(self, items: Iterable[object]) -> bool:
        self._found.extend(items)
        return True

    def close(self) -> None:
        pass


def test_queries_that_wait_for_a_queryable_count_against_the_limit_of_their_session() -> None:
    with listening("router", limits__session__queries=3) as router, connected("client", router) as client:
        waiting = router.declare_queryable("q")
        until(lambda: client.declare_querier("q").matching_status.matching)
        in_flight = [client.get("q", timeout=TIMEOUT_SECONDS) for _ in range(3)]
        assert get_payloads(client, "q") == get_payloads(client, "q") == [b"TOO MANY QUERIES IN FLIGHT"]
        assert router.info.refusals() == {"queries": 2}
        for _ in in_flight:
            with waiting.recv(TIMEOUT_SECONDS) as query:
                query.reply("q", b"served")
        assert [bytes(some(reply.ok).payload) for replies in in_flight for reply in replies] == [b"served"] * 3
        again = client.get("q", timeout=TIMEOUT_SECONDS)
        waiting.recv(TIMEOUT_SECONDS).drop()
        assert list(again) == []
