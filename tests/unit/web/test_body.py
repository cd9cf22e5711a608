"""Bodies of the page's API; test_connection.py has slow ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.web.served import dial, opened, read_all, send_request, serving
from zenspark.web import limits
from zenspark.web.server import HttpServer


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with opened() as session, serving(session, write=True) as made:
        yield made


def test_oversized_api_body_is_status_413(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_API_BODY_BYTES", 10)
    reply = send_request(server, "/_api/query", {"selector": "a" * 20})
    assert (reply.status, reply.error) == (413, "expected at most 10 bytes in the body, found 36")


def test_oversized_chunked_body_is_status_413(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 10)
    with dial(server) as client:
        client.sendall(b"PUT /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n")
        reply = read_all(client)
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"expected at most 10 bytes in the body, found at least 11" in reply
