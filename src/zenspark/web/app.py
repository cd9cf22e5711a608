"""Application: one ASGI application that serves keys, the page, its API and the metrics."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from zenspark.errors import ZError
from zenspark.web.client_log import format_address
from zenspark.web.context import WebContext
from zenspark.web.guard import Guard
from zenspark.web.http_error import HttpError, as_http_error, error_response
from zenspark.web.paths import PathKind, kind_of
from zenspark.web.rest import AsgiResponse, RestApi
from zenspark.web.routes import page_routes

logger = logging.getLogger("zenspark.web")

Endpoint = Callable[[Request], Awaitable[AsgiResponse]]


def make_app(context: WebContext) -> ASGIApp:
    """Make the application of a server."""
    return Guard(Application(context), context)


class Application:
    """Dispatches requests by the kind of their path."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._rest = RestApi(context)
        self._page = Router(page_routes(context), redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = kind_of(scope["path"], self._context.settings)
        if kind is not PathKind.KEY:
            await self._with_errors(self._page, scope, receive, send, as_json=kind.is_api)
        elif scope["type"] == "http":
            await self._with_errors(self._serve_key, scope, receive, send, as_json=False)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _serve_key(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            if not self._context.settings.rest:
                raise HttpError(HTTPStatus.NOT_FOUND, "this server serves no keys")
            response = await self._rest.respond(request)
        except (HttpError, ZError) as error:
            response = error_response(as_http_error(error), as_json=False)
        if hasattr(response, "headers"):
            response.headers.update(self._rest.cors_headers(request))
        await response(scope, receive, send)

    async def _with_errors(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, as_json: bool) -> None:
        """Run an application; an error that it raises becomes a response with one sentence."""
        try:
            await app({**scope, "app": self}, receive, send)  # "app": routes raise HTTPException
        except ClientDisconnect:
            return
        except HTTPException as error:
            failed = HttpError(HTTPStatus(error.status_code), f"{error.detail}: {scope['path']}", error.headers)
            await error_response(failed, as_json=as_json)(scope, receive, send)
        except (HttpError, ZError) as error:
            if scope["type"] == "http":
                await error_response(as_http_error(error), as_json=as_json)(scope, receive, send)
        except Exception:
            address = format_address(scope.get("client"))
            logger.exception("HTTP request %s %s from %s failed", scope.get("method", "WS"), scope["path"], address)
            if scope["type"] == "http":
                failed = HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; the log has its cause")
                await error_response(failed, as_json=as_json)(scope, receive, send)
