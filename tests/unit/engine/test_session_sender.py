"""Sending to the router of a session's own node."""

from __future__ import annotations

from typing import Any, cast

from zenspark.engine.namespace import Namespace
from zenspark.engine.session_sender import SessionSender
from zenspark.net.node.node import Node
from zenspark.wire import messages
from zenspark.wire.values import QoS, WireExpr

TOKEN = messages.DeclareToken(id=1, wire_expr=WireExpr(0, "a"))


class RecordingNode:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send_local(self, message: messages.NetworkMessage) -> list[str]:
        self.sent.append(message)
        return ["link"]


def test_keys_are_sent_with_the_namespace() -> None:
    node = RecordingNode()
    sender = SessionSender(cast("Node", node), Namespace("ns"))
    links = sender.send(messages.Request(request_id=1, wire_expr=WireExpr(0, "a"), body=messages.Query()))
    assert links == ["link"]  # type: ignore[comparison-overlap]  # equal by design
    assert [message.wire_expr.suffix for message in node.sent] == ["ns/a"]


def test_declarations_are_sent_with_the_qos_of_declarations() -> None:
    node = RecordingNode()
    SessionSender(cast("Node", node), Namespace(None)).declare(TOKEN)
    assert node.sent == [messages.Declare(qos=QoS.DECLARE, body=TOKEN)]


def test_nothing_is_declared_after_close() -> None:
    node = RecordingNode()
    sender = SessionSender(cast("Node", node), Namespace(None))
    sender.is_closed = True
    sender.declare(TOKEN)
    assert node.sent == []
