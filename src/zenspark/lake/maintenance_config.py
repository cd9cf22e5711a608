"""MaintenanceConfig: intervals of refresh and compaction of a lake, and retention of its samples."""

from __future__ import annotations

from typing import Annotated

import msgspec

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Bytes = Annotated[int, msgspec.Meta(ge=1)]

HOUR_SECONDS = 3600.0


class MaintenanceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a lake's maintenance; durations are seconds, sizes bytes, and None is no limit.

    Retention applies to `samples`: `latest`, `traffic` and `gaps` keep the results of expired samples.

    Args:
        refresh_interval: Seconds between two refreshes of the derived tables.
        compact_interval: Seconds between two runs of compaction, retention and vacuum.
        retain_age: Age in seconds after which samples are removed.
        retain_bytes: Size of the files of `samples` over which the oldest days are removed.
        retain: Ages in seconds by prefix or key expression, instead of `retain_age`; None keeps these samples for ever.
        history: Seconds for which older table versions can be read: the log and removed files are kept as long.

    Example:
        >>> config = MaintenanceConfig(retain_age=30 * 86_400, retain={"fleet/*/log": 86_400})
        >>> config.refresh_interval
        5.0
    """

    refresh_interval: Seconds = 5.0
    compact_interval: Seconds = 60.0
    retain_age: Seconds | None = None
    retain_bytes: Bytes | None = None
    retain: dict[str, Seconds | None] = msgspec.field(default_factory=dict)
    history: Seconds = HOUR_SECONDS
