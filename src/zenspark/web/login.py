"""Login and logout of the page: a form sends the secret once, and a cookie replaces it afterwards."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from zenspark.web.auth import COOKIE, COOKIE_SECONDS, PASSWORD, TOKEN
from zenspark.web.body import read_json
from zenspark.web.client_log import client_host
from zenspark.web.context import WebContext
from zenspark.web.http_error import HttpError
from zenspark.web.node_info import json_response


class LoginRequest(msgspec.Struct, frozen=True):
    """A token, or user and password."""

    token: str | None = None
    user: str | None = None
    password: str | None = None

    @property
    def method(self) -> str | None:
        """Method of the login; None if nothing was sent."""
        if self.token is not None:
            return TOKEN
        return None if self.user is None and self.password is None else PASSWORD


class LoginApi:
    """Requests `/_api/login` and `/_api/logout`."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def describe(self, request: Request) -> Response:
        """Return, without a login, the methods to log in, and whether this client has to."""
        auth = self._context.auth
        is_needed = auth.is_needed and not auth.accepts_counted(
            client_host(request.client), request.headers, request.cookies
        )
        return json_response({"methods": auth.methods, "is_needed": is_needed})

    async def log_in(self, request: Request) -> Response:
        """Check the credentials and set the cookie: 204, or 401."""
        credentials = await read_json(request, LoginRequest)
        auth, address = self._context.auth, client_host(request.client)
        auth.check_failed_logins(address)
        if auth.is_needed and not self._accepts(credentials):
            auth.count_failed_login(address, credentials.method)
            self._context.counts.refuse("login")
            raise HttpError(HTTPStatus.UNAUTHORIZED, auth.refusal(credentials.method))
        response = Response(status_code=HTTPStatus.NO_CONTENT)
        response.set_cookie(
            COOKIE,
            auth.make_cookie(),
            max_age=COOKIE_SECONDS,
            secure=self._context.settings.certificate is not None,
            httponly=True,
            samesite="strict",
        )
        return response

    async def log_out(self, request: Request) -> Response:
        """Remove the cookie."""
        response = Response(status_code=HTTPStatus.NO_CONTENT)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    def _accepts(self, credentials: LoginRequest) -> bool:
        auth = self._context.auth
        if credentials.token is not None:
            return auth.accepts_token(credentials.token)
        return auth.accepts_password(credentials.user or "", credentials.password or "")
