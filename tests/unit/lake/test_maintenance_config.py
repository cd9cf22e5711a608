from __future__ import annotations

import msgspec
import pytest

from zenspark.lake.maintenance_config import MaintenanceConfig


def test_without_limits_everything_is_kept() -> None:
    config = MaintenanceConfig()
    assert (config.retain_age, config.retain_bytes, config.retain) == (None, None, {})


def test_negative_times_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="refresh_interval"):
        msgspec.json.decode(b'{"refresh_interval": -1}', type=MaintenanceConfig)
