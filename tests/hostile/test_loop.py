"""A loop that nothing ends: timeouts beyond what pollers count, and what happens if it ends all the same."""

from __future__ import annotations

import threading

import pytest

import zenspark.api.open
from tests.hostile.raw import RawPeer
from tests.optional import some
from tests.unit.api.sessions import address, config, connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.errors import SessionClosed
from zenspark.net.loop.event_loop import EventLoop
from zenspark.types.query import Query
from zenspark.wire.messages import Declare, DeclareQueryable, Request, Response, ResponseFinal
from zenspark.wire.messages import Query as QueryBody
from zenspark.wire.values import QueryableInfo, WireExpr

KEY = WireExpr(0, "a/b")
FAR = [2_200_000_000, 2**63]
"""Milliseconds that no poller can wait for, the second more than a float counts exactly."""


def request(number: int, timeout_ms: int) -> Request:
    return Request(request_id=number, wire_expr=KEY, timeout_ms=timeout_ms, body=QueryBody())


def has_no_timer_but_one(session: Session) -> bool:
    loop = session._runtime.node.loop
    return len([entry for entry in loop._timers if entry[2].task is not None]) <= 1


@pytest.mark.parametrize("timeout_ms", FAR)
def test_a_request_with_a_timeout_beyond_all_bounds_does_not_end_the_loop(timeout_ms: int) -> None:
    with listening("router", transport__unicast__accept_timeout=100) as session:
        with RawPeer(address(session)) as queryable, RawPeer(address(session)) as querier:
            info = QueryableInfo(complete=True)
            assert queryable.send(Declare(body=DeclareQueryable(id=1, wire_expr=KEY, info=info)))
            until(lambda: querier.send(request(1, timeout_ms)) and has_request(queryable))
        until(lambda: not session.info.transports())
        until(lambda: has_no_timer_but_one(session))
        with (
            connected("client", session) as honest,
            session.declare_queryable("c", lambda query: query.reply("c", b"")),
        ):
            assert [reply.ok is not None for reply in honest.get("c", timeout=TIMEOUT_SECONDS)] == [True]


def has_request(peer: RawPeer) -> bool:
    peer.read(0.02)
    return any(isinstance(message, Request) for message in peer.received)


@pytest.mark.parametrize("timeout", [3_000_000, 2.0**53])
def test_get_with_a_huge_timeout_waits_for_its_reply(timeout: float) -> None:
    kept: list[Query] = []
    with listening("peer") as session, session.declare_queryable("a/b", kept.append):
        replies = session.get("a/b", timeout=timeout)
        until(lambda: kept)
        turned = threading.Event()
        session._runtime.call_soon(turned.set)
        assert turned.wait(TIMEOUT_SECONDS)
        with kept.pop() as query:
            query.reply("a/b", b"late")
        assert [some(reply.ok).payload.to_bytes() for reply in replies] == [b"late"]


def test_a_request_of_a_neighbour_is_kept_for_the_configured_time_at_most() -> None:
    with (
        listening("router", queries_max_timeout=50) as session,
        RawPeer(address(session)) as querier,
        RawPeer(address(session)) as queryable,
    ):
        assert queryable.send(Declare(body=DeclareQueryable(id=1, wire_expr=KEY, info=QueryableInfo(True))))
        until(lambda: querier.send(request(1, 2**63)) and has_request(queryable))
        until(lambda: querier.read(0.05) and any(isinstance(one, ResponseFinal) for one in querier.received))
        assert any(isinstance(one, Response) for one in querier.received), "the querier gets an error when time is up"


def test_a_request_to_the_session_itself_is_kept_for_the_configured_time_at_most() -> None:
    kept: list[Query] = []
    with (
        listening("router", queries_max_timeout=50) as session,
        session.declare_queryable("a/b", kept.append),
        RawPeer(address(session)) as querier,
    ):
        assert querier.send(request(1, 2**63))
        until(lambda: querier.read(0.05) and any(isinstance(one, ResponseFinal) for one in querier.received))


def test_queries_of_a_disconnected_neighbour_leave_no_timer() -> None:
    kept: list[Query] = []
    with listening("router") as session, session.declare_queryable("a/b", kept.append):
        with RawPeer(address(session)) as querier:
            assert querier.send(*(request(number, 2**40) for number in range(100)))
            until(lambda: len(kept) == 100)
        until(lambda: not session.info.transports())
        until(lambda: has_no_timer_but_one(session))
        for query in kept:
            query.reply("a/b", b"nobody is there")


def test_session_is_closed_if_its_event_loop_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("zenspark.net.loop.event_loop.FAILED_TURN_PAUSE_SECONDS", 0.001)
    session = zenspark.api.open.open(config("peer", ["tcp/127.0.0.1:0"]))
    with connected("peer", session) as other:
        subscriber, replies = session.declare_subscriber("a"), other.get("never", timeout=TIMEOUT_SECONDS)
        break_loop(session._runtime.node.loop)
        until(session.is_closed)
        with pytest.raises(SessionClosed):
            session.put("a", b"")
        assert list(subscriber) == [], "whoever waits for samples is woken: none will come"
        assert list(replies) == []
        until(lambda: not other.info.transports())
        session.close()
    assert any(record.levelname == "CRITICAL" for record in caplog.records)


def break_loop(loop: EventLoop) -> None:
    """Make every further turn of a loop fail."""

    def fail(_: int) -> None:
        raise OSError("broken")

    loop._turn = fail  # type: ignore[method-assign, assignment]
    loop.call_soon(lambda: None)
