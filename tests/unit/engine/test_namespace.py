"""Keys with a namespace before them; the cases with wildcards are what eclipse-zenoh 1.10.2 made of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.optional import some
from tests.unit.api.sessions import connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.engine.namespace import Namespace
from zenspark.types.enums import Locality
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareToken,
    Err,
    Push,
    Put,
    Reply,
    Response,
    ResponseFinal,
)
from zenspark.wire.values import WireExpr


@pytest.mark.parametrize(
    ("key", "inside"),
    [
        ("a/b/x", "x"),
        ("a/b/x/y", "x/y"),
        ("k", None),
        ("a", None),
        ("a/b", None),
        ("a/bc/x", None),
        ("a/*/w", "w"),
        ("a/b$*/w", "w"),
        ("**/w", "**/w"),
        ("a/b/**", "**"),
        ("a/**", "**"),
        ("**", "**"),
        ("*", None),
        ("a/b/@x/1", "@x/1"),
        ("@/1/router", "@/1/router"),
    ],
)
def test_received_keys_lose_the_namespace(key: str, inside: str | None) -> None:
    assert Namespace("a/b").strip_prefix(key) == inside


@pytest.mark.parametrize(("key", "outside"), [("k", "a/b/k"), ("**", "a/b/**"), ("@x", "a/b/@x"), ("@/**", "@/**")])
def test_sent_keys_get_the_namespace(key: str, outside: str) -> None:
    assert Namespace("a/b").add_prefix(key) == outside
    assert Namespace("a/b").strip_prefix(outside) == key


def test_namespace_is_added_to_and_stripped_from_messages() -> None:
    namespace = Namespace("n")
    push = Push(wire_expr=WireExpr(0, "k"), body=Put(payload=b""))
    token = Declare(body=DeclareToken(id=1, wire_expr=WireExpr(0, "k")))
    for message in (push, token):
        assert namespace.strip_from_message(message) is None
        assert namespace.strip_from_message(namespace.add_to_message(message)) == message
        assert Namespace(None).add_to_message(message) is message
        assert Namespace(None).strip_from_message(message) is message
    assert namespace.add_to_message(push).wire_expr == WireExpr(0, "n/k")
    for keyless in (ResponseFinal(request_id=1), Declare(body=DeclareFinal())):
        assert namespace.add_to_message(keyless) is keyless
        assert namespace.strip_from_message(keyless) is keyless


def test_error_reply_is_delivered_whatever_its_key() -> None:
    for key in ("", "k", "n/k"):
        error = Response(request_id=1, wire_expr=WireExpr(0, key), body=Err(payload=b"Timeout"))
        assert Namespace("n").strip_from_message(error) is error
    reply = Response(request_id=1, wire_expr=WireExpr(0, "k"), body=Reply(body=Put(payload=b"")))
    assert Namespace("n").strip_from_message(reply) is None


def test_query_outside_the_namespace_is_finished_at_once() -> None:
    with listening("peer", namespace="n") as inside, connected("peer", inside) as outside:
        inside.declare_queryable("**", lambda query: query.reply("k", "in"))
        with outside.declare_querier("n/k") as querier:
            until(lambda: querier.matching_status.matching)
        assert [str(some(reply.ok).key_expr) for reply in outside.get("n/*", timeout=TIMEOUT_SECONDS)] == ["n/k"]
        assert list(outside.get("n", timeout=TIMEOUT_SECONDS)) == []


def test_publications_reach_only_sessions_of_the_same_namespace() -> None:
    with (
        listening("router") as router,
        connected("client", router, namespace="one") as first,
        connected("client", router, namespace="one") as second,
        connected("client", router, namespace="two") as third,
    ):
        here, there = second.declare_subscriber("k"), third.declare_subscriber("k")
        publisher = first.declare_publisher("k")
        until(lambda: publisher.matching_status.matching)
        publisher.put("1")
        first.put("k", "2")
        assert [here.recv(TIMEOUT_SECONDS).payload.to_string() for _ in range(2)] == ["1", "2"]
        assert there.try_recv() is None


def test_rows_of_a_batch_are_sent_with_the_namespace() -> None:
    with listening("peer") as there, connected("peer", there, namespace="n") as here:
        own, subscriber = here.declare_subscriber("k/*"), there.declare_subscriber("**")
        with here.declare_publisher("k/1", allowed_destination=Locality.REMOTE) as probe:
            until(lambda: probe.matching_status.matching)
        here.put_batch(pa.RecordBatch.from_pydict({"key": ["k/1", "k/2"], "payload": [b"1", b"2"]}))
        here.put_batch(pa.RecordBatch.from_pydict({"key": ["k/3"], "payload": [b"3"]}))
        assert [str(subscriber.recv(TIMEOUT_SECONDS).key_expr) for _ in range(3)] == ["n/k/1", "n/k/2", "n/k/3"]
        assert [str(own.recv(TIMEOUT_SECONDS).key_expr) for _ in range(3)] == ["k/1", "k/2", "k/3"]
