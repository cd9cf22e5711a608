"""The parts of a session that users never see."""

from __future__ import annotations

import threading

import pytest

from tests.unit.api.sessions import connected, listening, pair
from tests.unit.net.ends import meanwhile
from tests.waiting import PATIENCE, until
from zenspark.api.open import RESOLUTIONS
from zenspark.api.session import Session
from zenspark.engine.runtime import SessionRuntime
from zenspark.errors import SessionClosed
from zenspark.handlers.handler import FifoChannel
from zenspark.router.queries.handler import TOO_MANY_QUERIES_TEXT
from zenspark.types.enums import CongestionControl, InterceptionPoint
from zenspark.types.timestamp_stack import TimestampInstrumentationBuilder


def test_after_the_end_nothing_goes(peer: Session) -> None:
    runtime: SessionRuntime = peer._runtime
    runtime.check_open()
    peer.close()
    with pytest.raises(SessionClosed):
        runtime.check_open()
    runtime.entities.undeclare(12345)


def test_questions_leave_nothing_behind(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b""))
    client.declare_queryable("q", lambda query: query.reply("q", b""))
    before = len(client._runtime.entities)
    for _ in range(20):
        assert list(client.get("q", timeout=PATIENCE))
        list(client.liveliness().get("live/*", timeout=PATIENCE))
    list(client.get("q", timeout=0.0))
    until(lambda: not client._runtime.queries._collectors)
    assert not client._runtime.interests._interests
    assert len(client._runtime.entities) == before


def test_liveliness_questions_time_out_without_an_answer(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer._runtime.interests, "declare", lambda *_: None)
    (reply,) = peer.liveliness().get("live/*", timeout=0.01)
    assert reply.err.payload == b"Timeout"


def test_a_liveliness_question_ends_with_the_session(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer._runtime.interests, "declare", lambda *_: None)
    found = peer.liveliness().get("live/*", timeout=PATIENCE)
    peer.close()
    assert list(found) == []


def test_what_is_known_is_forgotten_when_it_goes(router: Session, client: Session) -> None:
    publisher = client.declare_publisher("a")
    subscriber = router.declare_subscriber("a")
    until(lambda: publisher.matching_status)
    publisher.undeclare()
    until(lambda: not client._runtime.interests._declarations)
    subscriber.undeclare()


def test_stacks_are_stamped_where_asked_for() -> None:
    instrumentation = TimestampInstrumentationBuilder().set_send(True).set_receive(True).build()
    with pair("router", "client") as (router, client):
        subscriber = router.declare_subscriber("a")
        client.put("a", b"", timestamp_instrumentation=instrumentation)
        stack = subscriber.recv(PATIENCE).timestamp_stack
        assert [record.point for record in stack.records] == [InterceptionPoint.SEND, InterceptionPoint.RECEIVE]
        assert str(client.zid()) in str(stack.records[0].timestamp())
        assert str(router.zid()) in str(stack.records[1].timestamp())


@pytest.mark.parametrize("size", [1, 200_000])
def test_a_full_channel_pauses_its_sender(router: Session, client: Session, size: int) -> None:
    full = router.declare_subscriber("much", FifoChannel(5))

    def send() -> None:
        for _ in range(100):
            client.put("much", b"x" * size, congestion_control=CongestionControl.BLOCK)

    sender = threading.Thread(target=send)
    sender.start()
    until(lambda: full._runtime.node.drivers and next(iter(full._runtime.node.drivers.values()))._paused)
    assert [len(full.recv(PATIENCE).payload) for _ in range(100)] == [size] * 100
    sender.join(PATIENCE)
    until(lambda: not next(iter(full._runtime.node.drivers.values()))._paused)


@pytest.mark.parametrize("namespace", [{}, {"namespace": "through/the/router"}], ids=["direct", "routed"])
def test_ids_of_requests_stay_within_the_resolution(
    monkeypatch: pytest.MonkeyPatch, namespace: dict[str, object]
) -> None:
    """QU-15: a session with an RID resolution of 8 bits asks with ids from 0 to 255, those in flight left out."""
    monkeypatch.setitem(RESOLUTIONS, "32bit", 0x02)
    asked: list[int] = []
    with listening("router", **namespace) as router, connected("client", router, **namespace) as client:
        queries = router.declare_queryable("q")
        until(lambda: client.declare_querier("q").matching_status.matching)
        slow = client.get("q", timeout=PATIENCE)
        kept = queries.recv(PATIENCE)
        for _ in range(300):
            replies = client.get("q", timeout=PATIENCE)
            with queries.recv(PATIENCE) as query:
                asked.append(query._require_handle().request.request_id)
                query.reply("q", "yes")
            assert len(list(replies)) == 1
        kept.reply("q", "late")
        kept.drop()
        assert [reply.ok.payload.to_string() for reply in slow] == ["late"]
    if not namespace:  # through the router the id is another on the way to the queryable
        assert asked == [*range(2, 256), 0, *range(2, 47)]


@pytest.mark.parametrize("namespace", [{}, {"namespace": "through/the/router"}], ids=["direct", "routed"])
def test_who_has_no_id_left_for_a_request_is_told(
    monkeypatch: pytest.MonkeyPatch, namespace: dict[str, object]
) -> None:
    monkeypatch.setitem(RESOLUTIONS, "32bit", 0x02)
    with listening("router", **namespace) as router, connected("client", router, **namespace) as client:
        queries = router.declare_queryable("q")
        until(lambda: client.declare_querier("q").matching_status.matching)
        in_flight = [client.get("q", timeout=PATIENCE) for _ in range(256)]
        (reply,) = client.get("q", timeout=PATIENCE)
        assert (reply.err.payload.to_bytes(), reply.replier_id.zid) == (TOO_MANY_QUERIES_TEXT, router.zid())
        for replies in in_flight:
            queries.recv(PATIENCE).drop()
            assert list(replies) == []


def test_who_declares_waits_for_a_link_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.net.io.writer.BACKLOG_LIMIT_BYTES", 10_000)
    with listening("router") as router, connected("client", router) as client:
        (reader,) = router._runtime.node.drivers.values()
        (writer,) = client._runtime.node.drivers.values()
        reader.pause()
        with meanwhile(lambda: [client.liveliness().declare_token(f"{n}/{'k' * 8000}") for n in range(1500)]) as made:
            until(lambda: writer.is_backlogged)
            reader.resume()
            tokens = made()
        assert writer.backlog < 1_000_000
        until(lambda: len(list(router.liveliness().get("*/*"))) == len(tokens))
