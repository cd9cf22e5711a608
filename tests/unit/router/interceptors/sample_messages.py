"""Messages for tests of interceptors."""

from __future__ import annotations

from zenspark.router.interceptors.rules import NeighbourAttributes
from zenspark.wire.messages import (
    AnyDeclaration,
    Declare,
    Del,
    Err,
    Interest,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
)
from zenspark.wire.values import Encoding, InterestMode, QoS, QueryBody, WireExpr, ZenohId

PEER_ATTRIBUTES = NeighbourAttributes(ZenohId(0xA1), ("lo",), "tcp", "anna", "anna.example")
UNKNOWN_PEER = NeighbourAttributes(ZenohId(0xB2))


def put(key: str, payload: bytes = b"", attachment: bytes | None = None, qos: QoS = QoS.DEFAULT) -> Push:
    return Push(wire_expr=WireExpr(0, key), qos=qos, body=Put(payload=payload, attachment=attachment))


def delete(key: str, attachment: bytes | None = None) -> Push:
    return Push(wire_expr=WireExpr(0, key), body=Del(attachment=attachment))


def query(key: str, payload: bytes | None = None, attachment: bytes | None = None, number: int = 1) -> Request:
    value = None if payload is None else QueryBody(Encoding.BYTES, payload)
    return Request(request_id=number, wire_expr=WireExpr(0, key), body=Query(body=value, attachment=attachment))


def reply(key: str, body: Put | Del) -> Response:
    return Response(request_id=1, wire_expr=WireExpr(0, key), body=Reply(body=body))


def failure(key: str, payload: bytes) -> Response:
    return Response(request_id=1, wire_expr=WireExpr(0, key), body=Err(payload=payload))


def declare(body: AnyDeclaration) -> Declare:
    return Declare(qos=QoS.DECLARE, body=body)


def interest(mode: InterestMode, key: str | None, number: int = 1, tokens: bool = True) -> Interest:
    expr = None if key is None else WireExpr(0, key)
    return Interest(id=number, mode=mode, tokens=tokens, subscribers=not tokens, wire_expr=expr)
