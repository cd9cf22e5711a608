"""One line for those who watch over many nodes."""

from __future__ import annotations

from tests.unit.web.lakes import Flow, status
from tests.unit.web.served import ask, context_of, opened, serving
from tests.waiting import until


def test_a_node_that_runs_and_one_that_was_closed() -> None:
    with opened() as session, serving(session) as server:
        assert (ask(server, "/health").status, ask(server, "/health").body) == (200, b"ok\n")
        assert (ask(server, "/ready").status, ask(server, "/ready").body) == (200, b"ready\n")
        session.close()
        assert (ask(server, "/health").status, ask(server, "/health").body) == (503, b"the session was closed\n")
        assert ask(server, "/ready").status == 503


def test_a_pipeline_with_a_problem_is_healthy_but_not_ready() -> None:
    flow = Flow()
    flow.now = status(problem="ingestion failed: no space")
    with opened() as session, serving(session, flow) as server:
        assert until(lambda: context_of(server).overview.status)
        assert ask(server, "/health").status == 200
        assert (ask(server, "/ready").status, ask(server, "/ready").body) == (503, b"ingestion failed: no space\n")
