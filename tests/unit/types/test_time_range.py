"""Ranges of time in queries."""

from __future__ import annotations

import pytest

from zenspark.errors import UsageError
from zenspark.types.time_range import TimeRange

NOW = 1000.0


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("[now(-5s)..]", [995, 1000, 2000], [994.9, 0]),
        ("]now(-5s)..now()]", [995.1, 1000], [995, 1000.1]),
        ("[now(-5s)..now()[", [995, 999.9], [994.9, 1000]),
        ("[..]", [0, 1000, 1e9], []),
        ("[..now(1m)]", [0, 1060], [1061]),
        ("[now(-1h);30m]", [-2600, -1000], [-2601, 0]),
        ("[1970-01-01T00:16:30Z..now(500ms)]", [990, 1000.5], [989, 1001]),
        ("[now(-0.000001w)..now(2u)]", [999.5, 1000.000001], [999, 1000.1]),
        ("[now(-1e1)..]", [990], [989]),
        ("[..9999-12-31T23:59:59Z]", [0, 1e9, 5e9], []),
        ("[0001-01-01T00:00:00Z..now()]", [0, 1000], [1001]),
        ("[9999-12-31T23:59:59Z..]", [], [0, 1e9, 5e9]),
        ("[..1969-12-31T23:59:59.5Z]", [-1], [0, 1000]),
        ("[..2026-01-01T00:00:00.25Z]", [1767225600.25], [1767225600.26]),
        ("[now(-1d)..now(-1d)]", [NOW - 86_400], [NOW]),
    ],
)
def test_range_contains_times_by_its_brackets(text: str, inside: list[float], outside: list[float]) -> None:
    found = TimeRange.parse(text, NOW)
    assert [time for time in inside if time not in found] == []
    assert [time for time in outside if time in found] == []


def test_a_bound_beyond_all_timestamps_is_none() -> None:
    assert TimeRange.parse("[0001-01-01T00:00:00Z..9999-12-31T23:59:59Z]", NOW) == TimeRange()


@pytest.mark.parametrize(
    "text", ["", "now()", "[now()]", "[now(5x)..]", "[yesterday..]", "[now();]", "[..2026-13-01T00:00:00Z]"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        TimeRange.parse(text, NOW)
