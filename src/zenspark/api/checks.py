"""Arguments of the wrong type are refused where they are given, with the errors eclipse-zenoh raises for them."""

from __future__ import annotations

from typing import SupportsFloat, TypeVar

T = TypeVar("T")

LONGEST = float(1 << 53)
"""Seconds a time limit can have: more could not be counted exactly."""


def expect(kind: type[T], value: object) -> T:
    """The value, if it is of that type."""
    if isinstance(value, kind):
        return value
    raise TypeError(f"expected {kind.__name__}, found {type(value).__name__!r}")


def choice(kind: type[T], value: object, default: T) -> T:
    """The value, if it is of that type, or the default in place of None."""
    return default if value is None else expect(kind, value)


def flag(value: object) -> bool:
    """True or False, numpy's as well; None is False."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"expected bool, found {type(value).__name__!r}")


def seconds(value: object, default: float) -> float:
    """A time limit; None is the default."""
    if value is None:
        return default
    if isinstance(value, str) or not isinstance(value, SupportsFloat):
        raise TypeError(f"expected a number of seconds, found {type(value).__name__!r}")
    number = float(value)
    if not 0 <= number <= LONGEST:
        raise ValueError(f"expected a number of seconds from 0 on, found {number}")
    return number
