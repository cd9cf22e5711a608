"""Sizes, durations and numbers."""

from __future__ import annotations

import pytest

from zenspark.cli.units import format_duration, format_quantity, format_size, parse_duration, parse_number, parse_size
from zenspark.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1000", 1000), ("64KiB", 65536), ("64kib", 65536), ("1.5 MB", 1_500_000), ("2GiB", 2 << 30), ("1TiB", 1 << 40)],
)
def test_sizes_are_parsed(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10", 10), ("0.5", 0.5), ("500ms", 0.5), ("90s", 90), ("5m", 300), ("1h", 3600), ("7d", 604800)],
)
def test_durations_are_parsed(text: str, expected: float) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "x", "-1", "1 mile", "1h30m"])
def test_invalid_sizes_durations_and_numbers_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="expected a size"):
        parse_size(text)
    with pytest.raises(UsageError, match="expected a duration"):
        parse_duration(text)
    with pytest.raises(UsageError, match="expected a number"):
        parse_number(text)
    assert parse_number("12") == 12


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "", "0"),
        (999, "", "999"),
        (1234, "", "1.23 k"),
        (5.6e6, "B", "5.6 MB"),
        (12, "B", "12 B"),
        (3e15, "B", "3e+03 TB"),
    ],
)
def test_numbers_are_short(value: float, unit: str, text: str) -> None:
    assert format_quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1000, "1000"), (65536, "64KiB"), (268435456, "256MiB"), (1 << 30, "1GiB")]
)
def test_a_size_is_shown_as_flags_take_it(value: int, text: str) -> None:
    assert format_size(value) == text
    assert parse_size(text) == value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (5, "5s"), (125, "2m 5s"), (3600, "1h"), (90_061, "1d 1h"), (3_601, "1h 1s")],
)
def test_a_duration_is_shown_with_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
