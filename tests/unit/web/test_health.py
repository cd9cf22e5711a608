"""One line for operators of many nodes."""

from __future__ import annotations

from tests.unit.web.lakes import FakePipeline, status
from tests.unit.web.served import context_of, opened, send_request, serving
from tests.wait import until


def test_health_is_status_503_after_the_session_was_closed() -> None:
    with opened() as session, serving(session) as server:
        assert (send_request(server, "/health").status, send_request(server, "/health").body) == (200, b"ok\n")
        assert (send_request(server, "/ready").status, send_request(server, "/ready").body) == (200, b"ready\n")
        session.close()
        assert (send_request(server, "/health").status, send_request(server, "/health").body) == (
            503,
            b"the session was closed\n",
        )
        assert send_request(server, "/ready").status == 503


def test_a_pipeline_with_a_problem_is_healthy_but_not_ready() -> None:
    flow = FakePipeline()
    flow.now = status(problem="ingestion failed: no space")
    with opened() as session, serving(session, flow) as server:
        assert until(lambda: context_of(server).overview.status)
        assert send_request(server, "/health").status == 200
        assert (send_request(server, "/ready").status, send_request(server, "/ready").body) == (
            503,
            b"ingestion failed: no space\n",
        )
