"""HttpServer: serves a session over HTTP in a thread with an event loop of its own.

The session's threads never wait for HTTP: they deliver samples to bounded queues (chunk_queue.py). Requests
that wait for the network run in worker threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from typing import Self

from uvicorn.config import Config
from uvicorn.server import ServerState

from zenspark.api.session import Session
from zenspark.errors import ListenError, UsageError
from zenspark.web import limits
from zenspark.web.app import make_app
from zenspark.web.connection import CLIENT_LOG, COUNTS, HttpConnection, SocketConnection
from zenspark.web.context import WebContext
from zenspark.web.events import EventHubs
from zenspark.web.key_monitor import KeyMonitors
from zenspark.web.network import NetworkWatch
from zenspark.web.overview import OverviewSampler
from zenspark.web.protocols import Pipeline, SqlEngine
from zenspark.web.settings import ANY_ADDRESS, Address, HttpSettings, has_private_key

logger = logging.getLogger("zenspark.web")

CLOSE_TIMEOUT_SECONDS = 2.0
"""Seconds for requests in progress to end when the server closes."""


class HttpServer:
    """Serves HTTP requests through a session from construction until `close`; the session stays open.

    Args:
        session: The session that requests use; it stays open when the server closes.
        settings: Address, content and permissions; by default 127.0.0.1:8000, read-only.
        pipeline: Journals, lakes and storages that the page shows; none by default.
        sql: Engine of the SQL queries of the page; none by default.

    Raises:
        UsageError: The settings contradict each other, or lack a protection.
        ListenError: The address cannot be bound.

    Example:
        >>> with HttpServer(session, HttpSettings(address=("127.0.0.1", 0))) as server:
        ...     print(server.url)
    """

    def __init__(
        self,
        session: Session,
        settings: HttpSettings | None = None,
        pipeline: Pipeline | None = None,
        sql: SqlEngine | None = None,
    ) -> None:
        self.settings = settings or HttpSettings()
        self.settings.check()
        self._context = WebContext(session, self.settings, pipeline, sql)
        self._tls = _make_tls(self.settings)
        self._socket = _listen(self.settings)
        host, port, *_ = self._socket.getsockname()
        self.address: Address = host, port
        """Address and port of the socket."""
        self._context.url = self.url
        self._has_started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="zenspark-web", daemon=True)
        self._thread.start()
        self._has_started.wait()
        _warn_if_open(self.settings, self.url)

    @property
    def url(self) -> str:
        """URL of the server."""
        return url_of(self.address, self.settings.certificate is not None)

    def close(self) -> None:
        """Stop accepting requests, end event streams and WebSockets, and wait for the thread.

        Example:
            >>> server.close()
        """
        loop = self._context.loop
        if loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._request_stop)
            self._thread.join()
        self._context.workers.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- in the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            logger.exception("HTTP server %s failed", self.url)
        finally:
            self._has_started.set()

    def _request_stop(self) -> None:
        assert self._stop is not None, "the loop runs"
        self._stop.set()

    async def _serve(self) -> None:
        context = self._context
        context.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        context.hubs = EventHubs(context)
        tasks = self._start_page() if self.settings.serve_page else []
        state = ServerState()
        config = _make_config(context)
        server = await context.loop.create_server(
            lambda: HttpConnection(config, state, {COUNTS: context.counts, CLIENT_LOG: context.client_log}),
            sock=self._socket,
            ssl=self._tls,
            backlog=limits.HTTP_LISTEN_BACKLOG_CONNECTIONS,
            ssl_handshake_timeout=None if self._tls is None else limits.HEADER_TIMEOUT_SECONDS,
        )
        self._has_started.set()
        try:
            await self._stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            await self._shut_down(server, state)

    def _start_page(self) -> list[asyncio.Task[None]]:
        """Start the monitors of keys and of the network, and the sampling of the overview."""
        context = self._context
        context.monitors = KeyMonitors(context.session)
        context.network = NetworkWatch(context.session)
        context.overview = OverviewSampler(context)
        return [asyncio.create_task(context.overview.run())]

    async def _shut_down(self, server: asyncio.Server, state: ServerState) -> None:
        self._context.is_closing = True
        server.close()
        self._context.hubs.end_all()
        if self.settings.serve_page:
            self._context.monitors.close()
            self._context.network.close()
        for connection in list(state.connections):
            connection.shutdown()
        if state.tasks:
            await asyncio.wait(set(state.tasks), timeout=CLOSE_TIMEOUT_SECONDS)
        for connection in list(state.connections):
            connection.transport.abort()
        for task in list(state.tasks):
            task.cancel()


class RestServer(HttpServer):
    """Serves zenohd's REST API and nothing else, as its plugin does."""

    def __init__(self, session: Session, address: Address) -> None:
        super().__init__(session, HttpSettings.zenohd_rest(address))


def url_of(address: Address, is_tls: bool = False) -> str:
    """Format an address as a URL."""
    host, port = address
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _listen(settings: HttpSettings) -> socket.socket:
    """Bind the address; raises ListenError if that fails."""
    host, port = settings.address
    dual = host == ANY_ADDRESS and socket.has_dualstack_ipv6()
    if host == ANY_ADDRESS and not dual:
        host = "0.0.0.0"
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server(
            (host, port), family=family, backlog=limits.HTTP_LISTEN_BACKLOG_CONNECTIONS, dualstack_ipv6=dual
        )
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # Python repeats the address there
        raise ListenError(url_of(settings.address), f"cannot listen: {reason}") from error


def _make_tls(settings: HttpSettings) -> ssl.SSLContext | None:
    if settings.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except OSError as error:
        where = settings.certificate if settings.key is None else f"{settings.certificate} and {settings.key}"
        is_incomplete = settings.key is None and isinstance(error, ssl.SSLError)
        has_no_key = is_incomplete and not has_private_key(settings.certificate)
        reason = "it has no private key: expected `key`, too" if has_no_key else error.strerror or error
        raise UsageError(f"expected a certificate and its private key in PEM in {where}: {reason}") from error
    return context


def _make_config(context: WebContext) -> Config:
    config = Config(
        make_app(context),
        http=HttpConnection,
        ws=SocketConnection,
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(limits.IDLE_TIMEOUT_SECONDS),
        h11_max_incomplete_event_size=limits.MAX_HEADER_BYTES,
        ws_max_size=limits.MAX_SOCKET_MESSAGE_BYTES,
        ws_per_message_deflate=False,  # compressing every batch costs the node more than the bytes are worth
    )
    config.load()
    return config


def _warn_if_open(settings: HttpSettings, url: str) -> None:
    if not settings.is_loopback and not settings.has_login:
        rights = "read and write" if settings.write else "read"
        logger.warning("%s has no login: every machine that reaches it may %s; 127.0.0.1:PORT is safer", url, rights)
