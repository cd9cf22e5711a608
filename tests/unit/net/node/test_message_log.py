"""What is logged of messages: what they are, their numbers and keys, and nothing that is too long."""

from __future__ import annotations

import logging

import pytest

from zenspark.net.node import message_log
from zenspark.net.node.message_log import format_message
from zenspark.router.face import Face, Region
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareSubscriber,
    Interest,
    NetworkMessage,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
    UndeclareSubscriber,
)
from zenspark.wire.values import InterestMode, WhatAmI, WireExpr, ZenohId

KEY = WireExpr(0, "a/b")


def resolve(expr: WireExpr) -> str | None:
    return expr.suffix if not expr.scope else None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Declare(body=DeclareSubscriber(id=7, wire_expr=KEY)), "DeclareSubscriber id=7 key='a/b'"),
        (Declare(body=UndeclareSubscriber(id=7)), "UndeclareSubscriber id=7"),
        (Declare(interest_id=3, body=DeclareFinal()), "DeclareFinal for interest 3"),
        (Interest(id=3, mode=InterestMode.CURRENT, wire_expr=KEY), "Interest id=3 key='a/b' mode=CURRENT"),
        (Request(request_id=9, wire_expr=KEY, body=Query(parameters="p=1")), "Request id=9 key='a/b' parameters='p=1'"),
        (Response(request_id=9, wire_expr=KEY, body=Reply(body=Put(payload=b"x"))), "Response id=9 key='a/b' Reply"),
        (ResponseFinal(request_id=9), "ResponseFinal id=9"),
        (Declare(body=DeclareSubscriber(id=7, wire_expr=WireExpr(5, ""))), "DeclareSubscriber id=7 key=?"),
        (Declare(body=DeclareSubscriber(id=7, wire_expr=WireExpr(0, "a\n"))), r"DeclareSubscriber id=7 key='a\n'"),
    ],
)
def test_a_message_is_one_line(message: NetworkMessage, text: str) -> None:
    assert format_message(message, resolve) == text


def test_keys_are_shortened() -> None:
    message = Declare(body=DeclareSubscriber(id=7, wire_expr=WireExpr(0, "k" * 60_000)))
    assert len(format_message(message, resolve)) < 300


def test_publications_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    face = Face(1, ZenohId(0xA1), WhatAmI.PEER, Region.PEER)
    face.address = "tcp/127.0.0.1:1"
    with caplog.at_level(logging.DEBUG, "zenspark.net.messages"):
        assert message_log.is_enabled()
        message_log.log_sent(face, Push(wire_expr=KEY, body=Put(payload=b"x")))
        message_log.log_sent(face, ResponseFinal(request_id=9))
        message_log.log_received(face, ResponseFinal(request_id=8))
    assert caplog.messages == [
        "sent to peer a1 (tcp/127.0.0.1:1): ResponseFinal id=9",
        "received from peer a1 (tcp/127.0.0.1:1): ResponseFinal id=8",
    ]
