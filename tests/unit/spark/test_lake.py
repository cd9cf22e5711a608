"""A lake with Spark, before anything was ingested."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from zenspark.errors import UsageError
from zenspark.lake.lake import STATE_TABLE_SPECS
from zenspark.spark.lake import Lake, derived_table_specs


@pytest.mark.slow
def test_importing_spark_lake_loads_no_pyspark() -> None:
    code = "import sys, zenspark.spark.lake; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_lake_is_pickled_by_its_address(tmp_path: Path) -> None:
    lake = pickle.loads(pickle.dumps(Lake(tmp_path / "lake")))
    assert type(lake) is Lake
    assert lake.location == Lake(tmp_path / "lake").location


def test_every_derived_table_has_a_derivation() -> None:
    assert derived_table_specs().keys() == STATE_TABLE_SPECS.keys()


def test_only_derived_tables_can_be_rebuilt(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'samples' is not made from samples; these are: latest, gaps, traffic"):
        Lake(tmp_path).rebuild(None, "samples")  # type: ignore[arg-type]
