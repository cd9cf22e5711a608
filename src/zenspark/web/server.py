"""An HTTP server in front of a session: GET asks or subscribes, PUT publishes, DELETE deletes.

The paths are key expressions, and what follows a `?` are the parameters of a query; see `documents.py` for the answers.
Each connection has a thread of its own. As zenohd's, it lets pages of any origin in. Access control applies to what
clients send and are sent (`Guest`), which it does not in zenohd.
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
from zenspark.api.http_clients import Guest
from zenspark.api.session import Session
from zenspark.errors import LinkError, UsageError, ZError
from zenspark.handlers.handler import Callback
from zenspark.key import KeyExpr
from zenspark.router.interceptors.rules import Action
from zenspark.types.enums import SampleKind
from zenspark.types.sample import Reply, Sample
from zenspark.types.selector import Selector
from zenspark.web.documents import JSON, encode_replies, sample_document, media_type, encode_json
from zenspark.web.settings import ANY_ADDRESS, Address

logger = logging.getLogger("zenspark.web")

MAX_BODY_BYTES = 64 << 20
IDLE_TIMEOUT_SECONDS = 60.0
"""Seconds after which a connection that asks for nothing is closed."""
WRITE_TIMEOUT_SECONDS = 10.0
"""Seconds that a client may leave events unread; then its stream ends, as with zenohd."""

EVENT_STREAM_TYPE = "text/event-stream"
TEXT_TYPE = "text/plain; charset=utf-8"
LOCAL_ADMIN_KEY = "@/local"
"""Stands for this node's own part of the admin space."""
RAW_PARAMETER = "_raw"


class HttpError(Exception):
    """A request that is answered with a status and one sentence."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(status, sentence)
        self.status = status
        self.sentence = sentence


class RestServer:
    """Answers HTTP requests with a session, until it is closed; the session stays open."""

    def __init__(self, session: Session, address: Address) -> None:
        try:
            self._server = _Server(session, address)
        except OSError as error:
            raise LinkError(url_of(address), f"cannot listen: {error.strerror or error}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="zenspark-web", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port, *_ = self._server.socket.getsockname()
        return url_of((host, port))

    def close(self) -> None:
        """Take no more requests, and end the streams of events."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.end_streams()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def url_of(address: Address) -> str:
    """An address as others would reach it."""
    host, port = address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_port = False  # some versions of Python would share the port with another server

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
        socketserver.TCPServer.server_bind(self)  # not that of HTTPServer, which asks the network for a name

    def handle_error(self, request: object, client_address: object) -> None:
        level = logging.DEBUG if isinstance(sys.exception(), OSError) else logging.ERROR
        logger.log(level, "a request of %s has failed", client_address, exc_info=True)

    def run_stream(self, connection: socket.socket) -> None:
        """Return when the client goes away, or the stream is ended."""
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

    # --- the methods of HTTP

    def do_GET(self) -> None:
        self._try(self._stream if self._accepted() == EVENT_STREAM_TYPE else self._query)

    def do_POST(self) -> None:
        self._try(self._query)

    def do_PUT(self) -> None:
        self._try(self._put)

    do_PATCH = do_PUT

    def do_DELETE(self) -> None:
        self._try(self._delete)

    def do_OPTIONS(self) -> None:
        allowed = [("Methods", "GET, POST, PUT, PATCH, DELETE"), ("Headers", "*")]
        self._answer(HTTPStatus.OK, headers=[(f"Access-Control-Allow-{name}", value) for name, value in allowed])

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except HttpError as refusal:
            self._refuse(refusal.status, refusal.sentence)
        except UsageError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except ZError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    # --- what they do

    def _query(self) -> None:
        body, selector = self._body(), self._selector()
        self._check("query", selector.key_expr)
        encoding = self._encoding() if body else None
        found = self.server.session.get(selector, payload=body or None, encoding=encoding)
        replies = [reply for reply in found if self._may_have(reply, selector)]
        if RAW_PARAMETER not in selector.parameters:
            self._answer(HTTPStatus.OK, JSON, encode_replies(replies))
        elif replies:
            first = replies[0].result
            self._answer(HTTPStatus.OK, media_type(first.encoding), first.payload.to_bytes())
        else:
            self._answer(HTTPStatus.OK)

    def _put(self) -> None:
        body, key = self._body(), self._key()
        self._check("put", key)
        self.server.session.put(key, body, encoding=self._encoding())
        self._answer(HTTPStatus.OK)

    def _delete(self) -> None:
        self._body()
        key = self._key()
        self._check("delete", key)
        self.server.session.delete(key)
        self._answer(HTTPStatus.OK)

    def _stream(self) -> None:
        """Events until the client goes away; the subscriber is there before the client is told that all is well."""
        begun, key = threading.Event(), self._key()
        self._check("declare_subscriber", key)
        guest = self._guest

        def tell(sample: Sample) -> None:
            action: Action = "put" if sample.kind is SampleKind.PUT else "delete"
            if not guest.may("egress", action, str(sample.key_expr)):
                return
            begun.wait()
            try:
                self.wfile.write(b"event: %s\ndata: %s\n\n" % (sample.kind.name.encode(), encode_json(sample_document(sample))))
            except OSError:
                _shut_down(self.connection)  # which ends the stream below

        self.close_connection = True
        subscriber = self.server.session.declare_subscriber(key, Callback(tell))
        try:
            self.connection.settimeout(WRITE_TIMEOUT_SECONDS)
            self.send_response(HTTPStatus.OK)
            for header in ("Content-Type", EVENT_STREAM_TYPE), ("Cache-Control", "no-cache"), ("Connection", "close"):
                self.send_header(*header)
            self._allow_any_origin()
            self.end_headers()
            begun.set()
            self.server.run_stream(self.connection)
        finally:
            begun.set()
            with contextlib.suppress(ZError):
                subscriber.undeclare()

    # --- what clients may do

    @cached_property
    def _guest(self) -> Guest:
        return Guest(self.server.session, self.connection.getsockname()[0])

    def _check(self, action: Action, key: KeyExpr) -> None:
        """Refuse what access control denies."""
        if not self._guest.may("ingress", action, str(key)):
            raise HttpError(HTTPStatus.FORBIDDEN, f"access control denies {action} on {str(key)!r}")

    def _may_have(self, reply: Reply, selector: Selector) -> bool:
        key = selector.key_expr if reply.ok is None else reply.ok.key_expr
        return self._guest.may("egress", "reply", str(key))

    # --- what requests say

    def _accepted(self) -> str:
        """The kind of answer that is named first."""
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
            raise HttpError(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length: bodies in chunks are not understood")
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdecimal()):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"expected a number as Content-Length, found {length!r}")
        if len(length) > len(str(MAX_BODY_BYTES)) or int(length) > MAX_BODY_BYTES:
            sentence = f"expected at most {MAX_BODY_BYTES} bytes in the body, found {length}"
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("the client went away within the body")
        return body

    # --- what is answered

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self.close_connection = True  # a body may be left unread
        self._answer(status, TEXT_TYPE, f"{sentence}\n".encode(), [("Connection", "close")])

    def _answer(
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
