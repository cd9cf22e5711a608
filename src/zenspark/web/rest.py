"""REST API of zenohd: paths are key expressions; GET queries or subscribes, PUT publishes, DELETE deletes.

The part of the URL after `?` is the parameters of a query; documents.py has the responses. Unlike in zenohd, access
control applies to requests and responses of HTTP clients, and pages of other origins may not write.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.types.sample import Reply
from zenspark.types.selector import Selector
from zenspark.web.body import read_body
from zenspark.web.context import WebContext, check_access
from zenspark.web.documents import JSON, encode_replies, media_type
from zenspark.web.events import EVENT_STREAM_TYPE, EventStreamResponse
from zenspark.web.http_clients import HttpClient
from zenspark.web.http_error import HttpError

LOCAL_ADMIN_KEY = "@/local"
"""Alias of the admin space of this node."""
RAW_PARAMETER = "_raw"
READS = ("GET", "POST")
WRITES = ("PUT", "PATCH", "DELETE")
METHODS = (*READS, *WRITES)


class AsgiResponse(Protocol):
    """A response, or another ASGI application that sends one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class RestApi:
    """Serves requests whose path is a key expression."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._methods: dict[str, Callable[[Request], Awaitable[AsgiResponse]]] = {
            "GET": self._get,
            "POST": self._query,
            "PUT": self._put,
            "PATCH": self._put,
            "DELETE": self._delete,
            "OPTIONS": self._options,
        }

    async def respond(self, request: Request) -> AsgiResponse:
        """Make the response of a request; raises HttpError or ZError."""
        method = self._methods.get(request.method)
        if method is None:
            allowed = {"Allow": ", ".join(self._methods)}
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"expected one of {', '.join(self._methods)}", allowed)
        if request.method in WRITES:
            check_write(self._context, request)
        elif request.method == "POST" and not self._context.settings.as_zenohd:
            check_origin(self._context, request)
        return await method(request)

    # -- methods

    async def _get(self, request: Request) -> AsgiResponse:
        if _accepted_type(request) == EVENT_STREAM_TYPE:
            return EventStreamResponse(self._context, self._key(request), request, self.cors_headers(request))
        return await self._query(request)

    async def _query(self, request: Request) -> Response:
        body, selector = await read_body(request), self._selector(request)
        client = self._context.client(request)
        check_access(client, "query", str(selector.key_expr))
        encoding = _encoding(request) if body else None
        began = time.monotonic()
        all_replies = await self._context.run(self._replies, selector, body or None, encoding)
        self._context.counts.query_seconds.add(time.monotonic() - began)
        replies = [reply for reply in all_replies if may_receive(client, reply, str(selector.key_expr))]
        if RAW_PARAMETER not in selector.parameters:
            return Response(encode_replies(replies), media_type=JSON)
        if not replies:
            return Response()
        first = replies[0].result
        return Response(first.payload.to_bytes(), headers={"Content-Type": media_type(first.encoding)})

    def _replies(self, selector: Selector, body: bytes | None, encoding: str | None) -> list[Reply]:
        return list(self._context.session.get(selector, payload=body, encoding=encoding))

    async def _put(self, request: Request) -> Response:
        body, key = await read_body(request), self._key(request)
        check_access(self._context.client(request), "put", str(key))
        await self._context.run(self._context.session.put, key, body, encoding=_encoding(request))
        return Response()

    async def _delete(self, request: Request) -> Response:
        await read_body(request)
        key = self._key(request)
        check_access(self._context.client(request), "delete", str(key))
        await self._context.run(self._context.session.delete, key)
        return Response()

    async def _options(self, request: Request) -> Response:
        await read_body(request)
        headers = {"Allow": ", ".join((*METHODS, "OPTIONS"))}
        origin = request.headers.get("origin")
        if self.cors_headers(request):
            may_write = origin is None or not self._context.origins.is_foreign(request.headers)
            headers["Access-Control-Allow-Methods"] = ", ".join(METHODS if may_write else READS)
            headers["Access-Control-Allow-Headers"] = "*"
        return Response(headers=headers)

    def cors_headers(self, request: Request) -> dict[str, str]:
        """Return the headers that let pages of other origins read: all of them as with zenohd, else the allowed."""
        if self._context.settings.as_zenohd:
            return {"Access-Control-Allow-Origin": "*"}
        origin = request.headers.get("origin")
        if origin is not None and self._context.origins.is_allowed_origin(origin):
            return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        return {}

    # -- parts of requests

    def _key(self, request: Request) -> KeyExpr:
        text = str(request.scope["path"]).removeprefix("/")
        if not text:
            raise UsageError("expected a key expression after the / of the URL")
        if text == LOCAL_ADMIN_KEY or text.startswith(f"{LOCAL_ADMIN_KEY}/"):
            text = f"@/{self._context.session.zid()}{text.removeprefix(LOCAL_ADMIN_KEY)}"
        return KeyExpr(text)

    def _selector(self, request: Request) -> Selector:
        return Selector(self._key(request), unquote(request.scope["query_string"].decode("latin-1")))


def check_write(context: WebContext, request: Request) -> None:
    """Raise HttpError if a request must not write: the server is read-only, or a foreign page sent it."""
    if not context.settings.write:
        context.counts.refuse("read_only")
        raise HttpError(HTTPStatus.FORBIDDEN, "this server is read-only: start it with --http-write to put and delete")
    check_origin(context, request)


def check_origin(context: WebContext, request: Request) -> None:
    """Raise HttpError if a page of another origin sent a request, or it names another host."""
    if context.origins.is_foreign(request.headers):
        context.counts.refuse("origin")
        origin = request.headers.get("origin", "another site")
        raise HttpError(HTTPStatus.FORBIDDEN, f"a page of {origin} may not do this here")
    if request.headers.get("origin") is not None and not context.origins.is_own_host(request.headers["host"]):
        context.counts.refuse("host")
        raise HttpError(HTTPStatus.FORBIDDEN, f"{request.headers['host']} is not a name of this server")


def may_receive(client: HttpClient, reply: Reply, key: str) -> bool:
    """Return whether access control lets a client receive a reply; an error counts as one on the key of the query."""
    if client.is_unrestricted:
        return True
    return client.is_allowed("egress", "reply", key if reply.ok is None else str(reply.ok.key_expr))


def _accepted_type(request: Request) -> str:
    """Return the first media type of the Accept header."""
    return request.headers.get("accept", JSON).partition(",")[0].partition(";")[0].strip()


def _encoding(request: Request) -> str | None:
    content_type = request.headers.get("content-type")
    return content_type and ";".join(part.strip() for part in content_type.split(";"))
