"""A lake before anything is ingested."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.lake.tables import written
from zenspark.errors import LakeError, UsageError
from zenspark.lake.delta_table import Transaction
from zenspark.lake.ingested_offsets import offset_app_versions
from zenspark.lake.lake import Lake


def test_reading_a_missing_lake_does_not_create_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    assert lake.tables()[:4] == ["samples", "latest", "gaps", "traffic"]
    assert not lake.exists()
    assert lake.ingested() == {}
    batches, offsets = lake.newest()
    assert (list(batches), offsets) == ([], {})
    with pytest.raises(LakeError, match="there is no lake here"):
        lake.dataset("samples")
    assert not (tmp_path / "lake").exists()


@pytest.mark.slow
def test_a_new_lake_has_all_tables_and_no_rows(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create()
    assert lake.exists()
    assert {name: lake.dataset(name).count_rows() for name in lake.tables()} == dict.fromkeys(lake.tables(), 0)
    lake.create()
    assert pickle.loads(pickle.dumps(lake)).location == lake.location


@pytest.mark.slow
def test_importing_lake_loads_no_pyspark() -> None:
    code = "import sys, zenspark.lake.lake, zenspark.storage; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_table_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no table 'sample'; there are: samples, latest"):
        Lake(tmp_path).table("sample")


@pytest.mark.slow
def test_newest_reads_latest_state_and_pending_samples(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    samples, latest = lake.table("samples"), lake.state_table("latest")
    rows = [{"key": f"k{offset}", "recorder": "r", "offset": offset} for offset in range(4)]
    samples.commit(Transaction(add=written(samples, "one", rows), app_versions=offset_app_versions({"r": 4})))
    latest.commit(Transaction(app_versions=offset_app_versions({"r": 3})))
    batches, offsets = lake.newest()
    assert [row["key"] for batch in batches for row in batch.to_pylist()] == ["k3"]
    assert offsets == lake.ingested() == lake.snapshot("samples").offsets == {"r": 4}
    assert lake.snapshot("latest").offsets == {}
    with pytest.warns(DeprecationWarning, match=r"call Lake\.ingested\(\)"):
        assert lake.landed() == {"r": 4}
