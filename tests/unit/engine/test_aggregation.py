"""One declaration for many."""

from __future__ import annotations

from tests.unit.api.sessions import connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.engine.aggregation import DeclarationAggregation
from zenspark.key import KeyExpr
from zenspark.router.face import DeclarationKind


def test_aggregated_key_is_declared_by_the_first_and_undeclared_by_the_last() -> None:
    keys = DeclarationAggregation(["a/**", "a/*"])
    assert keys.is_used
    assert keys.join(1, KeyExpr("z")) == (1, KeyExpr("z"))
    assert keys.join(2, KeyExpr("a/x")) == (2, KeyExpr("a/**"))
    assert keys.join(3, KeyExpr("a/y/z")) is None
    assert keys.join(4, KeyExpr("**")) == (4, KeyExpr("**"))
    assert keys.leave(2, KeyExpr("a/x")) is None
    assert keys.leave(3, KeyExpr("a/y/z")) == 2
    assert keys.leave(1, KeyExpr("z")) == 1
    assert keys.join(5, KeyExpr("a/x")) == (5, KeyExpr("a/**"))
    assert not DeclarationAggregation().is_used


def declared(session: Session, kind: DeclarationKind) -> set[str]:
    """What the neighbours of a session have declared."""
    node = session._runtime.node
    with node.lock:
        return {one.key for face in node.drivers for one in face.declared[kind].values()}


def test_aggregated_subscribers_share_one_declaration_and_get_only_matching_samples() -> None:
    settings = {"aggregation__subscribers": ["a/**"], "routing__peers": "broker"}
    with listening("peer") as there, connected("peer", there, **settings) as here:
        one, two = here.declare_subscriber("a/1"), here.declare_subscriber("a/2")
        other = here.declare_subscriber("b/1")
        until(lambda: declared(there, DeclarationKind.SUBSCRIBER) == {"a/**", "b/1"})
        for key in ("a/0", "a/1", "a/2", "b/1"):
            there.put(key, key)
        assert [each.recv(TIMEOUT_SECONDS).payload.to_string() for each in (one, two, other)] == ["a/1", "a/2", "b/1"]
        one.undeclare()
        there.put("a/2", "still")
        assert two.recv(TIMEOUT_SECONDS).payload.to_string() == "still"
        two.undeclare()
        until(lambda: declared(there, DeclarationKind.SUBSCRIBER) == {"b/1"})


def test_aggregated_publishers_have_their_own_matching_status() -> None:
    with listening("router") as there, connected("client", there, aggregation__publishers=["p/**"]) as here:
        one, two = here.declare_publisher("p/1"), here.declare_publisher("p/2")
        with there.declare_subscriber("p/2") as subscriber:
            until(lambda: two.matching_status.matching)
            assert not one.matching_status.matching
            one.undeclare()
            two.put("x")
            assert subscriber.recv(TIMEOUT_SECONDS).payload.to_string() == "x"
        until(lambda: not two.matching_status.matching)
        three = here.declare_publisher("p/3")
        two.undeclare()
        with there.declare_subscriber("p/*"):
            until(lambda: three.matching_status.matching)
