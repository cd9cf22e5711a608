"""Ranges of time in queries."""

from __future__ import annotations

import pytest

from zenspark.clock import NTP64_MAX_SECONDS
from zenspark.errors import UsageError
from zenspark.types.selector import Parameters
from zenspark.types.time_range import TimeRange, replace_length, time_parameter

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
    "text", ["", "now()", "[now()]", "[now(5x)..]", "[yesterday..]", "[now();]", "[;3s]", "[..2026-13-01T00:00:00Z]"]
)
def test_invalid_time_ranges_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        TimeRange.parse(text, NOW)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("_time=[now(-2m);3s]", "[now(-2m);3s]"),
        ("_time=]now(-2m);3s[;_limit=1", "]now(-2m);3s["),
        ("a=[;_time=[now(-2m);3s];b", "[now(-2m);3s]"),
        ("_limit=1;_time=[now(-1h)..]", "[now(-1h)..]"),
        ("_time=[..];x]", "[..]"),
        ("_time=[now(-2m);3s=1]", "[now(-2m)"),
        ("_time=[now(-2m);x", "[now(-2m)"),
        ("_time;[..]", ""),
        ("_time", ""),
        ("x;y=1", None),
        ("", None),
    ],
)
def test_length_of_a_range_is_part_of_the_parameter(text: str, found: str | None) -> None:
    assert time_parameter(Parameters(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[now(-1h)..]", "[now(-1h)..]"),
        ("[now(-2m);3s]", "[now(-2m)..now(-117s)]"),
        ("]now();1.5m[", "]now()..now(90s)["),
        ("[now(-1h);1h]", "[now(-1h)..now(0s)]"),
        ("[now(-1d);250ms]", "[now(-1d)..now(-86399.75s)]"),
        ("[2026-01-01T00:00:00Z;1d]", "[2026-01-01T00:00:00Z..2026-01-02T00:00:00Z]"),
        ("[now(-1d);1e300]", "[now(-1d)..]"),
        ("[2026-01-01T00:00:00Z;5000w]", "[2026-01-01T00:00:00Z..]"),
        ("[2026-01-01T00:00:00.5Z;1ms]", "[2026-01-01T00:00:00.5Z..2026-01-01T00:00:00.501000Z]"),
    ],
)
def test_length_of_a_range_becomes_its_end(text: str, found: str) -> None:
    assert replace_length(text) == found
    given, made = TimeRange.parse(text, NOW), TimeRange.parse(found, NOW)
    assert (made.start, made.includes_start, made.includes_end) == (
        given.start,
        given.includes_start,
        given.includes_end,
    )
    assert made.end == pytest.approx(given.end) or (made.end > NTP64_MAX_SECONDS and given.end > NTP64_MAX_SECONDS)
