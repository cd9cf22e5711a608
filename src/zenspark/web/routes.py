"""Routes of the page, its API, the metrics and the health checks."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router, WebSocketRoute
from starlette.staticfiles import StaticFiles

from zenspark.web.context import WebContext
from zenspark.web.health import HealthApi
from zenspark.web.live import LiveApi
from zenspark.web.login import LoginApi
from zenspark.web.metrics import MetricsApi
from zenspark.web.node_info import NodeApi
from zenspark.web.past import PastApi
from zenspark.web.pipeline_view import PipelineApi
from zenspark.web.query import QueryApi
from zenspark.web.tables import TablesApi
from zenspark.web.views import ViewsApi

STATIC = Path(__file__).parent / "static"
"""Files of the page, made by its build."""
NOT_BUILT = "The page is not built: run `make page`. REST, the API and the metrics work without it.\n"


NOT_FOUND = Router()
"""Files of a page that was not built."""


def page_routes(context: WebContext) -> list[BaseRoute]:
    """Make the routes of a server."""
    login, node, views, query = LoginApi(context), NodeApi(context), ViewsApi(context), QueryApi(context)
    past, tables, health = PastApi(context), TablesApi(context), HealthApi(context)
    return [
        Route("/", serve_page),
        Route("/favicon.ico", serve_icon),
        Mount("/_app", StaticFiles(directory=STATIC) if STATIC.is_dir() else NOT_FOUND),
        Route("/_api/login", login.describe),
        Route("/_api/login", login.log_in, methods=["POST"]),
        Route("/_api/logout", login.log_out, methods=["POST"]),
        WebSocketRoute("/_api/live", LiveApi(context).serve),
        Route("/_api/node", node.describe),
        Route("/_api/overview", views.overview),
        Route("/_api/keys", views.keys),
        Route("/_api/network", views.network),
        Route("/_api/value", query.value),
        Route("/_api/query", query.query, methods=["POST"]),
        Route("/_api/put", query.put, methods=["POST"]),
        Route("/_api/delete", query.delete, methods=["POST"]),
        Route("/_api/past", past.samples),
        Route("/_api/past/at", past.at),
        Route("/_api/past/keys", past.keys),
        Route("/_api/past/series", past.series),
        Route("/_api/export", past.export),
        Route("/_api/tables", tables.tables),
        Route("/_api/sql", tables.sql, methods=["POST"]),
        Route("/_api/pipeline", PipelineApi(context).describe),
        Route("/metrics", MetricsApi(context).scrape),
        Route("/health", health.health),
        Route("/ready", health.ready),
    ]


async def serve_page(request: Request) -> Response:
    """Serve the page itself."""
    index = STATIC / "index.html"
    if not index.is_file():
        return PlainTextResponse(NOT_BUILT)
    return FileResponse(index, headers={"Cache-Control": "no-cache"})


async def serve_icon(request: Request) -> Response:
    """Serve the icon of the page, if it has one."""
    icon = STATIC / "favicon.svg"
    return FileResponse(icon) if icon.is_file() else Response(status_code=204)
