"""Sizes, durations and numbers as people write and read them: `256MiB`, `90s`, `1h`, `12.3 k`."""

from __future__ import annotations

import re

from zenspark.errors import UsageError

SIZES = {"": 1, "B": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4} | {
    f"{letter}iB": 1 << (10 * (place + 1)) for place, letter in enumerate("KMGT")
}
DURATIONS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_MEASURE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def _measured(text: str, units: dict[str, float] | dict[str, int], what: str) -> float:
    found = _MEASURE.fullmatch(text)
    by_name = {name.lower(): factor for name, factor in units.items()}
    if found is None or found[2].lower() not in by_name:
        raise UsageError(f"expected {what}, found {text!r}")
    return float(found[1]) * by_name[found[2].lower()]


def size(text: str) -> int:
    """Bytes."""
    return int(_measured(text, SIZES, "a size such as 1000, 64KiB or 2GB"))


def number(text: str) -> int:
    """Of things."""
    if not text.isdigit():
        raise UsageError(f"expected a number, found {text!r}")
    return int(text)


def duration(text: str) -> float:
    """Seconds."""
    return _measured(text, DURATIONS, "a duration such as 10, 500ms, 90s, 5m, 1h or 7d")


def shown(number: float, unit: str = "") -> str:
    """Short: three digits and a letter."""
    for letter in ("", "k", "M", "G", "T"):
        if abs(number) < 1000 or letter == "T":
            text = f"{number:.0f}" if not letter else f"{number:.3g}"
            return f"{text} {letter}{unit}".strip()
        number /= 1000
    raise AssertionError("there is a last letter")
