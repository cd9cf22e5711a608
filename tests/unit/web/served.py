"""A session behind HTTP, and clients of it, for tests."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import zenspark.api.open
from tests.unit.api.sessions import config
from tests.wait import TIMEOUT_SECONDS
from zenspark.api.session import Session
from zenspark.web.context import WebContext
from zenspark.web.protocols import Pipeline, SqlEngine
from zenspark.web.server import HttpServer
from zenspark.web.settings import HttpSettings

ANYWHERE = ("127.0.0.1", 0)


@contextmanager
def opened(**others: object) -> Iterator[Session]:
    """A router that listens on loopback."""
    with zenspark.api.open.open(config("router", ["tcp/127.0.0.1:0"], (), **others)) as session:
        yield session


@contextmanager
def serving(
    session: Session,
    pipeline: Pipeline | None = None,
    sql: SqlEngine | None = None,
    **settings: Any,  # noqa: ANN401 - of HttpSettings
) -> Iterator[HttpServer]:
    """A server of a session on a free port."""
    with HttpServer(session, HttpSettings(address=ANYWHERE, **settings), pipeline, sql) as server:
        yield server


class Reply:
    """A response: status, headers in lower case, body."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:  # noqa: ANN401 - any document
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of an error of the API."""
        text: str = self.json["error"]
        return text


def send_request(
    server: HttpServer, path: str, document: object = None, *, method: str | None = None, **headers: str
) -> Reply:
    """Send one request; a document is sent as JSON by POST."""
    body = document if isinstance(document, bytes | None) else json.dumps(document)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    made = http.client.HTTPConnection(*server.address, timeout=TIMEOUT_SECONDS)
    with closing(made):
        made.request(method or ("GET" if body is None else "POST"), path, body, named)
        return Reply(made.getresponse())


def dial(server: HttpServer) -> socket.socket:
    """A connection by hand."""
    return socket.create_connection(server.address, timeout=TIMEOUT_SECONDS)


def read_all(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def context_of(server: HttpServer) -> WebContext:
    """The state of a server."""
    return server._context


def netloc(server: HttpServer) -> str:
    """Host and port of a server."""
    return urlsplit(server.url).netloc
