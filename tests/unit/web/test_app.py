"""What requests meet before and after their handlers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.web.lakes import Tables
from tests.unit.web.served import ask, opened, serving
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


def test_unknown_paths_and_methods(server: HttpServer) -> None:
    missing = ask(server, "/_api/nope")
    assert (missing.status, missing.error) == (404, "Not Found: /_api/nope")
    wrong = ask(server, "/_api/node", b"")
    assert (wrong.status, wrong.error) == (405, "Method Not Allowed: /_api/node")
    assert ask(server, "/demo", method="TRACE").status == 405
    assert ask(server, "/_app/nope.js").status == 404
    assert ask(server, "/_app/../settings.py").status == 404
    assert ask(server, "/_app/%2e%2e/settings.py").status == 404


def test_a_server_without_keys(session: Session) -> None:
    with serving(session, rest=False) as server:
        reply = ask(server, "/demo")
        assert (reply.status, reply.body) == (404, b"this server serves no keys\n")
        assert ask(server, "/health").status == 200


def test_a_server_without_a_page(session: Session) -> None:
    with serving(session, serve_page=False) as server:
        assert ask(server, "/").status == 400
        assert ask(server, "/metrics").body == b"[]"  # a key


def test_a_bug_is_answered_and_logged(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Tables):
        def tables(self) -> list[object]:  # type: ignore[override]
            raise RuntimeError("a bug")

    with serving(session, sql=Broken()) as server:
        reply = ask(server, "/_api/tables")
        assert (reply.status, reply.error) == (500, "internal error; the log has its cause")
    assert "a bug" in caplog.text
