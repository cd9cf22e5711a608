"""REST where it differs from zenohd's; test_server.py has what is the same."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from tests.unit.web.served import ANYWHERE, opened, send_request
from zenspark.api.session import Session
from zenspark.web.server import RestServer

FOREIGN = "http://page.example"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened(adminspace__enabled=True) as made:
        yield made


@pytest.fixture
def rest(session: Session) -> Iterator[RestServer]:
    with RestServer(session, ANYWHERE) as made:
        yield made


def test_foreign_pages_may_read_and_not_write(session: Session, rest: RestServer) -> None:
    """zenohd lets pages of all origins write, too."""
    subscriber = session.declare_subscriber("demo/**")
    assert send_request(rest, "/demo/a", Origin=FOREIGN).headers["access-control-allow-origin"] == "*"
    assert send_request(rest, "/demo/a", b"query", Origin=FOREIGN).status == 200
    preflight = send_request(rest, "/demo/a", method="OPTIONS", Origin=FOREIGN)
    assert preflight.headers["access-control-allow-methods"] == "GET, POST"
    for method in ("PUT", "PATCH", "DELETE"):
        reply = send_request(rest, "/demo/a", b"", method=method, Origin=FOREIGN)
        assert (reply.status, reply.body) == (403, f"a page of {FOREIGN} may not do this here\n".encode())
    rebound = send_request(rest, "/demo/a", b"", method="PUT", Host="evil.example", Origin="http://evil.example")
    assert rebound.status == 403
    assert subscriber.try_recv() is None
    assert send_request(rest, "/demo/a", b"", method="PUT", Host="node.example").status == 200  # no browser


def test_error_replies_are_shown_as_text(session: Session, rest: RestServer) -> None:
    queryable = session.declare_queryable("bad", lambda query: query.reply_err("expected a time"))
    (document,) = send_request(rest, "/bad").json
    assert document == {"key": "ERROR", "value": "expected a time", "encoding": "text/plain", "timestamp": None}
    queryable.undeclare()


def test_metrics_of_the_admin_space_are_text(rest: RestServer) -> None:
    (document,) = send_request(rest, "/@/local/router/metrics").json
    assert document["value"].startswith("# HELP zenoh_build")
    raw = send_request(rest, "/@/local/router/metrics?_raw")
    assert gzip.decompress(raw.body).startswith(b"# HELP zenoh_build")


def test_head_request_is_status_405_with_an_allow_header(rest: RestServer) -> None:
    reply = send_request(rest, "/demo", method="HEAD")
    assert (reply.status, "GET" in reply.headers["allow"]) == (405, True)
