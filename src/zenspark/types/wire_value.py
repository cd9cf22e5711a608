"""Base class of public values: each wraps one value of the wire, under the name and with the methods of the API.

Received messages are wrapped with `from_wire`, and sent ones take the wire value back with `to_wire`. Nothing
is converted in between, so a value costs one small object however many properties it has.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, NoReturn, Self, TypeVar

W = TypeVar("W")


class WireValue(Generic[W]):
    """A value that never changes, and compares, hashes and pickles by the wire value inside."""

    __slots__ = ("_wire",)
    _wire: W

    @classmethod
    def from_wire(cls, wire: W) -> Self:
        """Internal: make it from the value that messages carry."""
        self = object.__new__(cls)
        object.__setattr__(self, "_wire", wire)
        return self

    def to_wire(self) -> W:
        """Internal: return the value that messages carry."""
        return self._wire

    def __eq__(self, other: object) -> bool:
        return self._wire == other._wire if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._wire)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} never changes: cannot set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} never changes: cannot delete {name}")

    def __reduce__(self) -> tuple[Callable[[W], Self], tuple[W]]:
        return type(self).from_wire, (self._wire,)


def rust_repr(value: object, **fields: object) -> str:
    """Format a value as eclipse-zenoh prints it, which logs and scripts expect: `Name { field: value }`."""
    formatted = ", ".join(f"{name}: {rust_repr_field(field)}" for name, field in fields.items())
    return f"{type(value).__name__} {{ {formatted} }}"


def rust_repr_field(field: object) -> str:
    """Format one field of a value for `rust_repr`."""
    if isinstance(field, bool):
        return str(field).lower()
    if isinstance(field, Enum):
        return field.name.title().replace("_", "")
    if isinstance(field, list):
        return f"[{', '.join(rust_repr_field(item) for item in field)}]"
    return str(field)
