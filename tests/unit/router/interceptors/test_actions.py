"""What messages do, what takes them back, what ends them, and how large they are."""

from __future__ import annotations

import pytest

from tests.unit.router.interceptors.sample_messages import declare, delete, failure, interest, put, query, reply
from zenspark.router.face import DeclarationKind
from zenspark.router.interceptors.actions import (
    action_of,
    get_declared_ref,
    get_undeclared_ref,
    make_final,
    payload_and_attachment_size,
    payload_size,
)
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Del,
    NetworkMessage,
    NetworkOam,
    Put,
    ResponseFinal,
    UndeclareKeyexpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import BoundExpr, InterestMode, Mapping, QoS, WireExpr

A = WireExpr(0, "a")
NULL = WireExpr(0, "", Mapping.RECEIVER)


@pytest.mark.parametrize(
    ("message", "action"),
    [
        (put("a"), "put"),
        (delete("a"), "delete"),
        (query("a"), "query"),
        (reply("a", Put(payload=b"")), "reply"),
        (failure("a", b""), "reply"),
        (declare(DeclareSubscriber(id=1, wire_expr=A)), "declare_subscriber"),
        (declare(DeclareQueryable(id=1, wire_expr=A)), "declare_queryable"),
        (declare(DeclareToken(id=1, wire_expr=A)), "liveliness_token"),
        (declare(UndeclareSubscriber(id=0, ext_wire_expr=A)), "declare_subscriber"),
        (declare(UndeclareQueryable(id=0, ext_wire_expr=A)), "declare_queryable"),
        (declare(UndeclareToken(id=0, ext_wire_expr=A)), "liveliness_token"),
        (interest(InterestMode.CURRENT, "a"), "liveliness_query"),
        (interest(InterestMode.FUTURE, "a"), "declare_liveliness_subscriber"),
        (interest(InterestMode.CURRENT_FUTURE, "a"), "declare_liveliness_subscriber"),
    ],
)
def test_action_of_messages(message: NetworkMessage, action: str) -> None:
    assert action_of(message) == (action, A)


@pytest.mark.parametrize(
    "message",
    [
        declare(DeclareKeyexpr(expr_id=1, wire_expr=BoundExpr(0, "a"))),
        declare(UndeclareKeyexpr(expr_id=1)),
        declare(DeclareFinal()),
        declare(UndeclareSubscriber(id=1)),
        declare(UndeclareToken(id=1, ext_wire_expr=NULL)),
        interest(InterestMode.CURRENT, "a", tokens=False),
        interest(InterestMode.FINAL, "a"),
        ResponseFinal(request_id=1),
        NetworkOam(id=1),
    ],
)
def test_messages_without_action(message: NetworkMessage) -> None:
    assert action_of(message) is None


def test_an_interest_in_everything_has_no_key() -> None:
    assert action_of(interest(InterestMode.CURRENT, None)) == ("liveliness_query", None)


def test_undeclare_has_the_reference_of_its_declaration() -> None:
    for made, ended, kind in (
        (DeclareSubscriber(id=7, wire_expr=A), UndeclareSubscriber(id=7), DeclarationKind.SUBSCRIBER),
        (DeclareQueryable(id=7, wire_expr=A), UndeclareQueryable(id=7), DeclarationKind.QUERYABLE),
        (DeclareToken(id=7, wire_expr=A), UndeclareToken(id=7), DeclarationKind.TOKEN),
    ):
        assert get_declared_ref(declare(made)) == get_undeclared_ref(declare(ended)) == (kind, 7)
        assert get_undeclared_ref(declare(made)) is get_declared_ref(declare(ended)) is None
    begun, over = interest(InterestMode.FUTURE, "a", 7), interest(InterestMode.FINAL, None, 7)
    assert get_declared_ref(begun) == get_undeclared_ref(over) == (None, 7)
    assert get_undeclared_ref(begun) is get_declared_ref(over) is None
    assert get_declared_ref(put("a")) is get_undeclared_ref(put("a")) is None
    assert get_declared_ref(declare(DeclareToken(id=0, wire_expr=A))) is None


def test_queries_and_interests_have_a_final() -> None:
    assert make_final(query("a", number=3)) == ResponseFinal(request_id=3, qos=QoS.DEFAULT)
    final = Declare(interest_id=4, qos=QoS.DECLARE, body=DeclareFinal())
    assert make_final(interest(InterestMode.CURRENT, "a", 4)) == final
    assert make_final(interest(InterestMode.FINAL, None, 4)) is None
    assert make_final(put("a")) is None


@pytest.mark.parametrize(
    ("message", "payload", "whole"),
    [
        (put("a", b"123"), 3, 3),
        (put("a", b"123", b"45"), 3, 5),
        (delete("a"), 0, 0),
        (delete("a", b"45"), 0, 2),
        (query("a"), 0, 0),
        (query("a", b"123", b"4"), 3, 4),
        (query("a", attachment=b"4"), 0, 1),
        (reply("a", Put(payload=b"123", attachment=b"4")), 3, 4),
        (reply("a", Del(attachment=b"4")), 0, 1),
        (failure("a", b"123"), 3, 3),
        (ResponseFinal(request_id=1), 0, 0),
    ],
)
def test_payload_and_attachment_sizes_of_messages(message: NetworkMessage, payload: int, whole: int) -> None:
    assert (payload_size(message), payload_and_attachment_size(message)) == (payload, whole)
