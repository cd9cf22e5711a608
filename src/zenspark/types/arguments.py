"""Validation and conversion of arguments of public methods, with the errors that eclipse-zenoh raises."""

from __future__ import annotations

from enum import Enum
from operator import index
from typing import SupportsFloat, SupportsIndex, TypeVar

T = TypeVar("T")

MAX_TIMEOUT_SECONDS = float(1 << 53)
"""Longest timeout, in seconds: a float does not represent larger integers exactly."""

INFINITY = float("inf")

MAX_DECIMAL_DIGITS = 20
"""Most digits of a number in a query, those of 64 bits: Python raises ValueError for thousands of them."""


def require_type(kind: type[T], value: object) -> T:
    """Return the value if it is of that type; TypeError otherwise."""
    if isinstance(value, kind):
        return value
    raise TypeError(f"expected {_describe_type(kind)}, found {type(value).__name__!r}")


def _describe_type(kind: type) -> str:
    """Return the name of a type; of an enumeration with its members."""
    return f"{kind.__name__} ({', '.join(kind.__members__)})" if issubclass(kind, Enum) else kind.__name__


def require_type_or_default(kind: type[T], value: object, default: T) -> T:
    """Return the value if it is of that type, or the default for None; TypeError otherwise."""
    return default if value is None else require_type(kind, value)


def to_bool(value: object) -> bool:
    """Convert a bool, also one of numpy; None becomes False."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"expected bool, found {type(value).__name__!r}")


def to_timeout(value: object, default: float, *, endless: bool = False) -> float:
    """Convert a timeout in seconds; None becomes the default. Infinity is valid only with `endless`."""
    if value is None:
        return default
    if isinstance(value, str) or not isinstance(value, SupportsFloat):
        raise TypeError(f"expected a number of seconds, found {type(value).__name__!r}")
    number = float(value)
    if not 0 <= number <= MAX_TIMEOUT_SECONDS and not (endless and number == INFINITY):
        raise ValueError(f"expected a number of seconds from 0 on, found {number}")
    return number


def to_count(value: object, bits: int = 32) -> int:
    """Convert a count from 1 to 2^bits - 1; None becomes 0, which stands for any number."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"expected a whole number, found {type(value).__name__!r}")
    number = index(value)
    if not 0 < number < 1 << bits:
        raise ValueError(f"expected a number from 1 to {(1 << bits) - 1}, found {number}")
    return number


def parse_decimal(text: str, bits: int = 64) -> int | None:
    """Parse a whole number of at most `bits` bits that another node wrote; None if the text is no such number."""
    number = int(text) if text.isdecimal() and len(text) <= MAX_DECIMAL_DIGITS else None
    return None if number is None or number >> bits else number
