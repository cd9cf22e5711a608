from __future__ import annotations

import msgspec
import pytest

from zenspark.lake.maintenance_config import MaintenanceConfig


def test_default_config_has_no_retention_limits() -> None:
    config = MaintenanceConfig()
    assert (config.retain_age, config.retain_bytes, config.retain) == (None, None, {})


def test_negative_durations_are_rejected() -> None:
    with pytest.raises(msgspec.ValidationError, match="refresh_interval"):
        msgspec.json.decode(b'{"refresh_interval": -1}', type=MaintenanceConfig)
