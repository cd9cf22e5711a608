"""All interceptors of one flow together: their order, what is remembered, and what is taken back."""

from __future__ import annotations

import pytest

from tests.unit.router.interceptors.sample_messages import PEER_ATTRIBUTES, UNKNOWN_PEER, declare, interest, put, query
from zenspark.key import KeyExpr
from zenspark.key.limits import MAX_CACHED_KEY_CHARACTERS
from zenspark.router.interceptors import chain as module
from zenspark.router.interceptors.access_control import AccessRules
from zenspark.router.interceptors.chain import InterceptorChain, InterceptorConfig
from zenspark.router.interceptors.rules import (
    AccessPolicy,
    AccessRule,
    AccessSubject,
    DownsamplingItem,
    Flow,
    InterceptedAction,
    LowPassItem,
    OverwriteItem,
    QosChange,
    Rate,
)
from zenspark.wire.messages import DeclareFinal, DeclareSubscriber, NetworkMessage, Push, Put, UndeclareSubscriber
from zenspark.wire.values import InterestMode, Priority, WireExpr

NUMBERS = {7: "shut"}


def resolve(expr: WireExpr) -> str | None:
    if not expr.scope:
        return expr.suffix
    return NUMBERS[expr.scope] + expr.suffix if expr.scope in NUMBERS else None


def denying(*messages: InterceptedAction, keys: tuple[str, ...] = ("shut/**",)) -> AccessRules:
    rule = AccessRule(id="r", permission="deny", key_exprs=tuple(map(KeyExpr, keys)), messages=messages)
    return AccessRules("allow", [rule], [AccessSubject(id="s")], [AccessPolicy(rules=("r",), subjects=("s",))])


def sampling(key: str, frequency: float) -> DownsamplingItem:
    return DownsamplingItem(messages=("put",), rules=(Rate(key_expr=KeyExpr(key), freq=frequency),))


def limiting(key: str, limit: int) -> LowPassItem:
    return LowPassItem(messages=("put",), key_exprs=(KeyExpr(key),), size_limit=limit)


def make_chain(interception: InterceptorConfig, flow: Flow = "ingress") -> InterceptorChain:
    found = interception.make_chain(PEER_ATTRIBUTES, flow, resolve)
    assert found is not None
    return found


def passes(found: InterceptorChain, message: NetworkMessage, now: float = 0.0) -> bool:
    return found.intercept(message, True, now) is message


@pytest.mark.parametrize(
    "interception",
    [
        InterceptorConfig(),
        InterceptorConfig(access=AccessRules("allow")),
        InterceptorConfig(
            downsampling=(DownsamplingItem(messages=("put",), rules=(), interfaces=("lo",)),),
            low_pass=(LowPassItem(messages=("put",), key_exprs=(), size_limit=1, interfaces=("lo",)),),
            overwriting=(OverwriteItem(messages=("put",), overwrite=QosChange(), interfaces=("lo",)),),
        ),
    ],
)
def test_no_chain_where_everything_passes(interception: InterceptorConfig) -> None:
    assert interception.make_chain(UNKNOWN_PEER, "egress", resolve) is None


def test_each_interceptor_alone_makes_a_chain() -> None:
    assert not passes(make_chain(InterceptorConfig(access=denying("put"))), put("shut/a"))
    assert not passes(make_chain(InterceptorConfig(downsampling=(sampling("a", 0),))), put("a"))
    assert not passes(make_chain(InterceptorConfig(low_pass=(limiting("a", 1),))), put("a", b"12"))
    assert passes(make_chain(InterceptorConfig(low_pass=(limiting("a", 2),))), put("a", b"12"))
    item = OverwriteItem(messages=("put",), overwrite=QosChange(priority="background"))
    changed = make_chain(InterceptorConfig(overwriting=(item,))).intercept(put("a"), True, 0.0)
    assert changed is not None
    assert changed.qos.priority is Priority.BACKGROUND


def test_denied_message_uses_up_its_rate_slot() -> None:
    found = make_chain(InterceptorConfig(downsampling=(sampling("**", 1),), access=denying("put")))
    assert not passes(found, put("shut/a"), 0.0)
    assert not passes(found, put("open"), 0.5)
    assert passes(found, put("open"), 1.0)


def test_key_ids_are_resolved_and_invalid_keys_denied() -> None:
    found = make_chain(InterceptorConfig(access=denying("put", "liveliness_query")))
    for expr in (WireExpr(7, "/a"), WireExpr(8, "/a"), WireExpr(0, "a//b")):
        assert not passes(found, Push(wire_expr=expr, body=Put(payload=b"")))
    assert not passes(found, interest(InterestMode.CURRENT, None))
    assert passes(found, interest(InterestMode.CURRENT, "a"))


def test_cached_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_DECISIONS", 3)
    found = make_chain(InterceptorConfig(access=denying("put")))
    for number in range(10):
        assert passes(found, put(f"a/{number % 5}"))
        assert not passes(found, put(f"shut/{number % 5}"))
        assert len(found._decisions) <= 3
    evaluated: list[str] = []
    monkeypatch.setattr(found, "_evaluate", lambda action, key: evaluated.append(key))
    assert not passes(found, put("shut/4"))
    assert evaluated == []


def test_undeclare_of_a_suppressed_declaration_is_suppressed() -> None:
    found = make_chain(
        InterceptorConfig(access=denying("declare_subscriber", "declare_liveliness_subscriber")), "egress"
    )
    for number, key, is_free in ((1, "shut/a", False), (2, "open", True)):
        assert passes(found, declare(DeclareSubscriber(id=number, wire_expr=WireExpr(0, key)))) is is_free
        assert passes(found, declare(UndeclareSubscriber(id=number))) is is_free
    assert not passes(found, interest(InterestMode.FUTURE, "shut/a", 3))
    assert not passes(found, interest(InterestMode.FINAL, None, 3))
    assert passes(found, interest(InterestMode.FINAL, None, 3))
    assert not passes(found, declare(DeclareSubscriber(id=0, wire_expr=WireExpr(0, "shut/a"))))
    assert not passes(found, declare(UndeclareSubscriber(id=0, ext_wire_expr=WireExpr(0, "shut/a"))))
    assert passes(found, declare(UndeclareSubscriber(id=0, ext_wire_expr=WireExpr(0, "open"))))
    assert passes(found, declare(DeclareFinal()))


def test_undeclare_passes_ingress() -> None:
    found = make_chain(InterceptorConfig(access=denying("declare_subscriber", "query")))
    assert not passes(found, declare(DeclareSubscriber(id=1, wire_expr=WireExpr(0, "shut/a"))))
    assert passes(found, declare(UndeclareSubscriber(id=1)))
    assert passes(found, declare(UndeclareSubscriber(id=1, ext_wire_expr=WireExpr(0, "shut/a"))))
    assert not passes(found, query("shut/a"))


def test_decision_on_a_long_key_is_not_cached() -> None:
    chain = make_chain(InterceptorConfig(access=denying("put")))
    longest = "k" * MAX_CACHED_KEY_CHARACTERS
    for key in (longest, longest + "k"):
        assert passes(chain, put(key))
    assert [key for _, key in chain._decisions] == [longest]
