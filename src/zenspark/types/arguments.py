"""Arguments of the wrong type are refused where they are given, with the errors eclipse-zenoh raises for them."""

from __future__ import annotations

from enum import Enum
from operator import index
from typing import SupportsFloat, SupportsIndex, TypeVar

T = TypeVar("T")

MAX_TIMEOUT_SECONDS = float(1 << 53)
"""Seconds a time limit can have: more could not be counted exactly."""

INFINITY = float("inf")

MAX_DECIMAL_DIGITS = 20
"""Digits of the longest number a query may bring, that of 64 bits: Python raises ValueError for thousands of them."""


def require_type(kind: type[T], value: object) -> T:
    """The value, if it is of that type."""
    if isinstance(value, kind):
        return value
    raise TypeError(f"expected {_describe_type(kind)}, found {type(value).__name__!r}")


def _describe_type(kind: type) -> str:
    """Return the name of a type; of an enumeration with its members."""
    return f"{kind.__name__} ({', '.join(kind.__members__)})" if issubclass(kind, Enum) else kind.__name__


def require_type_or_default(kind: type[T], value: object, default: T) -> T:
    """The value, if it is of that type, or the default in place of None."""
    return default if value is None else require_type(kind, value)


def to_bool(value: object) -> bool:
    """True or False, numpy's as well; None is False."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"expected bool, found {type(value).__name__!r}")


def to_timeout(value: object, default: float, *, endless: bool = False) -> float:
    """A time limit; None is the default. Infinity is one only if it may be `endless`."""
    if value is None:
        return default
    if isinstance(value, str) or not isinstance(value, SupportsFloat):
        raise TypeError(f"expected a number of seconds, found {type(value).__name__!r}")
    number = float(value)
    if not 0 <= number <= MAX_TIMEOUT_SECONDS and not (endless and number == INFINITY):
        raise ValueError(f"expected a number of seconds from 0 on, found {number}")
    return number


def to_count(value: object, bits: int = 32) -> int:
    """A number of things, from 1 on, as far as so many bits can count; None is 0, for any number."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"expected a whole number, found {type(value).__name__!r}")
    number = index(value)
    if not 0 < number < 1 << bits:
        raise ValueError(f"expected a number from 1 to {(1 << bits) - 1}, found {number}")
    return number


def parse_decimal(text: str, bits: int = 64) -> int | None:
    """A whole number of so many bits, as another node writes it; None if the text is no such number."""
    number = int(text) if text.isdecimal() and len(text) <= MAX_DECIMAL_DIGITS else None
    return None if number is None or number >> bits else number
