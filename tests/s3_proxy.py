"""A way to an S3 server that can be closed, or refuse credentials, for a while."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

REFUSAL = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SignatureDoesNotMatch</Code><Message>The signature does not match.</Message></Error>"""
POLL_SECONDS = 0.01
"""Time between two checks whether the server is to end; the default of 0.5 s is how long each `close` would take."""
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "expect"}


class S3Proxy:
    """Passes requests on to a server."""

    def __init__(self, endpoint: str) -> None:
        self._target = urlsplit(endpoint).netloc
        self.refuses = False
        """Whether it replies that the credentials are wrong."""
        self._server = self._opened(0)
        self._port = self._server.server_port
        self.endpoint = f"http://127.0.0.1:{self._port}"

    def _opened(self, port: int) -> ThreadingHTTPServer:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline:
                    self.close_connection = True
                elif self.parse_request():
                    proxy._respond(self)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True).start()
        return server

    def _respond(self, request: BaseHTTPRequestHandler) -> None:
        body = _body(request)
        if self.refuses:
            self._reply(request, 403, {}, b"" if request.command == "HEAD" else REFUSAL)
            return
        connection = http.client.HTTPConnection(self._target)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        connection.request(request.command, request.path, body, headers)
        with connection.getresponse() as response:
            content = response.read()
            length = response.headers.get("Content-Length") if request.command == "HEAD" else None
            self._reply(request, response.status, dict(response.headers), content, length)
        connection.close()

    @staticmethod
    def _reply(
        request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes, length: str | None = None
    ) -> None:
        request.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in HOP_BY_HOP:
                request.send_header(name, value)
        request.send_header("Content-Length", length or str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def close(self) -> None:
        """Let no request reach it any more."""
        self._server.shutdown()
        self._server.server_close()

    def open(self) -> None:
        """Listen again, where it did before."""
        self._server = self._opened(self._port)


def _body(request: BaseHTTPRequestHandler) -> bytes:
    """What comes behind the headers of a request."""
    if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))
    found = b""
    while size := int(request.rfile.readline(), 16):
        found += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return found


@contextmanager
def running_s3_proxy(endpoint: str) -> Iterator[S3Proxy]:
    """A proxy before a server, until the end."""
    proxy = S3Proxy(endpoint)
    try:
        yield proxy
    finally:
        proxy.close()
