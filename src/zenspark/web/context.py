"""WebContext: the state that the handlers of a server share: session, settings, counts, worker threads, live state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from starlette.requests import HTTPConnection

from zenspark.api.session import Session
from zenspark.router.interceptors.rules import InterceptedAction
from zenspark.web import limits
from zenspark.web.auth import Authenticator
from zenspark.web.client_log import ClientLog
from zenspark.web.counts import HttpCounts
from zenspark.web.http_clients import HttpClient
from zenspark.web.http_error import HttpError
from zenspark.web.lake_stats import LakeStats
from zenspark.web.origin import OriginPolicy
from zenspark.web.protocols import Pipeline, SqlEngine
from zenspark.web.settings import HttpSettings

if TYPE_CHECKING:
    from zenspark.web.events import EventHubs
    from zenspark.web.key_monitor import KeyMonitors
    from zenspark.web.network import NetworkWatch
    from zenspark.web.overview import OverviewSampler

P = ParamSpec("P")
T = TypeVar("T")


class WebContext:
    """Shared by all requests of one server."""

    hubs: EventHubs
    monitors: KeyMonitors
    network: NetworkWatch
    overview: OverviewSampler
    url: str
    """URL of the server, for the log."""

    def __init__(
        self, session: Session, settings: HttpSettings, pipeline: Pipeline | None, sql: SqlEngine | None
    ) -> None:
        self.session = session
        self.settings = settings
        self.pipeline = pipeline
        self.sql = sql
        self.lake_stats = LakeStats(sql)
        self.counts = HttpCounts()
        self.client_log = ClientLog()
        self.auth = Authenticator(settings, self.client_log)
        self.origins = OriginPolicy(settings)
        self.started_at = datetime.now(UTC)
        self.workers = ThreadPoolExecutor(limits.MAX_WORKERS, "zenspark-web")
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop of the server, once it runs."""
        self.is_closing = False

    @property
    def uptime_seconds(self) -> float:
        """Seconds since the server started."""
        return (datetime.now(UTC) - self.started_at).total_seconds()

    def connections(self) -> list[dict[str, Any]]:
        """Return the connections that the configuration requires, with the reason if one fails."""
        if self.session.is_closed() or not hasattr(self.session.info, "connections"):
            return []
        return [
            {"endpoint": " or ".join(status.endpoints), "connected": status.is_connected, "error": status.problem}
            for status in self.session.info.connections()
        ]

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that may wait, in a worker thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.workers, lambda: function(*args, **kwargs))

    def client(self, connection: HTTPConnection) -> HttpClient:
        """Return the client of a request, for access control."""
        server = connection.scope.get("server") or ("", None)
        remote = connection.client
        return HttpClient(self.session, server[0], self.settings.user, None if remote is None else remote.host)


def check_access(client: HttpClient, action: InterceptedAction, key: str) -> None:
    """Raise HttpError if access control denies an action of a client."""
    if not client.is_allowed("ingress", action, key):
        raise HttpError(HTTPStatus.FORBIDDEN, f"access control denies {action} on {key!r}")
