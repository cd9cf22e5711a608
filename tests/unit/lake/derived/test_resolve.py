"""Derived tables up to the moment without Spark, compared with a model; tests/spark/test_sql.py compares with Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from tests.lake_samples import RandomSamples, numbered
from tests.lake_tables import assert_equal, latest_of, put_in
from zenspark.lake.delta_table import Transaction
from zenspark.lake.derived.resolve import AGGREGATIONS, is_public_table_complete, resolve
from zenspark.lake.pending_rows import PROPAGATED_DELETES_APP_ID, OffsetRanges
from zenspark.lake.specs import LATEST
from zenspark.spark.ingest.partial_aggregates import write_partials
from zenspark.spark.lake import Lake


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_pending_rows_are_included(tmp_path: Path, seed: int) -> None:
    lake, samples = Lake(tmp_path / "lake"), RandomSamples(seed)
    for _ in range(3):
        put_in(lake, samples.batch(100))
        assert_equal({name: resolve(lake, name) for name in AGGREGATIONS}, samples.rows)


def refresh_latest(lake: Lake, end: int) -> None:
    """Refreshes the state of `latest` up to an offset, as a Spark task does."""
    state, samples = lake.state_table("latest"), lake.table("samples")
    files = write_partials(
        lake.derived("latest").definition,
        state.location,
        "refresh",
        samples.location,
        OffsetRanges({}, {"r": end}),
        samples.files,
    )
    app_versions = {"offset:r": end, "samples-version": samples.version, PROPAGATED_DELETES_APP_ID: samples.version}
    state.commit(Transaction(add=files, app_versions=app_versions))


@pytest.mark.slow
def test_rows_of_the_state_and_pending_rows_are_merged(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([{"key": "a", "kind": "PUT"}, {"key": "b", "kind": "PUT"}], 0, "r"))
    refresh_latest(lake, 2)
    put_in(lake, numbered([{"key": "b", "kind": "PUT"}, {"key": "c", "kind": "PUT"}], 2, "r"))
    found = latest_of(resolve(lake, "latest"))
    assert {key: row["offset"] for key, row in found.items()} == {"a": 0, "b": 2, "c": 3}
    assert not is_public_table_complete(lake, "latest")


@pytest.mark.slow
def test_row_deleted_by_another_tool_falls_back_to_older_row_of_its_key(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    rows = [{"key": "a", "kind": "PUT"}, {"key": "a", "kind": "PUT"}, {"key": "b", "kind": "PUT"}]
    put_in(lake, numbered(rows, 0, "r"))
    refresh_latest(lake, 3)
    DeltaTable(lake.table("samples").location.address).delete('"offset" >= 1')
    found = latest_of(resolve(lake, "latest"))
    assert {key: row["offset"] for key, row in found.items()} == {"a": 0}


@pytest.mark.slow
def test_a_public_table_that_has_every_row_is_complete(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([{"key": "a", "kind": "PUT"}], 0, "r"))
    refresh_latest(lake, 1)
    table = lake.table("latest")
    rows = resolve(lake, "latest")
    table.commit(Transaction(add=table.write(rows, "publish"), app_versions={"offset:r": 1}))
    assert is_public_table_complete(lake, "latest")
    assert pc.equal(lake.dataset("latest").to_table()["key"], rows["key"]).to_pylist() == [True]
    assert rows.schema.names == LATEST.schema.names
    put_in(lake, numbered([{"key": "b", "kind": "PUT"}], 1, "r"))
    assert not is_public_table_complete(lake, "latest")
