"""Metrics of a pipeline, made from its status document: the same on `/metrics` and in the admin space.

The pipeline itself is in a package above this one; fields that its document does not have count as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zenspark.api.adminspace.openmetrics import Family, MetricSample, samples_by_label
from zenspark.transport.counters import LossReason

RECORDED = Family("zenspark_recorded_rows", "counter", "Rows written to journals.")
JOURNAL_ROWS = Family("zenspark_journal_rows", "gauge", "Rows of a journal.", ("journal",))
JOURNAL_BYTES = Family("zenspark_journal_bytes", "gauge", "Bytes of the files of a journal.", ("journal",))
JOURNAL_SEGMENTS = Family("zenspark_journal_segments", "gauge", "Segments of a journal.", ("journal",))
JOURNAL_OLDEST = Family(
    "zenspark_journal_oldest_timestamp_seconds", "gauge", "When the oldest row of a journal was received.", ("journal",)
)
JOURNAL_NEWEST = Family(
    "zenspark_journal_newest_timestamp_seconds", "gauge", "When the newest row of a journal was received.", ("journal",)
)
JOURNAL_FREE = Family("zenspark_journal_free_bytes", "gauge", "Free space on the disk of a journal.", ("journal",))
JOURNAL_BACKLOG = Family(
    "zenspark_journal_backlog", "gauge", "Chunks of received messages that wait for a journal.", ("journal",)
)
JOURNAL_REFUSED = Family(
    "zenspark_journal_refused_rows", "counter", "Received rows that a journal could not take.", ("journal",)
)
INGESTED = Family("zenspark_ingested_rows", "counter", "Rows committed to tables.", ("lake",))
INGESTED_BYTES = Family("zenspark_ingested_bytes", "counter", "Bytes of files committed to tables.", ("lake",))
INGESTION_UP = Family("zenspark_ingestion_up", "gauge", "Whether ingestion into a lake runs.", ("lake",))
BATCH_SECONDS = Family("zenspark_batch_seconds", "gauge", "Duration of the last batch.", ("lake",))
WAITING = Family("zenspark_waiting_rows", "gauge", "Rows in journals that are not ingested yet.")
LAG = Family("zenspark_lag_seconds", "gauge", "Age of the oldest row that is not ingested yet.")
QUARANTINED = Family("zenspark_quarantined_rows", "counter", "Rows moved to quarantine.", ("lake",))
LOST_ROWS = Family("zenspark_lost_rows", "counter", "Rows that are in no table, by reason.", ("reason",))
STORED_KEYS = Family("zenspark_stored_keys", "gauge", "Keys whose newest value can be queried.")

PIPELINE_FAMILIES: tuple[Family, ...] = tuple(value for value in globals().values() if isinstance(value, Family))
"""All families of a pipeline, in the order of the document."""

JOURNAL_FIELDS = {
    "rows": JOURNAL_ROWS,
    "bytes": JOURNAL_BYTES,
    "segments": JOURNAL_SEGMENTS,
    "oldest": JOURNAL_OLDEST,
    "newest": JOURNAL_NEWEST,
    "free_bytes": JOURNAL_FREE,
    "backlog": JOURNAL_BACKLOG,
    "refused": JOURNAL_REFUSED,
}


def pipeline_samples(status: Mapping[str, Any]) -> Iterator[MetricSample]:
    """Yield the samples of a pipeline's status document."""
    waiting = status.get("waiting", {})
    yield RECORDED, {}, status.get("recorded", 0)
    yield WAITING, {}, waiting.get("rows", 0)
    yield LAG, {}, waiting.get("seconds", 0.0)
    yield STORED_KEYS, {}, status.get("keys", 0)
    yield from samples_by_label(LOST_ROWS, "reason", dict.fromkeys(map(str, LossReason), 0) | lost_rows(status))
    for journal in status.get("journals", ()):
        for name, family in JOURNAL_FIELDS.items():
            if journal.get(name) is not None:
                yield family, {"journal": str(journal["path"])}, journal[name]
    for ingestion in status.get("ingestions", ()):
        lake = {"lake": str(ingestion["lake"])}
        yield INGESTED, lake, ingestion.get("rows", 0)
        yield INGESTED_BYTES, lake, ingestion.get("bytes", 0)
        yield QUARANTINED, lake, ingestion.get("quarantined", 0)
        yield INGESTION_UP, lake, float(ingestion.get("state") == "ingesting")
        if ingestion.get("batch_seconds") is not None:
            yield BATCH_SECONDS, lake, ingestion["batch_seconds"]


def lost_rows(status: Mapping[str, Any]) -> dict[str, int]:
    """Return the lost messages of a status by reason; a reason of links is there once it has occurred."""
    lost = status.get("lost", {})
    return {**lost.get("links", {}), "recorder": lost.get("recorder", 0), "trimmed": lost.get("trimmed", 0)}
