from __future__ import annotations

from datetime import UTC, datetime

import pytest

from zenspark.cli.demo import Demo, _format_cell
from zenspark.cli.screen import Screen
from zenspark.errors import UsageError


class Deaf:
    """All that a demo asks of a job at first; this one listens nowhere."""

    @property
    def session(self) -> Deaf:
        return self

    @property
    def info(self) -> Deaf:
        return self

    def locators(self) -> list[str]:
        return []


def test_a_fleet_needs_a_node_that_listens() -> None:
    with pytest.raises(UsageError, match="--listen"):
        Demo(Deaf(), Screen())  # type: ignore[arg-type]  # all it asks of a job here


def test_cells_are_as_people_read_them() -> None:
    time = datetime(2026, 11, 16, 3, 4, 5, 678_900, UTC)
    row = {"payload": b"{}", "encoding": "application/json", "timestamp": time, "minute": time, "none": None}
    assert _format_cell(row, "payload") == "{}"
    assert _format_cell({"payload": b"\x00\x01", "encoding": "image/jpeg"}, "payload") == "2 bytes"
    assert _format_cell(row, "timestamp") == "03:04:05.678"
    assert _format_cell(row, "minute") == "03:04"
    assert _format_cell(row, "none") == ""
    assert _format_cell({"latency": 12.7}, "latency") == "13"
    assert _format_cell({"count": 5}, "count") == "5"
