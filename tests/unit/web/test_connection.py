"""Connections with limits: a client that violates one receives a status, and then it is disconnected."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.unit.web.served import context_of, dial, opened, read_all, send_request, serving
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.web import limits
from zenspark.web.server import HttpServer


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened() as made:
        yield made


@pytest.fixture
def server(session: Session) -> Iterator[HttpServer]:
    with serving(session, write=True) as made:
        yield made


def exchange(server: HttpServer, sent: bytes) -> bytes:
    with dial(server) as client:
        client.sendall(sent)
        return read_all(client)


HEAD = b"PUT /demo/a HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        HEAD + b"Content-Length : 5\r\n\r\nhello",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        HEAD + b"Content-Length: 5, 6\r\n\r\nhello",
        HEAD + b"Content-Length: -5\r\n\r\nhello",
        HEAD + b"Content-Length: 5\r\n : x\r\n\r\nhello",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\nhello",
        b"PUT /demo/a HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"nonsense\r\n\r\n",
    ],
)
def test_malformed_requests_are_rejected_and_counted(request_: bytes, session: Session, server: HttpServer) -> None:
    subscriber = session.declare_subscriber("demo/**")
    reply = exchange(server, request_)
    assert reply.split(b" ")[1] in (b"400", b"501"), reply
    assert b"expected an HTTP request: " in reply
    assert subscriber.try_recv() is None
    assert context_of(server).counts.refused == {"malformed": 1}


def test_the_body_of_options_is_no_request(session: Session, server: HttpServer) -> None:
    subscriber = session.declare_subscriber("demo/**")
    inner = b"PUT /demo/smuggled HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
    outer = b"OPTIONS /demo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(inner)
    last = b"PUT /demo/last HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"
    assert exchange(server, outer + inner + last).count(b"HTTP/1.1 200") == 2
    assert str(subscriber.recv(TIMEOUT_SECONDS).key_expr) == "demo/last"


def test_chunked_body_is_published(session: Session, server: HttpServer) -> None:
    subscriber = session.declare_subscriber("demo/**")
    body = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    reply = exchange(server, HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + body)
    assert reply.startswith(b"HTTP/1.1 200")
    assert subscriber.recv(TIMEOUT_SECONDS).payload.to_bytes() == b"abcde"


def test_oversized_headers_are_status_431(server: HttpServer) -> None:
    reply = exchange(server, b"GET /demo HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (2 * limits.MAX_HEADER_BYTES))
    assert reply.startswith(b"HTTP/1.1 431 ")
    assert b"expected at most 32768 bytes of headers" in reply


@pytest.mark.slow
def test_slow_headers_are_status_408(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEADER_TIMEOUT_SECONDS", 0.05)
    for sent in (b"", b"GET /demo HTTP/1.1\r\nHost: loc"):
        reply = exchange(server, sent)
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert b"expected all headers within" in reply
    assert context_of(server).counts.refused == {"slow_headers": 2}


def test_slow_body_is_status_408(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_GRACE_SECONDS", 0.05)
    reply = exchange(server, HEAD + b"Content-Length: 5\r\n\r\nhel")
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b"expected the body within" in reply


def test_connection_over_the_limit_is_status_503(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 2)
    with dial(server), dial(server):
        assert until(lambda: context_of(server).counts.connections == 2)
        reply = exchange(server, b"")
        assert reply.startswith(b"HTTP/1.1 503 ")
        assert b"there are 2 connections already" in reply
    assert until(lambda: health_status(server) == 200)


def health_status(server: HttpServer) -> int:
    try:
        return send_request(server, "/health").status
    except OSError:
        return 0


@pytest.mark.slow
def test_client_that_does_not_read_its_response_is_dropped_as_stalled(
    session: Session, server: HttpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "CLIENT_STALL_TIMEOUT_SECONDS", 0.05)
    queryable = session.declare_queryable("big", lambda query: query.reply("big", bytes(32 << 20)))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(server.address)
        client.sendall(b"GET /big?_raw HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert until(lambda: context_of(server).counts.disconnected == {"stalled": 1})
        host, port = client.getsockname()
        stalled = f"disconnected HTTP client {host}:{port}: it read nothing for 0.05 s; 1 in all"
        assert until(lambda: stalled in caplog.messages)
    queryable.undeclare()


def test_requests_can_be_sent_one_after_another(server: HttpServer) -> None:
    one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert exchange(server, one + one + last).count(b"HTTP/1.1 200") == 3
