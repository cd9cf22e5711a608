"""What requests share."""

from __future__ import annotations

import asyncio
import threading

from tests.unit.web.served import context_of, opened, serving


def test_context_runs_functions_in_worker_threads() -> None:
    with opened() as session, serving(session) as server:
        context = context_of(server)
        name = asyncio.run(context.run(lambda: threading.current_thread().name))
        assert name.startswith("zenspark-web")
        assert context.connections() == []
        assert context.uptime_seconds >= 0
        session.close()
        assert context.connections() == []
