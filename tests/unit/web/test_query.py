"""Queries, puts and deletes of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.api.sessions import connected
from tests.unit.web.served import context_of, opened, send_request, serving
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.types.query import Query
from zenspark.web import query as query_module
from zenspark.web.server import HttpServer


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened() as made:
        yield made


@pytest.fixture
def server(session: Session) -> Iterator[HttpServer]:
    with serving(session, write=True) as made:
        yield made


def test_query_returns_replies_with_latency_and_replier(session: Session, server: HttpServer) -> None:
    def on_query(query: Query) -> None:
        with query:
            if "bad" in query.parameters:
                query.reply_err("no")
            else:
                payload = query.payload.to_string() if query.payload else "none"
                query.reply("demo/a", payload, encoding="text/plain")

    with connected("client", session) as other:
        queryable = other.declare_queryable("demo/*", on_query)
        assert until(lambda: send_request(server, "/_api/query", {"selector": "demo/a"}).json["replies"])
        found = send_request(server, "/_api/query", {"selector": "demo/**?x", "payload": "hi", "target": "all"}).json
        (reply,) = found["replies"]
        assert (reply["ok"], reply["key"], reply["value"]["text"]) == (True, "demo/a", "hi")
        assert reply["replier"] == str(other.zid())
        assert 0 <= reply["latency_ms"] <= found["elapsed_ms"]
        assert not found["timed_out"]
        (error,) = send_request(server, "/_api/query", {"selector": "demo/a?bad"}).json["replies"]
        assert (error["ok"], error["key"], error["value"]["text"]) == (False, None, "no")
        queryable.undeclare()
    assert sum(context_of(server).counts.query_seconds.read()[0]) >= 3


def test_too_many_replies_are_left_out(session: Session, server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_module, "MAX_REPLIES", 2)

    def on_query(query: Query) -> None:
        with query:
            for number in range(5):
                query.reply(f"many/{number}", b"")

    queryable = session.declare_queryable("many/*", on_query)
    found = send_request(server, "/_api/query", {"selector": "many/*"}).json
    assert (len(found["replies"]), found["left_out"]) == (2, 3)
    queryable.undeclare()


def test_query_without_reply_is_reported_as_timed_out(session: Session, server: HttpServer) -> None:
    kept: list[Query] = []
    queryable = session.declare_queryable("late", kept.append)
    found = send_request(server, "/_api/query", {"selector": "late", "timeout_ms": 50}).json
    assert found["timed_out"]
    kept.clear()
    queryable.undeclare()


def test_api_put_and_delete_are_published(session: Session, server: HttpServer) -> None:
    subscriber = session.declare_subscriber("demo/**")
    assert send_request(server, "/_api/put", {"key": "demo/a", "payload": "{}", "encoding": "text/json"}).status == 204
    assert send_request(server, "/_api/put", {"key": "demo/b", "payload": "AP8=", "base64": True}).status == 204
    assert send_request(server, "/_api/delete", {"key": "demo/a"}).status == 204
    first, second, third = (subscriber.recv(TIMEOUT_SECONDS) for _ in range(3))
    assert (first.payload.to_bytes(), str(first.encoding)) == (b"{}", "text/json")
    assert second.payload.to_bytes() == b"\x00\xff"
    assert third.kind.name == "DELETE"


def test_server_without_write_setting_rejects_put_and_delete(session: Session) -> None:
    subscriber = session.declare_subscriber("demo/**")
    with serving(session) as server:
        for path, body in ("/_api/put", {"key": "demo/a"}), ("/_api/delete", {"key": "demo/a"}):
            reply = send_request(server, path, body)
            assert (reply.status, "--http-write" in reply.error) == (403, True)
        for method in ("PUT", "PATCH", "DELETE"):
            assert send_request(server, "/demo/a", b"", method=method).status == 403
        assert context_of(server).counts.refused == {"read_only": 5}
    assert subscriber.try_recv() is None


@pytest.mark.parametrize(
    ("path", "document", "message"),
    [
        ("query", {"selector": "a", "target": "some"}, "expected target to be one of best_matching, all"),
        ("query", {"selector": "a", "consolidation": "x"}, "expected consolidation to be one of auto, none"),
        ("query", {"selector": ""}, "key expression"),
        ("query", b"{", "expected a JSON document: "),
        ("query", b"\xff", "expected a JSON document: "),
        ("put", {"key": "a", "payload": "!", "base64": True}, "expected base64 as payload"),
        ("put", {"key": "/a"}, "key expression"),
        ("put", {"payload": "a"}, "expected a JSON document: Object missing required field `key`"),
        ("delete", [], "expected a JSON document: "),
    ],
)
def test_invalid_requests_are_status_400(path: str, document: object, message: str, server: HttpServer) -> None:
    reply = send_request(server, f"/_api/{path}", document)
    assert (reply.status, reply.error[: len(message)]) == (400, message)


@pytest.mark.slow
def test_value_is_the_newest_seen_or_the_stored_one(session: Session, server: HttpServer) -> None:
    missing = send_request(server, "/_api/value?key=demo/a")
    assert (missing.status, missing.error) == (404, "this node has seen no value of 'demo/a', and no storage has one")
    queryable = session.declare_queryable("demo/a", lambda query: query.reply("demo/a", "stored"))
    assert send_request(server, "/_api/value?key=demo/a").json["value"]["text"] == "stored"
    queryable.undeclare()
    send_request(server, "/_api/keys?key_expr=demo/**")
    session.put("demo/a", "seen")
    assert until(lambda: send_request(server, "/_api/value?key=demo/a").json.get("value", {}).get("text") == "seen")


def test_access_control_applies_to_queries_and_the_past() -> None:
    rules = [
        {
            "id": "in",
            "permission": "deny",
            "key_exprs": ["shut/**"],
            "flows": ["ingress"],
            "messages": ["query", "put"],
        },
        {"id": "out", "permission": "deny", "key_exprs": ["half/b"], "flows": ["egress"], "messages": ["reply"]},
    ]
    control = {
        **{"enabled": True, "default_permission": "allow", "rules": rules},
        "subjects": [{"id": "web", "link_protocols": ["http"]}],
        "policies": [{"rules": ["in", "out"], "subjects": ["web"]}],
    }

    def on_query(query: Query) -> None:
        with query:
            for key in ("half/a", "half/b"):
                query.reply(key, key, timestamp=own.new_timestamp())

    with opened(access_control=control) as own, serving(own, write=True) as server:
        queryable = own.declare_queryable("half/*", on_query)
        for path in ("value?key=shut/a", "past?key=shut/a", "past/at?key=shut/a&time=0", "export?key=shut/a"):
            reply = send_request(server, f"/_api/{path}")
            assert (reply.status, reply.error) == (403, "access control denies query on 'shut/a'")
        assert send_request(server, "/_api/query", {"selector": "shut/a"}).status == 403
        assert send_request(server, "/_api/put", {"key": "shut/a"}).status == 403
        found = send_request(server, "/_api/query", {"selector": "half/*"}).json["replies"]
        assert [each["key"] for each in found] == ["half/a"]
        assert [each["key"] for each in send_request(server, "/_api/past?key=half/*").json["samples"]] == ["half/a"]
        assert send_request(server, "/_api/value?key=half/a").status == 200
        assert send_request(server, "/_api/value?key=half/b").status == 404
        queryable.undeclare()
