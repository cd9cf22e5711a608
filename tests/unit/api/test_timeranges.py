"""Ranges of time in queries."""

from __future__ import annotations

import pytest

from zenspark.api.timeranges import TimeRange
from zenspark.errors import UsageError

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
        ("[now(-1d)..now(-1d)]", [NOW - 86_400], [NOW]),
    ],
)
def test_what_is_in_a_range(text: str, inside: list[float], outside: list[float]) -> None:
    found = TimeRange.parse(text, NOW)
    assert [time for time in inside if time not in found] == []
    assert [time for time in outside if time in found] == []


@pytest.mark.parametrize("text", ["", "now()", "[now()]", "[now(5x)..]", "[yesterday..]", "[now();]"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        TimeRange.parse(text, NOW)
