from __future__ import annotations

from datetime import UTC, datetime

from zenspark.cli.demo import ENOUGH, Demo, _shown
from zenspark.cli.screen import Screen
from zenspark.spark.job import Progress


class Listening:
    """All that a demo asks of a job before it shows anything."""

    landings: dict[str, object]

    @property
    def session(self) -> Listening:
        return self

    @property
    def info(self) -> Listening:
        return self

    def locators(self) -> list[str]:
        return ["tcp/127.0.0.1:1"]


def test_it_is_shown_when_there_is_enough_to_see() -> None:
    demo = Demo(Listening(), Screen())  # type: ignore[arg-type]
    assert not demo.is_due(Progress(0, 0, ENOUGH - 1, 0, 0, None, None, 0, None))
    assert demo.is_due(Progress(0, 0, ENOUGH, 0, 0, None, None, 0, None))


def test_cells_are_as_people_read_them() -> None:
    time = datetime(2026, 11, 16, 3, 4, 5, 678_900, UTC)
    row = {"payload": b"{}", "encoding": "application/json", "timestamp": time, "minute": time, "none": None}
    assert _shown(row, "payload") == "{}"
    assert _shown({"payload": b"\x00\x01", "encoding": "image/jpeg"}, "payload") == "2 bytes"
    assert _shown(row, "timestamp") == "03:04:05.678"
    assert _shown(row, "minute") == "03:04"
    assert _shown(row, "none") == ""
    assert _shown({"latency": 12.7}, "latency") == "13"
    assert _shown({"count": 5}, "count") == "5"
