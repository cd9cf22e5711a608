"""Parses and formats sizes, durations and numbers: `256MiB`, `90s`, `1h`, `12.3 k`."""

from __future__ import annotations

import re

from zenspark.errors import UsageError

BYTES_PER_SIZE_SUFFIX = {"": 1, "B": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4} | {
    f"{letter}iB": 1 << (10 * (power + 1)) for power, letter in enumerate("KMGT")
}
SECONDS_PER_DURATION_SUFFIX = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
FOREVER = "forever"
"""Text of a duration that has no end."""
_MEASURE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def _parse(text: str, units: dict[str, float] | dict[str, int], what: str) -> float:
    match = _MEASURE.fullmatch(text)
    by_name = {name.lower(): factor for name, factor in units.items()}
    if match is None or match[2].lower() not in by_name:
        raise UsageError(f"expected {what}, found {text!r}")
    return float(match[1]) * by_name[match[2].lower()]


def parse_size(text: str) -> int:
    """Parse a size in bytes."""
    return int(_parse(text, BYTES_PER_SIZE_SUFFIX, "a size such as 1000, 64KiB or 2GB"))


def parse_number(text: str) -> int:
    """Parse a non-negative integer."""
    if not text.isdigit():
        raise UsageError(f"expected a number, found {text!r}")
    return int(text)


def parse_duration(text: str) -> float:
    """Parse a duration; returns seconds."""
    return _parse(text, SECONDS_PER_DURATION_SUFFIX, "a duration such as 10, 500ms, 90s, 5m, 1h or 7d")


def format_quantity(value: float, unit: str = "") -> str:
    """Format a value with three digits and an SI prefix."""
    for letter in ("", "k", "M", "G", "T"):
        if abs(value) < 1000 or letter == "T":
            text = f"{value:.0f}" if not letter else f"{value:.3g}"
            return f"{text} {letter}{unit}".strip()
        value /= 1000
    raise AssertionError("there is a last letter")


def format_size(value: int) -> str:
    """Format a size as it can be given to a flag: `256MiB`, `1000`."""
    for letter, power in (("T", 4), ("G", 3), ("M", 2), ("K", 1)):
        unit = 1 << (10 * power)
        if value >= unit and value % unit == 0:
            return f"{value // unit}{letter}iB"
    return str(value)


def format_duration(seconds: float) -> str:
    """Format a duration with its two largest units, as it can be read at a glance: `1h`, `2m 5s`, `250ms`."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    left = round(seconds)
    parts = []
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        if left >= length:
            parts.append(f"{left // length}{unit}")
            left %= length
    return " ".join(parts[:2]) or "0s"
