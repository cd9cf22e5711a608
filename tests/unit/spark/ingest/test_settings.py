from __future__ import annotations

import msgspec
import pytest

from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.spark.ingest.settings import IngestProcessConfig, IngestSettings


def test_ingest_task_round_trips_as_json() -> None:
    settings = IngestSettings(
        conf={"spark.driver.memory": "2g"}, maintenance=MaintenanceConfig(retain={"fleet": None, "a/**": 60.0})
    )
    task = IngestProcessConfig(lake="s3://b/lake", journals=("/j",), instance="x", settings=settings)
    assert msgspec.json.decode(msgspec.json.encode(task), type=IngestProcessConfig) == task


def test_batches_are_bounded_by_default() -> None:
    assert (IngestSettings().max_batch_rows, IngestSettings().max_batch_bytes) == (2_000_000, 1 << 30)


def test_contradictory_arguments_are_rejected() -> None:
    with pytest.raises(msgspec.ValidationError, match="max_batch_rows"):
        msgspec.json.decode(b'{"max_batch_rows": 0}', type=IngestSettings)
