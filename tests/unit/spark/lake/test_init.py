"""A lake before anything landed in it."""

from pathlib import Path

import pytest

from tests.unit.spark.lake.tables import written
from zenspark.errors import UsageError
from zenspark.spark.lake import Lake
from zenspark.spark.lake.offsets import marks, remember
from zenspark.spark.lake.table import Change


def test_a_new_lake_has_all_tables_and_no_rows(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    assert not (tmp_path / "lake").exists()
    assert lake.tables() == ["samples", "latest", "gaps", "traffic", "sessions", "declarations"]
    assert lake.landed() == {}
    assert {name: lake.dataset(name).count_rows() for name in lake.tables()} == dict.fromkeys(lake.tables(), 0)
    batches, offsets = lake.newest()
    assert (list(batches), offsets) == ([], {})


def test_there_are_no_other_tables(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no table 'sample'; there are: samples, latest"):
        Lake(tmp_path).table("sample")


def test_what_decides_is_in_latest_and_behind_it_in_samples(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    samples, latest = lake.table("samples"), lake.table("latest")
    rows = [{"key": f"k{offset}", "recorder": "r", "offset": offset} for offset in range(4)]
    remember(samples, ["r"])
    samples.commit(Change(add=written(samples, "batch=1", rows), marks=marks({"r": 4})))
    latest.commit(Change(marks=marks({"r": 3})))
    batches, offsets = lake.newest()
    assert [row["key"] for batch in batches for row in batch.to_pylist()] == ["k3"]
    assert offsets == lake.landed() == lake.snapshot("samples").offsets == {"r": 4}
    assert lake.snapshot("latest").offsets == {"r": 3}
