"""Every request passes host, origin and login; every response has the security headers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.unit.web.served import context_of, netloc, opened, send_request, serving
from tests.wait import TIMEOUT_SECONDS
from zenspark.api.session import Session
from zenspark.web.auth import COOKIE, FAILED_LOGIN_WINDOW_SECONDS, MAX_FAILED_LOGINS
from zenspark.web.server import HttpServer

FOREIGN = "http://evil.example"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened() as made:
        yield made


@pytest.fixture
def server(session: Session) -> Iterator[HttpServer]:
    with serving(session, write=True) as made:
        yield made


@pytest.fixture
def locked(session: Session) -> Iterator[HttpServer]:
    with serving(session, write=True, token="s3cret", user="ann", password="pass") as made:
        yield made


@pytest.mark.parametrize("path", ["/", "/_api/node", "/demo", "/metrics", "/health"])
def test_foreign_host_names_are_rejected(path: str, server: HttpServer) -> None:
    """A foreign name that resolves to the address of this server is DNS rebinding."""
    reply = send_request(server, path, Host="evil.example")
    assert (reply.status, b"'evil.example' is not a name of this server" in reply.body) == (403, True)
    assert context_of(server).counts.refused == {"host": 1}


def test_foreign_pages_may_not_use_the_api(server: HttpServer) -> None:
    reply = send_request(server, "/_api/node", Origin=FOREIGN)
    assert (reply.status, reply.error) == (403, f"cross-origin request from {FOREIGN}")
    assert send_request(server, "/_api/node", Origin=server.url).status == 200
    assert send_request(server, "/_api/node", Sec_Fetch_Site="cross-site").status == 403


def test_foreign_pages_may_not_write(session: Session, server: HttpServer) -> None:
    subscriber = session.declare_subscriber("demo/**")
    for method in ("PUT", "PATCH", "DELETE", "POST"):
        assert send_request(server, "/demo/a", b"x", method=method, Origin=FOREIGN).status == 403
    assert send_request(server, "/_api/put", {"key": "demo/a"}, Origin=FOREIGN).status == 403
    assert send_request(server, "/demo/own", b"x", method="PUT", Origin=server.url).status == 200
    assert str(subscriber.recv(TIMEOUT_SECONDS).key_expr) == "demo/own"


def test_foreign_pages_may_not_read_keys(server: HttpServer) -> None:
    assert "access-control-allow-origin" not in send_request(server, "/demo/a", Origin=FOREIGN).headers
    assert (
        "access-control-allow-origin" not in send_request(server, "/demo/a", method="OPTIONS", Origin=FOREIGN).headers
    )


def test_allowed_origins_may_write(session: Session) -> None:
    with serving(session, write=True, allowed_origins=(FOREIGN,)) as server:
        reply = send_request(server, "/demo/a", b"x", method="PUT", Origin=FOREIGN)
        assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, FOREIGN)
        preflight = send_request(server, "/demo/a", method="OPTIONS", Origin=FOREIGN)
        assert "DELETE" in preflight.headers["access-control-allow-methods"]


def test_a_foreign_page_gets_no_websocket(server: HttpServer) -> None:
    at = f"ws://{netloc(server)}/_api/live"
    with pytest.raises(InvalidStatus) as caught, connect(at, origin=Origin(FOREIGN)):
        pass
    assert caught.value.response.status_code == 403


@pytest.mark.parametrize("path", ["/_api/node", "/demo", "/metrics", "/_api/nope"])
def test_a_login_is_needed(path: str, locked: HttpServer) -> None:
    reply = send_request(locked, path)
    assert (reply.status, b"expected a token, or user and password" in reply.body) == (401, True)
    assert ("www-authenticate" in reply.headers) is not path.startswith("/_api")
    encoded = base64.b64encode(b"ann:pass").decode()
    for good in ("Bearer s3cret", f"Basic {encoded}"):
        assert send_request(locked, path, Authorization=good).status == (404 if path == "/_api/nope" else 200)
    wrong = send_request(locked, path, Authorization="Bearer wrong")
    assert (wrong.status, b"wrong token" in wrong.body) == (401, True)
    encoded = base64.b64encode(b"ann:wrong").decode()
    assert b"wrong user or password" in send_request(locked, path, Authorization=f"Basic {encoded}").body


@pytest.mark.parametrize("path", ["/", "/health", "/ready"])
def test_page_and_health_paths_need_no_login(path: str, locked: HttpServer) -> None:
    assert send_request(locked, path).status == 200


def test_the_login_form_sets_a_cookie(locked: HttpServer) -> None:
    assert send_request(locked, "/_api/login", {"token": "wrong"}).status == 401
    reply = send_request(locked, "/_api/login", {"user": "ann", "password": "pass"}, Origin=locked.url)
    assert reply.status == 204
    cookie, *attributes = reply.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(attributes)
    assert send_request(locked, "/_api/node", Cookie=cookie).status == 200
    assert send_request(locked, "/_api/node", Cookie=f"{COOKIE}=1.2").status == 401
    with connect(f"ws://{netloc(locked)}/_api/live", additional_headers={"Cookie": cookie}) as page:
        page.send(json.dumps({"subscribe": {"keys": "a//b"}}))
        assert "error" in json.loads(page.recv(TIMEOUT_SECONDS))
    with pytest.raises(InvalidStatus) as caught, connect(f"ws://{netloc(locked)}/_api/live"):
        pass
    assert caught.value.response.status_code == 401


def test_too_many_failed_logins_are_status_429(locked: HttpServer) -> None:
    for _ in range(MAX_FAILED_LOGINS):
        assert send_request(locked, "/_api/node", Authorization="Bearer wrong").status == 401
    refused = send_request(locked, "/_api/node", Authorization="Bearer s3cret")
    assert (refused.status, 0 < int(refused.headers["retry-after"]) <= FAILED_LOGIN_WINDOW_SECONDS) == (429, True)
    assert send_request(locked, "/_api/login", {"token": "s3cret"}).status == 429


def test_every_response_has_security_headers(session: Session, server: HttpServer) -> None:
    page, value = send_request(server, "/"), send_request(server, "/demo/a")
    for reply in (page, value, send_request(server, "/_api/nope")):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "http" not in page.headers["content-security-policy"]
    assert "sandbox" in value.headers["content-security-policy"]  # a payload may be HTML
    queryable = session.declare_queryable("html", lambda query: query.reply("html", "<script>", encoding="text/html"))
    raw = send_request(server, "/html?_raw=true")
    assert (raw.headers["content-type"], "sandbox" in raw.headers["content-security-policy"]) == ("text/html", True)
    queryable.undeclare()
