"""Action and key of a message, in the terms of the interceptor configuration."""

from __future__ import annotations

from typing import TypeAlias

from zenspark.router.face import KIND_BY_DECLARATION, KIND_BY_UNDECLARATION, DeclarationKind
from zenspark.router.interceptors.rules import InterceptedAction
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Del,
    Err,
    Interest,
    NetworkMessage,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import InterestMode, QoS, WireExpr

DATA_ACTIONS: frozenset[InterceptedAction] = frozenset(("put", "delete", "query", "reply"))
"""Actions that carry a payload."""

_DECLARE_ACTIONS: dict[DeclarationKind, InterceptedAction] = {
    DeclarationKind.SUBSCRIBER: "declare_subscriber",
    DeclarationKind.QUERYABLE: "declare_queryable",
    DeclarationKind.TOKEN: "liveliness_token",
}
_INTEREST_ACTIONS: dict[InterestMode, InterceptedAction] = {
    InterestMode.CURRENT: "liveliness_query",
    InterestMode.FUTURE: "declare_liveliness_subscriber",
    InterestMode.CURRENT_FUTURE: "declare_liveliness_subscriber",
}

DeclarationRef: TypeAlias = tuple[DeclarationKind | None, int]
"""Kind and id by which a declaration, or an interest (None), is undeclared."""


def action_of(message: NetworkMessage) -> tuple[InterceptedAction, WireExpr | None] | None:
    """Action of a message, and its wire expression; None if no rule applies to it."""
    match message:
        case Push(wire_expr=expr, body=body):
            return "put" if isinstance(body, Put) else "delete", expr
        case Request(wire_expr=expr):
            return "query", expr
        case Response(wire_expr=expr):
            return "reply", expr
        case Interest(tokens=True, mode=mode, wire_expr=expr) if mode is not InterestMode.FINAL:
            return _INTEREST_ACTIONS[mode], expr
        case Declare(body=DeclareSubscriber() | DeclareQueryable() | DeclareToken() as body):
            return _DECLARE_ACTIONS[KIND_BY_DECLARATION[type(body)]], body.wire_expr
        case Declare(body=UndeclareSubscriber() | UndeclareQueryable() | UndeclareToken() as body):
            if body.ext_wire_expr is not None and (body.ext_wire_expr.scope or body.ext_wire_expr.suffix):
                return _DECLARE_ACTIONS[KIND_BY_UNDECLARATION[type(body)]], body.ext_wire_expr
    return None


def get_declared_ref(message: NetworkMessage) -> DeclarationRef | None:
    """Reference of the declaration or interest that a message begins. None for a declaration with id 0: it is never
    undeclared, or it is undeclared by its key expression."""
    match message:
        case Declare(body=DeclareSubscriber() | DeclareQueryable() | DeclareToken() as body) if body.id:
            return KIND_BY_DECLARATION[type(body)], body.id
        case Interest(mode=mode, id=interest_id) if mode is not InterestMode.FINAL:
            return None, interest_id
    return None


def get_undeclared_ref(message: NetworkMessage) -> DeclarationRef | None:
    """Reference of the declaration or interest that a message ends."""
    match message:
        case Declare(body=UndeclareSubscriber() | UndeclareQueryable() | UndeclareToken() as body):
            return KIND_BY_UNDECLARATION[type(body)], body.id
        case Interest(mode=InterestMode.FINAL, id=interest_id):
            return None, interest_id
    return None


def make_final(message: NetworkMessage) -> NetworkMessage | None:
    """Final message for a query or interest that is not forwarded, so that its sender does not wait; None for other
    messages."""
    match message:
        case Request(request_id=request_id, qos=qos):
            return ResponseFinal(request_id=request_id, qos=qos)
        case Interest(mode=mode, id=interest_id) if mode is not InterestMode.FINAL:
            return Declare(interest_id=interest_id, qos=QoS.DECLARE, body=DeclareFinal())
    return None


def payload_size(message: NetworkMessage) -> int:
    """Bytes of the payload of a message."""
    return _sizes(message)[0]


def payload_and_attachment_size(message: NetworkMessage) -> int:
    """Bytes of the payload and the attachment of a message."""
    return sum(_sizes(message))


def _sizes(message: NetworkMessage) -> tuple[int, int]:
    match message:
        case Push(body=body):
            return _sample_sizes(body)
        case Request(body=Query(body=value, attachment=attachment)):
            return 0 if value is None else len(value.payload), len(attachment or b"")
        case Response(body=Err(payload=payload)):
            return len(payload), 0
        case Response(body=Reply(body=body)):
            return _sample_sizes(body)
    return 0, 0


def _sample_sizes(body: Put | Del) -> tuple[int, int]:
    return len(body.payload) if isinstance(body, Put) else 0, len(body.attachment or b"")
