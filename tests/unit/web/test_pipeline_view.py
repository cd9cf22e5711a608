"""The pipeline as the page and the metrics see it."""

from __future__ import annotations

import pytest

from tests.unit.web.lakes import FakePipeline, Tables, status
from tests.unit.web.served import context_of, opened, send_request, serving
from tests.wait import until
from zenspark.web.pipeline_view import BatchHistory, lakes_of, status_document


def test_status_document_has_problems_and_lakes() -> None:
    flow = FakePipeline()
    flow.now = status(problem="ingestion failed: no space")
    document = status_document(flow)
    assert document is not None
    assert document["ingestions"][0]["problem"] == document["problem"] == "ingestion failed: no space"
    assert lakes_of(document) == ["./lake"]
    assert (status_document(None), lakes_of(None)) == (None, [])


def test_batch_history_has_the_increase_of_row_counts() -> None:
    history = BatchHistory()
    flow = FakePipeline()
    for rows in (10, 10, 25, 30):
        flow.now = status(rows)
        document = status_document(flow)
        assert document is not None
        history.add(document)
    batches = history.of("./lake")
    assert [(batch["rows"], batch["bytes"], batch["seconds"]) for batch in batches] == [(15, 1500, 0.5), (5, 500, 0.5)]
    assert history.of("elsewhere") == []


@pytest.mark.slow
def test_pipeline_document_has_lakes_maintenance_and_losses() -> None:
    with opened() as session, serving(session, FakePipeline(), Tables()) as server:
        assert until(lambda: context_of(server).overview.status)
        found = send_request(server, "/_api/pipeline").json
        (lake,) = found["lakes"]
        assert (lake["lake"], lake["state"], lake["rows"]) == ("./lake", "ingesting", 10)
        refresh, compaction = lake["maintenance"]
        assert (refresh["task"], refresh["time"], refresh["result"]) == ("refresh", None, None)
        assert refresh["next"] == "2023-11-14T22:13:20Z"
        assert compaction == {
            "task": "compaction",
            "time": "2023-11-14T22:13:20Z",
            "seconds": 0.5,
            "result": "disk full",
            "failed": True,
            "next": None,
        }
        assert found["losses"] == {"sequence_gap": 2, "recorder": 3, "trimmed": 4}
        assert found["status"]["recorded"] == 20


def test_pipeline_document_without_a_pipeline_is_empty() -> None:
    with opened() as session, serving(session) as server:
        found = send_request(server, "/_api/pipeline").json
        assert (found["lakes"], found["status"], found["latency"]) == ([], None, None)
