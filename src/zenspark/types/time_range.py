"""The parameter `_time` of a query: the range of time of the samples to reply with.

`[2024-07-01T13:51:12Z..now(-5s)]`, `[now(-1h)..]`, `[now(-1h);30m]`. A bracket that faces the range includes its bound,
one that faces away leaves it out; an empty bound is none; `;`, which otherwise separates parameters, gives the length
of the range instead of its end. A start before 1970 and an end after 2106 bound nothing: no timestamp of Zenoh lies
beyond them.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from itertools import pairwise

import msgspec

from zenspark.clock import NANOS_PER_SECOND, NTP64_MAX_SECONDS
from zenspark.errors import UsageError
from zenspark.types.selector import Parameters
from zenspark.types.timestamps import EPOCH, parse_rfc3339_utc

_RANGE = re.compile(r"([\[\]])(.*?)(\.\.|;)(.*)([\[\]])")
_BRACKETS = ("[", "]")
_NOW = re.compile(r"now\((.*)\)")
_DURATION = re.compile(r"(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(u|ms|s|m|h|d|w)?")
_SECONDS = {"u": 1e-6, "ms": 1e-3, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


class TimeRange(msgspec.Struct, frozen=True):
    """A range of time in seconds since 1970."""

    start: float = -math.inf
    end: float = math.inf
    includes_start: bool = True
    """Whether the start itself belongs to it."""
    includes_end: bool = True

    @classmethod
    def parse(cls, text: str, now: float) -> TimeRange:
        """Parse the text of `_time`; `now()` in it is `now`, in seconds since 1970."""
        before, first, separator, second, after = _split(text)
        start = _parse_bound(first, now, -math.inf)
        end = start + _parse_duration(second) if separator == ";" else _parse_bound(second, now, math.inf)
        return cls(start, end, before == "[", after == "]")

    def __contains__(self, time: float) -> bool:
        is_late_enough = time >= self.start if self.includes_start else time > self.start
        return is_late_enough and (time <= self.end if self.includes_end else time < self.end)


def time_parameter(parameters: Parameters) -> str | None:
    """Return the parameter `_time`, whole: the `;` before a length does not end it."""
    text = parameters.get("_time")
    for (name, start), (length, rest) in pairwise(parameters):
        if name == "_time":
            is_open = start.startswith(_BRACKETS) and not start.endswith(_BRACKETS)
            return f"{start};{length}" if is_open and length.endswith(_BRACKETS) and not rest else start
    return text


def replace_length(text: str) -> str:
    """Return a range with its end in place of its length, as every implementation understands it in a selector."""
    before, first, separator, length, after = _split(text)
    if separator != ";":
        return text
    return f"{before}{first}..{_format_end(first, _parse_duration(length))}{after}"


def _format_end(start: str, seconds: float) -> str:
    """Format the end of a range from its start and length; empty if no timestamp lies beyond it."""
    if seconds >= NTP64_MAX_SECONDS:
        return ""
    relative = _NOW.fullmatch(start)
    if relative is not None:
        offset = (_parse_duration(relative[1]) if relative[1] else 0.0) + seconds
        return f"now({round(offset, 6):.15g}s)"
    end = _parse_seconds(start) + seconds
    if end >= NTP64_MAX_SECONDS:
        return ""
    return (EPOCH + timedelta(seconds=max(end, 0.0))).isoformat().replace("+00:00", "Z")


def _split(text: str) -> tuple[str, str, str, str, str]:
    """Split a range into bracket, start, separator, end or length, bracket."""
    parts = _RANGE.fullmatch(text)
    if parts is None:
        raise UsageError(f"expected a range of time such as [now(-5s)..], found {text!r}")
    before, first, separator, second, after = parts.groups()
    if separator == ";" and not first:
        raise UsageError(f"expected a start before the length of a range of time, found {text!r}")
    return before, first, separator, second, after


def _parse_bound(text: str, now: float, default: float) -> float:
    if not text:
        return default
    relative = _NOW.fullmatch(text)
    if relative is None:
        return _drop_unreachable_bound(_parse_seconds(text), default)
    return now + (_parse_duration(relative[1]) if relative[1] else 0.0)


def _parse_seconds(text: str) -> float:
    try:
        seconds, nanoseconds = parse_rfc3339_utc(text)
    except ValueError:
        raise UsageError(f"expected a time such as 2024-07-01T13:51:12.129693Z, found {text!r}") from None
    return seconds + nanoseconds / NANOS_PER_SECOND


def _drop_unreachable_bound(seconds: float, default: float) -> float:
    """Return a bound, or the default if every timestamp is within the bound."""
    includes_all = seconds < 0 if default < 0 else seconds >= NTP64_MAX_SECONDS
    return default if includes_all else seconds


def _parse_duration(text: str) -> float:
    parts = _DURATION.fullmatch(text)
    if parts is None:
        raise UsageError(f"expected a duration such as 5s, found {text!r}")
    return float(parts[1]) * _SECONDS[parts[2]]
