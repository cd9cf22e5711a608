"""State shared by all requests of a server."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

from tests.unit.web.served import context_of, opened, serving


def test_context_runs_functions_in_worker_threads() -> None:
    with opened() as session, serving(session) as server:
        context = context_of(server)
        name = asyncio.run(context.run(lambda: threading.current_thread().name))
        assert name.startswith("zenspark-web")
        assert context.connections() == []
        context.started_at -= timedelta(seconds=100)
        assert 100 <= context.uptime_seconds < 160
        session.close()
        assert context.connections() == []
