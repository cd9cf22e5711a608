"""The login form; test_guard.py has what a login protects."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.unit.web.served import opened, send_request, serving
from zenspark import log_throttle
from zenspark.web.auth import FAILED_LOGIN_WINDOW_SECONDS, MAX_FAILED_LOGINS


def test_token_or_password() -> None:
    with opened() as session, serving(session, token="t", user="u", password="p") as server:
        assert send_request(server, "/_api/login", {"token": "t"}).status == 204
        assert send_request(server, "/_api/login", {"user": "u", "password": "p"}).status == 204
        for wrong, message in (
            ({}, "expected a token, or user and password"),
            ({"token": ""}, "wrong token"),
            ({"user": "u"}, "wrong user or password"),
            ({"user": "u", "password": "x"}, "wrong user or password"),
            ({"token": "x", "user": "u", "password": "p"}, "wrong token"),
        ):
            reply = send_request(server, "/_api/login", wrong)
            assert (reply.status, reply.error) == (401, message)
        assert send_request(server, "/_api/login", b"nonsense").status == 400
        gone = send_request(server, "/_api/logout", {})
        assert (gone.status, "Max-Age=0" in gone.headers["set-cookie"]) == (204, True)


def test_failed_logins_are_logged_without_their_secrets(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_throttle, "LOG_INTERVAL_SECONDS", math.inf)
    with opened() as session, serving(session, token="s3cret", user="u", password="p") as server:
        send_request(server, "/_api/login", {"token": "gu3ss"})
        send_request(server, "/_api/node")
        send_request(server, "/_api/node", Authorization="Basic dTpndTNzcw==")
        for _ in range(MAX_FAILED_LOGINS - 2):
            send_request(server, "/_api/node", Authorization="Bearer gu3ss")
        assert send_request(server, "/_api/login", {"token": "s3cret"}).status == 429
    lines = [line for line in caplog.messages if "login from" in line]
    assert lines == [
        "refused HTTP login from 127.0.0.1: wrong token; 1 in all",
        "refused HTTP login from 127.0.0.1: wrong user or password; 1 in all",
        "refused HTTP login from 127.0.0.1: too many failed logins; 1 in all",
    ]
    assert not any(secret in caplog.text for secret in ("s3cret", "gu3ss", "dTpndTNzcw"))


def test_a_server_without_a_login_accepts_anyone() -> None:
    with opened() as session, serving(session) as server:
        assert send_request(server, "/_api/login", {}).status == 204


@pytest.mark.parametrize(
    ("settings", "methods"),
    [
        ({}, []),
        ({"token": "t"}, ["token"]),
        ({"user": "u", "password": "p"}, ["password"]),
        ({"token": "t", "user": "u", "password": "p"}, ["token", "password"]),
    ],
)
def test_login_methods_are_served_without_a_login(settings: dict[str, Any], methods: list[str]) -> None:
    with opened() as session, serving(session, **settings) as server:
        assert send_request(server, "/_api/login").json == {"methods": methods, "is_needed": bool(methods)}


def test_a_page_that_is_logged_in_needs_no_login() -> None:
    with opened() as session, serving(session, token="t") as server:
        cookie = send_request(server, "/_api/login", {"token": "t"}).headers["set-cookie"].partition(";")[0]
        assert not send_request(server, "/_api/login", Cookie=cookie).json["is_needed"]
        assert not send_request(server, "/_api/login", Authorization="Bearer t").json["is_needed"]
        assert send_request(server, "/_api/login", Cookie="zenspark_login=1.2").json["is_needed"]


def test_login_checks_with_wrong_tokens_are_limited() -> None:
    with opened() as session, serving(session, token="t") as server:
        for _ in range(MAX_FAILED_LOGINS):
            assert send_request(server, "/_api/login", Authorization="Bearer wrong").json["is_needed"]
        refused = send_request(server, "/_api/login", Authorization="Bearer t")
        assert (refused.status, refused.error) == (429, "too many failed logins; try again in a minute")
        assert 0 < int(refused.headers["retry-after"]) <= FAILED_LOGIN_WINDOW_SECONDS
        assert int(send_request(server, "/_api/login", {"token": "t"}).headers["retry-after"]) > 0
