"""Guard: checks host name, origin and login of every request, and adds the security headers to every response."""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zenspark.web.auth import method_of
from zenspark.web.client_log import client_host
from zenspark.web.context import WebContext
from zenspark.web.http_error import HttpError, error_response
from zenspark.web.paths import PathKind, kind_of

PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content of the page: from this server only."""
DATA_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"
"""Content of values: a payload that is HTML must not run scripts in the origin of the page."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
OPEN_KINDS = frozenset({PathKind.PAGE, PathKind.ASSET, PathKind.HEALTH, PathKind.LOGIN})
"""Paths that need no login: they reveal nothing of the node."""


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, context: WebContext) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        kind = kind_of(scope["path"], self._context.settings)
        policy = PAGE_POLICY if kind in (PathKind.PAGE, PathKind.ASSET) else DATA_POLICY
        secure = _with_headers(send, policy, kind, self._context)
        try:
            self._check(connection, kind)
        except HttpError as error:
            await error_response(error, as_json=kind.is_api)(scope, receive, secure)
            return
        await self._app(scope, receive, secure)

    def _check(self, connection: HTTPConnection, kind: PathKind) -> None:
        settings = self._context.settings
        headers = connection.headers
        if not settings.as_zenohd and not self._context.origins.is_own_host(headers.get("host", "")):
            self._context.counts.refuse("host")
            host = headers.get("host", "")
            raise HttpError(
                HTTPStatus.FORBIDDEN, f"{host!r} is not a name of this server: use its address, or --http-host"
            )
        if kind.is_api and self._context.origins.is_foreign(headers):
            self._context.counts.refuse("origin")
            raise HttpError(HTTPStatus.FORBIDDEN, f"cross-origin request from {headers.get('origin', 'another site')}")
        is_preflight = connection.scope.get("method") == "OPTIONS"
        if kind not in OPEN_KINDS and not is_preflight and self._context.auth.is_needed:
            self._check_login(connection, headers, kind)

    def _check_login(self, connection: HTTPConnection, headers: Headers, kind: PathKind) -> None:
        auth = self._context.auth
        if auth.accepts_counted(client_host(connection.client), headers, connection.cookies):
            return
        self._context.counts.refuse("login")
        challenge = {} if kind.is_api else {"WWW-Authenticate": auth.challenge}
        raise HttpError(HTTPStatus.UNAUTHORIZED, auth.refusal(method_of(headers)), challenge)


def _with_headers(send: Send, policy: str, kind: PathKind, context: WebContext) -> Send:
    """Add the security headers to a response, and count it."""

    async def send_secured(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Content-Security-Policy", policy)
            if kind is not PathKind.ASSET:
                headers.setdefault("Cache-Control", "no-store")
            if context.settings.certificate is not None:
                headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            context.counts.request(kind.value, message["status"])
        await send(message)

    return send_secured
