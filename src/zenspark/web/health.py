"""Health checks: `/health` reports whether the node runs, `/ready` whether it is connected and without problems."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from zenspark.web.context import WebContext


class HealthApi:
    """Requests `/health` and `/ready`; each is one line of text, with 200 or 503."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def health(self, request: Request) -> Response:
        """Return 200 while the session is open."""
        if self._context.session.is_closed():
            return PlainTextResponse("the session was closed\n", 503)
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Return 200 if the session is open, connected as configured, and the pipeline has no problem."""
        problems = await self._context.run(self._context.overview.problems)
        if problems:
            return PlainTextResponse(f"{'; '.join(problems)}\n", 503)
        return PlainTextResponse("ready\n")
