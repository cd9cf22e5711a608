"""A session behind HTTP; `tests/interop/test_rest.py` has eclipse-zenoh on the other side."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

import zenspark.api.open
from tests.unit.api.sessions import config
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.errors import LinkError, UsageError
from zenspark.types.query import Query
from zenspark.web import limits
from zenspark.web.server import HttpServer, RestServer, url_of
from zenspark.web.settings import HttpSettings


@pytest.fixture
def session() -> Iterator[Session]:
    settings = config("router", ["tcp/127.0.0.1:0"], id="a1", adminspace__enabled=True)
    with zenspark.api.open.open(settings) as opened:
        yield opened


@pytest.fixture
def rest(session: Session) -> Iterator[RestServer]:
    with RestServer(session, ("127.0.0.1", 0)) as served:
        yield served


@pytest.fixture
def connection(rest: RestServer) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection(urlsplit(rest.url).netloc, timeout=TIMEOUT_SECONDS)
    yield made
    made.close()


def send_request(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, str | None, bytes]:
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    return response.status, response.getheader("Content-Type"), response.read()


def on_query(query: Query) -> None:
    with query:
        if "bad" in query.parameters:
            query.reply_err("no", encoding="text/plain")
        else:
            fields = {"parameters": str(query.parameters), "payload": query.payload and query.payload.to_string()}
            query.reply("demo/a", json.dumps({**fields, "encoding": str(query.encoding)}), encoding="application/json")


def test_get_returns_the_replies_to_a_query_as_json(session: Session, connection: http.client.HTTPConnection) -> None:
    session.declare_queryable("demo/*", on_query)
    status, kind, body = send_request(connection, "GET", "/demo/**?x=1;y=%5B2%5D")
    assert (status, kind) == (200, "application/json")
    expected = {"parameters": "x=1;y=[2]", "payload": None, "encoding": "None"}
    assert json.loads(body) == [{"key": "demo/a", "value": expected, "encoding": "application/json", "timestamp": None}]
    assert send_request(connection, "GET", "/nobody") == (200, "application/json", b"[]")


def test_post_queries_with_a_payload(session: Session, connection: http.client.HTTPConnection) -> None:
    session.declare_queryable("demo/*", on_query)
    _, _, body = send_request(connection, "POST", "/demo/a", b"hello", Content_Type="text/plain; charset=utf-8")
    expected = {"parameters": "", "payload": "hello", "encoding": "text/plain;charset=utf-8"}
    assert [reply["value"] for reply in json.loads(body)] == [expected]


def test_error_reply_is_returned_with_the_key_error(session: Session, connection: http.client.HTTPConnection) -> None:
    session.declare_queryable("demo/*", on_query)
    _, _, body = send_request(connection, "GET", "/demo/a?bad")
    assert json.loads(body) == [{"key": "ERROR", "value": "no", "encoding": "text/plain", "timestamp": None}]
    assert send_request(connection, "GET", "/demo/a?bad;_raw") == (200, "text/plain", b"no")


def test_raw_is_the_payload_itself(session: Session, connection: http.client.HTTPConnection) -> None:
    session.declare_queryable("demo", lambda query: query.reply("demo", b"\x00\xff", encoding="image/png"))
    assert send_request(connection, "GET", "/demo?_raw=true") == (200, "image/png", b"\x00\xff")
    assert send_request(connection, "GET", "/nobody?_raw=true") == (200, None, b"")


def test_local_in_an_admin_space_path_is_the_own_zid(connection: http.client.HTTPConnection) -> None:
    for path in ("/@/local/router", "/@/a1/router"):
        (reply,) = json.loads(send_request(connection, "GET", path)[2])
        assert (reply["key"], reply["encoding"], reply["value"]["zid"]) == ("@/a1/router", "application/json", "a1")


def test_put_patch_and_delete_are_published(session: Session, connection: http.client.HTTPConnection) -> None:
    subscriber = session.declare_subscriber("demo/**")
    for method, path in ("PUT", "/demo/a"), ("PATCH", "/demo/b%20c"), ("DELETE", "/demo/a"):
        assert (
            send_request(connection, method, path, b"{}" if method != "DELETE" else None, Content_Type="text/json")[0]
            == 200
        )
        sample = subscriber.recv()
        key = path.replace("%20", " ").removeprefix("/")
        assert str(sample.key_expr) == key
        if method == "DELETE":
            assert sample.kind.name == "DELETE"
        else:
            assert (sample.kind.name, sample.payload.to_bytes(), str(sample.encoding)) == ("PUT", b"{}", "text/json")
    assert send_request(connection, "PUT", "/demo/a", b"x")[0] == 200
    assert str(subscriber.recv().encoding) == "zenoh/bytes"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "SUBSCRIBE"])
@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/", b"expected a key expression after the / of the URL\n"),
        ("/?x", b"expected a key expression after the / of the URL\n"),
        ("/a/", b"key expression 'a/', position 2: expected a chunk that is not empty\n"),
        (
            "/a/**b",
            b"key expression 'a/**b', position 2: expected `*` or `**` as a whole chunk, or `$*` inside one\n",
        ),
    ],
)
def test_invalid_key_is_rejected(method: str, path: str, line: bytes, connection: http.client.HTTPConnection) -> None:
    accept = "text/event-stream" if method == "SUBSCRIBE" else "*/*"
    status, kind, body = send_request(connection, "GET" if method == "SUBSCRIBE" else method, path, Accept=accept)
    assert (status, kind, body) == (400, "text/plain; charset=utf-8", line)


@pytest.mark.parametrize(
    ("headers", "status", "line"),
    [
        ({"Content-Length": "65"}, 413, b"expected at most 64 bytes in the body, found 65\n"),
        ({"Content-Length": "9" * 20}, 413, b"expected at most 64 bytes in the body, found 999"),
        ({"Content-Length": "9" * 5000}, 400, b"expected an HTTP request: bad Content-Length"),
        ({"Content-Length": "x"}, 400, b"expected an HTTP request: bad Content-Length"),
    ],
)
def test_oversized_or_invalid_content_length_is_rejected(
    headers: dict[str, str],
    status: int,
    line: bytes,
    connection: http.client.HTTPConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 64)
    connection.putrequest("PUT", "/demo")
    for header in headers.items():
        connection.putheader(*header)
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == status
    assert response.read().startswith(line)
    assert response.getheader("Connection") == "close"


def test_a_client_that_leaves_within_a_body_writes_nothing(session: Session, rest: RestServer) -> None:
    subscriber = session.declare_subscriber("demo/**")
    at = urlsplit(rest.url)
    with socket.create_connection((at.hostname, at.port)) as client:
        client.sendall(b"PUT /demo/half HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nhalf")
        client.shutdown(socket.SHUT_WR)
        client.settimeout(TIMEOUT_SECONDS)
        assert client.recv(100) == b""
    session.put("demo/next", b"")
    assert str(subscriber.recv().key_expr) == "demo/next"


def test_events(session: Session, connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/demo/**", headers={"Accept": "text/event-stream"})
    response = connection.getresponse()
    assert (response.status, response.getheader("Content-Type")) == (200, "text/event-stream")
    session.put("demo/a", b"\x01", encoding="zenoh/bytes")
    session.delete("demo/a")
    for kind, value in (b"PUT", base64.b64encode(b"\x01").decode()), (b"DELETE", None):
        assert response.readline() == b"event: %s\n" % kind
        document = json.loads(response.readline().removeprefix(b"data: "))
        assert (document["key"], document["value"]) == ("demo/a", value)
        assert response.readline() == b"\n"
    response.close()


def test_a_stream_ends_with_its_client(session: Session, rest: RestServer) -> None:
    publisher = session.declare_publisher("demo/a")
    at = urlsplit(rest.url)
    with socket.create_connection((at.hostname, at.port)) as client:
        client.sendall(b"GET /demo/** HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream, */*\r\n\r\n")
        client.settimeout(TIMEOUT_SECONDS)
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert until(lambda: publisher.matching_status.matching)
    assert until(lambda: not publisher.matching_status.matching)


@pytest.mark.slow
def test_a_stream_ends_when_events_stay_unread(
    session: Session, rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CLIENT_STALL_TIMEOUT_SECONDS", 0.05)
    publisher = session.declare_publisher("demo/a")
    at = urlsplit(rest.url)
    with socket.create_connection((at.hostname, at.port)) as client:
        client.sendall(b"GET /demo/** HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
        assert until(lambda: publisher.matching_status.matching)
        publisher.put(bytes(16 << 20))  # more than the buffers of two sockets hold
        assert until(lambda: not publisher.matching_status.matching)


def test_closing_ends_streams(session: Session) -> None:
    with RestServer(session, ("127.0.0.1", 0)) as rest:
        at = urlsplit(rest.url)
        client = socket.create_connection((at.hostname, at.port), timeout=TIMEOUT_SECONDS)
        client.sendall(b"GET /demo/** HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
        assert client.recv(1000).endswith(b"\r\n\r\n")
        assert until(lambda: rest._context.counts.event_streams)
    with client:
        assert client.recv(100) == b"0\r\n\r\n"  # the last chunk: the stream is complete
        assert client.recv(100) == b""
    assert not session.is_closed()


def test_a_closed_session_is_an_error_of_the_server(session: Session, connection: http.client.HTTPConnection) -> None:
    session.close()
    assert send_request(connection, "PUT", "/demo", b"x")[0] == 500


def test_requests_of_any_origin_are_allowed(connection: http.client.HTTPConnection) -> None:
    connection.request("OPTIONS", "/demo")
    response = connection.getresponse()
    assert response.read() == b""
    found = {name: value for name, value in response.getheaders() if name.startswith("access-control")}
    assert found == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
        "access-control-allow-headers": "*",
    }


def test_rest_server_on_a_port_in_use_raises_link_error(session: Session, rest: RestServer) -> None:
    port = urlsplit(rest.url).port
    assert port is not None
    with pytest.raises(LinkError, match=f"^http://127.0.0.1:{port}: cannot listen: "):
        RestServer(session, ("127.0.0.1", port))


def test_url_has_brackets_around_an_ipv6_address() -> None:
    assert url_of(("127.0.0.1", 1)) == "http://127.0.0.1:1"
    assert url_of(("::", 1)) == "http://[::]:1"


@pytest.mark.slow
def test_access_control_applies_to_clients() -> None:
    """Everything under shut/ is denied as it comes in; replies and publications on half/b as they go out."""
    rules = [
        {
            **{"id": "in", "permission": "deny", "key_exprs": ["shut/**"], "flows": ["ingress"]},
            "messages": ["put", "delete", "query", "declare_subscriber"],
        },
        {
            **{"id": "out", "permission": "deny", "key_exprs": ["half/b"], "flows": ["egress"]},
            "messages": ["put", "delete", "reply"],
        },
    ]
    control = {
        **{"enabled": True, "default_permission": "allow", "rules": rules},
        "subjects": [{"id": "web", "link_protocols": ["http"]}],
        "policies": [{"rules": ["in", "out"], "subjects": ["web"]}],
    }
    published: list[str] = []

    def reply_to_both(query: Query) -> None:
        with query:
            query.reply("half/a", "a")
            query.reply("half/b", "b")

    with (
        zenspark.api.open.open(config("router", access_control=control)) as session,
        RestServer(session, ("127.0.0.1", 0)) as rest,
    ):
        session.declare_subscriber("**", lambda sample: published.append(f"{sample.kind.name} {sample.key_expr}"))
        session.declare_queryable("half/*", reply_to_both)
        client = http.client.HTTPConnection(urlsplit(rest.url).netloc, timeout=TIMEOUT_SECONDS)
        for method, action in ("PUT", b"put"), ("DELETE", b"delete"), ("GET", b"query"):
            denied = 403, "text/plain; charset=utf-8", b"access control denies %s on 'shut/a'\n" % action
            assert send_request(client, method, "/shut/a") == denied
            assert send_request(client, method, "/open/a")[0] == 200
        assert send_request(client, "GET", "/shut/**", Accept="text/event-stream")[0] == 403
        assert [document["key"] for document in json.loads(send_request(client, "GET", "/half/*")[2])] == ["half/a"]
        client.request("GET", "/half/**", headers={"Accept": "text/event-stream"})
        events = client.getresponse()
        session.put("half/b", "1")
        session.put("half/c", "2")
        assert events.readline() == b"event: PUT\n"
        assert b'"key":"half/c"' in events.readline()
        events.close()
        client.close()
        until(lambda: "PUT half/c" in published)
    assert published == ["PUT open/a", "DELETE open/a", "PUT half/b", "PUT half/c"]


@pytest.mark.slow
def test_https_is_served_with_a_certificate(session: Session, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    certificate = tmp_path / "server.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(str(certificate))
    settings = HttpSettings(address=("127.0.0.1", 0), token="t", certificate=certificate)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    with HttpServer(session, settings) as server:
        assert server.url.startswith("https://127.0.0.1:")
        client = http.client.HTTPSConnection(urlsplit(server.url).netloc, timeout=TIMEOUT_SECONDS, context=trust)
        client.request("GET", "/metrics", headers={"Authorization": "Bearer t"})
        response = client.getresponse()
        assert (response.status, b"# EOF" in response.read()) == (200, True)
        client.request("POST", "/_api/login", json.dumps({"token": "t"}))
        cookie = client.getresponse().getheader("set-cookie")
        assert cookie is not None
        assert "Secure" in cookie
        client.close()


def test_unreadable_certificate_raises_usage_error(session: Session, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^expected a certificate and its private key in PEM in .*nothing\.pem: "):
        HttpServer(session, HttpSettings(address=("127.0.0.1", 0), certificate=tmp_path / "nothing.pem"))


def test_a_certificate_without_its_key_is_named(session: Session, tmp_path: Path) -> None:
    certificate = tmp_path / "certificate.pem"
    trustme.CA().issue_cert("127.0.0.1").cert_chain_pems[0].write_to_path(str(certificate))
    with pytest.raises(UsageError, match=r"certificate\.pem: it has no private key: expected `key`, too$"):
        HttpServer(session, HttpSettings(address=("127.0.0.1", 0), certificate=certificate))


def test_server_without_login_beyond_loopback_logs_a_warning(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with RestServer(session, ("::", 0)):
        pass
    assert "has no login: every machine that reaches it may read and write" in caplog.text
    caplog.clear()
    with RestServer(session, ("127.0.0.1", 0)):
        pass
    assert not caplog.text


@pytest.mark.slow
def test_server_with_a_pending_query_can_be_closed_twice(session: Session) -> None:
    """A query without replies does not keep the server from closing."""
    kept: list[Query] = []
    session.declare_queryable("late", kept.append)
    server = RestServer(session, ("127.0.0.1", 0))
    with socket.create_connection(server.address) as client:
        client.sendall(b"GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert until(lambda: kept)
        server.close()
    server.close()
    kept.clear()
