"""What requests meet before and after their handlers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.unit.web.lakes import Tables
from tests.unit.web.served import opened, send_request, serving
from zenspark.api.session import Session
from zenspark.web.server import HttpServer


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened() as made:
        yield made


@pytest.fixture
def server(session: Session) -> Iterator[HttpServer]:
    with serving(session) as made:
        yield made


def test_unknown_paths_are_status_404_and_wrong_methods_405(server: HttpServer) -> None:
    missing = send_request(server, "/_api/nope")
    assert (missing.status, missing.error) == (404, "Not Found: /_api/nope")
    wrong = send_request(server, "/_api/node", b"")
    assert (wrong.status, wrong.error) == (405, "Method Not Allowed: /_api/node")
    assert send_request(server, "/demo", method="TRACE").status == 405
    assert send_request(server, "/_app/nope.js").status == 404
    assert send_request(server, "/_app/../settings.py").status == 404
    assert send_request(server, "/_app/%2e%2e/settings.py").status == 404


def test_server_without_rest_replies_404_to_keys(session: Session) -> None:
    with serving(session, rest=False) as server:
        reply = send_request(server, "/demo")
        assert (reply.status, reply.body) == (404, b"this server serves no keys\n")
        assert send_request(server, "/health").status == 200


def test_server_without_page_treats_page_paths_as_keys(session: Session) -> None:
    with serving(session, serve_page=False) as server:
        assert send_request(server, "/").status == 400
        assert send_request(server, "/metrics").body == b"[]"  # a key


def test_exception_of_a_handler_is_status_500_and_logged(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Tables):
        def tables(self) -> list[object]:  # type: ignore[override]
            raise RuntimeError("a bug")

    with serving(session, sql=Broken()) as server:
        reply = send_request(server, "/_api/tables")
        assert (reply.status, reply.error) == (500, "internal error; the log has its cause")
    assert "a bug" in caplog.text
    assert re.search(r"HTTP request GET /_api/tables from 127\.0\.0\.1:\d+ failed", caplog.text)
