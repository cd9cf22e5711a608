"""Numbers about tables, queried once and cached."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tests.unit.web.lakes import Tables
from zenspark.lake import Lake
from zenspark.web.lake_stats import LakeStats

GAPS = pa.table({"source_zid": ["a", "a", "b"], "kind": ["MISSING", "REPEATED", "MISSING"], "count": [2, 1, 5]})


def recent_samples() -> pa.Table:
    """Two stamped samples and one without of this moment, and an old one."""
    now = datetime.now(UTC)
    received = [now, now, now, now - timedelta(hours=1)]
    stamped = [now - timedelta(microseconds=100), now - timedelta(microseconds=1000), None, now - timedelta(days=1)]
    kind = pa.timestamp("us", "UTC")
    return pa.table({"received_at": pa.array(received, kind), "timestamp": pa.array(stamped, kind)})


def test_gaps_and_latencies_are_queried_once_and_cached() -> None:
    tables = Tables(samples=recent_samples(), gaps=GAPS)
    stats = LakeStats(tables)
    assert stats.gaps() == [
        {"source": "b", "missing": 5, "repeated": 0},
        {"source": "a", "missing": 2, "repeated": 1},
    ]
    assert stats.latency() == {"buckets_us": [128, 256, 512, 1024], "counts": [1, 0, 0, 1]}
    assert [table.name for table in stats.tables()] == ["samples", "gaps"]
    queries = tables.queries
    stats.gaps()
    stats.latency()
    assert tables.queries == queries


@pytest.mark.slow
def test_statistics_of_missing_tables_are_empty(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "zenspark.web")
    tables = Tables()
    stats = LakeStats(tables)
    tables.lake = Lake("/no/lake")  # type: ignore[attr-defined]  # as the engine of a lake has it
    assert (stats.gaps(), stats.latency(), stats.tables()) == ([], None, [])
    assert caplog.messages[0].startswith("statistics gaps of lake /no/lake cannot be read: ")
    stats = LakeStats(None)
    assert (stats.gaps(), stats.latency(), stats.tables()) == ([], None, [])
