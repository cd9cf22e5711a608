"""IngestSettings: settings of the ingestion of journals into a lake, shared by `zenspark up` and its child process."""

from __future__ import annotations

from typing import Annotated

import msgspec

from zenspark.lake.maintenance_config import MaintenanceConfig

Positive = Annotated[int, msgspec.Meta(ge=1)]

DEFAULT_MASTER = "local[*]"
"""Master URL of a Spark on this machine, with all of its processors."""
MAX_INGEST_BATCH_ROWS = 2_000_000
"""Default of the rows per batch."""
MAX_INGEST_BATCH_BYTES = 1 << 30
"""Default of the journal bytes per batch: a backlog is ingested in several batches, a crash costs the work of one."""


class IngestSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the ingestion into one lake."""

    master: str = DEFAULT_MASTER
    """Master URL of Spark."""
    conf: dict[str, str] = msgspec.field(default_factory=dict)
    """Spark configuration; overrides zenspark's defaults."""
    trigger: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    """Seconds from the start of one batch to the start of the next."""
    max_batch_rows: Positive = MAX_INGEST_BATCH_ROWS
    max_batch_bytes: Positive = MAX_INGEST_BATCH_BYTES
    deduplicate: bool = False
    """Whether samples recorded by several recorders are ingested once."""
    maintenance: MaintenanceConfig = MaintenanceConfig()


class IngestProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Input of one ingest process: journals, target lake and settings."""

    lake: str
    journals: tuple[str, ...]
    instance: str
    """Id of the pipeline that started the process; the successor of a crashed process has the same id."""
    settings: IngestSettings = IngestSettings()
