"""Invalid replies: the querier loses none of the valid ones."""

from __future__ import annotations

import threading
from functools import partial

from tests.hostile.raw import RawPeer
from tests.unit.api.sessions import address, connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.types.enums import CongestionControl, Priority
from zenspark.types.query import Query
from zenspark.wire import messages
from zenspark.wire.messages import (
    Declare,
    DeclareQueryable,
    NetworkMessage,
    Put,
    Reply,
    Request,
    Response,
    ResponseFinal,
)
from zenspark.wire.values import Congestion, QoS, WireExpr
from zenspark.wire.values import Priority as WirePriority


def reply_to(peer: RawPeer) -> None:
    """Reply to one request: first with an invalid key, then with a valid one."""
    until(lambda: peer.read(0.05) and any(isinstance(message, Request) for message in peer.received))
    number = next(message.request_id for message in peer.received if isinstance(message, Request))
    replies: list[NetworkMessage] = [
        Response(request_id=number, wire_expr=WireExpr(0, key), body=Reply(body=Put(payload=key.encode())))
        for key in ("a#b", "", "/", "a")
    ]
    assert peer.send(*replies, ResponseFinal(request_id=number))


def replies(session: Session) -> list[bytes]:
    return [reply.ok.payload.to_bytes() for reply in session.get("a", timeout=TIMEOUT_SECONDS) if reply.ok is not None]


def test_reply_with_an_invalid_key_is_ignored() -> None:
    """By the node that queries its own neighbour, and by a client that queries through a router."""
    with listening("router") as router, connected("client", router) as client:
        for querier in (router, client):
            with RawPeer(address(router)) as peer:
                assert peer.send(Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, "a"))))
                replying = threading.Thread(target=reply_to, args=(peer,))
                replying.start()
                assert until(partial(replies, querier)) == [b"a"]  # none as long as the queryable is not known
                replying.join()
        assert client.info.transports()


def test_a_reply_that_may_be_dropped_does_not_wait_for_a_querier_that_does_not_read() -> None:
    ended = threading.Event()

    def reply_to(query: Query) -> None:
        with query:
            for _ in range(2000):
                query.reply("a", bytes(10_000), congestion_control=CongestionControl.DROP)
        ended.set()

    with listening("router") as router, RawPeer(address(router), receive_buffer=4096) as peer:
        queryable = router.declare_queryable("a", reply_to)
        request = Request(request_id=1, wire_expr=WireExpr(0, "a"), qos=QoS.REQUEST, body=messages.Query())
        assert peer.send(request)
        assert ended.wait(TIMEOUT_SECONDS)
        (counters,) = router.info.link_counters()
        dropped = counters.dropped["congestion"]
        until(lambda: not peer.read(0.05) and peer.received and isinstance(peer.received[-1], ResponseFinal))
        assert len(peer.received) == 2000 - dropped + 1
        queryable.undeclare()


def test_the_final_comes_behind_replies_of_lower_priority() -> None:
    with listening("router") as router, RawPeer(address(router)) as peer:
        queryable = router.declare_queryable("a", partial(reply_with, [Priority.REAL_TIME, Priority.BACKGROUND]))
        assert peer.send(Request(request_id=1, wire_expr=WireExpr(0, "a"), qos=QoS.REQUEST, body=messages.Query()))
        until(lambda: not peer.read(0.05) and len(peer.received) == 3)
        *_, final = peer.received
        assert final == ResponseFinal(request_id=1, qos=QoS(WirePriority.BACKGROUND, Congestion.BLOCK))
        queryable.undeclare()


def reply_with(priorities: list[Priority], query: Query) -> None:
    """Reply once with each priority."""
    with query:
        for priority in priorities:
            query.reply("a", priority.name, priority=priority)
