"""The page Routing: what of it is in the messages themselves and in the matching of keys."""

from __future__ import annotations

import pytest

from tests.conformance.drawn import exact
from zenspark.key import KeyExpr
from zenspark.wire.messages import Declare, DeclareFinal, DeclareQueryable, Interest
from zenspark.wire.values import InterestMode, Mapping, QoS, QueryableInfo, WireExpr

MEETING = [
    ("sensors/**", "sensors/a/temperature", "sensors/a/temperature"),
    ("a/*/c", "*/b/*", "a/b/c"),
    ("a/**", "**/b", "a/b"),
    ("x/$*abc", "x/abc$*", "x/abc"),
    ("**", "a", "a"),
]
APART = [("a/b", "a"), ("a/*", "a/b/c"), ("a/**/b", "a/x/c"), ("**", "@a"), ("a", "A")]


@pytest.mark.parametrize(("a", "b", "witness"), MEETING)
def test_keys_intersect_where_one_key_matches_both(a: str, b: str, witness: str) -> None:
    """RO-11, RO-30: two key expressions intersect if some key matches both."""
    assert KeyExpr(a).intersects(b)
    assert KeyExpr(b).intersects(a)
    assert KeyExpr(a).includes(witness)
    assert KeyExpr(b).includes(witness)


@pytest.mark.parametrize(("a", "b"), APART)
def test_disjoint_keys_do_not_intersect(a: str, b: str) -> None:
    """RO-11, RO-30: where no key matches both, nothing is forwarded."""
    assert not KeyExpr(a).intersects(b)
    assert not KeyExpr(b).intersects(a)


def test_node_id_names_the_source_router() -> None:
    """RO-8: captured between routers: the sender's own declaration has no NodeId, a relayed one names its source."""
    own = exact("9e 21 08 62 00 01 03 2f2a2a")
    relayed = exact("9e a1 08 33 02 46 00 02")
    assert (own.node_id, relayed.node_id) == (0, 2)


def test_interest_requests_declarations_and_final_ends_them() -> None:
    """RO-25: what a late joiner sends and what ends the reply, as captured."""
    interest = exact("f9 01 53 01 21 08")
    assert interest == Interest(
        mode=InterestMode.CURRENT_FUTURE,
        id=1,
        subscribers=True,
        keyexprs=True,
        wire_expr=WireExpr(1, "", Mapping.SENDER),
        qos=QoS.DECLARE,
    )
    assert exact("be 01 21 08 1a") == Declare(interest_id=1, qos=QoS.DECLARE, body=DeclareFinal())


def test_complete_flag_of_a_queryable() -> None:
    """RO-18: a queryable announces in its declaration whether it is complete."""
    complete = exact("9e 21 08 e4 05 02 03 2f2a2a 21 01")
    incomplete = exact("9e 21 08 44 06 03")
    assert isinstance(complete.body, DeclareQueryable)
    assert (complete.body.info, incomplete.body.info) == (QueryableInfo(complete=True), QueryableInfo())
