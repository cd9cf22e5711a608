"""Replies that are none: whoever asked loses nothing by them."""

from __future__ import annotations

import threading
from functools import partial

from tests.hostile.raw import RawPeer
from tests.unit.api.sessions import address, connected, listening
from tests.waiting import PATIENCE, until
from zenspark.api.session import Session
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
from zenspark.wire.values import WireExpr


def answer(peer: RawPeer) -> None:
    """Answer one request: first under a key that is none, then as it should be."""
    until(lambda: peer.read(0.05) and any(isinstance(message, Request) for message in peer.received))
    number = next(message.request_id for message in peer.received if isinstance(message, Request))
    replies: list[NetworkMessage] = [
        Response(request_id=number, wire_expr=WireExpr(0, key), body=Reply(body=Put(payload=key.encode())))
        for key in ("a#b", "", "/", "a")
    ]
    assert peer.send(*replies, ResponseFinal(request_id=number))


def replies(session: Session) -> list[bytes]:
    return [reply.ok.payload.to_bytes() for reply in session.get("a", timeout=PATIENCE) if reply.ok is not None]


def test_a_reply_under_a_broken_key_is_passed_over() -> None:
    """By the node that asks its own neighbour, and by a client that asks through a router."""
    with listening("router") as router, connected("client", router) as client:
        for asker in (router, client):
            with RawPeer(address(router)) as peer:
                assert peer.send(Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, "a"))))
                answering = threading.Thread(target=answer, args=(peer,))
                answering.start()
                assert until(partial(replies, asker)) == [b"a"]  # none as long as the queryable is not known
                answering.join()
        assert client.info.transports()
