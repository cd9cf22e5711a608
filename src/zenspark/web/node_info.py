"""The node behind the server: id, role, version, addresses and configured connections."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from zenspark import __version__, build_kind
from zenspark.api.session import runtime_of
from zenspark.web.context import WebContext
from zenspark.web.documents import JSON, encode_json
from zenspark.web.pipeline_view import lakes_of
from zenspark.web.values import iso


def json_response(document: object) -> Response:
    """Make a response of a JSON document."""
    return Response(encode_json(document), media_type=JSON)


class NodeApi:
    """Requests `/_api/node`."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def describe(self, request: Request) -> Response:
        """Describe the node."""
        session, settings = self._context.session, self._context.settings
        identity = runtime_of(session).node.identity
        configured = self._context.connections()
        return json_response(
            {
                "zid": str(identity.zid),
                "whatami": identity.whatami.text,
                "version": __version__,
                "build": build_kind(),
                "locators": [] if session.is_closed() else session.info.locators(),
                "started_at": iso(self._context.started_at),
                "write": settings.write,
                "sql": self._context.sql is not None,
                "pipeline": self._context.pipeline is not None,
                "lakes": lakes_of(self._context.overview.status),
                "endpoints": {
                    "configured": configured,
                    "connected": sum(bool(connection["connected"]) for connection in configured),
                },
            }
        )
