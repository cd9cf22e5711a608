"""Configuration of advanced publishers and subscribers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from zenspark.api.ext.advanced.config import (
    CacheConfig,
    HistoryConfig,
    MissDetectionConfig,
    RecoveryConfig,
    RepliesConfig,
)
from zenspark.types.enums import Priority


def test_defaults_and_rejected_values_of_configurations() -> None:
    assert CacheConfig().max_samples == 1
    assert CacheConfig(3, replies_config=RepliesConfig(express=True)).replies_config.express
    assert HistoryConfig(max_samples=2, max_age=1.5).parameters() == {"_max": "2", "_time": "[now(-1.5s)..]"}
    for wrong in (lambda: CacheConfig(-1), lambda: HistoryConfig(max_samples=-1)):
        with pytest.raises(OverflowError):
            wrong()
    with pytest.raises(TypeError):
        HistoryConfig(max_age="1")  # type: ignore[arg-type]
    options: dict[str, Any]
    for options in ({}, {"heartbeat": False}, {"heartbeat": True, "periodic_queries": 1}):
        with pytest.raises(ValueError, match="either"):
            RecoveryConfig(**options)


@pytest.mark.parametrize(
    "make",
    [
        lambda number: CacheConfig(number, replies_config=RepliesConfig(priority=Priority.DATA)),
        lambda number: HistoryConfig(max_samples=number),
        lambda number: MissDetectionConfig(heartbeat=number),
        lambda number: RecoveryConfig(periodic_queries=number),
    ],
)
def test_configurations_compare_hash_and_pickle(make: Callable[[int], Any]) -> None:
    assert pickle.loads(pickle.dumps(make(1))) == make(1) != make(2)
    assert {make(1): 1}[make(1)] == 1
    assert make(1) != 1
    assert "1" in repr(make(1))


@pytest.mark.parametrize("period", [0, 0.0, timedelta(0), -1, timedelta(-1)])
def test_period_between_queries_is_more_than_zero(period: float | timedelta) -> None:
    with pytest.raises(ValueError, match="expected"):
        RecoveryConfig(periodic_queries=period)
