"""Logins: a bearer token, user and password, or the cookie that a login form sets.

Secrets are compared in constant time. Cookies are signed with a key of this process, so they end with it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus

from zenspark.web.client_log import ClientLog
from zenspark.web.http_error import HttpError
from zenspark.web.settings import HttpSettings

COOKIE = "zenspark_login"
COOKIE_SECONDS = 7 * 24 * 3600
MAX_FAILED_LOGINS = 20
"""Failed logins of one address within `FAILED_LOGIN_WINDOW_SECONDS`; further ones are refused without a check."""
FAILED_LOGIN_WINDOW_SECONDS = 60.0
MAX_FAILING_ADDRESSES = 1000
"""Addresses whose failed logins are kept; of more the oldest are forgotten, so that they do not fill the memory."""

TOKEN, PASSWORD = "token", "password"
"""Methods to log in, as the page's API names them."""
METHOD_NAMES = {TOKEN: "a token", PASSWORD: "user and password"}
WRONG_CREDENTIALS = {TOKEN: "wrong token", PASSWORD: "wrong user or password"}
TOO_MANY_FAILED_LOGINS = "too many failed logins"
SCHEMES = {"bearer": TOKEN, "basic": PASSWORD}
"""Methods by the scheme of an Authorization header."""


class Authenticator:
    """Checks the credentials of requests against the settings."""

    def __init__(self, settings: HttpSettings, client_log: ClientLog, now: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._client_log = client_log
        self._now = now
        self._key = secrets.token_bytes(32)
        self._failures: dict[str, deque[float]] = {}

    @property
    def is_needed(self) -> bool:
        """Whether requests must authenticate."""
        return self._settings.has_login

    @property
    def methods(self) -> list[str]:
        """Methods to log in that are configured."""
        configured = {TOKEN: self._settings.token, PASSWORD: self._settings.user}
        return [name for name, secret in configured.items() if secret is not None]

    @property
    def challenge(self) -> str:
        """Value of `WWW-Authenticate`."""
        return 'Basic realm="zenspark"' if self._settings.user is not None else 'Bearer realm="zenspark"'

    def accepts(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        """Return whether a request has valid credentials."""
        return self.accepts_header(headers.get("authorization", "")) or self.accepts_cookie(cookies.get(COOKIE, ""))

    def refusal(self, method: str | None) -> str:
        """Return the reason to refuse a login by a method; None stands for a request without credentials."""
        if method in self.methods:
            return WRONG_CREDENTIALS[str(method)]
        expected = ", or ".join(METHOD_NAMES[name] for name in self.methods)
        return f"expected {expected}" if method is None else f"expected {expected}, found {METHOD_NAMES[method]}"

    def accepts_header(self, value: str) -> bool:
        """Return whether an Authorization header is valid."""
        scheme, _, credentials = value.partition(" ")
        match scheme.lower():
            case "bearer":
                return self.accepts_token(credentials.strip())
            case "basic":
                user, colon, password = _decode_basic(credentials.strip()).partition(":")
                return bool(colon) and self.accepts_password(user, password)
        return False

    def accepts_token(self, token: str) -> bool:
        """Return whether a token is the configured one."""
        return self._settings.token is not None and _is_equal(token, self._settings.token)

    def accepts_password(self, user: str, password: str) -> bool:
        """Return whether user and password are the configured ones; both are compared in any case."""
        expected = self._settings
        if expected.user is None or expected.password is None:
            return False
        return _is_equal(user, expected.user) & _is_equal(password, expected.password)

    # -- cookies

    def make_cookie(self) -> str:
        """Make the value of a cookie that is valid for `COOKIE_SECONDS`."""
        expires = str(int(self._now()) + COOKIE_SECONDS)
        return f"{expires}.{self._sign(expires)}"

    def accepts_cookie(self, value: str) -> bool:
        """Return whether a cookie was made here and has not expired."""
        expires, _, signature = value.partition(".")
        is_signed = _is_equal(signature, self._sign(expires))
        return is_signed and expires.isdecimal() and int(expires) > self._now()

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    # -- repeated failures

    def may_log_in(self, address: str) -> bool:
        """Return whether an address has not failed too often."""
        failures = self._failures.get(address)
        if not failures:
            return True
        while failures and failures[0] < self._now() - FAILED_LOGIN_WINDOW_SECONDS:
            failures.popleft()
        return len(failures) < MAX_FAILED_LOGINS

    def check_failed_logins(self, address: str) -> None:
        """Raise HttpError, with the seconds to wait, if an address has failed too often."""
        if self.may_log_in(address):
            return
        seconds = self._failures[address][0] + FAILED_LOGIN_WINDOW_SECONDS - self._now()
        headers = {"Retry-After": str(max(math.ceil(seconds), 1))}
        self._client_log.refuse_login(address, TOO_MANY_FAILED_LOGINS)
        raise HttpError(HTTPStatus.TOO_MANY_REQUESTS, f"{TOO_MANY_FAILED_LOGINS}; try again in a minute", headers)

    def accepts_counted(self, address: str, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        """Return whether a request has valid credentials; a wrong header counts as a failed login of the address.

        Raises HttpError if the address has failed too often.
        """
        has_header = "authorization" in headers
        if has_header:
            self.check_failed_logins(address)
        is_accepted = self.accepts(headers, cookies)
        if has_header and not is_accepted:
            self.count_failed_login(address, method_of(headers))
        return is_accepted

    def count_failed_login(self, address: str, method: str | None) -> None:
        """Count and log a failed login; None stands for a login without credentials, or of another scheme."""
        self._client_log.refuse_login(address, self.refusal(method))
        if address not in self._failures and len(self._failures) >= MAX_FAILING_ADDRESSES:
            self._failures.pop(next(iter(self._failures)))
        self._failures.setdefault(address, deque(maxlen=MAX_FAILED_LOGINS)).append(self._now())


def method_of(headers: Mapping[str, str]) -> str | None:
    """Return the method of an Authorization header; None if there is none, or of another scheme."""
    return SCHEMES.get(headers.get("authorization", "").partition(" ")[0].lower())


def _is_equal(given: str, expected: str) -> bool:
    """Compare two secrets in a time that does not depend on where, or in which length, they differ."""
    digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in (given, expected)]
    return hmac.compare_digest(*digests)


def _decode_basic(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
