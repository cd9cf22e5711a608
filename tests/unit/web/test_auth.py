"""Credentials: what is accepted, for how long, and how often they may be wrong."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import pytest

from zenspark.web.auth import (
    COOKIE,
    COOKIE_SECONDS,
    FAILED_LOGIN_WINDOW_SECONDS,
    MAX_FAILED_LOGINS,
    MAX_FAILING_ADDRESSES,
    TOKEN,
    Authenticator,
    method_of,
)
from zenspark.web.client_log import ClientLog
from zenspark.web.http_error import HttpError
from zenspark.web.settings import HttpSettings

BOTH = HttpSettings(token="s3cret", user="ann", password="pa:ss")


def authenticator_of(settings: HttpSettings, now: Callable[[], float] = time.time) -> Authenticator:
    return Authenticator(settings, ClientLog(), now)


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("header", ["Bearer s3cret", "bearer  s3cret", basic("ann:pa:ss")])
def test_valid_authorization_headers_are_accepted(header: str) -> None:
    assert authenticator_of(BOTH).accepts({"authorization": header}, {})


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer s3cre", "Bearer s3cret2", "s3cret", basic("ann:pa"), basic("ann"), basic(":"), "Basic !!!",
     "Basic /w==", "Digest s3cret", "Bearer \udcff"],
)  # fmt: skip
def test_invalid_authorization_headers_are_rejected(header: str) -> None:
    assert not authenticator_of(BOTH).accepts({"authorization": header}, {})


def test_credentials_that_are_not_configured_are_rejected() -> None:
    only_token = authenticator_of(HttpSettings(token="t"))
    assert not only_token.accepts_password("", "")
    assert only_token.challenge.startswith("Bearer")
    only_user = authenticator_of(HttpSettings(user="u", password="p"))
    assert not only_user.accepts_token("")
    assert only_user.challenge.startswith("Basic")
    assert only_token.is_needed
    assert not authenticator_of(HttpSettings()).is_needed


def test_refusal_names_the_expected_login_method() -> None:
    both, only_token = authenticator_of(BOTH), authenticator_of(HttpSettings(token="t"))
    assert (both.methods, only_token.methods, authenticator_of(HttpSettings()).methods) == (
        ["token", "password"],
        ["token"],
        [],
    )
    assert both.refusal(method_of({"authorization": "Digest x"})) == "expected a token, or user and password"
    assert both.refusal(method_of({"authorization": basic("a:b")})) == "wrong user or password"
    assert only_token.refusal(method_of({"authorization": "Bearer x"})) == "wrong token"
    assert only_token.refusal(method_of({"authorization": basic("a:b")})) == "expected a token, found user and password"
    assert only_token.refusal(None) == "expected a token"


def test_cookies_are_signed_and_expire() -> None:
    now = 1000.0
    authenticator = authenticator_of(BOTH, lambda: now)
    cookie = authenticator.make_cookie()
    assert authenticator.accepts({}, {COOKIE: cookie})
    expires, _, signature = cookie.partition(".")
    assert not authenticator.accepts_cookie(f"{int(expires) + 1}.{signature}")
    assert not authenticator.accepts_cookie(expires)
    assert not authenticator.accepts_cookie("")
    assert not authenticator_of(BOTH, lambda: now).accepts_cookie(cookie)  # another process
    now += COOKIE_SECONDS
    assert not authenticator.accepts_cookie(cookie)


def test_failures_are_limited_for_a_while() -> None:
    now = 0.0
    authenticator = authenticator_of(BOTH, lambda: now)
    for _ in range(MAX_FAILED_LOGINS):
        assert authenticator.may_log_in("a")
        authenticator.count_failed_login("a", TOKEN)
    assert not authenticator.may_log_in("a")
    now = FAILED_LOGIN_WINDOW_SECONDS / 4
    with pytest.raises(HttpError) as refused:
        authenticator.check_failed_logins("a")
    assert refused.value.headers == {"Retry-After": f"{FAILED_LOGIN_WINDOW_SECONDS * 3 / 4:g}"}
    assert authenticator.may_log_in("b")
    now = FAILED_LOGIN_WINDOW_SECONDS + 1
    assert authenticator.may_log_in("a")


def test_failures_of_ever_new_addresses_do_not_fill_the_memory() -> None:
    authenticator = authenticator_of(BOTH)
    for number in range(MAX_FAILING_ADDRESSES + 10):
        authenticator.count_failed_login(str(number), TOKEN)
    assert len(authenticator._failures) == MAX_FAILING_ADDRESSES
