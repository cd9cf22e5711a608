"""Partial aggregates of samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lake_samples import numbered
from tests.lake_tables import put_in
from zenspark.lake.derived.partial_aggregates import iterate_partials
from zenspark.lake.derived.traffic import TrafficAggregation
from zenspark.lake.pending_rows import OffsetRanges
from zenspark.spark.lake import Lake


@pytest.mark.slow
def test_partial_aggregate_skips_rows_refreshed_before(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([{} for _ in range(1000)], 0, "r"))
    samples = lake.table("samples")
    for start, end, count in ((0, 1000, 1000), (751, 1000, 249), (10, 20, 10), (1000, 1000, 0)):
        extent = OffsetRanges({"r": start}, {"r": end})
        found = iterate_partials(TrafficAggregation(), samples.location, extent, samples.files)
        assert sum(sum(aggregated["messages"].to_pylist()) for aggregated in found) == count
