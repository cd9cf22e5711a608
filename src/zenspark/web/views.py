"""Views of the live state, once: `/_api/overview`, `/_api/keys` and `/_api/network`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from zenspark.key import KeyExpr
from zenspark.web.context import WebContext, check_access
from zenspark.web.documents import JSON
from zenspark.web.key_monitor import MAX_MONITORED_KEYS
from zenspark.web.node_info import json_response
from zenspark.web.past import int_parameter


class ViewsApi:
    """Requests for the data that the WebSocket sends in batches."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def overview(self, request: Request) -> Response:
        """Return the series of ten minutes and the current values."""
        return json_response(await self._context.run(self._context.overview.document))

    async def network(self, request: Request) -> Response:
        """Return nodes, links, sessions, declarations and events."""
        await self._context.run(self._context.network.refresh)
        client = self._context.client(request)
        return json_response(await self._context.run(self._context.network.document, client))

    async def keys(self, request: Request) -> Response:
        """Return the rows of keys; without a live page the first request starts to collect them."""
        key_expr = str(KeyExpr(request.query_params.get("key_expr") or "**"))
        limit = int_parameter(request, "limit", 1000, MAX_MONITORED_KEYS)
        client = self._context.client(request)
        check_access(client, "declare_subscriber", key_expr)
        monitor = await self._context.run(self._context.monitors.acquire, key_expr)
        try:
            await self._context.run(monitor.wait_for_keys)
        finally:
            self._context.monitors.release(key_expr)
        rows = [row for key, row in monitor.table.newest_rows(limit) if client.may_read(key)]
        is_cut = b"true" if monitor.table.is_truncated or len(monitor.table) > limit else b"false"
        body = b'{"rows":[%s],"total":%d,"truncated":%s}' % (b",".join(rows), len(monitor.table), is_cut)
        return Response(body, media_type=JSON)
