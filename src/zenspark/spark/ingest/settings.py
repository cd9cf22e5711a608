"""LandingSettings: how Spark lands journals in a lake, as `zenspark up` and its landing process share it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from zenspark.lake.maintenance_config import MaintenanceConfig

Positive = Annotated[int, msgspec.Meta(ge=1)]

MAX_BATCH_ROWS = 2_000_000
MAX_BATCH_BYTES = 1 << 30
"""Of the journals in one batch: a backlog lands in parts, and a crash costs at most one of them."""


class IngestSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the landing of a lake can be told."""

    master: str = "local[*]"
    """The master URL of the Spark that lands."""
    conf: dict[str, str] = msgspec.field(default_factory=dict)
    """Spark configuration; counts more than zenspark's own."""
    trigger: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    """Seconds from the start of a batch to that of the next."""
    max_batch_rows: Positive = MAX_BATCH_ROWS
    max_batch_bytes: Positive = MAX_BATCH_BYTES
    deduplicate: bool = False
    """Whether samples that several recorders recorded are landed once."""
    maintenance: MaintenanceConfig = MaintenanceConfig()


class IngestTask(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one landing process: which journals go into which lake, and how."""

    lake: str
    journals: tuple[str, ...]
    instance: str
    """Names the pipeline that started the process: the successor of a process that crashed has the same."""
    settings: IngestSettings = IngestSettings()
