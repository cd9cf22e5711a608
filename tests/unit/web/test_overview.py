"""Rates, totals and problems, sampled once a second."""

from __future__ import annotations

import logging

import pytest

from tests.unit.api.sessions import connected
from tests.unit.web.lakes import FakePipeline, status
from tests.unit.web.served import context_of, opened, send_request, serving
from tests.wait import until
from zenspark.web.overview import KEPT_SAMPLES
from zenspark.web.traffic import read_traffic


def test_series_and_current_values() -> None:
    with opened() as session, connected("client", session) as other, serving(session) as server:
        overview = context_of(server).overview
        overview.sample()
        for _ in range(100):
            other.put("demo/a", bytes(100))
        received = read_traffic(session).messages_in
        assert until(lambda: read_traffic(session).messages_in >= 100), received
        overview.sample()
        found = send_request(server, "/_api/overview").json
        lengths = {len(series) for series in found["series"].values()}
        assert len(lengths) == 1
        assert max(found["series"]["messages"]) > 0
        assert max(found["series"]["bytes"]) > max(found["series"]["messages"])
        assert found["series"]["rows_ingested"][-1] is None
        assert (found["current"]["sessions"], found["current"]["recorded"], found["problems"]) == (1, None, [])
        assert overview.samples.maxlen == KEPT_SAMPLES == 600


def test_overview_has_totals_and_problems_of_the_pipeline() -> None:
    flow = FakePipeline()
    with opened() as session, serving(session, flow) as server:
        overview = context_of(server).overview
        overview.sample()
        overview._status_at = 0.0
        flow.now = status(15, problem="ingestion failed: no space")
        overview.sample()
        found = send_request(server, "/_api/overview").json
        assert found["series"]["rows_ingested"][-1] >= 0
        current = found["current"]
        assert (current["recorded"], current["ingested"], current["lost"], current["keys"]) == (20, 15, 9, 5)
        assert found["problems"] == ["ingestion failed: no space"]


def test_overview_is_starting_only_before_the_first_ingestion() -> None:
    flow = FakePipeline()
    flow.now = status(0, state="starting")
    with opened() as session, serving(session, flow) as server:
        overview = context_of(server).overview

        def is_starting(state: str) -> object:
            flow.now = status(0, state=state)
            overview._status_at = 0.0
            overview.sample()
            return send_request(server, "/_api/overview").json["current"]["starting"]

        assert [is_starting(state) for state in ("starting", "ingesting", "starting")] == [True, False, False]
    with opened() as session, serving(session) as server:
        assert not send_request(server, "/_api/overview").json["current"]["starting"]


def test_a_pipeline_that_fails_does_not_end_the_series(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "zenspark.web")

    class Broken:
        def status(self) -> object:
            raise OSError("gone")

    with opened() as session, serving(session, Broken()) as server:
        assert send_request(server, "/_api/overview").status == 200
        assert send_request(server, "/metrics").status == 200
        expected = f"overview of {server.url}: reading the counters failed"
        assert until(lambda: expected in caplog.messages), caplog.messages


def test_a_closed_session_is_a_problem() -> None:
    with opened() as session, serving(session) as server:
        session.close()
        assert send_request(server, "/_api/overview").json["problems"] == ["the session was closed"]
