"""Samples of a pipeline's status document."""

from __future__ import annotations

from zenspark.api.adminspace.pipeline_metrics import PIPELINE_FAMILIES, lost_rows, pipeline_samples
from zenspark.transport.counters import LossReason

STATUS = {
    "recorded": 5,
    "waiting": {"rows": 3, "seconds": 1.5},
    "keys": 2,
    "lost": {"links": {"interrupted": 3}, "recorder": 1, "trimmed": 0},
    "journals": [
        {"path": "./journal", "rows": 5, "bytes": 900, "segments": 1, "oldest": 1e9, "newest": None}
        | {"free_bytes": 10**9, "backlog": 4, "refused": 7}
    ],
    "ingestions": [{"lake": "./lake", "rows": 2, "bytes": 100, "state": "failed", "batch_seconds": 0.5}],
}


def test_status_document_is_converted_to_pipeline_metrics() -> None:
    found = {(family.name, *labels.values()): value for family, labels, value in pipeline_samples(STATUS)}
    assert found == {("zenspark_lost_rows", str(reason)): 0 for reason in LossReason} | {
        ("zenspark_recorded_rows",): 5,
        ("zenspark_waiting_rows",): 3,
        ("zenspark_lag_seconds",): 1.5,
        ("zenspark_stored_keys",): 2,
        ("zenspark_lost_rows", "interrupted"): 3,
        ("zenspark_lost_rows", "recorder"): 1,
        ("zenspark_lost_rows", "trimmed"): 0,
        ("zenspark_journal_rows", "./journal"): 5,
        ("zenspark_journal_bytes", "./journal"): 900,
        ("zenspark_journal_segments", "./journal"): 1,
        ("zenspark_journal_oldest_timestamp_seconds", "./journal"): 1e9,
        ("zenspark_journal_free_bytes", "./journal"): 10**9,
        ("zenspark_journal_backlog", "./journal"): 4,
        ("zenspark_journal_refused_rows", "./journal"): 7,
        ("zenspark_ingested_rows", "./lake"): 2,
        ("zenspark_ingested_bytes", "./lake"): 100,
        ("zenspark_quarantined_rows", "./lake"): 0,
        ("zenspark_ingestion_up", "./lake"): 0,
        ("zenspark_batch_seconds", "./lake"): 0.5,
    }
    assert len({family.name for family in PIPELINE_FAMILIES}) == len(PIPELINE_FAMILIES)


def test_empty_status_document_gives_zero_metrics() -> None:
    assert all(value == 0 for _, _, value in pipeline_samples({}))
    reasons = {labels["reason"] for family, labels, _ in pipeline_samples({}) if family.name == "zenspark_lost_rows"}
    assert reasons == {*LossReason, "recorder", "trimmed"}
    assert lost_rows({}) == {"recorder": 0, "trimmed": 0}
