"""What is wrong before Spark is needed; tests/spark/test_lake_landing.py tests the rest."""

from pathlib import Path
from typing import Any

import pytest

from zenspark.errors import UsageError
from zenspark.spark.lake import Lake
from zenspark.spark.lake.landing import Landing

NO_SPARK: Any = None


def test_a_landing_needs_a_journal_and_to_be_started(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a journal"):
        Landing(NO_SPARK, [], Lake(tmp_path))
    with pytest.raises(UsageError, match="not started"):
        Landing(NO_SPARK, [tmp_path / "journal"], Lake(tmp_path)).wait()
