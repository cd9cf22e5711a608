"""HTTP server of the REST API: GET queries or subscribes, PUT publishes, DELETE deletes.

Paths are key expressions, and the part after `?` is the parameters of a query; documents.py has the responses. Each
connection has its own thread. As with zenohd, pages of any origin are allowed. Unlike in zenohd, access control applies
to requests and responses of HTTP clients (`HttpClient`).
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import unquote

from zenspark import __version__
from zenspark.api.http_clients import HttpClient
from zenspark.api.session import Session
from zenspark.errors import LinkError, UsageError, ZError
from zenspark.handlers.handler import Callback
from zenspark.key import KeyExpr
from zenspark.router.interceptors.rules import Action
from zenspark.types.enums import SampleKind
from zenspark.types.sample import Reply, Sample
from zenspark.types.selector import Selector
from zenspark.web.documents import JSON, encode_json, encode_replies, media_type, sample_document
from zenspark.web.settings import ANY_ADDRESS, Address

logger = logging.getLogger("zenspark.web")

MAX_BODY_BYTES = 64 << 20
IDLE_TIMEOUT_SECONDS = 60.0
"""Timeout of an idle connection."""
WRITE_TIMEOUT_SECONDS = 10.0
"""Timeout for writing an event; a client that does not read for so long is disconnected, as with zenohd."""

EVENT_STREAM_TYPE = "text/event-stream"
TEXT_TYPE = "text/plain; charset=utf-8"
LOCAL_ADMIN_KEY = "@/local"
"""Alias of the admin space of this node."""
RAW_PARAMETER = "_raw"


class HttpError(Exception):
    """A request that is rejected with a status and a message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message


class RestServer:
    """Serves HTTP requests through a session until closed; the session stays open."""

    def __init__(self, session: Session, address: Address) -> None:
        try:
            self._server = _Server(session, address)
        except OSError as error:
            raise LinkError(url_of(address), f"cannot listen: {error.strerror or error}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="zenspark-web", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """URL of the server."""
        host, port, *_ = self._server.socket.getsockname()
        return url_of((host, port))

    def close(self) -> None:
        """Stop accepting requests, and end the event streams."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.end_streams()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def url_of(address: Address) -> str:
    """Format an address as a URL."""
    host, port = address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_port = False  # some Python versions would share the port with another server

    def __init__(self, session: Session, address: Address) -> None:
        if address[0] == ANY_ADDRESS and not socket.has_dualstack_ipv6():
            address = ("0.0.0.0", address[1])
        self.session = session
        self._streams: set[socket.socket] = set()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        if self.server_address[0] == ANY_ADDRESS:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)  # not that of HTTPServer, which does a DNS lookup

    def handle_error(self, request: object, client_address: object) -> None:
        level = logging.DEBUG if isinstance(sys.exception(), OSError) else logging.ERROR
        logger.log(level, "HTTP request from %s failed", client_address, exc_info=True)

    def run_stream(self, connection: socket.socket) -> None:
        """Block until the client disconnects or the stream is ended."""
        self._streams.add(connection)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(connection, selectors.EVENT_READ)
                while selector.select() and connection.recv(4096):
                    pass
        finally:
            self._streams.discard(connection)

    def end_streams(self) -> None:
        for connection in list(self._streams):
            _shut_down(connection)


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = f"zenspark/{__version__}"
    timeout = IDLE_TIMEOUT_SECONDS

    # --- HTTP methods

    def do_GET(self) -> None:
        self._run_action(self._stream if self._accepted_type() == EVENT_STREAM_TYPE else self._query)

    def do_POST(self) -> None:
        self._run_action(self._query)

    def do_PUT(self) -> None:
        self._run_action(self._put)

    do_PATCH = do_PUT

    def do_DELETE(self) -> None:
        self._run_action(self._delete)

    def do_OPTIONS(self) -> None:
        allowed = [("Methods", "GET, POST, PUT, PATCH, DELETE"), ("Headers", "*")]
        self._respond(HTTPStatus.OK, headers=[(f"Access-Control-Allow-{name}", value) for name, value in allowed])

    def _run_action(self, action: Callable[[], None]) -> None:
        try:
            action()
        except HttpError as error:
            self._respond_error(error.status, error.message)
        except UsageError as error:
            self._respond_error(HTTPStatus.BAD_REQUEST, str(error))
        except ZError as error:
            self._respond_error(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    # --- actions

    def _query(self) -> None:
        body, selector = self._body(), self._selector()
        self._check("query", selector.key_expr)
        encoding = self._encoding() if body else None
        found = self.server.session.get(selector, payload=body or None, encoding=encoding)
        replies = [reply for reply in found if self._may_receive(reply, selector)]
        if RAW_PARAMETER not in selector.parameters:
            self._respond(HTTPStatus.OK, JSON, encode_replies(replies))
        elif replies:
            first = replies[0].result
            self._respond(HTTPStatus.OK, media_type(first.encoding), first.payload.to_bytes())
        else:
            self._respond(HTTPStatus.OK)

    def _put(self) -> None:
        body, key = self._body(), self._key()
        self._check("put", key)
        self.server.session.put(key, body, encoding=self._encoding())
        self._respond(HTTPStatus.OK)

    def _delete(self) -> None:
        self._body()
        key = self._key()
        self._check("delete", key)
        self.server.session.delete(key)
        self._respond(HTTPStatus.OK)

    def _stream(self) -> None:
        """Send events until the client disconnects; the subscriber is declared before the response header is sent."""
        header_sent, key = threading.Event(), self._key()
        self._check("declare_subscriber", key)
        guest = self._guest

        def send_event(sample: Sample) -> None:
            action: Action = "put" if sample.kind is SampleKind.PUT else "delete"
            if not guest.is_allowed("egress", action, str(sample.key_expr)):
                return
            header_sent.wait()
            try:
                self.wfile.write(
                    b"event: %s\ndata: %s\n\n" % (sample.kind.name.encode(), encode_json(sample_document(sample)))
                )
            except OSError:
                _shut_down(self.connection)  # ends run_stream below

        self.close_connection = True
        subscriber = self.server.session.declare_subscriber(key, Callback(send_event))
        try:
            self.connection.settimeout(WRITE_TIMEOUT_SECONDS)
            self.send_response(HTTPStatus.OK)
            for header in ("Content-Type", EVENT_STREAM_TYPE), ("Cache-Control", "no-cache"), ("Connection", "close"):
                self.send_header(*header)
            self._allow_any_origin()
            self.end_headers()
            header_sent.set()
            self.server.run_stream(self.connection)
        finally:
            header_sent.set()
            with contextlib.suppress(ZError):
                subscriber.undeclare()

    # --- access control

    @cached_property
    def _guest(self) -> HttpClient:
        return HttpClient(self.server.session, self.connection.getsockname()[0])

    def _check(self, action: Action, key: KeyExpr) -> None:
        """Raise HttpError if access control denies an action."""
        if not self._guest.is_allowed("ingress", action, str(key)):
            raise HttpError(HTTPStatus.FORBIDDEN, f"access control denies {action} on {str(key)!r}")

    def _may_receive(self, reply: Reply, selector: Selector) -> bool:
        key = selector.key_expr if reply.ok is None else reply.ok.key_expr
        return self._guest.is_allowed("egress", "reply", str(key))

    # --- request parsing

    def _accepted_type(self) -> str:
        """Return the first media type of the Accept header."""
        return self.headers.get("Accept", JSON).partition(",")[0].partition(";")[0].strip()

    def _key(self) -> KeyExpr:
        text = unquote(self.path.partition("?")[0]).removeprefix("/")
        if not text:
            raise UsageError("expected a key expression after the / of the URL")
        if text == LOCAL_ADMIN_KEY or text.startswith(f"{LOCAL_ADMIN_KEY}/"):
            text = f"@/{self.server.session.zid()}{text.removeprefix(LOCAL_ADMIN_KEY)}"
        return KeyExpr(text)

    def _selector(self) -> Selector:
        return Selector(self._key(), unquote(self.path.partition("?")[2]))

    def _encoding(self) -> str | None:
        given = self.headers.get("Content-Type")
        return given and ";".join(part.strip() for part in given.split(";"))

    def _body(self) -> bytes:
        if "Transfer-Encoding" in self.headers:
            raise HttpError(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length: chunked bodies are not supported")
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdecimal()):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"expected a number as Content-Length, found {length!r}")
        if len(length) > len(str(MAX_BODY_BYTES)) or int(length) > MAX_BODY_BYTES:
            message = f"expected at most {MAX_BODY_BYTES} bytes in the body, found {length}"
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("the client disconnected within the body")
        return body

    # --- responses

    def _respond_error(self, status: HTTPStatus, message: str) -> None:
        self.close_connection = True  # a body may be left unread
        self._respond(status, TEXT_TYPE, f"{message}\n".encode(), [("Connection", "close")])

    def _respond(
        self,
        status: HTTPStatus,
        kind: str | None = None,
        body: bytes = b"",
        headers: list[tuple[str, str]] | None = None,
    ) -> None:
        self.send_response(status)
        if kind is not None:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for header in headers or []:
            self.send_header(*header)
        self._allow_any_origin()
        self.end_headers()
        self.wfile.write(body)

    def _allow_any_origin(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")

    def log_message(self, format: str, *args: object) -> None:
        logger.debug("%s " + format, self.address_string(), *args)
